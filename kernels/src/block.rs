use crate::KernelError;

mod k_quants;
mod legacy;

/// A weight format of GGUF or safetensors files: consecutive values of a row are stored in blocks of
/// [`block_len`](BlockFormat::block_len) values and [`block_bytes`](BlockFormat::block_bytes) bytes, little-endian.
/// Layouts as in ggml's `ggml-common.h`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum BlockFormat {
    /// IEEE single precision.
    F32,
    /// IEEE half precision.
    F16,
    /// The upper half of single precision.
    Bf16,
    /// 4 bits: `d * (q - 8)`.
    Q4_0,
    /// 4 bits with a minimum: `d * q + m`.
    Q4_1,
    /// 5 bits: `d * (q - 16)`.
    Q5_0,
    /// 5 bits with a minimum: `d * q + m`.
    Q5_1,
    /// 8 bits: `d * q`.
    Q8_0,
    /// 4 bits in blocks of 256 with 6-bit scales and minima for each 32.
    Q4K,
    /// 5 bits in blocks of 256 with 6-bit scales and minima for each 32.
    Q5K,
    /// 6 bits in blocks of 256 with 8-bit scales for each 16.
    Q6K,
}

/// Values of a K-quant block.
pub(crate) const SUPER_BLOCK: usize = 256;

impl BlockFormat {
    /// Every format.
    pub const ALL: [BlockFormat; 11] = [
        BlockFormat::F32,
        BlockFormat::F16,
        BlockFormat::Bf16,
        BlockFormat::Q4_0,
        BlockFormat::Q4_1,
        BlockFormat::Q5_0,
        BlockFormat::Q5_1,
        BlockFormat::Q8_0,
        BlockFormat::Q4K,
        BlockFormat::Q5K,
        BlockFormat::Q6K,
    ];

    /// The format of ggml's type number (`enum ggml_type`), `None` where it is not one of ours.
    #[must_use]
    pub fn from_ggml_type(number: u32) -> Option<BlockFormat> {
        BlockFormat::ALL
            .into_iter()
            .find(|format| format.ggml_type() == number)
    }

    /// ggml's number for the format.
    #[must_use]
    pub fn ggml_type(self) -> u32 {
        match self {
            BlockFormat::F32 => 0,
            BlockFormat::F16 => 1,
            BlockFormat::Q4_0 => 2,
            BlockFormat::Q4_1 => 3,
            BlockFormat::Q5_0 => 6,
            BlockFormat::Q5_1 => 7,
            BlockFormat::Q8_0 => 8,
            BlockFormat::Q4K => 12,
            BlockFormat::Q5K => 13,
            BlockFormat::Q6K => 14,
            BlockFormat::Bf16 => 30,
        }
    }

    /// Values per block.
    #[must_use]
    pub fn block_len(self) -> usize {
        match self {
            BlockFormat::F32 | BlockFormat::F16 | BlockFormat::Bf16 => 1,
            BlockFormat::Q4_0
            | BlockFormat::Q4_1
            | BlockFormat::Q5_0
            | BlockFormat::Q5_1
            | BlockFormat::Q8_0 => 32,
            BlockFormat::Q4K | BlockFormat::Q5K | BlockFormat::Q6K => SUPER_BLOCK,
        }
    }

    /// Bytes per block.
    #[must_use]
    pub fn block_bytes(self) -> usize {
        match self {
            BlockFormat::F32 => 4,
            BlockFormat::F16 | BlockFormat::Bf16 => 2,
            BlockFormat::Q4_0 => 18,
            BlockFormat::Q4_1 => 20,
            BlockFormat::Q5_0 => 22,
            BlockFormat::Q5_1 => 24,
            BlockFormat::Q8_0 => 34,
            BlockFormat::Q4K => 144,
            BlockFormat::Q5K => 176,
            BlockFormat::Q6K => 210,
        }
    }

    /// Bytes of a row of `k` values.
    ///
    /// # Errors
    /// [`KernelError::PartialBlock`] when `k` is not a whole number of blocks.
    pub fn row_bytes(self, k: usize) -> Result<usize, KernelError> {
        if k.is_multiple_of(self.block_len()) {
            Ok(k / self.block_len() * self.block_bytes())
        } else {
            Err(KernelError::PartialBlock {
                k,
                block_len: self.block_len(),
            })
        }
    }

    /// Writes the values of `bytes` to `out`, bit for bit as ggml's `dequantize_row_*` reference does.
    ///
    /// # Errors
    /// [`KernelError::PartialBlock`] when `out` is not a whole number of blocks, [`KernelError::Shape`] when `bytes`
    /// does not hold exactly as many.
    pub fn dequantize(self, bytes: &[u8], out: &mut [f32]) -> Result<(), KernelError> {
        let expected = self.row_bytes(out.len())?;
        if bytes.len() != expected {
            return Err(KernelError::Shape {
                what: "bytes of quantised values",
                expected,
                received: bytes.len(),
            });
        }
        let blocks = bytes
            .chunks_exact(self.block_bytes())
            .zip(out.chunks_exact_mut(self.block_len()));
        match self {
            BlockFormat::F32 => blocks.for_each(|(block, out)| out[0] = f32::from_le_bytes(array(block))),
            BlockFormat::F16 => blocks.for_each(|(block, out)| out[0] = f16_at(block, 0)),
            BlockFormat::Bf16 => {
                blocks.for_each(|(block, out)| out[0] = half::bf16::from_le_bytes(array(block)).to_f32());
            }
            BlockFormat::Q4_0 => blocks.for_each(|(block, out)| legacy::q4_0(block, out)),
            BlockFormat::Q4_1 => blocks.for_each(|(block, out)| legacy::q4_1(block, out)),
            BlockFormat::Q5_0 => blocks.for_each(|(block, out)| legacy::q5_0(block, out)),
            BlockFormat::Q5_1 => blocks.for_each(|(block, out)| legacy::q5_1(block, out)),
            BlockFormat::Q8_0 => blocks.for_each(|(block, out)| legacy::q8_0(block, out)),
            BlockFormat::Q4K => blocks.for_each(|(block, out)| k_quants::q4_k(block, out)),
            BlockFormat::Q5K => blocks.for_each(|(block, out)| k_quants::q5_k(block, out)),
            BlockFormat::Q6K => blocks.for_each(|(block, out)| k_quants::q6_k(block, out)),
        }
        Ok(())
    }
}

pub(crate) use k_quants::{q6_k_quants, six_bit_pairs};
pub(crate) use legacy::fifth_bits;

/// The half-precision number at byte `at`.
pub(crate) fn f16_at(bytes: &[u8], at: usize) -> f32 {
    half::f16::from_bits(f16_bits_at(bytes, at)).to_f32()
}

/// The bits of the half-precision number at byte `at`.
pub(crate) fn f16_bits_at(bytes: &[u8], at: usize) -> u16 {
    u16::from_le_bytes([bytes[at], bytes[at + 1]])
}

fn array<const N: usize>(bytes: &[u8]) -> [u8; N] {
    let mut out = [0; N];
    out.copy_from_slice(bytes);
    out
}

#[cfg(test)]
mod tests;
