//! The obvious twins of the kernels: loops in `f64`, one thread, no blocking. Tests hold every fast path, on the CPU
//! and elsewhere, against them; nothing else should call them.

use crate::{BLOCK_TOKENS, KvLayer, Qkv, Queries, RopeHeads, Rows, SequenceRows, Slot};

/// Root-mean-square normalisation of rows of `weight.len()` values (Zhang and Sennrich 2019, eq. 4).
#[must_use]
pub fn rms_norm(x: &[f32], weight: &[f32], eps: f32) -> Vec<f32> {
    let normalise = |row: &[f32]| {
        let mean = row.iter().map(|&v| square(v)).sum::<f64>() / row.len() as f64;
        let scale = 1.0 / (mean + f64::from(eps)).sqrt();
        row.iter()
            .zip(weight)
            .map(|(&v, &w)| (f64::from(v) * scale * f64::from(w)) as f32)
            .collect::<Vec<_>>()
    };
    x.chunks(weight.len()).flat_map(normalise).collect()
}

/// Layer normalisation of rows of `weight.len()` values (Ba et al. 2016, eq. 4).
#[must_use]
pub fn layer_norm(x: &[f32], weight: &[f32], bias: &[f32], eps: f32) -> Vec<f32> {
    let normalise = |row: &[f32]| {
        let n = row.len() as f64;
        let mean = row.iter().map(|&v| f64::from(v)).sum::<f64>() / n;
        let variance = row.iter().map(|&v| (f64::from(v) - mean).powi(2)).sum::<f64>() / n;
        let scale = 1.0 / (variance + f64::from(eps)).sqrt();
        let affine = |((&v, &w), &b): ((&f32, &f32), &f32)| {
            ((f64::from(v) - mean) * scale * f64::from(w) + f64::from(b)) as f32
        };
        row.iter().zip(weight).zip(bias).map(affine).collect::<Vec<_>>()
    };
    x.chunks(weight.len()).flat_map(normalise).collect()
}

/// `silu(gate) * up` for rows `[gate | up]` of twice `intermediate` values (Shazeer 2020, "SwiGLU").
#[must_use]
pub fn swiglu(gate_up: &[f32], intermediate: usize) -> Vec<f32> {
    let activate = |(&gate, &up): (&f32, &f32)| {
        let gate = f64::from(gate);
        (gate / (1.0 + (-gate).exp()) * f64::from(up)) as f32
    };
    gate_up
        .chunks(2 * intermediate)
        .flat_map(|row| row[..intermediate].iter().zip(&row[intermediate..]).map(activate))
        .collect()
}

/// `x/2 * (1 + erf(x / sqrt 2))` (Hendrycks and Gimpel 2016, the exact form).
#[must_use]
pub fn gelu(x: &[f32]) -> Vec<f32> {
    x.iter()
        .map(|&v| (0.5 * f64::from(v) * erfc(-f64::from(v) / 2_f64.sqrt())) as f32)
        .collect()
}

/// The complementary error function to about 1e-13: Taylor series near 0, continued fraction beyond (Abramowitz and
/// Stegun 7.1.6 and 7.1.14).
#[must_use]
pub fn erfc(x: f64) -> f64 {
    let scale = (-x * x).exp() / std::f64::consts::PI.sqrt();
    if x < 0.0 {
        return 2.0 - erfc(-x);
    }
    if x < 2.5 {
        let mut term = 2.0 * x;
        let mut sum = term;
        for n in 1..100 {
            term *= 2.0 * x * x / f64::from(2 * n + 1);
            sum += term;
        }
        return 1.0 - scale * sum;
    }
    let fraction = (1..200)
        .rev()
        .fold(x, |fraction, n| x + f64::from(n) / 2.0 / fraction);
    scale / fraction
}

/// Rotates the halves of each head by its position's angles (Su et al. 2021, eq. 34, in the pairing of GPT-NeoX:
/// component `d` with `d + head_dim / 2`), angle of pair `d` being `position * base^(-2d / head_dim)`.
pub fn rope(x: &mut [f32], heads: RopeHeads, positions: &[u32], base: f64) {
    let half = heads.head_dim / 2;
    for (row, &position) in x.chunks_mut(heads.stride).zip(positions) {
        for head in row[heads.offset..].chunks_mut(heads.head_dim).take(heads.count) {
            for d in 0..half {
                let angle = f64::from(position) * base.powf(-2.0 * d as f64 / heads.head_dim as f64);
                let (a, b) = (f64::from(head[d]), f64::from(head[d + half]));
                head[d] = (a * angle.cos() - b * angle.sin()) as f32;
                head[d + half] = (b * angle.cos() + a * angle.sin()) as f32;
            }
        }
    }
}

/// Causal attention over paged keys and values (Vaswani et al. 2017, eq. 1; grouped queries: Ainslie et al. 2023).
/// Returns `[rows, heads * head_dim]`; rows in no sequence are zero.
///
/// # Panics
/// As [`Cpu::attention`](crate::Cpu::attention).
#[must_use]
pub fn attention(kv: KvLayer<'_>, queries: Queries<'_>, sequences: &[SequenceRows<'_>]) -> Vec<f32> {
    let (pool, layer) = (kv.pool(), kv.layer());
    let Queries { rows: q, heads } = queries;
    let head_dim = pool.layout().head_dim;
    let group = heads / pool.layout().kv_heads;
    let rows = sequences.iter().map(|s| s.first_row + s.rows).max().unwrap_or(0);
    let mut out = vec![0.0; rows * heads * head_dim];
    for sequence in sequences {
        let slot = |position: usize| {
            let offset = u8::try_from(position % BLOCK_TOKENS).expect("below 16");
            Slot {
                block: sequence.blocks[position / BLOCK_TOKENS],
                offset,
            }
        };
        for (index, head) in (0..sequence.rows).flat_map(|index| (0..heads).map(move |head| (index, head))) {
            let row = sequence.first_row + index;
            let end = sequence.start + index + 1;
            let keys: Vec<_> = (0..end).map(|p| pool.key(layer, head / group, slot(p))).collect();
            let values: Vec<_> = (0..end)
                .map(|p| pool.value(layer, head / group, slot(p)))
                .collect();
            let query = &q.row(row, heads * head_dim)[head * head_dim..][..head_dim];
            out[(row * heads + head) * head_dim..][..head_dim]
                .copy_from_slice(&attend(query, &keys, &values));
        }
    }
    out
}

/// Attention of each row to all rows of its sequence; the rows of several sequences follow each other, `lengths` of
/// them each. Returns `[rows, heads * head_dim]`.
#[must_use]
pub fn bidirectional_attention(qkv: Qkv<'_>, lengths: &[usize]) -> Vec<f32> {
    let Qkv {
        q,
        k,
        v,
        heads,
        head_dim,
    } = qkv;
    let mut out = Vec::new();
    let mut first = 0;
    for &length in lengths {
        for (row, head) in (first..first + length).flat_map(|row| (0..heads).map(move |head| (row, head))) {
            let of_head =
                |rows: Rows<'_>, row| rows.row(row, heads * head_dim)[head * head_dim..][..head_dim].to_vec();
            let keys: Vec<_> = (first..first + length).map(|row| of_head(k, row)).collect();
            let values: Vec<_> = (first..first + length).map(|row| of_head(v, row)).collect();
            out.extend(attend(&of_head(q, row), &keys, &values));
        }
        first += length;
    }
    out
}

/// Softmax of the scaled scores of one query, times the values.
fn attend(query: &[f32], keys: &[Vec<f32>], values: &[Vec<f32>]) -> Vec<f32> {
    let dot = |key: &Vec<f32>| {
        query
            .iter()
            .zip(key)
            .map(|(&a, &b)| f64::from(a) * f64::from(b))
            .sum::<f64>()
    };
    let scores: Vec<f64> = keys
        .iter()
        .map(|key| dot(key) / (query.len() as f64).sqrt())
        .collect();
    let max = scores.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let weights: Vec<f64> = scores.iter().map(|score| (score - max).exp()).collect();
    let total: f64 = weights.iter().sum();
    let component = |d: usize| {
        weights
            .iter()
            .zip(values)
            .map(|(w, value)| w * f64::from(value[d]))
            .sum::<f64>()
            / total
    };
    (0..query.len()).map(|d| component(d) as f32).collect()
}

fn square(value: f32) -> f64 {
    f64::from(value) * f64::from(value)
}
