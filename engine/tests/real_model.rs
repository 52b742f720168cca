//! The engine on Qwen2.5-Coder-0.5B. Needs the model: `mneme models pull qwen2.5-coder-0.5b`.

#![expect(clippy::unwrap_used, reason = "what fails in a helper fails the test")]

mod reference;

use std::fs::File;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use candle_core::Device;
use candle_core::quantized::gguf_file::Content;
use engine::{Batch, BatchSequence, Engine, EngineConfig, Qwen2, Scratch};
use engine_contract::conformance::{self, Options};
use engine_contract::{GenerationRequest, LanguageModel, Message, Prompt, Role};
use kernels::{Cpu, KvDtype, KvPool, TilePolicy};
use reference::{Constants, Reference};
use weights::{Gguf, ModelFiles, ModelStore, Specials, Tokenizer};

const MODEL: &str = "qwen2.5-coder-0.5b";
const TEXT: &str = include_str!("data/text.txt");
const MIB: u64 = 1 << 20;

fn files() -> ModelFiles {
    match ModelStore::from_env().and_then(|store| store.pull(MODEL, &mut ())) {
        Ok(files) => files,
        Err(error) => panic!("this test needs the model {MODEL}: {error}"),
    }
}

fn path() -> PathBuf {
    files().gguf().unwrap()
}

/// The one engine of this binary, to be used by one test at a time.
fn engine() -> MutexGuard<'static, Engine> {
    static ENGINE: OnceLock<Mutex<Engine>> = OnceLock::new();
    let load = || {
        // 60 blocks: a few prompts fill it.
        let config = EngineConfig {
            kv_bytes: 60 * 16 * 12_288,
            max_batch_tokens: 128,
            ..EngineConfig::default()
        };
        Mutex::new(Engine::load(&files(), config).unwrap())
    };
    ENGINE
        .get_or_init(load)
        .lock()
        .unwrap_or_else(PoisonError::into_inner)
}

#[test]
fn it_knows_the_capital_of_france() {
    let question = "What is the capital of France? Answer in one word.";
    let prompt = Prompt::Chat(vec![Message::new(Role::User, question)]);
    let engine = engine();
    assert_eq!(engine.count_tokens(&prompt).unwrap(), 41);
    let reply = engine.generate(GenerationRequest::new(prompt, 8)).unwrap();
    assert_eq!(reply.text, "Paris");
    assert_eq!(reply.usage.prompt_tokens, 41);
}

#[test]
fn it_conforms() {
    let options = Options {
        stem_tokens: 80,
        new_tokens: 6,
        batch: 4,
        flood: 20,
    };
    conformance::run(&*engine(), options).assert_passed();
}

/// The model without an engine around it.
struct Bare {
    model: Qwen2,
    pool: KvPool,
    scratch: Scratch,
}

impl Bare {
    fn load(policy: TilePolicy, dtype: KvDtype) -> Self {
        let gguf = Arc::new(Gguf::open(path()).unwrap());
        let model = Qwen2::load(gguf, Arc::new(Cpu::new(None).unwrap()), policy).unwrap();
        let pool = KvPool::new(model.kv_layout(dtype), 64).unwrap();
        Self {
            model,
            pool,
            scratch: Scratch::default(),
        }
    }

    /// Calls `each` with the logits of every token, the text cut into chunks.
    fn logits(&mut self, tokens: &[u32], chunk: usize, mut each: impl FnMut(usize, &[f32])) {
        let blocks: Vec<u32> = (0..64).rev().collect();
        let mut logits = Vec::new();
        for (index, tokens) in tokens.chunks(chunk).enumerate() {
            let start = index * chunk;
            let sequence = BatchSequence {
                tokens,
                start,
                blocks: &blocks,
                outputs: tokens.len(),
            };
            self.model.forward(
                &Batch::new(&[sequence]),
                &mut self.pool,
                &mut self.scratch,
                &mut logits,
            );
            for (row, logits) in logits.chunks(self.model.shape().vocabulary).enumerate() {
                each(start + row, logits);
            }
        }
    }
}

fn text_tokens() -> Vec<u32> {
    let tokenizer = Tokenizer::from_gguf(&Gguf::open(path()).unwrap()).unwrap();
    tokenizer.encode(TEXT, Specials::AsText).unwrap()
}

/// The reference with the tensors that candle reads from the file.
fn reference() -> Reference {
    let mut file = File::open(path()).unwrap();
    let content = Content::read(&mut file).unwrap();
    let value = |key: &str| &content.metadata[&format!("qwen2.{key}")];
    let number = |key: &str| value(key).to_u32().unwrap() as usize;
    let constants = Constants {
        layers: number("block_count"),
        heads: number("attention.head_count"),
        kv_heads: number("attention.head_count_kv"),
        rope_base: value("rope.freq_base").to_f32().unwrap(),
        epsilon: f64::from(value("attention.layer_norm_rms_epsilon").to_f32().unwrap()),
    };
    let names = content.tensor_infos.keys();
    let tensors = names.map(|name| {
        let tensor = content.tensor(&mut file, name, &Device::Cpu).unwrap();
        (name.clone(), tensor.dequantize(&Device::Cpu).unwrap())
    });
    Reference {
        tensors: tensors.collect(),
        constants,
    }
}

fn argmax(logits: &[f32]) -> usize {
    logits
        .iter()
        .enumerate()
        .max_by(|a, b| a.1.total_cmp(b.1))
        .unwrap()
        .0
}

/// Negative natural logarithm of a token's probability.
fn surprise(logits: &[f32], token: u32) -> f64 {
    let max = f64::from(logits[argmax(logits)]);
    let sum: f64 = logits.iter().map(|&logit| (f64::from(logit) - max).exp()).sum();
    sum.ln() + max - f64::from(logits[token as usize])
}

/// How far a set-up is from the reference over the fixed text.
#[derive(Debug)]
struct Distance {
    positions: usize,
    mean_error: f64,
    agreement: f64,
    perplexity: f64,
    reference_perplexity: f64,
}

fn distance(bare: &mut Bare, tokens: &[u32], reference: &[Vec<f32>]) -> Distance {
    let (mut error, mut agreed, mut ours, mut theirs) = (0.0, 0usize, 0.0, 0.0);
    let positions = tokens.len() - 1;
    bare.logits(tokens, 128, |position, logits| {
        if position == positions {
            return;
        }
        let expected = &reference[position];
        let sum: f64 = logits
            .iter()
            .zip(expected)
            .map(|(a, b)| f64::from((a - b).abs()))
            .sum();
        error += sum / logits.len() as f64;
        agreed += usize::from(argmax(logits) == argmax(expected));
        ours += surprise(logits, tokens[position + 1]);
        theirs += surprise(expected, tokens[position + 1]);
    });
    Distance {
        positions,
        mean_error: error / positions as f64,
        agreement: agreed as f64 / positions as f64,
        perplexity: (ours / positions as f64).exp(),
        reference_perplexity: (theirs / positions as f64).exp(),
    }
}

#[test]
fn logits_agree_with_a_single_precision_reference() {
    let tokens = text_tokens();
    let reference = reference().logits(&tokens).unwrap().to_vec2::<f32>().unwrap();
    for policy in [TilePolicy::Native, TilePolicy::Int8] {
        let distance = distance(&mut Bare::load(policy, KvDtype::F16), &tokens, &reference);
        println!("{policy:?}: {distance:?}");
        assert!(distance.positions >= 500, "{distance:?}");
        assert!(distance.mean_error < 0.25, "{distance:?}");
        assert!(distance.agreement >= 0.97, "{distance:?}");
        assert!(
            (distance.perplexity / distance.reference_perplexity - 1.0).abs() < 0.01,
            "{distance:?}"
        );
    }
}

#[test]
fn chunk_sizes_do_not_change_a_bit() {
    let tokens = &text_tokens()[..200];
    let mut bare = Bare::load(TilePolicy::Native, KvDtype::F16);
    let mut bits = |chunk| {
        let mut bits = Vec::new();
        bare.logits(tokens, chunk, |_, logits| {
            bits.extend(logits.iter().step_by(97).map(|x| x.to_bits()))
        });
        bits
    };
    let whole = bits(200);
    for chunk in [1, 7, 64, 129] {
        assert!(bits(chunk) == whole, "chunks of {chunk}");
    }
}

#[test]
fn guessing_ahead_changes_no_token_and_pays_where_the_prompt_is_quoted() {
    let question = "Repeat the second paragraph of this story word for word.\n\n";
    let request = GenerationRequest::new(
        Prompt::Chat(vec![Message::new(
            Role::User,
            format!("{question}{}", &TEXT[..1100]),
        )]),
        60,
    );
    let [plain, guessing] = [0, 3].map(|draft_tokens| {
        let config = EngineConfig {
            kv_bytes: 20 * MIB,
            draft_tokens,
            ..EngineConfig::default()
        };
        let engine = Engine::load(&files(), config).unwrap();
        (engine.generate(request.clone()).unwrap().tokens, engine.stats())
    });
    println!(
        "{} of {} guesses stood",
        guessing.1.accepted_tokens, guessing.1.drafted_tokens
    );
    assert_eq!(plain.0, guessing.0);
    assert_eq!(plain.1.drafted_tokens, 0);
    assert!(guessing.1.accepted_tokens > 10, "{:?}", guessing.1);
}

#[test]
fn two_engines_share_a_snapshot() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("prefixes.kv");
    let config = EngineConfig {
        kv_bytes: 20 * MIB,
        ..EngineConfig::default()
    };
    let question = |text: &str| {
        let parts = vec![TEXT[..900].to_owned(), text.to_owned()];
        GenerationRequest::new(
            Prompt::Chat(vec![Message {
                role: Role::User,
                parts,
            }]),
            12,
        )
    };
    let first = Engine::load(&files(), config.clone()).unwrap();
    let expected = first.generate(question("Who is Anders?")).unwrap();
    let fresh = first
        .generate(GenerationRequest {
            namespace: 1,
            ..question("Who is the boy?")
        })
        .unwrap();
    first.save_prefixes(&path, 20 * MIB).unwrap();
    drop(first);
    let second = Engine::load(&files(), config).unwrap();
    assert!(second.load_prefixes(&path) > 10);
    let again = second.generate(question("Who is Anders?")).unwrap();
    assert_eq!(again.tokens, expected.tokens);
    assert_eq!(again.usage.cached_tokens, Some(expected.usage.prompt_tokens - 1));
    let other = second.generate(question("Who is the boy?")).unwrap();
    assert_eq!(other.tokens, fresh.tokens);
    assert!(other.usage.cached_tokens > Some(200), "{:?}", other.usage);
}
