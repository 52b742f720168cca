use crate::block::SUPER_BLOCK;
use crate::memory::LINE;

/// Columns of a tile: one 512-bit vector of 32-bit sums.
pub(crate) const COLUMNS: usize = 16;

/// Values of a block along k that share a scale.
pub(crate) const BLOCK: usize = 32;

/// Blocks that share the half-precision factors of a K-quant's 256 values.
pub(crate) const SUPER: usize = SUPER_BLOCK / BLOCK;

/// How the weights of a tile are stored. A weight is `scale * (u - offset) - minimum`, with `u` unsigned.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum TileKind {
    /// 8 bits, offset 128: 8.5 bits per weight with the scale.
    Int8,
    /// 5 bits, offset 16, nibbles and a plane of fifth bits: 5.5 bits per weight.
    Int5,
    /// 4 bits, no offset, with a minimum: 5 bits per weight.
    Int4Min,
    /// As Q4_K: 4 bits, no offset; scale and minimum are 6-bit integers times a half-precision factor each for 256
    /// values: 4.625 bits per weight.
    Int4Super,
    /// As Q6_K: 6 bits, offset 32, nibbles and planes of two bits; the scale of 16 values is an 8-bit integer times a
    /// half-precision factor for 256 values: 6.5625 bits per weight.
    Int6Super,
}

impl TileKind {
    pub(crate) const ALL: [TileKind; 5] = [
        TileKind::Int8,
        TileKind::Int5,
        TileKind::Int4Min,
        TileKind::Int4Super,
        TileKind::Int6Super,
    ];

    /// What an unsigned weight exceeds the signed one by.
    pub(crate) fn offset(self) -> u8 {
        match self {
            TileKind::Int8 => 128,
            TileKind::Int5 => 16,
            TileKind::Int4Min | TileKind::Int4Super => 0,
            TileKind::Int6Super => 32,
        }
    }

    /// Values along k are a multiple of this.
    pub(crate) fn unit(self) -> usize {
        match self {
            TileKind::Int8 | TileKind::Int5 | TileKind::Int4Min => BLOCK,
            TileKind::Int4Super | TileKind::Int6Super => SUPER_BLOCK,
        }
    }

    /// Equal parts of a block that have a scale of their own.
    pub(crate) const fn parts(self) -> usize {
        match self {
            TileKind::Int6Super => 2,
            TileKind::Int8 | TileKind::Int5 | TileKind::Int4Min | TileKind::Int4Super => 1,
        }
    }

    /// Bytes of bytes or nibbles for one block of a tile's 16 columns.
    pub(crate) const fn quant_bytes(self) -> usize {
        match self {
            TileKind::Int8 => COLUMNS * BLOCK,
            TileKind::Int5 | TileKind::Int4Min | TileKind::Int4Super | TileKind::Int6Super => {
                COLUMNS * BLOCK / 2
            }
        }
    }

    /// Bytes of fifth and sixth bits for one block.
    pub(crate) const fn plane_bytes(self) -> usize {
        match self {
            TileKind::Int5 => COLUMNS * BLOCK / 8,
            TileKind::Int6Super => COLUMNS * BLOCK / 4,
            TileKind::Int8 | TileKind::Int4Min | TileKind::Int4Super => 0,
        }
    }

    /// Bytes of scales for one block, half precision or integers.
    pub(crate) const fn scale_bytes(self) -> usize {
        match self {
            TileKind::Int8 | TileKind::Int5 | TileKind::Int4Min | TileKind::Int6Super => 2 * COLUMNS,
            TileKind::Int4Super => COLUMNS,
        }
    }

    /// Bytes of minima for one block, half precision or integers.
    pub(crate) const fn minimum_bytes(self) -> usize {
        match self {
            TileKind::Int4Min => 2 * COLUMNS,
            TileKind::Int4Super => COLUMNS,
            TileKind::Int8 | TileKind::Int5 | TileKind::Int6Super => 0,
        }
    }

    /// Bytes of half-precision factors for [`SUPER`] blocks: of the scales, then of the minima.
    pub(crate) const fn factor_bytes(self) -> usize {
        match self {
            TileKind::Int4Super => 4 * COLUMNS,
            TileKind::Int6Super => 2 * COLUMNS,
            TileKind::Int8 | TileKind::Int5 | TileKind::Int4Min => 0,
        }
    }
}

/// Where the sections of a tiled matrix lie: quants, planes, scales, minima, each `[tile][block]`, and factors,
/// `[tile][block / 8]`; each begins on a cache line, so that a kernel reads a few plain streams.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Layout {
    pub(crate) kind: TileKind,
    pub(crate) tiles: usize,
    pub(crate) blocks: usize,
}

impl Layout {
    pub(crate) fn new(kind: TileKind, n: usize, k: usize) -> Layout {
        Layout {
            kind,
            tiles: n.div_ceil(COLUMNS),
            blocks: k / BLOCK,
        }
    }

    /// Bytes each section takes for one tile.
    pub(crate) fn tile_bytes(&self) -> [usize; 5] {
        let kind = self.kind;
        [
            kind.quant_bytes() * self.blocks,
            kind.plane_bytes() * self.blocks,
            kind.scale_bytes() * self.blocks,
            kind.minimum_bytes() * self.blocks,
            kind.factor_bytes() * (self.blocks / SUPER),
        ]
    }

    /// Where each section begins.
    pub(crate) fn starts(&self) -> [usize; 5] {
        let mut start = 0;
        self.section_bytes().map(|bytes| {
            start += bytes;
            start - bytes
        })
    }

    /// Bytes of all sections.
    pub(crate) fn bytes(&self) -> usize {
        self.section_bytes().iter().sum()
    }

    fn section_bytes(&self) -> [usize; 5] {
        self.tile_bytes()
            .map(|bytes| (bytes * self.tiles).next_multiple_of(LINE))
    }
}

/// Where the value at `at` along k of column `column` lies in a block: 8 groups of four values, each group a vector
/// of 16 columns by 4 values, as `vpdpbusd` takes them. An index into 512 bytes; for nibbles the groups 4..8 are the
/// high halves of groups 0..4.
pub(crate) fn place(column: usize, at: usize) -> usize {
    at / 4 * (4 * COLUMNS) + column * 4 + at % 4
}
