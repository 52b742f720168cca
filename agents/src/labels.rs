//! Short names of turns in prompts and replies.

use std::collections::HashMap;

use retrieval::TurnRecord;

use crate::TurnKey;

/// Longer ids cost more tokens than they tell.
const LONGEST_ID: usize = 12;

/// Gives every turn one short label, unique in a run and the same in every prompt of it.
///
/// The turn's own id where it is short and not taken by another conversation's turn, else `T1`, `T2`, ….
#[derive(Debug, Default)]
pub(crate) struct Labels {
    by_turn: HashMap<TurnKey, String>,
    by_label: HashMap<String, TurnKey>,
}

impl Labels {
    /// The label of a turn, given to it now if it has none.
    pub(crate) fn assign(&mut self, turn: &TurnRecord) -> String {
        let key = TurnKey::of(turn);
        if let Some(label) = self.by_turn.get(&key) {
            return label.clone();
        }
        let mut label = turn.id.as_str().to_owned();
        let mut number = self.by_turn.len();
        while label.is_empty() || label.chars().count() > LONGEST_ID || self.by_label.contains_key(&label) {
            number += 1;
            label = format!("T{number}");
        }
        self.by_label.insert(label.clone(), key.clone());
        self.by_turn.insert(key, label.clone());
        label
    }

    /// The label of a turn that has one, else its id.
    pub(crate) fn get(&self, turn: &TurnRecord) -> String {
        self.by_turn
            .get(&TurnKey::of(turn))
            .cloned()
            .unwrap_or_else(|| turn.id.to_string())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture::turn;

    #[test]
    fn short_ids_stay_and_long_or_taken_ones_are_numbered() {
        let mut labels = Labels::default();
        let ours = turn("D1:3", "Ann", "hello");
        let mut theirs = ours.clone();
        theirs.conversation = retrieval::ConversationId::new("other");
        let long = turn("answer_280352e9_1_3", "Ann", "hello");
        assert_eq!(labels.assign(&ours), "D1:3");
        assert_eq!(labels.assign(&theirs), "T2");
        assert_eq!(labels.assign(&long), "T3");
        assert_eq!(labels.assign(&turn("T4", "Ann", "x")), "T4");
        assert_eq!(labels.assign(&turn("another_long_turn_id", "Ann", "x")), "T5");
        assert_eq!(labels.assign(&ours), "D1:3");
        assert_eq!(labels.assign(&long), "T3");
    }
}
