//! What the model reads, literally.

use engine_contract::Constraint;
use insta::assert_snapshot;
use jiff::civil::date;

use super::*;
use crate::{Machine, Memcot, RagSettings, Stages};

/// All requests of a run as a person wants to read them; `¦` ends a message part.
fn readable(requests: &[GenerationRequest]) -> String {
    let mut out = String::new();
    for request in requests {
        let Prompt::Chat(messages) = &request.prompt else {
            panic!("loops send chats")
        };
        for message in messages {
            let text: String = message.parts.iter().map(|part| format!("{part}\u{a6}")).collect();
            out.push_str(&format!("<{}>\n{text}\n", message.role.as_str()));
        }
        if let Constraint::JsonSchema(schema) = &request.constraint {
            out.push_str(&format!("<schema> {}\n", schema["properties"]));
        }
        out.push_str(&format!("<at most {} tokens>\n\n", request.max_tokens));
    }
    out
}

#[test]
fn every_stage_of_two_rounds() {
    let played = play(QUESTION, narrow(), &TWO_ROUNDS);
    assert_snapshot!(readable(&played.requests));
}

#[test]
fn fused_and_rag() {
    let settings = Settings {
        max_iterations: 1,
        stages: Stages::Fused,
        abstain: false,
        ..as_picked()
    };
    let replies = [
        r#"{"useful": ["D1:5"], "answer": "", "enough": true, "missing": "", "queries": []}"#,
        r#"{"answer": "a bowl", "evidence": ["D1:5"]}"#,
    ];
    let fused = play("What did Ann make at the pottery class?", settings, &replies);
    let replies = [r#"{"answer": "a bowl", "evidence": ["D1:5"], "found": true}"#];
    let rag = play_method(
        "Where is Ann's bowl?",
        Method::Rag(RagSettings::default()),
        &replies,
    );
    assert_snapshot!(readable(&[fused.requests, rag.requests].concat()));
}

#[test]
fn retries_and_refusals() {
    let replies = [
        "not json",
        r#"{"useful": ["D1:2"]}"#,
        r#"{"answer": "", "enough": false}"#,
        r#"{"missing": "the rest", "action": "rephrase", "queries": ["When did Bob's dog run away"]}"#,
        r#"{"missing": "the rest", "action": "rephrase", "queries": ["Rex gone"]}"#,
        "{",
        r#"{"useful": []}"#,
        "{",
        "18 June 2023",
    ];
    let settings = Settings {
        max_iterations: 2,
        zoom_out: false,
        ..narrow()
    };
    let played = play(QUESTION, settings, &replies);
    assert_snapshot!(readable(&played.requests));
}

#[test]
fn question_date_and_unknown_dates() {
    let asked = Some(date(2023, 7, 3).at(0, 0, 0, 0));
    let question = Question {
        text: "What did Ann do last month?".into(),
        asked,
    };
    let mut memory = Notebook::small();
    for turn in &mut memory.turns {
        turn.time = None;
    }
    let model = ScriptedModel::replies([r#"{"answer": "x", "evidence": [], "found": false}"#]);
    let job = Job {
        question,
        method: Method::Rag(RagSettings::default()),
        recall: &memory,
    };
    Driver::new(&model)
        .run(vec![job], &mut |_| {})
        .remove(0)
        .result
        .unwrap();
    assert_snapshot!(readable(&model.requests()));
}

#[test]
fn stem_grows_part_by_part_through_all_stages_and_iterations() {
    let played = play(QUESTION, narrow(), &TWO_ROUNDS);
    let system: Vec<String> = played.requests.iter().map(system_text).collect();
    assert!(
        system.iter().all(|text| *text == system[0]),
        "one system message for all stages"
    );
    // The last request is the responder's, which forks behind the card.
    let (respond, others) = played
        .parts()
        .split_last()
        .map(|(last, rest)| (*last, rest.to_vec()))
        .unwrap();
    let mut stem: &[String] = &[];
    for (call, parts) in others.iter().enumerate() {
        let (_tail, now) = parts.split_last().unwrap();
        assert!(
            now.starts_with(stem),
            "call {call} rewrites what call {} had sent",
            call - 1
        );
        stem = now;
    }
    assert_eq!(stem.len(), 5, "card, question, evidence 1, episode 1, evidence 2");
    assert_eq!(respond[..1], stem[..1]);
    assert_eq!(respond.len(), 2, "card and the responder's own text");
}

fn system_text(request: &GenerationRequest) -> String {
    match &request.prompt {
        Prompt::Chat(messages) => messages[0].text(),
        Prompt::Text(_) | Prompt::Tokens(_) => panic!("loops send chats"),
    }
}

#[test]
fn two_questions_of_a_conversation_share_rules_and_card() {
    let [first, second] = ["Who is Rex?", "Where is the bowl?"].map(|question| {
        play(
            question,
            Settings {
                max_iterations: 1,
                zoom_out: false,
                ..as_picked()
            },
            &[
                r#"{"useful": []}"#,
                r#"{"answer": "x", "evidence": [], "found": true}"#,
            ],
        )
    });
    assert_eq!(system_text(&first.requests[0]), system_text(&second.requests[0]));
    assert_eq!(first.parts()[0][0], second.parts()[0][0]);
    assert_ne!(first.parts()[0][1], second.parts()[0][1]);
}

#[test]
fn older_searches_shrink_to_their_queries_at_the_budget() {
    let question = Question::new(QUESTION);
    let card = retrieval::Recall::card(&Notebook::small()).unwrap();
    let settings = Settings {
        episodic_tokens: 60,
        ..Settings::default()
    };
    let mut memcot = Memcot::new(question, settings, card).unwrap();
    for round in 1..=3 {
        memcot.state.queries = vec![format!("query {round}")];
        memcot.state.missing = format!("what round {round} did not find, in many words of no further use");
        memcot.state.settle();
        memcot.state.remember();
    }
    memcot.state.settled = 3;
    assert_eq!(super::super::stem::shortened(&memcot.state), 2);
    let request = super::super::rewrite::prompt(&memcot.state);
    let text = user(&request).text();
    assert!(text.contains("looked for: \"query 1\"\n"), "{text}");
    assert!(!text.contains("what round 1"), "{text}");
    assert!(text.contains("still missing: what round 3"), "{text}");
    assert_eq!(memcot.iteration(), 1);
}
