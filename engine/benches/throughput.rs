//! Tokens per second of one engine.
//!
//! Measured: a prompt of 832 tokens; decoding one and eight sequences; sixteen prompts over one stem of 600 tokens with
//! 64 new tokens each, sent at once; the cost of the prefix tree when nothing hits. Medians of five runs.
//! Corpus: random token ids, seeded. Not measured: tokenising, constraints, loading beyond its wall time.
//!
//! Run with `cargo bench -p engine --bench throughput -- [MODEL | dummy:SHAPE] [--threads N] [--int8] [--only WORD]`, for
//! instance `qwen2.5-coder-0.5b` (the default; needs `mneme models pull`) or `dummy:qwen2.5-7b`; `--only` measures what
//! has the word in its name.

use std::error::Error;
use std::io::Write;
use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::channel;
use std::time::{Duration, Instant};

use engine::{Engine, EngineConfig, ModelText, Qwen2, Qwen2Shape};
use engine_contract::{Generation, GenerationRequest, LanguageModel, Prompt, Sampling};
use kernels::{Cpu, TilePolicy};
use weights::{ChatTemplate, ModelStore, Tokenizer};

const RUNS: usize = 5;
const PROMPT: usize = 832;
const STEM: usize = 600;

type Outcome<T> = Result<T, Box<dyn Error>>;

/// What was asked for on the command line.
struct Arguments {
    model: String,
    config: EngineConfig,
    only: String,
}

fn arguments() -> Outcome<Arguments> {
    let mut parsed = Arguments {
        model: "qwen2.5-coder-0.5b".into(),
        config: EngineConfig::default(),
        only: String::new(),
    };
    let mut given = std::env::args().skip(1);
    while let Some(argument) = given.next() {
        match argument.as_str() {
            // Cargo adds it.
            "--bench" => {}
            "--int8" => parsed.config.weights = TilePolicy::Int8,
            "--threads" => {
                let count = given.next().ok_or("--threads needs a number")?;
                parsed.config.threads = Some(count.parse()?);
            }
            "--only" => parsed.only = given.next().ok_or("--only needs a word")?,
            model => parsed.model = model.to_owned(),
        }
    }
    Ok(parsed)
}

fn load(model: &str, config: EngineConfig) -> Outcome<Engine> {
    let Some(shape) = model.strip_prefix("dummy:") else {
        return Ok(Engine::load(&ModelStore::from_env()?.locate(model)?, config)?);
    };
    let names = || Qwen2Shape::names().collect::<Vec<_>>().join(", ");
    let shape =
        Qwen2Shape::published(shape).ok_or_else(|| format!("unknown shape {shape}, expected {}", names()))?;
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/bytes");
    let text = ModelText {
        tokenizer: Tokenizer::from_file(folder.join("tokenizer.json"))?,
        template: Some(ChatTemplate::from_tokenizer_config(
            folder.join("tokenizer_config.json"),
        )?),
    };
    let cpu = Arc::new(Cpu::new(config.threads)?);
    Ok(Engine::with_model(
        model,
        Qwen2::dummy(shape, 1, cpu)?,
        text,
        config,
    )?)
}

/// Requests of random tokens, no two with a common beginning unless asked for.
struct Bench {
    engine: Engine,
    random: u64,
}

impl Bench {
    fn tokens(&mut self, count: usize) -> Vec<u32> {
        // Ordinary tokens only: control tokens might end a reply.
        let vocabulary = self.engine.info().vocabulary.min(50_000) as u64;
        let mut next = || {
            self.random = self
                .random
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            ((self.random >> 33) % vocabulary) as u32
        };
        (0..count).map(|_| next()).collect()
    }

    /// Sends all at once and waits for all; the wall time goes with the replies.
    fn together(&self, requests: Vec<GenerationRequest>) -> Outcome<(Duration, Vec<Generation>)> {
        let started = Instant::now();
        let (sender, receiver) = channel();
        let count = requests.len();
        for request in requests {
            let sender = sender.clone();
            let sink = move |result| {
                // The receiver lives until all have arrived.
                let _ = sender.send(result);
            };
            self.engine.submit(request, Box::new(sink))?.detach();
        }
        let replies = receiver.iter().take(count).collect::<Result<Vec<_>, _>>()?;
        Ok((started.elapsed(), replies))
    }

    fn request(prompt: Vec<u32>, new_tokens: usize) -> GenerationRequest {
        GenerationRequest {
            // Hot enough that no reply ends early or repeats itself.
            sampling: Sampling::seeded(1.5, 7),
            ..GenerationRequest::new(Prompt::Tokens(prompt), new_tokens)
        }
    }

    fn prefill(&mut self) -> Outcome<f64> {
        let request = Self::request(self.tokens(PROMPT), 1);
        let (_, replies) = self.together(vec![request])?;
        Ok(PROMPT as f64 / replies[0].usage.prefill.as_secs_f64())
    }

    /// New tokens per second of all sequences together, prompts not counted.
    fn decode(&mut self, sequences: usize) -> Outcome<f64> {
        let prompts: Vec<_> = (0..sequences).map(|_| self.tokens(64)).collect();
        let requests = prompts
            .into_iter()
            .map(|prompt| Self::request(prompt, 128))
            .collect();
        let (_, replies) = self.together(requests)?;
        let rates = replies
            .iter()
            .map(|reply| (reply.usage.generated_tokens - 1) as f64 / reply.usage.decode.as_secs_f64());
        Ok(rates.sum())
    }

    /// Requests per minute.
    fn siblings(&mut self) -> Outcome<f64> {
        let stem = self.tokens(STEM);
        let prompts: Vec<_> = (0..16)
            .map(|_| [stem.clone(), self.tokens(20)].concat())
            .collect();
        let requests = prompts
            .into_iter()
            .map(|prompt| Self::request(prompt, 64))
            .collect();
        let (wall, replies) = self.together(requests)?;
        Ok(replies.len() as f64 * 60.0 / wall.as_secs_f64())
    }

    /// Seconds for prompts that share nothing.
    fn strangers(&mut self) -> Outcome<f64> {
        let prompts: Vec<_> = (0..8).map(|_| self.tokens(200)).collect();
        let requests = prompts
            .into_iter()
            .map(|prompt| Self::request(prompt, 8))
            .collect();
        Ok(self.together(requests)?.0.as_secs_f64())
    }
}

fn median(mut run: impl FnMut() -> Outcome<f64>) -> Outcome<f64> {
    let mut values = (0..RUNS).map(|_| run()).collect::<Outcome<Vec<_>>>()?;
    values.sort_by(f64::total_cmp);
    Ok(values[RUNS / 2])
}

/// The most memory this process has had, in MB.
fn peak_memory() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    line.trim()
        .strip_suffix(" kB")?
        .parse::<u64>()
        .ok()
        .map(|kib| kib * 1024 / 1_000_000)
}

fn main() -> Outcome<()> {
    let Arguments { model, config, only } = arguments()?;
    let mut out = std::io::stdout().lock();
    let started = Instant::now();
    let engine = load(&model, config.clone())?;
    let stats = engine.stats();
    writeln!(
        out,
        "{model}: loaded in {:.2} s, {} MB of weights",
        started.elapsed().as_secs_f64(),
        stats.weight_bytes / 1_000_000
    )?;
    let mut bench = Bench { engine, random: 1 };
    bench.prefill()?;
    for (name, unit, run) in MEASUREMENTS {
        if name.contains(&only) {
            writeln!(out, "{name}: {:.1} {unit}", median(|| run(&mut bench))?)?;
        }
    }
    if let Some(peak) = peak_memory() {
        let stats = bench.engine.stats();
        let weights_and_kv = (stats.weight_bytes + stats.kv_bytes_budget) / 1_000_000;
        writeln!(
            out,
            "peak memory: {peak} MB; weights and KV budget: {weights_and_kv} MB"
        )?;
    }
    drop(bench);
    if "prefix tree".contains(&only) {
        let cost = prefix_tree_cost(&model, &config)?;
        writeln!(out, "prefix tree without hits: {cost:+.2} % time")?;
    }
    Ok(())
}

type Measurement = fn(&mut Bench) -> Outcome<f64>;

const MEASUREMENTS: [(&str, &str, Measurement); 4] = [
    ("prefill of 832", "tokens/s", Bench::prefill),
    ("decode of 1", "tokens/s", |bench| bench.decode(1)),
    ("decode of 8", "tokens/s", |bench| bench.decode(8)),
    ("16 siblings over 600", "requests/min", Bench::siblings),
];

/// How much longer prompts without a common beginning take with the tree, in per cent: the median over pairs of runs
/// in alternating order on the same prompts, after a warm-up that has filled the cache, so that blocks are evicted
/// throughout and no page is touched for the first time.
fn prefix_tree_cost(model: &str, config: &EngineConfig) -> Outcome<f64> {
    let kept = EngineConfig {
        kv_bytes: 64 << 20,
        ..config.clone()
    };
    let plain = EngineConfig {
        prefix_cache: false,
        ..kept.clone()
    };
    let bench = |config| -> Outcome<Bench> {
        Ok(Bench {
            engine: load(model, config)?,
            random: 1,
        })
    };
    let (mut with, mut without) = (bench(kept)?, bench(plain)?);
    for _ in 0..RUNS {
        with.strangers()?;
        without.strangers()?;
    }
    let mut ratios = Vec::new();
    for run in 0..4 * RUNS + 1 {
        let (with, without) = if run % 2 == 0 {
            let with = with.strangers()?;
            (with, without.strangers()?)
        } else {
            let without = without.strangers()?;
            (with.strangers()?, without)
        };
        ratios.push(with / without);
    }
    ratios.sort_by(f64::total_cmp);
    Ok((ratios[ratios.len() / 2] - 1.0) * 100.0)
}
