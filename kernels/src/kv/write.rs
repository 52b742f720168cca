#![expect(unsafe_code, reason = "several threads write different heads of one pool")]

use half::f16;

use super::layout::BLOCK_TOKENS;
use super::pool::{KvPool, KvValuesMut};
use super::rows::{KvRows, Slot};
use crate::Cpu;
use crate::parallel::SharedSlice;
use crate::simd::{Kernel, LANES, Simd};

/// Rows from which on the heads are shared among threads.
const PARALLEL_ROWS: usize = 64;

impl Cpu {
    /// Stores keys and values of one layer: row `i` goes to `slots[i]`. With [`KvDtype::F16`](crate::KvDtype::F16) values are rounded to nearest even.
    ///
    /// # Panics
    /// When the layer or a slot is not in the pool, or a row does not fit its slice.
    pub fn write_kv(&self, pool: &mut KvPool, layer: usize, kv: KvRows<'_>, slots: &[Slot]) {
        let layout = pool.layout();
        let width = layout.kv_heads * layout.head_dim;
        kv.k.check("keys to store", slots.len(), width);
        kv.v.check("values to store", slots.len(), width);
        slots.iter().for_each(|&slot| {
            pool.check_slot(slot);
        });
        if slots.is_empty() {
            return;
        }
        let first_tile = pool.tile(0, layer, 0).start;
        let target = Target {
            first_tile,
            block_len: layout.block_len(),
            head_dim: layout.head_dim,
            heads: layout.kv_heads,
        };
        match pool.values_mut() {
            KvValuesMut::F16(values) => self.write_values(values, target, kv, slots),
            KvValuesMut::F32(values) => self.write_values(values, target, kv, slots),
        }
    }

    fn write_values<T: Stored>(&self, values: &mut [T], target: Target, kv: KvRows<'_>, slots: &[Slot]) {
        let shared = SharedSlice::new(values);
        let write = |head: usize| {
            self.dispatch(Write {
                values: &shared,
                target,
                kv,
                slots,
                head,
            });
        };
        if slots.len() < PARALLEL_ROWS {
            (0..target.heads).for_each(write);
        } else {
            self.pool().run(target.heads, &write);
        }
    }
}

/// Where one layer's tiles lie.
#[derive(Clone, Copy)]
struct Target {
    /// The first tile of block 0.
    first_tile: usize,
    /// From a tile to the same one in the next block.
    block_len: usize,
    head_dim: usize,
    heads: usize,
}

/// A type in which keys and values are stored.
trait Stored: Copy + Send {
    const ZERO: Self;

    fn store<S: Simd>(simd: S, v: S::V, values: &mut [Self; LANES]);
}

impl Stored for u16 {
    const ZERO: u16 = f16::ZERO.to_bits();

    #[inline(always)]
    fn store<S: Simd>(simd: S, v: S::V, values: &mut [u16; LANES]) {
        simd.store_f16(v, values);
    }
}

impl Stored for f32 {
    const ZERO: f32 = 0.0;

    #[inline(always)]
    fn store<S: Simd>(simd: S, v: S::V, values: &mut [f32; LANES]) {
        simd.store(v, values);
    }
}

/// Writes one head of all rows.
struct Write<'a, T> {
    values: &'a SharedSlice<'a, T>,
    target: Target,
    kv: KvRows<'a>,
    slots: &'a [Slot],
    head: usize,
}

impl<T: Stored> Kernel for Write<'_, T> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self, simd: S) {
        let Target {
            first_tile,
            block_len,
            head_dim,
            ..
        } = self.target;
        let tile_len = head_dim * BLOCK_TOKENS;
        for (index, slot) in self.slots.iter().enumerate() {
            let start = first_tile + slot.block as usize * block_len + self.head * 2 * tile_len;
            // SAFETY: each head's tiles are a range of their own in every block, one task writes one head, and the
            // part is dropped before this task takes the next.
            let tile = unsafe { self.values.part(start..start + 2 * tile_len) };
            let (keys, values) = tile.split_at_mut(tile_len);
            let offset = usize::from(slot.offset);
            let [k, v] = [self.kv.k, self.kv.v]
                .map(|rows| &rows.row(index, (self.head + 1) * head_dim)[self.head * head_dim..]);
            for (key, column) in k
                .as_chunks::<LANES>()
                .0
                .iter()
                .zip(keys.chunks_exact_mut(LANES * BLOCK_TOKENS))
            {
                let mut stored = [T::ZERO; LANES];
                T::store(simd, simd.load(key), &mut stored);
                for (stored, positions) in stored.into_iter().zip(column.chunks_exact_mut(BLOCK_TOKENS)) {
                    positions[offset] = stored;
                }
            }
            let row = &mut values[offset * head_dim..][..head_dim];
            for (value, stored) in v.as_chunks::<LANES>().0.iter().zip(row.as_chunks_mut().0) {
                T::store(simd, simd.load(value), stored);
            }
        }
    }
}
