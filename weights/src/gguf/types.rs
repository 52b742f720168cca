//! Sizes of ggml's tensor types (`ggml.h`, `enum ggml_type` and its traits table).

/// Block layout of one ggml tensor type.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct BlockLayout {
    /// Name as llama.cpp prints it.
    pub(crate) name: &'static str,
    /// Values per block.
    pub(crate) values: u64,
    /// Bytes per block.
    pub(crate) bytes: u64,
}

/// Layout of the type with this id; `None` for ids ggml removed or does not have yet.
pub(crate) fn layout(ggml_type: u32) -> Option<BlockLayout> {
    let (name, values, bytes) = match ggml_type {
        0 => ("F32", 1, 4),
        1 => ("F16", 1, 2),
        2 => ("Q4_0", 32, 18),
        3 => ("Q4_1", 32, 20),
        6 => ("Q5_0", 32, 22),
        7 => ("Q5_1", 32, 24),
        8 => ("Q8_0", 32, 34),
        9 => ("Q8_1", 32, 36),
        10 => ("Q2_K", 256, 84),
        11 => ("Q3_K", 256, 110),
        12 => ("Q4_K", 256, 144),
        13 => ("Q5_K", 256, 176),
        14 => ("Q6_K", 256, 210),
        15 => ("Q8_K", 256, 292),
        16 => ("IQ2_XXS", 256, 66),
        17 => ("IQ2_XS", 256, 74),
        18 => ("IQ3_XXS", 256, 98),
        19 => ("IQ1_S", 256, 50),
        20 => ("IQ4_NL", 32, 18),
        21 => ("IQ3_S", 256, 110),
        22 => ("IQ2_S", 256, 82),
        23 => ("IQ4_XS", 256, 136),
        24 => ("I8", 1, 1),
        25 => ("I16", 1, 2),
        26 => ("I32", 1, 4),
        27 => ("I64", 1, 8),
        28 => ("F64", 1, 8),
        29 => ("IQ1_M", 256, 56),
        30 => ("BF16", 1, 2),
        34 => ("TQ1_0", 256, 54),
        35 => ("TQ2_0", 256, 66),
        39 => ("MXFP4", 32, 17),
        _ => return None,
    };
    Some(BlockLayout { name, values, bytes })
}

/// Name of a ggml type ("Q4_K"), or `ggml type N` for an unknown id.
pub fn ggml_type_name(ggml_type: u32) -> String {
    layout(ggml_type).map_or_else(
        || format!("ggml type {ggml_type}"),
        |layout| layout.name.to_owned(),
    )
}
