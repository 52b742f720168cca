use half::f16;
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

use crate::{BLOCK_TOKENS, Cpu, Isa, KernelError, KvDtype, KvLayout, KvPool, KvRows, Rows, Slot};

const LAYOUT: KvLayout = KvLayout {
    layers: 3,
    kv_heads: 2,
    head_dim: 32,
    dtype: KvDtype::F16,
};

fn slot(block: u32, offset: usize) -> Slot {
    Slot {
        block,
        offset: u8::try_from(offset).unwrap(),
    }
}

fn available() -> impl Iterator<Item = Isa> {
    Isa::ALL.into_iter().filter(|isa| isa.is_available())
}

/// Rows `[k | v]` for all heads, and a pool in which each is stored, in `layer`, at its slot.
fn stored(cpu: &Cpu, layout: KvLayout, layer: usize, slots: &[Slot]) -> (Vec<f32>, KvPool) {
    let mut rng = StdRng::seed_from_u64(7);
    let width = layout.kv_heads * layout.head_dim;
    let data: Vec<f32> = (0..slots.len() * 2 * width)
        .map(|_| rng.random_range(-9.0..9.0))
        .collect();
    let mut pool = KvPool::new(layout, 8).unwrap();
    let rows = |offset| Rows {
        data: &data,
        stride: 2 * width,
        offset,
    };
    cpu.write_kv(
        &mut pool,
        layer,
        KvRows {
            k: rows(0),
            v: rows(width),
        },
        slots,
    );
    (data, pool)
}

#[test]
fn what_is_written_can_be_read() {
    for isa in available() {
        let cpu = Cpu::with_isa(isa, Some(2)).unwrap();
        for dtype in [KvDtype::F16, KvDtype::F32] {
            let layout = KvLayout { dtype, ..LAYOUT };
            let width = layout.kv_heads * layout.head_dim;
            let slots: Vec<_> = (0..100)
                .map(|row| slot(7 - row / 16, row as usize % 16))
                .collect();
            let (data, pool) = stored(&cpu, layout, 1, &slots);
            let rounded = |value: &f32| match dtype {
                KvDtype::F16 => f16::from_f32(*value).to_f32(),
                KvDtype::F32 => *value,
            };
            for (row, &slot) in data.chunks(2 * width).zip(&slots) {
                let row: Vec<f32> = row.iter().map(rounded).collect();
                for head in 0..2 {
                    assert_eq!(
                        pool.key(1, head, slot),
                        row[head * 32..][..32],
                        "{isa} {dtype:?} {slot:?}"
                    );
                    assert_eq!(
                        pool.value(1, head, slot),
                        row[width + head * 32..][..32],
                        "{isa} {dtype:?} {slot:?}"
                    );
                    assert_eq!(pool.key(0, head, slot), [0.0; 32]);
                    assert_eq!(pool.value(2, head, slot), [0.0; 32]);
                }
            }
        }
    }
}

#[test]
fn half_precision_saturates() {
    for isa in available() {
        let cpu = Cpu::with_isa(isa, Some(1)).unwrap();
        let layout = KvLayout {
            layers: 1,
            kv_heads: 1,
            head_dim: 16,
            dtype: KvDtype::F16,
        };
        let mut pool = KvPool::new(layout, 1).unwrap();
        let data: Vec<f32> = (0..16)
            .map(|i| if i % 2 == 0 { 1e9 } else { f32::NEG_INFINITY })
            .collect();
        let rows = Rows {
            data: &data,
            stride: 16,
            offset: 0,
        };
        cpu.write_kv(&mut pool, 0, KvRows { k: rows, v: rows }, &[slot(0, 3)]);
        let expected: Vec<f32> = (0..16)
            .map(|i| if i % 2 == 0 { 65504.0 } else { -65504.0 })
            .collect();
        assert_eq!(pool.key(0, 0, slot(0, 3)), expected, "{isa}");
        assert_eq!(pool.value(0, 0, slot(0, 3)), expected, "{isa}");
    }
}

#[test]
fn copying_takes_the_first_tokens_only() {
    let cpu = Cpu::with_isa(Isa::Scalar, Some(1)).unwrap();
    let slots: Vec<_> = (0..2 * BLOCK_TOKENS)
        .map(|row| slot(u32::from(row >= 16), row % 16))
        .collect();
    for dtype in [KvDtype::F16, KvDtype::F32] {
        let (_, mut pool) = stored(&cpu, KvLayout { dtype, ..LAYOUT }, 2, &slots);
        let before: Vec<_> = (0..16).map(|at| pool.key(2, 1, slot(1, at))).collect();
        pool.copy_block(0, 1, 5);
        for (at, before) in before.iter().enumerate() {
            let copied = at < 5;
            assert_eq!(
                pool.key(2, 1, slot(1, at)) == pool.key(2, 1, slot(0, at)),
                copied,
                "position {at}"
            );
            assert_eq!(
                pool.value(2, 0, slot(1, at)) == pool.value(2, 0, slot(0, at)),
                copied,
                "position {at}"
            );
            assert!(
                copied || pool.key(2, 1, slot(1, at)) == *before,
                "position {at} changed"
            );
        }
    }
}

#[test]
fn blocks_travel_between_pools() {
    let cpu = Cpu::with_isa(Isa::Scalar, Some(1)).unwrap();
    let slots: Vec<_> = (0..16).map(|row| slot(4, row)).collect();
    let (_, pool) = stored(&cpu, LAYOUT, 0, &slots);
    let bytes = pool.export_block(4);
    assert_eq!(bytes.len(), LAYOUT.bytes_per_block());
    let mut other = KvPool::new(LAYOUT, 2).unwrap();
    other.import_block(1, &bytes).unwrap();
    assert_eq!(other.export_block(1), bytes);
    assert_eq!(other.value(0, 1, slot(1, 9)), pool.value(0, 1, slot(4, 9)));
    assert!(other.export_block(0).iter().all(|&byte| byte == 0));
    let error = other.import_block(0, &bytes[1..]).unwrap_err();
    assert!(matches!(error, KernelError::Shape { expected, received, .. } if expected == received + 1));
}

#[test]
fn an_unused_budget_takes_no_memory() {
    let layout = KvLayout {
        layers: 24,
        kv_heads: 2,
        head_dim: 64,
        dtype: KvDtype::F16,
    };
    let blocks = (64 << 30) / layout.bytes_per_block();
    let mut pool = KvPool::new(layout, blocks).unwrap();
    let last = u32::try_from(blocks - 1).unwrap();
    pool.import_block(last, &vec![1; layout.bytes_per_block()])
        .unwrap();
    assert_eq!(pool.export_block(last)[0], 1);
    assert!(matches!(
        KvPool::new(layout, usize::MAX),
        Err(KernelError::OutOfMemory { .. })
    ));
}

#[test]
#[should_panic(expected = "block 8 of a KV pool of 8 blocks")]
fn a_foreign_block_panics() {
    let cpu = Cpu::with_isa(Isa::Scalar, Some(1)).unwrap();
    stored(&cpu, LAYOUT, 0, &[slot(8, 0)]);
}

#[test]
#[should_panic(expected = "values to store: 1 rows of 64 values at offset 64")]
fn rows_that_do_not_fit_panic() {
    let cpu = Cpu::with_isa(Isa::Scalar, Some(1)).unwrap();
    let mut pool = KvPool::new(LAYOUT, 1).unwrap();
    let data = [0.0; 127];
    let rows = |offset| Rows {
        data: &data,
        stride: 128,
        offset,
    };
    cpu.write_kv(
        &mut pool,
        0,
        KvRows {
            k: rows(0),
            v: rows(64),
        },
        &[slot(0, 0)],
    );
}
