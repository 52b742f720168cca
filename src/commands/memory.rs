//! `mneme memory`: what is stored.

use anyhow::Result;
use retrieval::{ConversationId, Memory};
use serde_json::json;

use crate::cli::{MemoryArgs, MemoryCommand};
use crate::commands::ask::quote;
use crate::output;

pub(crate) fn run(args: MemoryArgs) -> Result<()> {
    let MemoryCommand::Show {
        memory,
        conversation,
        json,
    } = args.command;
    let memory = Memory::open(&memory)?;
    match conversation {
        Some(id) => show_turns(&memory, &ConversationId::new(id), json),
        None => show_conversations(&memory, json),
    }
}

fn show_turns(memory: &Memory, conversation: &ConversationId, json: bool) -> Result<()> {
    let turns = memory.turns(conversation)?;
    if json {
        return output::json(&json!({ "conversation": conversation, "turns": turns }));
    }
    for turn in &turns {
        output::line(format!("[{}] {}", turn.id, quote(turn)));
    }
    Ok(())
}

fn show_conversations(memory: &Memory, json: bool) -> Result<()> {
    let conversations = memory.conversations()?;
    if json {
        return output::json(&json!({
            "embedder": memory.embedder(),
            "conversations": conversations.iter().map(|c| json!({
                "id": c.id, "speakers": c.speakers, "sessions": c.sessions, "turns": c.turns,
                "first": c.first, "last": c.last,
            })).collect::<Vec<_>>(),
        }));
    }
    let date = |time: Option<jiff::civil::DateTime>| time.map_or("-".to_owned(), |t| t.date().to_string());
    let head = ["conversation", "sessions", "turns", "first", "last", "speakers"]
        .map(str::to_owned)
        .to_vec();
    let rows = conversations.iter().map(|c| {
        vec![
            c.id.to_string(),
            c.sessions.to_string(),
            c.turns.to_string(),
            date(c.first),
            date(c.last),
            c.speakers.join(", "),
        ]
    });
    output::table(&std::iter::once(head).chain(rows).collect::<Vec<_>>());
    Ok(())
}
