//! Prediction files of other projects, and label errors, laid over a data set. All texts are ours.

use evaluation::{Audit, Dataset, EvaluationError, Gold, Metric, Prediction, Record, parse_any_predictions};

const LOCOMO: &str = r#"[
  {"sample_id": "conv-1", "conversation": {"session_1": []}, "qa": [
    {"question": "Who sings?", "answer": "Ada", "evidence": [], "category": 4},
    {"question": "When?", "answer": "7 May 2023", "evidence": [], "category": 2},
    {"question": "When?", "answer": "8 May 2023", "evidence": [], "category": 4}]},
  {"sample_id": "conv-2", "conversation": {"session_1": []}, "qa": [
    {"question": "Where?", "answer": "Oslo", "evidence": ["D1:1"], "category": 4}]}]"#;

fn dataset() -> Dataset {
    Dataset::from_json(LOCOMO.as_bytes(), "locomo.json").expect("the constant is valid")
}

fn read(text: &str) -> Result<Vec<(String, String)>, String> {
    let predictions = parse_any_predictions(text, "p.json", &dataset());
    let pair = |p: Prediction| (p.id, p.text);
    predictions
        .map(|all| all.into_iter().map(pair).collect())
        .map_err(|error| error.to_string())
}

fn pairs(expected: &[(&str, &str)]) -> Result<Vec<(String, String)>, String> {
    Ok(expected
        .iter()
        .map(|(id, text)| ((*id).to_owned(), (*text).to_owned()))
        .collect())
}

#[test]
fn memcots_file_is_matched_by_question_text_and_category() {
    let file = r#"{"sample_id": "conv-1", "model": "m", "n": 2, "details": [
        {"qa_id": 1, "question": "When?", "category": 4, "prediction": "in May", "gold_answer": "8 May 2023"},
        {"qa_id": 2, "question": " Who sings? ", "category": 4, "prediction": "", "gold_answer": "Ada"}]}"#;
    assert_eq!(read(file), pairs(&[("conv-1#2", "in May"), ("conv-1#0", "")]));
    let strange = read(&file.replace("Who sings?", "Who dances?")).unwrap_err();
    assert!(
        strange.contains("no question \" Who dances? \" is left"),
        "{strange}"
    );
    let twice = read(&file.replace(" Who sings? ", "When?")).unwrap_err();
    assert!(twice.contains("is left to answer"), "{twice}");
    let number = read(&file.replace("\"in May\"", "2023")).unwrap_err();
    assert_eq!(number, "p.json: `prediction` must be text, received 2023");
    assert!(
        read(&file.replace("conv-1", "conv-9"))
            .unwrap_err()
            .contains("no conversation conv-9")
    );
}

#[test]
fn mem0s_file_is_matched_by_place_and_question_text() {
    let file = r#"{"0": [{"question": "When?", "category": 2, "answer": "7 May 2023", "response": "7 May"}],
        "1": [{"question": "Where?", "category": "4", "response": "Oslo"}]}"#;
    assert_eq!(read(file), pairs(&[("conv-1#1", "7 May"), ("conv-2#0", "Oslo")]));
    assert!(
        read(&file.replace("\"1\":", "\"7\":"))
            .unwrap_err()
            .contains("no conversation number 7")
    );
}

#[test]
fn locomos_own_file_goes_by_place() {
    let file = r#"[{"sample_id": "conv-2", "qa": [{"question": "Where?", "gpt_prediction": "Bergen", "gpt_f1": 0}]}]"#;
    assert_eq!(read(file), pairs(&[("conv-2#0", "Bergen")]));
    assert!(
        read(&file.replace("conv-2", "conv-1"))
            .unwrap_err()
            .contains("expected the data set's 3")
    );
    let two = file.replace("\"gpt_f1\": 0", "\"qwen_prediction\": \"x\"");
    assert!(read(&two).unwrap_err().contains("answers of two models"), "{two}");
}

#[test]
fn lines_of_ours_and_of_longmemeval() {
    assert_eq!(
        read(r#"{"id": "conv-1#0", "prediction": "Ada"}"#),
        pairs(&[("conv-1#0", "Ada")])
    );
    let line = "{\"question_id\": \"q1\", \"hypothesis\": \"red\"}\n{\"question_id\": \"q2\", \"hypothesis\": \"x\"}";
    assert_eq!(read(line), pairs(&[("q1", "red"), ("q2", "x")]));
    assert!(
        read("{\"question_id\": \"q1\", \"hypothesis\": 3}")
            .unwrap_err()
            .contains("must be text, received 3")
    );
}

const ERRORS: &str = r#"[
    {"question_id": "locomo_0_qa1", "error_type": "TEMPORAL_ERROR", "correct_answer": "9 May 2023", "correct_evidence": ["D1:2"]},
    {"question_id": "locomo_1_qa0", "error_type": "WRONG_CITATION", "correct_answer": "Bergen", "correct_evidence": ["D1:3"]}]"#;

#[test]
fn audited_labels_stand_beside_the_raw_ones() {
    let dataset = dataset();
    let audit = Audit::parse(ERRORS, "errors.json", &dataset).unwrap();
    let corrected = audit.apply(&dataset);
    assert_eq!(corrected.questions()[1].gold.as_deref(), Some("9 May 2023"));
    let oslo = &corrected.questions()[3];
    assert_eq!(
        (oslo.gold.as_deref(), oslo.evidence[0].as_str()),
        (Some("Oslo"), "D1:3")
    );
    let ceiling = audit.ceiling(dataset.questions());
    assert_eq!(
        (ceiling.wrong_answers, ceiling.wrong_citations, ceiling.ceiling),
        (1, 1, 0.75)
    );

    let record = Record {
        id: "conv-1#1".into(),
        prediction: "9 May 2023".into(),
        ..Record::default()
    };
    let items = Gold::Questions(dataset.clone())
        .measure(&[record], Some(&audit))
        .unwrap();
    assert_eq!(items[0].values[&Metric::F1LocomoAudited], 1.0);
    assert!(items[0].values[&Metric::F1Locomo] < 1.0);

    let refused = |text: &str| {
        Audit::parse(text, "errors.json", &dataset)
            .unwrap_err()
            .to_string()
    };
    assert!(refused(&ERRORS.replace("locomo_1_qa0", "locomo_1_qa7")).contains("no question locomo_1_qa7"));
    assert!(refused(&ERRORS.replace("locomo_1_qa0", "conv-1#1")).contains("occurs twice"));
    assert!(refused("{}").contains("errors.json: "));
}

#[test]
fn answers_that_fit_no_question_are_never_scored() {
    let gold = Gold::Questions(dataset());
    let record = |id: &str| Record {
        id: id.into(),
        ..Record::default()
    };
    let unknown = gold.measure(&[record("conv-1#0"), record("conv-1#9")], None);
    assert!(matches!(unknown, Err(EvaluationError::UnknownId { id }) if id == "conv-1#9"));
    let twice = gold.measure(&[record("conv-1#0"), record("conv-1#0")], None);
    assert!(matches!(twice, Err(EvaluationError::DuplicateId { .. })));
    assert!(matches!(
        gold.measure(&[], None),
        Err(EvaluationError::NothingToScore)
    ));
}
