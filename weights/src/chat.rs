//! A model's own chat template, rendered as Hugging Face's `apply_chat_template` renders it.

use std::path::{Path, PathBuf};

use minijinja::syntax::SyntaxConfig;
use minijinja::value::Value;
use minijinja::{Environment, Error, ErrorKind, context};

use crate::error::WeightsError;
use crate::gguf::Gguf;
use crate::tokenizer::{Specials, Tokenizer};

const NAME: &str = "chat";
/// First of the private-use characters that stand in for special tokens spelled out in a message.
const FIRST_STAND_IN: u32 = 0xE000;
const LAST_STAND_IN: u32 = 0xF8FF;

/// A compiled chat template.
#[derive(Debug)]
pub struct ChatTemplate {
    path: PathBuf,
    environment: Environment<'static>,
    bos_token: String,
    eos_token: String,
}

impl ChatTemplate {
    /// The template in a GGUF file (`tokenizer.chat_template`).
    ///
    /// # Errors
    /// There is none, or it does not compile.
    pub fn from_gguf(gguf: &Gguf) -> Result<Self, WeightsError> {
        let source = gguf.string("tokenizer.chat_template")?;
        let tokens = gguf.strings("tokenizer.ggml.tokens")?;
        let named = |key: &str| {
            let id = gguf.u32(key).ok().and_then(|id| usize::try_from(id).ok());
            id.and_then(|id| tokens.get(id))
                .map_or_else(String::new, |&token| token.to_owned())
        };
        let (bos, eos) = (
            named("tokenizer.ggml.bos_token_id"),
            named("tokenizer.ggml.eos_token_id"),
        );
        Self::compile(gguf.path(), source, bos, eos)
    }

    /// The template in a Hugging Face `tokenizer_config.json`.
    ///
    /// # Errors
    /// The file cannot be read, holds no `chat_template`, or the template does not compile.
    pub fn from_tokenizer_config(path: impl AsRef<Path>) -> Result<Self, WeightsError> {
        let path = path.as_ref();
        let fail = |what: String| WeightsError::Template {
            path: path.to_owned(),
            what,
        };
        let json = std::fs::read(path).map_err(WeightsError::io("read", path))?;
        let config: serde_json::Value =
            serde_json::from_slice(&json).map_err(|error| fail(format!("not JSON: {error}")))?;
        let source = config.get("chat_template").and_then(serde_json::Value::as_str);
        let source =
            source.ok_or_else(|| fail("expected a string `chat_template`, received none".to_owned()))?;
        // A token is written as its name or as an object that holds the name.
        let named = |key: &str| {
            let token = config.get(key).map(|token| token.get("content").unwrap_or(token));
            token
                .and_then(serde_json::Value::as_str)
                .unwrap_or_default()
                .to_owned()
        };
        Self::compile(path, source, named("bos_token"), named("eos_token"))
    }

    fn compile(
        path: &Path,
        source: &str,
        bos_token: String,
        eos_token: String,
    ) -> Result<Self, WeightsError> {
        let fail = |error: &Error| WeightsError::Template {
            path: path.to_owned(),
            what: describe(error),
        };
        let mut environment = Environment::new();
        // The settings of `transformers.utils.chat_template_utils`.
        let syntax = SyntaxConfig::builder()
            .trim_blocks(true)
            .lstrip_blocks(true)
            .build();
        environment.set_syntax(syntax.map_err(|error| fail(&error))?);
        environment.set_unknown_method_callback(minijinja_contrib::pycompat::unknown_method_callback);
        environment.add_function("raise_exception", raise_exception);
        environment.add_function("strftime_now", strftime_now);
        environment
            .add_template_owned(NAME, source.to_owned())
            .map_err(|error| fail(&error))?;
        Ok(Self {
            path: path.to_owned(),
            environment,
            bos_token,
            eos_token,
        })
    }

    /// The prompt text for `messages`, each (role, content). With `add_generation_prompt` it ends where the
    /// model's reply begins.
    ///
    /// # Errors
    /// [`WeightsError::Template`]: the template refuses the messages (unknown role, wrong order).
    pub fn render(
        &self,
        messages: &[(&str, &str)],
        add_generation_prompt: bool,
    ) -> Result<String, WeightsError> {
        let fail = |error: Error| WeightsError::Template {
            path: self.path.clone(),
            what: describe(&error),
        };
        let messages: Value = messages
            .iter()
            .map(|&(role, content)| context! { role, content })
            .collect();
        self.environment
            .get_template(NAME)
            .and_then(|template| {
                template.render(context! {
                    messages,
                    add_generation_prompt,
                    bos_token => self.bos_token.as_str(),
                    eos_token => self.eos_token.as_str(),
                })
            })
            .map_err(fail)
    }

    /// Token ids of the rendered prompt. Special tokens come from the template only: one spelled out inside a
    /// message (a user who writes `<|im_end|>`) is encoded as the text it is, so it cannot end a turn.
    ///
    /// # Errors
    /// As [`Self::render`] and [`Tokenizer::encode`].
    pub fn encode(
        &self,
        tokenizer: &Tokenizer,
        messages: &[(&str, &str)],
        add_generation_prompt: bool,
    ) -> Result<Vec<u32>, WeightsError> {
        let spelled: Vec<&str> = tokenizer
            .special_names()
            .filter(|name| messages.iter().any(|(_, content)| content.contains(name)))
            .collect();
        if spelled.is_empty() {
            return tokenizer.encode(&self.render(messages, add_generation_prompt)?, Specials::Parse);
        }
        let stand_ins = self.stand_ins(messages, spelled)?;
        let replaced: Vec<(&str, String)> = messages
            .iter()
            .map(|&(role, content)| {
                let hide = |text: String, (name, hidden): &(&str, String)| text.replace(name, hidden);
                (role, stand_ins.iter().fold(content.to_owned(), hide))
            })
            .collect();
        let replaced: Vec<(&str, &str)> = replaced
            .iter()
            .map(|(role, content)| (*role, content.as_str()))
            .collect();
        let rendered = self.render(&replaced, add_generation_prompt)?;
        tokenizer.encode_around_specials(&rendered, |text| {
            stand_ins
                .iter()
                .fold(text.to_owned(), |text, (name, hidden)| text.replace(hidden, name))
        })
    }

    /// A private-use character for each of `spelled` that no message contains. Longer names come first, so
    /// that a name inside another does not tear it apart.
    fn stand_ins<'a>(
        &self,
        messages: &[(&str, &str)],
        mut spelled: Vec<&'a str>,
    ) -> Result<Vec<(&'a str, String)>, WeightsError> {
        spelled.sort_by_key(|name| std::cmp::Reverse(name.len()));
        let free = (FIRST_STAND_IN..=LAST_STAND_IN)
            .filter_map(char::from_u32)
            .filter(|&character| {
                !messages
                    .iter()
                    .any(|(role, content)| role.contains(character) || content.contains(character))
            });
        let pairs: Vec<_> = spelled.iter().copied().zip(free.map(String::from)).collect();
        if pairs.len() < spelled.len() {
            return Err(WeightsError::Template {
                path: self.path.clone(),
                what: "a message holds special tokens and every private-use character".to_owned(),
            });
        }
        Ok(pairs)
    }
}

fn raise_exception(message: String) -> Result<String, Error> {
    Err(Error::new(ErrorKind::InvalidOperation, message))
}

/// Current local time, in strftime's notation.
fn strftime_now(format: &str) -> Result<String, Error> {
    jiff::fmt::strtime::format(format, &jiff::ZonedDateTime::now())
        .map_err(|error| Error::new(ErrorKind::InvalidOperation, error.to_string()))
}

/// The error with its causes on one line, without the template's source.
fn describe(error: &Error) -> String {
    let mut text = error.to_string();
    let mut cause = std::error::Error::source(error);
    while let Some(next) = cause {
        text.push_str(": ");
        text.push_str(&next.to_string());
        cause = next.source();
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn template(source: &str) -> Result<ChatTemplate, WeightsError> {
        ChatTemplate::compile(Path::new("t.json"), source, "<s>".to_owned(), "</s>".to_owned())
    }

    #[test]
    fn blocks_are_trimmed_and_python_methods_work() {
        let source = "{{ bos_token }}{% for message in messages %}\n  {% if message['role'].startswith('u') %}\n\
                      {{ message.content.strip().upper() }}{{ eos_token }}\n    {% endif %}\n{% endfor %}\
                      {% if add_generation_prompt %}go{% endif %}";
        let template = template(source).unwrap();
        let messages = [("user", " hi "), ("assistant", "no")];
        assert_eq!(template.render(&messages, true).unwrap(), "<s>HI</s>\ngo");
        assert_eq!(template.render(&messages, false).unwrap(), "<s>HI</s>\n");
    }

    #[test]
    fn the_templates_own_objections_are_errors() {
        let source = "{% if messages|length > 1 %}{{ raise_exception('one message, please') }}{% endif %}";
        let refused = template(source)
            .unwrap()
            .render(&[("user", "a"), ("user", "b")], true);
        let refused = refused.unwrap_err().to_string();
        assert!(
            refused.contains("chat template of t.json") && refused.contains("one message, please"),
            "{refused}"
        );
        let broken = template("{% if %}").unwrap_err().to_string();
        assert!(
            broken.contains("chat template of t.json: syntax error"),
            "{broken}"
        );
    }

    #[test]
    fn strftime_now_gives_the_current_year() {
        let rendered = template("{{ strftime_now('%Y') }}")
            .unwrap()
            .render(&[], false)
            .unwrap();
        let year = jiff::ZonedDateTime::now().strftime("%Y").to_string();
        assert_eq!(rendered, year);
    }

    #[test]
    fn a_tokenizer_config_is_read() {
        let folder = tempfile::TempDir::new().unwrap();
        let path = folder.path().join("tokenizer_config.json");
        let config = r#"{"bos_token": {"content": "<b>"}, "eos_token": "<e>",
            "chat_template": "{{ bos_token }}{{ messages[0].content }}{{ eos_token }}"}"#;
        std::fs::write(&path, config).unwrap();
        let template = ChatTemplate::from_tokenizer_config(&path).unwrap();
        assert_eq!(template.render(&[("user", "x")], true).unwrap(), "<b>x<e>");
        std::fs::write(&path, "{}").unwrap();
        let error = ChatTemplate::from_tokenizer_config(&path)
            .unwrap_err()
            .to_string();
        assert!(
            error.contains("expected a string `chat_template`, received none"),
            "{error}"
        );
    }
}
