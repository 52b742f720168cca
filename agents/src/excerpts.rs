//! Turns as the model reads them, and how many fit a budget.

use jiff::civil::DateTime;
use minijinja::{Value, context};
use retrieval::TurnRecord;

use crate::time_words::{self, TimeNote, long_date};

/// One turn in a prompt.
#[derive(Debug, Clone)]
pub(crate) struct Excerpt {
    /// Its label.
    pub(crate) id: String,
    /// Its session's date, where known.
    pub(crate) date: Option<String>,
    /// Who speaks.
    pub(crate) speaker: String,
    /// What was said, with dates behind relative time words where that is on.
    pub(crate) text: String,
    /// What an attached image shows.
    pub(crate) caption: Option<String>,
}

impl From<Excerpt> for Value {
    fn from(excerpt: Excerpt) -> Self {
        let Excerpt {
            id,
            date,
            speaker,
            text,
            caption,
        } = excerpt;
        context! { id, date, speaker, text, caption }
    }
}

/// A turn as an excerpt, and the time words resolved in it.
pub(crate) fn excerpt(turn: &TurnRecord, label: String, time_words: bool) -> (Excerpt, Vec<TimeNote>) {
    let one_line = turn.text.split_whitespace().collect::<Vec<_>>().join(" ");
    let (text, notes) = annotated(one_line, turn.time, time_words);
    let date = turn.time.map(|time| long_date(time.date()));
    let excerpt = Excerpt {
        id: label,
        date,
        speaker: turn.speaker.clone(),
        text,
        caption: turn.caption.clone(),
    };
    (excerpt, notes)
}

/// A text with its time words resolved against a date, where both are wanted and known.
pub(crate) fn annotated(text: String, said: Option<DateTime>, time_words: bool) -> (String, Vec<TimeNote>) {
    match said.filter(|_| time_words) {
        Some(said) => time_words::annotate(&text, said.date()),
        None => (text, Vec::new()),
    }
}

/// Tokens of a text, estimated at four bytes each: the loops have no tokenizer.
pub(crate) fn estimated_tokens(text: &str) -> usize {
    text.len().div_ceil(4)
}

fn cost(turn: &TurnRecord) -> usize {
    let caption = turn.caption.as_ref().map_or(0, String::len);
    // The label, the date and the punctuation around them take about twelve tokens.
    12 + (turn.speaker.len() + turn.text.len() + caption).div_ceil(4)
}

/// The longest run of turns from the front that fits the budget, at least one where there is any: a budget
/// smaller than the best turn would show nothing.
pub(crate) fn within_budget(turns: Vec<TurnRecord>, tokens: usize) -> Vec<TurnRecord> {
    let mut spent = 0;
    let mut kept = Vec::new();
    for turn in turns {
        spent += cost(&turn);
        if spent > tokens && !kept.is_empty() {
            break;
        }
        kept.push(turn);
    }
    kept
}

/// Sorts turns into the order in which they were said: by position inside a conversation, by time across several.
pub(crate) fn in_order(turns: &mut [TurnRecord]) {
    // A session without a date keeps its place between its neighbours.
    if turns
        .windows(2)
        .all(|pair| pair[0].conversation == pair[1].conversation)
    {
        turns.sort_by_key(|turn| turn.position);
    } else {
        turns.sort_by(|a, b| {
            (a.time, &a.conversation, a.position).cmp(&(b.time, &b.conversation, b.position))
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture::turn;

    #[test]
    fn budget_keeps_the_best_and_never_nothing() {
        let turns = vec![
            turn("D1:1", "Ann", &"x".repeat(40)),
            turn("D1:2", "Ann", &"y".repeat(40)),
        ];
        assert_eq!(within_budget(turns.clone(), 1).len(), 1);
        assert_eq!(within_budget(turns.clone(), 45).len(), 1);
        assert_eq!(within_budget(turns, 46).len(), 2);
        assert_eq!(within_budget(vec![], 10), vec![]);
    }

    #[test]
    fn order_is_that_of_the_conversation_not_of_the_ids() {
        let mut turns: Vec<_> = ["D10:1", "D2:1", "D1:9"]
            .iter()
            .map(|id| turn(id, "Ann", "x"))
            .collect();
        for (turn, position) in turns.iter_mut().zip([90, 12, 3]) {
            turn.position = position;
        }
        turns[1].time = None;
        in_order(&mut turns);
        assert_eq!(
            turns.iter().map(|t| t.id.as_str()).collect::<Vec<_>>(),
            ["D1:9", "D2:1", "D10:1"]
        );
    }

    #[test]
    fn line_breaks_in_a_turn_cannot_start_a_new_excerpt() {
        let (excerpt, notes) = excerpt(
            &turn("D1:1", "Ann", "yesterday\n\nD9:9 Bob: no"),
            "D1:1".into(),
            true,
        );
        assert_eq!(excerpt.text, "yesterday [7 May 2023] D9:9 Bob: no");
        assert_eq!(notes.len(), 1);
    }
}
