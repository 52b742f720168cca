//! Vectors checked once with NLTK 3.10.4 and the official scorers' logic.

use evaluation::{Category, bleu1, bleu1_tokens, f1_locomo, f1_set, f1_tokens, porter_stem, word_tokenize};

fn close(received: f64, expected: f64) -> bool {
    (received - expected).abs() < 5e-5
}

#[test]
fn f1_in_its_three_forms() {
    // prediction, gold, tokens, multi-hop, set
    let vectors = [
        ("May 7, 2023", "7 May 2023", 1.0, 0.8, 1.0),
        (
            "pottery, camping",
            "pottery, camping, painting, swimming",
            0.6667,
            0.5,
            0.6667,
        ),
        (
            "She paints and camps",
            "pottery, camping, painting, swimming",
            0.5714,
            0.25,
            0.0,
        ),
        ("red,blue", "red, blue", 0.0, 1.0, 1.0),
        ("the the", "the", 0.0, 0.0, 1.0),
        ("Sweden's", "Sweden", 1.0, 1.0, 0.0),
        ("Sweden’s", "Sweden", 0.0, 0.0, 0.0),
        ("two", "2", 0.0, 0.0, 0.0),
        ("yes yes", "yes", 0.6667, 0.6667, 1.0),
    ];
    for (prediction, gold, tokens, multi_hop, set) in vectors {
        let received = [
            f1_locomo(prediction, gold, Category::SingleHop),
            f1_locomo(prediction, gold, Category::MultiHop),
            f1_set(prediction, gold),
        ];
        let equal = close(received[0], tokens) && close(received[1], multi_hop) && close(received[2], set);
        assert!(
            equal,
            "{prediction} | {gold}: expected {tokens} {multi_hop} {set}, received {received:?}"
        );
    }
}

#[derive(serde::Deserialize)]
struct Pair {
    p: String,
    g: String,
    s: [f64; 5],
    t: Vec<String>,
}

#[test]
fn every_metric_equals_the_official_scorers_on_many_strings() {
    let lines: Vec<&str> = include_str!("../fixtures/pairs.jsonl").lines().collect();
    for line in &lines {
        let Pair { p, g, s, t } = serde_json::from_str(line).unwrap();
        assert_eq!(word_tokenize(&p), t, "{p:?}");
        let received = [
            f1_locomo(&p, &g, Category::MultiHop),
            f1_locomo(&p, &g, Category::SingleHop),
            f1_locomo(&p, &g, Category::OpenDomain),
            f1_set(&p, &g),
            bleu1(&p, &g),
        ];
        let equal = received
            .iter()
            .zip(s)
            .all(|(received, expected)| (received - expected).abs() < 1e-12);
        assert!(equal, "{p:?} | {g:?}: expected {s:?}, received {received:?}");
    }
    assert_eq!(lines.len(), 1062);
}

#[test]
fn stems_equal_nltk_on_a_word_list() {
    let lines: Vec<&str> = include_str!("../fixtures/stems.tsv").lines().collect();
    for line in &lines {
        let (word, stem) = line.split_once('\t').unwrap();
        assert_eq!(porter_stem(word), stem, "{word}");
    }
    assert!(lines.len() > 4000, "{}", lines.len());
}

#[test]
fn rules_of_the_categories() {
    let gold = "Likely yes; she said so";
    assert_eq!(f1_locomo("likely yes", gold, Category::OpenDomain), 1.0);
    assert!(f1_locomo("likely yes", gold, Category::Temporal) < 1.0);
    assert_eq!(
        f1_locomo("This is Not Mentioned anywhere.", "x", Category::Unanswerable),
        1.0
    );
    assert_eq!(
        f1_locomo("No information available", "x", Category::Unanswerable),
        1.0
    );
    assert_eq!(f1_locomo("I do not know", "x", Category::Unanswerable), 0.0);
    assert_eq!(f1_locomo("", "", Category::MultiHop), 0.0);
    assert_eq!(f1_tokens("", "x"), 0.0);
    assert_eq!(f1_set("...", "x"), 0.0);
}

#[test]
fn stems_of_nltk_not_of_snowball() {
    let stems = [
        ("skies", "sky"),
        ("dying", "die"),
        ("dies", "die"),
        ("died", "die"),
        ("spied", "spi"),
        ("enjoy", "enjoy"),
        ("happy", "happi"),
        ("news", "news"),
        ("innings", "inning"),
        ("proceed", "proceed"),
        ("agreed", "agre"),
        ("geology", "geolog"),
        ("yes", "ye"),
        ("was", "wa"),
        ("this", "thi"),
        ("transgender", "transgend"),
        ("Skies", "sky"),
        ("is", "is"),
        ("", ""),
    ];
    for (word, stem) in stems {
        assert_eq!(porter_stem(word), stem, "{word}");
    }
}

#[test]
fn bleu_of_split_tokens() {
    let split = |text: &str| text.split(' ').map(str::to_owned).collect::<Vec<_>>();
    let bleu = |prediction, reference| bleu1_tokens(&split(prediction), &split(reference));
    assert!(close(bleu("may 7 , 2023", "7 may 2023"), 0.75));
    assert!(close(bleu("pottery", "pottery camping painting"), 0.1353));
    assert!(close(bleu("yes yes yes", "yes"), 0.3333));
    assert_eq!(bleu("no", "yes"), 0.0);
    assert_eq!(bleu1_tokens(&[], &split("yes")), 0.0);
    assert!(close(bleu1("May 7, 2023", "7 May 2023"), 0.75));
}

#[test]
fn tokens_of_word_tokenize() {
    let text = "He left. She stayed at 5 p.m. on May 7, 2023. Dr. Smith (can't) \"go\"... it's gonna rain!";
    let expected = [
        "he", "left", ".", "she", "stayed", "at", "5", "p.m.", "on", "may", "7", ",", "2023.", "dr.",
        "smith", "(", "ca", "n't", ")", "``", "go", "''", "...", "it", "'s", "gon", "na", "rain", "!",
    ];
    assert_eq!(word_tokenize(text), expected);
    assert!(word_tokenize(" \n ").is_empty());
}
