//! Measures that others can check: data sets, answer metrics, retrieval metrics, intervals.
//!
//! Every metric equals the scorer that the field uses, to the letter; the doc of each says which. Data sets
//! are read from the user's own files, none is part of this crate.
//!
//! ```
//! use evaluation::{Category, bleu1, f1_locomo, f1_set};
//!
//! assert_eq!(f1_locomo("May 7, 2023", "7 May 2023", Category::Temporal), 1.0);
//! assert!((f1_locomo("May 7, 2023", "7 May 2023", Category::MultiHop) - 0.8).abs() < 1e-12);
//! assert_eq!(f1_set("Sweden's", "Sweden"), 0.0);
//! assert_eq!(bleu1("May 7, 2023", "7 May 2023"), 0.75);
//! ```
//!
//! This crate does not know models, prompts, stores or how an answer came about.

mod bleu;
mod bootstrap;
mod dataset;
mod error;
mod evidence;
mod f1;
mod locomo;
mod longmemeval;
mod porter;
mod predictions;
mod punkt;
mod question;
mod retrieval_run;
mod sample;
mod scores;
mod text;
mod treebank;

pub use bleu::{bleu1, bleu1_tokens};
pub use bootstrap::{Interval, PairedDifference, Resampling, bootstrap_mean, paired_bootstrap};
pub use dataset::Dataset;
pub use error::EvaluationError;
pub use evidence::{evidence_recall, repair_evidence};
pub use f1::{f1_locomo, f1_set, f1_tokens};
pub use longmemeval::{
    Granularity, RetrievalScores, UserTurns, corpus_ids, is_scored, retrieval_scores, session_scores_of_turns,
};
pub use porter::porter_stem;
pub use predictions::{Prediction, parse_predictions, read_predictions};
pub use question::{Category, Question};
pub use retrieval_run::{RecallTable, RetrievalReport, evaluate_retrieval};
pub use scores::{QuestionScore, ScoreOptions, Scores, Summary, score};
pub use treebank::word_tokenize;
