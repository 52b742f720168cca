//! One forward pass's input: rows of many sequences, packed.

use kernels::{BLOCK_TOKENS, SequenceRows, Slot};

/// Consecutive rows of one sequence.
#[derive(Debug, Clone, Copy)]
pub struct BatchSequence<'a> {
    /// Token ids of the rows.
    pub tokens: &'a [u32],
    /// Position of the first row. The keys and values of all positions before it are in the blocks.
    pub start: usize,
    /// The sequence's blocks, for at least `start + tokens.len()` positions.
    pub blocks: &'a [u32],
    /// Logits are wanted for this many of the last rows.
    pub outputs: usize,
}

/// Rows of many sequences, one behind the other, without padding.
#[derive(Debug, Default)]
pub struct Batch<'a> {
    pub(crate) tokens: Vec<u32>,
    pub(crate) positions: Vec<u32>,
    pub(crate) slots: Vec<Slot>,
    pub(crate) sequences: Vec<SequenceRows<'a>>,
    /// Rows whose logits are wanted, ascending.
    pub(crate) outputs: Vec<usize>,
    /// The same rows grouped by sequence, numbered among themselves.
    pub(crate) output_sequences: Vec<SequenceRows<'a>>,
}

impl<'a> Batch<'a> {
    /// Packs the sequences in the order given.
    ///
    /// # Panics
    /// When a sequence wants more outputs than it has rows or its blocks are too few.
    #[must_use]
    pub fn new(sequences: &[BatchSequence<'a>]) -> Self {
        let mut batch = Self::default();
        for sequence in sequences {
            batch.push(sequence);
        }
        batch
    }

    /// Rows in the batch.
    #[must_use]
    pub fn rows(&self) -> usize {
        self.tokens.len()
    }

    /// Rows whose logits are wanted.
    #[must_use]
    pub fn outputs(&self) -> usize {
        self.outputs.len()
    }

    fn push(&mut self, sequence: &BatchSequence<'a>) {
        let BatchSequence {
            tokens,
            start,
            blocks,
            outputs,
        } = *sequence;
        let end = start + tokens.len();
        assert!(
            outputs <= tokens.len(),
            "{outputs} outputs of {} rows",
            tokens.len()
        );
        assert!(
            blocks.len() * BLOCK_TOKENS >= end,
            "{} blocks for {end} positions",
            blocks.len()
        );
        let first_row = self.rows();
        self.tokens.extend_from_slice(tokens);
        for position in start..end {
            self.positions.push(position as u32);
            self.slots.push(Slot {
                block: blocks[position / BLOCK_TOKENS],
                offset: (position % BLOCK_TOKENS) as u8,
            });
        }
        self.sequences.push(SequenceRows {
            first_row,
            rows: tokens.len(),
            start,
            blocks,
        });
        if outputs > 0 {
            self.output_sequences.push(SequenceRows {
                first_row: self.outputs.len(),
                rows: outputs,
                start: end - outputs,
                blocks,
            });
            self.outputs.extend(self.rows() - outputs..self.rows());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_packed_and_outputs_numbered_among_themselves() {
        let (a, b) = ([4, 5], [6]);
        let batch = Batch::new(&[
            BatchSequence {
                tokens: &[10, 11, 12],
                start: 15,
                blocks: &a,
                outputs: 0,
            },
            BatchSequence {
                tokens: &[20, 21],
                start: 0,
                blocks: &b,
                outputs: 1,
            },
        ]);
        assert_eq!(batch.tokens, [10, 11, 12, 20, 21]);
        assert_eq!(batch.positions, [15, 16, 17, 0, 1]);
        assert_eq!(batch.slots[0], Slot { block: 4, offset: 15 });
        assert_eq!(batch.slots[1], Slot { block: 5, offset: 0 });
        assert_eq!(batch.outputs, [4]);
        let output = batch.output_sequences[0];
        assert_eq!(
            (output.first_row, output.rows, output.start, output.blocks),
            (0, 1, 1, b.as_slice())
        );
    }
}
