//! Why a model could not be loaded or an engine not be started.

use std::path::PathBuf;

/// What can go wrong before the first request. Failures of requests are
/// [`engine_contract::EngineError`].
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LoadError {
    /// A setting has a value that makes no sense.
    #[error("invalid engine setting: {field} is {received}, expected {expected}")]
    InvalidConfig {
        /// Name of the setting.
        field: &'static str,
        /// What was set.
        received: String,
        /// What is allowed.
        expected: String,
    },
    /// The model is of a family this engine does not run.
    #[error("{model}: the architecture is {received:?}, expected {expected}; choose a model of that family")]
    Architecture {
        /// Name of the model.
        model: String,
        /// What this loader runs.
        expected: &'static str,
        /// What the file says.
        received: String,
    },
    /// A tensor has another shape than the model's configuration asks for.
    #[error(
        "tensor {name:?} has shape {received:?}, expected {expected:?}; the file is damaged or of another model"
    )]
    TensorShape {
        /// The tensor.
        name: String,
        /// Row-major shape from the configuration.
        expected: Vec<usize>,
        /// Row-major shape in the file.
        received: Vec<usize>,
    },
    /// A tensor is stored in a format the kernels do not read.
    #[error(
        "tensor {name:?} is stored as {received}, expected F32, F16, BF16, Q4_0 to Q8_0 or Q4_K to Q6_K; choose \
         another quantisation of the model"
    )]
    TensorFormat {
        /// The tensor.
        name: String,
        /// The format's name.
        received: String,
    },
    /// The model's configuration contradicts itself.
    #[error("{what} is {received}, expected {expected}; the model file is damaged or not supported")]
    ModelConfig {
        /// Name of the field.
        what: String,
        /// What the file says.
        received: String,
        /// What it must be.
        expected: String,
    },
    /// The model file, the tokenizer or the chat template could not be read.
    #[error(transparent)]
    Weights(#[from] weights::WeightsError),
    /// The kernels refused the weights or the thread count.
    #[error(transparent)]
    Kernel(#[from] kernels::KernelError),
    /// A file could not be read or written.
    #[error("{path}: {source}")]
    Io {
        /// The file.
        path: PathBuf,
        /// The system's message.
        source: std::io::Error,
    },
    /// The operating system gave no thread.
    #[error("the engine's thread could not be started: {source}; lower the number of processes")]
    Thread {
        /// The system's message.
        source: std::io::Error,
    },
}
