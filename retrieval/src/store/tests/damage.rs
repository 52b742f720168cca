//! A check that finds nothing is worth something only when it would find what is there.

use heed::RwTxn;

use super::*;
use crate::store::databases::{Databases, id_key, session_key};
use crate::store::records::{ConversationRecord, SessionRecord, StoredTurn};
use crate::store::vectors::VectorSpace;

type Harm = fn(&Databases, &mut RwTxn<'_>) -> Result<(), RetrievalError>;

const SPACE: VectorSpace = VectorSpace {
    index: 0,
    dimension: 8,
};

fn conversation_record(
    databases: &Databases,
    txn: &mut RwTxn<'_>,
    change: impl Fn(&mut ConversationRecord),
) -> Result<(), RetrievalError> {
    let mut record = databases.conversations.get(txn, &0)?.unwrap();
    change(&mut record);
    Ok(databases.conversations.put(txn, &0, &record)?)
}

fn session_record(
    databases: &Databases,
    txn: &mut RwTxn<'_>,
    change: impl Fn(&mut SessionRecord),
) -> Result<(), RetrievalError> {
    let mut record = databases.sessions.get(txn, &session_key(0, 1))?.unwrap();
    change(&mut record);
    Ok(databases.sessions.put(txn, &session_key(0, 1), &record)?)
}

fn turn_record(
    databases: &Databases,
    txn: &mut RwTxn<'_>,
    change: impl Fn(&mut StoredTurn),
) -> Result<(), RetrievalError> {
    let mut record = databases.turns.get(txn, &2)?.unwrap();
    change(&mut record);
    Ok(databases.turns.put(txn, &2, &record)?)
}

/// What is broken, where it must be found, and in which words.
const HARMS: &[(Harm, &str, &str)] = &[
    (
        |d, t| Ok(d.turns.delete(t, &2).map(|_| ())?),
        "turns",
        "turn number 2 has no record",
    ),
    (
        |d, t| turn_record(d, t, |turn| turn.text = "We sold it.".into()),
        "postings",
        "sold has no posting",
    ),
    (
        |d, t| turn_record(d, t, |turn| turn.text = "We sailed the boat. Boat!".into()),
        "postings",
        "boat has a count of 1, expected 2",
    ),
    (
        |d, t| turn_record(d, t, |turn| turn.text.push_str(" Yesterday?")),
        "sessions",
        "its length or flags",
    ),
    (
        |d, t| turn_record(d, t, |turn| turn.session = 0),
        "turns",
        "names another session",
    ),
    (
        |d, t| turn_record(d, t, |turn| turn.id = TurnId::new("x")),
        "turn_ids",
        "session_2 x does not lead to turn number 2",
    ),
    (
        |d, t| turn_record(d, t, |turn| turn.speaker = "Ben".into()),
        "sessions",
        "its speaker's number is not that of Ben",
    ),
    (
        |d, t| Ok(d.turns.put(t, &9, &d.turns.get(t, &2)?.unwrap())?),
        "turns",
        "turn number 9 is in no session",
    ),
    (
        |d, t| Ok(d.turn_ids.put(t, &id_key(0, "x"), &2)?),
        "turn_ids",
        "4 records, expected 3",
    ),
    (
        |d, t| Ok(d.turn_ids.delete(t, &id_key(0, "D2:1")).map(|_| ())?),
        "turn_ids",
        "does not lead to turn number 2",
    ),
    (
        |d, t| session_record(d, t, |s| s.first_position = 7),
        "sessions",
        "begins at position 7, expected 2",
    ),
    (
        |d, t| session_record(d, t, |s| s.words.clear()),
        "sessions",
        "columns have unequal lengths",
    ),
    (
        |d, t| session_record(d, t, |s| s.words[0] += 1),
        "sessions",
        "its length or flags",
    ),
    (
        |d, t| session_record(d, t, |s| s.turns[0] = 0),
        "sessions",
        "turn number 0 is in another place too",
    ),
    (
        |d, t| session_record(d, t, |s| s.speakers[0] = 5),
        "sessions",
        "its speaker's number",
    ),
    (
        |d, t| session_record(d, t, |s| s.time = None),
        "conversations",
        "first or last date",
    ),
    (
        |d, t| Ok(d.sessions.delete(t, &session_key(0, 1)).map(|_| ())?),
        "sessions",
        "session number 1 is missing",
    ),
    (
        |d, t| Ok(d.session_ids.delete(t, &id_key(0, "session_2")).map(|_| ())?),
        "session_ids",
        "does not lead to session number 1",
    ),
    (
        |d, t| Ok(d.session_ids.put(t, &id_key(0, "x"), &1)?),
        "session_ids",
        "3 records, expected 2",
    ),
    (
        |d, t| conversation_record(d, t, |c| c.turns = 9),
        "conversations",
        "9 turns are counted, its sessions have 3",
    ),
    (
        |d, t| conversation_record(d, t, |c| c.speakers.push("Cy".into())),
        "conversations",
        "3 speakers are listed, 2 speak",
    ),
    (
        |d, t| conversation_record(d, t, |c| c.id = ConversationId::new("x")),
        "conversation_ids",
        "x does not lead to conversation 0",
    ),
    (
        |d, t| Ok(d.conversation_ids.put(t, "x", &0)?),
        "conversation_ids",
        "2 records, expected 1",
    ),
    (
        |d, t| Ok(d.meta.put(t, "counters", br#"{"conversations":0,"turns":3}"#)?),
        "meta",
        "not below the counter 0",
    ),
    (
        |d, t| Ok(d.meta.put(t, "counters", br#"{"conversations":1,"turns":2}"#)?),
        "meta",
        "turn 2 is not below the counter 2",
    ),
    (
        |d, t| postings::remove(d.postings, t, ("boat", 0), 2),
        "postings",
        "boat has no posting, expected 1",
    ),
    (
        |d, t| postings::insert(d.postings, t, ("boat", 0), &[Posting { turn: 2, count: 3 }]),
        "postings",
        "a count of 3, expected 1",
    ),
    (
        |d, t| postings::insert(d.postings, t, ("ship", 0), &[Posting { turn: 2, count: 1 }]),
        "postings",
        "postings, the turns' texts have",
    ),
    (
        |d, t| postings::insert(d.postings, t, ("boat", 1), &[Posting { turn: 2, count: 1 }]),
        "postings",
        "not in conversation 1",
    ),
    (
        |d, t| postings::insert(d.postings, t, ("boat", 0), &[Posting { turn: 8, count: 1 }]),
        "postings",
        "leads to turn number 8",
    ),
    (
        |d, t| Ok(d.postings.put(t, b"boat\0\0\0\0\0\0\0\0\x01", b"\x80")?),
        "postings",
        "ends inside a number",
    ),
    (
        |d, t| Ok(d.postings.put(t, b"x", b"")?),
        "postings",
        "a postings key has 1 bytes",
    ),
    (
        |d, t| vectors::remove(d.vectors, t, SPACE, 1),
        "vectors",
        "turn number 1 has no vector",
    ),
    (
        |d, t| vectors::put(d.vectors, t, SPACE, (9, &[0.5; 8])),
        "vectors",
        "turn number 9 has a vector, but no record",
    ),
    (
        |d, t| vectors::put(d.vectors, t, SPACE, (1, &[f32::NAN; 8])),
        "vectors",
        "expected 8 finite ones",
    ),
    (
        |d, t| Ok(d.words.delete(t, "boat").map(|_| ())?),
        "words",
        "boat has no vector",
    ),
    (
        |d, t| Ok(d.words.put(t, "ship", &[1; 8])?),
        "words",
        "ship has a vector, but no turn says it",
    ),
    (
        |d, t| Ok(d.words.put(t, "boat", &[1; 7])?),
        "words",
        "boat: 7 bytes, expected 8",
    ),
];

#[test]
fn every_damage_is_found_and_named() {
    for (index, (harm, table, what)) in HARMS.iter().enumerate() {
        let folder = tempfile::tempdir().unwrap();
        let (memory, embedder) = new_memory(&folder);
        ingest(&memory, &embedder, &conversation("trip", TRIP));
        let whole = memory.check().unwrap();
        assert!(whole.is_whole(), "{:?}", whole.findings);
        assert_eq!(
            (whole.turns, whole.vectors, whole.words, whole.postings),
            (3, 3, 7, 10)
        );
        let databases = memory.inner.databases;
        memory
            .inner
            .environment
            .write(|txn| harm(&databases, txn))
            .unwrap();
        let report = memory.check().unwrap();
        let found = |finding: &Finding| finding.table == *table && finding.what.contains(what);
        assert!(
            report.findings.iter().any(found),
            "harm {index}, {table}: {what}, but {:#?}",
            report.findings
        );
    }
}

#[test]
fn a_file_that_is_no_store_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("data.mdb"), b"no memory at all").unwrap();
    let error = Memory::open(folder.path()).unwrap_err();
    assert!(
        matches!(
            error,
            RetrievalError::Store { .. } | RetrievalError::NotAMemory { .. }
        ),
        "{error}"
    );
}
