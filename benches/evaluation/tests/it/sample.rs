use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use evaluation::{Category, Dataset, Prediction, ScoreOptions, porter_stem, score, word_tokenize};
use serde_json::Value;

fn file(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
        .join("../../data/sample")
        .join(name)
}

struct Session {
    time: String,
    turns: Vec<Value>,
}

/// The conversation as plain JSON: this crate has no reader for it, and its own test must not trust one.
fn sessions() -> Vec<(String, Session)> {
    let text =
        std::fs::read_to_string(file("two-friends.jsonl")).expect("the sample is part of the repository");
    let mut lines = text
        .lines()
        .map(|line| serde_json::from_str::<Value>(line).expect("one object a line"));
    let head = serde_json::json!({"mneme": 1, "conversation": "two-friends"});
    assert_eq!(lines.next(), Some(head));
    let mut sessions: Vec<(String, Session)> = Vec::new();
    for line in lines {
        if let Some(id) = line["session"].as_str() {
            let time = line["time"].as_str().expect("a session has a time").to_owned();
            sessions.push((
                id.to_owned(),
                Session {
                    time,
                    turns: Vec::new(),
                },
            ));
        } else {
            sessions
                .last_mut()
                .expect("a turn follows a session")
                .1
                .turns
                .push(line);
        }
    }
    sessions
}

#[test]
fn the_conversation_keeps_its_format() {
    let sessions = sessions();
    let mut last = String::new();
    let mut speakers = BTreeSet::new();
    for (number, (id, session)) in (1..).zip(&sessions) {
        assert_eq!(*id, format!("s{number}"));
        assert!(
            session.time > last,
            "session {id} is not later than the one before"
        );
        last.clone_from(&session.time);
        for (position, turn) in (1..).zip(&session.turns) {
            assert_eq!(turn["turn"], format!("{id}:{position}"));
            assert!(!turn["text"].as_str().unwrap().is_empty());
            speakers.insert(turn["speaker"].as_str().unwrap());
        }
    }
    let turns: Vec<&Value> = sessions.iter().flat_map(|(_, session)| &session.turns).collect();
    let captions = turns.iter().filter(|turn| turn["caption"].is_string()).count();
    assert_eq!((sessions.len(), turns.len(), captions), (14, 216, 25));
    assert_eq!(speakers, BTreeSet::from(["Idris", "Tamsin"]));
}

#[test]
fn every_question_rests_on_turns_that_exist() {
    let dataset = Dataset::open(&file("questions.json")).unwrap();
    let sessions = sessions();
    let words: BTreeMap<&str, BTreeSet<String>> = sessions
        .iter()
        .flat_map(|(_, session)| &session.turns)
        .map(|turn| (turn["turn"].as_str().unwrap(), words(turn)))
        .collect();
    let mut counts: BTreeMap<Category, usize> = BTreeMap::new();
    for question in dataset.questions() {
        *counts.entry(question.category).or_default() += 1;
        assert_eq!(
            question.evidence.is_empty(),
            question.category == Category::Unanswerable,
            "{}",
            question.id
        );
        let unknown = question
            .evidence
            .iter()
            .find(|id| !words.contains_key(id.as_str()));
        assert_eq!(unknown, None, "{}", question.id);
        if matches!(question.category, Category::SingleHop | Category::MultiHop) {
            let gold = stems(question.gold.as_deref().unwrap());
            let shown = |stem: &&String| {
                question
                    .evidence
                    .iter()
                    .any(|id| words[id.as_str()].contains(*stem))
            };
            let share = gold.iter().filter(shown).count() * 10 / gold.len();
            assert!(
                share >= 5,
                "{}: the evidence holds {share} tenths of {gold:?}",
                question.id
            );
        }
    }
    let expected = [
        (Category::MultiHop, 14),
        (Category::Temporal, 26),
        (Category::OpenDomain, 7),
        (Category::SingleHop, 26),
        (Category::Unanswerable, 11),
    ];
    assert_eq!(counts, BTreeMap::from(expected));
}

#[test]
fn gold_answers_score_full_marks() {
    let dataset = Dataset::open(&file("questions.json")).unwrap();
    let golden = |question: &evaluation::Question| Prediction {
        id: question.id.clone(),
        text: question
            .gold
            .clone()
            .unwrap_or_else(|| "Not mentioned in the conversation".to_owned()),
    };
    let predictions: Vec<Prediction> = dataset.questions().iter().map(golden).collect();
    let scores = score(
        &predictions,
        &dataset,
        &ScoreOptions {
            complete: true,
            ..ScoreOptions::default()
        },
    )
    .unwrap();
    let short: Vec<_> = scores
        .questions
        .iter()
        .filter(|scored| scored.f1_locomo < 1.0)
        .collect();
    // Only the text before `;` counts as gold in this category, so that the reason after it costs precision.
    assert!(
        short.iter().all(|scored| scored.category == Category::OpenDomain),
        "{short:?}"
    );
    assert_eq!(scores.by_category[&Category::OpenDomain].f1_set, Some(1.0));
    assert_eq!(scores.overall.n_answerable, 73);
}

fn words(turn: &Value) -> BTreeSet<String> {
    let spoken = turn["text"].as_str().unwrap_or_default();
    stems(&format!(
        "{spoken} {} {}",
        turn["caption"].as_str().unwrap_or_default(),
        turn["speaker"]
    ))
}

fn stems(text: &str) -> BTreeSet<String> {
    let letters = |token: &String| token.chars().any(char::is_alphanumeric);
    word_tokenize(text)
        .into_iter()
        .filter(letters)
        .map(|token| porter_stem(&token))
        .collect()
}
