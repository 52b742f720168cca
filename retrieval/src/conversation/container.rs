//! The documents that a file holds: itself, or the entries of a zip, also of a zip in a zip. Gzip and byte order marks are undone.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use flate2::bufread::MultiGzDecoder;
use zip::ZipArchive;

use crate::RetrievalError;

pub(super) const BUFFER: usize = 1 << 16;
/// A zip in a zip in a zip is opened, one in that is not.
const MAX_DEPTH: usize = 2;
const GZIP_MAGIC: [u8; 2] = [0x1f, 0x8b];
const ZIP_MAGIC: [u8; 4] = *b"PK\x03\x04";
const EMPTY_ZIP_MAGIC: [u8; 4] = *b"PK\x05\x06";
const BYTE_ORDER_MARK: [u8; 3] = [0xef, 0xbb, 0xbf];

/// A file whose documents can be read any number of times from the start.
pub(super) struct Container {
    path: PathBuf,
    content: Content,
}

enum Content {
    Single,
    Zip {
        archives: Vec<ZipArchive<Arc<File>>>,
        entries: Vec<Entry>,
    },
}

/// Where a zip's entry lies.
struct Entry {
    name: String,
    archive: usize,
    index: usize,
}

impl Container {
    pub(super) fn open(path: &Path) -> Result<Self, RetrievalError> {
        let fail = |source| unreadable(path, source);
        let mut file = File::open(path).map_err(fail)?;
        if file.metadata().is_ok_and(|data| data.is_dir()) {
            let source = io::Error::new(io::ErrorKind::IsADirectory, "it is a folder");
            return Err(unreadable(path, source));
        }
        let mut content = Content::Single;
        if is_zip(&mut file).map_err(fail)? {
            let (mut archives, mut entries) = (Vec::new(), Vec::new());
            list(file, "", &mut archives, &mut entries).map_err(fail)?;
            content = Content::Zip { archives, entries };
        }
        Ok(Self {
            path: path.to_owned(),
            content,
        })
    }

    /// Names of a zip's files, in its order; `None` when the file is no zip.
    pub(super) fn entries(&self) -> Option<impl Iterator<Item = &str>> {
        match &self.content {
            Content::Single => None,
            Content::Zip { entries, .. } => Some(entries.iter().map(|entry| entry.name.as_str())),
        }
    }

    /// How a document is called in messages: the file, or `file: entry`.
    pub(super) fn display(&self, index: usize) -> PathBuf {
        match &self.content {
            Content::Single => self.path.clone(),
            Content::Zip { entries, .. } => {
                let name = entries.get(index).map_or("", |entry| entry.name.as_str());
                PathBuf::from(format!("{}: {name}", self.path.display()))
            }
        }
    }

    /// What a conversation is called that does not name itself: the document's name without folders and endings. A lone
    /// `_chat.txt` is called like its zip.
    pub(super) fn stem(&self, index: usize) -> String {
        let outer = || {
            self.path
                .file_name()
                .unwrap_or_default()
                .to_string_lossy()
                .into_owned()
        };
        let name = match &self.content {
            Content::Single => outer(),
            Content::Zip { entries, .. } => {
                let name = entries.get(index).map_or("", |entry| entry.name.as_str());
                let name = name
                    .rsplit('/')
                    .find(|part| *part != "_chat.txt")
                    .unwrap_or_default();
                if name.is_empty() { outer() } else { name.to_owned() }
            }
        };
        let endings = [".gz", ".zip", ".txt", ".jsonl", ".ndjson", ".json"];
        let mut stem = name.as_str();
        let lower = |text: &str| text.to_ascii_lowercase();
        while let Some(ending) = endings.iter().find(|ending| lower(stem).ends_with(**ending)) {
            stem = &stem[..stem.len() - ending.len()];
        }
        if stem.is_empty() {
            "conversation".into()
        } else {
            stem.to_owned()
        }
    }

    /// The document's text from its start. A file that is no zip has the one document 0.
    pub(super) fn read(&mut self, index: usize) -> Result<Box<dyn BufRead + '_>, RetrievalError> {
        let display = self.display(index);
        let raw: Box<dyn Read + '_> = match &mut self.content {
            Content::Single => Box::new(File::open(&self.path).map_err(|e| unreadable(&display, e))?),
            Content::Zip { archives, entries } => {
                let entry = &entries[index];
                let file = archives[entry.archive].by_index(entry.index);
                Box::new(file.map_err(|error| unreadable(&display, error.into()))?)
            }
        };
        text(raw).map_err(|error| unreadable(&display, error))
    }
}

fn is_zip(file: &mut File) -> io::Result<bool> {
    let mut magic = [0; 4];
    let mut read = 0;
    while read < 4 {
        match file.read(&mut magic[read..])? {
            0 => break,
            n => read += n,
        }
    }
    file.seek(SeekFrom::Start(0))?;
    Ok(magic == ZIP_MAGIC || magic == EMPTY_ZIP_MAGIC)
}

/// Adds an archive's files to `entries`, those of a zip in it with its name before theirs.
fn list(
    file: File,
    prefix: &str,
    archives: &mut Vec<ZipArchive<Arc<File>>>,
    entries: &mut Vec<Entry>,
) -> io::Result<()> {
    let number = archives.len();
    let mut archive = ZipArchive::new(Arc::new(file))?;
    let mut inner = Vec::new();
    let mut own = Vec::new();
    for index in 0..archive.len() {
        let name = match archive.name_for_index(index) {
            Some(name) => format!("{prefix}{}", name?),
            None => continue,
        };
        if name.ends_with('/') {
            continue;
        }
        if name.to_lowercase().ends_with(".zip") && prefix.matches(".zip/").count() < MAX_DEPTH {
            let mut unpacked = tempfile::tempfile()?;
            io::copy(&mut archive.by_index(index)?, &mut unpacked)?;
            if is_zip_from_start(&mut unpacked)? {
                inner.push((name, unpacked));
                continue;
            }
        }
        own.push(Entry {
            name,
            archive: number,
            index,
        });
    }
    archives.push(archive);
    entries.append(&mut own);
    for (name, file) in inner {
        list(file, &format!("{name}/"), archives, entries)?;
    }
    Ok(())
}

fn is_zip_from_start(file: &mut File) -> io::Result<bool> {
    file.seek(SeekFrom::Start(0))?;
    is_zip(file)
}

/// Text: gzip undone, byte order mark removed.
fn text<'a>(raw: impl Read + 'a) -> io::Result<Box<dyn BufRead + 'a>> {
    let mut raw = BufReader::with_capacity(BUFFER, raw);
    let mut text: Box<dyn BufRead + 'a> = if raw.fill_buf()?.starts_with(&GZIP_MAGIC) {
        Box::new(BufReader::with_capacity(BUFFER, MultiGzDecoder::new(raw)))
    } else {
        Box::new(raw)
    };
    if text.fill_buf()?.starts_with(&BYTE_ORDER_MARK) {
        text.consume(BYTE_ORDER_MARK.len());
    }
    Ok(text)
}

pub(super) fn unreadable(path: &Path, source: io::Error) -> RetrievalError {
    RetrievalError::UnreadableFile {
        path: path.to_owned(),
        source,
    }
}
