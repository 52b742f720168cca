//! Conversations between people.

use super::*;

#[track_caller]
fn whatsapp(content: &str) -> (String, Vec<String>) {
    told("Ann.txt", content, &ReadOptions::default())
}

const ANDROID: &str =
    "12/13/20, 11:58\u{202f}PM - Messages and calls are end-to-end encrypted. Tap to learn more.
12/13/20, 11:58\u{202f}PM - Ann created group \"Trip: Rome\"
12/13/20, 11:58\u{202f}PM - Ann: Who left the door open? Ben added: nothing
  second line

third
12/13/20, 11:58\u{202f}PM - +49 170 1234567: <Media omitted>
12/14/20, 12:01\u{202f}AM - Ben: \u{2068}@Ann\u{2069} look 👩\u{200d}🚀: there
12/14/20, 12:01\u{202f}AM - Ann: \u{200e}IMG-1.jpg (file attached)
The caption
12/13/20, 11:59\u{202f}PM - Ann: late
";

#[test]
fn whatsapp_of_an_android_phone() {
    let (text, skipped) = whatsapp(ANDROID);
    assert_eq!(
        text,
        "\
# Ann
## 2020-12-13 2020-12-13T23:58:00 [12/13/20, 11:58\u{202f}PM]
2020-12-13T23:58:00#3 2020-12-13T23:58:00 [12/13/20, 11:58\u{202f}PM] Ann: Who left the door open? Ben added: nothing
  second line

third
2020-12-13T23:59:00#1 2020-12-13T23:59:00 [12/13/20, 11:59\u{202f}PM] Ann: late
## 2020-12-14 2020-12-14T00:01:00 [12/14/20, 12:01\u{202f}AM]
2020-12-14T00:01:00#1 2020-12-14T00:01:00 [12/14/20, 12:01\u{202f}AM] Ben: @Ann look 👩\u{200d}🚀: there
2020-12-14T00:01:00#2 2020-12-14T00:01:00 [12/14/20, 12:01\u{202f}AM] Ann: The caption
"
    );
    assert_eq!(
        skipped,
        [
            "1 media and system messages: 2020-12-13T23:58:00#4 <Media omitted>",
            "2 system messages: Messages and calls are end-to-end encrypted. Tap to learn more.",
        ]
    );
}

#[test]
fn whatsapp_of_an_iphone() {
    let chat = "\u{200e}[1.2.2019, 12.00.00] Trip: \u{200e}Messages are encrypted.\r
[1.2.2019, 12.00.07] ~\u{202f}Ann: Hallo\r
\u{200e}[1.2.2019, 12.00.09] Ben: \u{200e}image omitted\r
[1.2.2019, 12.01.00] Ben: Corrected \u{200e}<This message was edited>\r
";
    let (text, skipped) = whatsapp(chat);
    assert_eq!(
        text,
        "\
# Ann
## 2019-02-01 2019-02-01T12:00:07 [1.2.2019, 12.00.07]
2019-02-01T12:00:07#1 2019-02-01T12:00:07 [1.2.2019, 12.00.07] Ann: Hallo
2019-02-01T12:01:00#1 2019-02-01T12:01:00 [1.2.2019, 12.01.00] Ben: Corrected
"
    );
    assert_eq!(
        skipped,
        ["2 media and system messages: 2019-02-01T12:00:00#1 Messages are encrypted."]
    );
}

/// The days of a chat that has these dates.
fn days(dates: &[&str], options: &ReadOptions) -> Result<Vec<String>, RetrievalError> {
    let folder = tempfile::tempdir().unwrap();
    let lines: String = dates
        .iter()
        .map(|date| format!("{date}, 10:00 - Ann: x\n"))
        .collect();
    let mut days = Vec::new();
    for_each_conversation(&file(&folder, "c", lines), options, &mut |conversation| {
        days.extend(conversation.sessions.iter().map(|session| session.id.to_string()));
        Ok(())
    })?;
    Ok(days)
}

#[test]
fn the_order_of_dates_is_decided_over_the_whole_file_or_asked() {
    let guess = |dates: &[&str]| days(dates, &ReadOptions::default());
    assert_eq!(
        guess(&["1/2/20", "13/2/20"]).unwrap(),
        ["2020-02-01", "2020-02-13"]
    );
    assert_eq!(
        guess(&["1/2/20", "2/13/20"]).unwrap(),
        ["2020-01-02", "2020-02-13"]
    );
    // Only one order runs forwards.
    assert_eq!(
        guess(&["1/2/20", "2/2/20", "1/3/20"]).unwrap(),
        ["2020-02-01", "2020-02-02", "2020-03-01"]
    );
    assert_eq!(
        guess(&["2/1/20", "2/2/20", "3/1/20"]).unwrap(),
        ["2020-02-01", "2020-02-02", "2020-03-01"]
    );
    assert_eq!(guess(&["2/2/20"]).unwrap(), ["2020-02-02"]);
    assert_eq!(
        guess(&["2020/2/1", "2020/2/3"]).unwrap(),
        ["2020-02-01", "2020-02-03"]
    );
    assert_eq!(
        guess(&["20/2/1", "20/2/31"]).map_err(|_| ()),
        Err(()),
        "there is no 31 February"
    );
    assert_eq!(
        guess(&["20/12/05", "21/01/04"]).unwrap(),
        ["2020-12-05", "2021-01-04"]
    );
    for ambiguous in [&["12/9/20"][..], &["1/2/20", "3/4/20"], &["13/1/20", "1/13/20"]] {
        let error = guess(ambiguous).unwrap_err();
        assert!(matches!(error, RetrievalError::AmbiguousDates { .. }), "{error}");
        assert!(error.to_string().contains("--date-order"), "{error}");
    }
    let told = |date_order| {
        let options = ReadOptions {
            date_order: Some(date_order),
            ..ReadOptions::default()
        };
        days(&["12/9/20"], &options).unwrap()
    };
    assert_eq!(told(DateOrder::DayMonthYear), ["2020-09-12"]);
    assert_eq!(told(DateOrder::MonthDayYear), ["2020-12-09"]);
    assert_eq!(told(DateOrder::YearMonthDay), ["2012-09-20"]);
}

#[test]
fn a_log_is_no_chat() {
    refused(
        "2023-05-08 13:56:00 - INFO: started\n2023-05-08 13:56:01 - WARN: slow\n",
        "not a known conversation format",
    );
    let (text, _) = whatsapp("2023-05-08 13:56 - Info: hi\n2023-05-08 13:57 - Ann: hi\n");
    assert!(text.contains("Info: hi"), "{text}");
}

fn zip(files: &[(&str, &str)]) -> Vec<u8> {
    let mut writer = zip::ZipWriter::new(std::io::Cursor::new(Vec::new()));
    for (name, content) in files {
        writer
            .start_file(*name, zip::write::SimpleFileOptions::default())
            .unwrap();
        writer.write_all(content.as_bytes()).unwrap();
    }
    writer.finish().unwrap().into_inner()
}

fn slack() -> Vec<u8> {
    zip(&[
        (
            "general/2018-01-21.json",
            r#"[{"type": "message", "user": "U2", "text": "A reply", "ts": "1516500000.000100", "thread_ts": "1434139102.000002", "parent_user_id": "U1"},
          {"type": "message", "subtype": "thread_broadcast", "user": "U2", "text": "Broad", "ts": "1516500001.000100", "root": {"text": "Hi", "ts": "1434139102.000002"}},
          {"type": "message", "subtype": "thread_broadcast", "user": "U2", "text": "Broad", "ts": "1516500001.000100"}]"#,
        ),
        (
            "channels.json",
            r#"[{"id": "C1", "name": "general", "members": ["U1", "U2"]}]"#,
        ),
        (
            "users.json",
            r#"[{"id": "U1", "name": "ann.a", "profile": {"display_name": "", "real_name": "Ann A"}}, {"id": "U2", "name": "ben", "profile": {"display_name": "Benny"}}]"#,
        ),
        ("dms.json", r#"[{"id": "D7", "members": ["U1", "U2"]}]"#),
        (
            "general/2015-06-12.json",
            r#"[{"type": "message", "user": "U1", "text": "Hi <@U2>, 1 &lt; 2", "ts": "1434139102.000002", "edited": {"ts": "1434139200.0"}},
          {"type": "message", "subtype": "channel_join", "user": "U1", "text": "<@U1> has joined", "ts": "1434139103.000000"},
          {"type": "message", "subtype": "bot_message", "bot_id": "B1", "username": "robot", "text": "", "blocks": [{"type": "rich_text", "elements": [{"type": "rich_text_section", "elements": [{"type": "text", "text": "beep "}, {"type": "user", "user_id": "U1"}]}]}], "ts": "1434139104.000000"},
          {"type": "message", "user": "U9", "user_profile": {"real_name": "Gone"}, "text": "", "files": [{"id": "F"}], "ts": "1434139105.000000"}]"#,
        ),
        (
            "D7/2020-01-01.json",
            r#"[{"type": "message", "user": "U1", "text": "psst", "ts": "1577836800.999999"}]"#,
        ),
        ("integration_logs.json", "[]"),
    ])
}

#[test]
fn slack_goes_by_time_stamps_kept_as_text() {
    let (text, skipped) = told("export.zip", slack(), &ReadOptions::default());
    assert_eq!(
        text,
        "\
# D7 (Ann A, Benny)
## 2020-01-01 2020-01-01T00:00:00.999999Z [1577836800.999999]
1577836800.999999 2020-01-01T00:00:00.999999Z [1577836800.999999] Ann A: psst
# C1 (#general)
## 2015-06-12 2015-06-12T19:58:22.000002Z [1434139102.000002]
1434139102.000002 2015-06-12T19:58:22.000002Z [1434139102.000002] Ann A: Hi @Benny, 1 < 2
1434139104.000000 2015-06-12T19:58:24Z [1434139104.000000] robot: beep @Ann A
## 2018-01-21 2018-01-21T02:00:00.0001Z [1516500000.000100]
1516500000.000100 2018-01-21T02:00:00.0001Z [1516500000.000100] Benny: A reply
1516500001.000100 2018-01-21T02:00:01.0001Z [1516500001.000100] Benny: Broad
"
    );
    assert_eq!(
        skipped,
        [
            "1 files that are no messages: integration_logs.json",
            "1 files without words: 1434139105.000000",
            "1 messages whose id came before: 1516500001.000100",
            "1 system messages: 1434139103.000000",
        ]
    );
    let folder = tempfile::tempdir().unwrap();
    assert_eq!(
        recognise(&file(&folder, "any name", slack())).unwrap(),
        Format::Slack
    );
}

const TELEGRAM: &str = r#"{"name": "Ben", "type": "personal_chat", "id": 4567890123, "messages": [
 {"id": 1, "type": "service", "date": "2020-01-01T00:00:00", "actor": "Ann", "action": "phone_call", "text": ""},
 {"id": 2, "type": "message", "date": "2020-01-01T01:30:00", "date_unixtime": "1577838600", "from": "Ann", "from_id": "user1",
  "text": ["See ", {"type": "link", "text": "https://a.b"}, "!"], "text_entities": []},
 {"id": 3, "type": "message", "date": "2020-01-02T10:00:00", "from": null, "from_id": "user2", "text": "old export"},
 {"id": 4, "type": "message", "date": "2020-01-02T10:01:00", "from": "Ann", "media_type": "sticker", "file": "(File not included)", "text": ""},
 {"id": 3, "type": "message", "date": "2020-01-02T10:00:00", "from": null, "text": "twice"}]}"#;

#[test]
fn telegram_keeps_both_clocks() {
    let (text, skipped) = told("result.json", TELEGRAM, &ReadOptions::default());
    assert_eq!(
        text,
        "\
# 4567890123 (Ben)
## 2020-01-01 2020-01-01T00:30:00Z [2020-01-01T01:30:00]
2 2020-01-01T00:30:00Z [2020-01-01T01:30:00] Ann: See https://a.b!
## 2020-01-02 2020-01-02T10:00:00
3 2020-01-02T10:00:00 user2: old export
"
    );
    assert_eq!(
        skipped,
        [
            "1 media without words: 4",
            "1 messages whose id came before: 3",
            "1 system messages: 1"
        ]
    );
}

#[test]
fn telegram_of_all_chats_in_any_order_of_keys() {
    let one = |id: u32, text: &str| {
        format!(
            r#"{{"messages": [{{"id": 1, "type": "message", "date": "2020-01-01T00:00:00", "from": "Ann", "text": "{text}"}}], "id": {id}, "type": "private_group", "name": null}}"#
        )
    };
    let all = format!(
        r#"{{"about": "x", "left_chats": {{"list": [{}]}}, "chats": {{"about": "y", "list": [{}, {}]}}, "stories": []}}"#,
        one(3, "left"),
        one(1, "first"),
        one(2, "second")
    );
    let (text, _) = told("result.json", &all, &ReadOptions::default());
    let said: Vec<&str> = text
        .lines()
        .filter_map(|line| line.rsplit_once(": ").map(|(_, said)| said))
        .collect();
    assert_eq!(said, ["first", "second", "left"]);
    let options = ReadOptions {
        sample: Some("2".into()),
        ..ReadOptions::default()
    };
    assert!(told("r", &all, &options).0.starts_with("# 2\n"));
}

const DISCORD: &str = r#"{"guild": {"id": "1", "name": "Crew"}, "channel": {"id": "1190000000000000001", "type": "GuildTextChat", "name": "deck"}, "dateRange": {"after": null},
 "messages": [
 {"id": "1190000000000000123", "type": "Default", "timestamp": "2023-12-31T23:30:00.5-02:00", "timestampEdited": null, "content": "Ahoy", "author": {"id": "9", "name": "ann", "discriminator": "0000", "nickname": "Captain", "isBot": false}, "attachments": []},
 {"id": "1190000000000000123", "type": "Default", "timestamp": "2023-12-31T23:30:00.5-02:00", "content": "Ahoy", "author": {"id": "9", "name": "ann"}},
 {"id": "1190000000000000124", "type": "Reply", "timestamp": "2024-01-01T02:00:00+00:00", "content": "Aye", "author": {"id": "8", "name": "ben"}, "reference": {"messageId": "1190000000000000123"}},
 {"id": "1190000000000000125", "type": "GuildMemberJoin", "timestamp": "2024-01-01T02:00:01+00:00", "content": "Joined the server.", "author": {"id": "8", "name": "ben"}},
 {"id": "1190000000000000126", "type": "Default", "timestamp": "2024-01-01T02:00:02+00:00", "content": "", "author": {"id": "8", "name": "ben"}, "attachments": [{"id": "1"}]}
 ], "messageCount": 5}"#;

#[test]
fn discord_ids_stay_text_and_times_become_utc() {
    let (text, skipped) = told("x.json", DISCORD, &ReadOptions::default());
    assert_eq!(
        text,
        "\
# 1190000000000000001 (Crew / deck)
## 2024-01-01 2024-01-01T01:30:00.5Z [2023-12-31T23:30:00.5-02:00]
1190000000000000123 2024-01-01T01:30:00.5Z [2023-12-31T23:30:00.5-02:00] Captain: Ahoy
1190000000000000124 2024-01-01T02:00:00Z [2024-01-01T02:00:00+00:00] ben: Aye
"
    );
    assert_eq!(
        skipped,
        [
            "1 attachments without words: 1190000000000000126",
            "1 messages whose id came before: 1190000000000000123",
            "1 system messages: 1190000000000000125",
        ]
    );
}

#[test]
fn zips_are_read_whatever_is_around_the_chat() {
    let inner = zip(&[("_chat.txt", "[13/1/20, 10:00:00] Ann: hi"), ("1-PHOTO.jpg", "x")]);
    let (text, skipped) = told("WhatsApp Chat - Ann.zip", &inner, &ReadOptions::default());
    assert!(text.starts_with("# WhatsApp Chat - Ann\n"), "{text}");
    assert_eq!(skipped, ["1 files that are no conversations: 1-PHOTO.jpg"]);
    // A zip in a zip, and a document whose JSON is something else.
    let mut outer = zip::ZipWriter::new(std::io::Cursor::new(Vec::new()));
    let options = zip::write::SimpleFileOptions::default();
    outer.start_file("chats/Bob.ZIP", options).unwrap();
    outer.write_all(&inner).unwrap();
    outer.start_file("user.json", options).unwrap();
    outer.write_all(b"{\"id\": 1}").unwrap();
    outer.start_file("telegram/result.json", options).unwrap();
    outer.write_all(TELEGRAM.as_bytes()).unwrap();
    let outer = outer.finish().unwrap().into_inner();
    let folder = tempfile::tempdir().unwrap();
    let read = read_conversations(&file(&folder, "x", outer), None).unwrap();
    let ids: Vec<&str> = read.iter().map(|conversation| conversation.id.as_str()).collect();
    assert_eq!(ids, ["4567890123", "Bob"]);
    refused(
        zip(&[("a.jpg", "x"), ("b.json", "{\"id\": 1}")]),
        "found a zip with a.jpg, b.json",
    );
    refused(zip(&[]), "found a zip with no file");
    refused(&inner[..inner.len() / 2], "cannot read");
}
