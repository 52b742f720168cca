//! Finding the turns that answer a question.

mod bm25;
mod config;
mod dense;
mod fusion;
mod kernel;
mod priors;
mod question;
mod ranking;
mod rows;
mod searcher;
mod snapshot;
#[cfg(test)]
mod tests;
mod vocabulary;

pub use config::{Fusion, Neighbours, RankingConfig, Vocabulary};
pub use searcher::Searcher;
