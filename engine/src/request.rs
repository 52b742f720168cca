//! One request on its way from submission to its reply.

use std::sync::Arc;
use std::time::Instant;

use engine_contract::{
    EngineError, FinishReason, Generation, GenerationRequest, GenerationSink, TokenLogprob, Usage,
};
use kernels::Cpu;
use weights::Tokenizer;

use crate::constraint::Matcher;
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
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Next {
    /// These tokens go through the model.
    Continue(Vec<u32>),
    /// The reply is complete.
    Finish(FinishReason),
}

/// What the engine adds to a request to make it run.
pub(crate) struct Prepared {
    pub(crate) id: SequenceId,
    pub(crate) prompt: Vec<u32>,
    pub(crate) sampler: Sampler,
    pub(crate) matcher: Option<Matcher>,
    pub(crate) text: TextStream,
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
    pub(crate) fn begin(&mut self) -> Result<Next, EngineError> {
        self.force(Vec::new())
    }

    /// Chooses the next token from its logits `[vocabulary]`, which are overwritten, and appends those that the
    /// constraint forces after it.
    pub(crate) fn advance(&mut self, cpu: &Cpu, logits: &mut [f32]) -> Result<Next, EngineError> {
        if let Some((token, alternatives)) = self.forced().first().copied().zip(self.logprobs) {
            self.reply
                .logprobs
                .push(token_logprob(cpu, logits, token, alternatives));
            return Ok(match self.take(token)? {
                Some(reason) => Next::Finish(reason),
                None => Next::Continue(vec![token]),
            });
        }
        let mask = self.matcher.as_mut().map(Matcher::mask).transpose()?;
        let sampled = self.sampler.sample(cpu, logits, mask, &self.reply.tokens)?;
        if self.tokenizer.end_tokens().contains(&sampled.token) {
            self.note_token();
            self.reply.end_tokens = 1;
            return Ok(Next::Finish(FinishReason::End));
        }
        self.reply.logprobs.extend(sampled.logprob);
        match self.take(sampled.token)? {
            Some(reason) => Ok(Next::Finish(reason)),
            None => self.force(vec![sampled.token]),
        }
    }

    /// Takes the tokens that must follow, and appends them to `tokens`. Where logprobs are wanted, every token
    /// needs logits of its own, and nothing is forced ahead.
    fn force(&mut self, mut tokens: Vec<u32>) -> Result<Next, EngineError> {
        if self.logprobs.is_none() {
            for token in self.forced() {
                tokens.push(token);
                if let Some(reason) = self.take(token)? {
                    return Ok(Next::Finish(reason));
                }
            }
        }
        Ok(Next::Continue(tokens))
    }

    fn forced(&mut self) -> Vec<u32> {
        self.matcher.as_mut().map(Matcher::forced).unwrap_or_default()
    }

    /// Appends a token to the reply and says whether that ends it.
    fn take(&mut self, token: u32) -> Result<Option<FinishReason>, EngineError> {
        self.note_token();
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
        Ok(if self.text.stopped() {
            Some(FinishReason::Stop)
        } else if self.matcher.as_ref().is_some_and(Matcher::is_complete) {
            Some(FinishReason::End)
        } else if self.reply.tokens.len() >= self.max_tokens {
            Some(FinishReason::Length)
        } else {
            None
        })
    }

    fn note_token(&mut self) {
        self.times.first_token.get_or_insert_with(Instant::now);
    }

    /// Hands the reply to the sink.
    pub(crate) fn finish(mut self, finish: FinishReason, sequence: &Sequence) -> Usage {
        let usage = self.usage(Some(sequence));
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
        usage
    }

    /// Tells the sink that there will be no reply.
    pub(crate) fn fail(self, error: EngineError, sequence: Option<&Sequence>) -> Usage {
        let usage = self.usage(sequence);
        self.sink.on_done(Err(error));
        usage
    }

    fn usage(&self, sequence: Option<&Sequence>) -> Usage {
        let now = Instant::now();
        let Times {
            submitted,
            started,
            first_token,
        } = self.times;
        let started = started.unwrap_or(now);
        let first_token = first_token.unwrap_or(now);
        Usage {
            prompt_tokens: self.prompt.len(),
            cached_tokens: sequence.map(|sequence| sequence.cached_rows.unwrap_or(0)),
            computed_tokens: sequence.map(|sequence| sequence.computed_rows),
            generated_tokens: self.reply.tokens.len() + self.reply.end_tokens,
            queue: started - submitted,
            prefill: first_token.saturating_duration_since(started),
            decode: now.saturating_duration_since(first_token),
        }
    }
}
