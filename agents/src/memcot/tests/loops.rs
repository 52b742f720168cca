//! The way through the stages.

use super::*;
use crate::machine::{QueryAction, Stage, Step};
use crate::{End, Stages};

#[test]
fn two_rounds_with_every_stage() {
    let played = play(QUESTION, narrow(), &TWO_ROUNDS);
    let outcome = played.outcome();
    assert_eq!(outcome.answer, "18 June 2023");
    assert!(!outcome.abstained);
    assert_eq!(ids(&outcome.evidence), ["D2:1"]);
    assert_eq!(ids(&outcome.accepted), ["D1:2", "D2:1", "D2:3"]);
    assert_eq!(outcome.iterations, 2);
    assert_eq!(
        outcome.usage.generated_tokens,
        TWO_ROUNDS.iter().map(|reply| reply.len()).sum::<usize>()
    );
    let stages: Vec<&str> = played
        .answered
        .trace
        .steps
        .iter()
        .map(|step| kind(&step.step))
        .collect();
    assert_eq!(
        stages,
        [
            "search", "zoom-in", "window", "zoom-out", "judge", "rewrite", "search", "zoom-in", "window",
            "zoom-out", "judge", "respond"
        ]
    );
    let queries = ["Rex ran away".to_owned(), "Rex found at the lake".to_owned()];
    assert!(played.notes().iter().any(
        |note| matches!(note, Note::Queries { queries: q, action: QueryAction::Decompose, .. } if *q == queries)
    ));
}

fn kind(step: &Step) -> &'static str {
    match step {
        Step::Search { .. } => "search",
        Step::Window { .. } => "window",
        Step::Read => "read",
        Step::Generate {
            stage: Stage::ZoomIn, ..
        } => "zoom-in",
        Step::Generate {
            stage: Stage::ZoomOut,
            ..
        } => "zoom-out",
        Step::Generate {
            stage: Stage::Judge, ..
        } => "judge",
        Step::Generate {
            stage: Stage::Rewrite,
            ..
        } => "rewrite",
        Step::Generate {
            stage: Stage::Fused, ..
        } => "fused",
        Step::Generate {
            stage: Stage::Respond,
            ..
        } => "respond",
        Step::Generate {
            stage: Stage::Recollect | Stage::Verify,
            ..
        }
        | Step::Memories { .. } => "of RIME",
        Step::Finished(_) => "finished",
    }
}

#[test]
fn second_search_shows_only_what_is_new() {
    let played = play(QUESTION, narrow(), &TWO_ROUNDS);
    let shown: Vec<&Vec<String>> = played
        .notes()
        .into_iter()
        .filter_map(|note| {
            if let Note::Shown { ids } = note {
                Some(ids)
            } else {
                None
            }
        })
        .collect();
    assert!(shown[0].contains(&"D1:2".to_owned()), "{shown:?}");
    // Zoom-in of the second iteration is the third thing shown.
    let again: Vec<&String> = shown[2].iter().filter(|id| shown[0].contains(id)).collect();
    assert_eq!(again, Vec::<&String>::new());
}

#[test]
fn a_responder_that_finds_nothing_is_overruled_by_a_judge_that_found_enough() {
    let replies = [
        r#"{"useful": ["D1:2"]}"#,
        r#"{"answer": "Rex", "enough": true}"#,
        r#"{"answer": "Rex", "evidence": ["D1:2"], "found": false}"#,
    ];
    let settings = Settings {
        zoom_out: false,
        ..as_picked()
    };
    let played = play(QUESTION, settings, &replies);
    let outcome = played.outcome();
    assert!(!outcome.abstained);
    assert_eq!(outcome.answer, "Rex");
    assert_eq!(ids(&outcome.evidence), ["D1:2"]);
}

#[test]
fn an_answer_without_evidence_is_an_honest_no() {
    let replies = [
        r#"{"useful": ["D1:2"]}"#,
        r#"{"answer": "unknown", "evidence": [], "found": false}"#,
    ];
    let settings = Settings {
        max_iterations: 1,
        zoom_out: false,
        ..as_picked()
    };
    let played = play(QUESTION, settings, &replies);
    let outcome = played.outcome();
    assert!(outcome.abstained);
    assert_eq!(outcome.answer, "not in the conversation");
    assert_eq!(ids(&outcome.evidence), Vec::<&str>::new());
    assert_eq!(ids(&outcome.accepted), ["D1:2"]);
}

#[test]
fn nothing_found_ends_without_asking_the_model_for_an_answer() {
    let replies = [r#"{"missing": "the rest", "action": "rephrase", "queries": ["xylophone lessons"]}"#];
    let settings = Settings {
        max_iterations: 2,
        ..as_picked()
    };
    let played = play("xylophone?", settings, &replies);
    assert!(played.outcome().abstained);
    assert_eq!(played.outcome().iterations, 2);
    assert_eq!(played.requests.len(), 1);
}

#[test]
fn without_any_pick_the_best_ranked_turns_are_taken() {
    let replies = [
        r#"{"useful": []}"#,
        r#"{"useful": []}"#,
        r#"{"answer": "Rex", "evidence": ["D1:2"], "found": true}"#,
    ];
    let settings = Settings {
        max_iterations: 1,
        zoom_out: false,
        ..as_picked()
    };
    let played = play("What is the name of the dog?", settings, &replies);
    assert_eq!(ids(&played.outcome().evidence), ["D1:2"]);
    assert_eq!(played.outcome().accepted.len(), 4, "as many as may be picked");
}

#[test]
fn best_ranked_turns_are_kept_beside_the_picked_ones() {
    let replies = [
        r#"{"useful": ["D2:1", "D1:2"]}"#,
        r#"{"answer": "x", "evidence": ["D2:1"], "found": true}"#,
    ];
    let settings = Settings {
        max_iterations: 1,
        zoom_out: false,
        keep_ranked: 2,
        ..Settings::default()
    };
    let played = play(QUESTION, settings, &replies);
    assert_eq!(ids(&played.outcome().accepted), ["D1:2", "D1:4", "D2:1"]);
}

#[test]
fn answer_that_cites_nothing_rests_on_everything_it_saw() {
    let replies = [
        r#"{"useful": ["D2:1", "D1:2"]}"#,
        r#"{"answer": "Rex", "evidence": [], "found": true}"#,
    ];
    let settings = Settings {
        max_iterations: 1,
        zoom_out: false,
        ..as_picked()
    };
    let played = play(QUESTION, settings, &replies);
    assert_eq!(ids(&played.outcome().evidence), ["D1:2", "D2:1"]);
}

#[test]
fn fill_shows_the_responder_more_than_was_picked() {
    let replies = [
        r#"{"useful": ["D2:1"]}"#,
        r#"{"answer": "x", "evidence": ["D1:2"], "found": true}"#,
    ];
    let settings = Settings {
        max_iterations: 1,
        zoom_out: false,
        fill_tokens: 500,
        ..as_picked()
    };
    let played = play(QUESTION, settings, &replies);
    assert_eq!(ids(&played.outcome().evidence), ["D1:2"]);
    assert_eq!(ids(&played.outcome().accepted), ["D2:1"]);
}

#[test]
fn fused_makes_one_call_per_iteration() {
    let replies = [
        r#"{"useful": ["D1:2"], "answer": "", "enough": false, "missing": "the day", "queries": ["Rex ran away"]}"#,
        r#"{"useful": ["D2:1"], "answer": "", "enough": true, "missing": "", "queries": []}"#,
        r#"{"answer": "18 June 2023", "evidence": ["D2:1"], "found": true}"#,
    ];
    let settings = Settings {
        stages: Stages::Fused,
        ..narrow()
    };
    let played = play("What about the dog adopted by Bob?", settings, &replies);
    assert_eq!(played.outcome().answer, "18 June 2023");
    assert_eq!(played.outcome().iterations, 2);
    assert_eq!(ids(&played.outcome().accepted), ["D1:2", "D2:1"]);
}

#[test]
fn ablations_leave_their_stage_out() {
    let replies = [
        r#"{"useful": ["D1:2"]}"#,
        r#"{"answer": "", "enough": false}"#,
        r#"{"missing": "the rest", "action": "prune", "queries": ["Rex ran away"]}"#,
        r#"{"useful": ["D2:1"]}"#,
        r#"{"answer": "", "enough": true}"#,
        r#"{"answer": "x", "evidence": ["D2:1"], "found": true}"#,
    ];
    let settings = Settings {
        zoom_out: false,
        episodic: false,
        ..narrow()
    };
    let played = play(QUESTION, settings, &replies);
    assert_eq!(played.outcome().answer, "x");
    let prompts: String = played.parts().concat().concat();
    assert!(!prompts.contains("looked for"), "the episodic memory is off");
    let on = play(QUESTION, narrow(), &TWO_ROUNDS);
    assert!(on.parts().concat().concat().contains("looked for"));
}

#[test]
fn rag_is_one_search_and_one_call() {
    let replies = [r#"{"answer": "Rex", "evidence": ["D1:2"], "found": true}"#];
    let played = play_method(
        "What is the name of Bob's dog?",
        Method::Rag(crate::RagSettings::default()),
        &replies,
    );
    let outcome = played.outcome();
    assert_eq!(
        (outcome.answer.as_str(), outcome.iterations, played.requests.len()),
        ("Rex", 1, 1)
    );
    assert_eq!(ids(&outcome.evidence), ["D1:2"]);
    assert!(matches!(played.answered.trace.end, End::Finished(_)));
}

#[test]
fn full_context_shows_every_turn_or_says_how_many_it_left_out() {
    let replies = [r#"{"answer": "Rex", "evidence": ["D2:3"], "found": true}"#];
    let ask = |truncate, turn_tokens| {
        let settings = crate::FullContextSettings {
            truncate,
            turn_tokens,
            ..crate::FullContextSettings::default()
        };
        play_method("Who moves?", Method::FullContext(settings), &replies)
    };
    let whole = ask(false, 1);
    let prompt = whole.parts().concat().concat();
    for turn in crate::fixture::Notebook::small().turns {
        let said: String = turn.text.chars().take(12).collect();
        assert!(prompt.contains(&said), "{said} is missing in {prompt}");
    }
    assert!(
        !whole
            .notes()
            .iter()
            .any(|note| matches!(note, Note::Truncated { .. }))
    );
    assert_eq!(ids(&whole.outcome().evidence), ["D2:3"]);

    let newest = ask(true, 60);
    let prompt = newest.parts().concat().concat();
    assert!(prompt.contains("D2:4") && !prompt.contains("D1:1"), "{prompt}");
    let notes = newest.notes();
    let said = notes.iter().find(|note| matches!(note, Note::Truncated { .. }));
    assert!(
        matches!(said, Some(Note::Truncated { shown, of: 9 }) if *shown < 9),
        "{notes:?}"
    );
}

#[test]
fn bad_settings_and_empty_questions_are_refused_by_name() {
    let card = retrieval::Card::default();
    let settings = Settings {
        max_iterations: 0,
        ..as_picked()
    };
    let error = crate::Memcot::new(Question::new("x"), settings, card.clone()).unwrap_err();
    assert_eq!(error.to_string(), "setting max_iterations is 0, expected 1 to 32");
    let error = crate::Memcot::new(Question::new("  "), Settings::default(), card).unwrap_err();
    assert_eq!(
        error.to_string(),
        "the question is empty; ask in at least one word"
    );
}
