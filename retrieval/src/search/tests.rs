use std::collections::HashMap;
use std::path::Path;
use std::sync::Arc;

use engine_contract::Embedder;
use engine_contract::scripted::HashEmbedder;
use jiff::civil::date;
use proptest::prelude::*;
use tempfile::TempDir;

use super::config::Neighbours;
use super::kernel::Kernel;
use super::question::Question;
use super::snapshot::Snapshot;
use super::*;
use crate::store::Limits;
use crate::{
    Conversation, ConversationId, Hit, Memory, MemorySettings, Recall, RetrievalError, Retriever,
    SearchRequest, Session, SessionId, Turn, TurnId,
};

/// Sessions a month apart, of (speaker, text).
fn conversation(id: &str, sessions: &[Vec<(&str, String)>]) -> Conversation {
    let session = |(s, turns): (usize, &Vec<(&str, String)>)| Session {
        id: SessionId::new(format!("session_{}", s + 1)),
        time: Some(date(2023, 1 + (s % 12) as i8, 10).at(9, 0, 0, 0).into()),
        turns: turns
            .iter()
            .enumerate()
            .map(|(t, (speaker, text))| Turn {
                id: TurnId::new(format!("D{}:{}", s + 1, t + 1)),
                speaker: (*speaker).into(),
                text: text.clone(),
                caption: None,
                time: None,
            })
            .collect(),
    };
    Conversation {
        id: ConversationId::new(id),
        title: None,
        sessions: sessions.iter().enumerate().map(session).collect(),
    }
}

fn boats() -> Conversation {
    let turns = |turns: &[(&'static str, &str)]| turns.iter().map(|(s, t)| (*s, (*t).to_owned())).collect();
    conversation(
        "boats",
        &[
            turns(&[
                ("Melanie", "I bought a red boat yesterday."),
                ("Ben", "Lovely!"),
                ("Melanie", "It leaks, though."),
            ]),
            turns(&[
                ("Ben", "I painted my kitchen."),
                ("Melanie", "Which colour?"),
                ("Ben", "Green, last week."),
            ]),
            turns(&[
                ("Ben", "My boat sank."),
                ("Melanie", "Oh no."),
                ("Ben", "It was old."),
            ]),
        ],
    )
}

fn searcher(folder: &Path, conversations: &[Conversation], embedder: Option<HashEmbedder>) -> Searcher {
    searcher_with(folder, conversations, embedder, Limits::default())
}

fn searcher_with(
    folder: &Path,
    conversations: &[Conversation],
    embedder: Option<HashEmbedder>,
    limits: Limits,
) -> Searcher {
    let embedder: Option<Arc<dyn Embedder>> =
        embedder.map(|embedder| Arc::new(embedder) as Arc<dyn Embedder>);
    let settings = MemorySettings {
        embedder: embedder.as_ref().map(|embedder| embedder.info().clone()),
        ..MemorySettings::default()
    };
    let memory = Memory::create_with(folder, &settings, limits).unwrap();
    for conversation in conversations {
        memory
            .ingest(conversation, embedder.as_deref(), &mut |_| {})
            .unwrap();
    }
    Searcher::new(memory, embedder).unwrap()
}

fn request(query: &str, limit: usize, retriever: Retriever) -> SearchRequest {
    SearchRequest {
        query: query.into(),
        limit,
        retriever,
    }
}

fn ids(hits: &[Hit]) -> Vec<&str> {
    hits.iter().map(|hit| hit.turn.id.as_str()).collect()
}

fn folder() -> TempDir {
    tempfile::tempdir().unwrap()
}

#[test]
fn each_retriever_finds_the_boat() {
    let folder = folder();
    let searcher = searcher(folder.path(), &[boats()], Some(HashEmbedder::new(64)));
    for retriever in [Retriever::Dense, Retriever::Bm25, Retriever::Hybrid] {
        for ranking in [RankingConfig::default(), RankingConfig::reciprocal_rank()] {
            let searcher = searcher.with_ranking(ranking).unwrap();
            let hits = searcher
                .search(&request("Who bought a red boat?", 4, retriever))
                .unwrap();
            assert_eq!(hits[0].turn.id.as_str(), "D1:1", "{retriever:?}");
            assert!(hits.is_sorted_by(|a, b| a.score >= b.score));
            assert_eq!(hits[0].turn.time, Some(date(2023, 1, 10).at(9, 0, 0, 0)));
        }
    }
}

#[test]
fn keywords_alone_find_only_what_shares_a_word_or_stands_beside_it() {
    let folder = folder();
    let searcher = searcher(folder.path(), &[boats()], None);
    let hits = searcher
        .search(&request("kitchens", 50, Retriever::Hybrid))
        .unwrap();
    assert_eq!(ids(&hits), ["D2:1", "D2:3", "D2:2"]);
    let plain = searcher.with_ranking(RankingConfig::reciprocal_rank()).unwrap();
    assert_eq!(
        ids(&plain.search(&request("kitchens", 50, Retriever::Bm25)).unwrap()),
        ["D2:1"]
    );
    let error = searcher
        .search(&request("kitchens", 50, Retriever::Dense))
        .unwrap_err();
    assert!(matches!(error, RetrievalError::NoEmbedder { .. }), "{error}");
    assert!(
        searcher
            .search(&request("zebra", 50, Retriever::Bm25))
            .unwrap()
            .is_empty()
    );
    assert!(
        searcher
            .search(&request(" ?! ", 50, Retriever::Bm25))
            .unwrap()
            .is_empty()
    );
    assert!(
        searcher
            .search(&request("kitchens", 0, Retriever::Bm25))
            .unwrap()
            .is_empty()
    );
}

#[test]
fn priors_raise_the_named_speaker_and_the_named_month() {
    let folder = folder();
    let searcher = searcher(folder.path(), &[boats()], None);
    let first = |query: &str| {
        let hits = searcher.search(&request(query, 1, Retriever::Bm25)).unwrap();
        hits[0].turn.id.to_string()
    };
    assert_eq!(first("What about the boat of Ben?"), "D3:1");
    assert_eq!(first("What about the boat of Mel?"), "D1:1");
    assert_eq!(first("Which boat was it in March?"), "D3:1");
    assert_eq!(first("Which boat was it on 10 January 2023?"), "D1:1");
}

#[test]
fn within_one_conversation_no_other_is_found() {
    let folder = folder();
    let other = conversation("other", &[vec![("Zoe", "A red boat, a red boat!".into())]]);
    let all = searcher(folder.path(), &[boats(), other], Some(HashEmbedder::new(64)));
    let other = ConversationId::new("other");
    let hits = all
        .within(&other)
        .unwrap()
        .search(&request("red boat", 50, Retriever::Hybrid))
        .unwrap();
    assert_eq!(ids(&hits), ["D1:1"]);
    assert_eq!(hits[0].turn.speaker, "Zoe");
    let everywhere = all.search(&request("red boat", 50, Retriever::Hybrid)).unwrap();
    assert_eq!(everywhere.len(), 10);
    assert_eq!(all.card().unwrap().speakers, ["Melanie", "Ben", "Zoe"]);
    assert_eq!(all.within(&other).unwrap().card().unwrap().turns, 1);
    let error = all.within(&ConversationId::new("boat")).unwrap_err().to_string();
    assert_eq!(error, "the memory has no conversation boat; it has boats, other");
    let boats = ConversationId::new("boats");
    let error = all
        .within(&other)
        .unwrap()
        .window(&boats, &TurnId::new("D1:1"), 1)
        .unwrap_err();
    assert!(matches!(error, RetrievalError::UnknownTurn { .. }), "{error}");
}

#[test]
fn a_search_sees_what_was_ingested_after_the_searcher_was_made() {
    let folder = folder();
    let searcher = searcher(folder.path(), &[], None);
    assert!(
        searcher
            .search(&request("boat", 5, Retriever::Hybrid))
            .unwrap()
            .is_empty()
    );
    searcher.memory().ingest(&boats(), None, &mut |_| {}).unwrap();
    assert!(
        !searcher
            .search(&request("boat", 5, Retriever::Hybrid))
            .unwrap()
            .is_empty()
    );
}

#[test]
fn questions_are_taken_apart() {
    let mut snapshot = Snapshot::default();
    snapshot.speakers = vec!["Melanie".into(), "Will Smith".into()];
    let folder = folder();
    let memory = Memory::create_or_open(folder.path(), MemorySettings::default()).unwrap();
    let question = |text: &str| Question::new(text, &snapshot, memory.analyzer());
    let parsed = question("When did Melanie's sister paint, Melanie?");
    assert_eq!(parsed.without_names, "When did sister paint,?");
    assert_eq!(parsed.speaker, Some(0));
    assert!(parsed.asks_when);
    let words: Vec<(&str, bool)> = parsed
        .words
        .iter()
        .map(|word| (word.word.as_str(), word.has_synonyms))
        .collect();
    assert_eq!(words, [("melanie", false), ("sister", true), ("paint", true)]);
    assert_eq!(question("What did Mel paint?").speaker, Some(0));
    assert_eq!(question("Did Melanie meet Smith?").speaker, None);
    assert_eq!(question("Will it rain?").speaker, None);
    assert_eq!(question("Melanie").without_names, "Melanie");
}

/// Any conversation of short words, so that words meet.
fn any_sessions() -> impl Strategy<Value = Vec<Vec<(&'static str, String)>>> {
    let speaker = prop::sample::select(vec!["Ann", "Ben"]);
    let turn = (speaker, "[a-e]{1,2}( [a-e]{1,2}){0,40}");
    prop::collection::vec(prop::collection::vec(turn, 1..8), 1..5)
}

/// BM25 over the neighbour kernel, straight from its definition.
fn naive_bm25(
    snapshot: &Snapshot,
    texts: &[Vec<String>],
    query: &[String],
    neighbours: Neighbours,
) -> Vec<f32> {
    let n = texts.len();
    let weight = |i: usize, j: usize| {
        if i == j {
            return 1.0;
        }
        let distance = (snapshot.middle[i] - snapshot.middle[j]).abs();
        let at_zero = if j < i {
            neighbours.before
        } else {
            neighbours.after
        };
        let weight = at_zero * (-distance / neighbours.tokens).exp();
        if snapshot.session[i] == snapshot.session[j] && weight >= 0.02 {
            weight
        } else {
            0.0
        }
    };
    let spread =
        |values: &dyn Fn(usize) -> f32, i: usize| (0..n).map(|j| weight(i, j) * values(j)).sum::<f32>();
    let lengths: Vec<f32> = (0..n).map(|i| spread(&|j| texts[j].len() as f32, i)).collect();
    let mean = lengths.iter().sum::<f32>() / n as f32;
    let mut scores = vec![0.0; n];
    for word in query {
        let count = |j: usize| texts[j].iter().filter(|other| *other == word).count() as f32;
        let with = (0..n).filter(|&j| count(j) > 0.0).count() as f32;
        let idf = (1.0 + (n as f32 - with + 0.5) / (with + 0.5)).ln();
        for (i, score) in scores.iter_mut().enumerate() {
            let count = spread(&count, i);
            *score += idf * count * 1.9 / (count + 0.9 * (0.25 + 0.75 * lengths[i] / mean));
        }
    }
    scores
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn keyword_scores_equal_their_definition(sessions in any_sessions(), query in "[a-e]{1,2}( [a-e]{1,2}){0,3}") {
        let folder = folder();
        let searcher = searcher(folder.path(), &[conversation("c", &sessions)], None);
        let memory = searcher.memory();
        let analyzer = memory.analyzer();
        let stems = |text: &str| analyzer.content_words(text).iter().map(|word| analyzer.stem(word)).collect::<Vec<_>>();
        let neighbours = Neighbours::default();
        let mut query = stems(&query);
        query.sort_unstable();
        query.dedup();
        let texts: Vec<Vec<String>> = sessions.iter().flatten().map(|(s, t)| stems(&format!("{s}: {t}"))).collect();
        memory.read(|reading| {
            let snapshot = Snapshot::read(reading, None, Some(neighbours))?;
            let kernel = Kernel::new(Some(neighbours), &snapshot);
            let terms: Vec<bm25::Term<'_>> = query.iter().map(|stem| vec![(stem.as_str(), 1.0)]).collect();
            let fast = bm25::Bm25 { k1: 0.9, b: 0.75, kernel }.scores(reading, &snapshot, &terms)?;
            let naive = naive_bm25(&snapshot, &texts, &query, neighbours);
            for (fast, naive) in fast.iter().zip(&naive) {
                assert!((fast - naive).abs() <= 1e-4 * naive.abs().max(1.0), "{fast} is not {naive}");
            }
            Ok(())
        }).unwrap();
    }

    #[test]
    fn gathering_equals_spreading(sessions in any_sessions()) {
        let folder = folder();
        let searcher = searcher(folder.path(), &[conversation("c", &sessions)], None);
        searcher.memory().read(|reading| {
            let snapshot = Snapshot::read(reading, None, None)?;
            let kernel = Kernel::new(Some(Neighbours::default()), &snapshot);
            let values: Vec<f32> = (0..snapshot.len()).map(|place| (place % 5) as f32).collect();
            let spread = kernel.apply(&values);
            for (place, spread) in spread.iter().enumerate() {
                let mut gathered = 0.0;
                kernel.gather(place, |other, weight| {
                    assert_eq!(snapshot.session[place], snapshot.session[other]);
                    gathered += weight * values[other];
                });
                assert!((gathered - spread).abs() < 1e-4, "{gathered} is not {spread}");
            }
            Ok(())
        }).unwrap();
    }

    #[test]
    fn windows_stay_inside_their_session(sessions in any_sessions(), each_side in 0..10usize) {
        let folder = folder();
        let conversation = conversation("c", &sessions);
        let searcher = searcher(folder.path(), std::slice::from_ref(&conversation), None);
        for (s, turns) in sessions.iter().enumerate() {
            for t in 0..turns.len() {
                let id = TurnId::new(format!("D{}:{}", s + 1, t + 1));
                let window = searcher.window(&conversation.id, &id, each_side).unwrap();
                let expected: Vec<String> = (t.saturating_sub(each_side)..turns.len().min(t + each_side + 1))
                    .map(|t| format!("D{}:{}", s + 1, t + 1))
                    .collect();
                prop_assert_eq!(window.iter().map(|turn| turn.id.to_string()).collect::<Vec<_>>(), expected);
            }
        }
        let whole = searcher.window(&conversation.id, &TurnId::new("D1:1"), usize::MAX).unwrap();
        prop_assert_eq!(whole.len(), sessions[0].len());
    }

    #[test]
    fn budgets_are_kept_and_filled_in_order(sessions in any_sessions(), budget in 0..200usize) {
        let folder = folder();
        let searcher = searcher(folder.path(), &[conversation("c", &sessions)], Some(HashEmbedder::new(16)));
        let tokens = |hit: &Hit| (hit.turn.speaker.len() + 2 + hit.turn.text.len()) / 4;
        let all = searcher.search(&request("a b c", usize::MAX, Retriever::Hybrid)).unwrap();
        let hits = searcher.search_budget("a b c", Retriever::Hybrid, budget).unwrap();
        prop_assert!(hits.iter().map(tokens).sum::<usize>() <= budget);
        let mut left = budget;
        let fitting = all.iter().take_while(|hit| {
            let rest = left.checked_sub(tokens(hit));
            left = rest.unwrap_or(0);
            rest.is_some()
        }).count();
        let expected = &all[..fitting];
        prop_assert_eq!(hits, expected);
    }
}

/// 3,000 turns of pseudo-random words: each word in about 30 of them.
fn large() -> Conversation {
    let mut state = 7u64;
    let mut next = |below: u64| {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) % below
    };
    let mut text = || {
        (0..6)
            .map(|_| {
                format!("word{}", char::from(b'a' + next(26) as u8))
                    + &char::from(b'a' + next(26) as u8).to_string()
            })
            .collect::<Vec<_>>()
            .join(" ")
    };
    let sessions: Vec<Vec<(&str, String)>> = (0..150)
        .map(|_| (0..20).map(|t| (["Ann", "Ben"][t % 2], text())).collect())
        .collect();
    conversation("large", &sessions)
}

#[test]
fn trees_find_nearly_what_a_scan_finds() {
    let (scanned, treed) = (folder(), folder());
    let large = large();
    let exact = searcher(
        scanned.path(),
        std::slice::from_ref(&large),
        Some(HashEmbedder::new(64)),
    );
    let limits = Limits {
        scan_turns: 1_000,
        ..Limits::default()
    };
    let trees = searcher_with(
        treed.path(),
        std::slice::from_ref(&large),
        Some(HashEmbedder::new(64)),
        limits,
    );
    let mut shared: HashMap<Retriever, usize> = HashMap::new();
    let queries: Vec<String> = large
        .sessions
        .iter()
        .map(|session| session.turns[3].text.clone())
        .take(40)
        .collect();
    for retriever in [Retriever::Dense, Retriever::Hybrid] {
        for query in &queries {
            let request = request(query, 10, retriever);
            let (exact, trees) = (exact.search(&request).unwrap(), trees.search(&request).unwrap());
            *shared.entry(retriever).or_default() +=
                ids(&trees).iter().filter(|id| ids(&exact).contains(id)).count();
        }
    }
    let recall = |retriever: Retriever| shared[&retriever] as f64 / (10 * queries.len()) as f64;
    assert!(
        recall(Retriever::Dense) > 0.9,
        "dense recall@10 is {}",
        recall(Retriever::Dense)
    );
    assert!(
        recall(Retriever::Hybrid) > 0.9,
        "hybrid recall@10 is {}",
        recall(Retriever::Hybrid)
    );
}

#[test]
fn unbuilt_trees_fall_back_to_a_scan() {
    let folder = folder();
    let limits = Limits {
        scan_turns: 1_000,
        ..Limits::default()
    };
    let embedder = HashEmbedder::new(64);
    let searcher = searcher_with(folder.path(), &[large()], Some(embedder.clone()), limits);
    // A kill after the last part and before the build leaves this.
    let late = boats();
    let unbuilt = searcher.memory();
    unbuilt.ingest_without_build(&late, &embedder).unwrap();
    let hits = searcher
        .search(&request("Who bought a red boat?", 1, Retriever::Dense))
        .unwrap();
    assert_eq!(hits[0].turn.conversation, late.id);
}
