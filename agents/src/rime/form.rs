//! Forms the memories of every session that has none yet.

use std::sync::atomic::{AtomicBool, Ordering};

use engine_contract::LanguageModel;
use retrieval::RetrievalError;

use super::bank::{MemoryBank, SessionKey};
use super::formation::{FormEvent, FormStep, Formation, Formed};
use super::settings::FormationSettings;
use crate::AgentError;

/// What [`form`] tells after each session.
#[derive(Debug)]
pub struct FormProgress<'a> {
    /// The session.
    pub session: &'a SessionKey,
    /// Sessions formed in this run, this one included, and sessions to form in all.
    pub done: (usize, usize),
    /// What became of it.
    pub formed: &'a Formed,
}

/// Forms sessions one after the other, because each builds on the memories before it. Returns how many it formed.
///
/// A session is applied wholly or not at all: after a cancel, a crash or an error the next run goes on with the
/// session that was under way.
///
/// # Errors
/// [`AgentError::InvalidSetting`], [`AgentError::Cancelled`], and the first failure of the bank or the model.
pub fn form(
    bank: &dyn MemoryBank,
    model: &dyn LanguageModel,
    settings: &FormationSettings,
    cancel: Option<&AtomicBool>,
    progress: &mut dyn FnMut(FormProgress<'_>),
) -> Result<usize, AgentError> {
    settings.validate()?;
    let sessions = bank.unformed()?;
    for (index, session) in sessions.iter().enumerate() {
        let formation = Formation::new(bank.session(session)?, settings.clone())?;
        let formed = form_session(bank, model, session, formation, cancel)?;
        progress(FormProgress {
            session,
            done: (index + 1, sessions.len()),
            formed: &formed,
        });
    }
    Ok(sessions.len())
}

fn form_session(
    bank: &dyn MemoryBank,
    model: &dyn LanguageModel,
    session: &SessionKey,
    mut formation: Formation,
    cancel: Option<&AtomicBool>,
) -> Result<Formed, AgentError> {
    loop {
        if cancel.is_some_and(|flag| flag.load(Ordering::Relaxed)) {
            return Err(AgentError::Cancelled);
        }
        let event = match formation.next_step() {
            FormStep::SimilarTurns { texts, limit } => {
                let found = texts.iter().map(|text| bank.similar_turns(session, text, limit));
                FormEvent::SimilarTurns(found.collect::<Result<_, RetrievalError>>()?)
            }
            FormStep::SimilarMemories { texts, limit } => {
                let found = texts.iter().map(|text| bank.similar_memories(text, limit));
                FormEvent::SimilarMemories(found.collect::<Result<_, RetrievalError>>()?)
            }
            FormStep::Generate(request) => FormEvent::Generated(model.generate(*request)?),
            FormStep::Apply(operations) => {
                bank.apply(session, &operations)?;
                FormEvent::Applied
            }
            FormStep::Finished(formed) => return Ok(formed),
        };
        formation.on_event(event)?;
    }
}
