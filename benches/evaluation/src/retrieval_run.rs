//! How much of the evidence a memory finds, without any language model.

use std::collections::BTreeMap;
use std::time::Instant;

use retrieval::{Hit, Recall, RetrievalError, Retriever, SearchRequest, TurnRecord};
use serde::Serialize;

use crate::{Question, evidence_recall};

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
    /// By conversation.
    pub by_conversation: BTreeMap<String, RecallTable>,
    /// Questions left out because they name no evidence.
    pub without_evidence: usize,
    /// Wall-clock time of all searches.
    pub seconds: f64,
}

/// What one question adds to the means.
pub(crate) struct Measured {
    group: &'static str,
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

/// Searches every question in the memory that `recall_of` gives for it, its conversation alone.
///
/// # Errors
/// Whatever a search gives.
pub fn evaluate_retrieval<'a>(
    questions: &[&Question],
    retriever: Retriever,
    recall_of: &dyn Fn(&Question) -> &'a dyn Recall,
    progress: &mut dyn FnMut(usize),
) -> Result<RetrievalReport, RetrievalError> {
    let started = Instant::now();
    let (mut measured, mut asked) = (Vec::new(), Vec::new());
    let mut without_evidence = 0;
    for (index, question) in questions.iter().enumerate() {
        progress(index);
        if question.repaired_evidence.is_empty() {
            without_evidence += 1;
        } else {
            let recall = recall_of(question);
            let hits = search(&question.text, LIMIT, retriever, recall)?;
            let evidence = (&*question.evidence, &*question.repaired_evidence);
            measured.push(measure(question.category.name(), evidence, &hits, recall)?);
            asked.push(question.conversation.clone());
        }
    }
    let (all, by_category) = tables(&measured);
    let mut conversations: BTreeMap<String, Vec<&Measured>> = BTreeMap::new();
    for (one, conversation) in measured.iter().zip(asked) {
        conversations.entry(conversation).or_default().push(one);
    }
    let by_conversation = conversations.into_iter().map(|(id, some)| (id, table(&some)));
    Ok(RetrievalReport {
        all,
        by_category,
        by_conversation: by_conversation.collect(),
        without_evidence,
        seconds: started.elapsed().as_secs_f64(),
    })
}

/// Means over all and over each group.
pub(crate) fn tables(measured: &[Measured]) -> (RecallTable, BTreeMap<&'static str, RecallTable>) {
    let mut groups: BTreeMap<&'static str, Vec<&Measured>> = BTreeMap::new();
    for one in measured {
        groups.entry(one.group).or_default().push(one);
    }
    let all: Vec<&Measured> = measured.iter().collect();
    let by_group = groups.into_iter().map(|(name, some)| (name, table(&some)));
    (table(&all), by_group.collect())
}

pub(crate) fn search(
    text: &str,
    limit: usize,
    retriever: Retriever,
    recall: &dyn Recall,
) -> Result<Vec<Hit>, RetrievalError> {
    recall.search(&SearchRequest {
        query: text.to_owned(),
        limit,
        retriever,
    })
}

/// `evidence` as the file spells it, and mended.
pub(crate) fn measure(
    group: &'static str,
    (strict, repaired): (&[String], &[String]),
    hits: &[Hit],
    recall: &dyn Recall,
) -> Result<Measured, RetrievalError> {
    let share = |evidence: &[String], ids: &[&str]| evidence_recall(evidence, ids).unwrap_or(0.0);
    let ids: Vec<&str> = hits.iter().map(|hit| hit.turn.id.as_str()).collect();
    let mut values = Vec::new();
    for rank in RANKS {
        let first = &ids[..rank.min(ids.len())];
        values.push((Column::Recall, rank.to_string(), share(repaired, first)));
        values.push((Column::Strict, rank.to_string(), share(strict, first)));
        let tokens: f64 = hits.iter().take(rank).map(|hit| tokens(&hit.turn)).sum();
        values.push((Column::Tokens, rank.to_string(), tokens));
    }
    for budget in BUDGETS {
        let mut left = budget as f64;
        let fitting = hits.iter().take_while(|hit| {
            left -= tokens(&hit.turn);
            left >= 0.0
        });
        let fitting = &ids[..fitting.count()];
        values.push((Column::AtTokens, budget.to_string(), share(repaired, fitting)));
    }
    let mut widened: BTreeMap<u32, (String, f64)> = BTreeMap::new();
    for hit in hits.iter().take(WINDOW.0) {
        for turn in recall.window(&hit.turn.conversation, &hit.turn.id, WINDOW.1)? {
            let tokens = tokens(&turn);
            widened.insert(turn.position, (turn.id.as_str().to_owned(), tokens));
        }
    }
    let widened_ids: Vec<&str> = widened.values().map(|(id, _)| id.as_str()).collect();
    values.push((Column::Window, String::new(), share(repaired, &widened_ids)));
    values.push((
        Column::Tokens,
        "window".into(),
        widened.values().map(|(_, tokens)| tokens).sum(),
    ));
    Ok(Measured { group, values })
}

/// A quarter of the characters of `Speaker: text [shares caption]`, as in the published measurements.
fn tokens(turn: &TurnRecord) -> f64 {
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
    for (column, key, value) in measured.iter().flat_map(|m| &m.values) {
        let values = match column {
            Column::Recall => &mut table.recall,
            Column::Strict => &mut table.recall_strict,
            Column::AtTokens => &mut table.recall_at_tokens,
            Column::Tokens => &mut table.tokens,
            Column::Window => {
                table.recall_with_window += value;
                continue;
            }
        };
        *values.entry(key.clone()).or_default() += value;
    }
    // Sums first: a mean of ones is then one, and never a little more.
    let n = measured.len().max(1) as f64;
    let columns = [
        &mut table.recall,
        &mut table.recall_strict,
        &mut table.recall_at_tokens,
        &mut table.tokens,
    ];
    columns
        .into_iter()
        .flat_map(BTreeMap::values_mut)
        .for_each(|sum| *sum /= n);
    table.recall_with_window /= n;
    table
}

#[cfg(test)]
mod tests {
    use retrieval::{Card, ConversationId, Hit, SessionId, TurnId};

    use super::*;
    use crate::Category;

    /// 60 turns of one session, found in the order of the conversation, 100 tokens each.
    struct Ordered;

    fn turn(position: u32) -> TurnRecord {
        TurnRecord {
            conversation: ConversationId::new("c"),
            session: SessionId::new("s"),
            id: TurnId::new(format!("D1:{}", position + 1)),
            time: None,
            position,
            speaker: "A".into(),
            text: "x".repeat(397),
            caption: None,
        }
    }

    impl Recall for Ordered {
        fn card(&self) -> Result<Card, RetrievalError> {
            Ok(Card::default())
        }

        fn search(&self, request: &SearchRequest) -> Result<Vec<Hit>, RetrievalError> {
            let turns = (0..60u32).map(turn).take(request.limit);
            Ok(turns.map(|turn| Hit { turn, score: 1.0 }).collect())
        }

        fn turns(&self) -> Result<Vec<TurnRecord>, RetrievalError> {
            Ok((0..60u32).map(turn).collect())
        }

        fn window(
            &self,
            _: &ConversationId,
            id: &TurnId,
            each_side: usize,
        ) -> Result<Vec<TurnRecord>, RetrievalError> {
            let place = (0..60u32).find(|place| turn(*place).id == *id).unwrap();
            let side = each_side as u32;
            Ok((place.saturating_sub(side)..=place + side).map(turn).collect())
        }
    }

    fn question(category: Category, evidence: &[&str], repaired: &[&str]) -> Question {
        let owned = |ids: &[&str]| ids.iter().map(|id| (*id).to_owned()).collect();
        Question {
            id: evidence.concat(),
            conversation: "c".into(),
            text: "?".into(),
            gold: Some("x".into()),
            decoy: None,
            category,
            evidence: owned(evidence),
            repaired_evidence: owned(repaired),
        }
    }

    #[test]
    fn every_column_counts_what_it_says() {
        let questions = [
            // Rank 4 and rank 12; the window of the first 10 reaches rank 14.
            question(Category::MultiHop, &["D1:4", "D1:12"], &["D1:4", "D1:12"]),
            // A misspelt id counts when mended, not as it stands.
            question(Category::SingleHop, &["D1:06"], &["D1:6"]),
            question(Category::OpenDomain, &[], &[]),
        ];
        let questions: Vec<&Question> = questions.iter().collect();
        let report = evaluate_retrieval(&questions, Retriever::Hybrid, &|_| &Ordered, &mut |_| {}).unwrap();
        assert_eq!((report.all.n, report.without_evidence), (2, 1));
        assert_eq!(report.all.recall["5"], 0.25);
        assert_eq!(report.all.recall["10"], 0.75);
        assert_eq!(report.all.recall["20"], 1.0);
        assert_eq!(report.all.recall_strict["10"], 0.25);
        // "A: " and 397 characters are 100 tokens: 5, 10 and 20 turns fit.
        assert_eq!(report.all.recall_at_tokens["500"], 0.25);
        assert_eq!(report.all.recall_at_tokens["1000"], 0.75);
        assert_eq!(report.all.recall_at_tokens["2000"], 1.0);
        assert_eq!(report.all.recall_with_window, 1.0);
        assert_eq!(report.all.tokens["10"], 1_000.0);
        assert_eq!(report.all.tokens["window"], 1_400.0);
        assert_eq!(report.by_category["multi-hop"].recall["10"], 0.5);
        assert_eq!(report.by_category.len(), 2);
    }
}
