//! LongMemEval's retrieval metrics, exactly as its `src/retrieval/{run_retrieval,eval_utils}.py` compute them.
//!
//! The corpus is the user turns only. What is relevant is known from the ids alone: those that contain `answer`.
//! Wu et al., "LongMemEval", ICLR 2025.

use std::collections::HashSet;

use crate::f1::count;

/// What one item of the corpus is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Granularity {
    /// All user turns of a session, joined.
    Session,
    /// One user turn.
    Turn,
}

/// Which turns of a session the user said, and whether the data marks them with `has_answer`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct UserTurns<'a> {
    /// For each turn of the session in order: `None` for the assistant's, else the mark (false where absent).
    pub marks: &'a [Option<bool>],
}

/// Recall and normalised gain of one question at one k, each from 0 to 1.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct RetrievalScores {
    /// 1 when any relevant item is in the top k; 0 when nothing is relevant.
    pub recall_any: f64,
    /// 1 when every relevant item is in the top k; 1 when nothing is relevant.
    pub recall_all: f64,
    /// Gain over the ideal gain; rank 1 and rank 2 are not discounted, rank i by log2(i).
    pub ndcg_any: f64,
}

/// The corpus ids of one session, in the order of its items.
///
/// A session is its own id, a turn `<session>_<position from 1>`. Where an `answer` session holds no marked user turn,
/// or the turn is not marked, `answer` becomes `noans`, so that it is not relevant.
#[must_use]
pub fn corpus_ids(session: &str, turns: UserTurns<'_>, granularity: Granularity) -> Vec<String> {
    let unmarked = |id: String| id.replace("answer", "noans");
    match granularity {
        Granularity::Session if turns.marks.contains(&Some(true)) => vec![session.to_owned()],
        Granularity::Session => vec![unmarked(session.to_owned())],
        Granularity::Turn => (1..)
            .zip(turns.marks)
            .filter_map(|(position, mark)| {
                let id = format!("{session}_{position}");
                mark.map(|marked| if marked { id } else { unmarked(id) })
            })
            .collect(),
    }
}

/// Whether a question counts in the means: it is no abstention question and something in its corpus is relevant.
#[must_use]
pub fn is_scored(question_id: &str, corpus: &[String]) -> bool {
    !question_id.contains("_abs") && corpus.iter().any(|id| is_relevant(id))
}

/// The scores of the first `k` of `ranking`, which holds indices into `corpus`, best first.
///
/// # Panics
/// When an index of `ranking` lies outside `corpus`.
#[must_use]
pub fn retrieval_scores(ranking: &[usize], corpus: &[String], k: usize) -> RetrievalScores {
    let ids: Vec<&str> = corpus.iter().map(String::as_str).collect();
    scores(ranking, &ids, k)
}

/// Session scores of a ranking of turns: each turn stands for its session, and the cut moves down until `k` different
/// sessions are in.
///
/// # Panics
/// When an index of `ranking` lies outside `corpus`.
#[must_use]
pub fn session_scores_of_turns(ranking: &[usize], corpus: &[String], k: usize) -> RetrievalScores {
    let sessions: Vec<&str> = corpus
        .iter()
        .map(|id| id.rsplit_once('_').map_or("", |(session, _)| session))
        .collect();
    let different = |cut: usize| {
        top(ranking, cut)
            .iter()
            .map(|&index| sessions[index])
            .collect::<HashSet<_>>()
            .len()
    };
    let mut cut = k;
    while cut <= corpus.len() && different(cut) < k {
        cut += 1;
    }
    scores(ranking, &sessions, cut)
}

fn scores(ranking: &[usize], ids: &[&str], k: usize) -> RetrievalScores {
    let found: HashSet<&str> = top(ranking, k).iter().map(|&index| ids[index]).collect();
    let relevant: HashSet<&str> = ids.iter().copied().filter(|id| is_relevant(id)).collect();
    let truth = |holds: bool| f64::from(u8::from(holds));
    RetrievalScores {
        recall_any: truth(relevant.iter().any(|id| found.contains(id))),
        recall_all: truth(relevant.iter().all(|id| found.contains(id))),
        ndcg_any: normalised_gain(ranking, ids, k),
    }
}

fn normalised_gain(ranking: &[usize], ids: &[&str], k: usize) -> f64 {
    let mut ideal: Vec<bool> = ids.iter().map(|id| is_relevant(id)).collect();
    let actual: Vec<bool> = top(ranking, k).iter().map(|&index| ideal[index]).collect();
    ideal.sort_by(|a, b| b.cmp(a));
    ideal.truncate(k);
    let best = gain(&ideal);
    if best == 0.0 { 0.0 } else { gain(&actual) / best }
}

/// Discounted cumulative gain: the first counts whole, the one of rank i 1/log2(i).
fn gain(relevant: &[bool]) -> f64 {
    (1..)
        .zip(relevant)
        .filter(|(_, relevant)| **relevant)
        .map(|(rank, _)| if rank == 1 { 1.0 } else { 1.0 / count(rank).log2() })
        .sum()
}

fn top(ranking: &[usize], k: usize) -> &[usize] {
    &ranking[..k.min(ranking.len())]
}

fn is_relevant(id: &str) -> bool {
    id.contains("answer")
}
