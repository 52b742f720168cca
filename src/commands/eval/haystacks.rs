//! LongMemEval's histories: a memory for each question, made when it is asked and left on disk, few open at once.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

use anyhow::{Context, Result};
use engine_contract::Embedder;
use evaluation::{Asked, disguise};
use kernels::Cpu;
use retrieval::{ConversationId, Memory, Searcher, read_conversations};

use super::answers::{Memories, Ready};
use super::embedding_cache::CachedEmbedder;
use super::locomo;
use crate::assemble;
use crate::cli::{LongmemevalArgs, Ranking};
use crate::commands::ingest;

/// Memories open at once: each holds its index of a few hundred turns while it is searched.
const AT_ONCE: usize = 8;
/// Says in a memory's folder that its history is whole.
const COMPLETE: &str = "complete";
/// Vectors of texts, shared by all memories of the folder.
const VECTORS: &str = "vectors.bin";

/// The histories of a file.
pub(super) struct Haystacks<'a> {
    data: &'a Path,
    folder: &'a Path,
    embedder: Arc<dyn Embedder>,
    ranking: Ranking,
    quiet: bool,
}

impl<'a> Haystacks<'a> {
    pub(super) fn new(args: &'a LongmemevalArgs, cpu: Arc<Cpu>, quiet: bool) -> Result<Self> {
        fs::create_dir_all(&args.memory)
            .with_context(|| format!("cannot create {}", args.memory.display()))?;
        let embedder = assemble::embedder(cpu, &args.embedder)?;
        Ok(Self {
            data: &args.data,
            folder: &args.memory,
            embedder: Arc::new(CachedEmbedder::open(embedder, &args.memory.join(VECTORS))?),
            ranking: args.ranking,
            quiet,
        })
    }

    fn place(&self, id: &str) -> PathBuf {
        self.folder.join(id.replace(['/', '\\'], "_"))
    }

    /// Ingests a history that is not whole yet; says how many turns were added.
    fn ingest(&self, asked: &Asked, place: &Path) -> Result<usize> {
        let whole = place.join(COMPLETE);
        if whole.exists() {
            return Ok(0);
        }
        let conversations: Vec<_> = read_conversations(self.data, Some(&asked.conversation))?
            .into_iter()
            .map(disguise)
            .collect();
        let added = ingest::into_memory(place, &conversations, &*self.embedder, self.quiet)?;
        fs::write(&whole, "").with_context(|| format!("cannot write {}", whole.display()))?;
        Ok(added)
    }
}

impl Memories for Haystacks<'_> {
    fn at_once(&self) -> usize {
        AT_ONCE
    }

    fn ready(&mut self, asked: &[&Asked]) -> Result<Ready> {
        let mut ready = Ready::default();
        for asked in asked {
            let place = self.place(&asked.id);
            let started = Instant::now();
            let added = self.ingest(asked, &place)?;
            if added > 0 {
                ready.ingested_turns += added;
                ready.ingest_seconds += started.elapsed().as_secs_f64();
            }
            let searcher = Searcher::new(Memory::open(&place)?, Some(self.embedder.clone()))?;
            let searcher = searcher.within(&ConversationId::new(&asked.conversation))?;
            ready.searchers.push(locomo::ranked(searcher, self.ranking)?);
        }
        Ok(ready)
    }
}
