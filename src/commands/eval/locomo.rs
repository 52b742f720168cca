//! `mneme eval locomo`: choose the questions, ready the memory, run a method.

use anyhow::{Result, bail};
use evaluation::{Dataset, Question};
use retrieval::{Memory, Retriever, read_conversations};

use super::{answers, parse_categories, recall};
use crate::assemble;
use crate::cli::{EvalMethod, Index, LocomoArgs};
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

/// Ingests the conversations that the questions need and the memory lacks.
fn ready_memory(
    args: &LocomoArgs,
    questions: &[&Question],
    quiet: bool,
    cpu: std::sync::Arc<kernels::Cpu>,
) -> Result<()> {
    let present: Vec<String> = match Memory::open(&args.memory) {
        Ok(memory) => memory
            .conversations()?
            .into_iter()
            .map(|c| c.id.to_string())
            .collect(),
        Err(retrieval::RetrievalError::NotAMemory { .. }) => Vec::new(),
        Err(error) => return Err(error.into()),
    };
    let mut missing: Vec<&str> = questions.iter().map(|q| q.conversation.as_str()).collect();
    missing.sort_unstable();
    missing.dedup();
    missing.retain(|id| !present.iter().any(|p| p == id));
    if missing.is_empty() {
        return Ok(());
    }
    let conversations: Vec<_> = read_conversations(&args.data, None)?
        .into_iter()
        .filter(|conversation| missing.contains(&conversation.id.as_str()))
        .collect();
    let embedder = assemble::embedder(cpu, &args.embedder)?;
    ingest::into_memory(&args.memory, &conversations, &*embedder, quiet)?;
    Ok(())
}
