//! RIME: memories formed session by session beside the turns, and answers from them that return to the turns
//! where the memories are silent (specs/rime-build.md).

mod answer;
mod bank;
mod form;
mod formation;
mod recollect;
mod remember;
mod settings;
#[cfg(test)]
mod tests;
mod verify;

pub use answer::Rime;
pub use bank::{Memory, MemoryBank, MemoryId, Operation, SessionKey};
pub use form::{FormProgress, form};
pub use formation::{FormEvent, FormStep, Formation, Formed};
pub use settings::{FormationSettings, RimeSettings};
