//! Whatever a schema allows and a memory returns, in whatever order: the loop never panics and ends within J.

use engine_contract::{Constraint, FinishReason, Generation, Usage};
use proptest::prelude::*;
use retrieval::{Hit, TurnRecord};
use serde_json::{Value, json};

use super::*;
use crate::{AgentError, Event, Machine, Memcot, Stages, Step};

/// Draws small numbers from a list of bytes, for ever.
struct Dice {
    bytes: Vec<u8>,
    next: usize,
}

impl Dice {
    fn below(&mut self, limit: usize) -> usize {
        self.next += 1;
        usize::from(self.bytes[self.next % self.bytes.len()]).wrapping_add(self.next / self.bytes.len())
            % limit
    }

    fn turns(&mut self, memory: &Notebook) -> Vec<TurnRecord> {
        (0..self.below(8))
            .map(|_| memory.turns[self.below(memory.turns.len())].clone())
            .collect()
    }

    /// Any value of a schema as `schema.rs` writes them.
    fn value(&mut self, schema: &Value) -> Value {
        if let Some(words) = schema["enum"].as_array() {
            return words[self.below(words.len())].clone();
        }
        let bound = |name: &str| schema[name].as_u64().unwrap_or(0) as usize;
        match schema["type"].as_str() {
            Some("object") => {
                let fields = schema["properties"].as_object().into_iter().flatten();
                Value::Object(
                    fields
                        .map(|(name, field)| (name.clone(), self.value(field)))
                        .collect(),
                )
            }
            Some("array") => {
                let (least, most) = (bound("minItems"), bound("maxItems"));
                let length = least + self.below(most - least + 1);
                Value::Array((0..length).map(|_| self.value(&schema["items"])).collect())
            }
            Some("boolean") => json!(self.below(2) == 1),
            Some("string") => {
                let (least, most) = (bound("minLength"), bound("maxLength"));
                let length = least + self.below(most.min(12) - least + 1);
                let letters = ['a', 'B', ' ', '"', '\n', '東', '?', '{'];
                json!(
                    (0..length)
                        .map(|_| letters[self.below(letters.len())])
                        .collect::<String>()
                )
            }
            _ => panic!("a schema of an unknown type: {schema}"),
        }
    }

    fn reply(&mut self, constraint: &Constraint) -> Generation {
        let garbage = self.below(6) == 0;
        let text = match constraint {
            Constraint::JsonSchema(schema) if !garbage => self.value(schema).to_string(),
            Constraint::JsonSchema(_) => "{\"useful\": [\"D1".to_owned(),
            Constraint::None | Constraint::Regex(_) | Constraint::Choices(_) => "some answer".to_owned(),
        };
        let finish = if garbage {
            FinishReason::Length
        } else {
            FinishReason::End
        };
        Generation {
            text,
            tokens: vec![],
            finish,
            usage: Usage::zero(),
            logprobs: None,
        }
    }
}

/// Runs a loop to its end; every third step a wrong event comes first.
fn run(settings: Settings, bytes: Vec<u8>) -> (Outcome, usize) {
    let memory = Notebook::small();
    let mut dice = Dice { bytes, next: 0 };
    let card = retrieval::Recall::card(&memory).unwrap();
    let mut memcot = Memcot::new(Question::new(QUESTION), settings, card).unwrap();
    for step_index in 0.. {
        let step = memcot.next_step();
        assert_eq!(step, memcot.next_step(), "asking twice changes nothing");
        let event = match &step {
            Step::Search { requests } => {
                let hit = |turn| Hit { turn, score: 1.0 };
                Event::Searched(
                    requests
                        .iter()
                        .map(|_| dice.turns(&memory).into_iter().map(hit).collect())
                        .collect(),
                )
            }
            Step::Window { turns, .. } => {
                Event::Windowed(turns.iter().map(|_| dice.turns(&memory)).collect())
            }
            Step::Memories { .. } => unreachable!("MemCoT asks for turns only"),
            Step::Generate { request, .. } => Event::Generated(dice.reply(&request.constraint)),
            Step::Finished(outcome) => return ((**outcome).clone(), step_index),
        };
        if dice.below(3) == 0 {
            let wrong = if matches!(event, Event::Windowed(_)) {
                Event::Searched(vec![])
            } else {
                Event::Windowed(vec![])
            };
            let error = memcot.on_event(wrong).unwrap_err();
            assert!(matches!(error, AgentError::UnexpectedEvent { .. }), "{error}");
            assert_eq!(step, memcot.next_step(), "a wrong event changes nothing");
        }
        memcot.on_event(event).unwrap();
    }
    unreachable!("the loop above has no other end")
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]
    #[test]
    fn ends_within_its_iterations(
        bytes in prop::collection::vec(any::<u8>(), 1..200),
        max_iterations in 1usize..6,
        flags in any::<[bool; 5]>(),
        max_picks in 1usize..6,
        tokens in 1usize..300,
    ) {
        let [fused, zoom_out, episodic, abstain, fill] = flags;
        let settings = Settings {
            max_iterations,
            max_picks,
            candidate_tokens: tokens,
            window_tokens: tokens,
            episodic_tokens: tokens / 4,
            fill_tokens: if fill { tokens } else { 0 },
            stages: if fused { Stages::Fused } else { Stages::Separate },
            zoom_out,
            episodic,
            abstain,
            ..Settings::default()
        };
        let (outcome, steps) = run(settings, bytes);
        prop_assert!((1..=max_iterations).contains(&outcome.iterations));
        // Per iteration a search, a window, and four stages of at most two tries, rewrite one more; then the answer.
        prop_assert!(steps <= max_iterations * 11 + 2, "{steps} steps");
        prop_assert!(outcome.abstained == (outcome.answer == Outcome::NOT_FOUND));
        if !outcome.abstained {
            prop_assert!(!outcome.evidence.is_empty());
        }
        let unique: std::collections::HashSet<_> = outcome.accepted.iter().map(|turn| &turn.id).collect();
        prop_assert_eq!(unique.len(), outcome.accepted.len());
    }
}
