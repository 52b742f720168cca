//! The handle of one loaded model.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Sender, channel};
use std::thread::JoinHandle;

use engine_contract::{
    EngineError, EngineStats, GenerationRequest, GenerationSink, LanguageModel, ModelInfo, Prompt, Ticket,
};
use kernels::{BLOCK_TOKENS, Cpu};
use weights::{Gguf, ModelFiles};

use crate::LoadError;
use crate::config::EngineConfig;
use crate::constraint::GrammarCompiler;
use crate::kv::KvCache;
use crate::lookup::PromptLookup;
use crate::model_text::ModelText;
use crate::prompt::PromptEncoder;
use crate::qwen2::{Qwen2, Tiling, safetensors_in};
use crate::request::{Prepared, Request};
use crate::runner::{Qwen2Runner, Runner};
use crate::sampling::Sampler;
use crate::scheduler::{Limits, Scheduler, blocks_for};
use crate::snapshot::{self, Fingerprint};
use crate::text::TextStream;
use crate::worker::{Message, Shared, Worker};

/// A loaded language model with its own thread, serving many requests at once.
///
/// Dropping it fails what still runs with [`EngineError::ShutDown`] and waits for the thread.
#[derive(Debug)]
pub struct Engine {
    info: ModelInfo,
    prompts: PromptEncoder,
    grammars: Arc<GrammarCompiler>,
    config: EngineConfig,
    memory: Memory,
    fingerprint: Fingerprint,
    shared: Arc<Shared>,
    sender: Sender<Message>,
    worker: Option<JoinHandle<()>>,
    next_id: AtomicU64,
}

/// The KV budget in blocks.
#[derive(Debug, Clone, Copy)]
struct Memory {
    blocks: u32,
    bytes_per_block: usize,
}

/// Cached blocks of a prompt that stay until this is dropped.
#[derive(Debug)]
pub struct PrefixLease {
    id: u64,
    rows: usize,
    sender: Sender<Message>,
}

impl PrefixLease {
    /// Leading tokens of the prompt that are held, a multiple of 16.
    #[must_use]
    pub fn tokens(&self) -> usize {
        self.rows
    }
}

impl Drop for PrefixLease {
    fn drop(&mut self) {
        // Without an engine there is nothing to release.
        let _ = self.sender.send(Message::EndLease(self.id));
    }
}

impl Engine {
    /// Loads a model, GGUF or a Hugging Face folder of safetensors, and starts its thread.
    ///
    /// # Errors
    /// [`LoadError`] names the bad setting, the file or the tensor.
    pub fn load(files: &ModelFiles, config: EngineConfig) -> Result<Self, LoadError> {
        config.validate()?;
        let cpu = Arc::new(Cpu::new(config.threads)?);
        Self::load_on(cpu, files, config)
    }

    /// As [`Engine::load`], on a processor shared with others; `config.threads` is not used.
    ///
    /// # Errors
    /// As [`Engine::load`].
    pub fn load_on(cpu: Arc<Cpu>, files: &ModelFiles, config: EngineConfig) -> Result<Self, LoadError> {
        config.validate()?;
        let tiling = Tiling {
            policy: config.weights,
            cache: config.tile_cache,
        };
        let (model, text, paths) = if files.is_gguf() {
            let path = files.gguf()?;
            let gguf = Arc::new(Gguf::open(&path)?);
            let (text, model) = side_by_side(
                || ModelText::from_gguf(&gguf),
                || Qwen2::load(Arc::clone(&gguf), cpu, tiling),
            )?;
            (model, text, vec![path])
        } else {
            let folder = &files.folder;
            let (text, model) = side_by_side(
                || ModelText::from_folder(folder),
                || Qwen2::load_folder(folder, cpu, tiling),
            )?;
            (model, text, safetensors_in(folder)?)
        };
        let fingerprint = Fingerprint::of_files(&paths, &model, &config)?;
        Self::start(files.name.clone(), (model, text), fingerprint, config)
    }

    /// An engine around a model that is already in memory, such as [`Qwen2::dummy`].
    ///
    /// # Errors
    /// [`LoadError::InvalidConfig`], or [`LoadError::Thread`].
    pub fn with_model(
        name: &str,
        model: Qwen2,
        text: ModelText,
        config: EngineConfig,
    ) -> Result<Self, LoadError> {
        config.validate()?;
        let fingerprint = Fingerprint::of_name(name, &model, &config);
        Self::start(name.to_owned(), (model, text), fingerprint, config)
    }

    fn start(
        name: String,
        (model, text): (Qwen2, ModelText),
        fingerprint: Fingerprint,
        config: EngineConfig,
    ) -> Result<Self, LoadError> {
        let shape = model.shape();
        let info = ModelInfo {
            name,
            context_tokens: config
                .context_tokens
                .map_or(shape.context_tokens, |limit| limit.min(shape.context_tokens)),
            vocabulary: shape.vocabulary,
        };
        let bytes_per_block = model.kv_layout(config.kv_dtype).bytes_per_block();
        let memory = Memory::within(config.kv_bytes, bytes_per_block)?;
        let shared = Arc::new(Shared::new(EngineStats {
            kv_bytes_budget: u64::from(memory.blocks) * bytes_per_block as u64,
            weight_bytes: model.weight_bytes(),
            ..EngineStats::default()
        }));
        let cpu = Arc::clone(model.cpu());
        let runner = Qwen2Runner::new(model, config.kv_dtype, memory.blocks as usize)?;
        let (sender, worker) = spawn(runner, cpu, (&config, memory), &shared)?;
        let tokenizer = Arc::new(text.tokenizer);
        Ok(Self {
            grammars: Arc::new(GrammarCompiler::new(Arc::clone(&tokenizer))),
            prompts: PromptEncoder::new(tokenizer, text.template, info.vocabulary),
            info,
            config,
            memory,
            fingerprint,
            shared,
            sender,
            worker: Some(worker),
            next_id: AtomicU64::new(0),
        })
    }

    /// Begins, on a thread of its own, what the first constrained request would wait for (0.3 s for 152k tokens).
    pub fn prepare_constraints(&self) {
        let grammars = Arc::clone(&self.grammars);
        let prepare = move || {
            if let Err(error) = grammars.prepare() {
                // The first constrained request meets the same error and reports it.
                tracing::debug!(%error, "constraints cannot be prepared");
            }
        };
        if let Err(error) = std::thread::Builder::new().name("grammars".into()).spawn(prepare) {
            tracing::debug!(%error, "no thread to prepare constraints");
        }
    }

    /// Keeps what the cache holds of a prompt from eviction, at most half of the whole budget.
    ///
    /// # Errors
    /// [`EngineError::Prompt`] when the prompt cannot be rendered, [`EngineError::ShutDown`].
    pub fn lease(&self, prompt: &Prompt, namespace: u64) -> Result<PrefixLease, EngineError> {
        let tokens = self.prompts.encode(prompt)?;
        let id = self.next_id();
        let rows = self.ask(|reply| Message::Lease {
            id,
            namespace,
            tokens,
            reply,
        })?;
        Ok(PrefixLease {
            id,
            rows,
            sender: self.sender.clone(),
        })
    }

    /// Writes the most recently used cached prefixes to a file, at most `max_bytes` of them, so that a later
    /// process begins warm. The file appears whole or not at all. Returns the tokens written.
    ///
    /// # Errors
    /// [`LoadError::Io`] names the file.
    pub fn save_prefixes(&self, path: &Path, max_bytes: u64) -> Result<usize, LoadError> {
        let blocks = usize::try_from(max_bytes).unwrap_or(usize::MAX) / self.memory.bytes_per_block;
        let saved = self
            .ask(|reply| Message::Export { blocks, reply })
            .unwrap_or_default();
        snapshot::write(path, &self.fingerprint, &saved)?;
        Ok(saved.iter().map(|block| block.tokens.len()).sum())
    }

    /// Reads what [`Engine::save_prefixes`] wrote. A file that is absent, damaged, or of another model, setting or
    /// version of the program is ignored. Returns the blocks taken.
    pub fn load_prefixes(&self, path: &Path) -> usize {
        if !self.config.prefix_cache {
            return 0;
        }
        match snapshot::read(path, &self.fingerprint, self.memory.bytes_per_block) {
            Ok(blocks) if blocks.is_empty() => 0,
            Ok(blocks) => self.ask(|reply| Message::Import { blocks, reply }).unwrap_or(0),
            Err(reason) => {
                tracing::warn!(path = %path.display(), reason, "the prefix snapshot is ignored");
                0
            }
        }
    }

    fn ask<T>(&self, message: impl FnOnce(Sender<T>) -> Message) -> Result<T, EngineError> {
        let (reply, answer) = channel();
        self.sender
            .send(message(reply))
            .map_err(|_| EngineError::ShutDown)?;
        answer.recv().map_err(|_| EngineError::ShutDown)
    }

    fn next_id(&self) -> u64 {
        self.next_id.fetch_add(1, Ordering::Relaxed)
    }

    /// Whether the context and the KV budget can hold the request at all.
    fn check_size(&self, prompt: usize, max_tokens: usize) -> Result<(), EngineError> {
        let limit_tokens = self.info.context_tokens.saturating_sub(max_tokens);
        if prompt > limit_tokens {
            return Err(EngineError::PromptTooLong {
                limit_tokens,
                actual_tokens: prompt,
                max_tokens,
            });
        }
        let tokens = prompt + max_tokens;
        let blocks = blocks_for(tokens);
        if blocks > self.memory.blocks as usize {
            return Err(EngineError::NeverFits {
                tokens,
                bytes_per_token: self.memory.bytes_per_block / BLOCK_TOKENS,
                needed_bytes: blocks as u64 * self.memory.bytes_per_block as u64,
                budget_bytes: u64::from(self.memory.blocks) * self.memory.bytes_per_block as u64,
            });
        }
        Ok(())
    }

    fn prepare(&self, request: &GenerationRequest) -> Result<Prepared, EngineError> {
        if request.max_tokens == 0 {
            return Err(EngineError::InvalidRequest {
                field: "max_tokens",
                received: "0".into(),
                expected: "at least 1".into(),
            });
        }
        let prompt = self.prompts.encode(&request.prompt)?;
        self.check_size(prompt.len(), request.max_tokens)?;
        Ok(Prepared {
            id: self.next_id(),
            prompt,
            sampler: Sampler::new(&request.sampling)?.with_logprobs(request.logprobs),
            matcher: self.grammars.matcher(&request.constraint)?,
            text: TextStream::new(&request.stop)?,
            lookup: PromptLookup::new(self.config.draft_tokens),
            tokenizer: Arc::clone(self.prompts.tokenizer()),
        })
    }
}

/// Runs both at once; the first error of either.
fn side_by_side<A: Send, B>(
    first: impl FnOnce() -> Result<A, LoadError> + Send,
    second: impl FnOnce() -> Result<B, LoadError>,
) -> Result<(A, B), LoadError> {
    std::thread::scope(|scope| {
        let first = scope.spawn(first);
        let second = second()?;
        match first.join() {
            Ok(first) => Ok((first?, second)),
            Err(panic) => std::panic::resume_unwind(panic),
        }
    })
}

impl Memory {
    fn within(budget: u64, bytes_per_block: usize) -> Result<Self, LoadError> {
        let blocks = u32::try_from(budget / bytes_per_block as u64).unwrap_or(u32::MAX);
        if blocks == 0 {
            return Err(LoadError::InvalidConfig {
                field: "kv_bytes",
                received: budget.to_string(),
                expected: format!("at least one block of {bytes_per_block} bytes"),
            });
        }
        Ok(Self {
            blocks,
            bytes_per_block,
        })
    }
}

fn spawn(
    runner: impl Runner + 'static,
    cpu: Arc<Cpu>,
    (config, memory): (&EngineConfig, Memory),
    shared: &Arc<Shared>,
) -> Result<(Sender<Message>, JoinHandle<()>), LoadError> {
    let limits = Limits {
        batch_tokens: config.max_batch_tokens,
        sequences: config.max_sequences,
        overtakes: config.max_overtakes,
        draft_rows: config.draft_tokens + 1,
    };
    let scheduler = Scheduler::new(limits, KvCache::new(memory.blocks, config.prefix_cache));
    let worker = Worker::new(runner, cpu, scheduler, Arc::clone(shared));
    let (sender, receiver) = channel();
    let thread = std::thread::Builder::new()
        .name("engine".into())
        .spawn(move || worker.run(&receiver))
        .map_err(|source| LoadError::Thread { source })?;
    Ok((sender, thread))
}

impl LanguageModel for Engine {
    fn info(&self) -> &ModelInfo {
        &self.info
    }

    fn count_tokens(&self, prompt: &Prompt) -> Result<usize, EngineError> {
        Ok(self.prompts.encode(prompt)?.len())
    }

    fn submit(
        &self,
        request: GenerationRequest,
        sink: Box<dyn GenerationSink>,
    ) -> Result<Ticket, EngineError> {
        let prepared = self.prepare(&request)?;
        let id = prepared.id;
        let capacity = self.config.queue_capacity;
        if !self.shared.enter(capacity) {
            return Err(EngineError::QueueFull { capacity });
        }
        let request = Box::new(Request::new(prepared, &request, sink));
        self.sender
            .send(Message::Submit(request))
            .map_err(|_| EngineError::ShutDown)?;
        let sender = self.sender.clone();
        Ok(Ticket::new(move || {
            // An engine that is gone has ended the request already.
            let _ = sender.send(Message::Cancel(id));
        }))
    }

    fn stats(&self) -> EngineStats {
        self.shared.stats().clone()
    }
}

impl Drop for Engine {
    fn drop(&mut self) {
        // The thread is gone already if this fails; joining tells nothing more.
        let _ = self.sender.send(Message::Stop);
        if self.worker.take().is_some_and(|worker| worker.join().is_err()) {
            tracing::error!("the engine's thread panicked");
        }
    }
}
