//! Out as text and back.

use super::life::content;
use super::*;
use crate::export_embedder;

fn exported(folder: &TempDir, memory: &Memory, vectors: bool) -> std::path::PathBuf {
    let path = folder.path().join("export.jsonl");
    let mut text = Vec::new();
    memory.export(&mut text, vectors).unwrap();
    std::fs::write(&path, text).unwrap();
    path
}

fn import(path: &Path, embedder: Option<&dyn Embedder>) -> Result<(TempDir, Memory), RetrievalError> {
    let folder = tempfile::tempdir().unwrap();
    let (memory, _) = Memory::import(path, folder.path(), embedder, &mut |_| {})?;
    Ok((folder, memory))
}

#[test]
fn an_export_is_lines_of_json() {
    let (folder, other) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let embedder = HashEmbedder::new(2);
    let memory = Memory::create_or_open(folder.path(), settings(&embedder)).unwrap();
    let mut trip = conversation("trip", &[&[("Ann", "A boat."), ("Ann", "Boat!")]]);
    trip.title = Some("The trip".into());
    ingest(&memory, &embedder, &trip);
    let with = std::fs::read_to_string(exported(&other, &memory, true)).unwrap();
    assert_eq!(
        with,
        "\
{\"mneme_export\":1,\"language\":\"english\",\"embedder\":{\"name\":\"hash\",\"dimension\":2,\"normalised\":true,\"max_tokens\":18446744073709551615},\"vectors\":true}
{\"mneme\":1,\"conversation\":\"trip\",\"title\":\"The trip\"}
{\"session\":\"session_1\",\"time\":\"2023-05-01T09:00:00\"}
{\"word\":\"ann\",\"vector\":\"gQA=\"}
{\"word\":\"boat\",\"vector\":\"AIE=\"}
{\"turn\":\"D1:1\",\"speaker\":\"Ann\",\"text\":\"A boat.\",\"vector\":\"Lvlkvy755L4=\",\"tokens\":\"AQAD\"}
{\"turn\":\"D1:2\",\"speaker\":\"Ann\",\"text\":\"Boat!\",\"vector\":\"8wQ1v/MENb8=\",\"tokens\":\"AQM=\"}
"
    );
    // Without vectors and the first line it is a conversation file.
    let without = std::fs::read_to_string(exported(&other, &memory, false)).unwrap();
    let path = other.path().join("plain.jsonl");
    std::fs::write(&path, without.split_once('\n').unwrap().1).unwrap();
    assert_eq!(crate::read_conversations(&path, None).unwrap(), [trip]);
    let error = crate::read_conversations(&exported(&other, &memory, true), None).unwrap_err();
    assert!(
        error.to_string().contains("`mneme memory import` reads it"),
        "{error}"
    );
}

#[test]
fn an_export_without_vectors_needs_the_embedder() {
    let folder = tempfile::tempdir().unwrap();
    let (memory, embedder) = new_memory(&folder);
    ingest(&memory, &embedder, &conversation("trip", TRIP));
    let out = tempfile::tempdir().unwrap();
    let path = exported(&out, &memory, false);
    assert_eq!(
        export_embedder(&path).unwrap(),
        (Some(embedder.info().clone()), false)
    );
    let error = import(&path, Some(&HashEmbedder::new(16))).unwrap_err();
    assert!(
        matches!(error, RetrievalError::EmbedderMismatch { .. }),
        "{error}"
    );
    assert!(import(&path, None).is_err());
    let (_folder, back) = import(&path, Some(&embedder)).unwrap();
    assert_eq!(content(&back), content(&memory));
    // Into a memory of another embedder it does not go.
    let other = tempfile::tempdir().unwrap();
    Memory::create_or_open(other.path(), settings(&HashEmbedder::new(16))).unwrap();
    let error = Memory::import(&path, other.path(), None, &mut |_| {}).unwrap_err();
    assert!(
        matches!(error, RetrievalError::EmbedderMismatch { .. }),
        "{error}"
    );
}

#[test]
fn broken_exports_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let (memory, embedder) = new_memory(&folder);
    ingest(&memory, &embedder, &conversation("trip", TRIP));
    let out = tempfile::tempdir().unwrap();
    let path = exported(&out, &memory, true);
    let text = std::fs::read_to_string(&path).unwrap();
    let cases = [
        (
            text.replace("\"mneme_export\":1", "\"mneme_export\":2"),
            "export version 2, expected 1",
        ),
        (
            text.replace("\"mneme_export\"", "\"mneme\""),
            "not the first line of an export",
        ),
        (
            text.replacen("\",\"vector\":\"", "\",\"vector\":\"!", 1),
            "not base64",
        ),
        (
            text.replacen(",\"vector\":\"", ",\"vector\":\"AAAA", 1),
            "expected 8",
        ),
        (
            text.lines()
                .filter(|line| !line.contains("\"word\""))
                .collect::<Vec<_>>()
                .join("\n"),
            "it has no vector for",
        ),
    ];
    for (broken, expected) in cases {
        std::fs::write(&path, broken).unwrap();
        let error = import(&path, None).map(|_| ()).unwrap_err().to_string();
        assert!(error.contains(expected), "expected {expected:?} in: {error}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn an_import_of_an_export_is_the_same_memory(
        conversations in prop::collection::vec(
            prop::collection::vec(prop::collection::vec(("[A-C]?", ".{0,12}", prop::option::of(".{0,4}"), any::<bool>()), 1..4), 1..4), 0..4),
        dimension in 0..5usize,
    ) {
        let folder = tempfile::tempdir().unwrap();
        let embedder = (dimension > 0).then(|| HashEmbedder::new(dimension));
        let settings = MemorySettings {
            embedder: embedder.as_ref().map(|embedder| embedder.info().clone()),
            language: Language::German,
        };
        let memory = Memory::create_or_open(folder.path(), settings).unwrap();
        for (c, sessions) in conversations.iter().enumerate() {
            let turn = |(t, (speaker, text, caption, timed)): (usize, &(String, String, Option<String>, bool)), s: usize| Turn {
                id: TurnId::new(format!("{s}/{t}")),
                speaker: speaker.clone(),
                text: text.clone(),
                caption: caption.clone(),
                time: timed.then(|| date(2024, 2, 29).at(t as i8, 0, 0, 0).into()),
            };
            let conversation = Conversation {
                id: ConversationId::new(format!("c{c}")),
                title: (c % 2 == 1).then(|| format!("title {c}")),
                sessions: sessions.iter().enumerate().map(|(s, turns)| Session {
                    id: SessionId::new(format!("s{s}")),
                    time: (s % 2 == 1).then(|| date(2024, 3, 1).at(s as i8, 0, 0, 0).into()),
                    turns: turns.iter().enumerate().map(|entry| turn(entry, s)).collect(),
                }).collect(),
            };
            memory.ingest(&conversation, embedder.as_ref().map(|e| e as &dyn Embedder), &mut |_| {}).unwrap();
        }
        let out = tempfile::tempdir().unwrap();
        let (_folder, back) = import(&exported(&out, &memory, true), None).unwrap();
        // Turns came in order, so that even the numbers are the same.
        prop_assert_eq!(back.to_string(), memory.to_string());
        prop_assert_eq!(content(&back), content(&memory));
    }
}
