use std::io::Write;

use evaluation::{
    Category, Dataset, EvaluationError, Prediction, ScoreOptions, parse_predictions, read_predictions, score,
};

/// A file of LoCoMo's shape with the oddities that the real one has; the text is ours.
const LOCOMO: &str = r#"[{"sample_id": "conv-1", "conversation": {
    "speaker_a": "Ada", "speaker_b": "Bo", "session_2_date_time": "1:56 pm on 8 May, 2023", "session_9_date_time": "x",
    "session_1": [{"speaker": "Ada", "dia_id": "D1:1", "text": "a"}, {"speaker": "Bo", "dia_id": "D1:2", "text": "b"}],
    "session_10": [{"speaker": "Ada", "dia_id": "D10:1", "text": "c"}]},
  "qa": [
    {"question": "When?", "answer": 2022, "evidence": ["D1:1"], "category": 2},
    {"question": "What?", "answer": "red, blue", "evidence": ["D1:1; D10:01"], "category": 1},
    {"question": "Would she?", "answer": "Likely yes; she said so", "category": 3},
    {"question": "Where?", "answer": "Oslo", "evidence": ["D:1:2", "D7:7"], "category": 4},
    {"question": "Who?", "adversarial_answer": "Bo", "evidence": ["D1:2"], "category": 5},
    {"question": "Who?", "answer": "No one", "adversarial_answer": "Bo", "evidence": [], "category": 5}
  ], "observation": {}}]"#;

fn locomo() -> Dataset {
    Dataset::from_json(LOCOMO.as_bytes(), "locomo.json").expect("the constant is valid")
}

fn predictions(pairs: &[(&str, &str)]) -> Vec<Prediction> {
    pairs
        .iter()
        .map(|(id, text)| Prediction {
            id: (*id).to_owned(),
            text: (*text).to_owned(),
        })
        .collect()
}

#[test]
fn locomo_questions_are_read_as_they_are() {
    let dataset = locomo();
    let questions = dataset.questions();
    let ids: Vec<&str> = questions.iter().map(|question| question.id.as_str()).collect();
    assert_eq!(
        ids,
        [
            "conv-1#0", "conv-1#1", "conv-1#2", "conv-1#3", "conv-1#4", "conv-1#5"
        ]
    );
    assert_eq!(questions[0].gold.as_deref(), Some("2022"));
    assert_eq!(questions[0].category, Category::Temporal);
    assert_eq!(questions[1].evidence, ["D1:1; D10:01"]);
    assert_eq!(questions[1].repaired_evidence, ["D1:1", "D10:1"]);
    assert!(questions[2].evidence.is_empty());
    assert_eq!(questions[3].repaired_evidence, ["D1:2"]);
    assert_eq!(
        (questions[4].gold.as_deref(), questions[4].decoy.as_deref()),
        (None, Some("Bo"))
    );
    assert_eq!(
        (questions[5].gold.as_deref(), questions[5].decoy.as_deref()),
        (Some("No one"), Some("Bo"))
    );
}

#[test]
fn plain_and_compressed_files_are_equal() {
    let folder = tempfile::tempdir().unwrap();
    let (plain, packed) = (folder.path().join("q.json"), folder.path().join("q.json.gz"));
    std::fs::write(&plain, LOCOMO).unwrap();
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    encoder.write_all(LOCOMO.as_bytes()).unwrap();
    std::fs::write(&packed, encoder.finish().unwrap()).unwrap();
    assert_eq!(Dataset::open(&plain).unwrap(), Dataset::open(&packed).unwrap());
}

#[test]
fn data_that_no_metric_can_score_is_refused() {
    let refused = |json: &str| {
        Dataset::from_json(json.as_bytes(), "data.json")
            .unwrap_err()
            .to_string()
    };
    assert!(refused("").contains("data.json is not a question file"));
    assert!(refused("[1]").contains("data.json is not a question file"));
    let category = LOCOMO.replace("\"category\": 4", "\"category\": 6");
    assert_eq!(
        refused(&category),
        "question conv-1#3 has category 6; expected a number from 1 to 5"
    );
    let answer = LOCOMO.replace("\"answer\": \"Oslo\", ", "");
    assert_eq!(
        refused(&answer),
        "question conv-1#3: answer must be text or a number, received null"
    );
    let list = LOCOMO.replace("\"Oslo\"", "[\"Oslo\"]");
    assert_eq!(
        refused(&list),
        "question conv-1#3: answer must be text or a number, received [\"Oslo\"]"
    );
    let twice = r#"{"conversation": "c", "questions": [
        {"id": "q1", "question": "?", "answer": "x", "category": "temporal", "evidence": []},
        {"id": "q1", "question": "?", "answer": "y", "category": "temporal", "evidence": []}]}"#;
    assert_eq!(
        refused(twice),
        "data.json: the id q1 occurs twice; remove one of the two"
    );
    assert!(refused(&twice.replace("temporal", "easy")).starts_with("question q1 has category easy"));
    let unanswerable = twice.replace("temporal", "unanswerable");
    assert!(
        refused(&unanswerable).starts_with("question q1: answer must be null for an unanswerable question")
    );
}

#[test]
fn prediction_lines_are_checked() {
    let refused = |text: &str| parse_predictions(text, "p.jsonl").unwrap_err().to_string();
    let number = refused("{\"id\": \"a\", \"prediction\": \"x\"}\n\n{\"id\": \"b\", \"prediction\": 2022}\n");
    assert!(
        number.starts_with("p.jsonl, line 3: `prediction` must be text, received 2022"),
        "{number}"
    );
    assert!(refused("{\"prediction\": \"x\"}").starts_with("p.jsonl, line 1: `id` is missing"));
    assert!(refused("{\"id\": \"a\"}").starts_with("p.jsonl, line 1: `prediction` is missing"));
    assert!(refused("{\"id\": \"a\", ").starts_with("p.jsonl, line 1: "));
    let line = "{\"id\": \"a\", \"prediction\": \"x\"}\n";
    assert_eq!(
        refused(&line.repeat(2)),
        "p.jsonl: the id a occurs twice; remove one of the two"
    );
    let missing = read_predictions(std::path::Path::new("/no/such/file.jsonl")).unwrap_err();
    assert!(matches!(missing, EvaluationError::Read { .. }));
}

#[test]
fn scores_of_a_run() {
    let text = r#"{"id": "conv-1#1", "prediction": "red,blue", "seconds": 3}
        {"id": "conv-1#0", "prediction": "2022"}
        {"id": "conv-1#3", "prediction": "in Bergen"}
        {"id": "conv-1#4", "prediction": "That is not mentioned."}"#;
    let predictions = parse_predictions(text, "p.jsonl").unwrap();
    let scores = score(&predictions, &locomo(), &ScoreOptions::default()).unwrap();
    let f1: Vec<(&str, f64, Option<f64>)> = scores
        .questions
        .iter()
        .map(|q| (q.id.as_str(), q.f1_locomo, q.f1_set))
        .collect();
    let expected = [
        ("conv-1#0", 1.0, Some(1.0)),
        ("conv-1#1", 1.0, Some(1.0)),
        ("conv-1#3", 0.0, Some(0.0)),
        ("conv-1#4", 1.0, None),
    ];
    assert_eq!(f1, expected);
    assert_eq!(
        (
            scores.overall.n,
            scores.overall.n_answerable,
            scores.overall.f1_locomo
        ),
        (4, 3, 0.75)
    );
    assert!((scores.overall.f1_set.unwrap() - 2.0 / 3.0).abs() < 1e-12);
    assert_eq!(scores.missing, ["conv-1#2", "conv-1#5"]);
    assert_eq!(scores.by_category.len(), 4);
    assert_eq!(scores.by_category[&Category::Unanswerable].bleu1, None);
    let json = serde_json::to_value(&scores).unwrap();
    assert_eq!(json["by_category"]["multi-hop"]["f1_locomo"], 1.0);
    assert_eq!(json["questions"][2]["category"], "single-hop");
    assert!(json["questions"][2]["bleu1"].is_number());
}

#[test]
fn nothing_is_silently_scored_or_left_out() {
    let dataset = locomo();
    let unknown = score(
        &predictions(&[("conv-1#0", "x"), ("conv-9#0", "y")]),
        &dataset,
        &ScoreOptions::default(),
    );
    assert!(matches!(unknown, Err(EvaluationError::UnknownId { id }) if id == "conv-9#0"));
    let twice = score(
        &predictions(&[("conv-1#0", "x"), ("conv-1#0", "y")]),
        &dataset,
        &ScoreOptions::default(),
    );
    assert!(matches!(twice, Err(EvaluationError::DuplicateId { .. })));
    let complete = ScoreOptions {
        complete: true,
        ..ScoreOptions::default()
    };
    let partial = score(&predictions(&[("conv-1#0", "x")]), &dataset, &complete);
    let expected =
        "5 of 6 questions have no prediction, the first is conv-1#1; allow a partial run or complete it";
    assert_eq!(partial.unwrap_err().to_string(), expected);
    let none = score(&[], &dataset, &ScoreOptions::default());
    assert!(matches!(none, Err(EvaluationError::NothingToScore)));
    let temporal = ScoreOptions {
        categories: vec![Category::Temporal],
        complete: true,
        ..ScoreOptions::default()
    };
    let scores = score(
        &predictions(&[("conv-1#0", "2022"), ("conv-1#4", "x")]),
        &dataset,
        &temporal,
    )
    .unwrap();
    assert_eq!((scores.overall.n, scores.left_out), (1, 1));
}
