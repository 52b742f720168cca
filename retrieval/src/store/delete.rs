//! Deleting turns, sessions and conversations: out of the records and out of every index, in one transaction.

use super::Memory;
use super::edit::Edit;
use crate::{ConversationId, RetrievalError, SessionId, TurnId};

/// What is deleted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Deletion {
    /// A conversation with all its turns.
    Conversation(ConversationId),
    /// A session with its turns.
    Session(ConversationId, SessionId),
    /// One turn.
    Turn(ConversationId, TurnId),
}

impl Memory {
    /// Deletes, and returns the number of turns that are gone. A session or conversation without a turn goes too. Words
    /// that nobody says any more leave the vocabulary.
    ///
    /// # Errors
    /// [`RetrievalError::UnknownConversation`], [`RetrievalError::UnknownSession`], [`RetrievalError::UnknownTurn`], or when
    /// the store cannot be written; then nothing is deleted.
    pub fn delete(&self, deletion: &Deletion) -> Result<usize, RetrievalError> {
        let (Deletion::Conversation(id) | Deletion::Session(id, _) | Deletion::Turn(id, _)) = deletion;
        // Also names the conversations that there are, when it is not one of them.
        self.read(|reading| reading.conversation(id))?;
        let deleted = self.inner.environment.write(|txn| {
            let mut edit = Edit::new(self, txn)?;
            let number = edit.databases.conversation_ids.get(edit.txn, id.as_str())?;
            let number = number.ok_or(RetrievalError::ChangedMeanwhile)?;
            let record = edit.databases.conversations.get(edit.txn, &number)?;
            let mut record = record.ok_or_else(|| super::edit::missing("conversation", number))?;
            let deleted = match deletion {
                Deletion::Conversation(_) => {
                    let mut deleted = 0;
                    for session in (0..record.sessions).rev() {
                        deleted += edit.delete_session(&mut record, (number, session))?;
                    }
                    deleted
                }
                Deletion::Session(_, session) => {
                    let key = super::databases::id_key(number, session.as_str());
                    let index = edit.databases.session_ids.get(edit.txn, &key)?;
                    let index = index.ok_or_else(|| RetrievalError::UnknownSession {
                        conversation: id.to_string(),
                        session: session.to_string(),
                    })?;
                    edit.delete_session(&mut record, (number, index))?
                }
                Deletion::Turn(_, turn) => {
                    let key = super::databases::id_key(number, turn.as_str());
                    let turn_number = edit.databases.turn_ids.get(edit.txn, &key)?;
                    let turn_number = turn_number.ok_or_else(|| RetrievalError::UnknownTurn {
                        conversation: id.to_string(),
                        turn: turn.to_string(),
                    })?;
                    edit.delete_turn(&mut record, turn_number)?;
                    1
                }
            };
            edit.settle(number, &mut record)?;
            edit.finish()?;
            Ok(deleted)
        })?;
        self.build_vectors(&mut |_| {})?;
        Ok(deleted)
    }
}
