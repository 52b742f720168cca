use std::collections::HashSet;

use evaluation::{
    EvaluationError, Granularity, Resampling, RetrievalScores, UserTurns, bootstrap_mean, corpus_ids,
    evidence_recall, is_scored, paired_bootstrap, repair_evidence, retrieval_scores, session_scores_of_turns,
};
use serde::Deserialize;

fn ids(ids: &[&str]) -> Vec<String> {
    ids.iter().map(|id| (*id).to_owned()).collect()
}

#[test]
fn evidence_recall_counts_what_was_found() {
    let evidence = ids(&["D1:3", "D2:4", "D8:6; D9:17"]);
    let recall = evidence_recall(&evidence, &["D1:3", "D9:17", "D5:5"]).unwrap();
    assert!((recall - 1.0 / 3.0).abs() < 1e-12);
    assert_eq!(evidence_recall(&evidence, &Vec::<String>::new()), Some(0.0));
    assert_eq!(evidence_recall(&[], &["D1:3"]), None);
}

#[test]
fn evidence_is_repaired_as_it_was_meant() {
    let turns: HashSet<String> = ids(&["D8:6", "D9:17", "D11:26", "D30:5", "D9:1", "D4:4", "D4:6"])
        .into_iter()
        .collect();
    let repair = |text: &str| repair_evidence(&ids(&[text]), &turns);
    assert_eq!(repair("D8:6; D9:17"), ["D8:6", "D9:17"]);
    assert_eq!(repair("D9:1 D4:4 D4:6"), ["D9:1", "D4:4", "D4:6"]);
    assert_eq!(repair("D:11:26"), ["D11:26"]);
    assert_eq!(repair("D30:05"), ["D30:5"]);
    assert!(repair("D").is_empty());
    assert!(repair("D4:36").is_empty());
    assert_eq!(repair_evidence(&ids(&["D9:1", "D9:01"]), &turns), ["D9:1"]);
}

#[derive(Deserialize)]
struct Case {
    corpus: Vec<String>,
    ranking: Vec<usize>,
    expected: std::collections::BTreeMap<String, [[f64; 3]; 2]>,
}

#[test]
fn longmemeval_retrieval_equals_the_official_script() {
    let near = |scores: RetrievalScores, expected: [f64; 3]| {
        let received = [scores.recall_any, scores.recall_all, scores.ndcg_any];
        received
            .iter()
            .zip(expected)
            .all(|(received, expected)| (received - expected).abs() < 1e-9)
    };
    let mut checked = 0;
    for line in include_str!("../fixtures/retrieval.jsonl").lines() {
        let case: Case = serde_json::from_str(line).unwrap();
        for (k, expected) in &case.expected {
            let k: usize = k.parse().unwrap();
            let turns = retrieval_scores(&case.ranking, &case.corpus, k);
            let sessions = session_scores_of_turns(&case.ranking, &case.corpus, k);
            let equal = near(turns, expected[0]) && near(sessions, expected[1]);
            assert!(
                equal,
                "k {k}, {:?}: received {turns:?} and {sessions:?}",
                case.corpus
            );
            checked += 1;
        }
    }
    assert_eq!(checked, 400);
}

#[test]
fn longmemeval_corpus_holds_user_turns_and_renames_what_is_no_answer() {
    let turns = UserTurns {
        marks: &[Some(false), None, Some(true), None],
    };
    assert_eq!(
        corpus_ids("answer_9f_1", turns, Granularity::Turn),
        ["noans_9f_1_1", "answer_9f_1_3"]
    );
    assert_eq!(
        corpus_ids("answer_9f_1", turns, Granularity::Session),
        ["answer_9f_1"]
    );
    let only_assistant = UserTurns {
        marks: &[Some(false), None],
    };
    let corpus = corpus_ids("answer_9f_1", only_assistant, Granularity::Session);
    assert_eq!(corpus, ["noans_9f_1"]);
    assert!(!is_scored("9f", &corpus));
    assert!(is_scored("9f", &ids(&["answer_9f_1"])));
    assert!(!is_scored("9f_abs", &ids(&["answer_9f_1"])));
}

#[test]
fn bootstrap_equals_a_twin_in_python() {
    let first = [0.0, 1.0, 0.5, 0.25, 1.0, 0.0, 0.0, 0.75, 1.0, 0.6];
    let second = [0.0, 0.5, 0.5, 0.25, 0.75, 0.0, 0.1, 0.5, 1.0, 0.6];
    let resampling = Resampling {
        resamples: 1000,
        seed: 7,
    };
    let interval = bootstrap_mean(&first, resampling).unwrap();
    assert!((interval.mean - 0.51).abs() < 1e-12);
    assert!(
        (interval.low - 0.26).abs() < 1e-12 && (interval.high - 0.77).abs() < 1e-12,
        "{interval:?}"
    );
    let paired = paired_bootstrap(&first, &second, resampling).unwrap();
    let difference = paired.difference;
    assert!((difference.mean - 0.09).abs() < 1e-12);
    assert!(
        (difference.low + 0.005).abs() < 1e-12 && (difference.high - 0.225).abs() < 1e-12,
        "{difference:?}"
    );
    assert!(
        (paired.p_value - 66.0 / 1001.0).abs() < 1e-12,
        "{}",
        paired.p_value
    );
}

#[test]
fn bootstrap_knows_its_limits() {
    assert_eq!(bootstrap_mean(&[], Resampling::default()), None);
    let constant = bootstrap_mean(&[0.25; 8], Resampling::default()).unwrap();
    assert_eq!((constant.low, constant.high), (0.25, 0.25));
    let unpaired = paired_bootstrap(&[0.1], &[0.1, 0.2], Resampling::default());
    assert!(matches!(
        unpaired,
        Err(EvaluationError::UnpairedValues { left: 1, right: 2 })
    ));
    let same = paired_bootstrap(&[0.5, 0.1], &[0.5, 0.1], Resampling::default()).unwrap();
    assert_eq!(same.p_value, 1.0);
}
