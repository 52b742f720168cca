//! Reproducible data for the tests of this crate.

use crate::BlockFormat;

/// A splitmix64 stream.
pub(crate) struct Stream(pub(crate) u64);

impl Stream {
    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// Uniform in -1..1.
    pub(crate) fn unit(&mut self) -> f32 {
        (self.next() >> 40) as f32 / (1_u64 << 23) as f32 - 1.0
    }
}

/// `len` values in -1..1.
pub(crate) fn numbers(seed: u64, len: usize) -> Vec<f32> {
    let mut stream = Stream(seed);
    (0..len).map(|_| stream.unit()).collect()
}

/// `count` blocks of any integers, with scales and minima of ordinary weights.
pub(crate) fn blocks(format: BlockFormat, seed: u64, count: usize) -> Vec<u8> {
    let mut stream = Stream(seed);
    let mut bytes: Vec<u8> = (0..count * format.block_bytes())
        .map(|_| stream.next() as u8)
        .collect();
    for block in bytes.chunks_exact_mut(format.block_bytes()) {
        let mut half = |at: usize, range: f32| {
            let value = half::f16::from_f32(stream.unit() * range);
            block[at..at + 2].copy_from_slice(&value.to_le_bytes());
        };
        match format {
            BlockFormat::F32 => {
                let value = stream.unit();
                block.copy_from_slice(&value.to_le_bytes());
            }
            BlockFormat::F16 => half(0, 1.0),
            BlockFormat::Bf16 => {
                let value = half::bf16::from_f32(stream.unit());
                block.copy_from_slice(&value.to_le_bytes());
            }
            BlockFormat::Q4_0 | BlockFormat::Q5_0 | BlockFormat::Q8_0 => half(0, 0.02),
            BlockFormat::Q4_1 | BlockFormat::Q5_1 => {
                half(0, 0.02);
                half(2, 0.1);
            }
            BlockFormat::Q4K | BlockFormat::Q5K => {
                half(0, 0.001);
                half(2, 0.001);
            }
            BlockFormat::Q6K => half(208, 0.001),
        }
    }
    bytes
}

/// All values of `blocks`.
pub(crate) fn dequantized(format: BlockFormat, bytes: &[u8]) -> Vec<f32> {
    let mut values = vec![0.0; bytes.len() / format.block_bytes() * format.block_len()];
    format.dequantize(bytes, &mut values).unwrap();
    values
}
