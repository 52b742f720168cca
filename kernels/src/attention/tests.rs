use proptest::prelude::*;
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

use crate::{
    BLOCK_TOKENS, Cpu, Isa, KvDtype, KvLayout, KvPool, KvRows, Qkv, Queries, Rows, SequenceRows, Slot,
    reference,
};

/// A model's heads.
#[derive(Debug, Clone, Copy)]
struct Shape {
    kv_heads: usize,
    group: usize,
    head_dim: usize,
    dtype: KvDtype,
}

impl Shape {
    fn heads(&self) -> usize {
        self.kv_heads * self.group
    }

    fn width(&self) -> usize {
        self.heads() * self.head_dim
    }
}

/// A sequence to make: its positions, and how many leading blocks it shares with the one before.
#[derive(Debug, Clone, Copy)]
struct Wanted {
    len: usize,
    shared: usize,
}

/// Sequences whose keys and values are all stored, with a query for each position. Places in the pool that belong to no
/// position hold what is not a number.
struct World {
    shape: Shape,
    pool: KvPool,
    blocks: Vec<Vec<u32>>,
    lens: Vec<usize>,
    queries: Vec<Vec<f32>>,
}

const LAYER: usize = 1;

/// Every value is what is not a number until it is written.
fn poisoned_pool(layout: KvLayout, blocks: usize) -> KvPool {
    let mut pool = KvPool::new(layout, blocks).unwrap();
    for block in 0..u32::try_from(blocks).unwrap() {
        pool.import_block(block, &vec![0xFF; layout.bytes_per_block()])
            .unwrap();
    }
    pool
}

impl World {
    fn new(shape: Shape, wanted: &[Wanted], seed: u64) -> World {
        let mut rng = StdRng::seed_from_u64(seed);
        let mut values = |len: usize| {
            (0..len)
                .map(|_| rng.random_range(-2.0..2.0))
                .collect::<Vec<f32>>()
        };
        let layout = KvLayout {
            layers: 2,
            kv_heads: shape.kv_heads,
            head_dim: shape.head_dim,
            dtype: shape.dtype,
        };
        let total: usize = wanted.iter().map(|w| w.len.div_ceil(BLOCK_TOKENS)).sum();
        let mut pool = poisoned_pool(layout, total);
        let cpu = Cpu::with_isa(Isa::Scalar, Some(1)).unwrap();
        let mut next = (0..u32::try_from(total).unwrap()).rev();
        let mut blocks: Vec<Vec<u32>> = Vec::new();
        for wanted in wanted {
            // Only whole blocks of the one before can be shared.
            let before = blocks.last().map_or(&[][..], Vec::as_slice);
            let count = wanted.len.div_ceil(BLOCK_TOKENS);
            let shared = wanted.shared.min(count).min(before.len().saturating_sub(1));
            let own: Vec<u32> = before[..shared]
                .iter()
                .copied()
                .chain(next.by_ref().take(count - shared))
                .collect();
            let slots: Vec<Slot> = (shared * BLOCK_TOKENS..wanted.len)
                .map(|position| slot(&own, position))
                .collect();
            let width = shape.kv_heads * shape.head_dim;
            let kv = values(slots.len() * 2 * width);
            let rows = |offset| Rows {
                data: &kv,
                stride: 2 * width,
                offset,
            };
            cpu.write_kv(
                &mut pool,
                LAYER,
                KvRows {
                    k: rows(0),
                    v: rows(width),
                },
                &slots,
            );
            blocks.push(own);
        }
        let queries = wanted.iter().map(|w| values(w.len * shape.width())).collect();
        World {
            shape,
            pool,
            blocks,
            lens: wanted.iter().map(|w| w.len).collect(),
            queries,
        }
    }

    /// Attention of the given `(sequence, start, rows)` in one call: a result for each row, in that order.
    fn attend(&self, cpu: &Cpu, batch: &[(usize, usize, usize)]) -> Vec<Vec<f32>> {
        let width = self.shape.width();
        self.with_batch(batch, |queries, sequences| {
            let mut out = vec![f32::NAN; queries.rows.data.len() / (width + 3) * width];
            cpu.attention(self.pool.layer(LAYER), queries, sequences, &mut out);
            out.chunks(width).map(<[f32]>::to_vec).collect()
        })
    }

    fn reference(&self, batch: &[(usize, usize, usize)]) -> Vec<Vec<f32>> {
        self.with_batch(batch, |queries, sequences| {
            let out = reference::attention(self.pool.layer(LAYER), queries, sequences);
            out.chunks(self.shape.width()).map(<[f32]>::to_vec).collect()
        })
    }

    /// Queries in rows that are 3 values wider than they need be.
    fn with_batch<R>(
        &self,
        batch: &[(usize, usize, usize)],
        run: impl FnOnce(Queries<'_>, &[SequenceRows<'_>]) -> R,
    ) -> R {
        let width = self.shape.width();
        let mut data = Vec::new();
        let mut sequences = Vec::new();
        let mut first_row = 0;
        for &(sequence, start, rows) in batch {
            for query in self.queries[sequence].chunks(width).skip(start).take(rows) {
                data.extend([f32::NAN; 2]);
                data.extend(query);
                data.push(f32::NAN);
            }
            sequences.push(SequenceRows {
                first_row,
                rows,
                start,
                blocks: &self.blocks[sequence],
            });
            first_row += rows;
        }
        let rows = Rows {
            data: &data,
            stride: width + 3,
            offset: 2,
        };
        run(
            Queries {
                rows,
                heads: self.shape.heads(),
            },
            &sequences,
        )
    }

    /// Each row of every sequence in a call of its own.
    fn one_by_one(&self, cpu: &Cpu) -> Vec<Vec<Vec<f32>>> {
        let of_sequence = |sequence: usize| {
            (0..self.lens[sequence])
                .map(|at| self.attend(cpu, &[(sequence, at, 1)]).remove(0))
                .collect()
        };
        (0..self.lens.len()).map(of_sequence).collect()
    }
}

fn slot(blocks: &[u32], position: usize) -> Slot {
    Slot {
        block: blocks[position / BLOCK_TOKENS],
        offset: u8::try_from(position % BLOCK_TOKENS).unwrap(),
    }
}

fn cpu(isa: Isa, threads: usize) -> Cpu {
    Cpu::with_isa(isa, Some(threads)).unwrap()
}

fn available() -> Vec<Isa> {
    Isa::ALL.into_iter().filter(|isa| isa.is_available()).collect()
}

fn assert_close(found: &[Vec<f32>], exact: &[Vec<f32>], what: &str) {
    assert_eq!(found.len(), exact.len());
    for (row, (found, exact)) in found.iter().zip(exact).enumerate() {
        for (found, exact) in found.iter().zip(exact) {
            // Values are at most 2.
            assert!(
                (found - exact).abs() < 4e-5,
                "{what}, row {row}: {found} for {exact}"
            );
        }
    }
}

fn shapes() -> impl Strategy<Value = Shape> {
    let head_dims = prop::sample::select(vec![16_usize, 32, 48, 64, 80, 96, 128]);
    let dtypes = prop::sample::select(vec![KvDtype::F16, KvDtype::F32]);
    (1_usize..4, 1_usize..9, head_dims, dtypes).prop_map(|(kv_heads, group, head_dim, dtype)| Shape {
        kv_heads,
        group,
        head_dim,
        dtype,
    })
}

fn sequences(longest: usize) -> impl Strategy<Value = Vec<Wanted>> {
    prop::collection::vec(
        (1..longest, 0_usize..20).prop_map(|(len, shared)| Wanted { len, shared }),
        1..5,
    )
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    /// Ragged batches of decoding rows, chunks and whole prompts, some of them empty.
    #[test]
    fn attention_agrees_with_its_twin(
        (shape, wanted, seed) in (shapes(), sequences(150), any::<u64>()),
        cuts in prop::collection::vec((0.0_f64..1.0, 0.0_f64..1.0), 4),
    ) {
        let world = World::new(shape, &wanted, seed);
        let batch: Vec<_> = world.lens.iter().zip(&cuts).enumerate().map(|(sequence, (&len, &(from, to)))| {
            let start = (len as f64 * from) as usize;
            (sequence, start, ((len - start) as f64 * to).round() as usize)
        }).collect();
        let exact = world.reference(&batch);
        for isa in available() {
            let found = world.attend(&cpu(isa, 2), &batch);
            assert_close(&found, &exact, isa.name());
        }
    }

    /// The central promise: a row's bits do not depend on how the prompt was cut, who shares the batch or the
    /// blocks, how many threads take part, or which set with fused multiply-add computes.
    #[test]
    fn a_row_is_the_same_in_any_batch(
        (shape, wanted, seed) in (shapes(), sequences(400), any::<u64>()),
        (cut, threads) in (1_usize..200, 2_usize..6),
    ) {
        let world = World::new(shape, &wanted, seed);
        for isa in available() {
            let alone = world.one_by_one(&cpu(isa, 1));
            for threads in [1, threads] {
                let cpu = cpu(isa, threads);
                let whole: Vec<_> = world.lens.iter().enumerate().map(|(s, &len)| (s, 0, len)).collect();
                prop_assert!(world.attend(&cpu, &whole) == alone.concat(), "whole prompts, {isa}, {threads} threads");
                let last: Vec<_> = world.lens.iter().enumerate().map(|(s, &len)| (s, len - 1, 1)).collect();
                let of_last: Vec<_> = alone.iter().map(|rows| rows[rows.len() - 1].clone()).collect();
                prop_assert!(world.attend(&cpu, &last) == of_last, "decoding, {isa}, {threads} threads");
                for (sequence, &len) in world.lens.iter().enumerate() {
                    let chunks = (0..len).step_by(cut).map(|at| (sequence, at, cut.min(len - at)));
                    let chunked: Vec<_> = chunks.flat_map(|chunk| world.attend(&cpu, &[chunk])).collect();
                    prop_assert!(chunked == alone[sequence], "chunks of {cut}, {isa}, {threads} threads");
                }
            }
        }
    }
}

#[test]
fn fused_sets_agree_bit_for_bit() {
    let fused: Vec<_> = available()
        .into_iter()
        .filter(|&isa| isa != Isa::Scalar)
        .collect();
    let shape = Shape {
        kv_heads: 2,
        group: 7,
        head_dim: 64,
        dtype: KvDtype::F16,
    };
    let world = World::new(shape, &[Wanted { len: 300, shared: 0 }], 3);
    for pair in fused.windows(2) {
        let [one, other] = [pair[0], pair[1]].map(|isa| world.attend(&cpu(isa, 2), &[(0, 0, 300)]));
        assert!(one == other, "{} and {}", pair[0], pair[1]);
    }
}

/// Long enough for a row to be shared by several threads, and more rows than one task takes.
#[test]
fn long_contexts_are_split_and_merged() {
    let shape = Shape {
        kv_heads: 1,
        group: 7,
        head_dim: 64,
        dtype: KvDtype::F16,
    };
    let wanted = [
        Wanted { len: 1500, shared: 0 },
        Wanted {
            len: 1300,
            shared: 60,
        },
        Wanted {
            len: 1400,
            shared: 70,
        },
    ];
    let world = World::new(shape, &wanted, 11);
    let batch = [(0, 1499, 1), (1, 1200, 40), (2, 1399, 1), (2, 1380, 0)];
    let exact = world.reference(&batch);
    for isa in available() {
        let serial = world.attend(&cpu(isa, 1), &batch);
        assert_close(&serial, &exact, isa.name());
        for threads in [2, 3, 8] {
            assert!(
                world.attend(&cpu(isa, threads), &batch) == serial,
                "{isa}, {threads} threads"
            );
        }
    }
}

#[test]
fn large_scores_do_not_overflow() {
    let shape = Shape {
        kv_heads: 1,
        group: 1,
        head_dim: 16,
        dtype: KvDtype::F32,
    };
    let mut world = World::new(shape, &[Wanted { len: 100, shared: 0 }], 5);
    world.queries[0].iter_mut().for_each(|value| *value *= 1e4);
    let exact = world.reference(&[(0, 0, 100)]);
    for isa in available() {
        let found = world.attend(&cpu(isa, 1), &[(0, 0, 100)]);
        for (found, exact) in found.concat().iter().zip(exact.concat()) {
            // A score of 1e5 is known to 1e-2: the weights are, too.
            assert!((found - exact).abs() < 0.2, "{isa}: {found} for {exact}");
        }
    }
}

#[test]
#[should_panic(expected = "of two sequences overlap")]
fn a_row_of_two_sequences_panics() {
    let shape = Shape {
        kv_heads: 1,
        group: 1,
        head_dim: 16,
        dtype: KvDtype::F32,
    };
    let world = World::new(shape, &[Wanted { len: 4, shared: 0 }], 5);
    let one = SequenceRows {
        first_row: 0,
        rows: 2,
        start: 0,
        blocks: &world.blocks[0],
    };
    let rows = Rows {
        data: &world.queries[0],
        stride: 16,
        offset: 0,
    };
    let other = SequenceRows { first_row: 1, ..one };
    cpu(Isa::Scalar, 1).attention(
        world.pool.layer(LAYER),
        Queries { rows, heads: 1 },
        &[one, other],
        &mut [0.0; 64],
    );
}

#[test]
#[should_panic(expected = "1 blocks for 17 positions")]
fn too_few_blocks_panic() {
    let shape = Shape {
        kv_heads: 1,
        group: 1,
        head_dim: 16,
        dtype: KvDtype::F32,
    };
    let world = World::new(shape, &[Wanted { len: 4, shared: 0 }], 5);
    world.attend(&cpu(Isa::Scalar, 1), &[(0, 16, 1)]);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    /// Ragged batches, a sequence among them alone, one thread and several.
    #[test]
    fn bidirectional_attention_agrees_with_its_twin(
        lengths in prop::collection::vec(0_usize..120, 1..5),
        (heads, head_dim) in (1_usize..4, prop::sample::select(vec![16_usize, 32, 64])),
        seed in any::<u64>(),
    ) {
        let mut rng = StdRng::seed_from_u64(seed);
        let width = heads * head_dim;
        let total: usize = lengths.iter().sum();
        let data: Vec<f32> = (0..total * 3 * width).map(|_| rng.random_range(-2.0..2.0)).collect();
        let rows = |offset, first: usize| Rows { data: &data[first * 3 * width..], stride: 3 * width, offset };
        let qkv = |first| Qkv { q: rows(0, first), k: rows(width, first), v: rows(2 * width, first), heads, head_dim };
        let exact = reference::bidirectional_attention(qkv(0), &lengths);
        for isa in available() {
            let run = |first: usize, lengths: &[usize], threads: usize| {
                let mut out = vec![f32::NAN; lengths.iter().sum::<usize>() * width];
                cpu(isa, threads).bidirectional_attention(qkv(first), lengths, &mut out);
                out
            };
            let found = run(0, &lengths, 1);
            assert_close(std::slice::from_ref(&found), std::slice::from_ref(&exact), isa.name());
            prop_assert!(run(0, &lengths, 3) == found, "{isa}, 3 threads");
            let mut first = 0;
            for length in lengths.iter().copied() {
                prop_assert!(run(first, &[length], 2) == found[first * width..(first + length) * width], "{isa}, alone");
                first += length;
            }
        }
    }
}
