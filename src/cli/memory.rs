//! What `mneme ingest` and `mneme memory` take.

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum};

/// Where a memory is.
#[derive(Debug, Clone, Args)]
pub(crate) struct Place {
    /// Folder of the memory.
    #[arg(long)]
    pub(crate) memory: PathBuf,
    /// A memory beside others in the folder, which know nothing of each other.
    #[arg(long)]
    pub(crate) namespace: Option<String>,
}

/// In what order a WhatsApp chat writes its dates.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum DateOrder {
    /// 31/12/20
    Dmy,
    /// 12/31/20
    Mdy,
    /// 20/12/31
    Ymd,
}

/// `mneme ingest`.
#[derive(Debug, Args)]
pub(crate) struct IngestArgs {
    /// Conversation files, as they were exported, also gzipped or zipped; docs/formats.md lists the formats.
    #[arg(required = true)]
    pub(crate) files: Vec<PathBuf>,
    /// Folder of the memory; made if missing.
    #[arg(long, required_unless_present = "dry_run")]
    pub(crate) memory: Option<PathBuf>,
    /// A memory beside others in the folder, which know nothing of each other.
    #[arg(long)]
    pub(crate) namespace: Option<String>,
    /// Only this conversation of a file that holds several.
    #[arg(long)]
    pub(crate) sample: Option<String>,
    /// Name of a conversation whose file does not name it; the default is the file's name.
    #[arg(long = "as", value_name = "NAME")]
    pub(crate) name: Option<String>,
    /// When an undated conversation took place: 2023-05-08 or 2023-05-08T13:56.
    #[arg(long)]
    pub(crate) date: Option<String>,
    /// How a WhatsApp chat writes its dates, where they leave it open.
    #[arg(long, value_enum)]
    pub(crate) date_order: Option<DateOrder>,
    /// Only print what would be ingested, and what would be left out and why.
    #[arg(long)]
    pub(crate) dry_run: bool,
    /// Embedder: a name of `mneme models list`, a folder, or `none` for a memory searched by keywords alone; the default is
    /// the memory's own, and all-minilm-l6-v2 for a new one.
    #[arg(long, env = "MNEME_EMBEDDER")]
    pub(crate) embedder: Option<String>,
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
    /// What to do with it.
    #[command(subcommand)]
    pub(crate) command: MemoryCommand,
}

/// `mneme memory …`.
#[derive(Debug, Subcommand)]
pub(crate) enum MemoryCommand {
    /// List the conversations.
    List {
        /// Where.
        #[command(flatten)]
        place: Place,
        /// Print one JSON object instead of text.
        #[arg(long)]
        json: bool,
    },
    /// List the conversations, or the turns of one.
    Show {
        /// Where.
        #[command(flatten)]
        place: Place,
        /// Print the turns of this conversation.
        #[arg(long)]
        conversation: Option<String>,
        /// Print one JSON object instead of text.
        #[arg(long)]
        json: bool,
    },
    /// Counts, sizes, embedder, languages, version of the store.
    Stats {
        /// Where.
        #[command(flatten)]
        place: Place,
        /// Print one JSON object instead of text.
        #[arg(long)]
        json: bool,
    },
    /// Delete a conversation, or one session or turn of it.
    Delete {
        /// Where.
        #[command(flatten)]
        place: Place,
        /// The conversation.
        #[arg(long)]
        conversation: String,
        /// Only this session.
        #[arg(long, conflicts_with = "turn")]
        session: Option<String>,
        /// Only this turn.
        #[arg(long)]
        turn: Option<String>,
        /// Print one JSON object instead of text.
        #[arg(long)]
        json: bool,
    },
    /// Write all that is stored as JSON lines (docs/memory.md).
    Export {
        /// Where.
        #[command(flatten)]
        place: Place,
        /// The file to write; stdout if not given.
        #[arg(long)]
        output: Option<PathBuf>,
        /// Leave the vectors out: a smaller file, whose import needs the embedder.
        #[arg(long)]
        no_vectors: bool,
        /// Print one JSON object about it; needs --output.
        #[arg(long, requires = "output")]
        json: bool,
    },
    /// Read an export into a memory; made if missing.
    Import {
        /// The file that `mneme memory export` wrote, plain or gzipped.
        file: PathBuf,
        /// Where.
        #[command(flatten)]
        place: Place,
        /// Threads for the embedder, which an export without vectors needs.
        #[arg(long, env = "MNEME_THREADS")]
        threads: Option<usize>,
        /// Print one JSON object instead of text.
        #[arg(long)]
        json: bool,
    },
    /// Make all vectors anew with another embedder.
    Reindex {
        /// Where.
        #[command(flatten)]
        place: Place,
        /// A name of `mneme models list`, a folder, or `none` to search by keywords alone.
        #[arg(long)]
        embedder: String,
        /// Threads for the embedder; the default is one per physical core.
        #[arg(long, env = "MNEME_THREADS")]
        threads: Option<usize>,
        /// Print one JSON object instead of text.
        #[arg(long)]
        json: bool,
    },
    /// Compare every record with all others, and say what is wrong.
    Check {
        /// Where.
        #[command(flatten)]
        place: Place,
        /// Print one JSON object instead of text.
        #[arg(long)]
        json: bool,
    },
}
