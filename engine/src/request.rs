//! One request on its way from submission to its reply.

use std::sync::Arc;
use std::time::Instant;

use engine_contract::{
    EngineError, FinishReason, Generation, GenerationRequest, GenerationSink, TokenLogprob, Usage,
};
use kernels::Cpu;
use weights::Tokenizer;

use crate::constraint::Matcher;
use crate::lookup::PromptLookup;
use crate::sampling::{Sampler, token_logprob};
use crate::scheduler::{Sequence, SequenceId};
use crate::text::TextStream;

/// A request that has passed every check.
pub(crate) struct Request {
    pub(crate) id: SequenceId,
    pub(crate) prompt: Vec<u32>,
    pub(crate) namespace: u64,
    max_tokens: usize,
    logprobs: Option<usize>,
    sampler: Sampler,
    matcher: Option<Matcher>,
    text: TextStream,
    lookup: PromptLookup,
    tokenizer: Arc<Tokenizer>,
    sink: Box<dyn GenerationSink>,
    reply: Reply,
    times: Times,
}

#[derive(Debug, Default)]
struct Reply {
    tokens: Vec<u32>,
    logprobs: Vec<TokenLogprob>,
    /// 1 when an end token was sampled, which is counted but not part of the reply.
    end_tokens: usize,
}

#[derive(Debug)]
struct Times {
    submitted: Instant,
    started: Option<Instant>,
    first_token: Option<Instant>,
}

/// What a request does next.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Step {
    /// New tokens of the reply, in order.
    pub(crate) tokens: Vec<u32>,
    /// How many of them were drafted, and so have KV rows already.
    pub(crate) accepted: usize,
    /// Why the reply is complete, when it is.
    pub(crate) finish: Option<FinishReason>,
}

/// What the engine adds to a request to make it run.
pub(crate) struct Prepared {
    pub(crate) id: SequenceId,
    pub(crate) prompt: Vec<u32>,
    pub(crate) sampler: Sampler,
    pub(crate) matcher: Option<Matcher>,
    pub(crate) text: TextStream,
    pub(crate) lookup: PromptLookup,
    pub(crate) tokenizer: Arc<Tokenizer>,
}

impl Request {
    pub(crate) fn new(
        prepared: Prepared,
        request: &GenerationRequest,
        sink: Box<dyn GenerationSink>,
    ) -> Self {
        Self {
            id: prepared.id,
            prompt: prepared.prompt,
            namespace: request.namespace,
            max_tokens: request.max_tokens,
            logprobs: request.logprobs,
            sampler: prepared.sampler,
            matcher: prepared.matcher,
            text: prepared.text,
            lookup: prepared.lookup,
            tokenizer: prepared.tokenizer,
            sink,
            reply: Reply::default(),
            times: Times {
                submitted: Instant::now(),
                started: None,
                first_token: None,
            },
        }
    }

    /// Tokens of prompt and reply together, at most.
    pub(crate) fn max_rows(&self) -> usize {
        self.prompt.len() + self.max_tokens
    }

    /// Notes that the first forward pass begins.
    pub(crate) fn start(&mut self) {
        self.times.started.get_or_insert_with(Instant::now);
    }

    /// The tokens that the constraint forces at the very beginning; they go in with the prompt.
    pub(crate) fn begin(&mut self) -> Result<Step, EngineError> {
        let mut step = Step::default();
        self.force(&mut step)?;
        Ok(step)
    }

    /// Chooses tokens from rows of logits `[1 + draft.len(), vocabulary]`, which are overwritten: one from the first
    /// row, and one from each further row as long as the draft before it turned out right. Tokens that the constraint
    /// forces are appended without looking at logits.
    pub(crate) fn advance(
        &mut self,
        cpu: &Cpu,
        logits: &mut [f32],
        draft: &[u32],
    ) -> Result<Step, EngineError> {
        // Tokens forced before the first logits came without any work.
        self.times.first_token.get_or_insert_with(Instant::now);
        let vocabulary = logits.len() / (draft.len() + 1);
        let mut step = Step::default();
        while step.finish.is_none() && step.tokens.len() == step.accepted {
            let row = &mut logits[step.tokens.len() * vocabulary..][..vocabulary];
            self.choose(cpu, row, &mut step)?;
            step.accepted = step
                .tokens
                .iter()
                .zip(draft)
                .take_while(|(token, guess)| token == guess)
                .count();
        }
        if !draft.is_empty() {
            self.lookup
                .note(step.accepted, self.prompt.len() + self.reply.tokens.len());
        }
        Ok(step)
    }

    /// A guess at what follows the sequence's `tokens`.
    pub(crate) fn draft(&mut self, tokens: &[u32]) -> Vec<u32> {
        // The last token of a reply needs no row.
        let left = self.max_tokens - self.reply.tokens.len();
        self.lookup.propose(tokens, left.saturating_sub(1))
    }

    /// Takes one token, and those that are forced after it.
    fn choose(&mut self, cpu: &Cpu, logits: &mut [f32], step: &mut Step) -> Result<(), EngineError> {
        if let Some((token, alternatives)) = self.forced().first().copied().zip(self.logprobs) {
            self.reply
                .logprobs
                .push(token_logprob(cpu, logits, token, alternatives));
            return self.take(token, step);
        }
        let mask = self.matcher.as_mut().map(Matcher::mask).transpose()?;
        let sampled = self.sampler.sample(cpu, logits, mask, &self.reply.tokens)?;
        if self.tokenizer.end_tokens().contains(&sampled.token) {
            self.reply.end_tokens = 1;
            step.finish = Some(FinishReason::End);
            return Ok(());
        }
        self.reply.logprobs.extend(sampled.logprob);
        self.take(sampled.token, step)?;
        self.force(step)
    }

    /// Takes the tokens that must follow. Where logprobs are wanted, every token needs logits of its own, and
    /// nothing is forced ahead.
    fn force(&mut self, step: &mut Step) -> Result<(), EngineError> {
        if self.logprobs.is_none() && step.finish.is_none() {
            for token in self.forced() {
                self.take(token, step)?;
                if step.finish.is_some() {
                    break;
                }
            }
        }
        Ok(())
    }

    fn forced(&mut self) -> Vec<u32> {
        self.matcher.as_mut().map(Matcher::forced).unwrap_or_default()
    }

    /// Appends a token to the reply.
    fn take(&mut self, token: u32, step: &mut Step) -> Result<(), EngineError> {
        step.tokens.push(token);
        self.reply.tokens.push(token);
        if let Some(matcher) = &mut self.matcher {
            matcher.commit(token)?;
        }
        let delta = self
            .text
            .push(self.tokenizer.token_bytes(token).unwrap_or_default());
        if !delta.is_empty() {
            self.sink.on_text(delta);
        }
        step.finish = if self.text.stopped() {
            Some(FinishReason::Stop)
        } else if self.matcher.as_ref().is_some_and(Matcher::is_complete) {
            Some(FinishReason::End)
        } else if self.reply.tokens.len() >= self.max_tokens {
            Some(FinishReason::Length)
        } else {
            None
        };
        Ok(())
    }

    /// Hands the reply, or the reason why there is none, to the sink.
    pub(crate) fn end(mut self, outcome: Result<FinishReason, EngineError>, usage: Usage) {
        let finish = match outcome {
            Ok(finish) => finish,
            Err(error) => return self.refuse(error),
        };
        let delta = self.text.finish();
        if !delta.is_empty() {
            self.sink.on_text(delta);
        }
        let generation = Generation {
            text: self.text.into_text(),
            tokens: self.reply.tokens,
            finish,
            usage,
            logprobs: self.logprobs.map(|_| self.reply.logprobs),
        };
        self.sink.on_done(Ok(generation));
    }

    /// Tells the sink that there will be no reply.
    pub(crate) fn refuse(self, error: EngineError) {
        self.sink.on_done(Err(error));
    }

    /// What the request has cost so far.
    pub(crate) fn usage(&self, sequence: &Sequence) -> Usage {
        let now = Instant::now();
        let started = self.times.started.unwrap_or(now);
        let first_token = self.times.first_token.unwrap_or(now);
        Usage {
            prompt_tokens: self.prompt.len(),
            cached_tokens: Some(sequence.cached_rows.unwrap_or(0)),
            computed_tokens: Some(sequence.computed_rows),
            generated_tokens: self.reply.tokens.len() + self.reply.end_tokens,
            queue: started - self.times.submitted,
            prefill: first_token.saturating_duration_since(started),
            decode: now.saturating_duration_since(first_token),
        }
    }
}
