//! What can be typed on the command line, as typed. Resolving it is the commands' work.

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand, ValueEnum};

/// Long-term memory for local language models.
#[derive(Debug, Parser)]
#[command(name = "mneme", version, about, long_about = None, propagate_version = true)]
pub(crate) struct Cli {
    /// What to do.
    #[command(subcommand)]
    pub(crate) command: Command,
    /// Say less on stderr: no progress, no notes.
    #[arg(long, short, global = true)]
    pub(crate) quiet: bool,
}

/// The commands.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Pull the small models, ingest the sample conversation, ask a question, print the answer with its proof.
    Demo(DemoArgs),
    /// Read conversation files into a memory.
    Ingest(IngestArgs),
    /// Answer questions from a memory.
    Ask(AskArgs),
    /// Find turns without a language model.
    Search(SearchArgs),
    /// Continue a prompt with a model, without any memory.
    Generate(GenerateArgs),
    /// See what a memory holds.
    Memory(MemoryArgs),
    /// List, fetch, check and look into model files.
    Models(ModelsArgs),
    /// Measure retrieval and answers on a data set, or score somebody's answers.
    Eval(EvalArgs),
}

/// Which models run, and on what.
#[derive(Debug, Clone, Args)]
pub(crate) struct ModelArgs {
    /// Language model: a name of `mneme models list`, a folder, or a .gguf file.
    #[arg(long, default_value = DEFAULT_MODEL, env = "MNEME_MODEL")]
    pub(crate) model: String,
    /// Threads for the model; the default is one per physical core.
    #[arg(long, env = "MNEME_THREADS")]
    pub(crate) threads: Option<usize>,
    /// Memory for keys and values of the attention cache, in MiB.
    #[arg(long, default_value_t = 1024)]
    pub(crate) kv_mib: u64,
    /// Do not reuse cached prefixes, neither of earlier prompts nor of earlier runs.
    #[arg(long)]
    pub(crate) no_prefix_cache: bool,
}

/// The default language model: small enough for two cores.
pub(crate) const DEFAULT_MODEL: &str = "qwen2.5-coder-0.5b";
/// The default embedder.
pub(crate) const DEFAULT_EMBEDDER: &str = "all-minilm-l6-v2";

/// `mneme demo`.
#[derive(Debug, Args)]
pub(crate) struct DemoArgs {
    /// Ask this instead of the built-in question.
    pub(crate) question: Option<String>,
    /// Where the sample's memory is kept; the default is in mneme's cache folder.
    #[arg(long)]
    pub(crate) memory: Option<PathBuf>,
    /// Models.
    #[command(flatten)]
    pub(crate) model: ModelArgs,
}

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

/// How a question is answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Method {
    /// Search, select, widen, judge, rewrite, answer.
    Memcot,
    /// One call over the best turns.
    Rag,
}

/// `mneme ask`.
#[derive(Debug, Args)]
pub(crate) struct AskArgs {
    /// One or more questions; several are answered together, in one batch.
    #[arg(required = true)]
    pub(crate) questions: Vec<String>,
    /// Folder of the memory.
    #[arg(long)]
    pub(crate) memory: PathBuf,
    /// Only turns of this conversation.
    #[arg(long)]
    pub(crate) conversation: Option<String>,
    /// How to answer.
    #[arg(long, value_enum, default_value_t = Method::Memcot)]
    pub(crate) method: Method,
    /// At most this many iterations (J of the paper).
    #[arg(long)]
    pub(crate) max_iterations: Option<usize>,
    /// Turns on each side of a useful turn (W of the paper).
    #[arg(long)]
    pub(crate) window: Option<usize>,
    /// Turns per search (K of the paper).
    #[arg(long)]
    pub(crate) top_k: Option<usize>,
    /// Always answer, even when the conversation does not say.
    #[arg(long)]
    pub(crate) no_abstain: bool,
    /// The date on which the question is asked, as YYYY-MM-DD.
    #[arg(long)]
    pub(crate) question_date: Option<String>,
    /// Write the whole run to this file, as JSON.
    #[arg(long)]
    pub(crate) trace: Option<PathBuf>,
    /// Print one JSON object per question instead of text.
    #[arg(long)]
    pub(crate) json: bool,
    /// Models.
    #[command(flatten)]
    pub(crate) model: ModelArgs,
}

/// `mneme search`.
#[derive(Debug, Args)]
pub(crate) struct SearchArgs {
    /// What to look for.
    pub(crate) query: String,
    /// Folder of the memory.
    #[arg(long)]
    pub(crate) memory: PathBuf,
    /// Only turns of this conversation.
    #[arg(long)]
    pub(crate) conversation: Option<String>,
    /// At most this many turns.
    #[arg(long, default_value_t = 10)]
    pub(crate) limit: usize,
    /// Print one JSON object instead of text.
    #[arg(long)]
    pub(crate) json: bool,
}

/// `mneme generate`.
#[derive(Debug, Args)]
pub(crate) struct GenerateArgs {
    /// The user's message.
    pub(crate) prompt: String,
    /// Rules that come before it.
    #[arg(long)]
    pub(crate) system: Option<String>,
    /// At most this many new tokens.
    #[arg(long, default_value_t = 256)]
    pub(crate) max_tokens: usize,
    /// 0 is greedy.
    #[arg(long, default_value_t = 0.0)]
    pub(crate) temperature: f32,
    /// Seed of the random stream.
    #[arg(long, default_value_t = 0)]
    pub(crate) seed: u64,
    /// A file with a JSON schema that the reply must satisfy.
    #[arg(long)]
    pub(crate) schema: Option<PathBuf>,
    /// Continue the text as it is, without the chat template.
    #[arg(long, conflicts_with = "system")]
    pub(crate) raw: bool,
    /// Print one JSON object instead of text.
    #[arg(long)]
    pub(crate) json: bool,
    /// Models.
    #[command(flatten)]
    pub(crate) model: ModelArgs,
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

/// `mneme models`.
#[derive(Debug, Args)]
pub(crate) struct ModelsArgs {
    /// What to do with the models.
    #[command(subcommand)]
    pub(crate) command: ModelsCommand,
}

/// `mneme models …`.
#[derive(Debug, Subcommand)]
pub(crate) enum ModelsCommand {
    /// The models that mneme knows, and which are here.
    List {
        /// Print one JSON object instead of text.
        #[arg(long)]
        json: bool,
    },
    /// Fetch a model; an interrupted fetch goes on where it was.
    Pull {
        /// A name of `mneme models list`.
        name: String,
    },
    /// Compare a model's files with their known sizes and checksums.
    Verify {
        /// A name of `mneme models list`.
        name: String,
    },
    /// Say what a model file holds.
    Inspect {
        /// A .gguf or .safetensors file, a folder, or a name.
        path: String,
        /// Print one JSON object instead of text.
        #[arg(long)]
        json: bool,
    },
}

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
