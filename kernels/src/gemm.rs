//! The product of one tile of weights with one panel of activations.

#![cfg_attr(
    any(target_arch = "x86_64", target_arch = "aarch64"),
    expect(
        unsafe_code,
        reason = "calls functions compiled for an instruction set found at run time"
    )
)]

use crate::Isa;
use crate::quantize::Panel;
use crate::tile::{BLOCK, COLUMNS, Tile, TileKind};

#[cfg(target_arch = "x86_64")]
mod avx2;
#[cfg(target_arch = "x86_64")]
mod avx512;
#[cfg(target_arch = "aarch64")]
mod neon;
mod scalar;

/// Rows of the largest panel of any instruction set.
pub(crate) const MAX_PANEL: usize = 12;

/// Sums of one tile and one panel, before the matrix's gain, `[row][column]`.
pub(crate) type Sums = [[f32; COLUMNS]; MAX_PANEL];

/// Panels from which on it pays to unpack a tile before it is multiplied.
const WIDE_PANELS: usize = 4;

/// Bytes of memory that [`widen`] needs for `tile` to be multiplied with so many panels; 0 where it is better left
/// packed.
pub(crate) fn wide_bytes(isa: Isa, tile: &Tile<'_>, panels: usize) -> usize {
    // Nibbles alone are unpacked beside the products at no cost (measured).
    let packed = matches!(tile.kind, TileKind::Int5 | TileKind::Int6Super);
    if isa == Isa::Avx512Vnni && packed && panels >= WIDE_PANELS {
        tile.blocks * BLOCK * COLUMNS
    } else {
        0
    }
}

/// Unpacks the integers of `tile`, one to a byte, to `wide`, as many bytes as [`wide_bytes`] says.
pub(crate) fn widen(tile: &Tile<'_>, wide: &mut [u8]) {
    #[cfg(target_arch = "x86_64")]
    if !wide.is_empty() {
        // SAFETY: `wide_bytes` asks for memory for this set only, and only where the processor has it.
        unsafe { avx512::widen(tile, wide) };
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = (tile, wide);
}

/// Rows a kernel takes at once.
pub(crate) fn panel_rows(isa: Isa) -> usize {
    match isa {
        Isa::Avx512Vnni => MAX_PANEL,
        // As many as fit 16 registers of 256 bits or 32 of 128 bits.
        Isa::Avx2 | Isa::Neon | Isa::Scalar => 4,
    }
}

/// Writes the sums of the panel's rows. Along k, blocks are added one after the other, whatever the panel: a row's
/// sums do not depend on its neighbours. `isa` is one that this processor has; `wide` holds what [`widen`] wrote.
pub(crate) fn multiply(isa: Isa, (tile, wide): (&Tile<'_>, &[u8]), panel: Panel<'_>, sums: &mut Sums) {
    #[cfg(not(target_arch = "x86_64"))]
    let _ = wide;
    match isa {
        #[cfg(target_arch = "x86_64")]
        // SAFETY: a `Cpu` of this set exists only where the processor has it.
        Isa::Avx512Vnni => unsafe { avx512::multiply(tile, wide, panel, sums) },
        #[cfg(target_arch = "x86_64")]
        // SAFETY: as above.
        Isa::Avx2 => unsafe { avx2::multiply(tile, panel, sums) },
        #[cfg(target_arch = "aarch64")]
        // SAFETY: as above.
        Isa::Neon => unsafe { neon::multiply(tile, panel, sums) },
        _ => scalar::multiply(tile, panel, sums),
    }
}
