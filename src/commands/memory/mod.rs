//! `mneme memory`: what is stored, and its life.

mod keep;
mod show;

use anyhow::{Result, bail};
use retrieval::Memory;

use crate::cli::{MemoryArgs, MemoryCommand, Place};
use crate::{assemble, output};

pub(crate) fn run(args: MemoryArgs, quiet: bool) -> Result<()> {
    match args.command {
        MemoryCommand::List { place, json } => show::list(&place, json),
        MemoryCommand::Show {
            place,
            conversation,
            json,
        } => show::show(&place, conversation, json),
        MemoryCommand::Stats { place, json } => show::stats(&open(&place)?, json),
        MemoryCommand::Delete {
            place,
            conversation,
            session,
            turn,
            json,
        } => keep::delete(&place, conversation, (session, turn), json),
        MemoryCommand::Export {
            place,
            output,
            no_vectors,
            json,
        } => keep::export(&open(&place)?, output.as_deref(), !no_vectors, json),
        MemoryCommand::Import {
            file,
            place,
            threads,
            json,
        } => keep::import(&file, &place, threads, (quiet, json)),
        MemoryCommand::Reindex {
            place,
            embedder,
            threads,
            json,
        } => keep::reindex(&place, &embedder, threads, (quiet, json)),
        MemoryCommand::Check { place, json } => check(&open(&place)?, json),
    }
}

fn open(place: &Place) -> Result<Memory> {
    Ok(Memory::open(&assemble::folder(
        &place.memory,
        place.namespace.as_deref(),
    )?)?)
}

/// The findings on stdout; any is a failure.
fn check(memory: &Memory, json: bool) -> Result<()> {
    let report = memory.check()?;
    if json {
        let mut value = serde_json::to_value(&report)?;
        value["whole"] = report.is_whole().into();
        output::json(&value)?;
    } else {
        for finding in &report.findings {
            output::line(finding.to_string());
        }
        if report.more > 0 {
            output::line(format!("… and {} more", report.more));
        }
    }
    if !report.is_whole() {
        bail!(
            "the memory is damaged in {} places; export what can be read, or ingest the conversations again into a new memory",
            report.findings.len() + report.more
        );
    }
    if !json {
        output::line(format!(
            "whole: {} turns in {} sessions of {} conversations, {} postings, {} vectors, {} words",
            report.turns,
            report.sessions,
            report.conversations,
            report.postings,
            report.vectors,
            report.words
        ));
    }
    Ok(())
}
