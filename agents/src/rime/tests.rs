//! Formation and use against a scripted model and a bank in memory.

use std::collections::BTreeSet;
use std::sync::Mutex;
use std::sync::atomic::AtomicBool;

use engine_contract::scripted::ScriptedModel;
use engine_contract::{Constraint, GenerationRequest, Prompt};
use insta::assert_snapshot;
use retrieval::{ConversationId, Hit, Recall, RetrievalError, SearchRequest, SessionId, TurnRecord};

use super::*;
use crate::fixture::Notebook;
use crate::{AgentError, Answered, Driver, Job, Method, Note, Question, TurnKey, replay};

/// A bank in memory over the small notebook.
#[derive(Default)]
struct Shelf {
    memories: Mutex<Vec<Memory>>,
    formed: Mutex<BTreeSet<SessionKey>>,
}

impl Shelf {
    fn texts(&self) -> Vec<String> {
        self.memories
            .lock()
            .unwrap()
            .iter()
            .map(|memory| memory.text.clone())
            .collect()
    }

    fn with(texts: &[(&str, &str)]) -> Self {
        let turns = Notebook::small().turns;
        let memory = |(i, (text, source)): (usize, &(&str, &str))| Memory {
            id: MemoryId(i as u64),
            text: (*text).into(),
            time: String::new(),
            said: None,
            sources: turns
                .iter()
                .filter(|turn| turn.id.as_str() == *source)
                .cloned()
                .collect(),
        };
        Self {
            memories: Mutex::new(texts.iter().enumerate().map(memory).collect()),
            ..Self::default()
        }
    }
}

fn key(number: usize) -> SessionKey {
    SessionKey {
        conversation: ConversationId::new("conv"),
        session: SessionId::new(format!("session_{number}")),
    }
}

impl MemoryBank for Shelf {
    fn unformed(&self) -> Result<Vec<SessionKey>, RetrievalError> {
        let formed = self.formed.lock().unwrap();
        Ok([key(1), key(2)]
            .into_iter()
            .filter(|session| !formed.contains(session))
            .collect())
    }

    fn session(&self, session: &SessionKey) -> Result<Vec<TurnRecord>, RetrievalError> {
        Ok(Notebook::small()
            .turns
            .into_iter()
            .filter(|turn| turn.session == session.session)
            .collect())
    }

    fn similar_turns(
        &self,
        session: &SessionKey,
        text: &str,
        limit: usize,
    ) -> Result<Vec<Hit>, RetrievalError> {
        let turns = self.session(session)?;
        let request = SearchRequest {
            query: text.into(),
            limit,
            retriever: retrieval::Retriever::Dense,
        };
        Notebook { turns }.search(&request)
    }

    fn similar_memories(&self, _text: &str, limit: usize) -> Result<Vec<Memory>, RetrievalError> {
        Ok(self
            .memories
            .lock()
            .unwrap()
            .iter()
            .take(limit)
            .cloned()
            .collect())
    }

    fn apply(&self, session: &SessionKey, operations: &[Operation]) -> Result<(), RetrievalError> {
        let mut memories = self.memories.lock().unwrap();
        for operation in operations {
            match operation.clone() {
                Operation::Add { text, time, .. } => {
                    let id = MemoryId(memories.len() as u64);
                    memories.push(Memory {
                        id,
                        text,
                        time,
                        said: None,
                        sources: vec![],
                    });
                }
                Operation::Update { id, text, .. } => {
                    memories
                        .iter_mut()
                        .filter(|m| m.id == id)
                        .for_each(|m| m.text.clone_from(&text));
                }
                Operation::Delete { id, .. } => memories.retain(|memory| memory.id != id),
            }
        }
        self.formed.lock().unwrap().insert(session.clone());
        Ok(())
    }
}

fn questions() -> FormationSettings {
    FormationSettings {
        questions: vec!["What about the dog Rex?".into(), "Which pottery class?".into()],
        turns_per_question: 1,
        expansion_rounds: 1,
        ..FormationSettings::default()
    }
}

const FIRST: &str = r#"{"operations": [
    {"op": "ADD", "text": "Bob adopted a dog named Rex.", "time": "7 May 2023", "turns": ["D1:2"]},
    {"op": "NOOP"},
    {"op": "ADD", "text": "Ann takes a pottery class.", "time": "", "turns": ["D1:3"]}]}"#;
const SECOND: &str = r#"{"operations": [
    {"op": "UPDATE", "memory": "M1", "text": "Bob's dog Rex was lost and found.", "time": "18 June 2023", "turns": ["D2:1"]},
    {"op": "DELETE", "memory": "M2", "reason": "She stopped.", "turns": ["D2:2"]}]}"#;

fn readable(requests: &[GenerationRequest]) -> String {
    let mut out = String::new();
    for request in requests {
        let Prompt::Chat(messages) = &request.prompt else {
            panic!("loops send chats")
        };
        for message in messages {
            out.push_str(&format!(
                "<{}>\n{}\n",
                message.role.as_str(),
                message.parts.join("\u{a6}")
            ));
        }
        if let Constraint::JsonSchema(schema) = &request.constraint {
            out.push_str(&format!("<schema> {}\n\n", schema["properties"]));
        }
    }
    out
}

#[test]
fn sessions_are_formed_in_order_each_on_the_memories_before_it() {
    let (shelf, model) = (Shelf::default(), ScriptedModel::replies([FIRST, SECOND]));
    let mut told = Vec::new();
    let formed = form(&shelf, &model, &questions(), None, &mut |progress| {
        let FormProgress {
            session,
            done,
            formed,
        } = progress;
        told.push(format!(
            "{} {done:?} read {:?}, {} calls",
            session.session, formed.read, formed.calls
        ));
    });
    assert_eq!(formed.unwrap(), 2);
    assert_eq!(
        told,
        [
            "session_1 (1, 2) read (4, 5), 1 calls",
            "session_2 (2, 2) read (2, 4), 1 calls"
        ]
    );
    assert_eq!(shelf.texts(), ["Bob's dog Rex was lost and found."]);
    assert_snapshot!(readable(&model.requests()));
    // A second run finds nothing to do.
    assert_eq!(form(&shelf, &model, &questions(), None, &mut |_| {}).unwrap(), 0);
}

#[test]
fn crash_between_sessions_is_made_good_by_the_next_run() {
    let shelf = Shelf::default();
    let error = form(
        &shelf,
        &ScriptedModel::replies([FIRST]),
        &questions(),
        None,
        &mut |_| {},
    )
    .unwrap_err();
    assert!(matches!(error, AgentError::Engine(_)), "{error}");
    assert_eq!(shelf.unformed().unwrap(), [key(2)]);
    assert_eq!(
        form(
            &shelf,
            &ScriptedModel::replies([SECOND]),
            &questions(),
            None,
            &mut |_| {}
        )
        .unwrap(),
        1
    );
    assert_eq!(shelf.texts(), ["Bob's dog Rex was lost and found."]);
}

#[test]
fn cancelled_formation_applies_nothing() {
    let (shelf, flag) = (Shelf::default(), AtomicBool::new(true));
    let model = ScriptedModel::replies([FIRST]);
    let error = form(&shelf, &model, &questions(), Some(&flag), &mut |_| {}).unwrap_err();
    assert!(matches!(error, AgentError::Cancelled));
    assert_eq!(shelf.unformed().unwrap().len(), 2);
}

#[test]
fn long_evidence_is_formed_in_parts_and_applied_together() {
    let settings = FormationSettings {
        evidence_tokens: 50,
        ..questions()
    };
    let other =
        r#"{"operations": [{"op": "ADD", "text": "Bob asked what.", "time": "", "turns": ["D1:4"]}]}"#;
    let (shelf, model) = (
        Shelf::default(),
        ScriptedModel::replies([FIRST_PART, other, SECOND]),
    );
    let mut sizes = Vec::new();
    form(&shelf, &model, &settings, None, &mut |progress| {
        sizes.push(progress.formed.operations.len())
    })
    .unwrap();
    assert_eq!(sizes, [2, 2]);
    let requests = model.requests();
    assert!(
        readable(&requests[1..2]).contains("- Ann greeted Bob."),
        "{}",
        readable(&requests[1..2])
    );
}

const FIRST_PART: &str =
    r#"{"operations": [{"op": "ADD", "text": "Ann greeted Bob.", "time": "", "turns": ["D1:1"]}]}"#;

#[test]
fn bad_operations_are_asked_again_once_then_lost_and_told() {
    for bad in [
        "{",
        r#"{"operations": [{"op": "ADD", "text": " ", "time": "", "turns": ["D1:2"]}]}"#,
        r#"{"operations": [{"op": "ADD", "text": "x", "time": "", "turns": ["D2:1"]}]}"#,
        r#"{"operations": [{"op": "DELETE", "memory": "M1", "reason": "x", "turns": ["D1:2"]}]}"#,
        r#"{"operations": [{"op": "FORGET"}]}"#,
    ] {
        let (shelf, model) = (
            Shelf::default(),
            ScriptedModel::replies([bad, bad, SECOND, SECOND]),
        );
        let mut lost = Vec::new();
        form(&shelf, &model, &questions(), None, &mut |progress| {
            lost.push(progress.formed.lost.len())
        })
        .unwrap();
        assert_eq!(lost, [1, 1], "{bad}");
    }
    let twice = r#"{"operations": [
        {"op": "DELETE", "memory": "M1", "reason": "x", "turns": ["D2:1"]},
        {"op": "UPDATE", "memory": "M1", "text": "x", "time": "", "turns": ["D2:1"]}]}"#;
    let (shelf, model) = (Shelf::default(), ScriptedModel::replies([FIRST, twice, SECOND]));
    form(&shelf, &model, &questions(), None, &mut |_| {}).unwrap();
    assert_eq!(shelf.texts(), ["Bob's dog Rex was lost and found."]);
    assert!(readable(&model.requests()[2..]).contains("changes M1 twice"));
}

fn ask(shelf: &Shelf, settings: RimeSettings, replies: &[&'static str]) -> (Answered, ScriptedModel) {
    let (model, memory) = (ScriptedModel::replies(replies.to_vec()), Notebook::small());
    let question = Question::new("When did Bob adopt Rex?");
    let job = Job {
        question,
        method: Method::Rime(settings),
        recall: &memory,
    };
    let answered = Driver::new(&model)
        .memories(shelf)
        .run(vec![job], &mut |_| {})
        .remove(0);
    assert_eq!(
        replay(&answered.trace).unwrap(),
        *answered.result.as_ref().unwrap()
    );
    (answered, model)
}

fn fallback(answered: &Answered) -> Option<String> {
    let notes = answered.trace.steps.iter().flat_map(|step| &step.notes);
    notes
        .filter_map(|note| {
            if let Note::Fallback { reason } = note {
                Some(reason.clone())
            } else {
                None
            }
        })
        .next()
}

const FACTS: [(&str, &str); 2] = [
    ("Bob adopted Rex on 7 May 2023.", "D1:2"),
    ("Ann has a blue bowl.", "D1:5"),
];
const FROM_MEMORY: &str = r#"{"answer": "7 May 2023", "memories": ["M1"], "found": true}"#;
const FROM_TURNS: &str = r#"{"answer": "7 May 2023", "evidence": ["D1:2"], "found": true}"#;

#[test]
fn memory_answer_cites_the_turns_behind_it() {
    let (answered, model) = ask(&Shelf::with(&FACTS), RimeSettings::paper(), &[FROM_MEMORY]);
    let outcome = answered.result.as_ref().unwrap();
    assert_eq!((outcome.answer.as_str(), outcome.iterations), ("7 May 2023", 1));
    assert_eq!(
        outcome
            .evidence
            .iter()
            .map(|turn| turn.id.as_str())
            .collect::<Vec<_>>(),
        ["D1:2"]
    );
    assert_eq!(fallback(&answered), None);
    assert_eq!(model.requests().len(), 1);
}

#[test]
fn confidently_wrong_memory_is_caught_by_its_sources() {
    let replies = [FROM_MEMORY, r#"{"confirmed": false}"#, FROM_TURNS];
    let (answered, model) = ask(&Shelf::with(&FACTS), RimeSettings::default(), &replies);
    let outcome = answered.result.as_ref().unwrap();
    assert_eq!(outcome.iterations, 2);
    assert_eq!(
        outcome.usage.generated_tokens,
        replies.iter().map(|reply| reply.len()).sum::<usize>()
    );
    assert_eq!(
        fallback(&answered).unwrap(),
        "the source turns do not bear the answer out"
    );
    assert_snapshot!(readable(&model.requests()));

    let replies = [FROM_MEMORY, r#"{"confirmed": true}"#];
    let (answered, _) = ask(&Shelf::with(&FACTS), RimeSettings::default(), &replies);
    assert_eq!(fallback(&answered), None);
}

#[test]
fn silent_memories_lead_to_the_source_turns_and_a_second_no_stays() {
    let none = r#"{"answer": "", "memories": [], "found": false}"#;
    let no = r#"{"answer": "unknown", "evidence": [], "found": false}"#;
    let (answered, _) = ask(&Shelf::with(&FACTS), RimeSettings::paper(), &[none, no]);
    assert!(answered.result.as_ref().unwrap().abstained);
    assert_eq!(
        fallback(&answered).unwrap(),
        "the memories do not hold the answer"
    );

    let (answered, _) = ask(&Shelf::default(), RimeSettings::paper(), &[FROM_TURNS]);
    assert_eq!(answered.result.as_ref().unwrap().answer, "7 May 2023");
    assert_eq!(fallback(&answered).unwrap(), "there is no memory");
}

#[test]
fn unusable_replies_lead_to_the_source_turns() {
    let (answered, _) = ask(
        &Shelf::with(&FACTS),
        RimeSettings::default(),
        &["{", "{", FROM_TURNS],
    );
    assert_eq!(fallback(&answered).unwrap(), "the reply could not be used");
    let replies = [FROM_MEMORY, "yes", "yes", FROM_TURNS];
    let (answered, _) = ask(&Shelf::with(&FACTS), RimeSettings::default(), &replies);
    assert_eq!(fallback(&answered).unwrap(), "the reply could not be used");
}

#[test]
fn without_a_bank_the_error_says_what_to_do() {
    let (model, memory) = (ScriptedModel::replies([]), Notebook::small());
    let method = Method::Rime(RimeSettings::default());
    let job = Job {
        question: Question::new("x"),
        method,
        recall: &memory,
    };
    let answered = Driver::new(&model).run(vec![job], &mut |_| {}).remove(0);
    assert!(matches!(answered.result, Err(AgentError::NoMemories)));
}

#[test]
fn sources_named_by_an_operation_are_turns_of_the_session() {
    let mut formation = Formation::new(Notebook::small().turns[..3].to_vec(), questions()).unwrap();
    let hit = |i: usize| Hit {
        turn: Notebook::small().turns[i].clone(),
        score: 1.0,
    };
    formation
        .on_event(FormEvent::SimilarTurns(vec![vec![hit(1)], vec![]]))
        .unwrap();
    formation.on_event(FormEvent::SimilarMemories(vec![])).unwrap();
    let wrong = formation.on_event(FormEvent::Applied).unwrap_err().to_string();
    assert!(
        wrong.contains("waits for a generation, received that the operations were applied"),
        "{wrong}"
    );
    let FormStep::Generate(request) = formation.next_step() else {
        panic!("the model is asked next")
    };
    let generation = engine_contract::LanguageModel::generate(&ScriptedModel::replies([FIRST]), *request);
    formation
        .on_event(FormEvent::Generated(generation.unwrap()))
        .unwrap();
    let FormStep::Apply(operations) = formation.next_step() else {
        panic!("the operations come next")
    };
    let source = TurnKey::of(&Notebook::small().turns[1]);
    assert!(matches!(&operations[0], Operation::Add { sources, .. } if *sources == [source]));
    assert_eq!(operations.len(), 2);
}
