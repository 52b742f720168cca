//! Norms, rotary embedding, activations, storing of keys and values, and the choices over a vocabulary.
//!
//! Measured: one call, for one row (a decoding step) and for 512 (a prefill), at the shapes of Qwen2.5 0.5B, and of
//! MiniLM for layer_norm and gelu. Data: random, in the cache. Not measured: attention and products.
//!
//! Run with `cargo bench -p kernels --bench elementwise -- [--threads N] [--isa NAME] [--busy]`.

#![expect(clippy::print_stdout, reason = "a bench reports on standard output")]

use std::time::Duration;

use kernels::{
    Affine, Cpu, KvDtype, KvLayout, KvPool, KvRows, QuantizedRows, RopeHeads, RopeTable, Rows, Slot,
};
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

mod timing;

const SPAN: Duration = Duration::from_millis(200);
const HIDDEN: usize = 896;
const INTERMEDIATE: usize = 4864;
const QKV: usize = (14 + 2 + 2) * 64;
const VOCABULARY: usize = 151_936;

fn main() {
    let cpu = timing::cpu();
    println!("{}, {} threads; fastest (median)", cpu.isa(), cpu.threads());
    for rows in [1, 8, 512] {
        norms(&cpu, rows);
        activations(&cpu, rows);
        positions(&cpu, rows);
    }
    vocabulary(&cpu);
}

fn random(len: usize) -> Vec<f32> {
    let mut rng = StdRng::seed_from_u64(42);
    (0..len).map(|_| rng.random_range(-4.0..4.0)).collect()
}

fn report(name: &str, rows: usize, call: impl FnMut()) {
    let seconds = timing::time(SPAN, call);
    println!(
        "{name:>17} x {rows:<4} {:10.2} ({:10.2}) us",
        seconds.fastest * 1e6,
        seconds.median * 1e6
    );
}

fn norms(cpu: &Cpu, rows: usize) {
    let (x, weight) = (random(rows * HIDDEN), random(HIDDEN));
    let mut out = vec![0.0; x.len()];
    report("rms_norm", rows, || cpu.rms_norm(&x, &weight, 1e-6, &mut out));
    let mut rounded = QuantizedRows::new();
    report("rms_norm, rounded", rows, || {
        cpu.rms_norm_quantized(&x, &weight, 1e-6, &mut rounded)
    });
    let (weight, bias) = (&weight[..384], &weight[384..768]);
    let mut out = vec![0.0; rows * 384];
    report("layer_norm", rows, || {
        cpu.layer_norm(&x[..rows * 384], Affine { weight, bias }, 1e-12, &mut out)
    });
}

fn activations(cpu: &Cpu, rows: usize) {
    let x = random(rows * 2 * INTERMEDIATE);
    let mut out = vec![0.0; rows * INTERMEDIATE];
    report("swiglu", rows, || cpu.swiglu(&x, INTERMEDIATE, &mut out));
    let mut rounded = QuantizedRows::new();
    report("swiglu, rounded", rows, || {
        cpu.swiglu_quantized(&x, INTERMEDIATE, &mut rounded)
    });
    let mut x = random(rows * 1536);
    report("gelu", rows, || cpu.gelu(&mut x));
}

fn positions(cpu: &Cpu, rows: usize) {
    let table = RopeTable::new(64, 1e6, 1024);
    let mut x = random(rows * QKV);
    let positions: Vec<u32> = (0..).take(rows).collect();
    let heads = RopeHeads {
        stride: QKV,
        offset: 0,
        count: 16,
        head_dim: 64,
    };
    report("rope", rows, || cpu.rope(&mut x, heads, &positions, &table));
    let layout = KvLayout {
        layers: 24,
        kv_heads: 2,
        head_dim: 64,
        dtype: KvDtype::F16,
    };
    let mut pool = KvPool::new(layout, 64).expect("the pool fits");
    let slots: Vec<_> = (0..rows)
        .map(|row| Slot {
            block: (row / 16) as u32,
            offset: (row % 16) as u8,
        })
        .collect();
    let columns = |offset| Rows {
        data: &x,
        stride: QKV,
        offset,
    };
    let kv = KvRows {
        k: columns(14 * 64),
        v: columns(16 * 64),
    };
    report("write_kv", rows, || cpu.write_kv(&mut pool, 3, kv, &slots));
}

fn vocabulary(cpu: &Cpu) {
    let mut logits = random(VOCABULARY);
    let allowed = vec![0x0F0F_FFFF_u32; VOCABULARY.div_ceil(32)];
    report("argmax", 1, || {
        std::hint::black_box(cpu.argmax(&logits));
    });
    report("top_k 40", 1, || {
        std::hint::black_box(cpu.top_k(&logits, 40));
    });
    report("log_sum_exp", 1, || {
        std::hint::black_box(cpu.log_sum_exp(&logits));
    });
    report("mask_logits", 1, || cpu.mask_logits(&mut logits, &allowed));
}
