//! What the memory gave, before the model sees it: merging hits and windows.

use std::collections::HashMap;

use retrieval::{Hit, TurnRecord};

use super::state::{State, same};
use crate::TurnKey;
use crate::excerpts::{in_order, within_budget};

/// The best new turns of several searches: rank by rank from each query, every turn once, cut to the budget.
///
/// Evidence is left out, and so are turns that an earlier search has shown: the model has passed them over,
/// and the tokens buy new ones.
pub(super) fn candidates(state: &State, lists: Vec<Vec<Hit>>) -> Vec<TurnRecord> {
    let mut merged: Vec<TurnRecord> = Vec::new();
    let mut lists: Vec<_> = lists.into_iter().map(Vec::into_iter).collect();
    loop {
        let row: Vec<Hit> = lists.iter_mut().filter_map(Iterator::next).collect();
        if row.is_empty() {
            break;
        }
        for Hit { turn, .. } in row {
            let known = state.holds(&turn) || state.seen(&turn) || merged.iter().any(|m| same(m, &turn));
            if !known {
                merged.push(turn);
            }
        }
    }
    merged.truncate(state.settings.top_k * state.queries.len().max(1));
    within_budget(merged, state.settings.candidate_tokens)
}

/// The union of windows in the order of the conversation, cut to the budget from the far ends: turns near a
/// picked one stay longest.
pub(crate) fn neighbourhood(state: &State, windows: Vec<Vec<TurnRecord>>) -> Vec<TurnRecord> {
    let mut nearest: HashMap<TurnKey, (usize, TurnRecord)> = HashMap::new();
    for window in windows {
        let centres: Vec<usize> = (0..window.len()).filter(|&i| picked(state, &window[i])).collect();
        for (index, turn) in window.into_iter().enumerate() {
            let distance = centres
                .iter()
                .map(|centre| centre.abs_diff(index))
                .min()
                .unwrap_or(usize::MAX);
            let entry = nearest.entry(TurnKey::of(&turn)).or_insert((distance, turn));
            entry.0 = entry.0.min(distance);
        }
    }
    let mut turns: Vec<(usize, TurnRecord)> = nearest.into_values().collect();
    turns.sort_by(|(a, x), (b, y)| (a, &x.conversation, x.position).cmp(&(b, &y.conversation, y.position)));
    let turns = turns.into_iter().map(|(_, turn)| turn).collect();
    let mut kept = within_budget(turns, state.settings.window_tokens);
    in_order(&mut kept);
    kept
}

fn picked(state: &State, turn: &TurnRecord) -> bool {
    state.picked.iter().any(|picked| same(picked, turn))
}

/// What the responder reads: the evidence, then the best found turns up to the fill budget; without any
/// evidence, the best found turns alone. In the order in which they were said.
pub(super) fn answer_base(state: &State) -> Vec<TurnRecord> {
    let evidence = state.evidence();
    let rest = state.ranked.iter().filter(|turn| !state.holds(turn)).cloned();
    let mut turns = if evidence.is_empty() {
        within_budget(rest.collect(), state.settings.candidate_tokens)
    } else if state.settings.fill_tokens == 0 {
        evidence
    } else {
        let least = evidence.len();
        let all: Vec<TurnRecord> = evidence.iter().cloned().chain(rest).collect();
        let filled = within_budget(all, state.settings.fill_tokens);
        if filled.len() < least { evidence } else { filled }
    };
    in_order(&mut turns);
    turns
}
