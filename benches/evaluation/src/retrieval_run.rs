//! How much of the evidence a memory finds, without any language model.

use std::collections::BTreeMap;
use std::time::Instant;

use retrieval::{Hit, Recall, RetrievalError, Retriever, SearchRequest};
use serde::Serialize;

use crate::{Category, Question, evidence_recall};

/// Turns asked for per question: enough to fill the largest token budget.
const LIMIT: usize = 200;
/// Ranks at which recall is measured.
const RANKS: [usize; 4] = [5, 10, 20, 50];
/// Token budgets at which recall is measured, filled with ranked turns, best first.
const BUDGETS: [usize; 3] = [500, 1_000, 2_000];
/// Windows are measured around this many turns, with this many on each side.
const WINDOW: (usize, usize) = (10, 4);

/// Mean evidence recall over questions that have evidence; keys are ranks or token budgets.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct RecallTable {
    /// Questions with evidence: the others are in no mean.
    pub n: usize,
    /// Recall among the first k turns, with mended evidence ids.
    pub recall: BTreeMap<String, f64>,
    /// The same with evidence ids as the file spells them; one that names no turn is a miss.
    pub recall_strict: BTreeMap<String, f64>,
    /// Recall among the ranked turns that fit the budget.
    pub recall_at_tokens: BTreeMap<String, f64>,
    /// Recall of the first 10 turns with 4 turns on each side.
    pub recall_with_window: f64,
    /// Mean tokens of what was returned, a quarter of the characters, by rank, and of the windows (`window`).
    pub tokens: BTreeMap<String, f64>,
}

/// A whole run.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct RetrievalReport {
    /// Over all questions of the run.
    #[serde(flatten)]
    pub all: RecallTable,
    /// By the data set's categories.
    pub by_category: BTreeMap<&'static str, RecallTable>,
    /// Questions left out because they name no evidence.
    pub without_evidence: usize,
    /// Wall-clock time of all searches.
    pub seconds: f64,
}

/// What one question adds to the means.
struct Measured {
    category: Category,
    values: Vec<(Column, String, f64)>,
}

#[derive(Clone, Copy)]
enum Column {
    Recall,
    Strict,
    AtTokens,
    Window,
    Tokens,
}

/// Searches every question of `questions` in the memory that `recall_of` gives for its conversation.
///
/// # Errors
/// Whatever a search gives.
pub fn evaluate_retrieval<'a>(
    questions: &[&Question],
    retriever: Retriever,
    recall_of: &dyn Fn(&str) -> Option<&'a dyn Recall>,
    progress: &mut dyn FnMut(usize),
) -> Result<RetrievalReport, RetrievalError> {
    let started = Instant::now();
    let mut measured = Vec::new();
    let mut without_evidence = 0;
    for (index, question) in questions.iter().enumerate() {
        progress(index);
        match recall_of(&question.conversation) {
            Some(recall) if !question.repaired_evidence.is_empty() => {
                measured.push(measure(question, retriever, recall)?);
            }
            _ => without_evidence += 1,
        }
    }
    let all: Vec<&Measured> = measured.iter().collect();
    let by_category = Category::ALL.into_iter().filter_map(|category| {
        let some: Vec<&Measured> = measured.iter().filter(|m| m.category == category).collect();
        (!some.is_empty()).then(|| (category.name(), table(&some)))
    });
    Ok(RetrievalReport {
        all: table(&all),
        by_category: by_category.collect(),
        without_evidence,
        seconds: started.elapsed().as_secs_f64(),
    })
}

fn measure(
    question: &Question,
    retriever: Retriever,
    recall: &dyn Recall,
) -> Result<Measured, RetrievalError> {
    let hits = recall.search(&SearchRequest {
        query: question.text.clone(),
        limit: LIMIT,
        retriever,
    })?;
    let share = |evidence: &[String], ids: &[&str]| evidence_recall(evidence, ids).unwrap_or(0.0);
    let ids: Vec<&str> = hits.iter().map(|hit| hit.turn.id.as_str()).collect();
    let mut values = Vec::new();
    for rank in RANKS {
        let first = &ids[..rank.min(ids.len())];
        values.push((
            Column::Recall,
            rank.to_string(),
            share(&question.repaired_evidence, first),
        ));
        values.push((Column::Strict, rank.to_string(), share(&question.evidence, first)));
        let tokens: f64 = hits.iter().take(rank).map(tokens).sum();
        values.push((Column::Tokens, rank.to_string(), tokens));
    }
    for budget in BUDGETS {
        let mut left = budget as f64;
        let fitting = hits.iter().take_while(|hit| {
            left -= tokens(hit);
            left >= 0.0
        });
        let fitting = &ids[..fitting.count()];
        values.push((
            Column::AtTokens,
            budget.to_string(),
            share(&question.repaired_evidence, fitting),
        ));
    }
    let mut widened: BTreeMap<u32, (String, f64)> = BTreeMap::new();
    for hit in hits.iter().take(WINDOW.0) {
        for turn in recall.window(&hit.turn.conversation, &hit.turn.id, WINDOW.1)? {
            let tokens = tokens(&Hit {
                turn: turn.clone(),
                score: 0.0,
            });
            widened.insert(turn.position, (turn.id.as_str().to_owned(), tokens));
        }
    }
    let widened_ids: Vec<&str> = widened.values().map(|(id, _)| id.as_str()).collect();
    values.push((
        Column::Window,
        String::new(),
        share(&question.repaired_evidence, &widened_ids),
    ));
    values.push((
        Column::Tokens,
        "window".into(),
        widened.values().map(|(_, tokens)| tokens).sum(),
    ));
    Ok(Measured {
        category: question.category,
        values,
    })
}

/// A quarter of the characters of `Speaker: text [shares caption]`, as in the published measurements.
fn tokens(hit: &Hit) -> f64 {
    let turn = &hit.turn;
    let caption = turn
        .caption
        .as_ref()
        .map_or(0, |caption| caption.chars().count() + " [shares ]".len());
    (turn.speaker.chars().count() + ": ".len() + turn.text.chars().count() + caption) as f64 / 4.0
}

fn table(measured: &[&Measured]) -> RecallTable {
    let mut table = RecallTable {
        n: measured.len(),
        ..RecallTable::default()
    };
    let share = 1.0 / measured.len().max(1) as f64;
    for (column, key, value) in measured.iter().flat_map(|m| &m.values) {
        let values = match column {
            Column::Recall => &mut table.recall,
            Column::Strict => &mut table.recall_strict,
            Column::AtTokens => &mut table.recall_at_tokens,
            Column::Tokens => &mut table.tokens,
            Column::Window => {
                table.recall_with_window += value * share;
                continue;
            }
        };
        *values.entry(key.clone()).or_default() += value * share;
    }
    table
}
