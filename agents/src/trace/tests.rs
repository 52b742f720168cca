use engine_contract::scripted::ScriptedModel;
use insta::assert_snapshot;

use super::*;
use crate::fixture::Notebook;
use crate::{Driver, Job, Settings};

const REPLIES: [&str; 5] = [
    r#"{"useful": ["D9:9"]}"#,
    r#"{"useful": ["D2:1"]}"#,
    r#"{"add": []}"#,
    r#"{"answer": "18 June 2023", "enough": true}"#,
    r#"{"answer": "18 June 2023", "evidence": ["D2:1"], "found": true}"#,
];

/// A run with one retry, its times set to zero.
fn recorded() -> Trace {
    let (model, memory) = (ScriptedModel::replies(REPLIES), Notebook::small());
    let method = Method::Memcot(Settings {
        top_k: 2,
        window: 1,
        ..Settings::default()
    });
    let job = Job {
        question: Question::new("When did Rex run to the lake?"),
        method,
        recall: &memory,
    };
    let mut trace = Driver::new(&model).run(vec![job], &mut |_| {}).remove(0).trace;
    for step in &mut trace.steps {
        step.seconds = 0.0;
    }
    if let End::Finished(outcome) = &mut trace.end {
        outcome.seconds = 0.0;
    }
    trace
}

#[test]
fn full_trace() {
    assert_snapshot!(recorded().to_json());
}

#[test]
fn replay_reaches_the_same_outcome_without_model_or_memory() {
    let trace = Trace::from_json(&recorded().to_json()).unwrap();
    assert_eq!(trace, recorded());
    let outcome = replay(&trace).unwrap();
    assert_eq!(End::Finished(Box::new(outcome)), trace.end);
}

#[test]
fn interrupted_run_goes_on_where_it_stood() {
    let mut trace = recorded();
    trace.steps.truncate(4);
    trace.end = End::Open;
    let machine = trace.resume().unwrap();
    assert_eq!(machine.next_step(), recorded().steps[4].step);
    let error = replay(&trace).unwrap_err();
    assert!(
        error
            .to_string()
            .starts_with("replay differs at step 4: recorded the end, now "),
        "{error}"
    );
}

#[test]
fn changed_prompts_and_changed_outcomes_are_told_apart() {
    let mut trace = recorded();
    trace.question.text.push('!');
    let error = replay(&trace).unwrap_err();
    assert!(
        matches!(error, AgentError::ReplayDiverged { step: 0, .. }),
        "{error}"
    );

    let mut trace = recorded();
    if let End::Finished(outcome) = &mut trace.end {
        outcome.answer = "19 June 2023".into();
    }
    let error = replay(&trace).unwrap_err().to_string();
    assert!(
        error.contains("recorded 19 June 2023, now 18 June 2023"),
        "{error}"
    );
}

#[test]
fn foreign_files_and_other_versions_are_refused() {
    let error = |json: &str| Trace::from_json(json).unwrap_err().to_string();
    assert!(error("").starts_with("this is not a mneme trace"));
    assert!(error("[1]").contains("there is no version number"));
    assert!(error(r#"{"version": 1}"#).starts_with("this is not a mneme trace"));
    assert_eq!(
        error(r#"{"version": 99}"#),
        "the trace has schema version 99, this mneme reads version 1; record it again"
    );
}
