//! Integration tests of the product, one binary.

mod air_gap; // no socket but by `models pull`
mod answer; // from a conversation to an answer, on the real models
mod broken_input; // one clear line, exit code 1, nothing written
mod eval; // recall, scores, a run that goes on
mod fixture; // what the tests share
mod interrupted; // killed ingest and pull
mod layers; // no crate depends on one above it
mod memory_plan; // the loaded model keeps to its plan
mod readme; // the README's commands exist and are what CI runs
mod style; // file length, lint exceptions
