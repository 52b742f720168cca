//! `mneme graph`: entities and relations out of a memory's turns, by a local model.

use agents::{GraphSettings, extract_graph};
use anyhow::Result;
use retrieval::{ConversationId, Memory};

use crate::cli::GraphArgs;
use crate::{assemble, interrupt, output, progress};

/// Reads what was not read yet, conversation by conversation, and prints what the graph holds and what it has cost.
pub(crate) fn run(args: &GraphArgs, quiet: bool) -> Result<()> {
    let folder = assemble::folder(&args.place.memory, args.place.namespace.as_deref())?;
    let memory = Memory::open(&folder)?;
    let conversations = match &args.conversation {
        Some(id) => vec![ConversationId::new(id)],
        None => memory
            .conversations()?
            .into_iter()
            .map(|summary| summary.id)
            .collect(),
    };
    let mut unread = 0;
    for id in &conversations {
        unread += memory.unread_turns(id)?.len();
    }
    if unread > 0 {
        let cpu = assemble::cpu(args.model.threads)?;
        let loaded = assemble::language_model(cpu, &args.model, Some(&folder))?;
        let cancel = interrupt::flag()?;
        let bar = progress::count_bar(quiet);
        bar.set_length(unread as u64);
        bar.set_message("reading turns");
        let (mut before, mut lost) = (0, 0);
        for id in &conversations {
            let extracted = extract_graph(
                (&memory, id),
                &loaded.engine,
                &GraphSettings::default(),
                Some(cancel),
                &mut |done| bar.set_position((before + done) as u64),
            )?;
            before += extracted.turns;
            lost += extracted.lost.len();
        }
        bar.finish_and_clear();
        if lost > 0 {
            output::line(format!("{lost} replies of the model could not be used"));
        }
    }
    let summary = memory.graph_summary()?;
    if args.json {
        return output::json(&serde_json::to_value(summary)?);
    }
    output::line(format!(
        "{unread} turns read now, {} in all: {} entities, {} related pairs; so far {} calls, {} prompt tokens, {} generated tokens",
        summary.turns,
        summary.entities,
        summary.relations,
        summary.cost.calls,
        summary.cost.prompt_tokens,
        summary.cost.generated_tokens,
    ));
    Ok(())
}
