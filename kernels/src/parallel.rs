#![expect(unsafe_code, reason = "hands disjoint parts of one slice to several threads")]

use std::cell::Cell;
use std::marker::PhantomData;
use std::ops::Range;

use crate::Cpu;

/// Elementwise work below this many values stays on the caller's thread: waking the others costs more.
const SERIAL_VALUES: usize = 16 * 1024;

/// Values of a cache line.
const LINE: usize = 16;

thread_local! {
    /// Working memory of the kernels, kept from call to call: one for each [`Scratch`].
    static SCRATCH: [Cell<Vec<f32>>; 2] = const { [Cell::new(Vec::new()), Cell::new(Vec::new())] };
}

/// Whose working memory: an operation's, while its tasks have their own on the same thread.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Scratch {
    Operation,
    Task,
}

/// A slice that several threads write at once, each its own part.
pub(crate) struct SharedSlice<'a, T> {
    start: *mut T,
    len: usize,
    borrow: PhantomData<&'a mut [T]>,
}

// SAFETY: the only access is `part`, whose callers hold disjoint ranges.
unsafe impl<T: Send> Sync for SharedSlice<'_, T> {}

impl<'a, T> SharedSlice<'a, T> {
    pub(crate) fn new(values: &'a mut [T]) -> Self {
        SharedSlice {
            start: values.as_mut_ptr(),
            len: values.len(),
            borrow: PhantomData,
        }
    }

    /// The values of `range`.
    ///
    /// # Safety
    /// While the result lives, no other part that overlaps `range` may live.
    #[expect(
        clippy::mut_from_ref,
        reason = "the parts are disjoint: the caller's obligation"
    )]
    pub(crate) unsafe fn part(&self, range: Range<usize>) -> &mut [T] {
        assert!(
            range.start <= range.end && range.end <= self.len,
            "{range:?} of {} values",
            self.len
        );
        // SAFETY: the range is inside the slice borrowed by `new`, and the caller keeps parts disjoint.
        unsafe { std::slice::from_raw_parts_mut(self.start.add(range.start), range.len()) }
    }
}

impl Cpu {
    /// Cuts `out` into rows of `width` values, and calls `run(first_row, rows)` for runs of rows that together cover
    /// all of them, on several threads when there is enough to do.
    pub(crate) fn for_row_runs<T: Send>(
        &self,
        out: &mut [T],
        width: usize,
        run: &(dyn Fn(usize, &mut [T]) + Sync),
    ) {
        assert!(
            width > 0 && out.len().is_multiple_of(width),
            "{} values in rows of {width}",
            out.len()
        );
        let rows = out.len() / width;
        // Several runs per thread, so that a thread that lost its core does not hold the others up.
        let runs = (out.len() / SERIAL_VALUES).min(4 * self.threads()).min(rows);
        if runs <= 1 || self.threads() == 1 {
            return run(0, out);
        }
        let shared = SharedSlice::new(out);
        self.pool().run(runs, &|index| {
            let (first, end) = (rows * index / runs, rows * (index + 1) / runs);
            // SAFETY: the row ranges of different indices do not overlap, and each index runs once.
            run(first, unsafe { shared.part(first * width..end * width) });
        });
    }
}

impl Cpu {
    /// The results of `task` for each index below `tasks`, in order.
    pub(crate) fn map_tasks<R: Default + Clone + Send>(
        &self,
        tasks: usize,
        task: &(dyn Fn(usize) -> R + Sync),
    ) -> Vec<R> {
        let mut results = vec![R::default(); tasks];
        let shared = SharedSlice::new(&mut results);
        self.pool().run(tasks, &|index| {
            let result = task(index);
            // SAFETY: each index has its own place and runs once.
            let place = unsafe { shared.part(index..index + 1) };
            place[0] = result;
        });
        results
    }
}

impl Scratch {
    /// `len` values of working memory, of unspecified contents. Not passed to a closure, because a closure would not
    /// be compiled for the instruction set of the kernel around it.
    pub(crate) fn take(self, len: usize) -> ScratchMemory {
        // Whoever asks again before this is given back gets memory of its own.
        let mut values = SCRATCH.with(|cells| cells[self as usize].take());
        if values.len() < len + LINE {
            values.resize(len + LINE, 0.0);
        }
        let first = values.as_ptr().align_offset(64).min(LINE);
        ScratchMemory {
            owner: self,
            values,
            first,
            len,
        }
    }
}

/// Working memory that begins on a cache line; goes back to its thread's store on drop.
#[derive(Debug)]
pub(crate) struct ScratchMemory {
    owner: Scratch,
    values: Vec<f32>,
    first: usize,
    len: usize,
}

impl ScratchMemory {
    pub(crate) fn values(&mut self) -> &mut [f32] {
        &mut self.values[self.first..self.first + self.len]
    }
}

impl Drop for ScratchMemory {
    fn drop(&mut self) {
        let values = std::mem::take(&mut self.values);
        SCRATCH.with(|cells| cells[self.owner as usize].set(values));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Isa;

    #[test]
    fn runs_cover_every_row_once() {
        let cpu = Cpu::with_isa(Isa::Scalar, Some(3)).unwrap();
        for rows in [0, 1, 2, 63, 1000] {
            let mut out = vec![0_u32; rows * 100];
            cpu.for_row_runs(&mut out, 100, &|first, run| {
                for (index, row) in run.chunks_mut(100).enumerate() {
                    row.iter_mut()
                        .for_each(|value| *value += u32::try_from(first + index).unwrap() + 1);
                }
            });
            for (index, row) in out.chunks(100).enumerate() {
                assert!(
                    row.iter().all(|&value| value as usize == index + 1),
                    "row {index} of {rows}"
                );
            }
        }
    }

    #[test]
    fn nested_scratch_does_not_overlap() {
        let mut outer = Scratch::Task.take(100);
        outer.values().fill(1.0);
        Scratch::Task.take(200).values().fill(2.0);
        assert!(outer.values().iter().all(|&value| value == 1.0));
        assert_eq!(
            (outer.values().len(), outer.values().as_ptr().addr() % 64),
            (100, 0)
        );
    }
}
