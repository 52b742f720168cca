#![expect(
    unsafe_code,
    reason = "hands a borrowed closure to threads that outlive the borrow's type"
)]

use std::any::Any;
use std::cell::{Cell, UnsafeCell};
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{JoinHandle, Thread};
use std::time::{Duration, Instant};

use crate::KernelError;

/// The largest pool; beyond it the gate's counter and the machine both lose.
const MAX_THREADS: usize = 1024;

/// How long an idle worker looks for the next region before it sleeps. Decoding leaves gaps of a few
/// microseconds between regions; waking a sleeper costs some tens.
const SPIN: Duration = Duration::from_micros(60);

/// Looks at the gate between two looks at the clock.
const LOOKS_PER_CLOCK: u32 = 32;

/// The gate's low bits count workers inside the region; then comes the open bit; the rest numbers regions.
const OPEN: u64 = 1 << 32;
const REGION: u64 = OPEN << 1;
const INSIDE: u64 = OPEN - 1;

thread_local! {
    /// Set while this thread runs a task of any pool: a region inside a region runs where it is.
    static IN_REGION: Cell<bool> = const { Cell::new(false) };
}

/// Threads that share the tasks of one region at a time. The caller takes part; workers spin for some tens of
/// microseconds after a region and then sleep. Tasks are claimed one by one, and a worker that has not arrived by
/// the time all are claimed is not waited for, so that a busy machine costs throughput and never a stall.
pub struct ThreadPool {
    shared: Arc<Shared>,
    workers: Vec<Worker>,
    region: Mutex<()>,
}

struct Worker {
    thread: Thread,
    handle: Option<JoinHandle<()>>,
}

/// On its own cache lines, so that claiming tasks does not slow those who watch the gate.
#[repr(align(128))]
struct Padded<T>(T);

struct Shared {
    gate: Padded<AtomicU64>,
    next: Padded<AtomicUsize>,
    job: UnsafeCell<Job>,
    panic: Mutex<Option<Box<dyn Any + Send>>>,
    asleep: Vec<Padded<AtomicBool>>,
    stop: AtomicBool,
}

#[derive(Clone, Copy)]
struct Job {
    run: *const (dyn Fn(usize) + Sync),
    tasks: usize,
}

// SAFETY: `job` is written only by the thread that holds the `region` lock while the gate is closed and nobody is
// inside, and read only by threads that entered through the open gate; the gate's acquire and release order both.
unsafe impl Sync for Shared {}
// SAFETY: the raw pointer in `job` is dereferenced only inside a region, while its closure is borrowed by `run`.
unsafe impl Send for Shared {}

impl ThreadPool {
    /// A pool of `threads` threads in all: the caller's and `threads - 1` workers.
    ///
    /// # Errors
    /// [`KernelError::Threads`] for 0 or more than 1024, [`KernelError::Spawn`] when the system refuses a thread.
    pub fn new(threads: usize) -> Result<ThreadPool, KernelError> {
        if threads == 0 || threads > MAX_THREADS {
            return Err(KernelError::Threads {
                received: threads,
                limit: MAX_THREADS,
            });
        }
        let shared = Arc::new(Shared {
            gate: Padded(AtomicU64::new(0)),
            next: Padded(AtomicUsize::new(0)),
            job: UnsafeCell::new(Job {
                run: &|_| {},
                tasks: 0,
            }),
            panic: Mutex::new(None),
            asleep: (1..threads).map(|_| Padded(AtomicBool::new(false))).collect(),
            stop: AtomicBool::new(false),
        });
        let mut pool = ThreadPool {
            shared,
            workers: Vec::new(),
            region: Mutex::new(()),
        };
        for index in 0..threads - 1 {
            let shared = Arc::clone(&pool.shared);
            let handle = std::thread::Builder::new()
                .name(format!("kernels-{}", index + 1))
                .spawn(move || shared.work(index))
                .map_err(|source| KernelError::Spawn { index, source })?;
            pool.workers.push(Worker {
                thread: handle.thread().clone(),
                handle: Some(handle),
            });
        }
        Ok(pool)
    }

    /// Threads that take part in a region, the caller's own among them.
    #[must_use]
    pub fn threads(&self) -> usize {
        self.workers.len() + 1
    }

    /// Calls `task` once for each index below `tasks`, in any order and on any thread of the pool, and returns when
    /// all calls have ended. Regions of several callers follow each other; a region opened inside a task runs on
    /// that task's thread alone.
    ///
    /// # Panics
    /// When a task panics: the first panic goes to the caller, tasks not yet begun are dropped, and the pool stays
    /// usable.
    pub fn run(&self, tasks: usize, task: &(dyn Fn(usize) + Sync)) {
        if tasks <= 1 || self.workers.is_empty() || IN_REGION.get() {
            (0..tasks).for_each(task);
            return;
        }
        let region = lock(&self.region);
        self.open(tasks, task);
        let own = self.shared.drain(Job {
            run: erase(task),
            tasks,
        });
        self.shared.close();
        let panic = own.or(lock(&self.shared.panic).take());
        drop(region);
        if let Some(payload) = panic {
            resume_unwind(payload);
        }
    }

    /// Cuts `data` into pieces of `piece` values (the last may be shorter) and calls `task` once for each, with the
    /// piece's index, as [`ThreadPool::run`] does.
    ///
    /// # Panics
    /// When `piece` is 0, and when a task panics.
    pub fn run_pieces<T: Send>(&self, data: &mut [T], piece: usize, task: &(dyn Fn(usize, &mut [T]) + Sync)) {
        let len = data.len();
        let base = Pieces(data.as_mut_ptr());
        self.run(len.div_ceil(piece), &|index| {
            let start = index * piece;
            // SAFETY: pieces of distinct indices do not overlap and end within `data`, each index is run once, and
            // `data` is borrowed mutably until all tasks have ended.
            let values = unsafe { std::slice::from_raw_parts_mut(base.at(start), piece.min(len - start)) };
            task(index, values);
        });
    }

    fn open(&self, tasks: usize, task: &(dyn Fn(usize) + Sync)) {
        let shared = &*self.shared;
        // SAFETY: the caller holds `region` and the gate is closed with nobody inside (`close` waited for that), so
        // no other thread reads or writes `job`.
        unsafe {
            *shared.job.get() = Job {
                run: erase(task),
                tasks,
            }
        };
        shared.next.0.store(0, Ordering::Relaxed);
        let region = shared.gate.0.load(Ordering::Relaxed) / REGION;
        // Sequentially consistent with the worker's announcement in `sleep`: either it sees the open gate, or we
        // see it asleep.
        shared
            .gate
            .0
            .store(((region + 1) * REGION) | OPEN, Ordering::SeqCst);
        for (worker, asleep) in self.workers.iter().zip(&shared.asleep) {
            if asleep.0.load(Ordering::SeqCst) {
                worker.thread.unpark();
            }
        }
    }
}

struct Pieces<T>(*mut T);

// SAFETY: the pointer is used only to hand disjoint pieces of `T: Send` to one thread each.
unsafe impl<T: Send> Sync for Pieces<T> {}

impl<T> Pieces<T> {
    fn at(&self, start: usize) -> *mut T {
        self.0.wrapping_add(start)
    }
}

impl Drop for ThreadPool {
    fn drop(&mut self) {
        self.shared.stop.store(true, Ordering::SeqCst);
        for worker in &mut self.workers {
            worker.thread.unpark();
            if let Some(handle) = worker.handle.take() {
                // A worker catches the panics of its tasks and has none of its own to report.
                let _ = handle.join();
            }
        }
    }
}

impl fmt::Debug for ThreadPool {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("ThreadPool")
            .field("threads", &self.threads())
            .finish_non_exhaustive()
    }
}

impl Shared {
    fn work(&self, index: usize) {
        let mut seen = 0;
        while let Some(region) = self.await_region(index, seen) {
            seen = region;
            if !self.enter(region) {
                continue;
            }
            // SAFETY: we are inside an open region, so `job` is not written and its closure is still borrowed: the
            // caller leaves `run` only after `close` has seen every worker leave.
            let job = unsafe { *self.job.get() };
            if let Some(payload) = self.drain(job) {
                lock(&self.panic).get_or_insert(payload);
            }
            self.gate.0.fetch_sub(1, Ordering::Release);
        }
    }

    /// Waits for an open region that is not `seen` and returns its number; `None` when the pool is dropped.
    fn await_region(&self, index: usize, seen: u64) -> Option<u64> {
        let mut idle_since = Instant::now();
        let mut looks = 0_u32;
        loop {
            if let Some(region) = self.open_region(seen) {
                return Some(region);
            }
            if self.stop.load(Ordering::Relaxed) {
                return None;
            }
            looks += 1;
            if !looks.is_multiple_of(LOOKS_PER_CLOCK) {
                std::hint::spin_loop();
            } else if idle_since.elapsed() > SPIN {
                self.sleep(index, seen);
                idle_since = Instant::now();
            }
        }
    }

    fn open_region(&self, seen: u64) -> Option<u64> {
        let gate = self.gate.0.load(Ordering::Acquire);
        (gate & OPEN != 0 && gate / REGION != seen).then_some(gate / REGION)
    }

    fn sleep(&self, index: usize, seen: u64) {
        let asleep = &self.asleep[index].0;
        asleep.store(true, Ordering::SeqCst);
        let gate = self.gate.0.load(Ordering::SeqCst);
        let called = gate & OPEN != 0 && gate / REGION != seen;
        if !called && !self.stop.load(Ordering::SeqCst) {
            std::thread::park();
        }
        asleep.store(false, Ordering::SeqCst);
    }

    /// Counts this worker in, unless the region has closed meanwhile.
    fn enter(&self, region: u64) -> bool {
        let enter = |gate| (gate & OPEN != 0 && gate / REGION == region).then_some(gate + 1);
        self.gate
            .0
            .fetch_update(Ordering::Acquire, Ordering::Relaxed, enter)
            .is_ok()
    }

    /// Claims and runs tasks until none is left; returns the payload of a panic.
    fn drain(&self, job: Job) -> Option<Box<dyn Any + Send>> {
        IN_REGION.set(true);
        let result = catch_unwind(AssertUnwindSafe(|| {
            loop {
                let index = self.next.0.fetch_add(1, Ordering::Relaxed);
                if index >= job.tasks {
                    return;
                }
                // SAFETY: the closure is borrowed by `ThreadPool::run` until every thread has left the region, and
                // this thread is inside it.
                unsafe { (*job.run)(index) };
            }
        }));
        IN_REGION.set(false);
        if result.is_err() {
            self.next.0.store(job.tasks, Ordering::Relaxed);
        }
        result.err()
    }

    /// Lets nobody else in and waits until all have left.
    fn close(&self) {
        self.gate.0.fetch_and(!OPEN, Ordering::AcqRel);
        let mut looks = 0_u32;
        while self.gate.0.load(Ordering::Acquire) & INSIDE != 0 {
            looks += 1;
            // A worker may have lost its core in the middle of a task: give it ours.
            if looks.is_multiple_of(1024) {
                std::thread::yield_now()
            } else {
                std::hint::spin_loop()
            }
        }
    }
}

fn erase<'a>(task: &'a (dyn Fn(usize) + Sync + 'a)) -> *const (dyn Fn(usize) + Sync + 'static) {
    let task: *const (dyn Fn(usize) + Sync + 'a) = task;
    // SAFETY: only the lifetime bound of the trait object changes; the pointer is dereferenced inside the region
    // alone, during which `run` holds the borrow.
    unsafe { std::mem::transmute(task) }
}

/// Nothing is left half done under these locks, so a panic elsewhere does not spoil them.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicU32;

    use super::*;

    fn counts(pool: &ThreadPool, tasks: usize) -> Vec<u32> {
        let counts: Vec<AtomicU32> = (0..tasks).map(|_| AtomicU32::new(0)).collect();
        pool.run(tasks, &|index| {
            counts[index].fetch_add(1, Ordering::Relaxed);
        });
        counts.into_iter().map(AtomicU32::into_inner).collect()
    }

    #[test]
    fn every_task_runs_once_for_any_size() {
        for threads in [1, 2, 3, 8] {
            let pool = ThreadPool::new(threads).unwrap();
            for tasks in [0, 1, 2, 3, 7, 64, 1000] {
                assert_eq!(counts(&pool, tasks), vec![1; tasks], "{threads} threads");
            }
        }
    }

    #[test]
    fn many_short_regions_from_sleep_and_from_spin() {
        let pool = ThreadPool::new(4).unwrap();
        for round in 0..3000 {
            assert_eq!(counts(&pool, 5), vec![1; 5]);
            if round % 500 == 0 {
                std::thread::sleep(SPIN * 4);
            }
        }
    }

    #[test]
    fn several_callers_take_turns() {
        let pool = ThreadPool::new(3).unwrap();
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| (0..200).for_each(|_| assert_eq!(counts(&pool, 9), vec![1; 9])));
            }
        });
    }

    #[test]
    fn a_region_inside_a_task_runs_in_place() {
        let pool = ThreadPool::new(2).unwrap();
        let total = AtomicU32::new(0);
        pool.run(4, &|_| {
            pool.run(5, &|_| {
                total.fetch_add(1, Ordering::Relaxed);
            });
        });
        assert_eq!(total.into_inner(), 20);
    }

    #[test]
    fn a_panic_reaches_the_caller_and_the_pool_lives_on() {
        let pool = ThreadPool::new(2).unwrap();
        for bad in [0, 3, 63] {
            let caught = catch_unwind(AssertUnwindSafe(|| {
                pool.run(64, &|index| assert_ne!(index, bad, "task"))
            }));
            let payload = caught.unwrap_err();
            assert!(payload.downcast_ref::<String>().unwrap().contains("task"));
            assert_eq!(counts(&pool, 64), vec![1; 64]);
        }
    }

    #[test]
    fn idle_workers_sleep_and_wake() {
        let pool = ThreadPool::new(3).unwrap();
        for _ in 0..3 {
            assert_eq!(counts(&pool, 30), vec![1; 30]);
            let asleep = || {
                pool.shared
                    .asleep
                    .iter()
                    .all(|asleep| asleep.0.load(Ordering::SeqCst))
            };
            let begun = Instant::now();
            while !asleep() {
                assert!(begun.elapsed() < Duration::from_secs(10), "workers still awake");
                std::thread::sleep(SPIN);
            }
        }
    }

    #[test]
    fn pieces_cover_the_slice_without_overlap() {
        let pool = ThreadPool::new(3).unwrap();
        let mut data = vec![0_usize; 103];
        pool.run_pieces(&mut data, 10, &|index, piece| {
            piece.iter_mut().for_each(|value| *value += index + 1)
        });
        assert!(data.iter().enumerate().all(|(at, value)| *value == at / 10 + 1));
        pool.run_pieces(&mut [] as &mut [u8], 4, &|_, _| unreachable!("there is no piece"));
    }

    #[test]
    fn thread_counts_out_of_range_are_refused() {
        assert!(matches!(
            ThreadPool::new(0),
            Err(KernelError::Threads { received: 0, .. })
        ));
        assert!(matches!(
            ThreadPool::new(MAX_THREADS + 1),
            Err(KernelError::Threads { .. })
        ));
    }
}
