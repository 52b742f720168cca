//! Replies that cannot be used: once more, then a plain way out, all of it noted.

use super::*;
use crate::machine::{QueryAction, Stage};

const GOOD_ANSWER: &str = r#"{"answer": "18 June 2023", "evidence": ["D2:1"], "found": true}"#;

fn one_round() -> Settings {
    Settings {
        max_iterations: 1,
        zoom_out: false,
        ..as_picked()
    }
}

/// The stages that were asked again, and those that were given up.
fn troubles(played: &Played) -> (Vec<Stage>, Vec<Stage>) {
    let (mut again, mut lost) = (Vec::new(), Vec::new());
    for note in played.notes() {
        if let Note::Retry { stage, .. } = note {
            again.push(*stage);
        }
        if let Note::Degraded { stage, .. } = note {
            lost.push(*stage);
        }
    }
    (again, lost)
}

#[test]
fn retry_shows_the_reason_and_allows_twice_the_tokens() {
    let replies = [r#"{"useful": ["D9:9"]}"#, r#"{"useful": ["D2:1"]}"#, GOOD_ANSWER];
    let played = play(QUESTION, one_round(), &replies);
    assert_eq!(played.outcome().answer, "18 June 2023");
    assert_eq!(troubles(&played), (vec![Stage::ZoomIn], vec![]));
    let parts = played.parts();
    let (first, again) = (parts[0], parts[1]);
    assert_eq!(
        again[..first.len()],
        *first,
        "the first prompt is extended, so its cache is used"
    );
    assert!(again[first.len()].contains("D9:9"), "{}", again[first.len()]);
    assert_eq!(played.requests[1].max_tokens, 2 * played.requests[0].max_tokens);
}

#[test]
fn zoom_in_lost_takes_the_best_ranked_turns() {
    let played = play(
        QUESTION,
        Settings {
            max_picks: 2,
            ..one_round()
        },
        &[
            "no",
            "no",
            r#"{"answer": "?", "evidence": ["D1:2"], "found": true}"#,
        ],
    );
    assert_eq!(troubles(&played), (vec![Stage::ZoomIn], vec![Stage::ZoomIn]));
    assert_eq!(played.outcome().accepted.len(), 2);
}

#[test]
fn zoom_out_lost_adds_nothing() {
    let settings = Settings {
        max_iterations: 1,
        ..as_picked()
    };
    let replies = [r#"{"useful": ["D2:1"]}"#, "{", "{", GOOD_ANSWER];
    let played = play(QUESTION, settings, &replies);
    assert_eq!(troubles(&played), (vec![Stage::ZoomOut], vec![Stage::ZoomOut]));
    assert_eq!(ids(&played.outcome().accepted), ["D2:1"]);
}

#[test]
fn judge_lost_answers_from_what_was_found() {
    let settings = Settings {
        zoom_out: false,
        ..as_picked()
    };
    let replies = [
        r#"{"useful": ["D2:1"]}"#,
        r#"{"answer": "", "enough": "false"}"#,
        r#"{"enough": false}"#,
        GOOD_ANSWER,
    ];
    let played = play(QUESTION, settings, &replies);
    assert_eq!(troubles(&played), (vec![Stage::Judge], vec![Stage::Judge]));
    assert_eq!(played.outcome().iterations, 1);
}

#[test]
fn respond_lost_falls_back_to_plain_text_then_to_no_answer() {
    let replies = [r#"{"useful": ["D2:1"]}"#, "18 June 2023", "18 June 2023"];
    let played = play(QUESTION, one_round(), &replies);
    assert_eq!(played.outcome().answer, "18 June 2023");
    assert_eq!(ids(&played.outcome().evidence), ["D2:1"]);
    assert_eq!(troubles(&played), (vec![Stage::Respond], vec![]));

    let played = play(QUESTION, one_round(), &[replies[0], "", " "]);
    assert!(played.outcome().abstained);
    assert_eq!(troubles(&played), (vec![Stage::Respond], vec![Stage::Respond]));
}

const NOT_ENOUGH: [&str; 2] = [r#"{"useful": ["D1:2"]}"#, r#"{"answer": "", "enough": false}"#];

fn rewritten(rewrites: &[&'static str]) -> Played {
    let settings = Settings {
        max_iterations: 2,
        zoom_out: false,
        ..narrow()
    };
    let rest = [r#"{"useful": ["D2:1"]}"#, GOOD_ANSWER];
    let replies: Vec<&str> = NOT_ENOUGH.iter().chain(rewrites).chain(&rest).copied().collect();
    play("Did Bob adopt a dog?", settings, &replies)
}

fn second_queries(played: &Played) -> (Vec<String>, QueryAction) {
    let queries = played.notes().into_iter().find_map(|note| {
        if let Note::Queries { queries, action, .. } = note {
            Some((queries.clone(), *action))
        } else {
            None
        }
    });
    queries.expect("there was a second iteration")
}

#[test]
fn repeated_query_is_refused_and_asked_once_more() {
    let again = r#"{"missing": "the rest", "action": "rephrase", "queries": ["did bob ADOPT a dog"]}"#;
    let other = r#"{"missing": "the rest", "action": "rephrase", "queries": ["Rex lake"]}"#;
    let played = rewritten(&[again, other]);
    assert_eq!(
        second_queries(&played),
        (vec!["Rex lake".to_owned()], QueryAction::Rephrase)
    );
    let parts = played.parts();
    assert!(!parts[2].concat().contains("searched already"));
    assert!(
        parts[3].concat().contains("did bob ADOPT a dog"),
        "the refusal is shown"
    );
    assert!(
        played
            .notes()
            .iter()
            .any(|note| matches!(note, Note::Repeated { .. }))
    );
}

#[test]
fn a_model_that_only_repeats_itself_gets_keywords() {
    let again = r#"{"missing": "when the lake search was", "action": "rephrase", "queries": ["Did Bob adopt a dog?"]}"#;
    let played = rewritten(&[again, again]);
    assert_eq!(
        second_queries(&played),
        (vec!["lake search".to_owned()], QueryAction::Keywords)
    );
}

#[test]
fn one_new_query_among_repeated_ones_is_enough() {
    let mixed = r#"{"missing": "the rest", "action": "decompose", "queries": ["Did Bob adopt a dog?", "Rex lake", "rex, LAKE"]}"#;
    let played = rewritten(&[mixed]);
    assert_eq!(
        second_queries(&played),
        (vec!["Rex lake".to_owned()], QueryAction::Decompose)
    );
}

#[test]
fn rewrite_lost_gets_keywords_of_the_question() {
    let played = rewritten(&[
        "nothing",
        r#"{"missing": "x", "action": "rephrase", "queries": []}"#,
    ]);
    assert_eq!(
        second_queries(&played),
        (vec!["bob adopt dog".to_owned()], QueryAction::Keywords)
    );
    assert_eq!(troubles(&played).1[0], Stage::Rewrite);
}
