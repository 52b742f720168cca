//! What `mneme ingest` and `mneme memory` take.

use std::path::PathBuf;

use clap::{Args, Subcommand};

use super::DEFAULT_EMBEDDER;

/// `mneme ingest`.
#[derive(Debug, Args)]
pub(crate) struct IngestArgs {
    /// Conversation files: LoCoMo or LongMemEval JSON, or mneme JSONL, plain or gzipped.
    #[arg(required = true)]
    pub(crate) files: Vec<PathBuf>,
    /// Folder of the memory; made if missing.
    #[arg(long)]
    pub(crate) memory: PathBuf,
    /// Only this conversation of a file that holds several.
    #[arg(long)]
    pub(crate) sample: Option<String>,
    /// Embedder: a name of `mneme models list` or a folder.
    #[arg(long, default_value = DEFAULT_EMBEDDER, env = "MNEME_EMBEDDER")]
    pub(crate) embedder: String,
    /// Threads for the embedder; the default is one per physical core.
    #[arg(long, env = "MNEME_THREADS")]
    pub(crate) threads: Option<usize>,
    /// Print one JSON object instead of text.
    #[arg(long)]
    pub(crate) json: bool,
}

/// `mneme memory`.
#[derive(Debug, Args)]
pub(crate) struct MemoryArgs {
    /// What to see.
    #[command(subcommand)]
    pub(crate) command: MemoryCommand,
}

/// `mneme memory …`.
#[derive(Debug, Subcommand)]
pub(crate) enum MemoryCommand {
    /// List the conversations, or the turns of one.
    Show {
        /// Folder of the memory.
        #[arg(long)]
        memory: PathBuf,
        /// Print the turns of this conversation.
        #[arg(long)]
        conversation: Option<String>,
        /// Print one JSON object instead of text.
        #[arg(long)]
        json: bool,
    },
}
