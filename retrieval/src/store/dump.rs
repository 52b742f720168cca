//! The whole store as text, for tests and for eyes.

use std::fmt;

use super::postings::Posting;
use super::{Memory, Reading};
use crate::RetrievalError;

impl fmt::Display for Memory {
    /// Every record in key order. Postings are shown by stem and conversation, whatever their blocks.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.read(dump) {
            Ok(text) => f.write_str(&text),
            Err(error) => write!(f, "unreadable: {error}"),
        }
    }
}

fn dump(reading: &Reading<'_>) -> Result<String, RetrievalError> {
    let mut lines = Vec::new();
    for (number, record) in reading.conversations()? {
        lines.push(format!(
            "conversation {number} {} speakers {:?} sessions {} turns {}",
            record.id, record.speakers, record.sessions, record.turns
        ));
        for index in 0..record.sessions {
            let session = reading.session(number, index)?;
            let time = session
                .time
                .as_ref()
                .map_or("undated".into(), ToString::to_string);
            lines.push(format!(
                "  session {index} {} {time} from {}",
                session.id, session.first_position
            ));
            for (place, &turn) in session.turns.iter().enumerate() {
                let stored = reading.stored_turn(turn)?;
                let time = stored
                    .time
                    .as_ref()
                    .map_or(String::new(), |time| format!(" at {time}"));
                lines.push(format!(
                    "    turn {turn} {}{time} {:?} tokens {} words {} speaker {} flags {:?}",
                    stored.id,
                    stored.passage(),
                    session.tokens[place],
                    session.words[place],
                    session.speakers[place],
                    session.flags[place],
                ));
            }
        }
    }
    for (stem, conversation, postings) in postings(reading)? {
        let postings: Vec<String> = postings
            .iter()
            .map(|p| format!("{}x{}", p.turn, p.count))
            .collect();
        lines.push(format!("stem {stem} in {conversation}: {}", postings.join(" ")));
    }
    let words = reading.databases.words.len(reading.txn)?;
    let vectors = reading.vector_turns()?;
    lines.push(format!("words {words} vectors {vectors:?}"));
    Ok(lines.join("\n"))
}

type Stem = (String, u32, Vec<Posting>);

fn postings(reading: &Reading<'_>) -> Result<Vec<Stem>, RetrievalError> {
    let mut stems: Vec<Stem> = Vec::new();
    for block in reading.databases.postings.iter(reading.txn)? {
        let (key, bytes) = block?;
        let (stem, conversation, postings) = super::postings::decode_block(key, bytes)?;
        match stems.last_mut() {
            Some(last) if last.0 == stem && last.1 == conversation => last.2.extend(postings),
            _ => stems.push((stem, conversation, postings)),
        }
    }
    Ok(stems)
}
