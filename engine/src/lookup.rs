//! Drafts by prompt lookup: what followed the last few tokens when they last occurred.
//!
//! Saxena, "Prompt Lookup Decoding" (2023); the checking is that of Leviathan, Kalman and Matias, "Fast Inference
//! from Transformers via Speculative Decoding" (2023), in the special case of a draft without probabilities: a drafted
//! token stands when it is the one that would have been chosen anyway. Suits replies that quote their prompt. Knows
//! token ids; does not know models, logits or requests.

use std::collections::HashMap;

/// Tokens that must agree before a draft is worth its rows.
const GRAM: usize = 2;
/// Accepted tokens per draft below which drafting stops for a while: a pass over a draft costs up to twice a pass over
/// one row (1.5B, 800 tokens of context).
const WORTHWHILE: f32 = 1.0;
/// Share of the newest draft in the average.
const WEIGHT: f32 = 0.2;
/// Tokens generated before drafting is tried again; twice as many when it fails again, up to the longest.
const PAUSE: usize = 32;
const LONGEST_PAUSE: usize = 128;

/// Guesses at one sequence's continuation.
#[derive(Debug)]
pub(crate) struct PromptLookup {
    /// Most drafted tokens at once; 0 turns it off.
    longest: usize,
    /// Where the token after each pair of tokens is, the latest occurrence.
    after: HashMap<[u32; GRAM], usize>,
    /// Tokens whose pairs are in `after`.
    indexed: usize,
    /// Accepted tokens per draft, a moving average.
    accepted: f32,
    /// No drafts before the sequence has this many tokens.
    resume: usize,
    /// Length of the next pause.
    pause: usize,
}

impl PromptLookup {
    pub(crate) fn new(longest: usize) -> Self {
        Self {
            longest,
            after: HashMap::new(),
            indexed: 0,
            accepted: WORTHWHILE,
            resume: 0,
            pause: PAUSE,
        }
    }

    /// A guess at what follows `tokens`, often empty. `tokens` must extend those of the last call.
    pub(crate) fn propose(&mut self, tokens: &[u32], most: usize) -> Vec<u32> {
        let most = most.min(self.longest);
        if most == 0 || tokens.len() < self.resume.max(GRAM) {
            return Vec::new();
        }
        // The last pair is what is looked up: it enters only once something follows it.
        for end in self.indexed.max(GRAM)..tokens.len() {
            self.after.insert(gram_before(tokens, end), end);
        }
        self.indexed = tokens.len();
        let Some(&start) = self.after.get(&gram_before(tokens, tokens.len())) else {
            return Vec::new();
        };
        tokens[start..tokens.len().min(start + most)].to_vec()
    }

    /// Learns how many tokens of a draft stood.
    pub(crate) fn note(&mut self, accepted: usize, tokens: usize) {
        self.accepted += WEIGHT * (accepted as f32 - self.accepted);
        if self.accepted < WORTHWHILE {
            self.accepted = WORTHWHILE;
            self.resume = tokens + self.pause;
            self.pause = LONGEST_PAUSE.min(2 * self.pause);
        } else {
            self.pause = PAUSE;
        }
    }
}

fn gram_before(tokens: &[u32], end: usize) -> [u32; GRAM] {
    let mut gram = [0; GRAM];
    gram.copy_from_slice(&tokens[end - GRAM..end]);
    gram
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_latest_occurrence_is_copied() {
        let mut lookup = PromptLookup::new(3);
        let tokens = [1, 2, 10, 11, 12, 13, 1, 2, 20, 21, 5, 1, 2];
        assert_eq!(lookup.propose(&tokens, 9), [20, 21, 5]);
        assert_eq!(lookup.propose(&tokens, 1), [20]);
        assert_eq!(lookup.propose(&[&tokens[..], &[20]].concat(), 9), [21, 5, 1]);
    }

    #[test]
    fn a_sequence_that_repeats_itself_is_continued_as_far_as_it_goes() {
        let mut lookup = PromptLookup::new(8);
        assert_eq!(lookup.propose(&[4, 4, 4], 8), [4]);
        assert!(lookup.propose(&[4, 4, 4, 9], 8).is_empty());
    }

    #[test]
    fn drafting_pauses_when_drafts_fail() {
        let mut lookup = PromptLookup::new(3);
        let tokens = [1, 2, 3, 1, 2];
        lookup.note(0, tokens.len());
        assert!(lookup.propose(&tokens, 3).is_empty());
        let later = [tokens.to_vec(), (100..130).collect(), vec![1, 2]].concat();
        assert_eq!(lookup.propose(&later, 3), [100, 101, 102]);
        // The next pause is longer; a draft that pays makes it short again.
        lookup.note(0, later.len());
        let later = [later, [1, 2].repeat(20)].concat();
        assert!(lookup.propose(&later, 3).is_empty());
        lookup.note(3, later.len());
        assert_eq!(lookup.pause, PAUSE);
    }
}
