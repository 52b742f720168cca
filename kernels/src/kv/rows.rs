/// A view of rows that may be a slice of wider rows: row `i` begins at `data[i * stride + offset]`.
#[derive(Debug, Clone, Copy)]
pub struct Rows<'a> {
    /// All rows, row-major.
    pub data: &'a [f32],
    /// Values from one row's begin to the next.
    pub stride: usize,
    /// Values to skip in each row.
    pub offset: usize,
}

impl<'a> Rows<'a> {
    /// The first `width` values of row `index`.
    pub(crate) fn row(&self, index: usize, width: usize) -> &'a [f32] {
        &self.data[index * self.stride + self.offset..][..width]
    }

    /// Panics unless `rows` rows of `width` values are in view.
    pub(crate) fn check(&self, what: &str, rows: usize, width: usize) {
        let needed = if rows == 0 {
            0
        } else {
            (rows - 1) * self.stride + self.offset + width
        };
        assert!(
            self.offset + width <= self.stride && needed <= self.data.len(),
            "{what}: {rows} rows of {width} values at offset {} do not fit rows of {} in {} values",
            self.offset,
            self.stride,
            self.data.len(),
        );
    }
}

/// Keys and values of the same rows.
#[derive(Debug, Clone, Copy)]
pub struct KvRows<'a> {
    /// Rows of `[kv_heads * head_dim]`.
    pub k: Rows<'a>,
    /// Rows of `[kv_heads * head_dim]`.
    pub v: Rows<'a>,
}

/// Where the keys and values of one position are stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Slot {
    /// Block of the pool.
    pub block: u32,
    /// Position inside the block, below [`BLOCK_TOKENS`](crate::BLOCK_TOKENS).
    pub offset: u8,
}

/// The rows of one sequence in a ragged batch.
#[derive(Debug, Clone, Copy)]
pub struct SequenceRows<'a> {
    /// Index of its first row in the batch.
    pub first_row: usize,
    /// How many rows it has there.
    pub rows: usize,
    /// Position of the first row in its sequence; row `i` attends to positions `0..=start + i`.
    pub start: usize,
    /// The sequence's blocks in order; they cover at least `start + rows` positions.
    pub blocks: &'a [u32],
}
