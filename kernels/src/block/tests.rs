use std::borrow::Cow;

use candle_core::quantized::{GgmlDType, QStorage, QTensor};
use candle_core::{DType, Device};

use super::*;
use crate::samples::{blocks, dequantized};

const COUNT: usize = 40;

fn candle_type(format: BlockFormat) -> GgmlDType {
    match format {
        BlockFormat::F32 => GgmlDType::F32,
        BlockFormat::F16 => GgmlDType::F16,
        BlockFormat::Bf16 => GgmlDType::BF16,
        BlockFormat::Q4_0 => GgmlDType::Q4_0,
        BlockFormat::Q4_1 => GgmlDType::Q4_1,
        BlockFormat::Q5_0 => GgmlDType::Q5_0,
        BlockFormat::Q5_1 => GgmlDType::Q5_1,
        BlockFormat::Q8_0 => GgmlDType::Q8_0,
        BlockFormat::Q4K => GgmlDType::Q4K,
        BlockFormat::Q5K => GgmlDType::Q5K,
        BlockFormat::Q6K => GgmlDType::Q6K,
    }
}

#[test]
fn values_are_candles_bit_for_bit() {
    for format in BlockFormat::ALL {
        let bytes = blocks(format, 7, COUNT);
        let storage = QStorage::from_data(Cow::Borrowed(&bytes), &Device::Cpu, candle_type(format)).unwrap();
        let tensor = QTensor::new(storage, COUNT * format.block_len()).unwrap();
        let theirs = tensor
            .dequantize(&Device::Cpu)
            .unwrap()
            .to_dtype(DType::F32)
            .unwrap();
        let theirs: Vec<u32> = theirs
            .to_vec1::<f32>()
            .unwrap()
            .into_iter()
            .map(f32::to_bits)
            .collect();
        let ours: Vec<u32> = dequantized(format, &bytes)
            .into_iter()
            .map(f32::to_bits)
            .collect();
        assert_eq!(ours, theirs, "{format:?}");
    }
}

#[test]
fn numbers_of_ggml_map_back() {
    for format in BlockFormat::ALL {
        assert_eq!(BlockFormat::from_ggml_type(format.ggml_type()), Some(format));
    }
    assert_eq!(BlockFormat::from_ggml_type(10), None, "Q2_K");
}

#[test]
fn partial_blocks_and_wrong_lengths_are_refused() {
    let mut out = vec![0.0; 48];
    let error = BlockFormat::Q5_0.dequantize(&[0; 33], &mut out).unwrap_err();
    assert!(
        matches!(error, KernelError::PartialBlock { k: 48, block_len: 32 }),
        "{error}"
    );
    let error = BlockFormat::Q5_0
        .dequantize(&[0; 21], &mut out[..32])
        .unwrap_err();
    assert!(
        matches!(
            error,
            KernelError::Shape {
                expected: 22,
                received: 21,
                ..
            }
        ),
        "{error}"
    );
}
