//! Random weights of any shape, for measurements and tests where no file is at hand.

use std::sync::Arc;

use kernels::{Cpu, Linear, TiledMatrix};

use super::embedding::Embedding;
use super::model::{Layer, Qwen2};
use super::shape::Qwen2Shape;
use crate::LoadError;

/// Standard deviation of the published models' initialisation.
const DEVIATION: f32 = 0.02;

/// SplitMix64 (Steele, Lea and Flood, 2014): equal seeds give equal weights on every platform.
pub(super) struct Random(u64);

impl Random {
    pub(super) fn new(seed: u64) -> Self {
        Self(seed)
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    /// Uniform values of mean 0 and this standard deviation.
    pub(super) fn fill(&mut self, out: &mut [f32], deviation: f32) {
        let width = deviation * 12f32.sqrt();
        for pair in out.chunks_mut(2) {
            let bits = self.next();
            for (value, half) in pair.iter_mut().zip([bits as u32, (bits >> 32) as u32]) {
                *value = (half as f32 / u32::MAX as f32 - 0.5) * width;
            }
        }
    }

    fn matrix(&mut self, n: usize, k: usize) -> Result<TiledMatrix, LoadError> {
        let mut values = vec![0.0; n * k];
        self.fill(&mut values, DEVIATION);
        Ok(TiledMatrix::from_f32(n, k, &values)?)
    }

    fn vector(&mut self, n: usize) -> Vec<f32> {
        let mut values = vec![0.0; n];
        self.fill(&mut values, DEVIATION);
        values
    }
}

impl Qwen2 {
    /// A model of this shape with weights drawn from a seed, stored as 8-bit integers.
    ///
    /// # Errors
    /// [`LoadError::ModelConfig`] for an impossible shape, [`LoadError::Kernel`] when memory is short.
    pub fn dummy(shape: Qwen2Shape, seed: u64, cpu: Arc<Cpu>) -> Result<Self, LoadError> {
        shape.check()?;
        let mut random = Random::new(seed);
        let Qwen2Shape {
            hidden, intermediate, ..
        } = shape;
        let kv = shape.kv_heads * shape.head_dim;
        let layers = (0..shape.layers)
            .map(|_| {
                let (head, qk_norm) = (vec![1.0; shape.head_dim], shape.qk_norm);
                let bias = (!qk_norm).then(|| random.vector(shape.qkv()));
                let qkv = vec![
                    random.matrix(shape.attention(), hidden)?,
                    random.matrix(kv, hidden)?,
                    random.matrix(kv, hidden)?,
                ];
                let gate_up = vec![
                    random.matrix(intermediate, hidden)?,
                    random.matrix(intermediate, hidden)?,
                ];
                Ok(Layer {
                    attention_norm: vec![1.0; hidden],
                    qkv: Linear::new(qkv, bias)?,
                    qk_norm: qk_norm.then(|| [head.clone(), head]),
                    attention_output: Linear::new(vec![random.matrix(hidden, shape.attention())?], None)?,
                    feed_forward_norm: vec![1.0; hidden],
                    gate_up: Linear::new(gate_up, None)?,
                    down: Linear::new(vec![random.matrix(hidden, intermediate)?], None)?,
                })
            })
            .collect::<Result<Vec<_>, LoadError>>()?;
        let output = Linear::new(vec![random.matrix(shape.vocabulary, hidden)?], None)?;
        let norm = vec![1.0; hidden];
        Self::assemble(
            shape,
            cpu,
            (Embedding::Dummy { seed }, layers, norm, Some(output)),
        )
    }
}
