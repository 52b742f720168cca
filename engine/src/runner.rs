//! What the worker needs of a model: forward passes over a batch, and the memory of its KV blocks.

use kernels::{KernelError, KvDtype, KvPool};

use crate::kv::BlockCopy;
use crate::qwen2::{Batch, Qwen2, Scratch};

/// A model with its KV memory.
pub(crate) trait Runner: Send {
    /// Logits per row.
    fn vocabulary(&self) -> usize;

    /// Copies the first rows of a block to another.
    fn copy_block(&mut self, copy: BlockCopy);

    /// Computes a batch; `logits` become `[batch.outputs(), vocabulary]`. A failure is a panic: half-written rows
    /// belong to the batch's own sequences only.
    fn forward(&mut self, batch: &Batch<'_>, logits: &mut Vec<f32>);

    /// The bytes of one block.
    fn export_block(&self, block: u32) -> Vec<u8>;

    /// Fills one block with exported bytes.
    fn import_block(&mut self, block: u32, bytes: &[u8]) -> Result<(), KernelError>;
}

/// A Qwen2 model on the processor.
#[derive(Debug)]
pub(crate) struct Qwen2Runner {
    model: Qwen2,
    pool: KvPool,
    scratch: Scratch,
}

impl Qwen2Runner {
    pub(crate) fn new(model: Qwen2, dtype: KvDtype, blocks: usize) -> Result<Self, KernelError> {
        let pool = KvPool::new(model.kv_layout(dtype), blocks)?;
        Ok(Self {
            model,
            pool,
            scratch: Scratch::default(),
        })
    }
}

impl Runner for Qwen2Runner {
    fn vocabulary(&self) -> usize {
        self.model.shape().vocabulary
    }

    fn copy_block(&mut self, copy: BlockCopy) {
        self.pool.copy_block(copy.from, copy.to, copy.rows);
    }

    fn forward(&mut self, batch: &Batch<'_>, logits: &mut Vec<f32>) {
        self.model
            .forward(batch, &mut self.pool, &mut self.scratch, logits);
    }

    fn export_block(&self, block: u32) -> Vec<u8> {
        self.pool.export_block(block)
    }

    fn import_block(&mut self, block: u32, bytes: &[u8]) -> Result<(), KernelError> {
        self.pool.import_block(block, bytes)
    }
}
