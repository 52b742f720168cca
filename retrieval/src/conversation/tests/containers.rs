//! Large files in little memory: what is alive at any time is one element, or one piece of a conversation.

use super::*;
use crate::conversation::chat::PIECE;

/// The most turns that one call was given, all turns, and the ids in order.
fn pieces(content: &str) -> (usize, usize, Vec<String>) {
    let folder = tempfile::tempdir().unwrap();
    let (mut most, mut all, mut ids) = (0, 0, Vec::new());
    for_each_conversation(
        &file(&folder, "c", content),
        &ReadOptions::default(),
        &mut |piece| {
            most = most.max(piece.turn_count());
            all += piece.turn_count();
            ids.push(piece.id.to_string());
            Ok(())
        },
    )
    .unwrap();
    (most, all, ids)
}

#[test]
fn long_conversations_come_in_pieces() {
    let turns = 3 * PIECE + 7;
    let message = |n: usize| {
        format!(
            r#"{{"id": {n}, "type": "message", "date": "2020-01-{:02}T00:00:00", "from": "Ann", "text": "t{n}"}}"#,
            1 + n / 500 % 28
        )
    };
    let messages: Vec<String> = (0..turns).map(message).collect();
    let telegram = format!(
        r#"{{"name": "x", "type": "y", "id": 1, "messages": [{}]}}"#,
        messages.join(",")
    );
    let whatsapp: String = (0..turns)
        .map(|n| format!("[{}/12/20, 10:00:00] Ann: t{n}\n", 1 + n / 500 % 28))
        .collect();
    let record = |n: usize| format!("{{\"turn\":\"{n}\",\"speaker\":\"Ann\",\"text\":\"t{n}\"}}\n");
    let jsonl: String = (0..turns).map(record).collect();
    let jsonl = format!("{{\"mneme\":1,\"conversation\":\"1\"}}\n{{\"session\":\"s\"}}\n{jsonl}");
    for content in [&telegram, &whatsapp, &jsonl] {
        let (most, all, ids) = pieces(content);
        assert_eq!((most, all, ids.len()), (PIECE, turns, 4));
        let whole = read(content).unwrap();
        assert_eq!(whole.len(), 1);
        assert_eq!(whole[0].turn_count(), turns);
        let mut ids: Vec<&str> = whole[0]
            .sessions
            .iter()
            .map(|session| session.id.as_str())
            .collect();
        let sessions = ids.len();
        ids.sort_unstable();
        ids.dedup();
        assert_eq!(ids.len(), sessions, "pieces of a session are put together");
    }
    refused(
        jsonl.replace("\"turn\":\"5\"", "\"turn\":\"12000\""),
        "turn 12000 occurs twice",
    );
}
