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
    /// Run a method over LongMemEval, each question in its own history.
    Longmemeval(LongmemevalArgs),
    /// Score predictions: one `{"id": …, "prediction": …}` a line, or a file of MemCoT's, mem0's or LoCoMo's own scripts.
    Score(ScoreArgs),
    /// Let a local model judge predictions, and say how far it can be trusted.
    Judge(JudgeArgs),
    /// Compare two runs question by question.
    Compare(CompareArgs),
    /// Write one report over several runs on the same questions.
    Report(ReportArgs),
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
    /// One call over the whole conversation.
    FullContext,
    /// Answers from formed memories, source turns where they are silent.
    Rime,
    /// Answers from formed memories alone.
    Direct,
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
    /// Write all figures to this file, as JSON.
    #[arg(long)]
    pub(crate) json: Option<PathBuf>,
    /// Embedder for conversations that are not in the memory yet.
    #[arg(long, default_value = DEFAULT_EMBEDDER, env = "MNEME_EMBEDDER")]
    pub(crate) embedder: String,
    /// How questions are answered and what is kept of the answers.
    #[command(flatten)]
    pub(crate) answering: AnsweringArgs,
    /// Models.
    #[command(flatten)]
    pub(crate) model: ModelArgs,
}

/// `mneme eval longmemeval`.
#[derive(Debug, Args)]
pub(crate) struct LongmemevalArgs {
    /// The data set: longmemeval_s_cleaned.json or longmemeval_oracle.json, plain or gzipped.
    #[arg(long)]
    pub(crate) data: PathBuf,
    /// What is measured.
    #[arg(long, value_enum)]
    pub(crate) method: EvalMethod,
    /// Folder of the memories, one for each question; histories that are missing there are ingested first.
    #[arg(long)]
    pub(crate) memory: PathBuf,
    /// Which index answers searches.
    #[arg(long, value_enum, default_value_t = Index::Hybrid)]
    pub(crate) retriever: Index,
    /// How the hybrid index ranks.
    #[arg(long, value_enum, default_value_t = Ranking::Default)]
    pub(crate) ranking: Ranking,
    /// Only questions of these types, as the file names them; `abstention` for the unanswerable ones.
    #[arg(long, value_delimiter = ',')]
    pub(crate) types: Vec<String>,
    /// Only this many questions, drawn at random.
    #[arg(long)]
    pub(crate) sample: Option<usize>,
    /// Seed of the draw.
    #[arg(long, default_value_t = 7)]
    pub(crate) seed: u64,
    /// Write all figures to this file, as JSON.
    #[arg(long)]
    pub(crate) json: Option<PathBuf>,
    /// Embedder for histories that are not in the memory yet.
    #[arg(long, default_value = DEFAULT_EMBEDDER, env = "MNEME_EMBEDDER")]
    pub(crate) embedder: String,
    /// How questions are answered and what is kept of the answers.
    #[command(flatten)]
    pub(crate) answering: AnsweringArgs,
    /// Models.
    #[command(flatten)]
    pub(crate) model: ModelArgs,
}

/// How questions are answered and what is kept of the answers; without meaning for `--method retrieval`.
#[derive(Debug, Clone, Args)]
pub(crate) struct AnsweringArgs {
    /// Draw the sample from every category in its share of the data set.
    #[arg(long, requires = "sample")]
    pub(crate) stratify: bool,
    /// Questions under way at once.
    #[arg(long, default_value_t = 16)]
    pub(crate) concurrency: usize,
    /// Write predictions, traces and the report into this folder.
    #[arg(long)]
    pub(crate) out: Option<PathBuf>,
    /// Go on with the run in `--out`: what is answered there is not asked again. Every setting must be the same.
    #[arg(long, requires = "out")]
    pub(crate) resume: bool,
    /// A setting of the method, such as `top_k=20`, `W=4` or `zoom_out=false`; may be repeated.
    #[arg(long = "set", value_name = "NAME=VALUE")]
    pub(crate) set: Vec<String>,
    /// Run once for each value of a setting, such as `W=1..15`, `K=5,10,20` or `stages=separate,fused`; may be repeated.
    #[arg(long, value_name = "NAME=VALUES", requires = "out")]
    pub(crate) sweep: Vec<String>,
    /// Run once without each part of the method.
    #[arg(long, requires = "out")]
    pub(crate) ablate: bool,
    /// Full context: where the conversation does not fit, show its newest part, and say so in the result.
    #[arg(long)]
    pub(crate) truncate: bool,
    /// Let the model judge the answers too; `longmemeval` on LongMemEval, the other two on LoCoMo.
    #[arg(long, value_enum, value_delimiter = ',')]
    pub(crate) judge: Vec<JudgeKind>,
    /// Who judges: a name of `mneme models list`, a folder, or a .gguf file; the default is the answering model itself.
    #[arg(long, requires = "judge")]
    pub(crate) judge_model: Option<String>,
    /// Score against corrected answers as well: a file of known label errors in the shape of locomo-audit's errors.json.
    #[arg(long)]
    pub(crate) audit: Option<PathBuf>,
}

/// Which rules a judge follows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum JudgeKind {
    /// Generous, as mem0's: the same topic, the same date in any form.
    Lenient,
    /// The same fact, nothing contrary.
    Strict,
    /// LongMemEval's rules for each type of question.
    Longmemeval,
}

/// `mneme eval score`.
#[derive(Debug, Args)]
pub(crate) struct ScoreArgs {
    /// The predictions.
    pub(crate) predictions: PathBuf,
    /// The data set: LoCoMo's JSON, plain or gzipped, or our questions.json.
    #[arg(long)]
    pub(crate) data: PathBuf,
    /// LoCoMo's numbers of the categories to score.
    #[arg(long, value_delimiter = ',', default_value = "1,2,3,4,5")]
    pub(crate) categories: Vec<u64>,
    /// Refuse a file that leaves questions of these categories out.
    #[arg(long)]
    pub(crate) complete: bool,
    /// Score against corrected answers as well: a file of known label errors in the shape of locomo-audit's errors.json.
    #[arg(long)]
    pub(crate) audit: Option<PathBuf>,
    /// Write all figures to this file, as JSON.
    #[arg(long)]
    pub(crate) json: Option<PathBuf>,
}

/// `mneme eval judge`.
#[derive(Debug, Args)]
pub(crate) struct JudgeArgs {
    /// The predictions; without them, only the judge's agreement with labels by hand is measured.
    #[arg(requires = "data")]
    pub(crate) predictions: Option<PathBuf>,
    /// The data set of the predictions: LoCoMo, LongMemEval or our questions.json.
    #[arg(long)]
    pub(crate) data: Option<PathBuf>,
    /// Which rules the judge follows.
    #[arg(long, value_enum, value_delimiter = ',', default_value = "lenient,strict")]
    pub(crate) judge: Vec<JudgeKind>,
    /// Write labels and figures to this file, as JSON.
    #[arg(long)]
    pub(crate) json: Option<PathBuf>,
    /// Models.
    #[command(flatten)]
    pub(crate) model: ModelArgs,
}

/// `mneme eval compare`.
#[derive(Debug, Args)]
pub(crate) struct CompareArgs {
    /// The first run: its `--out` folder, or a prediction file.
    pub(crate) first: PathBuf,
    /// The second run.
    pub(crate) second: PathBuf,
    /// The data set of both: LoCoMo, LongMemEval or our questions.json.
    #[arg(long)]
    pub(crate) data: PathBuf,
    /// Write all figures to this file, as JSON.
    #[arg(long)]
    pub(crate) json: Option<PathBuf>,
}

/// `mneme eval report`.
#[derive(Debug, Args)]
pub(crate) struct ReportArgs {
    /// The `--out` folders of the runs; the others are compared with the first.
    #[arg(required = true)]
    pub(crate) runs: Vec<PathBuf>,
    /// The data set: LoCoMo, LongMemEval or our questions.json.
    #[arg(long)]
    pub(crate) data: PathBuf,
    /// Folder for report.html, report.md and report.json.
    #[arg(long)]
    pub(crate) out: PathBuf,
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
    /// Both and the graph that `mneme graph` has made.
    Graph,
}

/// How the hybrid index ranks; see docs/retrieval.md.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Ranking {
    /// The product's own ranking.
    Default,
    /// Without what fits talk between two people: speaker, date, time words, questions, first person, names.
    NoPriors,
    /// Reciprocal rank fusion of plain keywords and vectors, the usual baseline.
    Rrf,
    /// Without the names of speakers.
    NoSpeaker,
    /// Without dates in questions.
    NoDates,
    /// Without time words.
    NoTimeWords,
    /// Without the penalty of questions.
    NoQuestions,
    /// Without the first person and names.
    NoTelling,
    /// Without token vectors.
    NoTokens,
    /// Without keywords.
    NoKeywords,
    /// Without words of like meaning.
    NoVocabulary,
    /// Without neighbours.
    NoNeighbours,
    /// With the names of speakers in the embedded question.
    KeepNames,
}
