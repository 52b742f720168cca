//! `mneme memory list`, `show` and `stats`: what is there.

use anyhow::Result;
use jiff::civil::DateTime;
use retrieval::{ConversationId, Memory, RetrievalError, namespaces};
use serde_json::{Value, json};

use crate::cli::Place;
use crate::commands::ask::quote;
use crate::{assemble, output};

/// The conversations, and the namespaces beside them.
pub(super) fn list(place: &Place, json: bool) -> Result<()> {
    let beside = match place.namespace {
        Some(_) => Vec::new(),
        None => namespaces(&place.memory)?,
    };
    let memory = Memory::open(&assemble::folder(&place.memory, place.namespace.as_deref())?);
    let memory = match memory {
        Ok(memory) => Some(memory),
        // A folder may hold namespaces alone.
        Err(RetrievalError::NotAMemory { .. }) if !beside.is_empty() => None,
        Err(error) => return Err(error.into()),
    };
    if json {
        let mut value = match &memory {
            Some(memory) => conversations_json(memory)?,
            None => json!({ "embedder": null, "conversations": [] }),
        };
        value["namespaces"] = beside.into();
        return output::json(&value);
    }
    if let Some(memory) = memory {
        print_conversations(&memory)?;
    }
    for name in beside {
        output::line(format!("namespace {name:?}"));
    }
    Ok(())
}

pub(super) fn show(place: &Place, conversation: Option<String>, json: bool) -> Result<()> {
    let memory = super::open(place)?;
    match (conversation, json) {
        (Some(id), _) => show_turns(&memory, &ConversationId::new(id), json),
        (None, true) => output::json(&conversations_json(&memory)?),
        (None, false) => print_conversations(&memory),
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

fn conversations_json(memory: &Memory) -> Result<Value> {
    let conversations = memory.conversations()?;
    Ok(json!({
        "embedder": memory.embedder(),
        "conversations": conversations.iter().map(|c| json!({
            "id": c.id, "title": c.title, "speakers": c.speakers, "sessions": c.sessions, "turns": c.turns,
            "first": c.first, "last": c.last,
        })).collect::<Vec<_>>(),
    }))
}

fn print_conversations(memory: &Memory) -> Result<()> {
    let date = |time: Option<DateTime>| time.map_or("-".to_owned(), |t| t.date().to_string());
    let head = [
        "conversation",
        "sessions",
        "turns",
        "first",
        "last",
        "speakers",
        "title",
    ]
    .map(str::to_owned);
    let conversations = memory.conversations()?;
    let rows = conversations.into_iter().map(|c| {
        vec![
            c.id.to_string(),
            c.sessions.to_string(),
            c.turns.to_string(),
            date(c.first),
            date(c.last),
            c.speakers.join(", "),
            c.title.unwrap_or_default(),
        ]
    });
    output::table(&std::iter::once(head.to_vec()).chain(rows).collect::<Vec<_>>());
    Ok(())
}

pub(super) fn stats(memory: &Memory, json: bool) -> Result<()> {
    let stats = memory.stats()?;
    if json {
        return output::json(&stats);
    }
    let languages: Vec<String> = stats
        .languages
        .iter()
        .map(|language| format!("{language:?}"))
        .collect();
    let embedder = stats.embedder.as_ref().map_or("none".to_owned(), |info| {
        format!("{}, {} dimensions", info.name, info.dimension)
    });
    let pair = |name: &str, value: String| vec![name.to_owned(), value];
    let mut rows = vec![
        pair("schema version", stats.schema.to_string()),
        pair("embedder", embedder),
        pair("languages", languages.join(", ")),
        pair("conversations", stats.conversations.to_string()),
        pair("sessions", stats.sessions.to_string()),
        pair("turns", stats.turns.to_string()),
        pair("words with vectors", stats.words.to_string()),
        pair("file", output::bytes(stats.file_bytes)),
    ];
    for table in &stats.tables {
        let size = format!("{} records, {}", table.entries, output::bytes(table.bytes as u64));
        rows.push(pair(&format!("  {}", table.name), size));
    }
    if stats.reindexing {
        let note = "begun and not finished; `mneme memory reindex` with the same embedder goes on";
        rows.push(pair("reindexing", note.to_owned()));
    }
    output::table(&rows);
    Ok(())
}
