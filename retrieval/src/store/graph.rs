//! The graph view: entities and relations that turns speak of, in the manner of LightRAG (Guo et al., 2024).
//!
//! Keys of the database `graph`, numbers big endian:
//!
//! | key | value |
//! | --- | --- |
//! | `t`, turn number | the turn's [`TurnGraph`] as JSON: it was read, whatever it holds |
//! | `e`, entity, 0, turn number | what the turn says of the entity: kind and description |
//! | `r`, entity, 0, other entity, 0, turn number | what the turn says of how the two are related; both ways |
//! | `c` | tokens that reading has cost |
//!
//! Entities are named by [`normalised`] names. Everything rests on turns: what a deleted or edited turn alone told goes
//! with it, and the turn is read again.

use std::collections::BTreeSet;

use heed::types::Bytes;
use heed::{Database, RwTxn};
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::databases::Databases;
use super::{Memory, Reading};
use crate::text::Analyzer;
use crate::{ConversationId, RetrievalError, TurnId, TurnRecord};

/// Somebody or something that a turn speaks of.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Entity {
    /// As the turn spells it.
    pub name: String,
    /// Person, place, …
    pub kind: String,
    /// What the turn says of it.
    pub description: String,
}

/// How two entities are related.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Relation {
    /// One of them.
    pub from: String,
    /// The other.
    pub to: String,
    /// Words under which the relation may be looked for.
    pub keywords: String,
    /// What the turn says.
    pub description: String,
}

/// What was read in one turn.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct TurnGraph {
    /// In the turn's order.
    pub entities: Vec<Entity>,
    /// In the turn's order; both ends are entities, listed or not.
    pub relations: Vec<Relation>,
}

/// Tokens that reading turns has cost.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct GraphCost {
    /// Calls of the model.
    pub calls: usize,
    /// Tokens of prompts.
    pub prompt_tokens: usize,
    /// Tokens generated.
    pub generated_tokens: usize,
}

/// What a graph holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
pub struct GraphSummary {
    /// Turns that were read.
    pub turns: usize,
    /// Distinct entities.
    pub entities: usize,
    /// Distinct pairs of related entities.
    pub relations: usize,
    /// Over all runs.
    pub cost: GraphCost,
}

const TURN: u8 = b't';
const ENTITY: u8 = b'e';
const RELATION: u8 = b'r';
const COST: &[u8] = b"c";
/// LMDB keys are at most 511 bytes; a relation has two names.
const NAME_BYTES: usize = 200;

type Graph = Database<'static, Bytes, Bytes>;

/// A name by which different spellings of one entity meet: lower case, no accents, no articles, no possessive ending.
/// Empty when nothing is left.
pub(crate) fn normalised(analyzer: &Analyzer, name: &str) -> String {
    let mut words = analyzer.words(name);
    let article = |word: &str| matches!(word, "the" | "a" | "an" | "s");
    if words.iter().any(|word| !article(word)) {
        words.retain(|word| !article(word));
    }
    let mut name = words.join(" ");
    let mut end = name.len().min(NAME_BYTES);
    while !name.is_char_boundary(end) {
        end -= 1;
    }
    name.truncate(end);
    name
}

fn key(kind: u8, names: &[&str], turn: u32) -> Vec<u8> {
    let mut key = vec![kind];
    for name in names {
        key.extend_from_slice(name.as_bytes());
        key.push(0);
    }
    key.extend(turn.to_be_bytes());
    key
}

/// The keys of what a turn's graph puts beside it, with their values.
fn entries(analyzer: &Analyzer, turn: u32, graph: &TurnGraph) -> Vec<(Vec<u8>, serde_json::Value)> {
    let name = |name: &str| normalised(analyzer, name);
    let entities = graph.entities.iter().map(|entity| {
        let value = json!({"kind": entity.kind, "description": entity.description});
        (key(ENTITY, &[&name(&entity.name)], turn), value)
    });
    let relations = graph.relations.iter().flat_map(|relation| {
        let (from, to) = (name(&relation.from), name(&relation.to));
        let value = json!({"keywords": relation.keywords, "description": relation.description});
        [
            (key(RELATION, &[&from, &to], turn), value.clone()),
            (key(RELATION, &[&to, &from], turn), value),
        ]
    });
    entities.chain(relations).collect()
}

/// Removes all that rests on a turn.
pub(super) fn forget(
    database: Graph,
    txn: &mut RwTxn<'_>,
    analyzer: &Analyzer,
    turn: u32,
) -> Result<(), RetrievalError> {
    let own = key(TURN, &[], turn);
    let Some(bytes) = database.get(txn, &own)? else {
        return Ok(());
    };
    let graph: TurnGraph = parse(bytes)?;
    for (key, _) in entries(analyzer, turn, &graph) {
        database.delete(txn, &key)?;
    }
    database.delete(txn, &own)?;
    Ok(())
}

fn parse<'a, T: Deserialize<'a>>(bytes: &'a [u8]) -> Result<T, RetrievalError> {
    serde_json::from_slice(bytes).map_err(|error| RetrievalError::Damaged {
        reason: format!("a record of the graph cannot be read: {error}"),
    })
}

fn put(
    databases: Databases,
    txn: &mut RwTxn<'_>,
    key: &[u8],
    value: &impl Serialize,
) -> Result<(), RetrievalError> {
    let bytes = serde_json::to_vec(value).map_err(|error| heed::Error::Encoding(error.into()))?;
    Ok(databases.graph.put(txn, key, &bytes)?)
}

impl Memory {
    /// The turns of a conversation that were not read for the graph yet, in order.
    ///
    /// # Errors
    /// [`RetrievalError::UnknownConversation`], or when the store cannot be read.
    pub fn unread_turns(&self, conversation: &ConversationId) -> Result<Vec<TurnRecord>, RetrievalError> {
        let turns = self.turns(conversation)?;
        self.read(|reading| {
            let (number, _) = reading.conversation(conversation)?;
            let mut unread = Vec::new();
            for turn in turns {
                let Some(turn_number) = reading.turn_number(number, &turn.id)? else {
                    continue;
                };
                let known = reading
                    .databases
                    .graph
                    .get(reading.txn, &key(TURN, &[], turn_number))?;
                if known.is_none() {
                    unread.push(turn);
                }
            }
            Ok(unread)
        })
    }

    /// Stores what was read in turns of a conversation, in place of what was read in them before, and adds to the cost; all
    /// in one transaction. Turns that are gone meanwhile are passed over. Entities and relations without a name are left out.
    ///
    /// # Errors
    /// [`RetrievalError::UnknownConversation`], or when the store cannot be written.
    pub fn put_graph(
        &self,
        conversation: &ConversationId,
        read: &[(TurnId, TurnGraph)],
        cost: GraphCost,
    ) -> Result<(), RetrievalError> {
        let number = self.read(|reading| Ok(reading.conversation(conversation)?.0))?;
        let (databases, analyzer) = (self.inner.databases, self.analyzer());
        self.inner.environment.write(|txn| {
            for (id, graph) in read {
                let id = super::databases::id_key(number, id.as_str());
                let Some(turn) = databases.turn_ids.get(txn, &id)? else {
                    continue;
                };
                forget(databases.graph, txn, analyzer, turn)?;
                let named = |name: &String| !normalised(analyzer, name).is_empty();
                let graph = TurnGraph {
                    entities: graph
                        .entities
                        .iter()
                        .filter(|e| named(&e.name))
                        .cloned()
                        .collect(),
                    relations: graph
                        .relations
                        .iter()
                        .filter(|r| named(&r.from) && named(&r.to))
                        .cloned()
                        .collect(),
                };
                for (key, value) in entries(analyzer, turn, &graph) {
                    put(databases, txn, &key, &value)?;
                }
                put(databases, txn, &key(TURN, &[], turn), &graph)?;
            }
            let before: GraphCost = match databases.graph.get(txn, COST)? {
                Some(bytes) => parse(bytes)?,
                None => GraphCost::default(),
            };
            let sum = GraphCost {
                calls: before.calls + cost.calls,
                prompt_tokens: before.prompt_tokens + cost.prompt_tokens,
                generated_tokens: before.generated_tokens + cost.generated_tokens,
            };
            put(databases, txn, COST, &sum)
        })
    }

    /// Counts what the graph holds.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub fn graph_summary(&self) -> Result<GraphSummary, RetrievalError> {
        self.read(|reading| {
            let mut summary = GraphSummary::default();
            let (mut entities, mut pairs) = (BTreeSet::new(), BTreeSet::new());
            for entry in reading.databases.graph.iter(reading.txn)? {
                let (key, bytes) = entry?;
                match key {
                    [TURN, ..] => summary.turns += 1,
                    [ENTITY, name @ .., _, _, _, _] => {
                        entities.insert(name.to_vec());
                    }
                    [RELATION, names @ .., _, _, _, _] => {
                        let mut two = names.split(|byte| *byte == 0);
                        let (a, b) = (two.next().unwrap_or_default(), two.next().unwrap_or_default());
                        pairs.insert((a.min(b).to_vec(), a.max(b).to_vec()));
                    }
                    _ => summary.cost = parse(bytes)?,
                }
            }
            (summary.entities, summary.relations) = (entities.len(), pairs.len());
            Ok(summary)
        })
    }
}

impl Reading<'_> {
    /// Calls `each` with every turn that was read and what was read in it.
    pub(crate) fn each_graph(&self, mut each: impl FnMut(u32, TurnGraph)) -> Result<(), RetrievalError> {
        for entry in self.databases.graph.prefix_iter(self.txn, &[TURN])? {
            let (key, bytes) = entry?;
            if let Some(turn) = key.last_chunk() {
                each(u32::from_be_bytes(*turn), parse(bytes)?);
            }
        }
        Ok(())
    }
}
