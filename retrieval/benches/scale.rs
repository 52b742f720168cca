//! One memory from a thousand turns to a million.
//!
//! *Measured*: ingest rate, building of the vector index, first search, search p50 and p99, file size, resident memory.
//! *Corpus*: seeded; conversations of 2,000 turns in sessions of 20, two speakers, 6 to 18 words a turn drawn by Zipf's law
//! from 30,000; one turn in ten repeats an earlier one. Questions have 3 to 7 words drawn by the square root of that law, so that
//! rare ones come too, and search the whole memory. The embedder hashes words into 384 dimensions and has token vectors.
//! *Not measured*: embedding, and cold caches.
//!
//! Run with `cargo bench -p retrieval --bench scale -- 1000 10000 100000 1000000`; it prints one JSON line per size.

use std::sync::Arc;
use std::time::{Duration, Instant};

use engine_contract::Embedder;
use engine_contract::scripted::HashEmbedder;
use retrieval::{
    Conversation, ConversationId, Memory, Recall, Retriever, SearchRequest, Searcher, Session, SessionId,
    Turn, TurnId,
};

const DIMENSION: usize = 384;
const WORDS: f64 = 30_000.0;
const CONVERSATION: usize = 2_000;
const SESSION: usize = 20;
const QUESTIONS: usize = 200;

/// SplitMix64: the same corpus on every machine and version.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut value = self.0;
        value = (value ^ (value >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        value = (value ^ (value >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        value ^ (value >> 31)
    }

    fn below(&mut self, bound: usize) -> usize {
        (self.next() % bound as u64) as usize
    }

    /// A word whose rank is drawn from 1/rank, flattened by `power`.
    fn word(&mut self, power: f64) -> String {
        let unit = (self.next() >> 11) as f64 / (1u64 << 53) as f64;
        format!("w{:05}", WORDS.powf(unit.powf(power)) as usize)
    }
}

fn conversation(index: usize, turns: usize, random: &mut Random) -> Conversation {
    let mut said: Vec<String> = Vec::with_capacity(turns);
    for _ in 0..turns {
        let text = if random.below(10) == 0 && !said.is_empty() {
            said[random.below(said.len())].clone()
        } else {
            let words: Vec<String> = (0..6 + random.below(13)).map(|_| random.word(1.0)).collect();
            words.join(" ")
        };
        said.push(text);
    }
    let sessions = said.chunks(SESSION).enumerate().map(|(number, texts)| Session {
        id: SessionId::new(format!("s{number}")),
        time: None,
        turns: (0..)
            .zip(texts)
            .map(|(place, text)| Turn {
                id: TurnId::new(format!("s{number}:{place}")),
                speaker: if place % 2 == 0 { "Ann" } else { "Ben" }.into(),
                text: text.clone(),
                caption: None,
                time: None,
            })
            .collect(),
    });
    Conversation {
        id: ConversationId::new(format!("c{index}")),
        title: None,
        sessions: sessions.collect(),
    }
}

fn resident_mib() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let anonymous = status.lines().find_map(|line| line.strip_prefix("RssAnon:"));
    let kib = anonymous.and_then(|line| line.split_whitespace().next()?.parse::<u64>().ok());
    kib.unwrap_or(0) / 1024
}

fn measure(turns: usize) -> Result<String, Box<dyn std::error::Error>> {
    let folder = tempfile::tempdir_in(std::env::var("MNEME_BENCH_DIR").unwrap_or_else(|_| "/tmp".into()))?;
    let embedder: Arc<dyn Embedder> = Arc::new(HashEmbedder::new(DIMENSION));
    let memory = Memory::create_or_open(folder.path(), embedder.info())?;
    let mut random = Random(7);
    let (mut stored, mut index) = (0, 0);
    let mut ingest = Duration::ZERO;
    while stored < turns {
        let conversation = conversation(index, CONVERSATION.min(turns - stored), &mut random);
        stored += conversation.turn_count();
        index += 1;
        let started = Instant::now();
        memory.ingest_unindexed(&conversation, Some(&*embedder), &mut |_| {})?;
        ingest += started.elapsed();
    }
    let started = Instant::now();
    memory.build_index(&mut |_| {})?;
    let build = started.elapsed();
    let bytes = std::fs::metadata(folder.path().join("data.mdb"))?.len();
    let searcher = Searcher::new(memory, Some(embedder))?;
    let mut times = Vec::with_capacity(QUESTIONS);
    for _ in 0..=QUESTIONS {
        let words: Vec<String> = (0..3 + random.below(5)).map(|_| random.word(0.5)).collect();
        let started = Instant::now();
        let hits = searcher.search(&SearchRequest {
            query: words.join(" "),
            limit: 20,
            retriever: Retriever::Hybrid,
        })?;
        times.push(started.elapsed().as_secs_f64() * 1000.0);
        assert!(!hits.is_empty(), "a search found nothing");
    }
    let first = times.remove(0);
    times.sort_by(f64::total_cmp);
    Ok(format!(
        "{{\"turns\": {turns}, \"ingest_turns_per_second\": {:.0}, \"build_seconds\": {:.1}, \"first_search_ms\": {first:.1}, \
         \"p50_ms\": {:.2}, \"p99_ms\": {:.2}, \"file_mib\": {:.1}, \"resident_mib\": {}}}",
        turns as f64 / ingest.as_secs_f64(),
        build.as_secs_f64(),
        times[QUESTIONS / 2],
        times[QUESTIONS * 99 / 100],
        bytes as f64 / f64::from(1 << 20),
        resident_mib(),
    ))
}

#[expect(clippy::print_stdout, reason = "what a bench is for")]
fn main() -> Result<(), Box<dyn std::error::Error>> {
    let sizes: Vec<usize> = std::env::args()
        .filter_map(|argument| argument.parse().ok())
        .collect();
    for turns in if sizes.is_empty() {
        vec![1_000, 10_000]
    } else {
        sizes
    } {
        println!("{}", measure(turns)?);
    }
    Ok(())
}
