//! Answers that are plainly right or wrong, against which a judge's leaning is measured. The texts are ours, and none is
//! among the labels by hand.

use serde::Deserialize;

use super::{Case, PromptFile};

/// One known answer.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Anchor {
    prompt: PromptFile,
    question: String,
    gold: String,
    answer: String,
    pub(super) right: bool,
}

/// The known answers of a prompt.
pub(super) fn of(prompt: PromptFile) -> Vec<Anchor> {
    let all: Vec<Anchor> = serde_json::from_str(include_str!("../../data/anchors.json"))
        .expect("the anchors are part of the program, and a test reads them");
    all.into_iter().filter(|anchor| anchor.prompt == prompt).collect()
}

impl<'a> From<&'a Anchor> for Case<'a> {
    fn from(anchor: &'a Anchor) -> Self {
        let kind = match anchor.prompt {
            PromptFile::HistoryTemporal => Some(crate::HistoryKind::TemporalReasoning),
            PromptFile::HistoryUpdate => Some(crate::HistoryKind::KnowledgeUpdate),
            PromptFile::HistoryPreference => Some(crate::HistoryKind::SingleSessionPreference),
            PromptFile::Lenient
            | PromptFile::Strict
            | PromptFile::HistoryAnswer
            | PromptFile::HistoryAbstention => None,
        };
        Self {
            question: &anchor.question,
            gold: &anchor.gold,
            answer: &anchor.answer,
            kind,
            unanswerable: anchor.prompt == PromptFile::HistoryAbstention,
            // A known answer is always read by the model.
            declined: false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Rules;
    use crate::judge::hand_labels;

    #[test]
    fn every_prompt_has_anchors_on_both_sides_and_none_is_a_hand_label() {
        let rules = [Rules::Lenient, Rules::Strict, Rules::Longmemeval];
        let labels: Vec<_> = rules.into_iter().flat_map(hand_labels).collect();
        for prompt in [
            PromptFile::Lenient,
            PromptFile::Strict,
            PromptFile::HistoryAnswer,
            PromptFile::HistoryTemporal,
            PromptFile::HistoryUpdate,
            PromptFile::HistoryPreference,
            PromptFile::HistoryAbstention,
        ] {
            let anchors = of(prompt);
            let right = anchors.iter().filter(|anchor| anchor.right).count();
            assert!(
                right >= 2 && right * 2 == anchors.len(),
                "{prompt:?}: {right} of {}",
                anchors.len()
            );
            for anchor in &anchors {
                assert!(
                    labels.iter().all(|label| label.question != anchor.question),
                    "{}",
                    anchor.question
                );
                let rules = rules
                    .into_iter()
                    .find(|r| r.prompt(Case::from(anchor).kind, Case::from(anchor).unanswerable) == prompt);
                assert!(
                    rules.is_some(),
                    "an anchor of {prompt:?} is asked under another prompt"
                );
            }
        }
    }
}
