//! What `mneme eval` takes.

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum};

use super::{DEFAULT_EMBEDDER, ModelArgs};

/// `mneme eval`.
#[derive(Debug, Args)]
pub(crate) struct EvalArgs {
    /// What to measure.
    #[command(subcommand)]
    pub(crate) command: EvalCommand,
}

/// `mneme eval …`.
#[derive(Debug, Subcommand)]
pub(crate) enum EvalCommand {
    /// Run a method over LoCoMo, or over a conversation of your own with questions.
    Locomo(LocomoArgs),
    /// Score predictions, one `{"id": …, "prediction": …}` a line.
    Score {
        /// The predictions.
        predictions: PathBuf,
        /// The data set: LoCoMo's JSON, plain or gzipped, or our questions.json.
        #[arg(long)]
        data: PathBuf,
        /// LoCoMo's numbers of the categories to score.
        #[arg(long, value_delimiter = ',', default_value = "1,2,3,4,5")]
        categories: Vec<u64>,
        /// Write all figures to this file, as JSON.
        #[arg(long)]
        json: Option<PathBuf>,
    },
}

/// What is measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum EvalMethod {
    /// Evidence recall, without a language model.
    Retrieval,
    /// One call over the best turns.
    Rag,
    /// The MemCoT loop.
    Memcot,
}

/// `mneme eval locomo`.
#[derive(Debug, Args)]
pub(crate) struct LocomoArgs {
    /// The data set, with its conversations: locomo10.json, plain or gzipped.
    #[arg(long)]
    pub(crate) data: PathBuf,
    /// The questions, where they are in a file of their own (data/sample/questions.json).
    #[arg(long)]
    pub(crate) questions: Option<PathBuf>,
    /// What is measured.
    #[arg(long, value_enum)]
    pub(crate) method: EvalMethod,
    /// Folder of the memory; conversations that are missing there are ingested first.
    #[arg(long)]
    pub(crate) memory: PathBuf,
    /// Which index answers searches.
    #[arg(long, value_enum, default_value_t = Index::Hybrid)]
    pub(crate) retriever: Index,
    /// How the hybrid index ranks.
    #[arg(long, value_enum, default_value_t = Ranking::Default)]
    pub(crate) ranking: Ranking,
    /// LoCoMo's numbers of the categories to run: 1 multi-hop, 2 temporal, 3 open-domain, 4 single-hop, 5 unanswerable.
    #[arg(long, value_delimiter = ',', default_value = "1,2,3,4")]
    pub(crate) categories: Vec<u64>,
    /// Only this many questions, drawn at random.
    #[arg(long)]
    pub(crate) sample: Option<usize>,
    /// Seed of the draw.
    #[arg(long, default_value_t = 7)]
    pub(crate) seed: u64,
    /// Only questions of this conversation.
    #[arg(long)]
    pub(crate) conversation: Option<String>,
    /// Questions under way at once.
    #[arg(long, default_value_t = 16)]
    pub(crate) concurrency: usize,
    /// Write predictions and traces into this folder; questions answered there already are not asked again.
    #[arg(long)]
    pub(crate) out: Option<PathBuf>,
    /// Write all figures to this file, as JSON.
    #[arg(long)]
    pub(crate) json: Option<PathBuf>,
    /// Embedder for conversations that are not in the memory yet.
    #[arg(long, default_value = DEFAULT_EMBEDDER, env = "MNEME_EMBEDDER")]
    pub(crate) embedder: String,
    /// Models.
    #[command(flatten)]
    pub(crate) model: ModelArgs,
}

/// Which index answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Index {
    /// Vectors only.
    Dense,
    /// Keywords only.
    Bm25,
    /// Both, fused.
    Hybrid,
}

/// How the hybrid index ranks; see docs/retrieval.md.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Ranking {
    /// The product's own ranking.
    Default,
    /// Without what fits talk between two people: speaker, date, time words, questions.
    NoPriors,
    /// Reciprocal rank fusion of plain keywords and vectors, the usual baseline.
    Rrf,
}
