//! Finding the turns that answer a question.

mod bm25;
mod dense;
mod fusion;
mod searcher;
mod snapshot;

pub use searcher::Searcher;
