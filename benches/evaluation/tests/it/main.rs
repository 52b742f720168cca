//! The metrics against the values that the official scorers give.

/// Files: data sets, predictions, what is refused and why.
mod files;
/// Golden vectors of F1, BLEU-1 and the stemmer.
mod golden;
/// Prediction files of other projects, label errors.
mod import;
/// Gold never reaches the system under test.
mod leak;
/// What reports hold.
mod report;
/// Evidence recall, LongMemEval's retrieval metrics, bootstrap intervals.
mod retrieval;
/// The sample conversation and its questions keep their format.
mod sample;
