//! `mneme ingest`: conversation files into a memory.

use std::path::Path;

use anyhow::Result;
use engine_contract::Embedder;
use indicatif::ProgressBar;
use retrieval::{Conversation, IngestProgress, IngestReport, IngestStage, Memory, read_conversations};
use serde_json::json;

use crate::cli::IngestArgs;
use crate::{assemble, output, progress};

/// Reads every file before anything is written, so that a bad file leaves no trace.
pub(crate) fn run(args: &IngestArgs, quiet: bool) -> Result<()> {
    let mut conversations = Vec::new();
    for file in &args.files {
        conversations.extend(read_conversations(file, args.sample.as_deref())?);
    }
    let embedder = assemble::embedder(assemble::cpu(args.threads)?, &args.embedder)?;
    let reports = into_memory(&args.memory, &conversations, &*embedder, quiet)?;
    if args.json {
        return output::json(&json!({
            "memory": args.memory,
            "conversations": conversations.iter().zip(&reports).map(|(c, r)| as_json(c, r)).collect::<Vec<_>>(),
        }));
    }
    for (conversation, report) in conversations.iter().zip(&reports) {
        output::line(sentence(conversation, report));
    }
    Ok(())
}

/// Stores conversations with a progress bar; what is stored already is left as it is.
pub(crate) fn into_memory(
    folder: &Path,
    conversations: &[Conversation],
    embedder: &dyn Embedder,
    quiet: bool,
) -> Result<Vec<IngestReport>> {
    let memory = Memory::create_or_open(folder, embedder.info())?;
    let bar = progress::count_bar(quiet);
    let mut reports = Vec::with_capacity(conversations.len());
    for conversation in conversations {
        let report = memory.ingest(conversation, Some(embedder), &mut |step| {
            show(&bar, conversation, step);
        })?;
        reports.push(report);
    }
    bar.finish_and_clear();
    Ok(reports)
}

fn show(bar: &ProgressBar, conversation: &Conversation, step: IngestProgress) {
    let what = match step.stage {
        IngestStage::Turns => "turns",
        IngestStage::Words => "words",
        IngestStage::Index => "index",
    };
    bar.set_message(format!("{} {what}", conversation.id));
    bar.set_length(step.total as u64);
    bar.set_position(step.done as u64);
}

fn as_json(conversation: &Conversation, report: &IngestReport) -> serde_json::Value {
    json!({
        "conversation": conversation.id,
        "sessions_added": report.sessions_added,
        "turns_added": report.turns_added,
        "turns_changed": report.turns_changed,
        "turns_present": report.turns_present,
    })
}

fn sentence(conversation: &Conversation, report: &IngestReport) -> String {
    let mut text = format!(
        "{}: {} turns in {} sessions added",
        conversation.id, report.turns_added, report.sessions_added
    );
    if report.turns_present > 0 {
        text.push_str(&format!(", {} were there already", report.turns_present));
    }
    if report.turns_changed > 0 {
        text.push_str(&format!(", {} changed", report.turns_changed));
    }
    text
}
