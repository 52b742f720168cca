//! From text to index terms: words, stop words, stems.

mod dates;
mod english;
mod language;
mod telling;
mod words;

pub(crate) use dates::AskedDate;
pub(crate) use language::Analyzer;
pub use language::Language;
pub(crate) use telling::Telling;
pub(crate) use words::{asks, fold, token_estimate, words};
