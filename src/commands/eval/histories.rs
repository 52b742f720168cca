//! `mneme eval longmemeval` with a method that answers: every question in a memory of its own.

use anyhow::{Result, bail};
use evaluation::{
    Asked, Gold, HistoryQuestion, HistoryRecall, HistoryRecallTable, draw, draw_stratified, read_histories,
};
use retrieval::{Recall, SearchRequest};
use serde_json::json;

use super::answers::{self, Memories, Task};
use super::haystacks::Haystacks;
use super::{environment, locomo, method};
use crate::assemble;
use crate::cli::{EvalMethod, LongmemevalArgs};
use crate::{output, progress};

/// What `--types` calls the questions that cannot be answered.
const ABSTENTION: &str = "abstention";
/// More turns than any history has.
const EVERY_TURN: usize = 100_000;

pub(super) fn run(args: &LongmemevalArgs, quiet: bool) -> Result<()> {
    let all = read_histories(&args.data)?;
    let chosen = choose(&all, args)?;
    if args.method == EvalMethod::Retrieval {
        return recall(args, &chosen, quiet);
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

/// `--method retrieval`: how much of the evidence each history's memory finds.
fn recall(args: &LongmemevalArgs, chosen: &[&HistoryQuestion], quiet: bool) -> Result<()> {
    let mut haystacks = Haystacks::new(args, assemble::cpu(args.model.threads)?, quiet)?;
    let bar = progress::count_bar(quiet);
    bar.set_length(chosen.len() as u64);
    bar.set_message("searching");
    let mut recall = HistoryRecall::default();
    for question in chosen {
        let asked = Asked::from(*question);
        for searcher in haystacks.ready(&[&asked])?.searchers {
            let hits = searcher.search(&SearchRequest {
                query: asked.text.clone(),
                limit: EVERY_TURN,
                retriever: locomo::retriever(args.retriever),
            })?;
            let found: Vec<&str> = hits.iter().map(|hit| hit.turn.id.as_str()).collect();
            recall.add(question, &found);
        }
        bar.inc(1);
    }
    bar.finish_and_clear();
    let recall = recall.means();
    let columns = ["turn@5", "turn@10", "session@5", "session@10"];
    let mut head = vec!["type".to_owned(), "n".to_owned()];
    for what in ["any", "all", "ndcg"] {
        head.extend(columns.map(|column| format!("{what} {column}")));
    }
    let row = |name: &str, table: &HistoryRecallTable| {
        let mut row = vec![name.to_owned(), table.n.to_string()];
        for values in [&table.recall_any, &table.recall_all, &table.ndcg_any] {
            row.extend(columns.map(|key| values.get(key).map_or("-".into(), |value| format!("{value:.3}"))));
        }
        row
    };
    let mut rows = vec![head];
    rows.extend(recall.types().map(|(name, table)| row(name, table)));
    rows.push(row("all", &recall.all));
    output::table(&rows);
    output::line(format!(
        "{} questions in no mean: abstention, or no marked turn of the user; peak memory {}",
        recall.unscored,
        environment::peak_bytes().map_or("unknown".into(), output::bytes)
    ));
    match &args.json {
        Some(path) => super::write_json(path, &recall),
        None => Ok(()),
    }
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
