//! Integration tests of the product, one binary.

mod air_gap; // no socket but by `models pull`
mod answer; // from a conversation to an answer, on the real models
mod broken_input; // one clear line, exit code 1, nothing written
mod eval; // recall, scores, a run that goes on
mod fixture; // what the tests share
mod full_disk; // no space left
mod interrupted; // killed ingest and pull
mod killed; // kill -9 at random points
mod large_file; // a file larger than the memory that reads it
mod layers; // no crate depends on one above it
mod memory; // the life of a memory, without a model
mod memory_plan; // the loaded model keeps to its plan
mod readme; // the README's commands exist and are what CI runs
mod style; // file length, lint exceptions
