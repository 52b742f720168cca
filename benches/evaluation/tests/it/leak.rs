//! Gold never reaches the system under test: canaries stand wherever a data set keeps gold, and nothing that a method
//! asks, keeps or records may hold one.

use std::path::Path;
use std::sync::Arc;

use agents::{FullContextSettings, Method, RagSettings, Settings};
use engine_contract::Embedder;
use engine_contract::scripted::{HashEmbedder, ScriptedModel};
use evaluation::{Asked, Ended, Gold, RunFolder, Runner, disguise};
use retrieval::{ConversationId, Memory, Recall, Searcher, read_conversations};

/// LoCoMo's shape; every field that a system must not see holds `CANARY`.
const LOCOMO: &str = r#"[{"sample_id": "conv-1", "conversation": {
    "speaker_a": "Ada", "speaker_b": "Bo", "session_1_date_time": "1:56 pm on 8 May, 2023",
    "session_1": [
      {"speaker": "Ada", "dia_id": "D1:1", "text": "I bought a kite.", "query": "CANARY query", "img_url": ["CANARY.jpg"]},
      {"speaker": "Bo", "dia_id": "D1:2", "text": "What colour is the kite?", "blip_caption": "a red kite"},
      {"speaker": "Ada", "dia_id": "D1:3", "text": "The kite is red, I fly it at the beach."}]},
  "qa": [
    {"question": "What did Ada buy?", "answer": "CANARY answer", "evidence": ["D1:1"], "category": 4},
    {"question": "What colour is the kite?", "answer": "CANARY colour", "evidence": ["D1:3"], "category": 1},
    {"question": "Where does Bo live?", "adversarial_answer": "CANARY decoy", "evidence": ["D1:2"], "category": 5}],
  "observation": {"session_1_observation": "CANARY observation"},
  "session_summary": {"session_1_summary": "CANARY summary"},
  "event_summary": {"events_session_1": "CANARY event"}}]"#;

/// LongMemEval's shape, likewise; the marks themselves are the secret there.
const LONGMEMEVAL: &str = r#"[{"question_id": "q1", "question_type": "multi-session", "question": "What colour is my kite?",
    "question_date": "2023/05/30 (Tue) 23:40", "answer": "CANARY answer", "answer_session_ids": ["answer_280352e9"],
    "haystack_dates": ["2023/05/20 (Sat) 02:21"], "haystack_session_ids": ["answer_280352e9"],
    "haystack_sessions": [[{"role": "user", "content": "My kite is red.", "has_answer": true},
      {"role": "assistant", "content": "A red kite is lovely.", "has_answer": false}]]}]"#;

fn methods() -> [Method; 3] {
    [
        Method::Memcot(Settings::default()),
        Method::Rag(RagSettings::default()),
        Method::FullContext(FullContextSettings::default()),
    ]
}

const OWN: &str = "the test can work with files of its own";

/// Runs every method over a file; returns all that the model was asked and all that was written.
fn everything_said(json: &str) -> (Vec<String>, Vec<String>) {
    let folder = tempfile::tempdir().expect(OWN);
    let file = folder.path().join("data.json");
    std::fs::write(&file, json).expect(OWN);
    let place = folder.path().join("memory");
    let whole = ingested(&file, &place, json.contains("haystack_sessions"));
    let asked = Gold::open(&file).expect(OWN).asked();
    let within = |asked: &Asked| {
        whole
            .within(&ConversationId::new(&asked.conversation))
            .expect(OWN)
    };
    let searchers: Vec<Searcher> = asked.iter().map(within).collect();
    let questions: Vec<(&Asked, &dyn Recall)> = asked
        .iter()
        .zip(searchers.iter().map(|searcher| searcher as &dyn Recall))
        .collect();
    let (mut requests, mut written) = (Vec::new(), Vec::new());
    for (number, method) in methods().iter().enumerate() {
        let out = folder.path().join(format!("run{number}"));
        requests.extend(ask(method, &questions, &out));
        files_in(&out, &mut written);
    }
    files_in(&place, &mut written);
    (requests, written)
}

fn ingested(file: &Path, place: &Path, histories: bool) -> Searcher {
    let embedder: Arc<dyn Embedder> = Arc::new(HashEmbedder::new(32));
    let memory = Memory::create_or_open(place, embedder.info()).expect(OWN);
    for conversation in read_conversations(file, None).expect(OWN) {
        let conversation = if histories {
            disguise(conversation)
        } else {
            conversation
        };
        memory
            .ingest(&conversation, Some(&*embedder), &mut |_| {})
            .expect(OWN);
    }
    Searcher::new(memory, Some(embedder)).expect(OWN)
}

/// Asks every question into a run's folder; returns the requests.
fn ask(method: &Method, questions: &[(&Asked, &dyn Recall)], out: &Path) -> Vec<String> {
    let model = ScriptedModel::new(|_| Ok("red".into()));
    let description = evaluation::Description {
        settings: serde_json::to_value(method).expect(OWN),
        environment: serde_json::Value::Null,
    };
    let mut run = RunFolder::open(out, &description, false).expect(OWN);
    let runner = Runner {
        model: &model,
        method,
        open: 1,
        cancel: None,
    };
    let mut ends = 0;
    runner.run(questions, &mut |_, ended| {
        ends += 1;
        match ended {
            Ended::Answered(record, trace) => run.add(*record, &trace).expect(OWN),
            Ended::Failed(error) => panic!("{method:?}: {error}"),
        }
    });
    assert_eq!(ends, questions.len());
    let requests = model.requests().into_iter();
    requests
        .map(|request| serde_json::to_string(&request).expect(OWN))
        .collect()
}

fn files_in(folder: &Path, texts: &mut Vec<String>) {
    for entry in std::fs::read_dir(folder).expect(OWN) {
        let path = entry.expect(OWN).path();
        if path.is_dir() {
            files_in(&path, texts);
        } else {
            texts.push(String::from_utf8_lossy(&std::fs::read(&path).expect(OWN)).into_owned());
        }
    }
}

#[test]
fn no_canary_is_asked_or_written() {
    for json in [LOCOMO, LONGMEMEVAL] {
        let (requests, written) = everything_said(json);
        assert!(
            requests.iter().any(|text| text.contains("kite")),
            "the methods were asked something"
        );
        assert!(
            written.iter().any(|text| text.contains("kite")),
            "the memory and the traces were read"
        );
        // Session ids that begin with `answer` would give the evidence away.
        for text in requests.iter().chain(&written) {
            for secret in [
                "CANARY",
                "has_answer",
                "multi-session",
                "adversarial",
                "answer_280352e9",
            ] {
                assert!(!text.contains(secret), "{secret} leaked: {text}");
            }
        }
    }
}

#[test]
fn other_gold_and_categories_change_nothing_that_is_asked() {
    let changed = LOCOMO
        .replace("CANARY", "OTHER")
        .replace("\"category\": 4", "\"category\": 2")
        .replace("\"category\": 1", "\"category\": 3")
        .replace("[\"D1:1\"]", "[\"D1:3\"]");
    assert_eq!(everything_said(LOCOMO).0, everything_said(&changed).0);
    let changed = LONGMEMEVAL
        .replace("\"has_answer\": true", "\"has_answer\": false")
        .replace("CANARY answer", "42")
        .replace("multi-session", "knowledge-update");
    assert_eq!(everything_said(LONGMEMEVAL).0, everything_said(&changed).0);
}

#[test]
fn the_date_of_a_longmemeval_question_is_given() {
    let (requests, _) = everything_said(LONGMEMEVAL);
    assert!(
        requests.iter().all(|text| text.contains("30 May 2023")),
        "{requests:?}"
    );
}
