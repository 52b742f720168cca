//! Constrained decoding: which tokens may come next so that the reply satisfies a schema, an expression or a
//! list of choices.
//!
//! The grammar work is `llguidance`'s: an Earley parser over a lexer of regular-expression derivatives, walked
//! along a trie of the vocabulary's bytes. This module gives it our tokenizer, fixes its options, keeps compiled
//! grammars and turns its failures into [`engine_contract::EngineError`].
//!
//! Knows token bytes and grammars; does not know logits, sampling or requests.

mod compiler;
mod grammar;
mod mask;
mod matcher;
#[cfg(test)]
mod tests;
mod vocabulary;

pub use compiler::GrammarCompiler;
pub use mask::TokenMask;
pub use matcher::Matcher;
