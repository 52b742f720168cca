use std::io::Write as _;
use std::path::{Path, PathBuf};

use jiff::civil::date;
use proptest::prelude::*;
use tempfile::TempDir;

use super::*;

mod chats;
mod containers;
mod exports;

fn file(folder: &TempDir, name: &str, content: impl AsRef<[u8]>) -> PathBuf {
    let path = folder.path().join(name);
    std::fs::write(&path, content).unwrap();
    path
}

fn read(content: impl AsRef<[u8]>) -> Result<Vec<Conversation>, RetrievalError> {
    let folder = tempfile::tempdir().unwrap();
    read_conversations(&file(&folder, "conversation", content), None)
}

fn time(session: &Session) -> Option<jiff::civil::DateTime> {
    session.time.as_ref().map(|moment| moment.time)
}

/// Reads a document of this name; gives what was read as text, and what was left out as `count reason: first`.
#[track_caller]
fn told(name: &str, content: impl AsRef<[u8]>, options: &ReadOptions) -> (String, Vec<String>) {
    let folder = tempfile::tempdir().unwrap();
    let path = file(&folder, name, content);
    let mut text = String::new();
    let report = for_each_conversation(&path, options, &mut |conversation| {
        text.push_str(&render(&conversation));
        Ok(())
    });
    let report = report.unwrap_or_else(|error| panic!("{error}"));
    let skipped = report.skipped.iter();
    let skipped = skipped
        .map(|s| format!("{} {}: {}", s.count, s.reason, s.first))
        .collect();
    (text, skipped)
}

fn render(conversation: &Conversation) -> String {
    let mut text = format!("# {}", conversation.id);
    if let Some(title) = &conversation.title {
        text.push_str(&format!(" ({title})"));
    }
    text.push('\n');
    let spelt = |moment: &Option<Moment>| {
        moment.as_ref().map_or("-".to_owned(), |moment| {
            moment
                .raw
                .as_ref()
                .map_or(moment.to_string(), |raw| format!("{moment} [{raw}]"))
        })
    };
    for session in &conversation.sessions {
        text.push_str(&format!("## {} {}\n", session.id, spelt(&session.time)));
        for turn in &session.turns {
            text.push_str(&format!(
                "{} {} {}: {}\n",
                turn.id,
                spelt(&turn.time),
                turn.speaker,
                turn.text
            ));
        }
    }
    text
}

const LOCOMO: &str = r#"[
 {"qa": [{"question": "?", "answer": 3}], "sample_id": "conv-1", "conversation": {
   "speaker_a": "Ann", "speaker_b": "Ben",
   "session_10_date_time": "12:06 am on 9 June, 2023",
   "session_10": [{"speaker": "Ann", "dia_id": "D10:1", "text": "Later."}],
   "session_2_date_time": "1:56 pm on 8 May, 2023",
   "session_2": [
     {"speaker": "Ann", "dia_id": "D2:1", "text": "Look!", "img_url": ["u"], "blip_caption": "a photo of a dog", "query": "secret"},
     {"speaker": "Ben", "dia_id": "D2:2", "text": "Nice."}],
   "session_11_date_time": "1:56 pm on 8 July, 2023"}},
 {"sample_id": "conv-2", "conversation": {"session_1": [{"speaker": "Cy", "dia_id": "D1:1", "text": "Hi."}]}}
]"#;

#[test]
fn locomo_sessions_are_numbered_and_captions_kept() {
    let conversations = read(LOCOMO).unwrap();
    assert_eq!(conversations.len(), 2);
    let first = &conversations[0];
    assert_eq!(first.id.as_str(), "conv-1");
    let ids: Vec<&str> = first.sessions.iter().map(|session| session.id.as_str()).collect();
    assert_eq!(ids, ["session_2", "session_10"]);
    let raw = |text: &str| Some(text.to_owned());
    let moment = first.sessions[0].time.clone().unwrap();
    assert_eq!(
        (moment.time, moment.zone),
        (date(2023, 5, 8).at(13, 56, 0, 0), Zone::Unknown)
    );
    assert_eq!(moment.raw, raw("1:56 pm on 8 May, 2023"));
    assert_eq!(time(&first.sessions[1]), Some(date(2023, 6, 9).at(0, 6, 0, 0)));
    assert_eq!(
        first.sessions[0].turns[0].caption.as_deref(),
        Some("a photo of a dog")
    );
    assert_eq!(conversations[1].sessions[0].time, None);
    assert!(
        !format!("{conversations:?}").contains("secret"),
        "image queries must not be read"
    );
}

#[test]
fn format_is_recognised_by_content() {
    let folder = tempfile::tempdir().unwrap();
    let path = file(&folder, "locomo.jsonl", LOCOMO);
    assert_eq!(recognise(&path).unwrap(), Format::Locomo);

    let mut packed = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
    packed.write_all(LOCOMO.as_bytes()).unwrap();
    let packed = file(&folder, "locomo.txt", packed.finish().unwrap());
    assert_eq!(read_conversations(&packed, None).unwrap(), read(LOCOMO).unwrap());

    let marked = [
        b"\xef\xbb\xbf".as_slice(),
        LOCOMO.replace('\n', "\r\n").as_bytes(),
    ]
    .concat();
    assert_eq!(read(marked).unwrap(), read(LOCOMO).unwrap());
}

#[test]
fn one_sample_or_an_error_that_lists_them() {
    let folder = tempfile::tempdir().unwrap();
    let path = file(&folder, "locomo.json", LOCOMO);
    let one = read_conversations(&path, Some("conv-2")).unwrap();
    assert_eq!(one.len(), 1);
    assert_eq!(one[0].id.as_str(), "conv-2");
    let error = read_conversations(&path, Some("conv-3")).unwrap_err();
    assert!(
        error
            .to_string()
            .ends_with("has no conversation conv-3; it has conv-1, conv-2"),
        "{error}"
    );
}

const LONGMEMEVAL: &str = r#"[{"question_id": "q1", "question_type": "x", "question": "?", "answer": 5,
  "question_date": "2023/05/30 (Tue) 23:40", "answer_session_ids": ["a"],
  "haystack_dates": ["2023/05/20 (Sat) 02:21", "2023/05/20 (Sat) 01:00"], "haystack_session_ids": ["a", "a"],
  "haystack_sessions": [[{"role": "user", "content": "Hi", "has_answer": true}, {"role": "assistant", "content": ""}],
                        [{"role": "assistant", "content": "Hm"}]]}]"#;

#[test]
fn longmemeval_histories_keep_repeated_sessions_apart() {
    let conversations = read(LONGMEMEVAL).unwrap();
    let sessions = &conversations[0].sessions;
    assert_eq!(conversations[0].id.as_str(), "q1");
    assert_eq!([sessions[0].id.as_str(), sessions[1].id.as_str()], ["a", "a#2"]);
    assert_eq!(time(&sessions[0]), Some(date(2023, 5, 20).at(2, 21, 0, 0)));
    assert_eq!(sessions[0].turns[1].id.as_str(), "a_2");
    assert_eq!(sessions[1].turns[0].id.as_str(), "a#2_1");
}

const JSONL: &str = r#"{"mneme":1,"conversation":"trip"}
{"session":"s1","time":"2023-05-08T13:56:00"}
{"turn":"s1:1","speaker":"Ann","text":"Ça va?","caption":"a boat"}

{"session":"s2"}
{"turn":"s2:1","speaker":"Ben","text":""}
{"mneme":1,"conversation":"other"}
{"session":"s1"}
{"turn":"t","speaker":"Cy","text":"x"}
"#;

#[test]
fn jsonl_holds_several_conversations() {
    let conversations = read(JSONL).unwrap();
    assert_eq!(conversations.len(), 2);
    assert_eq!(
        conversations[0].sessions[0].time,
        Some(date(2023, 5, 8).at(13, 56, 0, 0).into())
    );
    assert_eq!(
        conversations[0].sessions[0].turns[0].caption.as_deref(),
        Some("a boat")
    );
    assert_eq!(conversations[0].sessions[1].time, None);
    assert_eq!(read(JSONL.replace('\n', "\r\n")).unwrap(), conversations);
}

#[track_caller]
fn refused(content: impl AsRef<[u8]>, expected: &str) {
    let error = read(content).unwrap_err().to_string();
    assert!(error.contains(expected), "expected {expected:?} in: {error}");
}

#[test]
fn broken_files_are_refused_with_file_line_and_expectation() {
    refused("", "holds no turn");
    refused(" \n ", "holds no turn");
    refused(
        "[]",
        "line 1: not a known conversation format, found an empty array",
    );
    refused(
        "\nDear Alice, hi",
        "line 1: not a known conversation format, found text that begins with",
    );
    refused(
        "\n[{\"a\": 1}]",
        "line 2: not a known conversation format, found an object with the keys a",
    );
    refused("[{\"a\": ", "JSON that breaks off");
    refused([0u8, 159, 146, 150], "not a known conversation format");
    refused(&LOCOMO[..LOCOMO.len() - 20], "line 11: ");
    refused(
        LOCOMO.replace("8 May, 2023", "8. Mai 2023"),
        "line 6: session_2_date_time is",
    );
    refused(
        LOCOMO.replace("\"text\": \"Nice.\"", "\"txt\": 1"),
        "line 9: missing field `text`",
    );
    refused(
        LOCOMO.replace("D2:2", "D2:1"),
        "conversation conv-1 cannot be stored: turn D2:1 occurs twice",
    );
    refused(format!("{LOCOMO}x"), "line 12: ");
    refused(
        r#"[{"sample_id": "a", "conversation": {}}]"#,
        "conversation a cannot be stored: it has no turn",
    );
    refused(
        JSONL.replace("\"text\":\"x\"", "\"text\":\"x\",\"colour\":1"),
        "line 9: unknown field `colour`",
    );
    refused(
        "{\"turn\":\"1\",\"speaker\":\"A\",\"text\":\"x\"}",
        "line 1: a record before the first conversation",
    );
    refused(
        JSONL.replace("\"mneme\":1", "\"mneme\":2"),
        "line 1: format version 2, expected 1",
    );
    refused(JSONL.replace("13:56:00", "25:00:00"), "line 2: ");
    refused(
        LONGMEMEVAL.replace("\"a\", \"a\"", "\"a\""),
        "1 session ids, 2 dates and 2 sessions",
    );
}

#[test]
fn folders_and_missing_files_are_unreadable() {
    let folder = tempfile::tempdir().unwrap();
    for path in [folder.path(), Path::new("/nowhere/at/all")] {
        let error = read_conversations(path, None).unwrap_err();
        assert!(matches!(error, RetrievalError::UnreadableFile { .. }), "{error}");
    }
    let mut packed = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
    packed.write_all(LOCOMO.as_bytes()).unwrap();
    let packed = packed.finish().unwrap();
    let error = read(&packed[..packed.len() / 2]).unwrap_err();
    assert!(
        matches!(
            error,
            RetrievalError::UnreadableFile { .. } | RetrievalError::UnknownFormat { .. }
        ),
        "{error}"
    );
}

prop_compose! {
    fn any_conversation()(
        id in "[a-z]{1,8}",
        sessions in prop::collection::vec(prop::collection::vec((".{0,6}", ".{0,30}", prop::option::of(".{0,9}")), 1..5), 1..4),
    ) -> Conversation {
        let session = |(s, turns): (usize, Vec<(String, String, Option<String>)>)| Session {
            id: SessionId::new(format!("s{s}")),
            time: (s % 2 == 0).then(|| date(2024, 2, 29).at(s as i8, 1, 2, 0).into()),
            turns: turns.into_iter().enumerate().map(|(t, (speaker, text, caption))| Turn {
                id: TurnId::new(format!("{s}:{t}")), speaker, text, caption,
                time: (t % 2 == 0).then(|| Moment::unix(1e9 + t as f64 / 4.0, format!("{s} {t}"))).flatten(),
            }).collect(),
        };
        let title = id.ends_with('z').then(|| format!("{id} \"title\""));
        Conversation { id: ConversationId::new(id), title, sessions: sessions.into_iter().enumerate().map(session).collect() }
    }
}

proptest! {
    #[test]
    fn jsonl_gives_back_what_was_written(conversation in any_conversation()) {
        let mut text = Vec::new();
        write_jsonl(&conversation, &mut text).unwrap();
        prop_assert_eq!(read(text).unwrap(), vec![conversation]);
    }

    #[test]
    fn no_input_panics(bytes in prop::collection::vec(any::<u8>(), 0..200), cut in 0..LOCOMO.len()) {
        let _ = read(bytes);
        let _ = read(&LOCOMO.as_bytes()[..cut]);
    }
}
