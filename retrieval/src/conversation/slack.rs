//! A Slack export: a zip with `users.json`, `channels.json` (`groups`, `dms`, `mpims`) and a folder per channel with a file per
//! day.
//!
//! `ts` is a message's id and its time, and never goes through a floating-point number. Replies lie in the file of their own
//! day. Joins, topics and the like are left out; what the `root` of a broadcast repeats is not read.

mod markup;

use std::collections::{BTreeMap, HashMap};

use serde::Deserialize;
use serde_json::Value;

use super::chat::{Chat, Heading};
use super::container::Container;
use super::intake::Intake;
use super::json::{Source, for_each, or_default};
use crate::{Moment, RetrievalError, Turn, TurnId};
use markup::{Names, block_text, plain};

const FORMAT: &str = "Slack";
/// Lists of conversations at the top of an export.
const LISTS: [&str; 4] = ["channels.json", "groups.json", "dms.json", "mpims.json"];

/// Whether a zip is a Slack export: it lists channels, and has a folder with a file named like a day.
pub(super) fn is_export(container: &Container) -> bool {
    let Some(names) = container.entries() else {
        return false;
    };
    let names: Vec<&str> = names.collect();
    let root = root(&names);
    root.is_some_and(|root| names.iter().any(|name| day_file(root, name).is_some()))
}

/// The folder in the zip that holds the lists, with its slash.
fn root<'n>(names: &[&'n str]) -> Option<&'n str> {
    names.iter().find_map(|name| {
        LISTS.iter().find_map(|list| {
            let root = name.strip_suffix(list)?;
            (root.is_empty() || root.ends_with('/')).then_some(root)
        })
    })
}

/// The channel's folder and the day of `root/folder/2018-01-20.json`.
fn day_file<'n>(root: &str, name: &'n str) -> Option<(&'n str, &'n str)> {
    let (folder, file) = name.strip_prefix(root)?.split_once('/')?;
    let day = file.strip_suffix(".json")?;
    day.parse::<jiff::civil::Date>().is_ok().then_some((folder, day))
}

pub(super) fn read(container: &mut Container, intake: &mut Intake<'_>) -> Result<(), RetrievalError> {
    let names: Vec<String> = container
        .entries()
        .into_iter()
        .flatten()
        .map(str::to_owned)
        .collect();
    let borrowed: Vec<&str> = names.iter().map(String::as_str).collect();
    let root = root(&borrowed).unwrap_or_default();
    let mut people = HashMap::new();
    let mut channels = HashMap::new();
    // By folder, then by day: a zip's own order says nothing.
    let mut folders: BTreeMap<&str, BTreeMap<&str, usize>> = BTreeMap::new();
    for (index, name) in borrowed.iter().enumerate() {
        if let Some((folder, day)) = day_file(root, name) {
            folders.entry(folder).or_default().insert(day, index);
        } else if name.strip_prefix(root) == Some("users.json") {
            each_of(container, index, |user: User| {
                people.insert(user.id.clone(), user.name());
            })?;
        } else if name.strip_prefix(root).is_some_and(|name| LISTS.contains(&name)) {
            each_of(container, index, |channel: Channel| {
                channels.insert(channel.folder(), channel);
            })?;
        } else {
            intake.skip("files that are no messages", name);
        }
    }
    let names = Names {
        channels: channels
            .values()
            .filter_map(|c| Some((c.id.clone(), c.name.clone()?)))
            .collect(),
        people,
    };
    for (folder, days) in folders {
        let channel = channels.get(folder);
        let id = intake.unique(channel.map_or(folder, |channel| channel.id.as_str()).to_owned());
        if !intake.wants(&id) {
            continue;
        }
        let title = channel.map_or_else(|| folder.to_owned(), |channel| channel.title(&names));
        let heading = Heading {
            id,
            title: Some(title),
            time: None,
        };
        let mut chat = Chat::new(intake, heading);
        for index in days.into_values() {
            let path = container.display(index);
            let source = Source {
                path: &path,
                format: FORMAT,
            };
            for_each(&source, container.read(index)?, |message: Message| {
                message.say(&names, &mut chat, intake)?;
                Ok(true)
            })?;
        }
        chat.finish(intake)?;
    }
    Ok(())
}

fn each_of<T: serde::de::DeserializeOwned>(
    container: &mut Container,
    index: usize,
    mut each: impl FnMut(T),
) -> Result<(), RetrievalError> {
    let path = container.display(index);
    let source = Source {
        path: &path,
        format: FORMAT,
    };
    for_each(&source, container.read(index)?, |element| {
        each(element);
        Ok(true)
    })
}

#[derive(Deserialize)]
struct User {
    id: String,
    #[serde(default, deserialize_with = "or_default")]
    name: String,
    real_name: Option<String>,
    profile: Option<Profile>,
}

#[derive(Deserialize)]
struct Profile {
    display_name: Option<String>,
    real_name: Option<String>,
}

impl User {
    fn name(self) -> String {
        let profile = self
            .profile
            .map(|profile| [profile.display_name, profile.real_name]);
        let names = profile
            .into_iter()
            .flatten()
            .chain([self.real_name, Some(self.name)]);
        names.flatten().find(|name| !name.is_empty()).unwrap_or(self.id)
    }
}

#[derive(Deserialize)]
struct Channel {
    id: String,
    name: Option<String>,
    #[serde(default, deserialize_with = "or_default")]
    members: Vec<String>,
}

impl Channel {
    /// Direct messages have no name and lie in a folder named by id.
    fn folder(&self) -> String {
        self.name.as_ref().unwrap_or(&self.id).clone()
    }

    fn title(&self, names: &Names) -> String {
        match &self.name {
            Some(name) => format!("#{name}"),
            None => {
                let members = self.members.iter().map(|id| names.person(id));
                members.collect::<Vec<_>>().join(", ")
            }
        }
    }
}

#[derive(Deserialize)]
struct Message {
    ts: Option<String>,
    subtype: Option<String>,
    user: Option<String>,
    username: Option<String>,
    bot_id: Option<String>,
    user_profile: Option<Profile>,
    bot_profile: Option<BotProfile>,
    #[serde(default)]
    text: Option<String>,
    #[serde(default)]
    blocks: Option<Vec<Value>>,
    #[serde(default)]
    attachments: Option<Vec<Attachment>>,
}

#[derive(Deserialize)]
struct BotProfile {
    name: Option<String>,
}

#[derive(Deserialize)]
struct Attachment {
    fallback: Option<String>,
    text: Option<String>,
}

impl Message {
    fn say(self, names: &Names, chat: &mut Chat, intake: &mut Intake<'_>) -> Result<(), RetrievalError> {
        let Some(ts) = self.ts.clone() else {
            intake.skip("messages without a time stamp", self.text.unwrap_or_default());
            return Ok(());
        };
        let said = [
            "bot_message",
            "thread_broadcast",
            "reply_broadcast",
            "me_message",
            "file_share",
            "file_comment",
        ];
        if self
            .subtype
            .as_deref()
            .is_some_and(|subtype| !said.contains(&subtype))
        {
            intake.skip("system messages", ts);
            return Ok(());
        }
        let text = self.words(names);
        if text.trim().is_empty() {
            intake.skip("files without words", ts);
            return Ok(());
        }
        chat.say(
            Turn {
                speaker: self.speaker(names),
                text,
                caption: None,
                time: moment(&ts),
                id: TurnId::new(ts),
            },
            intake,
        )
    }

    /// The text, or what only its blocks or attachments hold.
    fn words(&self, names: &Names) -> String {
        let text = plain(self.text.as_deref().unwrap_or_default(), names);
        if !text.trim().is_empty() {
            return text;
        }
        let blocks: String = self
            .blocks
            .iter()
            .flatten()
            .map(|block| block_text(block, names))
            .collect();
        if !blocks.trim().is_empty() {
            return blocks.trim().to_owned();
        }
        let attachments = self.attachments.iter().flatten();
        let texts =
            attachments.filter_map(|attachment| attachment.text.as_ref().or(attachment.fallback.as_ref()));
        texts
            .map(|text| plain(text, names))
            .collect::<Vec<_>>()
            .join("\n")
    }

    /// Bots have no user.
    fn speaker(self, names: &Names) -> String {
        let known = self
            .user
            .as_ref()
            .and_then(|user| names.people.get(user).cloned());
        let profile = self
            .user_profile
            .map(|profile| [profile.display_name, profile.real_name]);
        let bot = self.bot_profile.and_then(|bot| bot.name);
        let names = [known].into_iter().chain(profile.into_iter().flatten());
        let names = names.chain([self.username, bot, self.user, self.bot_id]);
        names
            .flatten()
            .find(|name| !name.is_empty())
            .unwrap_or_else(|| "unknown".into())
    }
}

/// Seconds since 1970 with six decimals, as text.
fn moment(ts: &str) -> Option<Moment> {
    let (seconds, rest) = ts.split_once('.').unwrap_or((ts, "0"));
    let fraction: u32 = format!("{rest:0<6}").get(..6)?.parse().ok()?;
    let micros = seconds
        .parse::<i64>()
        .ok()?
        .checked_mul(1_000_000)?
        .checked_add(i64::from(fraction))?;
    Moment::unix_micros(micros, ts)
}
