//! LoCoMo (Maharana et al. 2024): an array of samples, each with numbered sessions and image captions.
//!
//! Sessions are found by their own keys, not by the date keys, of which there are more. Captions are kept, the
//! image search queries never: they hold facts that nobody said.

use std::collections::BTreeMap;
use std::fmt;

use jiff::civil::DateTime;
use serde::de::{Error as _, IgnoredAny, MapAccess, Visitor};
use serde::{Deserialize, Deserializer};

use super::container::Container;
use super::intake::Intake;
use super::json::{Source, for_each};
use crate::{Conversation, ConversationId, Moment, RetrievalError, Session, SessionId, Turn, TurnId};

/// `1:56 pm on 8 May, 2023`
const TIME_FORMAT: &str = "%I:%M %p on %d %B, %Y";

pub(super) fn read(
    container: &mut Container,
    index: usize,
    intake: &mut Intake<'_>,
) -> Result<(), RetrievalError> {
    let path = container.display(index);
    let source = Source {
        path: &path,
        format: "LoCoMo",
    };
    for_each(&source, container.read(index)?, |sample: Sample| {
        if intake.wants(&sample.sample_id) {
            intake.deliver(sample.into())?;
        }
        Ok(true)
    })
}

#[derive(Deserialize)]
struct Sample {
    sample_id: String,
    conversation: Sessions,
}

/// Sessions by number.
struct Sessions(BTreeMap<u32, (Option<Moment>, Vec<LocomoTurn>)>);

#[derive(Deserialize)]
struct LocomoTurn {
    speaker: String,
    dia_id: String,
    text: String,
    blip_caption: Option<String>,
}

impl<'de> Deserialize<'de> for Sessions {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(SessionsVisitor)
    }
}

struct SessionsVisitor;

impl<'de> Visitor<'de> for SessionsVisitor {
    type Value = Sessions;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object with session_1, session_1_date_time, ...")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Sessions, A::Error> {
        let mut turns: BTreeMap<u32, Vec<LocomoTurn>> = BTreeMap::new();
        let mut times: BTreeMap<u32, Moment> = BTreeMap::new();
        while let Some(key) = map.next_key::<String>()? {
            let rest = key.strip_prefix("session_").unwrap_or_default();
            if let Ok(number) = rest.parse() {
                if turns.insert(number, map.next_value()?).is_some() {
                    return Err(A::Error::custom(format!("{key} occurs twice, expected once")));
                }
            } else if let Some(Ok(number)) = rest.strip_suffix("_date_time").map(str::parse) {
                let text: String = map.next_value()?;
                let time = DateTime::strptime(TIME_FORMAT, &text).map_err(|_| {
                    A::Error::custom(format!(
                        "{key} is {text:?}, expected a time like \"1:56 pm on 8 May, 2023\""
                    ))
                })?;
                times.insert(number, Moment::local(time, text));
            } else {
                map.next_value::<IgnoredAny>()?;
            }
        }
        let sessions = turns
            .into_iter()
            .map(|(number, turns)| (number, (times.remove(&number), turns)));
        Ok(Sessions(sessions.collect()))
    }
}

impl From<Sample> for Conversation {
    fn from(sample: Sample) -> Self {
        let sessions = sample.conversation.0.into_iter();
        Self {
            id: ConversationId::new(sample.sample_id),
            title: None,
            sessions: sessions
                .filter(|(_, (_, turns))| !turns.is_empty())
                .map(|(number, (time, turns))| Session {
                    id: SessionId::new(format!("session_{number}")),
                    time,
                    turns: turns.into_iter().map(Turn::from).collect(),
                })
                .collect(),
        }
    }
}

impl From<LocomoTurn> for Turn {
    fn from(turn: LocomoTurn) -> Self {
        Self {
            id: TurnId::new(turn.dia_id),
            speaker: turn.speaker,
            text: turn.text,
            caption: turn.blip_caption,
            time: None,
        }
    }
}
