//! Attention of Qwen2.5 and MiniLM, all layers of a model.
//!
//! Measured: `Cpu::attention` for every layer in turn, so that keys and values of long contexts come from memory as
//! they do in a model; per token (row) and in GMAC/s of scores and weighted sums, masked positions not counted. Then
//! `Cpu::bidirectional_attention`. Data: random, F16 keys and values, blocks in falling order. Not measured: rotary
//! embedding, storing keys and values, everything else of a layer.
//!
//! Run with `cargo bench -p kernels --bench attention -- [--threads N] [--isa NAME] [--busy] [--case PART_OF_NAME]`.

#![expect(clippy::print_stdout, reason = "a bench reports on standard output")]

use std::time::Duration;

use kernels::{BLOCK_TOKENS, Cpu, KvDtype, KvLayout, KvPool, KvRows, Qkv, Queries, Rows, SequenceRows, Slot};
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

mod timing;

/// Name, layers, query heads, KV heads, head size.
const MODELS: [(&str, usize, usize, usize, usize); 2] = [("0.5B", 24, 14, 2, 64), ("1.5B", 28, 12, 2, 128)];

/// Name, sequences, rows of each, positions before the rows, leading positions that all sequences share.
const CASES: [(&str, usize, usize, usize, usize); 9] = [
    ("prefill 832", 1, 832, 0, 0),
    ("prefill 2048", 1, 2048, 0, 0),
    ("chunk of 256 at 2048", 1, 256, 2048, 0),
    ("8 prompts of 104", 8, 104, 0, 0),
    ("decode at 256", 1, 1, 256, 0),
    ("decode at 2048", 1, 1, 2048, 0),
    ("decode at 8192", 1, 1, 8192, 0),
    ("decode 8 at 2048", 8, 1, 2048, 0),
    ("decode 8 at 2048, shared", 8, 1, 2048, 2032),
];

/// Texts of each length, tokens of a text.
const TEXTS: [(usize, usize); 3] = [(512, 16), (64, 128), (16, 512)];

const SPAN: Duration = Duration::from_millis(500);

fn main() {
    let cpu = timing::cpu();
    let filter = timing::option("--case").unwrap_or_default();
    println!("{}, {} threads; fastest (median)", cpu.isa(), cpu.threads());
    for model in MODELS {
        for case in CASES {
            let name = format!("{} {}", model.0, case.0);
            if name.contains(&filter) {
                causal(&cpu, &name, model, case);
            }
        }
    }
    for texts in TEXTS {
        let name = format!("MiniLM {} texts of {}", texts.0, texts.1);
        if name.contains(&filter) {
            bidirectional(&cpu, &name, texts);
        }
    }
}

fn random(len: usize) -> Vec<f32> {
    let mut rng = StdRng::seed_from_u64(42);
    (0..len).map(|_| rng.random_range(-1.0..1.0)).collect()
}

fn causal(
    cpu: &Cpu,
    name: &str,
    (_, layers, heads, kv_heads, head_dim): (&str, usize, usize, usize, usize),
    (_, count, rows, start, shared): (&str, usize, usize, usize, usize),
) {
    let layout = KvLayout {
        layers,
        kv_heads,
        head_dim,
        dtype: KvDtype::F16,
    };
    let own = (start + rows).div_ceil(BLOCK_TOKENS) - shared / BLOCK_TOKENS;
    let total = shared / BLOCK_TOKENS + count * own;
    let mut ids = (0..u32::try_from(total).expect("few blocks")).rev();
    let stem: Vec<u32> = ids.by_ref().take(shared / BLOCK_TOKENS).collect();
    let blocks: Vec<Vec<u32>> = (0..count)
        .map(|_| stem.iter().copied().chain(ids.by_ref().take(own)).collect())
        .collect();
    let mut pool = KvPool::new(layout, total).expect("the pool fits");
    fill(cpu, &mut pool);
    let width = heads * head_dim;
    let q = random(count * rows * width);
    let sequences: Vec<_> = blocks
        .iter()
        .enumerate()
        .map(|(index, blocks)| SequenceRows {
            first_row: index * rows,
            rows,
            start,
            blocks,
        })
        .collect();
    let queries = Queries {
        rows: Rows {
            data: &q,
            stride: width,
            offset: 0,
        },
        heads,
    };
    let mut out = vec![0.0; q.len()];
    let seconds = timing::time(SPAN, || {
        for layer in 0..layers {
            cpu.attention(pool.layer(layer), queries, &sequences, &mut out);
        }
    });
    let positions: usize = (0..rows).map(|row| start + row + 1).sum();
    report(
        name,
        count * rows,
        (count * positions * width * 2 * layers) as f64,
        seconds,
    );
}

fn fill(cpu: &Cpu, pool: &mut KvPool) {
    let KvLayout {
        layers,
        kv_heads,
        head_dim,
        ..
    } = pool.layout();
    let width = kv_heads * head_dim;
    let data = random(BLOCK_TOKENS * 2 * width);
    let rows = |offset| Rows {
        data: &data,
        stride: 2 * width,
        offset,
    };
    for block in 0..u32::try_from(pool.blocks()).expect("few blocks") {
        let slots: Vec<_> = (0..BLOCK_TOKENS as u8)
            .map(|offset| Slot { block, offset })
            .collect();
        for layer in 0..layers {
            cpu.write_kv(
                pool,
                layer,
                KvRows {
                    k: rows(0),
                    v: rows(width),
                },
                &slots,
            );
        }
    }
}

fn bidirectional(cpu: &Cpu, name: &str, (texts, tokens): (usize, usize)) {
    let (layers, heads, head_dim) = (6, 12, 32);
    let width = heads * head_dim;
    let data = random(texts * tokens * 3 * width);
    let rows = |offset| Rows {
        data: &data,
        stride: 3 * width,
        offset,
    };
    let qkv = Qkv {
        q: rows(0),
        k: rows(width),
        v: rows(2 * width),
        heads,
        head_dim,
    };
    let lengths = vec![tokens; texts];
    let mut out = vec![0.0; texts * tokens * width];
    let seconds = timing::time(SPAN, || {
        for _ in 0..layers {
            cpu.bidirectional_attention(qkv, &lengths, &mut out);
        }
    });
    report(
        name,
        texts * tokens,
        (texts * tokens * tokens * width * 2 * layers) as f64,
        seconds,
    );
}

fn report(name: &str, rows: usize, products: f64, seconds: timing::Seconds) {
    let per_row = |seconds: f64| seconds * 1e3 / rows as f64;
    println!(
        "{name:>32}: {:8.4} ({:8.4}) ms per token, {:6.1} ({:6.1}) GMAC/s",
        per_row(seconds.fastest),
        per_row(seconds.median),
        products / seconds.fastest / 1e9,
        products / seconds.median / 1e9,
    );
}
