//! The encoder's forward pass over packed texts.

use kernels::{Cpu, Qkv, Rows};

use super::dense::{DenseScratch, Target};
use super::layers::{BertLayer, BertWeights};
use super::shape::BertShape;

/// Buffers of a pass, kept between passes.
#[derive(Debug, Default)]
pub(super) struct Scratch {
    /// `[rows, hidden]`: the result of the latest pass.
    hidden: Vec<f32>,
    residual: Vec<f32>,
    /// `[rows, 2 * hidden]`: queries and keys.
    qk: Vec<f32>,
    values: Vec<f32>,
    /// `[rows, intermediate]`.
    wide: Vec<f32>,
    dense: DenseScratch,
}

/// An encoder ready to run.
#[derive(Debug)]
pub(super) struct Encoder {
    pub(super) shape: BertShape,
    pub(super) weights: BertWeights,
}

impl Encoder {
    /// The hidden states `[tokens, hidden]` of texts that follow each other, the tokens of each at positions from 0.
    /// Ids are below the vocabulary's size, texts not longer than the positions.
    pub(super) fn run<'a>(&self, cpu: &Cpu, texts: &[&[u32]], scratch: &'a mut Scratch) -> &'a [f32] {
        let lengths: Vec<usize> = texts.iter().map(|text| text.len()).collect();
        let rows: usize = lengths.iter().sum();
        let BertShape {
            hidden, intermediate, ..
        } = self.shape;
        scratch.hidden.resize(rows * hidden, 0.0);
        scratch.residual.resize(rows * hidden, 0.0);
        scratch.qk.resize(rows * 2 * hidden, 0.0);
        scratch.values.resize(rows * hidden, 0.0);
        scratch.wide.resize(rows * intermediate, 0.0);
        self.embed_tokens(texts, &mut scratch.residual);
        cpu.layer_norm(
            &scratch.residual,
            self.weights.norm.affine(),
            self.shape.layer_norm_eps,
            &mut scratch.hidden,
        );
        for layer in &self.weights.layers {
            self.layer(cpu, layer, &lengths, scratch);
        }
        &scratch.hidden
    }

    fn embed_tokens(&self, texts: &[&[u32]], out: &mut [f32]) {
        let hidden = self.shape.hidden;
        let tokens = texts.iter().flat_map(|text| text.iter().enumerate());
        for (row, (position, &id)) in out.chunks_exact_mut(hidden).zip(tokens) {
            let word = &self.weights.words[id as usize * hidden..][..hidden];
            let place = &self.weights.positions[position * hidden..][..hidden];
            for ((value, word), place) in row.iter_mut().zip(word).zip(place) {
                *value = word + place;
            }
        }
    }

    /// Attention and feed-forward, each added to its input and then normalised.
    fn layer(&self, cpu: &Cpu, layer: &BertLayer, lengths: &[usize], scratch: &mut Scratch) {
        let Scratch {
            hidden,
            residual,
            qk,
            values,
            wide,
            dense,
        } = scratch;
        let eps = self.shape.layer_norm_eps;

        layer.qk.apply(cpu, hidden, dense, Target::write(qk));
        layer.value.apply(cpu, hidden, dense, Target::write(values));
        self.attend(cpu, (qk, values), lengths, residual);
        layer
            .attention_out
            .apply(cpu, residual, dense, Target::add(hidden));
        cpu.layer_norm(hidden, layer.attention_norm.affine(), eps, residual);

        layer.up.apply(cpu, residual, dense, Target::write(wide));
        cpu.gelu(wide);
        layer.down.apply(cpu, wide, dense, Target::add(residual));
        cpu.layer_norm(residual, layer.norm.affine(), eps, hidden);
    }

    fn attend(&self, cpu: &Cpu, (qk, values): (&[f32], &[f32]), lengths: &[usize], out: &mut [f32]) {
        let width = self.shape.hidden;
        let rows = |data, stride, offset| Rows { data, stride, offset };
        let qkv = Qkv {
            q: rows(qk, 2 * width, 0),
            k: rows(qk, 2 * width, width),
            v: rows(values, width, 0),
            heads: self.shape.heads,
            head_dim: self.shape.head_dim(),
        };
        cpu.bidirectional_attention(qkv, lengths, out);
    }
}
