//! What can be typed on the command line, as typed. Resolving it is the commands' work.

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand, ValueEnum};

mod eval;
mod memory;

pub(crate) use eval::{
    AnsweringArgs, CompareArgs, EvalArgs, EvalCommand, EvalMethod, Index, JudgeArgs, JudgeKind, LocomoArgs,
    LongmemevalArgs, Ranking, ReportArgs, ScoreArgs,
};
pub(crate) use memory::{DateOrder, IngestArgs, MemoryArgs, MemoryCommand, Place};

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
    /// Read entities and relations out of a memory's turns, for the graph index.
    Graph(GraphArgs),
    /// See, delete, export, import, reindex and check what a memory holds.
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
    /// Tokens guessed ahead from the prompt while few replies are written at once; 0 turns guessing off. Replies do not
    /// depend on it.
    #[arg(long, default_value_t = 3)]
    pub(crate) draft_tokens: usize,
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
    /// Where.
    #[command(flatten)]
    pub(crate) place: Place,
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

/// `mneme graph`.
#[derive(Debug, Args)]
pub(crate) struct GraphArgs {
    /// Where.
    #[command(flatten)]
    pub(crate) place: Place,
    /// Only turns of this conversation.
    #[arg(long)]
    pub(crate) conversation: Option<String>,
    /// Print one JSON object instead of text.
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
    /// Where.
    #[command(flatten)]
    pub(crate) place: Place,
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
    /// Say what a model file holds, and what memory the model will take.
    Inspect(InspectArgs),
}

/// `mneme models inspect`.
#[derive(Debug, Args)]
pub(crate) struct InspectArgs {
    /// A .gguf or .safetensors file, a folder, or a name.
    pub(crate) path: String,
    /// Load the model, give it a few prompts, and say what memory it took.
    #[arg(long)]
    pub(crate) load: bool,
    /// Memory for keys and values of the attention cache, in MiB.
    #[arg(long, default_value_t = 1024)]
    pub(crate) kv_mib: u64,
    /// Print one JSON object instead of text.
    #[arg(long)]
    pub(crate) json: bool,
}
