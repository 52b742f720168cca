//! The forward pass.

use kernels::{KvPool, KvRows, Linear, OutMode, QuantizedRows, Queries, RopeHeads, Rows, SequenceRows};

use super::batch::Batch;
use super::model::{Layer, Qwen2};

/// Working memory of the forward pass, kept between passes.
#[derive(Debug, Default)]
pub struct Scratch {
    /// `[rows, hidden]`, the residual stream.
    stream: Vec<f32>,
    /// `[rows, q + k + v]`
    qkv: Vec<f32>,
    /// `[rows, q]`
    attention: Vec<f32>,
    /// `[rows, 2 * intermediate]`
    gate_up: Vec<f32>,
    quantized: QuantizedRows,
    /// What is normed in single precision: an embedder's results, the heads of Qwen3.
    states: Vec<f32>,
}

impl Qwen2 {
    /// Computes the batch's rows, writes their keys and values to the pool, and the wanted logits to `logits`
    /// `[batch.outputs(), vocabulary]`.
    ///
    /// A row's result is bitwise the same whatever else is in the batch and however its sequence was cut.
    ///
    /// # Panics
    /// When a token is not in the vocabulary, a position beyond the context, or a block outside the pool.
    pub fn forward(
        &self,
        batch: &Batch<'_>,
        pool: &mut KvPool,
        scratch: &mut Scratch,
        logits: &mut Vec<f32>,
    ) {
        resize(logits, batch.outputs() * self.shape.vocabulary);
        self.layers(batch, pool, scratch);
        if batch.outputs() > 0 {
            let output = self
                .output
                .as_ref()
                .expect("a language model has an output matrix");
            self.norm(&self.norm, scratch);
            self.cpu
                .linear(output, &scratch.quantized, logits, OutMode::Write);
        }
    }

    /// As [`Qwen2::forward`], but gives the wanted rows as they come out of the last norm: `[batch.outputs(), hidden]`.
    pub(crate) fn hidden<'s>(
        &self,
        batch: &Batch<'_>,
        pool: &mut KvPool,
        scratch: &'s mut Scratch,
    ) -> &'s [f32] {
        self.layers(batch, pool, scratch);
        resize(&mut scratch.states, scratch.stream.len());
        let epsilon = self.shape.norm_epsilon;
        self.cpu
            .rms_norm(&scratch.stream, &self.norm, epsilon, &mut scratch.states);
        &scratch.states
    }

    /// Leaves the residual stream of the wanted rows in `scratch.stream`.
    fn layers(&self, batch: &Batch<'_>, pool: &mut KvPool, scratch: &mut Scratch) {
        let hidden = self.shape.hidden;
        if batch.rows() == 0 {
            return;
        }
        resize(&mut scratch.stream, batch.rows() * hidden);
        self.embedding.gather(&batch.tokens, hidden, &mut scratch.stream);
        let last = self.layers.len() - 1;
        for (index, layer) in self.layers.iter().enumerate() {
            self.project(layer, &batch.positions, scratch);
            self.store(index, batch, pool, scratch);
            let sequences = if index < last {
                &batch.sequences
            } else {
                // Of the last layer, rows without output need only their keys and values.
                keep_rows(&mut scratch.stream, hidden, &batch.outputs);
                keep_rows(&mut scratch.qkv, self.shape.qkv(), &batch.outputs);
                &batch.output_sequences
            };
            if !sequences.is_empty() {
                self.attend(index, sequences, pool, scratch);
                self.feed_forward(layer, scratch);
            }
        }
    }

    /// Queries, keys and values of every row, rotated to their positions.
    fn project(&self, layer: &Layer, positions: &[u32], scratch: &mut Scratch) {
        let shape = &self.shape;
        self.norm(&layer.attention_norm, scratch);
        resize(&mut scratch.qkv, positions.len() * shape.qkv());
        self.cpu
            .linear(&layer.qkv, &scratch.quantized, &mut scratch.qkv, OutMode::Write);
        if let Some(norms) = &layer.qk_norm {
            self.norm_heads(norms, scratch);
        }
        let heads = RopeHeads {
            stride: shape.qkv(),
            offset: 0,
            count: shape.heads + shape.kv_heads,
            head_dim: shape.head_dim,
        };
        self.cpu.rope(&mut scratch.qkv, heads, positions, &self.rope);
    }

    /// Normalises each query head and each key head by itself (Qwen3).
    fn norm_heads(&self, [q, k]: &[Vec<f32>; 2], scratch: &mut Scratch) {
        let shape = &self.shape;
        let (queries, keys) = (shape.attention(), shape.kv_heads * shape.head_dim);
        for row in scratch.qkv.chunks_exact_mut(shape.qkv()) {
            let (row_q, rest) = row.split_at_mut(queries);
            for (heads, weight) in [(row_q, q), (&mut rest[..keys], k)] {
                scratch.states.clear();
                scratch.states.extend_from_slice(heads);
                self.cpu
                    .rms_norm(&scratch.states, weight, shape.norm_epsilon, heads);
            }
        }
    }

    fn store(&self, layer: usize, batch: &Batch<'_>, pool: &mut KvPool, scratch: &Scratch) {
        let shape = &self.shape;
        let view = |offset| Rows {
            data: &scratch.qkv,
            stride: shape.qkv(),
            offset,
        };
        let k = view(shape.attention());
        let v = view(shape.attention() + shape.kv_heads * shape.head_dim);
        self.cpu.write_kv(pool, layer, KvRows { k, v }, &batch.slots);
    }

    /// Adds the attention's result to the stream.
    fn attend(&self, index: usize, sequences: &[SequenceRows<'_>], pool: &KvPool, scratch: &mut Scratch) {
        let shape = &self.shape;
        let rows = scratch.stream.len() / shape.hidden;
        resize(&mut scratch.attention, rows * shape.attention());
        let rows = Rows {
            data: &scratch.qkv,
            stride: shape.qkv(),
            offset: 0,
        };
        let queries = Queries {
            rows,
            heads: shape.heads,
        };
        self.cpu
            .attention(pool.layer(index), queries, sequences, &mut scratch.attention);
        self.cpu
            .quantize_rows(&scratch.attention, shape.attention(), &mut scratch.quantized);
        let output = &self.layers[index].attention_output;
        self.add_linear(output, scratch);
    }

    /// Adds the feed-forward part's result to the stream.
    fn feed_forward(&self, layer: &Layer, scratch: &mut Scratch) {
        let intermediate = self.shape.intermediate;
        let rows = scratch.stream.len() / self.shape.hidden;
        self.norm(&layer.feed_forward_norm, scratch);
        resize(&mut scratch.gate_up, rows * 2 * intermediate);
        self.cpu.linear(
            &layer.gate_up,
            &scratch.quantized,
            &mut scratch.gate_up,
            OutMode::Write,
        );
        self.cpu
            .swiglu_quantized(&scratch.gate_up, intermediate, &mut scratch.quantized);
        self.add_linear(&layer.down, scratch);
    }

    /// Leaves the normed, quantised stream in `scratch.quantized`.
    fn norm(&self, weight: &[f32], scratch: &mut Scratch) {
        self.cpu.rms_norm_quantized(
            &scratch.stream,
            weight,
            self.shape.norm_epsilon,
            &mut scratch.quantized,
        );
    }

    fn add_linear(&self, linear: &Linear, scratch: &mut Scratch) {
        self.cpu
            .linear(linear, &scratch.quantized, &mut scratch.stream, OutMode::Add);
    }
}

/// Sets the length; what is there already is about to be overwritten.
fn resize(buffer: &mut Vec<f32>, len: usize) {
    if buffer.len() < len {
        buffer.resize(len, 0.0);
    } else {
        buffer.truncate(len);
    }
}

/// Moves the rows `kept` (ascending) to the front and drops the others.
fn keep_rows(buffer: &mut Vec<f32>, width: usize, kept: &[usize]) {
    for (to, &from) in kept.iter().enumerate() {
        buffer.copy_within(from * width..(from + 1) * width, to * width);
    }
    buffer.truncate(kept.len() * width);
}
