//! A small memory for tests: turns in a list, found by common words.

use std::collections::HashSet;

use jiff::civil::date;
use retrieval::{
    Card, ConversationId, Hit, Recall, RetrievalError, SearchRequest, SessionId, TurnId, TurnRecord,
};

/// A turn of the session of 8 May 2023.
pub(crate) fn turn(id: &str, speaker: &str, text: &str) -> TurnRecord {
    TurnRecord {
        conversation: ConversationId::new("conv"),
        session: SessionId::new("session_1"),
        id: TurnId::new(id),
        time: Some(date(2023, 5, 8).at(13, 56, 0, 0)),
        position: 0,
        speaker: speaker.into(),
        text: text.into(),
        caption: None,
    }
}

/// A memory of a few turns.
#[derive(Debug, Clone)]
pub(crate) struct Notebook {
    pub(crate) turns: Vec<TurnRecord>,
}

impl Notebook {
    /// Two sessions between Ann and Bob, nine turns.
    pub(crate) fn small() -> Self {
        let said = [
            ("D1:1", "Ann", "Hi Bob! How was your week?"),
            ("D1:2", "Bob", "Busy. I adopted a dog yesterday, his name is Rex."),
            (
                "D1:3",
                "Ann",
                "How sweet! I went to the pottery class last Friday.",
            ),
            ("D1:4", "Bob", "What did you make there?"),
            ("D1:5", "Ann", "A blue bowl, it is on my desk now."),
            (
                "D2:1",
                "Bob",
                "Rex ran away two days ago, we found him at the lake.",
            ),
            ("D2:2", "Ann", "Oh no! Is he all right?"),
            (
                "D2:3",
                "Bob",
                "Yes. We move to Oslo next month, he will have a garden.",
            ),
            ("D2:4", "Ann", "I shall miss you both."),
        ];
        let turns = said.iter().enumerate().map(|(position, (id, speaker, text))| {
            let mut turn = turn(id, speaker, text);
            turn.position = position as u32;
            if id.starts_with("D2") {
                turn.session = SessionId::new("session_2");
                turn.time = Some(date(2023, 6, 20).at(9, 0, 0, 0));
            }
            turn
        });
        let mut turns: Vec<_> = turns.collect();
        turns[4].caption = Some("a blue bowl on a desk".into());
        Self { turns }
    }
}

fn words(text: &str) -> HashSet<String> {
    text.split(|c: char| !c.is_alphanumeric())
        .filter(|w| w.len() > 2)
        .map(str::to_lowercase)
        .collect()
}

impl Recall for Notebook {
    fn card(&self) -> Result<Card, RetrievalError> {
        let mut speakers: Vec<String> = Vec::new();
        for turn in &self.turns {
            if !speakers.contains(&turn.speaker) {
                speakers.push(turn.speaker.clone());
            }
        }
        let sessions: HashSet<_> = self.turns.iter().map(|turn| &turn.session).collect();
        Ok(Card {
            speakers,
            first: self.turns.first().and_then(|turn| turn.time),
            last: self.turns.last().and_then(|turn| turn.time),
            sessions: sessions.len(),
            turns: self.turns.len(),
        })
    }

    fn search(&self, request: &SearchRequest) -> Result<Vec<Hit>, RetrievalError> {
        let wanted = words(&request.query);
        let score = |turn: &TurnRecord| {
            words(&format!("{} {}", turn.speaker, turn.text))
                .intersection(&wanted)
                .count() as f32
        };
        let mut hits: Vec<Hit> = self
            .turns
            .iter()
            .map(|turn| Hit {
                turn: turn.clone(),
                score: score(turn),
            })
            .collect();
        hits.retain(|hit| hit.score > 0.0);
        hits.sort_by(|a, b| {
            b.score
                .total_cmp(&a.score)
                .then(a.turn.position.cmp(&b.turn.position))
        });
        hits.truncate(request.limit);
        Ok(hits)
    }

    fn turns(&self) -> Result<Vec<TurnRecord>, RetrievalError> {
        Ok(self.turns.clone())
    }

    fn window(
        &self,
        conversation: &ConversationId,
        turn: &TurnId,
        each_side: usize,
    ) -> Result<Vec<TurnRecord>, RetrievalError> {
        let middle = self
            .turns
            .iter()
            .position(|t| &t.id == turn && &t.conversation == conversation)
            .ok_or(RetrievalError::UnknownTurn {
                conversation: conversation.to_string(),
                turn: turn.to_string(),
            })?;
        let session = &self.turns[middle].session;
        let range = middle.saturating_sub(each_side)..(middle + each_side + 1).min(self.turns.len());
        Ok(self.turns[range]
            .iter()
            .filter(|t| &t.session == session)
            .cloned()
            .collect())
    }
}
