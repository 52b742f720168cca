//! `mneme eval locomo`: choose the questions, ready the memory, run a method.

use std::collections::HashSet;
use std::sync::Arc;

use anyhow::{Result, bail};
use evaluation::{Dataset, Question};
use kernels::Cpu;
use retrieval::{RankingConfig, Retriever, Searcher, read_conversations};

use super::{answers, parse_categories, recall};
use crate::assemble;
use crate::cli::{EvalMethod, Index, LocomoArgs, Ranking};
use crate::commands::ingest;

pub(super) fn run(args: &LocomoArgs, quiet: bool) -> Result<()> {
    let dataset = Dataset::open(args.questions.as_ref().unwrap_or(&args.data))?;
    let questions = choose(&dataset, args)?;
    let cpu = assemble::cpu(args.model.threads)?;
    ready_memory(args, &questions, quiet, cpu.clone())?;
    match args.method {
        EvalMethod::Retrieval => recall::run(args, &questions, cpu, quiet),
        EvalMethod::Rag | EvalMethod::Memcot => answers::run(args, &questions, &dataset, cpu, quiet),
    }
}

pub(super) fn retriever(index: Index) -> Retriever {
    match index {
        Index::Dense => Retriever::Dense,
        Index::Bm25 => Retriever::Bm25,
        Index::Hybrid => Retriever::Hybrid,
    }
}

/// The searcher of the whole memory, with the ranking that was asked for.
pub(super) fn searcher(args: &LocomoArgs, cpu: Arc<Cpu>) -> Result<Searcher> {
    let searcher = assemble::searcher(cpu, &args.memory, None)?;
    Ok(match args.ranking {
        Ranking::Default => searcher,
        Ranking::NoPriors => searcher.with_ranking(RankingConfig::default().without_priors())?,
        Ranking::Rrf => searcher.with_ranking(RankingConfig::reciprocal_rank())?,
    })
}

/// Questions of the chosen categories and conversation; with `--sample`, a seeded draw in the order of the file.
fn choose<'a>(dataset: &'a Dataset, args: &LocomoArgs) -> Result<Vec<&'a Question>> {
    let categories = parse_categories(&args.categories)?;
    let mut questions: Vec<&Question> = dataset
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
    if let Some(count) = args.sample {
        let mut state = args.seed;
        while questions.len() > count {
            let index = (next(&mut state) % questions.len() as u64) as usize;
            questions.remove(index);
        }
    }
    Ok(questions)
}

/// SplitMix64: the same draw on every machine and version.
fn next(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mut value = *state;
    value = (value ^ (value >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    value = (value ^ (value >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    value ^ (value >> 31)
}

/// Ingests the conversations that the questions ask about; what is stored already is left, an ingest that was killed is
/// completed.
fn ready_memory(args: &LocomoArgs, questions: &[&Question], quiet: bool, cpu: Arc<Cpu>) -> Result<()> {
    let wanted: HashSet<&str> = questions
        .iter()
        .map(|question| question.conversation.as_str())
        .collect();
    let mut conversations = read_conversations(&args.data, None)?;
    conversations.retain(|conversation| wanted.contains(conversation.id.as_str()));
    let embedder = assemble::embedder(cpu, &args.embedder)?;
    ingest::into_memory(&args.memory, &conversations, &*embedder, quiet)?;
    Ok(())
}
