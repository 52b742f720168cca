//! Vectors of single words, by which a question's word finds its neighbours in the vocabulary.
//!
//! A value holds one signed byte per dimension: the vector's direction, the largest component being 127. That is
//! enough to tell near from far, and the vocabulary stays a quarter of the turns' vectors.

use crate::RetrievalError;

/// The direction of a vector, one byte per dimension.
pub(super) fn encode(vector: &[f32]) -> Vec<u8> {
    let largest = vector.iter().fold(0.0f32, |largest, v| largest.max(v.abs()));
    let scale = if largest > 0.0 {
        f32::from(i8::MAX) / largest
    } else {
        0.0
    };
    vector
        .iter()
        .map(|v| ((v * scale).round() as i8).to_le_bytes()[0])
        .collect()
}

/// A vector of the stored direction, of whatever length.
pub(crate) fn decode(bytes: &[u8], dimension: usize) -> Result<Vec<f32>, RetrievalError> {
    if bytes.len() != dimension {
        return Err(RetrievalError::Damaged {
            reason: format!("a word vector has {} bytes, expected {dimension}", bytes.len()),
        });
    }
    Ok(bytes
        .iter()
        .map(|&byte| f32::from(i8::from_le_bytes([byte])))
        .collect())
}
