//! `mneme eval longmemeval` with a method that answers: every question in a memory of its own.

use anyhow::{Result, bail};
use evaluation::{Asked, Gold, HistoryQuestion, draw, draw_stratified, read_histories};
use serde_json::json;

use super::answers::{self, Task};
use super::haystacks::Haystacks;
use super::{environment, locomo, longmemeval, method};
use crate::assemble;
use crate::cli::{EvalMethod, LongmemevalArgs};

/// What `--types` calls the questions that cannot be answered.
const ABSTENTION: &str = "abstention";

pub(super) fn run(args: &LongmemevalArgs, quiet: bool) -> Result<()> {
    let all = read_histories(&args.data)?;
    let chosen = choose(&all, args)?;
    if args.method == EvalMethod::Retrieval {
        let cpu = assemble::cpu(args.model.threads)?;
        return longmemeval::run(args, &chosen, cpu, quiet);
    }
    let task = Task {
        data_set: "LongMemEval",
        asked: chosen.iter().map(|question| Asked::from(*question)).collect(),
        settings: json!({
            "data_sha256": environment::sha256(&args.data)?,
            "types": args.types,
            "sample": args.sample,
            "seed": args.seed,
            "stratify": args.answering.stratify,
            "ranking": format!("{:?}", args.ranking),
        }),
        // The data set asks unanswerable questions of every type and tells no system which they are.
        method: method::method(
            args.method,
            &args.answering,
            locomo::retriever(args.retriever),
            true,
        )?,
        answering: &args.answering,
        model: &args.model,
        memory: &args.memory,
        embedder: &args.embedder,
        json: args.json.as_deref(),
        quiet,
        gold: Gold::Histories(all.clone()),
    };
    let cpu = assemble::cpu(args.model.threads)?;
    let mut haystacks = Haystacks::new(args, cpu.clone(), quiet)?;
    answers::run(&task, &mut haystacks, &cpu)
}

/// Questions of the chosen types; with `--sample`, a seeded draw in the order of the file.
fn choose<'a>(all: &'a [HistoryQuestion], args: &LongmemevalArgs) -> Result<Vec<&'a HistoryQuestion>> {
    for name in &args.types {
        if name != ABSTENTION && evaluation::HistoryKind::from_name(name).is_none() {
            let known = evaluation::HistoryKind::ALL
                .map(evaluation::HistoryKind::name)
                .join(", ");
            bail!("--types has {name}, expected {known} or {ABSTENTION}");
        }
    }
    // `_abs` is tested first: such a question is of its type only when no types are asked for.
    let group = |question: &HistoryQuestion| {
        if question.abstention {
            ABSTENTION
        } else {
            question.kind.name()
        }
    };
    let wanted = |question: &&HistoryQuestion| {
        args.types.is_empty() || args.types.iter().any(|name| name == group(question))
    };
    let questions: Vec<&HistoryQuestion> = all.iter().filter(wanted).collect();
    if questions.is_empty() {
        bail!("{} has no question of these types", args.data.display());
    }
    let name = |question: &&HistoryQuestion| group(question).to_owned();
    Ok(match args.sample {
        Some(count) if args.answering.stratify => draw_stratified(questions, name, count, args.seed),
        Some(count) => draw(questions, count, args.seed),
        None => questions,
    })
}
