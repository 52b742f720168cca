use std::collections::BTreeMap;
use std::path::Path;

use engine_contract::scripted::HashEmbedder;
use engine_contract::{EmbedKind, Embedder, EmbedderInfo, EngineError, TextVectors};
use jiff::civil::date;
use proptest::prelude::*;
use tempfile::TempDir;

use super::postings::{self, Posting};
use super::*;
use crate::{Conversation, ConversationId, Language, RetrievalError, Session, SessionId, Turn, TurnId};

mod damage;
mod life;
mod namespaces;
mod transfer;

fn conversation(id: &str, sessions: &[&[(&str, &str)]]) -> Conversation {
    let turn = |s: usize, t: usize, speaker: &str, text: &str| Turn {
        id: TurnId::new(format!("D{}:{}", s + 1, t + 1)),
        speaker: speaker.into(),
        text: text.into(),
        caption: None,
        time: None,
    };
    let session = |(s, turns): (usize, &&[(&str, &str)])| Session {
        id: SessionId::new(format!("session_{}", s + 1)),
        time: Some(date(2023, 5, 1 + (s % 28) as i8).at(9, 0, 0, 0).into()),
        turns: turns
            .iter()
            .enumerate()
            .map(|(t, (speaker, text))| turn(s, t, speaker, text))
            .collect(),
    };
    Conversation {
        id: ConversationId::new(id),
        title: None,
        sessions: sessions.iter().enumerate().map(session).collect(),
    }
}

/// `turns` turns in sessions of 20, all different, with shared words.
fn long_conversation(id: &str, turns: usize) -> Conversation {
    let texts: Vec<String> = (0..turns)
        .map(|t| format!("word{} and common{} here", t, t % 7))
        .collect();
    let turns: Vec<(&str, &str)> = texts
        .iter()
        .enumerate()
        .map(|(t, text)| (["Ann", "Ben"][t % 2], text.as_str()))
        .collect();
    let sessions: Vec<&[(&str, &str)]> = turns.chunks(20).collect();
    conversation(id, &sessions)
}

const TRIP: &[&[(&str, &str)]] = &[
    &[("Ann", "I bought a boat yesterday."), ("Ben", "A red boat?")],
    &[("Ann", "We sailed the boat.")],
];

fn settings(embedder: &HashEmbedder) -> MemorySettings {
    MemorySettings::from(embedder.info())
}

fn new_memory(folder: &TempDir) -> (Memory, HashEmbedder) {
    let embedder = HashEmbedder::new(8);
    (
        Memory::create_or_open(folder.path(), settings(&embedder)).unwrap(),
        embedder,
    )
}

fn ingest(memory: &Memory, embedder: &HashEmbedder, conversation: &Conversation) -> IngestReport {
    memory.ingest(conversation, Some(embedder), &mut |_| {}).unwrap()
}

#[test]
fn the_store_holds_what_was_ingested() {
    let folder = tempfile::tempdir().unwrap();
    let (memory, embedder) = new_memory(&folder);
    let report = ingest(&memory, &embedder, &conversation("trip", TRIP));
    assert_eq!((report.sessions_added, report.turns_added), (2, 3));
    assert_eq!(
        memory.to_string(),
        "\
conversation 0 trip speakers [\"Ann\", \"Ben\"] sessions 2 turns 3
  session 0 session_1 2023-05-01T09:00:00 from 0
    turn 0 D1:1 \"Ann: I bought a boat yesterday.\" tokens 7 words 4 speaker 0 flags TurnFlags(2)
    turn 1 D1:2 \"Ben: A red boat?\" tokens 4 words 3 speaker 1 flags TurnFlags(1)
  session 1 session_2 2023-05-02T09:00:00 from 2
    turn 2 D2:1 \"Ann: We sailed the boat.\" tokens 6 words 3 speaker 0 flags TurnFlags(0)
stem ann in 0: 0x1 2x1
stem ben in 0: 1x1
stem boat in 0: 0x1 1x1 2x1
stem bought in 0: 0x1
stem red in 0: 1x1
stem sail in 0: 2x1
stem yesterday in 0: 0x1
words 7 vectors [0, 1, 2]"
    );
}

#[test]
fn the_same_file_twice_changes_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let (memory, embedder) = new_memory(&folder);
    let conversation = long_conversation("long", 1_300);
    assert_eq!(ingest(&memory, &embedder, &conversation).turns_added, 1_300);
    let before = memory.to_string();
    let again = ingest(&memory, &embedder, &conversation);
    assert_eq!(
        (again.turns_added, again.turns_changed, again.turns_present),
        (0, 0, 1_300)
    );
    assert_eq!(again.words_added, 0);
    assert_eq!(memory.to_string(), before);
    drop(memory);
    assert_eq!(Memory::open(folder.path()).unwrap().to_string(), before);
}

/// Fails at the n-th call: what a kill between two parts leaves behind.
struct FailsAt(HashEmbedder, std::sync::atomic::AtomicUsize);

impl Embedder for FailsAt {
    fn info(&self) -> &EmbedderInfo {
        self.0.info()
    }

    fn embed(&self, texts: &[&str], kind: EmbedKind) -> Result<Vec<Vec<f32>>, EngineError> {
        match self.1.fetch_sub(1, std::sync::atomic::Ordering::Relaxed) {
            1 => Err(EngineError::ShutDown),
            _ => self.0.embed(texts, kind),
        }
    }

    fn embed_tokens(&self, texts: &[&str], kind: EmbedKind) -> Result<Vec<TextVectors>, EngineError> {
        match self.1.fetch_sub(1, std::sync::atomic::Ordering::Relaxed) {
            1 => Err(EngineError::ShutDown),
            _ => self.0.embed_tokens(texts, kind),
        }
    }
}

#[test]
fn an_ingest_that_fails_anywhere_is_completed_by_the_next() {
    let conversation = long_conversation("long", 1_300);
    let reference = tempfile::tempdir().unwrap();
    let (whole, embedder) = new_memory(&reference);
    ingest(&whole, &embedder, &conversation);
    for calls in [1, 5, 12, 20] {
        let folder = tempfile::tempdir().unwrap();
        let (memory, embedder) = new_memory(&folder);
        let failing = FailsAt(embedder.clone(), calls.into());
        memory
            .ingest(&conversation, Some(&failing), &mut |_| {})
            .unwrap_err();
        let stored = memory
            .conversations()
            .unwrap()
            .first()
            .map_or(0, |summary| summary.turns);
        assert!(
            stored < 1_300,
            "{stored} turns are stored after a failure at call {calls}"
        );
        let report = ingest(&memory, &embedder, &conversation);
        assert_eq!(report.turns_added + report.turns_present, 1_300);
        assert_eq!(report.turns_present, stored);
        assert_eq!(memory.to_string(), whole.to_string());
    }
}

#[test]
fn a_conversation_that_grew_or_changed_is_updated() {
    let folder = tempfile::tempdir().unwrap();
    let (memory, embedder) = new_memory(&folder);
    ingest(
        &memory,
        &embedder,
        &conversation("trip", &[&TRIP[0][..1], TRIP[1]]),
    );
    let grown: &[&[(&str, &str)]] = &[
        &[("Ann", "I sold a boat."), ("Ben", "A red boat?")],
        TRIP[1],
        &[("Cy", "Hi")],
    ];
    let report = ingest(&memory, &embedder, &conversation("trip", grown));
    assert_eq!(
        (report.turns_added, report.turns_changed, report.turns_present),
        (2, 1, 1)
    );
    let turns = memory.turns(&ConversationId::new("trip")).unwrap();
    let order: Vec<(&str, u32)> = turns
        .iter()
        .map(|turn| (turn.id.as_str(), turn.position))
        .collect();
    assert_eq!(order, [("D1:1", 0), ("D1:2", 1), ("D2:1", 2), ("D3:1", 3)]);
    let dump = memory.to_string();
    assert!(
        !dump.contains("bought") && dump.contains("stem sold in 0: 0x1"),
        "{dump}"
    );
    assert_eq!(memory.conversations().unwrap()[0].speakers, ["Ann", "Ben", "Cy"]);
}

#[test]
fn another_embedder_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let (memory, _) = new_memory(&folder);
    let other = HashEmbedder::new(16);
    let error = memory
        .ingest(&conversation("trip", TRIP), Some(&other), &mut |_| {})
        .unwrap_err()
        .to_string();
    assert!(
        error.contains("hash (8 dimensions") && error.contains("hash (16 dimensions"),
        "{error}"
    );
    assert!(
        error.ends_with("use the first, or make the vectors anew with `mneme memory reindex`"),
        "{error}"
    );
    let error = memory
        .ingest(&conversation("trip", TRIP), None, &mut |_| {})
        .unwrap_err();
    assert!(
        matches!(error, RetrievalError::EmbedderMismatch { .. }),
        "{error}"
    );
    drop(memory);
    let error = Memory::create_or_open(folder.path(), settings(&other)).unwrap_err();
    assert!(
        matches!(error, RetrievalError::EmbedderMismatch { .. }),
        "{error}"
    );
}

#[test]
fn opening_what_is_no_memory_creates_nothing() {
    let folder = tempfile::tempdir().unwrap();
    for path in [folder.path(), &folder.path().join("nowhere")] {
        let error = Memory::open(path).unwrap_err();
        assert!(matches!(error, RetrievalError::NotAMemory { .. }), "{error}");
    }
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
}

#[test]
fn a_memory_without_an_embedder_stores_no_vector() {
    let folder = tempfile::tempdir().unwrap();
    let settings = MemorySettings {
        embedder: None,
        language: Language::Other,
    };
    let memory = Memory::create_or_open(folder.path(), settings).unwrap();
    memory
        .ingest(&conversation("trip", TRIP), None, &mut |_| {})
        .unwrap();
    assert!(memory.to_string().ends_with("words 0 vectors []"));
    assert!(memory.to_string().contains("stem sailed in 0: 2x1"));
}

#[test]
fn the_map_grows_when_it_is_full() {
    let folder = tempfile::tempdir().unwrap();
    let embedder = HashEmbedder::new(256);
    let memory = Memory::create_with(
        folder.path(),
        &settings(&embedder),
        Limits {
            map_bytes: 1 << 18,
            ..Limits::default()
        },
    )
    .unwrap();
    let conversation = long_conversation("long", 1_100);
    assert_eq!(ingest(&memory, &embedder, &conversation).turns_added, 1_100);
    let roomy = tempfile::tempdir().unwrap();
    let reference = Memory::create_or_open(roomy.path(), settings(&embedder)).unwrap();
    ingest(&reference, &embedder, &conversation);
    assert_eq!(memory.to_string(), reference.to_string());
}

#[test]
fn readers_see_one_state_while_another_thread_writes() {
    let folder = tempfile::tempdir().unwrap();
    let (memory, embedder) = new_memory(&folder);
    let conversation = long_conversation("long", 1_300);
    std::thread::scope(|scope| {
        let writer = scope.spawn(|| ingest(&memory, &embedder, &conversation));
        while !writer.is_finished() {
            let Some(summary) = memory.conversations().unwrap().pop() else {
                continue;
            };
            let turns = memory.turns(&summary.id).unwrap().len();
            assert!(
                turns >= summary.turns,
                "{turns} turns are there, {} were announced before",
                summary.turns
            );
        }
    });
    assert_eq!(memory.conversations().unwrap()[0].turns, 1_300);
}

/// Set in the child process of a test: the folder to ingest into.
const CHILD: &str = "RETRIEVAL_TEST_FOLDER";

/// Runs this test again in a process of its own, which ingests into the folder.
fn child(test: &str, folder: &TempDir) -> std::process::Child {
    std::process::Command::new(std::env::current_exe().unwrap())
        .args(["--exact", test])
        .env(CHILD, folder.path())
        .stdout(std::process::Stdio::null())
        .spawn()
        .unwrap()
}

#[test]
fn a_reader_follows_a_map_that_another_process_has_grown() {
    let conversation = long_conversation("long", 2_000);
    let embedder = HashEmbedder::new(256);
    if let Ok(folder) = std::env::var(CHILD) {
        let memory = Memory::create_or_open(Path::new(&folder), settings(&embedder)).unwrap();
        ingest(&memory, &embedder, &conversation);
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let limits = Limits {
        map_bytes: 1 << 18,
        ..Limits::default()
    };
    let memory = Memory::create_with(folder.path(), &settings(&embedder), limits).unwrap();
    assert!(memory.conversations().unwrap().is_empty());
    let status = child(
        "store::tests::a_reader_follows_a_map_that_another_process_has_grown",
        &folder,
    )
    .wait()
    .unwrap();
    assert!(status.success());
    assert_eq!(memory.turns(&conversation.id).unwrap().len(), 2_000);
    let report = ingest(&memory, &embedder, &long_conversation("long", 2_100));
    assert_eq!((report.turns_present, report.turns_added), (2_000, 100));
}

#[test]
fn a_killed_ingest_is_completed_by_the_next() {
    let conversation = long_conversation("long", 4_000);
    if let Ok(folder) = std::env::var(CHILD) {
        let embedder = HashEmbedder::new(8);
        let memory = Memory::create_or_open(Path::new(&folder), settings(&embedder)).unwrap();
        ingest(&memory, &embedder, &conversation);
        return;
    }
    let mut interrupted = 0;
    for delay_ms in [3, 10, 20, 40, 60, 80, 120] {
        let folder = tempfile::tempdir().unwrap();
        let mut child = child("store::tests::a_killed_ingest_is_completed_by_the_next", &folder);
        std::thread::sleep(std::time::Duration::from_millis(delay_ms));
        child.kill().unwrap();
        child.wait().unwrap();
        let (memory, embedder) = new_memory(&folder);
        let report = ingest(&memory, &embedder, &conversation);
        interrupted += usize::from(report.turns_present > 0 && report.turns_added > 0);
        assert_eq!(report.turns_added + report.turns_present, 4_000);
        let mut ids: Vec<String> = memory
            .turns(&conversation.id)
            .unwrap()
            .iter()
            .map(|turn| turn.id.to_string())
            .collect();
        ids.sort_unstable();
        ids.dedup();
        assert_eq!(ids.len(), 4_000, "every turn is stored once");
        assert!(memory.to_string().contains("vectors [0, 1, 2,"));
    }
    println!("{interrupted} of 7 kills came in the middle");
}

/// What the postings should be, in the plainest way.
type Naive = BTreeMap<u32, u32>;

fn stored(memory: &Memory, stem: &str, conversation: u32) -> Vec<Posting> {
    let mut found = Vec::new();
    memory
        .read(|reading| postings::read(reading, stem, Some(conversation), &mut found))
        .unwrap();
    found
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(32))]

    #[test]
    fn postings_inserted_and_removed_in_any_order_equal_a_map(
        steps in prop::collection::vec((prop::collection::btree_map(0..2_000u32, 1..300u32, 0..400), prop::collection::vec(0..2_000u32, 0..60)), 1..6),
    ) {
        let folder = tempfile::tempdir().unwrap();
        let (memory, _) = new_memory(&folder);
        let database = memory.inner.databases.postings;
        let mut naive = Naive::new();
        // Neighbours in the key space must stay untouched.
        let others = [("stem", 6), ("stem", 8), ("ste", 7), ("stemm", 7)];
        memory.inner.environment.write(|txn| {
            for key in others {
                postings::insert(database, txn, key, &[Posting { turn: 3, count: 9 }])?;
            }
            Ok(())
        }).unwrap();
        for (added, removed) in steps {
            let new: Vec<Posting> = added.iter().map(|(&turn, &count)| Posting { turn, count }).collect();
            memory.inner.environment.write(|txn| {
                postings::insert(database, txn, ("stem", 7), &new)?;
                for &turn in &removed {
                    postings::remove(database, txn, ("stem", 7), turn)?;
                }
                Ok(())
            }).unwrap();
            naive.extend(added);
            naive.retain(|turn, _| !removed.contains(turn));
            let expected: Vec<Posting> = naive.iter().map(|(&turn, &count)| Posting { turn, count }).collect();
            prop_assert_eq!(stored(&memory, "stem", 7), expected);
        }
        for (stem, conversation) in others {
            prop_assert_eq!(stored(&memory, stem, conversation), vec![Posting { turn: 3, count: 9 }]);
        }
    }

    #[test]
    fn a_store_grown_step_by_step_equals_one_built_at_once(
        turns in prop::collection::vec("[a-f]{1,2}( [a-f]{1,2}){0,5}", 1..40),
        cuts in prop::collection::vec(1..40usize, 0..4),
    ) {
        let texts: Vec<(&str, &str)> = turns.iter().map(|text| ("Ann", text.as_str())).collect();
        let sessions = |upto: usize| texts[..upto].chunks(5).map(<[_]>::to_vec).collect::<Vec<_>>();
        let build = |upto: usize| {
            let sessions = sessions(upto);
            conversation("c", &sessions.iter().map(Vec::as_slice).collect::<Vec<_>>())
        };
        let (one, many) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let (at_once, embedder) = new_memory(&one);
        ingest(&at_once, &embedder, &build(texts.len()));
        let (grown, _) = new_memory(&many);
        let mut cuts: Vec<usize> = cuts.into_iter().map(|cut| cut.min(texts.len())).collect();
        cuts.sort_unstable();
        for cut in cuts {
            ingest(&grown, &embedder, &build(cut));
        }
        ingest(&grown, &embedder, &build(texts.len()));
        prop_assert_eq!(grown.to_string(), at_once.to_string());
    }

    #[test]
    fn word_vectors_keep_their_direction(vector in prop::collection::vec(-1.0f32..1.0, 64)) {
        let product = |a: &[f32], b: &[f32]| a.iter().zip(b).map(|(a, b)| a * b).sum::<f32>();
        prop_assume!(product(&vector, &vector) > 0.01);
        let stored = wordvectors::decode(&wordvectors::encode(&vector), 64).unwrap();
        let cosine = product(&vector, &stored) / (product(&vector, &vector) * product(&stored, &stored)).sqrt();
        prop_assert!((cosine - 1.0).abs() < 1e-3, "cosine with itself is {}", cosine);
        prop_assert!(wordvectors::decode(&[0; 63], 64).is_err());
    }
}
