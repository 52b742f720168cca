use crate::{Isa, KernelError, ThreadPool, topology};

/// The processor as the kernels see it: an instruction set and a pool of threads. Every operation is a method of
/// this type, takes `&self` and may be called from any thread; share it by `Arc`.
#[derive(Debug)]
pub struct Cpu {
    isa: Isa,
    pool: ThreadPool,
}

impl Cpu {
    /// The best instruction set (or the one `MNEME_ISA` names) with `threads` threads, by default one for each
    /// physical core the process may use.
    ///
    /// # Errors
    /// As [`Isa::from_env`] and [`ThreadPool::new`].
    pub fn new(threads: Option<usize>) -> Result<Cpu, KernelError> {
        Cpu::with_isa(Isa::from_env()?, threads)
    }

    /// As [`Cpu::new`], with the instruction set given.
    ///
    /// # Errors
    /// [`KernelError::IsaUnavailable`], and as [`ThreadPool::new`].
    pub fn with_isa(isa: Isa, threads: Option<usize>) -> Result<Cpu, KernelError> {
        let pool = ThreadPool::new(threads.unwrap_or_else(topology::usable_cores))?;
        Ok(Cpu {
            isa: isa.checked()?,
            pool,
        })
    }

    /// The instruction set in use. It is available on this processor: the constructors have checked it.
    #[must_use]
    pub fn isa(&self) -> Isa {
        self.isa
    }

    /// Threads that take part in an operation, the caller's own among them.
    #[must_use]
    pub fn threads(&self) -> usize {
        self.pool.threads()
    }

    /// The pool, for parallel work beside the kernels.
    #[must_use]
    pub fn pool(&self) -> &ThreadPool {
        &self.pool
    }
}
