#![expect(unsafe_code, reason = "lets threads write disjoint columns of one matrix")]

use std::marker::PhantomData;

/// An output matrix `[rows, width]` of which several threads write different cells.
#[derive(Debug)]
pub(crate) struct Output<'a> {
    start: *mut f32,
    rows: usize,
    width: usize,
    borrow: PhantomData<&'a mut [f32]>,
}

// SAFETY: the only access is `cells`, whose caller promises that no two threads hold the same cell.
unsafe impl Sync for Output<'_> {}

impl<'a> Output<'a> {
    pub(crate) fn new(values: &'a mut [f32], width: usize) -> Output<'a> {
        assert!(
            width > 0 && values.len().is_multiple_of(width),
            "an output of whole rows"
        );
        Output {
            start: values.as_mut_ptr(),
            rows: values.len() / width,
            width,
            borrow: PhantomData,
        }
    }

    /// `len` cells of `row` from `column` on.
    ///
    /// # Safety
    /// None of the cells is borrowed by anyone else while the result lives.
    #[expect(clippy::mut_from_ref, reason = "disjointness is the caller's promise")]
    pub(crate) unsafe fn cells(&self, row: usize, column: usize, len: usize) -> &mut [f32] {
        assert!(
            row < self.rows && column + len <= self.width,
            "cells within the output"
        );
        // SAFETY: within the borrowed slice by the assertion; unshared by the caller's promise.
        unsafe { std::slice::from_raw_parts_mut(self.start.add(row * self.width + column), len) }
    }
}
