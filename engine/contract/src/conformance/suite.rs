//! Requests, replies and comparisons that the checks share.

use std::cell::Cell;
use std::sync::mpsc::{Receiver, channel};

use crate::{EngineError, Generation, GenerationRequest, LanguageModel, Prompt};

/// How large the checks' requests are.
#[derive(Debug, Clone, Copy)]
pub struct Options {
    /// Tokens of a shared stem; four times as many plus `new_tokens` must fit the context and the KV budget.
    pub stem_tokens: usize,
    /// New tokens per request.
    pub new_tokens: usize,
    /// Requests at once.
    pub batch: usize,
    /// Prompts sent at most to push another one out of the cache; 0 where the cache is too large to fill.
    pub flood: usize,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            stem_tokens: 90,
            new_tokens: 12,
            batch: 6,
            flood: 200,
        }
    }
}

/// The outcome of every check.
#[derive(Debug, Clone)]
pub struct Report {
    /// Name of the property, and the counterexample where there is one.
    pub results: Vec<(&'static str, Result<(), String>)>,
}

impl Report {
    /// Ends quietly when every check passed.
    ///
    /// # Panics
    /// With every counterexample.
    pub fn assert_passed(&self) {
        let failed: Vec<String> = self
            .results
            .iter()
            .filter_map(|(name, result)| result.as_ref().err().map(|reason| format!("{name}: {reason}")))
            .collect();
        assert!(
            failed.is_empty(),
            "{} checks failed:\n{}",
            failed.len(),
            failed.join("\n")
        );
    }
}

/// A model under test.
#[derive(Clone)]
pub struct Suite<'a> {
    pub(super) model: &'a dyn LanguageModel,
    pub(super) options: Options,
    namespace: Cell<u64>,
    random: Cell<u64>,
}

impl std::fmt::Debug for Suite<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Suite")
            .field("model", self.model.info())
            .finish_non_exhaustive()
    }
}

/// What two runs of one request must agree on.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Outcome {
    pub(super) tokens: Vec<u32>,
    logprob_bits: Vec<u32>,
}

impl From<&Generation> for Outcome {
    fn from(generation: &Generation) -> Self {
        let logprobs = generation.logprobs.iter().flatten();
        Self {
            tokens: generation.tokens.clone(),
            logprob_bits: logprobs.map(|entry| entry.logprob.to_bits()).collect(),
        }
    }
}

pub(super) type Reply = Receiver<Result<Generation, EngineError>>;

impl<'a> Suite<'a> {
    pub(super) fn new(model: &'a dyn LanguageModel, options: Options) -> Self {
        Self {
            model,
            options,
            // Far from the namespaces that applications use.
            namespace: Cell::new(0xC0F0_0000_0000),
            random: Cell::new(7),
        }
    }

    /// A namespace that no request has used.
    pub(super) fn fresh(&self) -> u64 {
        self.namespace.set(self.namespace.get() + 1);
        self.namespace.get()
    }

    /// Random token ids (SplitMix64).
    pub(super) fn tokens(&self, count: usize) -> Vec<u32> {
        let vocabulary = self.model.info().vocabulary as u64;
        (0..count)
            .map(|_| {
                let state = self.random.get().wrapping_add(0x9E37_79B9_7F4A_7C15);
                self.random.set(state);
                let z = (state ^ (state >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
                let z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
                ((z ^ (z >> 31)) % vocabulary) as u32
            })
            .collect()
    }

    /// A greedy request with log-probabilities.
    pub(super) fn request(&self, namespace: u64, prompt: &[u32]) -> GenerationRequest {
        GenerationRequest {
            namespace,
            logprobs: Some(2),
            ..GenerationRequest::new(Prompt::Tokens(prompt.to_vec()), self.options.new_tokens)
        }
    }

    pub(super) fn generate(&self, request: &GenerationRequest) -> Result<Generation, String> {
        self.model
            .generate(request.clone())
            .map_err(|error| error.to_string())
    }

    /// Runs a prompt in a namespace.
    pub(super) fn run(&self, namespace: u64, prompt: &[u32]) -> Result<Generation, String> {
        self.generate(&self.request(namespace, prompt))
    }

    /// What a prompt gives where nothing is cached.
    pub(super) fn fresh_outcome(&self, prompt: &[u32]) -> Result<Outcome, String> {
        self.run(self.fresh(), prompt)
            .map(|generation| Outcome::from(&generation))
    }

    /// Submits a request that runs to its end.
    pub(super) fn send(&self, request: GenerationRequest) -> Result<Reply, String> {
        let (sender, receiver) = channel();
        let sink = Box::new(move |result| {
            // A check that has failed already listens no more.
            let _ = sender.send(result);
        });
        self.model
            .submit(request, sink)
            .map_err(|error| error.to_string())?
            .detach();
        Ok(receiver)
    }

    /// Submits all requests, then waits for all.
    pub(super) fn together(&self, requests: Vec<GenerationRequest>) -> Result<Vec<Generation>, String> {
        let replies = requests
            .into_iter()
            .map(|request| self.send(request))
            .collect::<Result<Vec<_>, _>>()?;
        replies.iter().map(wait).collect()
    }
}

pub(super) fn wait(reply: &Reply) -> Result<Generation, String> {
    let result = reply.recv().map_err(|_| "the reply never came".to_owned())?;
    result.map_err(|error| error.to_string())
}

/// Passes when both are equal.
pub(super) fn same<T: PartialEq + std::fmt::Debug>(
    what: &str,
    expected: &T,
    received: &T,
) -> Result<(), String> {
    if expected == received {
        Ok(())
    } else {
        Err(format!("{what}: expected {expected:?}, received {received:?}"))
    }
}

/// Passes when `condition` holds.
pub(super) fn ensure(condition: bool, reason: impl FnOnce() -> String) -> Result<(), String> {
    if condition { Ok(()) } else { Err(reason()) }
}
