//! The shape of every loop: it says what it needs next, is given it, and never waits by itself.

use engine_contract::{Generation, GenerationRequest};
use jiff::civil::DateTime;
use retrieval::{ConversationId, Hit, SearchRequest, TurnId, TurnRecord};
use serde::{Deserialize, Serialize};

use crate::time_words::TimeNote;
use crate::{AgentError, Memory, Outcome};

/// What is asked.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Question {
    /// The question in plain words.
    pub text: String,
    /// When it is asked, where that matters and is known.
    pub asked: Option<DateTime>,
}

impl Question {
    /// A question without a date.
    #[must_use]
    pub fn new(text: impl Into<String>) -> Self {
        Self {
            text: text.into(),
            asked: None,
        }
    }
}

/// What a model call is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Stage {
    /// Which of the turns found are useful.
    ZoomIn,
    /// What their neighbourhood adds.
    ZoomOut,
    /// Whether the evidence is enough.
    Judge,
    /// What to search for next.
    Rewrite,
    /// Zoom-in, judge and rewrite in one reply.
    Fused,
    /// The answer.
    Respond,
    /// RIME: the answer from memories.
    Recollect,
    /// RIME: whether the source turns bear the answer out.
    Verify,
}

/// A turn by name; turn ids are unique within a conversation only.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct TurnKey {
    /// The conversation.
    pub conversation: ConversationId,
    /// The turn.
    pub turn: TurnId,
}

impl TurnKey {
    /// The key of a turn.
    #[must_use]
    pub fn of(turn: &TurnRecord) -> Self {
        Self {
            conversation: turn.conversation.clone(),
            turn: turn.id.clone(),
        }
    }
}

/// What a loop needs next. Exhaustive on purpose: a driver handles every kind.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Step {
    /// Search the memory, once per request.
    Search {
        /// At least one.
        requests: Vec<SearchRequest>,
    },
    /// Fetch the neighbourhood of turns inside their sessions.
    Window {
        /// The turns in the middle, at least one.
        turns: Vec<TurnKey>,
        /// Turns before and after each.
        each_side: usize,
    },
    /// Read every turn of the memory.
    Read,
    /// Look for memories.
    Memories {
        /// What they should be near to.
        text: String,
        /// At most this many.
        limit: usize,
    },
    /// Ask the model.
    Generate {
        /// What for.
        stage: Stage,
        /// The request.
        request: Box<GenerationRequest>,
    },
    /// The end; asking again gives the same.
    Finished(Box<Outcome>),
}

impl Step {
    pub(crate) fn name(&self) -> &'static str {
        match self {
            Self::Search { .. } => "search results",
            Self::Window { .. } => "windows",
            Self::Read => "all turns",
            Self::Memories { .. } => "memories",
            Self::Generate { .. } => "a generation",
            Self::Finished(_) => "nothing, it has finished",
        }
    }
}

/// What a driver gives back.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Event {
    /// One list of hits per search request, best first.
    Searched(Vec<Vec<Hit>>),
    /// One window per turn, in the order of the conversation.
    Windowed(Vec<Vec<TurnRecord>>),
    /// Every turn, in the order in which they were said.
    Read(Vec<TurnRecord>),
    /// Memories, best first.
    Memories(Vec<Memory>),
    /// The model's reply.
    Generated(Generation),
}

impl Event {
    pub(crate) fn name(&self) -> &'static str {
        match self {
            Self::Searched(_) => "search results",
            Self::Windowed(_) => "windows",
            Self::Read(_) => "all turns",
            Self::Memories(_) => "memories",
            Self::Generated(_) => "a generation",
        }
    }
}

/// What a loop decided on an event, for the trace.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Note {
    /// These turns are shown to the model next.
    Shown {
        /// Their labels.
        ids: Vec<String>,
    },
    /// These turns became evidence.
    Accepted {
        /// Their labels.
        ids: Vec<String>,
    },
    /// The judge's verdict.
    Judged {
        /// Whether the evidence is enough.
        enough: bool,
        /// The answer as far as the judge could tell it.
        draft: String,
    },
    /// The next queries.
    Queries {
        /// In order.
        queries: Vec<String>,
        /// How they came about.
        action: QueryAction,
        /// What they are to find.
        missing: String,
    },
    /// Queries that equal earlier ones and were dropped.
    Repeated {
        /// As the model wrote them.
        queries: Vec<String>,
    },
    /// A reply could not be used; the stage is asked once more.
    Retry {
        /// The stage.
        stage: Stage,
        /// What was wrong.
        reason: String,
    },
    /// The second reply could not be used either; what is done instead.
    Degraded {
        /// The stage.
        stage: Stage,
        /// What was wrong.
        reason: String,
        /// What is done instead.
        instead: String,
    },
    /// The memories did not answer: the source turns are read.
    Fallback {
        /// Why.
        reason: String,
    },
    /// A step was left out because its result could change nothing.
    Skipped {
        /// The stage.
        stage: Stage,
        /// Why.
        reason: String,
    },
    /// Older iterations were shortened in the prompt to keep the token budget.
    Compacted {
        /// Iterations shown with their queries only, from the first.
        iterations: usize,
    },
    /// The memory does not fit the prompt: only its newest turns are shown.
    Truncated {
        /// Turns shown.
        shown: usize,
        /// Turns there are.
        of: usize,
    },
    /// Relative time words that were resolved for the prompt.
    TimeWords {
        /// Turn or `question`.
        place: String,
        /// In order.
        notes: Vec<TimeNote>,
    },
}

/// How a set of queries came about.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum QueryAction {
    /// The question itself.
    Initial,
    /// The question was split into parts.
    Decompose,
    /// What is already answered was cut away.
    Prune,
    /// Other words for the same.
    Rephrase,
    /// Made by code from the missing part, because the model repeated itself.
    Keywords,
}

impl QueryAction {
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Initial => "initial",
            Self::Decompose => "decompose",
            Self::Prune => "prune",
            Self::Rephrase => "rephrase",
            Self::Keywords => "keywords",
        }
    }
}

/// A loop from question to outcome, without input or output of its own.
///
/// [`Machine::next_step`] says what is needed and changes nothing; [`Machine::on_event`] takes it in. The same
/// events always lead to the same steps and the same outcome.
pub trait Machine: Send {
    /// What is needed now.
    fn next_step(&self) -> Step;

    /// Takes in what the current step asked for.
    ///
    /// # Errors
    /// [`AgentError::UnexpectedEvent`] when the event belongs to another kind of step; the loop is unchanged.
    fn on_event(&mut self, event: Event) -> Result<(), AgentError>;

    /// What was decided since the last call, oldest first.
    fn take_notes(&mut self) -> Vec<Note>;

    /// The current iteration, from 1.
    fn iteration(&self) -> usize;
}
