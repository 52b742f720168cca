//! Kernels for language models on a CPU, picked at run time for the processor at hand: AVX-512 with VNNI, AVX2,
//! NEON, plain Rust. Everything is a method of [`Cpu`], which owns an instruction set and a pool of threads.
//!
//! - Weights: [`BlockFormat`] reads the blocks of GGUF files; [`TiledMatrix`] holds them in tiles of 16 outputs, in
//!   8, 6, 5 or 4 bits; [`Linear`] is a layer of such matrices. [`F32Matrix`] keeps single precision.
//! - Products: [`Cpu::quantize_rows`] rounds activations to 8 bits, as [`Cpu::rms_norm_quantized`] and
//!   [`Cpu::swiglu_quantized`] do with what they compute; [`Cpu::linear`] multiplies.
//! - Attention: [`KvPool`] keeps keys and values in blocks of 16 positions, [`Cpu::write_kv`] stores them and
//!   [`Cpu::attention`] reads them, for sequences of any lengths that may share blocks;
//!   [`Cpu::bidirectional_attention`] serves encoders.
//! - Rows: [`Cpu::rms_norm`], [`Cpu::layer_norm`], [`Cpu::rope`], [`Cpu::swiglu`], [`Cpu::gelu`].
//! - Logits: [`Cpu::argmax`], [`Cpu::top_k`], [`Cpu::log_sum_exp`], [`Cpu::mask_logits`].
//! - [`mod@reference`] has the obvious twins of all these.
//!
//! Activations are row-major `[rows, width]` in single precision. **The result of a row is the same bit for bit
//! whatever other rows share the call and however many threads take part**; it differs between instruction sets
//! within the rounding of single precision.
//!
//! ```
//! use kernels::{Cpu, Linear, OutMode, QuantizedRows, TiledMatrix};
//!
//! let cpu = Cpu::new(Some(2))?;
//! let weights: Vec<f32> = (0..3 * 32).map(|at| at as f32 / 96.0).collect();
//! let layer = Linear::new(vec![TiledMatrix::from_f32(3, 32, &weights)?], None)?;
//! let mut x = QuantizedRows::new();
//! cpu.quantize_rows(&[1.0; 2 * 32], 32, &mut x);
//! let mut out = [0.0; 2 * 3];
//! cpu.linear(&layer, &x, &mut out, OutMode::Write);
//! let exact: f32 = weights[..32].iter().sum();
//! assert!((out[0] / exact - 1.0).abs() < 0.01);
//! # Ok::<(), kernels::KernelError>(())
//! ```
//!
//! This crate knows no model, no file format beyond the layout of weight blocks, and no scheduling.

mod activation;
mod attention;
mod block;
mod cpu;
mod error;
mod f32_matrix;
mod gemm;
mod isa;
mod kv;
mod linear;
mod memory;
mod norm;
mod output;
mod parallel;
mod pool;
mod quantize;
pub mod reference;
mod rope;
#[cfg(test)]
mod samples;
mod simd;
mod tile;
mod topology;
mod vocab;

pub use attention::{Qkv, Queries};
pub use block::BlockFormat;
pub use cpu::Cpu;
pub use error::KernelError;
pub use f32_matrix::F32Matrix;
pub use isa::Isa;
pub use kv::{BLOCK_TOKENS, KvDtype, KvLayer, KvLayout, KvPool, KvRows, Rows, SequenceRows, Slot};
pub use linear::{Linear, OutMode};
pub use memory::{HugeBuffer, SharedBytes};
pub use norm::Affine;
pub use pool::ThreadPool;
pub use quantize::QuantizedRows;
pub use rope::{RopeHeads, RopeTable};
pub use tile::{TileKind, TilePolicy, TiledMatrix};
