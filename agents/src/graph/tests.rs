use std::sync::Mutex;

use engine_contract::scripted::{HashEmbedder, ScriptedModel};
use engine_contract::{Embedder, EngineError};
use retrieval::{
    Conversation, ConversationId, Deletion, Memory, RankingConfig, Recall, Retriever, SearchRequest,
    Searcher, Session, SessionId, Turn,
};

use super::*;

fn conversation() -> Conversation {
    let turn = |id: &str, speaker: &str, text: &str| Turn {
        id: TurnId::new(id),
        speaker: speaker.into(),
        text: text.into(),
        caption: None,
        time: None,
    };
    let session = |id: &str, turns: Vec<Turn>| Session {
        id: SessionId::new(id),
        time: None,
        turns,
    };
    Conversation {
        id: ConversationId::new("c"),
        title: None,
        sessions: vec![
            session(
                "s1",
                vec![
                    turn("1", "Ann", "I adopted a dog, Rex."),
                    turn("2", "Ben", "Nice."),
                ],
            ),
            session("s2", vec![turn("3", "Ann", "We walked along the Thames.")]),
        ],
    }
}

const FIRST: &str = r#"{"entities": [
    {"name": "The Rex", "kind": "dog", "description": "Ann's dog.", "excerpt": "1"}],
    "relations": [{"from": "Ann", "to": "Rex", "keywords": "adoption", "description": "Ann adopted Rex.", "excerpt": "1"}]}"#;
const SECOND: &str = r#"{"entities": [], "relations": [
    {"from": "Rex", "to": "Thames", "keywords": "walk", "description": "They walked there.", "excerpt": "3"}]}"#;

fn memory(folder: &std::path::Path) -> Memory {
    let embedder = HashEmbedder::new(32);
    let memory = Memory::create_or_open(folder, embedder.info()).unwrap();
    memory
        .ingest(&conversation(), Some(&embedder), &mut |_| {})
        .unwrap();
    memory
}

/// Answers in turn, and fails when it is asked too often.
fn scripted(replies: &[&str]) -> ScriptedModel {
    let replies: Mutex<Vec<String>> = Mutex::new(replies.iter().rev().map(|r| (*r).to_owned()).collect());
    ScriptedModel::new(move |_| {
        let reply = replies.lock().unwrap().pop();
        reply.ok_or_else(|| EngineError::Backend {
            backend: "script".into(),
            reason: "asked too often".into(),
        })
    })
}

#[test]
fn what_was_read_is_stored_part_by_part_and_read_once() {
    let folder = tempfile::tempdir().unwrap();
    let memory = memory(folder.path());
    let id = ConversationId::new("c");
    let settings = GraphSettings::default();
    // Stops after the first session; what it told is kept.
    let stopped = extract_graph((&memory, &id), &scripted(&[FIRST]), &settings, None, &mut |_| {});
    assert!(matches!(stopped, Err(AgentError::Engine(_))), "{stopped:?}");
    let left: Vec<_> = memory
        .unread_turns(&id)
        .unwrap()
        .into_iter()
        .map(|turn| turn.id)
        .collect();
    assert_eq!(left, [TurnId::new("3")]);
    let done = extract_graph((&memory, &id), &scripted(&[SECOND]), &settings, None, &mut |_| {}).unwrap();
    assert_eq!((done.turns, done.calls), (1, 1));
    let summary = memory.graph_summary().unwrap();
    assert_eq!((summary.turns, summary.entities, summary.relations), (3, 1, 2));
    assert_eq!(summary.cost.calls, 2);
    assert!(summary.cost.prompt_tokens > 0);
    let again = extract_graph((&memory, &id), &scripted(&[]), &settings, None, &mut |_| {}).unwrap();
    assert_eq!(
        again,
        Extracted {
            usage: Usage::zero(),
            ..Extracted::default()
        }
    );
}

#[test]
fn a_reply_that_cannot_be_used_is_asked_for_once_more_and_then_given_up() {
    let turns = vec![crate::fixture::turn("1", "Ann", "I adopted a dog.")];
    let mut extraction = Extraction::new(turns, GraphSettings::default()).unwrap();
    let reply = |text: &str| {
        GraphEvent::Generated(Generation {
            text: text.into(),
            tokens: vec![],
            finish: engine_contract::FinishReason::End,
            usage: Usage::zero(),
            logprobs: None,
        })
    };
    assert!(extraction.on_event(GraphEvent::Stored).is_err());
    extraction.on_event(reply("{")).unwrap();
    assert!(matches!(extraction.next_step(), GraphStep::Generate(_)));
    extraction
        .on_event(reply(&FIRST.replace(r#""excerpt": "1""#, r#""excerpt": "9""#)))
        .unwrap();
    let GraphStep::Store { read, calls, .. } = extraction.next_step() else {
        panic!("expected a store");
    };
    assert_eq!((read, calls), (vec![(TurnId::new("1"), TurnGraph::default())], 2));
    extraction.on_event(GraphEvent::Stored).unwrap();
    let GraphStep::Finished(extracted) = extraction.next_step() else {
        panic!("expected the end");
    };
    assert_eq!((extracted.lost.len(), extracted.turns), (1, 1));
}

#[test]
fn the_graph_leads_where_words_do_not_and_a_deleted_turn_takes_its_part_along() {
    let folder = tempfile::tempdir().unwrap();
    let memory = memory(folder.path());
    let id = ConversationId::new("c");
    extract_graph(
        (&memory, &id),
        &scripted(&[FIRST, SECOND]),
        &GraphSettings::default(),
        None,
        &mut |_| {},
    )
    .unwrap();
    let found = |memory: &Memory, retriever| -> Vec<String> {
        let embedder = std::sync::Arc::new(HashEmbedder::new(32));
        let request = SearchRequest {
            query: "What about Rex?".into(),
            limit: 3,
            retriever,
        };
        let ranking = RankingConfig {
            graph_weight: 5.0,
            ..RankingConfig::default()
        };
        let searcher = Searcher::new(memory.clone(), Some(embedder)).unwrap();
        let searcher = searcher.with_ranking(ranking).unwrap();
        let hits = searcher.search(&request).unwrap();
        hits.iter().map(|hit| hit.turn.id.to_string()).collect()
    };
    // Turn 3 does not name Rex; turn 2 only stands beside a turn that does.
    assert_eq!(found(&memory, Retriever::Hybrid)[..2], ["1", "2"]);
    assert_eq!(found(&memory, Retriever::Graph)[..2], ["1", "3"]);
    memory
        .delete(&Deletion::Turn(id.clone(), TurnId::new("3")))
        .unwrap();
    let summary = memory.graph_summary().unwrap();
    assert_eq!((summary.turns, summary.entities, summary.relations), (2, 1, 1));
    // An edited turn is read again.
    let mut edited = conversation();
    edited.sessions.truncate(1);
    edited.sessions[0].turns[0].text = "I adopted a cat.".into();
    memory
        .ingest(&edited, Some(&HashEmbedder::new(32)), &mut |_| {})
        .unwrap();
    assert_eq!(memory.graph_summary().unwrap().entities, 0);
    assert_eq!(memory.unread_turns(&id).unwrap().len(), 1);
}
