//! A grammar and how far one reply has come in it.

use std::fmt;

use engine_contract::EngineError;

use super::TokenMask;
use super::grammar::invalid;

/// The state of one constrained reply.
///
/// The caller's loop: [`Matcher::forced`] (append each and [`Matcher::commit`] it), then [`Matcher::mask`], sample,
/// [`Matcher::commit`], until an end token is sampled or [`Matcher::is_complete`].
pub struct Matcher {
    inner: llguidance::Matcher,
    end_tokens: Vec<u32>,
    mask: TokenMask,
}

impl Matcher {
    pub(super) fn new(inner: llguidance::Matcher, end_tokens: Vec<u32>) -> Self {
        Self {
            inner,
            end_tokens,
            mask: TokenMask::from_ids(0, &[]),
        }
    }

    /// Another reply from the same state, independent of this one.
    pub(super) fn fork(&self) -> Self {
        Self::new(self.inner.deep_clone(), self.end_tokens.clone())
    }

    /// The tokens that may come next. End tokens are among them exactly when the reply may end here; they are the
    /// only ones once the reply is complete.
    ///
    /// # Errors
    /// [`EngineError::InvalidConstraint`] when nothing may follow (the constraint contradicts itself here) or the
    /// grammar outgrows the parser's limits.
    pub fn mask(&mut self) -> Result<&TokenMask, EngineError> {
        let set = self
            .inner
            .compute_mask_or_eos()
            .map_err(|error| invalid(reason(&error)))?;
        self.mask = TokenMask::from_vob(set);
        Ok(&self.mask)
    }

    /// Takes the token that was appended to the reply.
    ///
    /// # Errors
    /// [`EngineError::InvalidConstraint`] when the token may not follow.
    pub fn commit(&mut self, token: u32) -> Result<(), EngineError> {
        if self.is_complete() && self.end_tokens.contains(&token) {
            return Ok(());
        }
        self.inner
            .consume_token(token)
            .map_err(|error| invalid(reason(&error)))
    }

    /// The tokens that must follow, as the model's tokenizer would write them; often empty. They are not yet
    /// committed. A token that could still merge with what the model chooses next is not forced.
    pub fn forced(&mut self) -> Vec<u32> {
        if self.is_complete() {
            Vec::new()
        } else {
            self.inner.compute_ff_tokens()
        }
    }

    /// Whether the reply may end here.
    pub fn accepts(&mut self) -> bool {
        self.is_complete() || self.inner.is_accepting().unwrap_or(false)
    }

    /// Whether the reply satisfies the constraint and nothing but its end can follow.
    #[must_use]
    pub fn is_complete(&self) -> bool {
        self.inner.is_stopped() && self.inner.stop_reason().is_ok()
    }
}

impl fmt::Debug for Matcher {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Matcher")
            .field("complete", &self.is_complete())
            .field("end_tokens", &self.end_tokens)
            .finish_non_exhaustive()
    }
}

/// The first line of `llguidance`'s message; the rest is its internal state.
pub(super) fn reason(error: &dyn fmt::Display) -> String {
    let text = error.to_string();
    let line = text
        .lines()
        .find(|line| !line.trim().is_empty())
        .unwrap_or("no reason given");
    match line {
        "NoExtensionBias" => "it contradicts itself: no text can continue the reply here".to_owned(),
        line => line.to_owned(),
    }
}
