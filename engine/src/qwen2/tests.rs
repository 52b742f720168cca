//! The forward pass on dummy weights: what it gives must not depend on how it is asked.

use std::sync::Arc;

use kernels::{Cpu, KvDtype, KvPool};

use super::*;

fn shape() -> Qwen2Shape {
    Qwen2Shape {
        hidden: 64,
        intermediate: 96,
        layers: 3,
        heads: 4,
        kv_heads: 2,
        head_dim: 16,
        vocabulary: 100,
        context_tokens: 128,
        rope_base: 1e4,
        norm_epsilon: 1e-6,
        qk_norm: false,
    }
}

struct Bench {
    model: Qwen2,
    pool: KvPool,
    scratch: Scratch,
}

impl Bench {
    fn new(threads: usize) -> Self {
        let cpu = Arc::new(Cpu::new(Some(threads)).unwrap());
        let model = Qwen2::dummy(shape(), 1, cpu).unwrap();
        let pool = KvPool::new(model.kv_layout(KvDtype::F16), 32).unwrap();
        Self {
            model,
            pool,
            scratch: Scratch::default(),
        }
    }

    fn forward(&mut self, sequences: &[BatchSequence<'_>]) -> Vec<u32> {
        let mut logits = Vec::new();
        self.model.forward(
            &Batch::new(sequences),
            &mut self.pool,
            &mut self.scratch,
            &mut logits,
        );
        assert!(logits.iter().all(|logit| logit.is_finite()));
        logits.iter().map(|logit| logit.to_bits()).collect()
    }
}

fn tokens(count: u32, seed: u32) -> Vec<u32> {
    (0..count).map(|i| (i * 37 + seed) % 100).collect()
}

fn alone(tokens: &[u32]) -> Vec<u32> {
    let blocks = [0, 1, 2, 3];
    Bench::new(1).forward(&[BatchSequence {
        tokens,
        start: 0,
        blocks: &blocks,
        outputs: tokens.len(),
    }])
}

#[test]
fn chunks_of_a_prompt_give_the_bits_of_the_whole() {
    let tokens = tokens(50, 3);
    let whole = alone(&tokens);
    for cut in [1, 7, 16, 33, 49] {
        let mut bench = Bench::new(2);
        let blocks = [9, 4, 7, 5];
        let (head, tail) = tokens.split_at(cut);
        let mut bits = Vec::new();
        for (start, tokens) in [(0, head), (cut, tail)] {
            bits.extend(bench.forward(&[BatchSequence {
                tokens,
                start,
                blocks: &blocks,
                outputs: tokens.len(),
            }]));
        }
        assert!(bits == whole, "cut at {cut}");
    }
}

#[test]
fn a_ragged_batch_gives_the_bits_of_each_sequence_alone() {
    let prompts = [tokens(1, 0), tokens(30, 5), tokens(17, 9), tokens(40, 11)];
    let blocks = [[0u32, 1, 2], [3, 4, 5], [6, 7, 8], [9, 10, 11]];
    let mut bench = Bench::new(2);
    let batch: Vec<_> = prompts
        .iter()
        .zip(&blocks)
        .map(|(tokens, blocks)| BatchSequence {
            tokens,
            start: 0,
            blocks,
            outputs: 1,
        })
        .collect();
    let together = bench.forward(&batch);
    for (prompt, row) in prompts.iter().zip(together.chunks(100)) {
        assert!(alone(prompt).ends_with(row), "prompt of {}", prompt.len());
    }
}

#[test]
fn rows_without_output_need_no_logits() {
    let tokens = tokens(20, 1);
    let blocks = [0, 1];
    let mut bench = Bench::new(1);
    let silent = BatchSequence {
        tokens: &tokens,
        start: 0,
        blocks: &blocks,
        outputs: 0,
    };
    assert!(bench.forward(&[silent]).is_empty());
    let next = [42];
    let row = bench.forward(&[BatchSequence {
        tokens: &next,
        start: 20,
        blocks: &blocks,
        outputs: 1,
    }]);
    assert!(alone(&[tokens, next.to_vec()].concat()).ends_with(&row));
}

#[test]
fn published_shapes_agree_with_themselves() {
    for name in Qwen2Shape::names() {
        Qwen2Shape::published(name).unwrap().check().unwrap();
    }
    let layout = |name| {
        let shape = Qwen2Shape::published(name).unwrap();
        2 * 2 * shape.layers * shape.kv_heads * shape.head_dim
    };
    assert_eq!(
        (layout("qwen2.5-0.5b"), layout("qwen2.5-14b")),
        (12_288, 196_608),
        "KV bytes per token"
    );
    assert_eq!(Qwen2Shape::published("qwen2.5-9b"), None);
}

#[test]
fn impossible_shapes_are_refused_by_name() {
    let refusal = |shape: Qwen2Shape| shape.check().unwrap_err().to_string();
    assert!(refusal(Qwen2Shape { layers: 0, ..shape() }).contains("block_count is 0"));
    assert!(
        refusal(Qwen2Shape {
            kv_heads: 3,
            ..shape()
        })
        .contains("divisor of the 4 query heads")
    );
}
