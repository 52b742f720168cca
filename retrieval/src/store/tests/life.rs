//! What happens to a memory over the years: turns change, move and go, embedders come, formats pass.

use std::sync::Mutex;

use super::*;

/// All that is stored but the numbers that only the store uses: what an export holds. The memory must be whole.
#[track_caller]
pub(super) fn content(memory: &Memory) -> String {
    let report = memory.check().unwrap();
    assert!(report.is_whole(), "{:#?}\n{memory}", report.findings);
    let mut text = Vec::new();
    memory.export(&mut text, true).unwrap();
    String::from_utf8(text).unwrap()
}

/// A memory made of these conversations alone.
fn rebuilt(conversations: &[Conversation]) -> (TempDir, Memory) {
    let folder = tempfile::tempdir().unwrap();
    let (memory, embedder) = new_memory(&folder);
    for conversation in conversations {
        ingest(&memory, &embedder, conversation);
    }
    (folder, memory)
}

fn delete(memory: &Memory, deletion: Deletion) -> usize {
    memory.delete(&deletion).unwrap()
}

#[test]
fn what_is_deleted_leaves_every_index() {
    let folder = tempfile::tempdir().unwrap();
    let (memory, embedder) = new_memory(&folder);
    let trip = ConversationId::new("trip");
    ingest(&memory, &embedder, &conversation("trip", TRIP));
    ingest(
        &memory,
        &embedder,
        &conversation("other", &[&[("Cy", "A boat of mine")]]),
    );

    assert_eq!(
        delete(&memory, Deletion::Turn(trip.clone(), TurnId::new("D1:2"))),
        1
    );
    let dump = memory.to_string();
    assert!(!dump.contains("red") && !dump.contains("Ben"), "{dump}");
    assert_eq!(memory.turns(&trip).unwrap()[1].position, 1);
    // A session goes with its last turn, and the later ones move up.
    assert_eq!(
        delete(&memory, Deletion::Turn(trip.clone(), TurnId::new("D1:1"))),
        1
    );
    let summary = &memory.conversations().unwrap()[0];
    assert_eq!((summary.sessions, summary.turns), (1, 1));
    assert_eq!(summary.first, summary.last);
    assert_eq!(
        delete(
            &memory,
            Deletion::Session(trip.clone(), SessionId::new("session_2"))
        ),
        1
    );
    let (_folder, expected) = rebuilt(&[conversation("other", &[&[("Cy", "A boat of mine")]])]);
    assert_eq!(content(&memory), content(&expected));

    let error = memory.delete(&Deletion::Conversation(trip)).unwrap_err();
    assert!(
        matches!(error, RetrievalError::UnknownConversation { .. }),
        "{error}"
    );
    let other = ConversationId::new("other");
    let error = memory
        .delete(&Deletion::Turn(other.clone(), TurnId::new("D9:9")))
        .unwrap_err();
    assert!(matches!(error, RetrievalError::UnknownTurn { .. }), "{error}");
    let error = memory
        .delete(&Deletion::Session(other.clone(), SessionId::new("x")))
        .unwrap_err();
    assert!(matches!(error, RetrievalError::UnknownSession { .. }), "{error}");
    assert_eq!(delete(&memory, Deletion::Conversation(other)), 1);
    assert!(memory.to_string().ends_with("words 0 vectors []"));
    // What was deleted may come again.
    assert_eq!(
        ingest(&memory, &embedder, &conversation("trip", TRIP)).turns_added,
        3
    );
    content(&memory);
}

#[test]
fn a_turn_that_moved_to_another_session_is_stored_there() {
    let folder = tempfile::tempdir().unwrap();
    let (memory, embedder) = new_memory(&folder);
    let mut moved = conversation("trip", TRIP);
    ingest(&memory, &embedder, &moved);
    let first = moved.sessions.remove(0);
    moved.sessions[0].turns.extend(first.turns);
    let report = ingest(&memory, &embedder, &moved);
    assert_eq!(
        (report.turns_added, report.turns_changed, report.turns_present),
        (0, 2, 1)
    );
    let (_folder, expected) = rebuilt(&[moved]);
    assert_eq!(content(&memory), content(&expected));
}

#[test]
fn a_time_that_was_corrected_is_stored_without_embedding_anew() {
    let folder = tempfile::tempdir().unwrap();
    let (memory, embedder) = new_memory(&folder);
    let mut corrected = conversation("trip", TRIP);
    ingest(&memory, &embedder, &corrected);
    corrected.title = Some("The trip".into());
    corrected.sessions[0].time = Some(date(2020, 1, 1).at(0, 0, 0, 0).into());
    corrected.sessions[0].turns[0].time = serde_json::from_str("\"2020-01-01T00:00:01Z\"").unwrap();
    // An embedder that is asked for nothing but could not answer.
    let silent = FailsAt(embedder.clone(), 1.into());
    let report = memory.ingest(&corrected, Some(&silent), &mut |_| {}).unwrap();
    assert_eq!((report.turns_changed, report.turns_present), (1, 2));
    let summary = &memory.conversations().unwrap()[0];
    assert_eq!(summary.first, Some(date(2020, 1, 1).at(0, 0, 0, 0)));
    assert_eq!(
        memory.turns(&corrected.id).unwrap()[0].time,
        Some(date(2020, 1, 1).at(0, 0, 1, 0))
    );
    let (_folder, expected) = rebuilt(&[corrected]);
    assert_eq!(content(&memory), content(&expected));
}

#[test]
fn another_embedder_makes_the_same_memory_as_a_new_one() {
    let conversations = [conversation("trip", TRIP), long_conversation("long", 1_200)];
    let folder = tempfile::tempdir().unwrap();
    let (memory, _) = new_memory(&folder);
    for conversation in &conversations {
        ingest(&memory, &HashEmbedder::new(8), conversation);
    }
    let (other, embedder) = (tempfile::tempdir().unwrap(), HashEmbedder::new(16));
    let expected = Memory::create_or_open(other.path(), settings(&embedder)).unwrap();
    for conversation in &conversations {
        ingest(&expected, &embedder, conversation);
    }

    // One that fails on the way leaves the memory as it was, and the next goes on.
    let before = content(&memory);
    let failing = FailsAt(embedder.clone(), 12.into());
    memory.reindex(Some(&failing), &mut |_| {}).unwrap_err();
    assert_eq!(content(&memory), before);
    assert!(memory.stats().unwrap().reindexing);
    let calls = FailsAt(embedder.clone(), usize::MAX.into());
    let reindexed = memory.reindex(Some(&calls), &mut |_| {}).unwrap();
    assert_eq!(content(&reindexed), content(&expected));
    assert!(!reindexed.stats().unwrap().reindexing);
    let used = usize::MAX - calls.1.into_inner();
    assert!(
        used < 35,
        "{used} calls: what was staged before is not embedded again"
    );

    let error = memory.conversations().unwrap_err();
    assert!(matches!(error, RetrievalError::Reindexed { .. }), "{error}");
    // To keywords alone, and back.
    let keywords = reindexed.reindex(None, &mut |_| {}).unwrap();
    assert!(keywords.to_string().ends_with("words 0 vectors []"));
    assert!(keywords.check().unwrap().is_whole());
    let back = keywords.reindex(Some(&embedder), &mut |_| {}).unwrap();
    assert_eq!(content(&back), content(&expected));
}

/// Changes the memory while it is asked for vectors.
struct Meddler<'m>(HashEmbedder, Mutex<Option<Box<dyn FnOnce() + Send + 'm>>>);

impl Embedder for Meddler<'_> {
    fn info(&self) -> &EmbedderInfo {
        self.0.info()
    }

    fn embed(&self, texts: &[&str], kind: EmbedKind) -> Result<Vec<Vec<f32>>, EngineError> {
        if let Some(meddle) = self.1.lock().unwrap().take() {
            meddle();
        }
        self.0.embed(texts, kind)
    }
}

#[test]
fn what_changes_during_a_reindexing_or_an_ingest_is_not_lost() {
    let folder = tempfile::tempdir().unwrap();
    let (memory, embedder) = new_memory(&folder);
    ingest(&memory, &embedder, &conversation("trip", TRIP));
    let edited: &[&[(&str, &str)]] = &[&[("Ann", "I sold a yacht."), ("Ben", "A red boat?")], TRIP[1]];
    let meddler = Meddler(
        HashEmbedder::new(16),
        Mutex::new(Some(Box::new(|| {
            ingest(&memory, &embedder, &conversation("trip", edited));
            ingest(
                &memory,
                &embedder,
                &conversation("new", &[&[("Cy", "Fresh words")]]),
            );
        }))),
    );
    let reindexed = memory.reindex(Some(&meddler), &mut |_| {}).unwrap();
    drop(meddler);
    let text = content(&reindexed);
    assert!(
        text.contains("yacht") && text.contains("Fresh") && !text.contains("bought"),
        "{text}"
    );

    // Deleted between being found present and being stored: prepared anew.
    let embedder = HashEmbedder::new(16);
    let mut longer = conversation("trip", edited);
    let first = longer.sessions[0].turns[0].clone();
    longer.sessions[1].turns.push(Turn {
        id: TurnId::new("D2:2"),
        text: "And on.".into(),
        ..first
    });
    let gone = Deletion::Turn(longer.id.clone(), TurnId::new("D1:1"));
    let meddler = Meddler(
        embedder,
        Mutex::new(Some(Box::new(|| assert_eq!(delete(&reindexed, gone), 1)))),
    );
    let report = reindexed.ingest(&longer, Some(&meddler), &mut |_| {}).unwrap();
    assert_eq!((report.turns_added, report.turns_present), (2, 2));
    content(&reindexed);
}

/// Written by the code of format 1, commit d910d45.
const FORMAT_1: &[u8] = include_bytes!("../fixtures/v1.mdb.gz");
const FORMAT_1_CONTENT: &str = include_str!("../fixtures/v1.txt");

fn format_1(folder: &TempDir) {
    let mut data = Vec::new();
    std::io::Read::read_to_end(&mut flate2::read::GzDecoder::new(FORMAT_1), &mut data).unwrap();
    std::fs::write(folder.path().join("data.mdb"), data).unwrap();
}

#[test]
fn a_memory_of_format_1_is_brought_to_the_present_one() {
    let folder = tempfile::tempdir().unwrap();
    format_1(&folder);
    let memory = Memory::open(folder.path()).unwrap();
    assert_eq!(memory.to_string(), FORMAT_1_CONTENT);
    assert_eq!(memory.stats().unwrap().schema, 2);
    let (before, embedder) = (content(&memory), HashEmbedder::new(8));
    let pets: &[&[(&str, &str)]] = &[&[("Cy", "My dog is called Rex."), ("Ann", "When did you get it?")]];
    let report = ingest(&memory, &embedder, &conversation("pets", pets));
    assert_eq!((report.turns_present, report.turns_added), (2, 0));
    ingest(
        &memory,
        &embedder,
        &conversation("new", &[&[("Cy", "Since then")]]),
    );
    memory
        .delete(&Deletion::Conversation(ConversationId::new("new")))
        .unwrap();
    assert_eq!(content(&memory), before);
    drop(memory);
    assert_eq!(
        content(&Memory::create_or_open(folder.path(), settings(&embedder)).unwrap()),
        before
    );
}

#[test]
fn a_memory_of_a_later_format_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    format_1(&folder);
    let memory = Memory::open(folder.path()).unwrap();
    let database = memory.inner.databases.meta;
    let header = br#"{"format":99,"something":"new"}"#;
    memory
        .inner
        .environment
        .write(|txn| Ok(database.put(txn, "header", header)?))
        .unwrap();
    drop(memory);
    let error = Memory::open(folder.path()).unwrap_err();
    assert!(
        matches!(
            error,
            RetrievalError::FormatVersion {
                expected: 2,
                received: 99,
                ..
            }
        ),
        "{error}"
    );
}

#[test]
fn two_processes_that_write_wait_for_each_other() {
    let embedder = HashEmbedder::new(256);
    if let Ok(folder) = std::env::var(CHILD) {
        let memory = Memory::create_or_open(Path::new(&folder), settings(&embedder)).unwrap();
        ingest(&memory, &embedder, &long_conversation("shared", 1_500));
        let own = format!("own of {}", std::process::id());
        ingest(&memory, &embedder, &long_conversation(&own, 700));
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let test = "store::tests::life::two_processes_that_write_wait_for_each_other";
    let children: Vec<_> = (0..3).map(|_| child(test, &folder)).collect();
    for mut child in children {
        assert!(child.wait().unwrap().success());
    }
    let memory = Memory::open(folder.path()).unwrap();
    let turns: Vec<usize> = memory.conversations().unwrap().iter().map(|c| c.turns).collect();
    assert_eq!(turns.iter().sum::<usize>(), 1_500 + 3 * 700);
    content(&memory);
}

#[test]
fn a_reader_sees_a_whole_memory_at_any_time() {
    let folder = tempfile::tempdir().unwrap();
    let (memory, embedder) = new_memory(&folder);
    let conversation = long_conversation("long", 900);
    std::thread::scope(|scope| {
        let writer = scope.spawn(|| {
            for _ in 0..3 {
                ingest(&memory, &embedder, &conversation);
                delete(
                    &memory,
                    Deletion::Session(conversation.id.clone(), SessionId::new("session_3")),
                );
                delete(&memory, Deletion::Conversation(conversation.id.clone()));
            }
        });
        let mut states = BTreeMap::new();
        while !writer.is_finished() {
            let report = memory.check().unwrap();
            assert!(report.is_whole(), "{:#?}", report.findings);
            *states.entry(report.turns).or_insert(0) += 1;
        }
        println!("turns seen: {states:?}");
    });
    assert!(memory.conversations().unwrap().is_empty());
}

/// A step in the life of a small memory.
#[derive(Debug, Clone)]
enum Event {
    Ingest(usize, Vec<Vec<(usize, String)>>),
    DeleteTurn(usize, usize, usize),
    DeleteSession(usize, usize),
    DeleteConversation(usize),
}

fn any_event() -> impl Strategy<Value = Event> {
    let sessions = prop::collection::vec(
        prop::collection::vec((0..3usize, "[a-d]{2}( [a-d]{2}){0,3}"), 1..4),
        1..4,
    );
    prop_oneof![
        4 => (0..3usize, sessions).prop_map(|(c, sessions)| Event::Ingest(c, sessions)),
        3 => (0..3usize, 0..3usize, 0..3usize).prop_map(|(c, s, t)| Event::DeleteTurn(c, s, t)),
        2 => (0..3usize, 0..3usize).prop_map(|(c, s)| Event::DeleteSession(c, s)),
        1 => (0..3usize).prop_map(Event::DeleteConversation),
    ]
}

/// The naive twin: conversations as lists.
#[derive(Default)]
struct Twin(Vec<Conversation>);

impl Twin {
    /// Sessions and turns that are known keep their places; new ones come after them.
    fn ingest(&mut self, new: &Conversation) {
        let Some(known) = self.0.iter_mut().find(|known| known.id == new.id) else {
            return self.0.push(new.clone());
        };
        for session in &new.sessions {
            let Some(old) = known.sessions.iter_mut().find(|old| old.id == session.id) else {
                known.sessions.push(session.clone());
                continue;
            };
            for turn in &session.turns {
                match old.turns.iter_mut().find(|old| old.id == turn.id) {
                    Some(old) => *old = turn.clone(),
                    None => old.turns.push(turn.clone()),
                }
            }
        }
    }

    fn retain(&mut self, conversation: &str, keep: impl Fn(&Session, &Turn) -> bool) -> usize {
        let count = |twin: &Self| twin.0.iter().map(Conversation::turn_count).sum::<usize>();
        let before = count(self);
        for known in self
            .0
            .iter_mut()
            .filter(|known| known.id.as_str() == conversation)
        {
            for session in &mut known.sessions {
                let probe = session.clone();
                session.turns.retain(|turn| keep(&probe, turn));
            }
            known.sessions.retain(|session| !session.turns.is_empty());
        }
        self.0.retain(|known| !known.sessions.is_empty());
        before - count(self)
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn a_store_after_any_life_equals_one_built_from_what_is_left(events in prop::collection::vec(any_event(), 1..12)) {
        let folder = tempfile::tempdir().unwrap();
        let (memory, embedder) = new_memory(&folder);
        let mut twin = Twin::default();
        for event in events {
            let name = |c: usize| ["c", "cc", "c c"][c];
            let (deletion, expected) = match event {
                Event::Ingest(c, sessions) => {
                    let owned: Vec<Vec<(&str, &str)>> = sessions
                        .iter()
                        .map(|turns| turns.iter().map(|(s, text)| (["Ann", "Ben", "Cy"][*s], text.as_str())).collect())
                        .collect();
                    let new = conversation(name(c), &owned.iter().map(Vec::as_slice).collect::<Vec<_>>());
                    twin.ingest(&new);
                    ingest(&memory, &embedder, &new);
                    continue;
                }
                Event::DeleteTurn(c, s, t) => {
                    let id = TurnId::new(format!("D{}:{}", s + 1, t + 1));
                    let expected = twin.retain(name(c), |_, turn| turn.id != id);
                    (Deletion::Turn(ConversationId::new(name(c)), id), expected)
                }
                Event::DeleteSession(c, s) => {
                    let id = SessionId::new(format!("session_{}", s + 1));
                    let expected = twin.retain(name(c), |session, _| session.id != id);
                    (Deletion::Session(ConversationId::new(name(c)), id), expected)
                }
                Event::DeleteConversation(c) => {
                    let expected = twin.retain(name(c), |_, _| false);
                    (Deletion::Conversation(ConversationId::new(name(c))), expected)
                }
            };
            prop_assert_eq!(memory.delete(&deletion).unwrap_or(0), expected, "{:?}", deletion);
        }
        let (_folder, fresh) = rebuilt(&twin.0);
        prop_assert_eq!(content(&memory), content(&fresh));
        prop_assert_eq!(memory.conversations().unwrap(), fresh.conversations().unwrap());
    }
}
