//! Whatever a schema allows and a memory returns, in whatever order: the loop never panics and ends within J.

use std::collections::HashSet;

use engine_contract::{Constraint, FinishReason, Generation, Usage};
use proptest::prelude::*;
use retrieval::{Hit, TurnRecord};
use serde_json::{Value, json};

use crate::fixture::Notebook;
use crate::{
    AgentError, Event, FormEvent, FormStep, Formation, FormationSettings, FullContextSettings, Machine,
    Memory, MemoryId, Method, Operation, Outcome, Question, RagSettings, RimeSettings, Settings, Stages,
    Step,
};

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

    fn memories(&mut self, memory: &Notebook) -> Vec<Memory> {
        let facts = (0..self.below(4)).map(|id| Memory {
            id: MemoryId(id as u64),
            text: "Ann has a bowl.".into(),
            time: String::new(),
            said: None,
            sources: self.turns(memory),
        });
        facts.collect()
    }

    /// Any value of a schema as `schema.rs` writes them.
    fn value(&mut self, schema: &Value) -> Value {
        if let Some(words) = schema["enum"].as_array() {
            return words[self.below(words.len())].clone();
        }
        if let Some(kinds) = schema["anyOf"].as_array() {
            let kind = self.below(kinds.len());
            return self.value(&kinds[kind]);
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

/// Runs a loop to its end; every third step a wrong event comes first. Returns the outcome and the steps taken.
fn run(machine: &mut dyn Machine, bytes: Vec<u8>) -> (Outcome, usize) {
    let memory = Notebook::small();
    let mut dice = Dice { bytes, next: 0 };
    for steps in 0.. {
        let step = machine.next_step();
        assert_eq!(step, machine.next_step(), "asking twice changes nothing");
        let event = match &step {
            Step::Search { requests } => {
                let hits =
                    |turns: Vec<TurnRecord>| turns.into_iter().map(|turn| Hit { turn, score: 1.0 }).collect();
                Event::Searched(requests.iter().map(|_| hits(dice.turns(&memory))).collect())
            }
            Step::Window { turns, .. } => {
                Event::Windowed(turns.iter().map(|_| dice.turns(&memory)).collect())
            }
            Step::Read => Event::Read(dice.turns(&memory)),
            Step::Memories { .. } => Event::Memories(dice.memories(&memory)),
            Step::Generate { request, .. } => Event::Generated(dice.reply(&request.constraint)),
            Step::Finished(outcome) => return ((**outcome).clone(), steps),
        };
        if dice.below(3) == 0 {
            let windows = matches!(event, Event::Windowed(_));
            let wrong = if windows {
                Event::Searched(vec![])
            } else {
                Event::Windowed(vec![])
            };
            let error = machine.on_event(wrong).unwrap_err();
            assert!(matches!(error, AgentError::UnexpectedEvent { .. }), "{error}");
            assert_eq!(step, machine.next_step(), "a wrong event changes nothing");
        }
        machine.on_event(event).unwrap();
    }
    unreachable!("the loop above has no other end")
}

fn start(method: &Method) -> Box<dyn Machine> {
    let card = retrieval::Recall::card(&Notebook::small()).unwrap();
    method
        .start(Question::new("When did Bob's dog run away?"), card)
        .unwrap()
}

fn consistent(outcome: &Outcome) {
    assert_eq!(outcome.abstained, outcome.answer == Outcome::NOT_FOUND);
    assert!(outcome.abstained || !outcome.evidence.is_empty(), "{outcome:?}");
    let unique: HashSet<_> = outcome.accepted.iter().map(|turn| &turn.id).collect();
    assert_eq!(unique.len(), outcome.accepted.len(), "no turn is accepted twice");
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
        let (outcome, steps) = run(&mut *start(&Method::Memcot(settings)), bytes);
        consistent(&outcome);
        prop_assert!((1..=max_iterations).contains(&outcome.iterations));
        // Per iteration a search, a window, and four stages of at most two tries, rewrite one more; then the answer.
        prop_assert!(steps <= max_iterations * 11 + 2, "{steps} steps");
    }

    #[test]
    fn baseline_and_memories_end_too(
        bytes in prop::collection::vec(any::<u8>(), 1..200),
        abstain in any::<bool>(),
        verify in any::<bool>(),
        tokens in 1usize..300,
    ) {
        let (outcome, steps) =
            run(&mut *start(&Method::Rag(RagSettings { abstain, candidate_tokens: tokens, ..RagSettings::default() })), bytes.clone());
        consistent(&outcome);
        prop_assert!(steps <= 3, "{steps} steps");
        let whole = FullContextSettings { truncate: verify, turn_tokens: tokens, abstain, ..FullContextSettings::default() };
        let (outcome, steps) = run(&mut *start(&Method::FullContext(whole)), bytes.clone());
        consistent(&outcome);
        prop_assert!(steps <= 3, "{steps} steps");
        let settings =
            RimeSettings { abstain, verify, memory_tokens: tokens, fallback_tokens: tokens, ..RimeSettings::default() };
        let (outcome, steps) = run(&mut *start(&Method::Rime(settings)), bytes);
        prop_assert_eq!(outcome.abstained, outcome.answer == Outcome::NOT_FOUND);
        prop_assert!(steps <= 9, "{steps} steps");
    }

    #[test]
    fn formation_ends_and_names_only_what_it_was_shown(
        bytes in prop::collection::vec(any::<u8>(), 1..200),
        evidence_tokens in 50usize..200,
    ) {
        let memory = Notebook::small();
        let mut dice = Dice { bytes, next: 0 };
        let settings = FormationSettings { evidence_tokens, ..FormationSettings::default() };
        let mut formation = Formation::new(memory.turns.clone(), settings).unwrap();
        let known = dice.memories(&memory);
        let formed = loop {
            let event = match formation.next_step() {
                FormStep::SimilarTurns { texts, .. } => FormEvent::SimilarTurns(
                    texts.iter().map(|_| dice.turns(&memory).into_iter().map(|turn| Hit { turn, score: 1.0 }).collect()).collect(),
                ),
                FormStep::SimilarMemories { texts, .. } => {
                    FormEvent::SimilarMemories(texts.iter().map(|_| known.clone()).collect())
                }
                FormStep::Generate(request) => FormEvent::Generated(dice.reply(&request.constraint)),
                FormStep::Apply(_) => FormEvent::Applied,
                FormStep::Finished(formed) => break formed,
            };
            formation.on_event(event).unwrap();
        };
        let mut changed = HashSet::new();
        for operation in &formed.operations {
            let (Operation::Add { sources, .. } | Operation::Update { sources, .. } | Operation::Delete { sources, .. }) =
                operation;
            prop_assert!(!sources.is_empty());
            if let Operation::Update { id, .. } | Operation::Delete { id, .. } = operation {
                prop_assert!(known.iter().any(|memory| memory.id == *id));
                prop_assert!(changed.insert(*id), "one session changes a memory once");
            }
        }
    }
}
