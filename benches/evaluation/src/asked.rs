//! What a system under test is told, kept apart from what its answer is measured by.

use jiff::civil::DateTime;

use crate::history::HistoryQuestion;
use crate::question::Question;

/// A question as a system under test sees it: without gold answer, category, evidence or marks.
///
/// Runs take this type alone, so that gold cannot reach a prompt; `tests/it/leak.rs` tries.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Asked {
    /// Unique in the data set; names the trace and the prediction.
    pub id: String,
    /// The conversation that may be searched.
    pub conversation: String,
    /// The question in plain words.
    pub text: String,
    /// When it is asked, where the data set says so.
    pub date: Option<DateTime>,
}

impl From<&Question> for Asked {
    fn from(question: &Question) -> Self {
        Self {
            id: question.id.clone(),
            conversation: question.conversation.clone(),
            text: question.text.clone(),
            date: None,
        }
    }
}

impl From<&HistoryQuestion> for Asked {
    fn from(question: &HistoryQuestion) -> Self {
        Self {
            id: question.id.clone(),
            conversation: question.id.clone(),
            text: question.text.clone(),
            date: Some(question.date),
        }
    }
}
