//! Qwen2 in single precision and in the plainest way, on candle's tensors: nothing of it is shared with the
//! code under test.

use std::collections::HashMap;

use candle_core::{D, DType, Device, Result, Tensor};

/// What the tensors' shapes do not say.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Constants {
    pub(crate) layers: usize,
    pub(crate) heads: usize,
    pub(crate) kv_heads: usize,
    pub(crate) rope_base: f32,
    pub(crate) epsilon: f64,
}

/// A model of dequantised tensors under their GGUF names.
pub(crate) struct Reference {
    pub(crate) tensors: HashMap<String, Tensor>,
    pub(crate) constants: Constants,
}

impl Reference {
    fn weight(&self, name: &str) -> &Tensor {
        &self.tensors[name]
    }

    fn linear(&self, x: &Tensor, name: &str) -> Result<Tensor> {
        x.matmul(&self.weight(&format!("{name}.weight")).t()?)
    }

    fn norm(&self, x: &Tensor, name: &str) -> Result<Tensor> {
        let mean = x.sqr()?.mean_keepdim(D::Minus1)?;
        x.broadcast_div(&(mean + self.constants.epsilon)?.sqrt()?)?
            .broadcast_mul(self.weight(name))
    }

    /// Rotates `[heads, tokens, head_dim]`: the first half of a head against its second half.
    fn rotate(&self, x: &Tensor) -> Result<Tensor> {
        let (_, tokens, head_dim) = x.dims3()?;
        let half = head_dim / 2;
        let angles: Vec<f32> = (0..tokens)
            .flat_map(|position| {
                (0..half).map(move |d| {
                    let frequency =
                        f64::from(self.constants.rope_base).powf(-2.0 * d as f64 / head_dim as f64);
                    (position as f64 * frequency) as f32
                })
            })
            .collect();
        let angles = Tensor::from_vec(angles, (1, tokens, half), &Device::Cpu)?;
        let (cos, sin) = (angles.cos()?, angles.sin()?);
        let (a, b) = (x.narrow(2, 0, half)?, x.narrow(2, half, half)?);
        let first = (a.broadcast_mul(&cos)? - b.broadcast_mul(&sin)?)?;
        let second = (b.broadcast_mul(&cos)? + a.broadcast_mul(&sin)?)?;
        Tensor::cat(&[first, second], 2)
    }

    /// `[tokens, width]` to `[heads, tokens, head_dim]`, with a bias (Qwen2) or a norm of each head (Qwen3).
    fn project(&self, x: &Tensor, name: &str, heads: usize) -> Result<Tensor> {
        let mut x = self.linear(x, name)?;
        if let Some(bias) = self.tensors.get(&format!("{name}.bias")) {
            x = x.broadcast_add(bias)?;
        }
        let (tokens, width) = x.dims2()?;
        let mut x = x.reshape((tokens, heads, width / heads))?;
        let norm = format!("{name}_norm.weight");
        if self.tensors.contains_key(&norm) {
            x = self.norm(&x, &norm)?;
        }
        x.transpose(0, 1)?.contiguous()
    }

    fn attention(&self, x: &Tensor, layer: &str) -> Result<Tensor> {
        let q = self.rotate(&self.project(x, &format!("{layer}.attn_q"), self.constants.heads)?)?;
        let k = self.rotate(&self.project(x, &format!("{layer}.attn_k"), self.constants.kv_heads)?)?;
        let v = self.project(x, &format!("{layer}.attn_v"), self.constants.kv_heads)?;
        let (_, tokens, head_dim) = q.dims3()?;
        let group: Vec<u32> = (0..self.constants.heads)
            .map(|head| (head * self.constants.kv_heads / self.constants.heads) as u32)
            .collect();
        let group = Tensor::new(group, &Device::Cpu)?;
        let (k, v) = (k.index_select(&group, 0)?, v.index_select(&group, 0)?);
        let mask: Vec<f32> = (0..tokens * tokens)
            .map(|at| {
                if at % tokens > at / tokens {
                    f32::NEG_INFINITY
                } else {
                    0.0
                }
            })
            .collect();
        let mask = Tensor::from_vec(mask, (1, tokens, tokens), &Device::Cpu)?;
        let scores = (q.matmul(&k.transpose(1, 2)?.contiguous()?)? / (head_dim as f64).sqrt())?;
        let weights = softmax(&scores.broadcast_add(&mask)?)?;
        let mixed = weights
            .matmul(&v)?
            .transpose(0, 1)?
            .reshape((tokens, self.constants.heads * head_dim))?;
        self.linear(&mixed, &format!("{layer}.attn_output"))
    }

    fn feed_forward(&self, x: &Tensor, layer: &str) -> Result<Tensor> {
        let gate = self.linear(x, &format!("{layer}.ffn_gate"))?;
        let up = self.linear(x, &format!("{layer}.ffn_up"))?;
        self.linear(&(gate.silu()? * up)?, &format!("{layer}.ffn_down"))
    }

    /// Hidden states after the last norm: `[tokens, hidden]`.
    pub(crate) fn hidden(&self, tokens: &[u32]) -> Result<Tensor> {
        let ids = Tensor::new(tokens, &Device::Cpu)?;
        let mut x = self
            .weight("token_embd.weight")
            .index_select(&ids, 0)?
            .to_dtype(DType::F32)?;
        for layer in 0..self.constants.layers {
            let layer = format!("blk.{layer}");
            let normed = self.norm(&x, &format!("{layer}.attn_norm.weight"))?;
            x = (x + self.attention(&normed, &layer)?)?;
            let normed = self.norm(&x, &format!("{layer}.ffn_norm.weight"))?;
            x = (x + self.feed_forward(&normed, &layer)?)?;
        }
        self.norm(&x, "output_norm.weight")
    }

    /// Logits of every token: `[tokens, vocabulary]`.
    pub(crate) fn logits(&self, tokens: &[u32]) -> Result<Tensor> {
        let x = self.hidden(tokens)?;
        let output = if self.tensors.contains_key("output.weight") {
            "output"
        } else {
            "token_embd"
        };
        self.linear(&x, output)
    }
}

fn softmax(scores: &Tensor) -> Result<Tensor> {
    let exponentials = scores.broadcast_sub(&scores.max_keepdim(D::Minus1)?)?.exp()?;
    exponentials.broadcast_div(&exponentials.sum_keepdim(D::Minus1)?)
}
