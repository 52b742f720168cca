//! Extraction of the graph view: what turns speak of and how it is related, in the manner of LightRAG (Guo et al., 2024).
//!
//! Turns are cut in time order into parts of a token budget; one model call reads each. What a call tells is stored at
//! once, so that an extraction that was stopped goes on with the turns that are left. A part whose reply cannot be used
//! twice is stored as read, with nothing in it.

use std::sync::atomic::{AtomicBool, Ordering};

use engine_contract::{
    Constraint, Generation, GenerationRequest, LanguageModel, Message, Prompt, Role, Usage,
};
use minijinja::context;
use retrieval::{Entity, Relation, TurnGraph, TurnId, TurnRecord};
use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::excerpts::{Excerpt, excerpt};
use crate::labels::Labels;
use crate::prompts::render;
use crate::reply::{self, ReplyError};
use crate::settings::in_range;
use crate::{AgentError, schema};

const NAME_CHARACTERS: usize = 60;
const KIND_CHARACTERS: usize = 20;
const KEYWORD_CHARACTERS: usize = 60;
const DESCRIPTION_CHARACTERS: usize = 160;

/// Settings of an extraction.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct GraphSettings {
    /// A call shows at most this many estimated tokens of turns, 20 to 8,000; a longer turn is shown alone.
    pub part_tokens: usize,
    /// Entities of a call at most, 1 to 50.
    pub max_entities: usize,
    /// Relations of a call at most, 1 to 50.
    pub max_relations: usize,
    /// Whether relative time words carry their dates in prompts.
    pub time_words: bool,
}

impl Default for GraphSettings {
    fn default() -> Self {
        Self {
            part_tokens: 400,
            max_entities: 12,
            max_relations: 8,
            time_words: true,
        }
    }
}

impl GraphSettings {
    /// Checks every value.
    ///
    /// # Errors
    /// [`AgentError::InvalidSetting`] names the first bad one.
    pub fn validate(&self) -> Result<(), AgentError> {
        in_range("graph.part_tokens", self.part_tokens, 20, 8_000, "20 to 8000")?;
        in_range("graph.max_entities", self.max_entities, 1, 50, "1 to 50")?;
        in_range("graph.max_relations", self.max_relations, 1, 50, "1 to 50")
    }
}

/// What an extraction needs next. Exhaustive on purpose.
#[derive(Debug, Clone, PartialEq)]
pub enum GraphStep {
    /// Ask the model.
    Generate(Box<GenerationRequest>),
    /// Store what these turns tell, and what it cost since the last store.
    Store {
        /// Every turn of the part, also those that tell nothing.
        read: Vec<(TurnId, TurnGraph)>,
        /// Of this part, retries included.
        usage: Usage,
        /// Calls of this part.
        calls: usize,
    },
    /// The end; asking again gives the same.
    Finished(Extracted),
}

/// What a driver gives back.
#[derive(Debug, Clone, PartialEq)]
pub enum GraphEvent {
    /// The model's reply.
    Generated(Generation),
    /// The store took it.
    Stored,
}

/// What became of an extraction.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Extracted {
    /// Turns read.
    pub turns: usize,
    /// Model calls, retries included.
    pub calls: usize,
    /// Why parts were lost: their replies could not be used twice.
    pub lost: Vec<String>,
    /// Tokens and time of all calls together.
    pub usage: Usage,
}

#[derive(Debug)]
enum Phase {
    Generate { retry: Option<String> },
    Store(Vec<(TurnId, TurnGraph)>),
    Done,
}

/// The extraction of a conversation's turns, as a state machine without input or output.
#[derive(Debug)]
pub struct Extraction {
    settings: GraphSettings,
    /// What is still to be read; the first is in front of the model.
    parts: Vec<Vec<TurnRecord>>,
    phase: Phase,
    usage: Usage,
    calls: usize,
    extracted: Extracted,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Reply {
    entities: Vec<EntityReply>,
    relations: Vec<RelationReply>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct EntityReply {
    name: String,
    kind: String,
    description: String,
    excerpt: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RelationReply {
    from: String,
    to: String,
    keywords: String,
    description: String,
    excerpt: String,
}

impl Extraction {
    /// The extraction of these turns of one conversation, in order.
    ///
    /// # Errors
    /// [`AgentError::InvalidSetting`].
    pub fn new(turns: Vec<TurnRecord>, settings: GraphSettings) -> Result<Self, AgentError> {
        settings.validate()?;
        let mut parts: Vec<Vec<TurnRecord>> = Vec::new();
        let mut used = usize::MAX;
        for turn in turns {
            let tokens = turn.text.chars().count() / 4 + 10;
            let same = parts
                .last()
                .and_then(|part| part.last())
                .is_some_and(|last| last.session == turn.session);
            match parts.last_mut() {
                Some(part) if same && used.saturating_add(tokens) <= settings.part_tokens => part.push(turn),
                _ => {
                    parts.push(vec![turn]);
                    used = 0;
                }
            }
            used += tokens;
        }
        parts.reverse();
        let phase = if parts.is_empty() {
            Phase::Done
        } else {
            Phase::Generate { retry: None }
        };
        Ok(Self {
            settings,
            parts,
            phase,
            usage: Usage::zero(),
            calls: 0,
            extracted: Extracted {
                usage: Usage::zero(),
                ..Extracted::default()
            },
        })
    }

    /// What is needed now; changes nothing.
    #[must_use]
    pub fn next_step(&self) -> GraphStep {
        match &self.phase {
            Phase::Generate { retry } => GraphStep::Generate(Box::new(self.prompt(retry.as_deref()))),
            Phase::Store(read) => GraphStep::Store {
                read: read.clone(),
                usage: self.usage,
                calls: self.calls,
            },
            Phase::Done => GraphStep::Finished(self.extracted.clone()),
        }
    }

    /// Takes in what the current step asked for.
    ///
    /// # Errors
    /// [`AgentError::UnexpectedEvent`] when the event belongs to another kind of step; nothing is changed.
    pub fn on_event(&mut self, event: GraphEvent) -> Result<(), AgentError> {
        let unexpected = |expected, received| Err(AgentError::UnexpectedEvent { expected, received });
        match (&self.phase, event) {
            (Phase::Generate { retry }, GraphEvent::Generated(generation)) => {
                let again = retry.is_some();
                self.usage.add(&generation.usage);
                self.calls += 1;
                self.phase = match self.parse(&generation) {
                    Ok(read) => Phase::Store(read),
                    Err(error) if !again => Phase::Generate {
                        retry: Some(error.to_string()),
                    },
                    Err(error) => {
                        self.extracted.lost.push(error.to_string());
                        Phase::Store(self.nothing())
                    }
                };
                Ok(())
            }
            (Phase::Store(read), GraphEvent::Stored) => {
                self.extracted.turns += read.len();
                self.extracted.calls += std::mem::take(&mut self.calls);
                self.extracted.usage.add(&self.usage);
                self.usage = Usage::zero();
                self.parts.pop();
                self.phase = if self.parts.is_empty() {
                    Phase::Done
                } else {
                    Phase::Generate { retry: None }
                };
                Ok(())
            }
            (Phase::Generate { .. }, GraphEvent::Stored) => unexpected("Generated", "Stored"),
            (Phase::Store(_), GraphEvent::Generated(_)) => unexpected("Stored", "Generated"),
            (Phase::Done, GraphEvent::Generated(_)) => unexpected("nothing", "Generated"),
            (Phase::Done, GraphEvent::Stored) => unexpected("nothing", "Stored"),
        }
    }

    fn part(&self) -> &[TurnRecord] {
        self.parts.last().map_or(&[], Vec::as_slice)
    }

    fn nothing(&self) -> Vec<(TurnId, TurnGraph)> {
        self.part()
            .iter()
            .map(|turn| (turn.id.clone(), TurnGraph::default()))
            .collect()
    }

    fn labels(&self) -> Vec<String> {
        let mut labels = Labels::default();
        self.part().iter().map(|turn| labels.assign(turn)).collect()
    }

    fn prompt(&self, retry: Option<&str>) -> GenerationRequest {
        let settings = &self.settings;
        let labels = self.labels();
        let shown = self.part().iter().zip(&labels);
        let excerpts: Vec<Excerpt> = shown
            .map(|(turn, label)| excerpt(turn, label.clone(), settings.time_words).0)
            .collect();
        let (entities, relations) = (settings.max_entities, settings.max_relations);
        let mut parts = vec![render("graph.md", context! { excerpts, entities, relations })];
        let mut max_tokens = 40 + 60 * (entities + relations);
        if let Some(reason) = retry {
            parts.push(render("retry.md", context! { reason }));
            max_tokens *= 2;
        }
        let system = Message::new(Role::System, render("graph_system.md", context! {}));
        let user = Message {
            role: Role::User,
            parts,
        };
        let mut request = GenerationRequest::new(Prompt::Chat(vec![system, user]), max_tokens);
        request.constraint = Constraint::JsonSchema(self.schema(&labels));
        request
    }

    fn schema(&self, labels: &[String]) -> serde_json::Value {
        let name = || schema::text(1, NAME_CHARACTERS);
        let description = || ("description", schema::text(1, DESCRIPTION_CHARACTERS));
        let excerpt = || ("excerpt", json!({"type": "string", "enum": labels}));
        let entity = schema::object([
            ("name", name()),
            ("kind", schema::text(1, KIND_CHARACTERS)),
            description(),
            excerpt(),
        ]);
        let relation = schema::object([
            ("from", name()),
            ("to", name()),
            ("keywords", schema::text(1, KEYWORD_CHARACTERS)),
            description(),
            excerpt(),
        ]);
        let list =
            |items, most: usize| json!({"type": "array", "items": items, "minItems": 0, "maxItems": most});
        schema::object([
            ("entities", list(entity, self.settings.max_entities)),
            ("relations", list(relation, self.settings.max_relations)),
        ])
    }

    fn parse(&self, generation: &Generation) -> Result<Vec<(TurnId, TurnGraph)>, ReplyError> {
        let reply: Reply = reply::read(generation)?;
        let labels = self.labels();
        let mut read = self.nothing();
        for entity in reply.entities {
            let place = reply::positions(&[entity.excerpt], &labels)?[0];
            read[place].1.entities.push(Entity {
                name: limited("name", entity.name, NAME_CHARACTERS)?,
                kind: limited("kind", entity.kind, KIND_CHARACTERS)?,
                description: limited("description", entity.description, DESCRIPTION_CHARACTERS)?,
            });
        }
        for relation in reply.relations {
            let place = reply::positions(&[relation.excerpt], &labels)?[0];
            read[place].1.relations.push(Relation {
                from: limited("from", relation.from, NAME_CHARACTERS)?,
                to: limited("to", relation.to, NAME_CHARACTERS)?,
                keywords: limited("keywords", relation.keywords, KEYWORD_CHARACTERS)?,
                description: limited("description", relation.description, DESCRIPTION_CHARACTERS)?,
            });
        }
        Ok(read)
    }
}

fn limited(field: &'static str, text: String, characters: usize) -> Result<String, ReplyError> {
    reply::within(field, &text, characters)?;
    Ok(text.trim().to_owned())
}

/// Reads the turns of a conversation that were not read yet, and stores what they tell part by part. Returns what became
/// of it; after a cancel or an error the next call goes on with what is left.
///
/// # Errors
/// [`AgentError::InvalidSetting`], [`AgentError::Cancelled`], and the first failure of the store or the model.
pub fn extract_graph(
    (memory, conversation): (&retrieval::Memory, &retrieval::ConversationId),
    model: &dyn LanguageModel,
    settings: &GraphSettings,
    cancel: Option<&AtomicBool>,
    progress: &mut dyn FnMut(usize),
) -> Result<Extracted, AgentError> {
    let mut extraction = Extraction::new(memory.unread_turns(conversation)?, settings.clone())?;
    let mut done = 0;
    loop {
        if cancel.is_some_and(|flag| flag.load(Ordering::Relaxed)) {
            return Err(AgentError::Cancelled);
        }
        let event = match extraction.next_step() {
            GraphStep::Generate(request) => GraphEvent::Generated(model.generate(*request)?),
            GraphStep::Store { read, usage, calls } => {
                let cost = retrieval::GraphCost {
                    calls,
                    prompt_tokens: usage.prompt_tokens,
                    generated_tokens: usage.generated_tokens,
                };
                memory.put_graph(conversation, &read, cost)?;
                done += read.len();
                progress(done);
                GraphEvent::Stored
            }
            GraphStep::Finished(extracted) => return Ok(extracted),
        };
        extraction.on_event(event)?;
    }
}

#[cfg(test)]
mod tests;
