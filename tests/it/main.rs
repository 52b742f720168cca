//! Integration tests of the product, one binary.

mod air_gap; // no socket but by `models pull`
mod broken_input; // one clear line, exit code 1, nothing written
mod fixture; // what the tests share
mod layers; // no crate depends on one above it
mod readme; // the README's commands exist and are what CI runs
mod style; // file length, lint exceptions
