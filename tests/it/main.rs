//! Integration tests of the product, one binary.

mod layers; // no crate depends on one above it
mod style; // file length, lint exceptions
