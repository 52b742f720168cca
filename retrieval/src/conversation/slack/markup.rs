//! Slack's markup as plain text.

use std::collections::HashMap;

use serde_json::Value;

/// Who and what ids stand for.
pub(super) struct Names {
    pub(super) people: HashMap<String, String>,
    pub(super) channels: HashMap<String, String>,
}

impl Names {
    pub(super) fn person(&self, id: &str) -> String {
        self.people.get(id).cloned().unwrap_or_else(|| id.to_owned())
    }

    fn channel(&self, id: &str) -> String {
        self.channels.get(id).cloned().unwrap_or_else(|| id.to_owned())
    }
}

/// `<@U1>`, `<#C1|name>`, `<!here>`, `<url|label>` and the three escapes undone.
pub(super) fn plain(text: &str, names: &Names) -> String {
    let mut plain = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, after)) = rest.split_once('<') {
        plain.push_str(&unescape(before));
        // A real "<" is escaped: one that is not closed ends the markup.
        let Some((token, after)) = after.split_once('>') else {
            plain.push('<');
            rest = after;
            continue;
        };
        plain.push_str(&unescape(&replace(token, names)));
        rest = after;
    }
    plain.push_str(&unescape(rest));
    plain
}

fn replace(token: &str, names: &Names) -> String {
    let (target, label) = token.split_once('|').map_or((token, None), |(t, l)| (t, Some(l)));
    let label = label.filter(|label| !label.is_empty());
    match (target.chars().next(), target.get(1..)) {
        (Some('@'), Some(id)) => match names.people.get(id) {
            Some(name) => format!("@{name}"),
            None => format!("@{}", label.unwrap_or(id)),
        },
        (Some('#'), Some(id)) => {
            label.map_or_else(|| format!("#{}", names.channel(id)), |label| format!("#{label}"))
        }
        (Some('!'), Some(command)) => label.map_or_else(|| format!("@{command}"), str::to_owned),
        _ => match label {
            Some(label) if label != target => format!("{label} ({target})"),
            _ => target.to_owned(),
        },
    }
}

/// `&amp;` last, so that `&amp;lt;` becomes `&lt;`.
fn unescape(text: &str) -> String {
    text.replace("&lt;", "<")
        .replace("&gt;", ">")
        .replace("&amp;", "&")
}

/// The words of a block, whatever its depth.
pub(super) fn block_text(block: &Value, names: &Names) -> String {
    let field = |name: &str| block.get(name).and_then(Value::as_str).unwrap_or_default();
    match field("type") {
        "text" => field("text").to_owned(),
        "mrkdwn" | "plain_text" => plain(field("text"), names),
        "link" if field("text").is_empty() => field("url").to_owned(),
        "link" => format!("{} ({})", field("text"), field("url")),
        "user" => format!("@{}", names.person(field("user_id"))),
        "channel" => format!("#{}", names.channel(field("channel_id"))),
        "broadcast" => format!("@{}", field("range")),
        "emoji" => format!(":{}:", field("name")),
        kind => {
            let inner = ["text", "elements", "fields"]
                .iter()
                .filter_map(|name| block.get(name));
            let mut text = String::new();
            for value in inner {
                match value.as_array() {
                    Some(parts) => text.extend(parts.iter().map(|part| block_text(part, names))),
                    None => text.push_str(&block_text(value, names)),
                }
            }
            let is_line = kind.starts_with("rich_text_") || matches!(kind, "section" | "header" | "context");
            if is_line && !text.is_empty() && !text.ends_with('\n') {
                text.push('\n');
            }
            text
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn markup_is_undone() {
        let names = Names {
            people: HashMap::from([("U1".into(), "Ann".into())]),
            channels: HashMap::from([("C1".into(), "general".into())]),
        };
        let cases = [
            ("hi <@U1>, see <#C1>", "hi @Ann, see #general"),
            ("<@U2|bob> and <@U3>", "@bob and @U3"),
            ("<#C9|random> <!here> <!subteam^S1|@team>", "#random @here @team"),
            (
                "<https://a.b|label> <https://a.b>",
                "label (https://a.b) https://a.b",
            ),
            ("1 &lt; 2 &amp;&amp; 3 &gt; 2, &amp;lt;", "1 < 2 && 3 > 2, &lt;"),
            ("not < closed", "not < closed"),
        ];
        for (markup, expected) in cases {
            assert_eq!(plain(markup, &names), expected);
        }
    }
}
