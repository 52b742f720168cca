//! Finding the turns that answer a question.

mod bm25;
mod config;
mod dense;
mod dot;
mod fusion;
mod graph;
mod interaction;
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

pub use config::{Fusion, LateInteraction, Neighbours, RankingConfig, Vocabulary};
pub use searcher::Searcher;
