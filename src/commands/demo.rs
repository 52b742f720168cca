//! `mneme demo`: from nothing to an answered question.

use std::fs;

use anyhow::{Context, Result};
use retrieval::read_conversations;
use weights::ModelStore;

use crate::cli::{AskArgs, DEFAULT_EMBEDDER, DemoArgs, Method, Place};
use crate::commands::{ask, ingest, models};
use crate::{assemble, output};

/// Our own sample conversation; see data/sample/README.md.
const SAMPLE: &str = include_str!("../../data/sample/two-friends.jsonl");
/// A question of data/sample/questions.json.
const QUESTION: &str = "What is Tamsin's profession?";

pub(crate) fn run(args: DemoArgs, quiet: bool) -> Result<()> {
    let store = ModelStore::from_env()?;
    for name in [DEFAULT_EMBEDDER, args.model.model.as_str()] {
        if store.locate(name).is_err() {
            models::pull(&store, name, quiet)?;
        }
    }
    let folder = store.folder().with_file_name("demo");
    fs::create_dir_all(&folder).with_context(|| format!("cannot create {}", folder.display()))?;
    let file = folder.join("two-friends.jsonl");
    fs::write(&file, SAMPLE).with_context(|| format!("cannot write {}", file.display()))?;
    let memory = args.memory.unwrap_or_else(|| folder.join("memory"));

    let conversations = read_conversations(&file, None)?;
    let embedder = assemble::embedder(assemble::cpu(args.model.threads)?, DEFAULT_EMBEDDER)?;
    ingest::into_memory(&memory, &conversations, &*embedder, quiet)?;
    drop(embedder);

    let question = args.question.unwrap_or_else(|| QUESTION.to_owned());
    for conversation in &conversations {
        let speakers: std::collections::BTreeSet<&str> = conversation
            .sessions
            .iter()
            .flat_map(|s| &s.turns)
            .map(|t| t.speaker.as_str())
            .collect();
        output::line(format!(
            "A conversation of {} turns in {} sessions between {}.",
            conversation.sessions.iter().map(|s| s.turns.len()).sum::<usize>(),
            conversation.sessions.len(),
            speakers.into_iter().collect::<Vec<_>>().join(" and "),
        ));
    }
    output::line(format!("Question: {question}"));
    ask::run(
        &AskArgs {
            questions: vec![question],
            place: Place {
                memory,
                namespace: None,
            },
            conversation: None,
            method: Method::Memcot,
            max_iterations: None,
            window: None,
            top_k: None,
            no_abstain: false,
            question_date: None,
            trace: None,
            json: false,
            model: args.model,
        },
        quiet,
    )
}
