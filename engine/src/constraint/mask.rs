//! The set of tokens that may come next.

use toktrie::SimpleVob;

const WORD_BITS: usize = u32::BITS as usize;

/// A set of token ids, one bit each. Ids beyond its length are not in it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TokenMask {
    words: Vec<u32>,
    count: usize,
}

impl TokenMask {
    /// The mask of exactly these tokens of a vocabulary; larger ids are left out.
    #[must_use]
    pub fn from_ids(vocabulary: usize, ids: &[u32]) -> Self {
        let mut words = vec![0; vocabulary.div_ceil(WORD_BITS)];
        for &id in ids.iter().filter(|&&id| (id as usize) < vocabulary) {
            words[id as usize / WORD_BITS] |= 1 << (id as usize % WORD_BITS);
        }
        Self::from_words(words)
    }

    pub(super) fn from_vob(set: SimpleVob) -> Self {
        Self::from_words(set.into())
    }

    fn from_words(words: Vec<u32>) -> Self {
        let count = words.iter().map(|word| word.count_ones() as usize).sum();
        Self { words, count }
    }

    /// Number of tokens allowed.
    #[must_use]
    pub fn count(&self) -> usize {
        self.count
    }

    /// Whether this token is allowed.
    #[must_use]
    pub fn allows(&self, id: u32) -> bool {
        let index = id as usize;
        self.words
            .get(index / WORD_BITS)
            .is_some_and(|word| word >> (index % WORD_BITS) & 1 == 1)
    }

    /// The allowed ids, ascending.
    pub fn ids(&self) -> impl Iterator<Item = u32> + '_ {
        self.words.iter().enumerate().flat_map(|(index, &word)| {
            let base = (index * WORD_BITS) as u32;
            // Clearing the lowest set bit walks a word in as many steps as it has tokens.
            std::iter::successors((word != 0).then_some(word), |&left| {
                let next = left & (left - 1);
                (next != 0).then_some(next)
            })
            .map(move |left| base + left.trailing_zeros())
        })
    }

    /// The bits: token `i` is bit `i % 32` of word `i / 32`.
    #[must_use]
    pub fn words(&self) -> &[u32] {
        &self.words
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn agrees_with_a_list(
            vocabulary in 1usize..200,
            extra in 0usize..70,
            mut ids in proptest::collection::vec(0u32..220, 0..80),
            full in any::<bool>(),
        ) {
            if full {
                ids.extend(0..vocabulary as u32);
            }
            let mask = TokenMask::from_ids(vocabulary, &ids);
            ids.retain(|&id| (id as usize) < vocabulary);
            ids.sort_unstable();
            ids.dedup();
            prop_assert_eq!(mask.ids().collect::<Vec<_>>(), ids.clone());
            prop_assert_eq!(mask.count(), ids.len());
            for id in 0..(vocabulary + extra) as u32 {
                prop_assert_eq!(mask.allows(id), ids.contains(&id));
            }
        }
    }
}
