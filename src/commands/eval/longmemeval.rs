//! `mneme eval longmemeval --method retrieval`: evidence recall, each question in its own history.

use std::collections::BTreeMap;
use std::sync::Arc;

use anyhow::Result;
use evaluation::{
    Corpus, HistoryQuestion, HistoryRetrieval, HistoryRetrievalReport, OfficialTable, disguise,
};
use kernels::Cpu;
use retrieval::{ConversationId, Memory, ReadOptions, Searcher, for_each_conversation};

use super::{locomo, recall, write_json};
use crate::cli::LongmemevalArgs;
use crate::commands::ingest;
use crate::{assemble, output, progress};

/// One memory holds all histories, so that a session which many of them share is embedded once.
pub(super) fn run(
    args: &LongmemevalArgs,
    questions: &[&HistoryQuestion],
    cpu: Arc<Cpu>,
    quiet: bool,
) -> Result<()> {
    let embedder = assemble::embedder(cpu, &args.embedder)?;
    let mut corpora: BTreeMap<&str, Corpus> = BTreeMap::new();
    let mut failed = None;
    for_each_conversation(&args.data, &ReadOptions::default(), &mut |history| {
        let wanted = questions
            .iter()
            .find(|question| question.id == history.id.as_str());
        let Some(question) = wanted.filter(|_| failed.is_none()) else {
            return Ok(());
        };
        corpora.insert(&question.id, Corpus::new(&history, question));
        let history = [disguise(history)];
        failed = ingest::into_memory(&args.memory, &history, &*embedder, quiet).err();
        Ok(())
    })?;
    if let Some(error) = failed {
        return Err(error);
    }
    let searcher = Searcher::new(Memory::open(&args.memory)?, Some(embedder))?;
    let searcher = locomo::ranked(searcher, args.ranking)?;
    let bar = progress::count_bar(quiet);
    bar.set_length(questions.len() as u64);
    bar.set_message("searching");
    let mut run = HistoryRetrieval::default();
    for question in questions {
        let Some(corpus) = corpora.get(question.id.as_str()) else {
            continue;
        };
        let history = searcher.within(&ConversationId::new(&question.id))?;
        run.add((question, corpus), locomo::retriever(args.retriever), &history)?;
        bar.inc(1);
    }
    bar.finish_and_clear();
    let report = run.report();
    if let Some(path) = &args.json {
        write_json(path, &report)?;
    }
    print(&report, questions.len());
    Ok(())
}

fn print(report: &HistoryRetrievalReport, questions: usize) {
    let mut rows = vec![recall::head()];
    rows.extend(
        report
            .by_category
            .iter()
            .map(|(name, table)| recall::row(name, table)),
    );
    rows.push(recall::row("all", &report.all));
    output::table(&rows);
    let ranks = ["5", "10", "30", "50"];
    let mut head = vec!["user turns only".to_owned(), "n".to_owned()];
    head.extend(ranks.map(|k| format!("any@{k}")));
    head.extend(ranks.map(|k| format!("all@{k}")));
    head.extend(ranks.map(|k| format!("ndcg@{k}")));
    let row = |name: &str, table: &OfficialTable| {
        let mut row = vec![name.to_owned(), table.n.to_string()];
        for column in [&table.recall_any, &table.recall_all, &table.ndcg_any] {
            row.extend(ranks.map(|k| column.get(k).map_or("-".into(), |value| format!("{value:.3}"))));
        }
        row
    };
    output::table(&[
        head,
        row("turns", &report.official_turns),
        row("sessions", &report.official_sessions),
    ]);
    output::line(format!(
        "{} questions without evidence left out; {:.1} s, {:.1} ms a question; mean tokens: {}",
        report.left_out,
        report.seconds,
        1000.0 * report.seconds / questions.max(1) as f64,
        recall::tokens(&report.all),
    ));
}
