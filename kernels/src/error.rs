use crate::{BlockFormat, Isa};

/// What can go wrong in this crate. Shapes handed to a kernel are the caller's invariant and panic; everything
/// that comes from a file, the environment or the machine is an error.
#[derive(Debug, thiserror::Error)]
pub enum KernelError {
    /// The processor lacks the instruction set that was asked for.
    #[error("instruction set {requested} is not available on this processor; the best available is {best}")]
    IsaUnavailable {
        /// What was asked for.
        requested: Isa,
        /// What [`Isa::detect`] finds.
        best: Isa,
    },

    /// `MNEME_ISA` names no instruction set.
    #[error("MNEME_ISA is {received:?}; expected scalar, avx2, avx512vnni or neon")]
    IsaUnknown {
        /// The value found.
        received: String,
    },

    /// The thread count is not usable.
    #[error("{received} threads asked for; expected 1 to {limit}")]
    Threads {
        /// The count asked for.
        received: usize,
        /// The largest count accepted.
        limit: usize,
    },

    /// The operating system refused a thread.
    #[error("cannot start worker thread {index}: {source}; ask for fewer threads")]
    Spawn {
        /// Which worker.
        index: usize,
        /// The reason.
        source: std::io::Error,
    },

    /// Memory could not be reserved.
    #[error("cannot reserve {bytes} bytes; choose a smaller model, context or cache")]
    OutOfMemory {
        /// The size asked for.
        bytes: usize,
    },

    /// A length or shape does not fit.
    #[error("{what}: expected {expected}, received {received}")]
    Shape {
        /// Which quantity.
        what: &'static str,
        /// What fits.
        expected: usize,
        /// What came.
        received: usize,
    },

    /// A row cannot be cut into whole blocks.
    #[error(
        "a row of {k} values cannot be cut into blocks of {block_len}; the model's width must be a multiple of it"
    )]
    PartialBlock {
        /// Values per row.
        k: usize,
        /// Values per block.
        block_len: usize,
    },

    /// A weight or scale is infinite or not a number.
    #[error("{format:?} weights of row {row} are not finite; the file is damaged, pull it again")]
    NotFinite {
        /// The source format.
        format: BlockFormat,
        /// The row of the matrix.
        row: usize,
    },

    /// Cached tiles cannot be used as they are.
    #[error("the tile cache cannot be used: {reason}; delete it, it will be written anew")]
    Cache {
        /// What is wrong with it.
        reason: String,
    },
}
