//! Conversations with assistants.

use super::*;

/// A branch given up, hidden and empty nodes, tool traffic, and edges that `children` alone knows.
const CHATGPT: &str = r#"[{"title": "Boats", "create_time": 1700000000.25, "update_time": 1.7e9, "conversation_id": "c-1",
 "current_node": "n7",
 "mapping": {
  "n7": {"id": "n7", "parent": "n6", "children": [], "message": {"id": "n7", "author": {"role": "assistant"}, "create_time": null,
     "content": {"content_type": "text", "parts": ["It is", " ", "red."]}, "weight": 1.0, "recipient": "all", "metadata": {}}},
  "root": {"id": "root", "message": null, "parent": null, "children": ["n1"]},
  "n1": {"id": "n1", "parent": "root", "children": ["n2"], "message": {"id": "n1", "author": {"role": "system"},
     "content": {"content_type": "text", "parts": [""]}, "weight": 0, "metadata": {"is_visually_hidden_from_conversation": true}}},
  "n2": {"id": "n2", "parent": "n1", "children": ["n3"], "message": {"id": "n2", "author": {"role": "user"},
     "content": {"content_type": "user_editable_context", "user_profile": "I sail", "user_instructions": "Be short"}}},
  "n3": {"id": "n3", "parent": "n2", "children": ["n4", "old"], "message": {"id": "n3", "author": {"role": "user"}, "create_time": 1700000000.5,
     "content": {"content_type": "multimodal_text", "parts": [{"content_type": "image_asset_pointer", "asset_pointer": "x"}, "Which colour?"]}}},
  "old": {"id": "old", "parent": "n3", "children": null, "message": {"id": "old", "author": {"role": "assistant"}, "create_time": 1900000000, "metadata": null, "weight": null,
     "content": {"content_type": "text", "parts": ["Blue."]}, "recipient": "all"}},
  "n4": {"id": "n4", "children": ["n5"], "message": {"id": "n4", "author": {"role": "assistant"},
     "content": {"content_type": "thoughts", "thoughts": []}}},
  "n5": {"id": "n5", "parent": "n4", "children": ["n6"], "message": {"id": "n5", "author": {"role": "assistant"}, "recipient": "python",
     "content": {"content_type": "code", "text": "print(1)"}}},
  "n6": {"id": "n6", "parent": "n5", "children": ["n7"], "message": {"id": "n6", "author": {"role": "tool", "name": "python"},
     "content": {"content_type": "execution_output", "text": "1"}}}
 }},
 {"id": "c-2", "title": "", "create_time": null, "mapping": {
  "a": {"message": {"author": {"role": "user"}, "create_time": 1700100000, "content": {"content_type": "text", "parts": ["Hi"]}}},
  "b": {"parent": "a", "message": {"author": {"role": "assistant"}, "create_time": 1700200000, "content": {"content_type": "text", "parts": ["Hello"]}}},
  "c": {"parent": "a", "message": {"author": {"role": "assistant"}, "create_time": 1700150000, "content": {"content_type": "text", "parts": ["Hey"]}}}
 }}]"#;

#[test]
fn chatgpt_is_the_path_to_the_current_node() {
    let (text, skipped) = told("x", CHATGPT, &ReadOptions::default());
    assert_eq!(
        text,
        "\
# c-1 (Boats)
## 2023-11-14 2023-11-14T22:13:20.25Z [1700000000.25]
n3 2023-11-14T22:13:20.5Z [1700000000.5] user: Which colour?
n7 - assistant: It is\nred.
# c-2
## 2023-11-16 2023-11-16T02:00:00Z [1700100000]
a 2023-11-16T02:00:00Z [1700100000] user: Hi
## 2023-11-17 2023-11-17T05:46:40Z [1700200000]
b 2023-11-17T05:46:40Z [1700200000] assistant: Hello
"
    );
    assert_eq!(
        skipped,
        [
            "1 attachments: n3",
            "1 custom instructions: n2",
            "2 messages of branches that were given up: old",
            "1 reasoning: n4",
            "1 system messages: n1",
            "1 tool calls: n5",
            "1 tool messages: n6",
        ]
    );
}

#[test]
fn chatgpt_as_one_object_and_with_a_circle() {
    let one = r#"{"id": "c", "current_node": "a", "mapping": {
        "a": {"parent": "b", "message": {"author": {"role": "user"}, "content": {"content_type": "text", "parts": ["x"]}}},
        "b": {"parent": "a", "message": {"author": {"role": "user"}, "content": {"content_type": "text", "parts": ["y"]}}}}}"#;
    let (text, _) = told("x", one, &ReadOptions::default());
    assert_eq!(text, "# c\n## 1 -\nb - user: y\na - user: x\n");
}

const CLAUDE: &str = r#"[{"uuid": "k1", "name": "", "created_at": "2024-01-02T03:04:05.678901Z", "updated_at": "x", "account": {"uuid": "a"},
 "chat_messages": [
  {"uuid": "m1", "text": "Both", "content": [{"type": "text", "text": "Both"}], "sender": "human", "created_at": "2024-01-02T03:04:05.678901Z",
   "attachments": [{"file_name": "notes.txt", "file_size": 3, "file_type": "txt", "extracted_content": "The attached words."}], "files": [{"file_name": "a.png"}]},
  {"uuid": "m2", "text": "", "content": [{"type": "thinking", "thinking": "hm"}, {"type": "text", "text": "Only"}, {"type": "tool_use", "name": "f", "input": {}},
    {"type": "text", "text": "blocks"}, {"type": "token_budget"}], "sender": "assistant", "created_at": "2024-01-02T03:04:06Z", "attachments": [], "files": []},
  {"uuid": "m3", "text": "noise", "content": [{"type": "tool_result", "content": [{"type": "image", "source": {"data": "aaaa"}}]}], "sender": "human", "created_at": "2024-01-02T03:04:07Z"},
  {"uuid": "m4", "text": "Only text", "sender": "human", "created_at": "2024-01-03T00:00:00Z"},
  {"uuid": "m5", "content": [], "sender": "assistant"}
 ]},
 {"uuid": "k2", "name": "Empty", "chat_messages": []}]"#;

#[test]
fn claude_says_nothing_twice() {
    let (text, skipped) = told("x", CLAUDE, &ReadOptions::default());
    assert_eq!(
        text,
        "\
# k1
## 2024-01-02 2024-01-02T03:04:05.678901Z
m1 2024-01-02T03:04:05.678901Z human: Both
m1/1 2024-01-02T03:04:05.678901Z human: [notes.txt]\nThe attached words.
m2 2024-01-02T03:04:06Z assistant: Only\nblocks
## 2024-01-03 2024-01-03T00:00:00Z
m4 2024-01-03T00:00:00Z human: Only text
"
    );
    assert_eq!(
        skipped,
        [
            "1 attachments: m1",
            "1 blocks of an unknown type: m2",
            "1 conversations without a turn: k2",
            "1 messages without text: m5",
            "1 reasoning: m2",
            "2 tool calls and results: m2",
        ]
    );
}

const OPENAI: &str = r#"{"messages": [{"role": "system", "content": "Be kind."}, {"role": "user", "content": "Hi"}, {"role": "assistant", "content": null, "tool_calls": [{"id": "1"}]}, {"role": "tool", "content": "42"}, {"role": "assistant", "content": [{"type": "text", "text": "Hello"}, {"type": "image_url", "image_url": {"url": "u"}}]}]}

{"messages": [{"role": "developer", "content": "x"}]}
{"id": "named", "messages": [{"role": "user", "name": "Ann", "content": "Yo"}, {"role": "assistant", "content": ""}]}
"#;

#[test]
fn openai_messages_have_no_dates_but_the_callers() {
    let expected = |time: &str| {
        format!(
            "# toy:1\n## 1 {time}\n2 - user: Hi\n5 - assistant: Hello\n# named\n## 1 {time}\n1 - Ann: Yo\n"
        )
    };
    let (text, skipped) = told("toy.jsonl", OPENAI, &ReadOptions::default());
    assert_eq!(text, expected("-"));
    assert_eq!(
        skipped,
        [
            "1 attachments: 5",
            "1 conversations without a turn: toy:2",
            "1 messages without text: 2",
            "2 system messages: 1",
            "1 tool calls: 3",
            "1 tool messages: 4",
        ]
    );
    let dated = ReadOptions {
        date: Some(date(2024, 5, 6).at(0, 0, 0, 0)),
        ..ReadOptions::default()
    };
    assert_eq!(
        told("toy.jsonl", OPENAI, &dated).0,
        expected("2024-05-06T00:00:00")
    );
    let renamed = ReadOptions {
        name: Some("mine".into()),
        ..ReadOptions::default()
    };
    assert!(told("toy.jsonl", OPENAI, &renamed).0.starts_with("# mine:1\n"));
    refused(OPENAI.replace("\"Yo\"}", "\"Yo\""), "line 4: ");
    let pretty = "{\n \"messages\": [\n  {\"role\": \"user\", \"content\": \"Hi\"}\n ]\n}\n";
    assert!(told("p", pretty, &ReadOptions::default()).0.contains("user: Hi"));
}

const SHAREGPT: &str = r#"[{"id": "s_0", "conversations": [{"from": "gpt", "value": "Go on."}, {"from": "human", "value": "<p>One &amp; two</p>"},
   {"from": "function_call", "value": "{}"}, {"from": "observation", "value": "x"}, {"from": "chatgpt", "value": " "}], "system": "You are", "tools": "[]"},
 {"id": "s_0", "conversations": [{"from": "user", "value": "again"}]},
 {"conversations": [{"from": "system", "value": "x"}, {"from": "bing", "value": "b"}]}]"#;

#[test]
fn sharegpt_as_array_or_lines() {
    let (text, skipped) = told("share.json", SHAREGPT, &ReadOptions::default());
    let expected = "\
# s_0
## 1 -
1 - gpt: Go on.
2 - human: One & two
# s_0#2
## 1 -
1 - user: again
# share:3
## 1 -
2 - bing: b
";
    assert_eq!(text, expected);
    assert_eq!(
        skipped,
        [
            "1 messages without text: 5",
            "2 system messages: system",
            "2 tool calls and results: 3"
        ]
    );
    let records: Vec<serde_json::Value> = serde_json::from_str(SHAREGPT).unwrap();
    let lines: Vec<String> = records.iter().map(ToString::to_string).collect();
    assert_eq!(
        told("share.json", lines.join("\n"), &ReadOptions::default()).0,
        expected
    );
}

#[test]
fn one_sample_of_every_format() {
    let wanted = |id: &str| ReadOptions {
        sample: Some(id.into()),
        ..ReadOptions::default()
    };
    for (content, id) in [
        (CHATGPT, "c-2"),
        (CLAUDE, "k1"),
        (OPENAI, "named"),
        (SHAREGPT, "s_0#2"),
    ] {
        let (text, _) = told("x", content, &wanted(id));
        assert_eq!(
            text.matches("\n#").count() + 1,
            1 + text.matches("\n## ").count(),
            "{text}"
        );
        assert!(text.starts_with(&format!("# {id}")), "{text}");
    }
}

#[test]
fn near_misses_are_named() {
    refused(
        r#"[{"type": "message", "ts": "1.0", "text": "x"}]"#,
        "give the whole zip of the export",
    );
    refused(
        r#"{"participants": [], "messages": []}"#,
        "a Facebook or Instagram chat",
    );
    refused(
        r#"[{"ID": 1, "Timestamp": "x", "Contents": "y"}]"#,
        "Discord's own data package",
    );
    refused(r#"[{"role": "user", "content": "x"}]"#, "a bare list of messages");
    refused(
        "just some prose",
        "expected one of mneme JSONL, ChatGPT export, Claude export, WhatsApp text, Slack export zip, Telegram JSON, \
         DiscordChatExporter JSON, ShareGPT JSON, OpenAI messages, LoCoMo JSON, LongMemEval JSON",
    );
}
