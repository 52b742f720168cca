//! Where engine, retrieval and agents meet: loads what a command needs.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context, Result};
use engine::{Engine, EngineConfig, Precision, load_embedder};
use engine_contract::Embedder;
use kernels::Cpu;
use retrieval::{ConversationId, Memory, Searcher, namespace_folder};
use weights::ModelStore;

use crate::cli::ModelArgs;

const MIB: u64 = 1024 * 1024;
/// Cached prefixes kept between runs beside a memory: rules and conversation card take a few MiB.
const PREFIX_BYTES: u64 = 64 * MIB;
const PREFIXES: &str = "prefixes";

/// A language model with the file that keeps its cached prefixes between runs.
pub(crate) struct Loaded {
    pub(crate) engine: Engine,
    prefixes: Option<PathBuf>,
}

impl Loaded {
    /// Keeps the cached prefixes for the next run; a failure costs time, not answers.
    pub(crate) fn keep_prefixes(&self) {
        let Some(path) = &self.prefixes else { return };
        if let Err(error) = self.engine.save_prefixes(path, PREFIX_BYTES) {
            tracing::warn!(%error, "the prefix cache is not kept for the next run");
        }
    }
}

/// The compute context that language model and embedder share.
pub(crate) fn cpu(threads: Option<usize>) -> Result<Arc<Cpu>> {
    Ok(Arc::new(Cpu::new(threads)?))
}

/// Loads the language model; with a memory, cached prefixes of earlier runs are taken in.
pub(crate) fn language_model(cpu: Arc<Cpu>, args: &ModelArgs, memory: Option<&Path>) -> Result<Loaded> {
    let files = ModelStore::from_env()?.locate(&args.model)?;
    let config = EngineConfig {
        threads: args.threads,
        kv_bytes: args.kv_mib.saturating_mul(MIB),
        prefix_cache: !args.no_prefix_cache,
        draft_tokens: args.draft_tokens,
        ..EngineConfig::default()
    };
    let engine = Engine::load_on(cpu, &files, config)
        .with_context(|| format!("the language model {} cannot be loaded", args.model))?;
    let prefixes = memory
        .filter(|_| !args.no_prefix_cache)
        .map(|folder| folder.join(PREFIXES).join(format!("{}.kv", files.name)));
    if memory.is_some() {
        // The agents' replies are forced into schemas; searching comes first and leaves the time.
        engine.prepare_constraints();
    }
    if let Some(path) = &prefixes {
        engine.load_prefixes(path);
    }
    Ok(Loaded { engine, prefixes })
}

/// Loads an embedder.
pub(crate) fn embedder(cpu: Arc<Cpu>, name: &str) -> Result<Arc<dyn Embedder>> {
    let files = ModelStore::from_env()?.locate(name)?;
    load_embedder(&files, cpu, Precision::default())
        .with_context(|| format!("the embedder {name} cannot be loaded"))
}

/// As [`embedder`], on a compute context of its own; `None` for no name and for `none`.
pub(crate) fn optional_embedder(
    threads: Option<usize>,
    name: Option<&str>,
) -> Result<Option<Arc<dyn Embedder>>> {
    let name = name.filter(|name| *name != "none");
    name.map(|name| embedder(cpu(threads)?, name)).transpose()
}

/// The folder of a memory, or of a namespace in it.
pub(crate) fn folder(memory: &Path, namespace: Option<&str>) -> Result<PathBuf> {
    Ok(match namespace {
        Some(name) => namespace_folder(memory, name)?,
        None => memory.to_owned(),
    })
}

/// Removes the cached prefixes that are kept beside a memory.
pub(crate) fn forget_prefixes(memory: &Path) -> Result<()> {
    let folder = memory.join(PREFIXES);
    match std::fs::remove_dir_all(&folder) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            Err(error).with_context(|| format!("{} cannot be removed", folder.display()))
        }
        _ => Ok(()),
    }
}

/// Opens a memory with the embedder it was made with.
pub(crate) fn searcher(cpu: Arc<Cpu>, memory: &Path, conversation: Option<&str>) -> Result<Searcher> {
    let memory = Memory::open(memory)?;
    let embedder = memory
        .embedder()
        .map(|info| embedder(cpu, &info.name))
        .transpose()?;
    let searcher = Searcher::new(memory, embedder)?;
    Ok(match conversation {
        Some(id) => searcher.within(&ConversationId::new(id))?,
        None => searcher,
    })
}
