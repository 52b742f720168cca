//! `mneme memory delete`, `export`, `import` and `reindex`: the life of a memory.

use std::fs::{self, File};
use std::io::{BufWriter, Write};
use std::path::Path;

use anyhow::{Context, Result};
use retrieval::{ConversationId, Deletion, Memory, SessionId, TurnId, export_embedder};
use serde_json::json;

use crate::cli::Place;
use crate::commands::ingest;
use crate::{assemble, output, progress};

pub(super) fn delete(
    place: &Place,
    conversation: String,
    (session, turn): (Option<String>, Option<String>),
    json: bool,
) -> Result<()> {
    let folder = assemble::folder(&place.memory, place.namespace.as_deref())?;
    let id = ConversationId::new(conversation);
    let deletion = match (session, turn) {
        (_, Some(turn)) => Deletion::Turn(id, TurnId::new(turn)),
        (Some(session), None) => Deletion::Session(id, SessionId::new(session)),
        (None, None) => Deletion::Conversation(id),
    };
    let deleted = Memory::open(&folder)?.delete(&deletion)?;
    // Kept prompt prefixes may name who is gone; the next question makes them anew.
    assemble::forget_prefixes(&folder)?;
    if json {
        return output::json(&json!({ "turns_deleted": deleted }));
    }
    output::line(format!("{deleted} turns deleted"));
    Ok(())
}

/// A file is written beside its goal and renamed, so that it is whole or absent.
pub(super) fn export(memory: &Memory, file: Option<&Path>, vectors: bool, json: bool) -> Result<()> {
    let Some(file) = file else {
        let mut stdout = BufWriter::new(output::stdout());
        memory.export(&mut stdout, vectors)?;
        return stdout.flush().context("the export cannot be written");
    };
    let mut partial = file.as_os_str().to_owned();
    partial.push(".partial");
    let write = || -> Result<()> {
        let mut writer = BufWriter::new(File::create(&partial)?);
        memory.export(&mut writer, vectors)?;
        writer.into_inner()?.sync_all()?;
        Ok(fs::rename(&partial, file)?)
    };
    write().with_context(|| format!("the export cannot be written to {}", file.display()))?;
    let turns: usize = memory.conversations()?.iter().map(|c| c.turns).sum();
    if json {
        return output::json(&json!({ "file": file, "turns": turns, "vectors": vectors }));
    }
    output::line(format!("{turns} turns written to {}", file.display()));
    Ok(())
}

pub(super) fn import(
    file: &Path,
    place: &Place,
    threads: Option<usize>,
    (quiet, json): (bool, bool),
) -> Result<()> {
    let folder = assemble::folder(&place.memory, place.namespace.as_deref())?;
    let embedder = match export_embedder(file)? {
        (Some(info), false) => assemble::optional_embedder(threads, Some(&info.name))?,
        _ => None,
    };
    let bar = progress::count_bar(quiet);
    let name = file.display();
    let (_, report) = Memory::import(file, &folder, embedder.as_deref(), &mut |step| {
        ingest::show(&bar, &name, step);
    })?;
    bar.finish_and_clear();
    if json {
        return output::json(&json!({
            "memory": folder,
            "sessions_added": report.sessions_added,
            "turns_added": report.turns_added,
            "turns_changed": report.turns_changed,
            "turns_present": report.turns_present,
        }));
    }
    output::line(format!(
        "{} turns in {} sessions added, {} were there already, {} changed",
        report.turns_added, report.sessions_added, report.turns_present, report.turns_changed
    ));
    Ok(())
}

pub(super) fn reindex(
    place: &Place,
    embedder: &str,
    threads: Option<usize>,
    (quiet, json): (bool, bool),
) -> Result<()> {
    let memory = super::open(place)?;
    let embedder = assemble::optional_embedder(threads, Some(embedder))?;
    let bar = progress::count_bar(quiet);
    let memory = memory.reindex(embedder.as_deref(), &mut |step| {
        ingest::show(&bar, &"reindexing", step)
    })?;
    bar.finish_and_clear();
    let stats = memory.stats()?;
    if json {
        return output::json(
            &json!({ "embedder": stats.embedder, "turns": stats.turns, "words": stats.words }),
        );
    }
    let name = stats
        .embedder
        .map_or("no embedder, keywords alone".to_owned(), |info| info.name);
    output::line(format!(
        "{} turns and {} words with {name}",
        stats.turns, stats.words
    ));
    Ok(())
}
