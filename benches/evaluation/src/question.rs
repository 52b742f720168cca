//! A question with its gold answer, whatever data set it comes from.

use std::fmt;

use serde::{Deserialize, Serialize};

/// What a question asks for. The numbers are LoCoMo's; other projects use the same numbers with wrong names.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Category {
    /// Evidence in several sessions, often a list; LoCoMo's 1.
    MultiHop,
    /// A date, a duration or an order; LoCoMo's 2.
    Temporal,
    /// Needs knowledge from outside the conversation; LoCoMo's 3.
    OpenDomain,
    /// One place holds the answer; LoCoMo's 4.
    SingleHop,
    /// The conversation does not hold the answer; LoCoMo's 5, called adversarial there.
    Unanswerable,
}

impl Category {
    /// All of them, in the order of LoCoMo's numbers.
    pub const ALL: [Self; 5] = [
        Self::MultiHop,
        Self::Temporal,
        Self::OpenDomain,
        Self::SingleHop,
        Self::Unanswerable,
    ];

    /// LoCoMo's number, from 1 to 5.
    #[must_use]
    pub fn number(self) -> u8 {
        match self {
            Self::MultiHop => 1,
            Self::Temporal => 2,
            Self::OpenDomain => 3,
            Self::SingleHop => 4,
            Self::Unanswerable => 5,
        }
    }

    /// The category of one of LoCoMo's numbers; `None` outside 1 to 5.
    #[must_use]
    pub fn from_number(number: u64) -> Option<Self> {
        Self::ALL
            .into_iter()
            .find(|category| u64::from(category.number()) == number)
    }

    /// `multi-hop`, `temporal`, `open-domain`, `single-hop` or `unanswerable`.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::MultiHop => "multi-hop",
            Self::Temporal => "temporal",
            Self::OpenDomain => "open-domain",
            Self::SingleHop => "single-hop",
            Self::Unanswerable => "unanswerable",
        }
    }

    /// The category of that name.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|category| category.name() == name)
    }
}

impl fmt::Display for Category {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// One question of a data set.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Question {
    /// Unique in the data set: `conv-26#0` in LoCoMo (sample and index), as written in our own files.
    pub id: String,
    /// The conversation that it asks about.
    pub conversation: String,
    /// The question itself.
    pub text: String,
    /// The right answer; numbers are written out as text. `None` for most unanswerable questions.
    pub gold: Option<String>,
    /// The wrong answer that an unanswerable question invites, where the data set names one.
    pub decoy: Option<String>,
    /// What it asks for.
    pub category: Category,
    /// Ids of the turns that hold the answer, exactly as the data set spells them, errors included.
    pub evidence: Vec<String>,
    /// The same, with the spelling mended and what names no turn left out; see [`crate::repair_evidence`].
    pub repaired_evidence: Vec<String>,
}
