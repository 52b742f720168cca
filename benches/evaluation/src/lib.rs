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
//! A run asks [`Asked`] questions, which hold no gold, through a [`Runner`], keeps every answer in a [`RunFolder`], and
//! measures it afterwards as an [`Item`]. What a perfect run could not prove is left to judges ([`Rules`]).
//!
//! This crate does not know how a method works inside, which model or store serves it, or on what machine.

mod asked;
mod audit;
mod bleu;
mod bootstrap;
mod compare;
mod dataset;
mod draw;
mod error;
mod evidence;
mod f1;
mod gold;
mod history;
mod history_retrieval;
mod import;
mod item;
mod judge;
mod judgements;
mod locomo;
mod longmemeval;
mod porter;
mod predictions;
mod punkt;
mod question;
mod record;
mod report;
mod retrieval_run;
mod run_folder;
mod runner;
mod sample;
mod scores;
mod short;
mod significance;
mod table;
mod text;
mod treebank;

pub use asked::Asked;
pub use audit::{Audit, Ceiling};
pub use bleu::{bleu1, bleu1_tokens};
pub use bootstrap::{Interval, PairedDifference, Resampling, bootstrap_mean, paired_bootstrap};
pub use compare::{Comparison, Difference, Flip, compare};
pub use dataset::Dataset;
pub use draw::{draw, draw_stratified};
pub use error::EvaluationError;
pub use evidence::{evidence_recall, repair_evidence};
pub use f1::{f1_locomo, f1_set, f1_tokens};
pub use gold::Gold;
pub use history::{HistoryKind, HistoryQuestion, disguise, read_histories};
pub use history_retrieval::{Corpus, HistoryRetrieval, HistoryRetrievalReport, OfficialTable};
pub use import::{import_predictions, parse_any_predictions};
pub use item::{Item, Metric, measure, measure_history};
pub use judge::{Agreement, Case, HandLabel, Rules, hand_labels, judge, judge_items};
pub use judgements::Judgements;
pub use longmemeval::{
    Granularity, RetrievalScores, UserTurns, corpus_ids, is_scored, retrieval_scores, session_scores_of_turns,
};
pub use porter::porter_stem;
pub use predictions::{Prediction, parse_predictions, read_predictions};
pub use question::{Category, Question};
pub use record::{Price, Record};
pub use report::{Axis, Cost, Measured, Report, Variant, html, markdown};
pub use retrieval_run::{RecallTable, RetrievalReport, evaluate_retrieval};
pub use run_folder::{Description, FinishedRun, RunFolder, Session, trace_name};
pub use runner::{Ended, Runner};
pub use scores::{QuestionScore, ScoreOptions, Scores, Summary, score};
pub use short::{contains_gold, declines, exact_match};
pub use significance::{McNemar, mcnemar, sign_flip};
pub use table::{Abstention, Cell, Row, Table};
pub use treebank::word_tokenize;
