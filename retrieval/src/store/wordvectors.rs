//! Vectors of single words, by which a question's word finds its neighbours in the vocabulary.
//!
//! A value holds the scale as little-endian `f32` and one signed byte per dimension: `value = scale * byte`. One
//! byte is enough to tell near from far, and the vocabulary stays a quarter of the turns' vectors.

use crate::RetrievalError;

/// A unit vector at one byte per dimension.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct QuantisedVector {
    pub(crate) scale: f32,
    pub(crate) values: Vec<i8>,
}

impl QuantisedVector {
    /// Scales the vector to unit length first, so that products of two are cosines.
    pub(crate) fn new(vector: &[f32]) -> Self {
        let norm = vector.iter().map(|v| v * v).sum::<f32>().sqrt();
        let largest = vector.iter().fold(0.0f32, |largest, v| largest.max(v.abs()));
        if norm == 0.0 || largest == 0.0 {
            return Self {
                scale: 0.0,
                values: vec![0; vector.len()],
            };
        }
        let step = largest / f32::from(i8::MAX);
        Self {
            scale: step / norm,
            values: vector.iter().map(|v| (v / step).round() as i8).collect(),
        }
    }

    pub(super) fn encode(&self) -> Vec<u8> {
        let values = self.values.iter().map(|value| value.to_le_bytes()[0]);
        self.scale.to_le_bytes().into_iter().chain(values).collect()
    }

    pub(crate) fn decode(bytes: &[u8]) -> Result<Self, RetrievalError> {
        let Some((scale, values)) = bytes.split_first_chunk() else {
            return Err(RetrievalError::Damaged {
                reason: format!("a word vector has {} bytes, expected at least 4", bytes.len()),
            });
        };
        Ok(Self {
            scale: f32::from_le_bytes(*scale),
            values: values.iter().map(|&byte| i8::from_le_bytes([byte])).collect(),
        })
    }
}
