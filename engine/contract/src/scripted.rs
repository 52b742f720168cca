//! A scripted language model and a deterministic embedder, for tests of the loop. Never a measurement.

use std::collections::VecDeque;
use std::fmt;
use std::sync::{Mutex, PoisonError};

use crate::{
    EmbedKind, Embedder, EmbedderInfo, EngineError, EngineStats, FinishReason, Generation, GenerationRequest,
    GenerationSink, LanguageModel, ModelInfo, Prompt, TextVectors, Ticket, Usage,
};

type Script = dyn FnMut(&GenerationRequest) -> Result<String, EngineError> + Send;

/// A language model that answers from a script and remembers what it was asked.
pub struct ScriptedModel {
    info: ModelInfo,
    script: Mutex<Box<Script>>,
    requests: Mutex<Vec<GenerationRequest>>,
}

impl ScriptedModel {
    /// A model whose replies come from a function of the request.
    pub fn new(
        script: impl FnMut(&GenerationRequest) -> Result<String, EngineError> + Send + 'static,
    ) -> Self {
        Self {
            info: ModelInfo {
                name: "scripted".into(),
                context_tokens: 32_768,
                vocabulary: 256,
            },
            script: Mutex::new(Box::new(script)),
            requests: Mutex::new(Vec::new()),
        }
    }

    /// A model that gives these replies in order, then fails.
    #[must_use]
    pub fn replies(replies: impl IntoIterator<Item = &'static str>) -> Self {
        let mut left: VecDeque<&str> = replies.into_iter().collect();
        Self::new(move |_| {
            left.pop_front().map(str::to_owned).ok_or(EngineError::Backend {
                backend: "scripted".into(),
                reason: "the script has no reply left".into(),
            })
        })
    }

    /// The requests received so far, in order.
    pub fn requests(&self) -> Vec<GenerationRequest> {
        self.requests
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }
}

impl fmt::Debug for ScriptedModel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ScriptedModel")
            .field("info", &self.info)
            .finish_non_exhaustive()
    }
}

fn text_of(prompt: &Prompt) -> String {
    match prompt {
        Prompt::Chat(messages) => messages.iter().map(crate::Message::text).collect(),
        Prompt::Text(text) => text.clone(),
        Prompt::Tokens(ids) => " ".repeat(ids.len()),
    }
}

impl LanguageModel for ScriptedModel {
    fn info(&self) -> &ModelInfo {
        &self.info
    }

    /// A quarter of the bytes, rounded up.
    fn count_tokens(&self, prompt: &Prompt) -> Result<usize, EngineError> {
        Ok(text_of(prompt).len().div_ceil(4))
    }

    fn submit(
        &self,
        request: GenerationRequest,
        mut sink: Box<dyn GenerationSink>,
    ) -> Result<Ticket, EngineError> {
        let prompt_tokens = self.count_tokens(&request.prompt)?;
        let reply = (self.script.lock().unwrap_or_else(PoisonError::into_inner))(&request);
        self.requests
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .push(request);
        let result = reply.map(|text| Generation {
            tokens: text.bytes().map(u32::from).collect(),
            finish: FinishReason::End,
            usage: Usage {
                prompt_tokens,
                computed_tokens: Some(prompt_tokens),
                cached_tokens: Some(0),
                generated_tokens: text.len(),
                ..Usage::default()
            },
            logprobs: None,
            text,
        });
        if let Ok(generation) = &result {
            sink.on_text(&generation.text);
        }
        sink.on_done(result);
        Ok(Ticket::new(|| {}))
    }

    fn stats(&self) -> EngineStats {
        EngineStats::default()
    }
}

/// An embedder that hashes lower-case words into a unit vector: equal words, near vectors.
#[derive(Debug, Clone)]
pub struct HashEmbedder {
    info: EmbedderInfo,
}

impl HashEmbedder {
    /// An embedder of this dimension.
    #[must_use]
    pub fn new(dimension: usize) -> Self {
        Self {
            info: EmbedderInfo {
                name: "hash".into(),
                dimension,
                normalised: true,
                max_tokens: usize::MAX,
            },
        }
    }

    fn vector(&self, text: &str) -> Vec<f32> {
        let mut vector = vec![0.0f32; self.info.dimension];
        for word in words(text) {
            let hash = hash(word);
            vector[(hash % self.info.dimension as u64) as usize] += if hash >> 63 == 0 { 1.0 } else { -1.0 };
        }
        let norm = vector.iter().map(|v| v * v).sum::<f32>().sqrt();
        if norm > 0.0 {
            vector.iter_mut().for_each(|v| *v /= norm);
        } else {
            vector[0] = 1.0;
        }
        vector
    }

    /// A direction of its own for every word: equal values, signs drawn from the word's hash.
    fn token(&self, word: &str) -> impl Iterator<Item = f32> {
        let value = 1.0 / (self.info.dimension as f32).sqrt();
        let mut state = hash(word) | 1;
        (0..self.info.dimension).map(move |_| {
            // Xorshift (Marsaglia, 2003).
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            if state >> 63 == 0 { value } else { -value }
        })
    }
}

fn words(text: &str) -> impl Iterator<Item = &str> {
    text.split(|c: char| !c.is_alphanumeric())
        .filter(|w| !w.is_empty())
}

/// FNV-1a of the word in lower case: stable across runs and platforms.
fn hash(word: &str) -> u64 {
    word.to_lowercase()
        .bytes()
        .fold(0xcbf2_9ce4_8422_2325u64, |h, b| {
            (h ^ u64::from(b)).wrapping_mul(0x0100_0000_01b3)
        })
}

impl Embedder for HashEmbedder {
    fn info(&self) -> &EmbedderInfo {
        &self.info
    }

    fn embed(&self, texts: &[&str], _kind: EmbedKind) -> Result<Vec<Vec<f32>>, EngineError> {
        Ok(texts.iter().map(|text| self.vector(text)).collect())
    }

    fn embed_tokens(&self, texts: &[&str], _kind: EmbedKind) -> Result<Vec<TextVectors>, EngineError> {
        let vectors = texts.iter().map(|text| TextVectors {
            text: self.vector(text),
            tokens: words(text).flat_map(|word| self.token(word)).collect(),
        });
        Ok(vectors.collect())
    }
}
