//! `mneme search`: turns, without a language model.

use anyhow::Result;
use retrieval::{Recall, Retriever, SearchRequest};
use serde_json::json;

use crate::cli::SearchArgs;
use crate::commands::ask::quote;
use crate::{assemble, output};

pub(crate) fn run(args: &SearchArgs) -> Result<()> {
    let folder = assemble::folder(&args.place.memory, args.place.namespace.as_deref())?;
    let searcher = assemble::searcher(assemble::cpu(None)?, &folder, args.conversation.as_deref())?;
    let request = SearchRequest {
        query: args.query.clone(),
        limit: args.limit,
        retriever: Retriever::Hybrid,
    };
    let hits = searcher.search(&request)?;
    if args.json {
        return output::json(&json!({ "query": args.query, "hits": hits }));
    }
    for hit in &hits {
        output::line(format!(
            "{:6.3}  [{}] {}",
            hit.score,
            hit.turn.id,
            quote(&hit.turn)
        ));
    }
    Ok(())
}
