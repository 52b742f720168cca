//! ChatGPT's data export: an array of conversations, each a tree of messages.
//!
//! What the user saw last is the path from `current_node` to the root. The order of the map and of children says nothing.
//! Left out: other branches, hidden messages, system and tool messages, tool calls, reasoning, custom instructions.

use std::collections::{HashMap, HashSet};

use serde::Deserialize;
use serde_json::{Number, Value};

use super::chat::{Chat, Heading};
use super::container::Container;
use super::intake::Intake;
use super::json::{Source, for_each, or_default};
use crate::{Moment, RetrievalError, Turn, TurnId};

pub(super) fn read(
    container: &mut Container,
    index: usize,
    intake: &mut Intake<'_>,
) -> Result<(), RetrievalError> {
    let (path, stem) = (container.display(index), container.stem(index));
    let source = Source {
        path: &path,
        format: "ChatGPT",
    };
    for_each(&source, container.read(index)?, |exported: Exported| {
        let id = exported.conversation_id.clone().or_else(|| exported.id.clone());
        let id = intake.unique(id.unwrap_or_else(|| stem.clone()));
        if intake.wants(&id) {
            exported.convert(id, intake)?;
        }
        Ok(true)
    })
}

#[derive(Deserialize)]
struct Exported {
    id: Option<String>,
    conversation_id: Option<String>,
    title: Option<String>,
    create_time: Option<Number>,
    #[serde(default, deserialize_with = "or_default")]
    mapping: serde_json::Map<String, Value>,
    current_node: Option<String>,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct Node {
    message: Option<Message>,
    parent: Option<String>,
    #[serde(deserialize_with = "or_default")]
    children: Vec<String>,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct Message {
    id: Option<String>,
    #[serde(deserialize_with = "or_default")]
    author: Author,
    create_time: Option<Number>,
    #[serde(deserialize_with = "or_default")]
    content: Content,
    weight: Option<f64>,
    #[serde(deserialize_with = "or_default")]
    metadata: Metadata,
    recipient: Option<String>,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct Author {
    #[serde(deserialize_with = "or_default")]
    role: String,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct Content {
    #[serde(deserialize_with = "or_default")]
    content_type: String,
    #[serde(deserialize_with = "or_default")]
    parts: Vec<Value>,
    text: Option<String>,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct Metadata {
    is_visually_hidden_from_conversation: Option<bool>,
}

fn moment(seconds: Option<&Number>) -> Option<Moment> {
    let number = seconds?;
    Moment::unix(number.as_f64()?, number.to_string())
}

impl Exported {
    fn convert(self, id: String, intake: &mut Intake<'_>) -> Result<(), RetrievalError> {
        let heading = Heading {
            id,
            title: self.title,
            time: moment(self.create_time.as_ref()),
        };
        let mut nodes = Vec::with_capacity(self.mapping.len());
        for (name, value) in self.mapping {
            match serde_json::from_value::<Node>(value) {
                Ok(node) => nodes.push((name, node)),
                Err(_) => intake.skip("messages of an unknown shape", &name),
            }
        }
        let path = path(&nodes, self.current_node.as_deref());
        let on_path: HashSet<usize> = path.iter().copied().collect();
        let mut chat = Chat::new(intake, heading);
        for (index, (name, node)) in nodes.iter().enumerate() {
            if !on_path.contains(&index) && node.message.as_ref().is_some_and(Message::is_shown) {
                intake.skip("messages of branches that were given up", name);
            }
        }
        for index in path {
            let (name, node) = &mut nodes[index];
            if let Some(message) = node.message.take() {
                message.say(name, &mut chat, intake)?;
            }
        }
        chat.finish(intake)
    }
}

/// Indices of the nodes from the root to the current one.
fn path(nodes: &[(String, Node)], current: Option<&str>) -> Vec<usize> {
    let place: HashMap<&str, usize> = nodes
        .iter()
        .zip(0..)
        .map(|((name, _), i)| (name.as_str(), i))
        .collect();
    // Some files give the edges one way only.
    let mut parents: Vec<Option<usize>> = nodes
        .iter()
        .map(|(_, node)| place.get(node.parent.as_deref()?).copied())
        .collect();
    for (index, (_, node)) in nodes.iter().enumerate() {
        for child in node.children.iter().filter_map(|child| place.get(child.as_str())) {
            parents[*child].get_or_insert(index);
        }
    }
    let mut next = current
        .and_then(|name| place.get(name).copied())
        .or_else(|| latest_leaf(nodes, &parents));
    let (mut path, mut seen) = (Vec::new(), HashSet::new());
    while let Some(index) = next.filter(|index| seen.insert(*index)) {
        path.push(index);
        next = parents[index];
    }
    path.reverse();
    path
}

/// Without `current_node`, the leaf said last; without times, the last of the file.
fn latest_leaf(nodes: &[(String, Node)], parents: &[Option<usize>]) -> Option<usize> {
    let inner: HashSet<usize> = parents.iter().flatten().copied().collect();
    let time = |index: usize| {
        let message = nodes[index].1.message.as_ref();
        message
            .and_then(|message| message.create_time.as_ref()?.as_f64())
            .unwrap_or(f64::MIN)
    };
    (0..nodes.len())
        .filter(|index| !inner.contains(index))
        .max_by(|a, b| time(*a).total_cmp(&time(*b)).then(a.cmp(b)))
}

impl Message {
    fn is_shown(&self) -> bool {
        self.why_left_out().is_none()
    }

    /// Why the user did not see it as something said, if so.
    fn why_left_out(&self) -> Option<&'static str> {
        let hidden =
            self.metadata.is_visually_hidden_from_conversation == Some(true) || self.weight == Some(0.0);
        Some(
            match (self.author.role.as_str(), self.content.content_type.as_str()) {
                ("system", _) => "system messages",
                ("tool", _) => "tool messages",
                (_, "user_editable_context" | "model_editable_context") => "custom instructions",
                (_, "thoughts" | "reasoning_recap") => "reasoning",
                _ if hidden => "hidden messages",
                _ if self
                    .recipient
                    .as_deref()
                    .is_some_and(|recipient| recipient != "all") =>
                {
                    "tool calls"
                }
                _ => return None,
            },
        )
    }

    fn say(self, node: &str, chat: &mut Chat, intake: &mut Intake<'_>) -> Result<(), RetrievalError> {
        let id = self
            .id
            .as_deref()
            .filter(|id| !id.is_empty())
            .unwrap_or(node)
            .to_owned();
        if let Some(reason) = self.why_left_out() {
            intake.skip(reason, id);
            return Ok(());
        }
        let mut texts: Vec<&str> = self.content.text.as_deref().into_iter().collect();
        for part in &self.content.parts {
            // A transcription has text; pictures and sounds have none.
            match part.as_str().or_else(|| part.get("text")?.as_str()) {
                Some(text) => texts.push(text),
                None => intake.skip("attachments", &id),
            }
        }
        texts.retain(|text| !text.trim().is_empty());
        let text = texts.join("\n");
        if text.is_empty() {
            intake.skip("messages without text", id);
            return Ok(());
        }
        chat.say(
            Turn {
                id: TurnId::new(id),
                speaker: self.author.role,
                text,
                caption: None,
                time: moment(self.create_time.as_ref()),
            },
            intake,
        )
    }
}
