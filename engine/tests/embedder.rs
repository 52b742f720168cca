//! The embedder on the real all-MiniLM-L6-v2 and on a small random model, against a plain forward pass in candle.

#![expect(clippy::unwrap_used, reason = "a set-up that fails is a test that fails")]

use std::collections::HashMap;
use std::path::Path;
use std::sync::Arc;

use candle_core::{D, DType, Device, Tensor};
use engine::{BertEmbedder, Precision};
use engine_contract::{EmbedKind, Embedder};
use kernels::Cpu;
use serde_json::json;
use weights::{ModelFiles, ModelStore, Tokenizer};

fn files(name_or_path: &str) -> ModelFiles {
    ModelStore::from_env()
        .unwrap()
        .locate(name_or_path)
        .unwrap_or_else(|error| panic!("{error}"))
}

fn minilm() -> ModelFiles {
    ModelStore::from_env()
        .unwrap()
        .pull("all-minilm-l6-v2", &mut ())
        .unwrap_or_else(|error| panic!("{error}"))
}

fn load(files: &ModelFiles, threads: usize, precision: Precision) -> BertEmbedder {
    BertEmbedder::load(files, Arc::new(Cpu::new(Some(threads)).unwrap()), precision).unwrap()
}

fn embed(embedder: &BertEmbedder, texts: &[&str]) -> Vec<Vec<f32>> {
    embedder.embed(texts, EmbedKind::Passage).unwrap()
}

fn cosine(a: &[f32], b: &[f32]) -> f64 {
    let dot = |a: &[f32], b: &[f32]| {
        a.iter()
            .zip(b)
            .map(|(&a, &b)| f64::from(a) * f64::from(b))
            .sum::<f64>()
    };
    dot(a, b) / (dot(a, a) * dot(b, b)).sqrt()
}

/// A spread of texts: short, long beyond the model's 256 tokens, other scripts, emoji, code, nothing at all.
fn texts() -> Vec<String> {
    let mut texts: Vec<String> = [
        "That is a happy person",
        "Caroline went to the LGBTQ support group on 7 May 2023, she said.",
        "昨日、友達と京都へ行きました。今天天气很好，我们去公园吧。",
        "🎉🎂 Happy birthday!! 🥳 see you at 5pm 👋🏽",
        "fn main() { println!(\"{}\", 1 + 2); } // naïve café — déjà vu",
        "Привет, как дела? مرحبا بالعالم שלום עולם",
        "a",
        "",
        "   \n\t ",
        "3.14159 2718281828 0x1F 1,000,000",
    ]
    .map(String::from)
    .to_vec();
    texts.push("We talked about the camping trip, the pottery class and her new painting. ".repeat(12));
    texts.push("long ago in a far country there lived ".repeat(100));
    // Few tokens: nothing evens out the rounding. These were the worst of 6,000 words and turns of LoCoMo.
    texts.extend(["?", "thanks", "Hmmm", "no"].map(String::from));
    texts
}

/// BERT as the paper draws it, one text at a time, in single precision.
struct Reference {
    tensors: HashMap<String, Tensor>,
    prefix: &'static str,
    heads: usize,
    layers: usize,
    eps: f64,
}

impl Reference {
    fn open(path: &Path, prefix: &'static str, [layers, heads]: [usize; 2]) -> Self {
        let tensors = candle_core::safetensors::load(path, &Device::Cpu).unwrap();
        Self {
            tensors,
            prefix,
            heads,
            layers,
            eps: 1e-12,
        }
    }

    fn tensor(&self, name: &str) -> Tensor {
        self.tensors[&format!("{}{name}", self.prefix)]
            .to_dtype(DType::F32)
            .unwrap()
    }

    fn dense(&self, x: &Tensor, name: &str) -> candle_core::Result<Tensor> {
        x.matmul(&self.tensor(&format!("{name}.weight")).t()?)?
            .broadcast_add(&self.tensor(&format!("{name}.bias")))
    }

    fn norm(&self, x: &Tensor, name: &str) -> candle_core::Result<Tensor> {
        let centred = x.broadcast_sub(&x.mean_keepdim(D::Minus1)?)?;
        let deviation = (centred.sqr()?.mean_keepdim(D::Minus1)? + self.eps)?.sqrt()?;
        centred
            .broadcast_div(&deviation)?
            .broadcast_mul(&self.tensor(&format!("{name}.weight")))?
            .broadcast_add(&self.tensor(&format!("{name}.bias")))
    }

    fn attention(&self, x: &Tensor, layer: &str) -> candle_core::Result<Tensor> {
        let (rows, width) = x.dims2()?;
        let part = |name: &str| {
            self.dense(x, &format!("{layer}.attention.self.{name}"))?
                .reshape((rows, self.heads, width / self.heads))?
                .transpose(0, 1)?
                .contiguous()
        };
        let scale = 1.0 / ((width / self.heads) as f64).sqrt();
        let scores = (part("query")?.matmul(&part("key")?.t()?.contiguous()?)? * scale)?;
        let scores = scores.broadcast_sub(&scores.max_keepdim(D::Minus1)?)?.exp()?;
        let shares = scores.broadcast_div(&scores.sum_keepdim(D::Minus1)?)?;
        shares
            .matmul(&part("value")?)?
            .transpose(0, 1)?
            .contiguous()?
            .reshape((rows, width))
    }

    /// Hidden states `[tokens, hidden]`.
    fn states(&self, ids: &[u32]) -> candle_core::Result<Tensor> {
        let rows = |name: &str, ids: &[u32]| {
            let table = self.tensor(&format!("embeddings.{name}_embeddings.weight"));
            table.index_select(&Tensor::new(ids, &Device::Cpu)?, 0)
        };
        let positions: Vec<u32> = (0..ids.len() as u32).collect();
        let types = rows("token_type", &vec![0; ids.len()])?;
        let sum = ((rows("word", ids)? + types)? + rows("position", &positions)?)?;
        let mut x = self.norm(&sum, "embeddings.LayerNorm")?;
        for index in 0..self.layers {
            let layer = format!("encoder.layer.{index}");
            let attended = self.dense(
                &self.attention(&x, &layer)?,
                &format!("{layer}.attention.output.dense"),
            )?;
            x = self.norm(&(attended + x)?, &format!("{layer}.attention.output.LayerNorm"))?;
            let wide = self
                .dense(&x, &format!("{layer}.intermediate.dense"))?
                .gelu_erf()?;
            x = self.norm(
                &(self.dense(&wide, &format!("{layer}.output.dense"))? + x)?,
                &format!("{layer}.output.LayerNorm"),
            )?;
        }
        Ok(x)
    }

    fn mean(&self, ids: &[u32]) -> Vec<f32> {
        self.states(ids).unwrap().mean(0).unwrap().to_vec1().unwrap()
    }

    fn first(&self, ids: &[u32]) -> Vec<f32> {
        self.states(ids).unwrap().get(0).unwrap().to_vec1().unwrap()
    }
}

#[test]
fn known_cosines_of_minilm() {
    // Double precision with numpy and the `tokenizers` package of Python.
    let known = [
        ("That is a happy dog", 0.694_577),
        ("That is a very happy person", 0.942_915),
        ("Today is a sunny day", 0.256_876),
    ];
    let spread = [
        1.0, 0.145_511, 0.007_358, 0.167_181, 0.059_466, 0.081_654, 0.249_696, 0.174_099, 0.174_099,
        0.028_819, 0.004_727, 0.131_844,
    ];
    let texts = texts();
    let expected: Vec<(&str, f64)> = texts
        .iter()
        .map(String::as_str)
        .zip(spread)
        .chain(known)
        .collect();
    for (precision, tolerance) in [(Precision::F32, 3e-6), (Precision::Int8, 1e-2)] {
        let texts: Vec<&str> = expected.iter().map(|(text, _)| *text).collect();
        let vectors = embed(&load(&minilm(), 2, precision), &texts);
        for ((text, expected), vector) in expected.iter().zip(&vectors) {
            let received = cosine(&vectors[0], vector);
            assert!(
                (received - expected).abs() < tolerance,
                "{precision:?}: {received} is not {expected} for {text:?}"
            );
        }
    }
}

#[test]
fn vectors_agree_with_the_reference() {
    let files = minilm();
    let reference = Reference::open(&files.file("model.safetensors").unwrap(), "", [6, 12]);
    let tokenizer = Tokenizer::from_file(files.file("tokenizer.json").unwrap()).unwrap();
    let texts = texts();
    let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
    for (precision, least) in [(Precision::F32, 0.999_999), (Precision::Int8, 0.999)] {
        let vectors = embed(&load(&files, 2, precision), &texts);
        for (text, vector) in texts.iter().zip(&vectors) {
            let expected = reference.mean(&tokenizer.encode_with_template(text, 256).unwrap());
            let received = cosine(vector, &expected);
            assert!(received > least, "{precision:?}: {received} for {text:?}");
            let norm = cosine(vector, vector).sqrt();
            assert!((norm - 1.0).abs() < 1e-6);
        }
    }
}

#[test]
fn a_vector_is_bitwise_the_same_in_every_batch() {
    let files = minilm();
    let texts = texts();
    let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
    for precision in [Precision::Int8, Precision::F32] {
        let embedder = load(&files, 2, precision);
        let together = embed(&embedder, &texts);
        let mut reversed: Vec<&str> = texts.iter().rev().copied().collect();
        reversed.extend_from_slice(&texts[..3]);
        let reversed = embed(&embedder, &reversed);
        let single = load(&files, 1, precision);
        for (index, text) in texts.iter().enumerate() {
            assert_eq!(
                embed(&single, &[text])[0],
                together[index],
                "{text:?} alone, one thread"
            );
            assert_eq!(
                reversed[texts.len() - 1 - index],
                together[index],
                "{text:?} in another order"
            );
        }
    }
}

#[test]
fn tokens_come_with_the_same_text_vector_and_point_where_their_words_do() {
    let embedder = load(&minilm(), 2, Precision::Int8);
    let texts = ["The dog barks.", "", "A hound is barking at the moon"];
    let with_tokens = embedder.embed_tokens(&texts, EmbedKind::Passage).unwrap();
    let together = embed(&embedder, &texts);
    let tokens: Vec<Vec<&[f32]>> = with_tokens
        .iter()
        .map(|text| text.tokens.chunks(384).collect())
        .collect();
    for (text, vector) in with_tokens.iter().zip(&together) {
        assert_eq!(text.text, *vector);
    }
    // "the dog bark ##s ." and nothing for the empty text: what frames a text is left out.
    assert_eq!(tokens.iter().map(Vec::len).collect::<Vec<_>>(), [5, 0, 7]);
    for token in tokens.iter().flatten() {
        assert!((token.iter().map(|v| v * v).sum::<f32>() - 1.0).abs() < 1e-4);
    }
    let dog = tokens[0][1];
    let nearest = (0..7).max_by(|a, b| cosine(dog, tokens[2][*a]).total_cmp(&cosine(dog, tokens[2][*b])));
    assert_eq!(nearest, Some(1), "the hound is the token nearest to the dog");
}

#[test]
fn info_and_the_empty_batch() {
    let embedder = load(&minilm(), 1, Precision::Int8);
    let info = embedder.info();
    assert_eq!(
        (info.name.as_str(), info.dimension, info.max_tokens),
        ("all-minilm-l6-v2", 384, 256)
    );
    assert!(info.normalised);
    assert!(embed(&embedder, &[]).is_empty());
}

/// A folder with random weights, named as whole-BERT checkpoints name them, in half precision, with CLS pooling
/// and prompts.
fn random_model(folder: &Path) {
    let (hidden, wide, vocabulary) = (64, 128, 30_522);
    let mut tensors: HashMap<String, Tensor> = HashMap::new();
    let mut add = |name: &str, shape: &[usize], spread: f64| {
        let offset = if name.ends_with("LayerNorm.weight") {
            1.0
        } else {
            0.0
        };
        let values = Tensor::randn(offset, spread, shape, &Device::Cpu).unwrap();
        tensors.insert(format!("bert.{name}"), values.to_dtype(DType::F16).unwrap());
    };
    add("embeddings.word_embeddings.weight", &[vocabulary, hidden], 0.5);
    add("embeddings.position_embeddings.weight", &[64, hidden], 0.2);
    add("embeddings.token_type_embeddings.weight", &[2, hidden], 0.2);
    let mut pairs = vec![("embeddings.LayerNorm".to_owned(), vec![hidden])];
    for layer in ["encoder.layer.0", "encoder.layer.1"] {
        for (part, shape) in [
            ("attention.self.query", vec![hidden, hidden]),
            ("attention.self.key", vec![hidden, hidden]),
            ("attention.self.value", vec![hidden, hidden]),
            ("attention.output.dense", vec![hidden, hidden]),
            ("attention.output.LayerNorm", vec![hidden]),
            ("intermediate.dense", vec![wide, hidden]),
            ("output.dense", vec![hidden, wide]),
            ("output.LayerNorm", vec![hidden]),
        ] {
            pairs.push((format!("{layer}.{part}"), shape));
        }
    }
    for (name, shape) in pairs {
        add(&format!("{name}.weight"), &shape, 0.1);
        add(&format!("{name}.bias"), &shape[..1], 0.1);
    }
    candle_core::safetensors::save(&tensors, folder.join("model.safetensors")).unwrap();
    let config = json!({
        "model_type": "bert", "hidden_size": hidden, "intermediate_size": wide, "num_hidden_layers": 2,
        "num_attention_heads": 4, "vocab_size": vocabulary, "max_position_embeddings": 64
    });
    std::fs::write(folder.join("config.json"), config.to_string()).unwrap();
    std::fs::copy(
        minilm().file("tokenizer.json").unwrap(),
        folder.join("tokenizer.json"),
    )
    .unwrap();
    std::fs::create_dir(folder.join("1_Pooling")).unwrap();
    let pooling = json!({ "pooling_mode_cls_token": true, "pooling_mode_mean_tokens": false });
    std::fs::write(folder.join("1_Pooling/config.json"), pooling.to_string()).unwrap();
    let prompts = json!({ "prompts": { "query": "query: ", "passage": "passage: " } });
    std::fs::write(
        folder.join("config_sentence_transformers.json"),
        prompts.to_string(),
    )
    .unwrap();
}

#[test]
fn a_folder_describes_its_own_pooling_prefixes_and_types() {
    let folder = tempfile::tempdir().unwrap();
    random_model(folder.path());
    let files = files(folder.path().to_str().unwrap());
    let reference = Reference::open(&folder.path().join("model.safetensors"), "bert.", [2, 4]);
    let tokenizer = Tokenizer::from_file(folder.path().join("tokenizer.json")).unwrap();
    let embedder = load(&files, 1, Precision::F32);
    for (kind, prefix) in [(EmbedKind::Query, "query: "), (EmbedKind::Passage, "passage: ")] {
        for text in ["a happy person", &"many words ".repeat(80)] {
            let ids = tokenizer
                .encode_with_template(&format!("{prefix}{text}"), 64)
                .unwrap();
            let received = &embedder.embed(&[text], kind).unwrap()[0];
            let similarity = cosine(received, &reference.first(&ids));
            assert!(similarity > 0.999_99, "{prefix}{text}: {similarity}");
        }
    }
}

#[test]
fn a_broken_folder_is_named() {
    let folder = tempfile::tempdir().unwrap();
    random_model(folder.path());
    let files = files(folder.path().to_str().unwrap());
    let cpu = Arc::new(Cpu::new(Some(1)).unwrap());
    let refused = || {
        BertEmbedder::load(&files, Arc::clone(&cpu), Precision::F32)
            .unwrap_err()
            .to_string()
    };
    let config = std::fs::read_to_string(folder.path().join("config.json")).unwrap();
    let write = |text: &str| std::fs::write(folder.path().join("config.json"), text).unwrap();
    write(&config.replace("\"num_hidden_layers\":2", "\"num_hidden_layers\":3"));
    assert!(refused().contains("encoder.layer.2"), "{}", refused());
    write(&config.replace("\"intermediate_size\":128", "\"intermediate_size\":256"));
    assert!(
        refused().contains("has shape [128, 64], expected [256, 64]"),
        "{}",
        refused()
    );
    write(&config.replace("\"vocab_size\":30522", "\"vocab_size\":100"));
    assert!(refused().contains("30522"), "{}", refused());
    write(&config);
    std::fs::remove_file(folder.path().join("tokenizer.json")).unwrap();
    assert!(refused().contains("tokenizer.json"), "{}", refused());
}
