//! `--method retrieval`: evidence recall.

use std::collections::BTreeMap;
use std::sync::Arc;

use anyhow::Result;
use evaluation::{Question, RecallTable, evaluate_retrieval};
use kernels::Cpu;
use retrieval::{ConversationId, Recall, Searcher};

use super::{locomo, write_json};
use crate::cli::LocomoArgs;
use crate::{output, progress};

pub(super) fn run(args: &LocomoArgs, questions: &[&Question], cpu: Arc<Cpu>, quiet: bool) -> Result<()> {
    let whole = locomo::searcher(args, cpu)?;
    let searchers = by_conversation(&whole, questions)?;
    let bar = progress::count_bar(quiet);
    bar.set_length(questions.len() as u64);
    bar.set_message("searching");
    let report = evaluate_retrieval(
        questions,
        locomo::retriever(args.retriever),
        &|question| &searchers[&question.conversation] as &dyn Recall,
        &mut |done| bar.set_position(done as u64),
    )?;
    bar.finish_and_clear();
    if let Some(path) = &args.json {
        write_json(path, &report)?;
    }
    let mut rows = vec![head()];
    rows.extend(report.by_category.iter().map(|(name, table)| row(name, table)));
    rows.push(row("all", &report.all));
    output::table(&rows);
    output::line(format!(
        "{} questions without evidence left out; {:.1} s, {:.1} ms a question; mean tokens: {}",
        report.without_evidence,
        report.seconds,
        1000.0 * report.seconds / questions.len() as f64,
        tokens(&report.all),
    ));
    Ok(())
}

/// One searcher per conversation, so that a question finds turns of its own conversation only.
pub(super) fn by_conversation(
    whole: &Searcher,
    questions: &[&Question],
) -> Result<BTreeMap<String, Searcher>> {
    let mut searchers = BTreeMap::new();
    for question in questions {
        if !searchers.contains_key(&question.conversation) {
            let searcher = whole.within(&ConversationId::new(&question.conversation))?;
            searchers.insert(question.conversation.clone(), searcher);
        }
    }
    Ok(searchers)
}

/// Mean tokens returned, by rank.
pub(super) fn tokens(table: &RecallTable) -> String {
    let tokens = table
        .tokens
        .iter()
        .map(|(key, tokens)| format!("{key}: {tokens:.0}"));
    tokens.collect::<Vec<_>>().join(", ")
}

pub(super) fn head() -> Vec<String> {
    [
        "category",
        "n",
        "@5",
        "@10",
        "@20",
        "@50",
        "500 tk",
        "1000 tk",
        "2000 tk",
        "10 ±4",
        "strict @10",
    ]
    .map(str::to_owned)
    .to_vec()
}

pub(super) fn row(name: &str, table: &RecallTable) -> Vec<String> {
    let figure =
        |values: &BTreeMap<String, f64>, key: &str| values.get(key).map_or("-".into(), |v| format!("{v:.3}"));
    let mut row = vec![name.to_owned(), table.n.to_string()];
    row.extend(["5", "10", "20", "50"].map(|key| figure(&table.recall, key)));
    row.extend(["500", "1000", "2000"].map(|key| figure(&table.recall_at_tokens, key)));
    row.push(format!("{:.3}", table.recall_with_window));
    row.push(figure(&table.recall_strict, "10"));
    row
}
