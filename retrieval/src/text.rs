//! From text to index terms: words, stop words, stems.

mod dates;
mod english;
mod language;
mod words;

pub(crate) use dates::AskedDate;
pub(crate) use language::Analyzer;
pub use language::Language;
pub(crate) use words::{asks, token_estimate, words};
