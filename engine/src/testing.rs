//! What the unit tests of several modules share.

use std::path::Path;

use weights::{ChatTemplate, Tokenizer};

use crate::ModelText;

/// Entries of the test tokenizer's vocabulary: 256 bytes, 4 merges, 3 control tokens.
pub(crate) const VOCABULARY: usize = 263;

/// A byte-level tokenizer and a ChatML template.
pub(crate) fn text() -> ModelText {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/bytes");
    ModelText {
        tokenizer: Tokenizer::from_file(folder.join("tokenizer.json")).unwrap(),
        template: Some(ChatTemplate::from_tokenizer_config(folder.join("tokenizer_config.json")).unwrap()),
    }
}
