//! The questions of a LongMemEval file, each with a history of its own that is passed over here.
//!
//! Wu et al., "LongMemEval", ICLR 2025. Answers may be numbers; for an abstention question the answer is an
//! explanation, for a preference question a rubric. The order of the tests matters: `_abs` before the type.

use std::collections::HashSet;
use std::fmt;
use std::fs::File;
use std::io::{BufRead, BufReader, Read};
use std::path::Path;

use flate2::bufread::MultiGzDecoder;
use jiff::civil::DateTime;
use retrieval::{Conversation, SessionId, TurnId};
use serde::de::{SeqAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::Value;

use crate::error::EvaluationError;

/// `2023/05/30 (Tue) 23:40`
const DATE_FORMAT: &str = "%Y/%m/%d (%a) %H:%M";
const GZIP: [u8; 2] = [0x1f, 0x8b];

/// LongMemEval's types of questions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum HistoryKind {
    /// The user said it in one session.
    SingleSessionUser,
    /// The assistant said it in one session.
    SingleSessionAssistant,
    /// What the user likes; the gold is a rubric.
    SingleSessionPreference,
    /// Several sessions hold the parts.
    MultiSession,
    /// Needs dates or their order.
    TemporalReasoning,
    /// The fact changed later on.
    KnowledgeUpdate,
}

impl HistoryKind {
    /// All of them, in the order in which they are reported.
    pub const ALL: [Self; 6] = [
        Self::SingleSessionUser,
        Self::SingleSessionAssistant,
        Self::SingleSessionPreference,
        Self::MultiSession,
        Self::TemporalReasoning,
        Self::KnowledgeUpdate,
    ];

    /// The name in the file, such as `multi-session`.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::SingleSessionUser => "single-session-user",
            Self::SingleSessionAssistant => "single-session-assistant",
            Self::SingleSessionPreference => "single-session-preference",
            Self::MultiSession => "multi-session",
            Self::TemporalReasoning => "temporal-reasoning",
            Self::KnowledgeUpdate => "knowledge-update",
        }
    }

    /// The type of that name.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.name() == name)
    }
}

/// A question with its gold answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HistoryQuestion {
    /// As the file has it; also names the history.
    pub id: String,
    /// The question itself.
    pub text: String,
    /// When it is asked.
    pub date: DateTime,
    /// Its type.
    pub kind: HistoryKind,
    /// Whether the history does not hold the answer: the id contains `_abs`.
    pub abstention: bool,
    /// The right answer, an explanation for an abstention question, a rubric for a preference question.
    pub gold: String,
    /// Sessions that hold the answer, by the names of [`disguise`].
    pub evidence_sessions: Vec<String>,
    /// Turns that are marked to hold it, likewise.
    pub evidence_turns: Vec<String>,
}

/// Reads the questions, one history in memory at a time.
///
/// # Errors
/// When the file cannot be read, is not LongMemEval's array, or holds a question of an unknown type, without an
/// answer, with a date in another form, or with an id that occurred before.
pub fn read_histories(path: &Path) -> Result<Vec<HistoryQuestion>, EvaluationError> {
    let name = path.display().to_string();
    let read = |source| EvaluationError::Read {
        path: path.to_owned(),
        source,
    };
    let mut file = BufReader::new(File::open(path).map_err(read)?);
    let packed = file.fill_buf().map_err(read)?.starts_with(&GZIP);
    let reader: Box<dyn Read> = if packed {
        Box::new(BufReader::new(MultiGzDecoder::new(file)))
    } else {
        Box::new(file)
    };
    histories_from(reader, &name)
}

fn histories_from(reader: impl Read, name: &str) -> Result<Vec<HistoryQuestion>, EvaluationError> {
    let mut deserializer = serde_json::Deserializer::from_reader(reader);
    let raw = deserializer
        .deserialize_seq(Light)
        .map_err(|source| EvaluationError::Histories {
            name: name.to_owned(),
            source,
        })?;
    let mut seen = HashSet::new();
    raw.into_iter()
        .map(|raw| {
            let question = raw.checked()?;
            if seen.insert(question.id.clone()) {
                Ok(question)
            } else {
                Err(EvaluationError::DuplicateId {
                    name: name.to_owned(),
                    id: question.id,
                })
            }
        })
        .collect()
}

#[derive(Deserialize)]
struct Raw {
    question_id: String,
    question_type: String,
    question: String,
    question_date: String,
    answer: Value,
    answer_session_ids: Vec<String>,
    haystack_session_ids: Vec<String>,
    haystack_sessions: Vec<Vec<Mark>>,
}

#[derive(Deserialize)]
struct Mark {
    #[serde(default)]
    has_answer: Option<bool>,
}

#[derive(Default)]
struct Evidence {
    sessions: Vec<String>,
    turns: Vec<String>,
}

/// A question whose history is reduced to the names of what holds the answer.
struct Reduced {
    raw: Raw,
    evidence: Evidence,
}

/// Visits the array and drops each history before the next.
struct Light;

impl<'de> Visitor<'de> for Light {
    type Value = Vec<Reduced>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("LongMemEval's array of questions")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Self::Value, A::Error> {
        let mut all = Vec::new();
        while let Some(mut raw) = seq.next_element::<Raw>()? {
            let evidence = raw.evidence();
            raw.haystack_sessions = Vec::new();
            raw.haystack_session_ids = Vec::new();
            all.push(Reduced { raw, evidence });
        }
        Ok(all)
    }
}

/// Renames sessions and turns by their place: `s1`, `s1_1`. The file's own ids tell which sessions hold the answer, by
/// their names (`answer_…`) and by their lengths, and so must not reach a prompt, not even as labels.
#[must_use]
pub fn disguise(mut conversation: Conversation) -> Conversation {
    for (session, number) in conversation.sessions.iter_mut().zip(1..) {
        session.id = SessionId::new(session_name(number));
        for (turn, position) in session.turns.iter_mut().zip(1..) {
            turn.id = TurnId::new(turn_name(number, position));
        }
    }
    conversation
}

fn session_name(number: usize) -> String {
    format!("s{number}")
}

pub(crate) fn turn_name(session: usize, position: usize) -> String {
    format!("s{session}_{position}")
}

impl Raw {
    /// The evidence by the names that [`disguise`] gives. Empty sessions are no sessions there.
    fn evidence(&self) -> Evidence {
        let mut evidence = Evidence::default();
        let sessions = self.haystack_session_ids.iter().zip(&self.haystack_sessions);
        for ((id, turns), number) in sessions.filter(|(_, turns)| !turns.is_empty()).zip(1..) {
            if self.answer_session_ids.contains(id) {
                evidence.sessions.push(session_name(number));
            }
            for (turn, position) in turns.iter().zip(1..) {
                if turn.has_answer == Some(true) {
                    evidence.turns.push(turn_name(number, position));
                }
            }
        }
        evidence
    }
}

impl Reduced {
    fn checked(self) -> Result<HistoryQuestion, EvaluationError> {
        let Self { raw, evidence } = self;
        let field = |field, expected, received: &str| EvaluationError::Field {
            id: raw.question_id.clone(),
            field,
            expected,
            received: received.to_owned(),
        };
        let kind =
            HistoryKind::from_name(&raw.question_type).ok_or_else(|| EvaluationError::UnknownCategory {
                id: raw.question_id.clone(),
                received: raw.question_type.clone(),
                expected: "one of LongMemEval's six types, such as multi-session",
            })?;
        let date = DateTime::strptime(DATE_FORMAT, &raw.question_date)
            .map_err(|_| field("question_date", "like 2023/05/30 (Tue) 23:40", &raw.question_date))?;
        let gold = match &raw.answer {
            Value::String(text) => text.clone(),
            Value::Number(number) => number.to_string(),
            other @ (Value::Null | Value::Bool(_) | Value::Array(_) | Value::Object(_)) => {
                return Err(field("answer", "text or a number", &other.to_string()));
            }
        };
        Ok(HistoryQuestion {
            abstention: raw.question_id.contains("_abs"),
            id: raw.question_id,
            text: raw.question,
            date,
            kind,
            gold,
            evidence_sessions: evidence.sessions,
            evidence_turns: evidence.turns,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ONE: &str = r#"[{"question_id": "q_abs", "question_type": "multi-session", "question": "How many?",
        "question_date": "2023/05/30 (Tue) 23:40", "answer": 3, "answer_session_ids": ["a"],
        "haystack_dates": ["x", "y", "z"], "haystack_session_ids": ["a", "b", "a"], "haystack_sessions":
        [[{"role": "user", "content": "x", "has_answer": false}, {"role": "assistant", "content": "y", "has_answer": true}],
         [], [{"role": "user", "content": "z", "has_answer": true}]]}]"#;

    #[test]
    fn a_question_is_read_with_the_names_that_the_disguise_gives() {
        let questions = histories_from(ONE.as_bytes(), "lme.json").unwrap();
        let question = &questions[0];
        assert!(question.abstention);
        assert_eq!(
            (question.kind, question.gold.as_str()),
            (HistoryKind::MultiSession, "3")
        );
        assert_eq!(question.evidence_turns, ["s1_2", "s2_1"]);
        assert_eq!(question.evidence_sessions, ["s1", "s2"]);
        assert_eq!(question.date.to_string(), "2023-05-30T23:40:00");
    }

    #[test]
    fn what_cannot_be_scored_is_refused() {
        let refused = |from: &str, to: &str| {
            histories_from(ONE.replace(from, to).as_bytes(), "lme.json")
                .unwrap_err()
                .to_string()
        };
        assert!(refused("multi-session", "easy").contains("question q_abs has category easy"));
        assert!(refused("\"answer\": 3", "\"answer\": null").contains("answer must be text or a number"));
        assert!(refused("2023/05/30 (Tue)", "30 May").contains("question_date must be like"));
        let twice = format!("[{0},{0}]", ONE.trim_matches(['[', ']']).trim_end_matches("]"));
        assert!(histories_from(twice.as_bytes(), "lme.json").is_err());
        assert!(refused("[{\"question_id\"", "[{\"id\"").contains("lme.json is not a LongMemEval file"));
    }
}
