use crate::KernelError;

/// Positions held by one block of a [`KvPool`](crate::KvPool).
pub const BLOCK_TOKENS: usize = 16;

/// The largest head the attention kernels take; their working set per query grows with it.
pub(crate) const MAX_HEAD_DIM: usize = 512;

/// How keys and values are stored. Arithmetic is `f32` in either case.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum KvDtype {
    /// IEEE half precision; values beyond ±65504 are stored as ±65504.
    F16,
    /// IEEE single precision.
    F32,
}

impl KvDtype {
    /// Bytes per value.
    #[must_use]
    pub fn bytes(self) -> usize {
        match self {
            KvDtype::F16 => 2,
            KvDtype::F32 => 4,
        }
    }
}

/// The shape of a model's keys and values.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct KvLayout {
    /// Transformer layers.
    pub layers: usize,
    /// Key-value heads of a layer.
    pub kv_heads: usize,
    /// Values per head; a multiple of 16, at most 512.
    pub head_dim: usize,
    /// How a value is stored.
    pub dtype: KvDtype,
}

impl KvLayout {
    /// Bytes of one block: keys and values of [`BLOCK_TOKENS`] positions in all layers.
    #[must_use]
    pub fn bytes_per_block(&self) -> usize {
        self.block_len() * self.dtype.bytes()
    }

    /// Bytes of one position: keys and values in all layers.
    #[must_use]
    pub fn bytes_per_token(&self) -> usize {
        self.bytes_per_block() / BLOCK_TOKENS
    }

    /// Values in one tile: the keys, or the values, of one head in one block.
    pub(crate) fn tile_len(&self) -> usize {
        self.head_dim * BLOCK_TOKENS
    }

    /// Values in one block.
    pub(crate) fn block_len(&self) -> usize {
        self.layers * self.kv_heads * 2 * self.tile_len()
    }

    pub(crate) fn check(&self) -> Result<(), KernelError> {
        let positive = [
            ("layers of a KV layout", self.layers),
            ("KV heads of a KV layout", self.kv_heads),
        ];
        for (what, received) in positive {
            if received == 0 {
                return Err(KernelError::Shape {
                    what,
                    expected: 1,
                    received,
                });
            }
        }
        if self.head_dim == 0 || self.head_dim > MAX_HEAD_DIM || !self.head_dim.is_multiple_of(16) {
            let expected = self.head_dim.next_multiple_of(16).clamp(16, MAX_HEAD_DIM);
            let what = "head size of a KV layout (a multiple of 16, at most 512)";
            return Err(KernelError::Shape {
                what,
                expected,
                received: self.head_dim,
            });
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_of_known_models() {
        let small = KvLayout {
            layers: 24,
            kv_heads: 2,
            head_dim: 64,
            dtype: KvDtype::F16,
        };
        assert_eq!(small.bytes_per_token(), 12_288);
        let large = KvLayout {
            layers: 48,
            kv_heads: 8,
            head_dim: 128,
            dtype: KvDtype::F16,
        };
        assert_eq!(large.bytes_per_token(), 196_608);
    }

    #[test]
    fn unusable_shapes_are_refused() {
        let good = KvLayout {
            layers: 1,
            kv_heads: 1,
            head_dim: 16,
            dtype: KvDtype::F32,
        };
        assert!(good.check().is_ok());
        assert!(KvLayout { layers: 0, ..good }.check().is_err());
        assert!(KvLayout { kv_heads: 0, ..good }.check().is_err());
        let message = KvLayout { head_dim: 72, ..good }.check().unwrap_err().to_string();
        assert!(message.contains("expected 80, received 72"), "{message}");
    }
}
