//! `mneme eval locomo`: choose the questions, ready the memory, run a method.

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;
use std::time::Instant;

use anyhow::{Result, bail};
use evaluation::{Asked, Dataset, Gold, Question, draw, draw_stratified};
use kernels::Cpu;
use retrieval::{RankingConfig, Retriever, Searcher, read_conversations};
use serde_json::json;

use super::answers::{self, Memories, Ready, Task};
use super::{environment, method, parse_categories, recall};
use crate::assemble;
use crate::cli::{EvalMethod, Index, LocomoArgs, Ranking};
use crate::commands::ingest;

/// Questions whose traces are held at once.
const AT_ONCE: usize = 256;

pub(super) fn run(args: &LocomoArgs, quiet: bool) -> Result<()> {
    let questions_file = args.questions.as_ref().unwrap_or(&args.data);
    let dataset = Dataset::open(questions_file)?;
    let questions = choose(&dataset, args)?;
    if args.method == EvalMethod::Retrieval {
        let cpu = assemble::cpu(args.model.threads)?;
        ready_memory(args, &questions, quiet, cpu.clone())?;
        return recall::run(args, &questions, cpu, quiet);
    }
    // "Not in the conversation" may be said only where the run asks unanswerable questions at all: the published protocol
    // forbids it on the others. One setting for the whole run; no question's own category is looked at.
    let abstain = args.categories.contains(&5);
    let task = Task {
        data_set: "LoCoMo",
        asked: questions.iter().map(|question| Asked::from(*question)).collect(),
        settings: json!({
            "data_sha256": environment::sha256(&args.data)?,
            "questions_sha256": environment::sha256(questions_file)?,
            "categories": args.categories,
            "conversation": args.conversation,
            "sample": args.sample,
            "seed": args.seed,
            "stratify": args.answering.stratify,
            "ranking": format!("{:?}", args.ranking),
        }),
        method: method::method(args.method, &args.answering, retriever(args.retriever), abstain)?,
        answering: &args.answering,
        model: &args.model,
        memory: &args.memory,
        embedder: &args.embedder,
        json: args.json.as_deref(),
        quiet,
        gold: Gold::Questions(dataset.clone()),
    };
    let cpu = assemble::cpu(args.model.threads)?;
    let started = Instant::now();
    let ingested_turns = ready_memory(args, &questions, quiet, cpu.clone())?;
    let mut memories = Conversations {
        searchers: recall::by_conversation(&searcher(args, cpu.clone())?, &questions)?,
        ingest_seconds: if ingested_turns > 0 {
            started.elapsed().as_secs_f64()
        } else {
            0.0
        },
        ingested_turns,
    };
    answers::run(&task, &mut memories, &cpu)
}

/// One memory that holds every conversation.
struct Conversations {
    searchers: BTreeMap<String, Searcher>,
    ingest_seconds: f64,
    ingested_turns: usize,
}

impl Memories for Conversations {
    fn at_once(&self) -> usize {
        AT_ONCE
    }

    fn ready(&mut self, asked: &[&Asked]) -> Result<Ready> {
        Ok(Ready {
            searchers: asked
                .iter()
                .map(|asked| self.searchers[&asked.conversation].clone())
                .collect(),
            ingest_seconds: std::mem::take(&mut self.ingest_seconds),
            ingested_turns: std::mem::take(&mut self.ingested_turns),
        })
    }
}

pub(super) fn retriever(index: Index) -> Retriever {
    match index {
        Index::Dense => Retriever::Dense,
        Index::Bm25 => Retriever::Bm25,
        Index::Hybrid => Retriever::Hybrid,
        Index::Graph => Retriever::Graph,
    }
}

/// The searcher of the whole memory, with the ranking that was asked for.
pub(super) fn searcher(args: &LocomoArgs, cpu: Arc<Cpu>) -> Result<Searcher> {
    ranked(assemble::searcher(cpu, &args.memory, None)?, args.ranking)
}

/// The same search with the ranking that was asked for.
pub(super) fn ranked(searcher: Searcher, ranking: Ranking) -> Result<Searcher> {
    let mut config = RankingConfig::default();
    match ranking {
        Ranking::Default => return Ok(searcher),
        Ranking::NoPriors => config = config.without_priors(),
        Ranking::Rrf => config = RankingConfig::reciprocal_rank(),
        Ranking::NoSpeaker => config.speaker_prior = 0.0,
        Ranking::NoDates => config.date_prior = 0.0,
        Ranking::NoTimeWords => config.time_word_prior = 0.0,
        Ranking::NoQuestions => config.question_prior = 0.0,
        Ranking::NoTelling => (config.first_person_prior, config.name_prior) = (0.0, 0.0),
        Ranking::NoTokens => config.late_interaction = None,
        Ranking::NoKeywords => config.keyword_weight = 0.0,
        Ranking::NoVocabulary => config.vocabulary = None,
        Ranking::NoNeighbours => (config.neighbours, config.smoothed_weight) = (None, 0.0),
        Ranking::KeepNames => config.cut_names = false,
    }
    Ok(searcher.with_ranking(config)?)
}

/// Questions of the chosen categories and conversation; with `--sample`, a seeded draw in the order of the file.
fn choose<'a>(dataset: &'a Dataset, args: &LocomoArgs) -> Result<Vec<&'a Question>> {
    let categories = parse_categories(&args.categories)?;
    let questions: Vec<&Question> = dataset
        .questions()
        .iter()
        .filter(|question| categories.contains(&question.category))
        .filter(|question| {
            args.conversation
                .as_ref()
                .is_none_or(|id| *id == question.conversation)
        })
        .collect();
    if questions.is_empty() {
        bail!(
            "{} has no question of these categories and conversation",
            args.data.display()
        );
    }
    let category = |question: &&Question| question.category.name().to_owned();
    Ok(match args.sample {
        Some(count) if args.answering.stratify => draw_stratified(questions, category, count, args.seed),
        Some(count) => draw(questions, count, args.seed),
        None => questions,
    })
}

/// Ingests the conversations that the questions ask about; what is stored already is left, an ingest that was killed is
/// completed. Says how many turns were added.
fn ready_memory(args: &LocomoArgs, questions: &[&Question], quiet: bool, cpu: Arc<Cpu>) -> Result<usize> {
    let wanted: HashSet<&str> = questions
        .iter()
        .map(|question| question.conversation.as_str())
        .collect();
    let mut conversations = read_conversations(&args.data, None)?;
    conversations.retain(|conversation| wanted.contains(conversation.id.as_str()));
    let embedder = assemble::embedder(cpu, &args.embedder)?;
    ingest::into_memory(&args.memory, &conversations, &*embedder, quiet)
}
