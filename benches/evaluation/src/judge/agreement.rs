//! How far a judge can be trusted: its labels against ours.

use std::sync::atomic::AtomicBool;

use engine_contract::LanguageModel;
use serde::{Deserialize, Serialize};

use super::{Case, Rules, judge};
use crate::error::EvaluationError;
use crate::f1::count;
use crate::history::HistoryKind;
use crate::short::declines;

/// An answer that we labelled by hand. The texts are ours; `data/judge_labels.json` holds them.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HandLabel {
    /// Unique in the file.
    pub id: String,
    /// By which rules it is labelled.
    pub rules: Rules,
    /// LongMemEval's type, where the rules ask for one.
    #[serde(default)]
    pub kind: Option<HistoryKind>,
    /// Whether the conversation does not hold the answer.
    #[serde(default)]
    pub unanswerable: bool,
    /// The question.
    pub question: String,
    /// The right answer.
    pub gold: String,
    /// The answer to judge.
    pub answer: String,
    /// Whether it is right by these rules.
    pub right: bool,
}

/// How a judge's labels agree with those by hand.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Agreement {
    /// Name of the judging model.
    pub judge: String,
    /// Its rules.
    pub rules: Rules,
    /// Answers labelled by hand.
    pub n: usize,
    /// Share of equal labels.
    pub agreement: f64,
    /// Cohen's kappa: agreement beyond chance, at most 1, 0 where it is chance.
    pub kappa: f64,
    /// Share of wrong answers that the judge accepts; `None` where none is wrong.
    pub accepts_wrong: Option<f64>,
    /// Share of right answers that the judge refuses; `None` where none is right.
    pub refuses_right: Option<f64>,
}

/// The answers labelled by hand for these rules.
#[must_use]
pub fn hand_labels(rules: Rules) -> Vec<HandLabel> {
    let all: Vec<HandLabel> = serde_json::from_str(include_str!("../../data/judge_labels.json"))
        .expect("the labels are part of the program, and a test reads them");
    all.into_iter().filter(|label| label.rules == rules).collect()
}

impl Agreement {
    /// Lets a model judge the answers labelled by hand.
    ///
    /// # Errors
    /// As [`judge`].
    pub fn measure(
        model: &dyn LanguageModel,
        rules: Rules,
        cancel: Option<&AtomicBool>,
    ) -> Result<Self, EvaluationError> {
        let labels = hand_labels(rules);
        let cases: Vec<Case<'_>> = labels.iter().map(Case::from).collect();
        let verdicts = judge(model, rules, &cases, cancel)?;
        let pairs: Vec<(bool, bool)> = labels.iter().map(|label| label.right).zip(verdicts).collect();
        Ok(Self::of(&model.info().name, rules, &pairs))
    }

    /// The agreement of pairs of labels, ours first.
    fn of(judge: &str, rules: Rules, pairs: &[(bool, bool)]) -> Self {
        let number = |ours: bool, theirs: bool| pairs.iter().filter(|pair| **pair == (ours, theirs)).count();
        let (accepted, refused) = (number(false, true), number(true, false));
        let (right, n) = (number(true, true) + refused, pairs.len());
        let share = |part: usize, of: usize| (of > 0).then(|| count(part) / count(of));
        let agreement = share(n - accepted - refused, n).unwrap_or(0.0);
        let said_right = share(right - refused + accepted, n).unwrap_or(0.0);
        let is_right = share(right, n).unwrap_or(0.0);
        let chance = is_right * said_right + (1.0 - is_right) * (1.0 - said_right);
        Self {
            judge: judge.to_owned(),
            rules,
            n,
            agreement,
            kappa: if chance < 1.0 {
                (agreement - chance) / (1.0 - chance)
            } else {
                0.0
            },
            accepts_wrong: share(accepted, n - right),
            refuses_right: share(refused, right),
        }
    }
}

impl<'a> From<&'a HandLabel> for Case<'a> {
    fn from(label: &'a HandLabel) -> Self {
        Self {
            question: &label.question,
            gold: &label.gold,
            answer: &label.answer,
            kind: label.kind,
            unanswerable: label.unanswerable,
            declined: declines(&label.answer),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use engine_contract::scripted::ScriptedModel;

    use super::*;

    #[test]
    fn the_set_is_whole_and_holds_both_labels_for_every_rule() {
        let mut ids = HashSet::new();
        let mut total = 0;
        for rules in [Rules::Lenient, Rules::Strict, Rules::Longmemeval] {
            let labels = hand_labels(rules);
            total += labels.len();
            let right = labels.iter().filter(|label| label.right).count();
            assert!(
                right >= 5 && labels.len() - right >= 5,
                "{rules:?}: {right} of {}",
                labels.len()
            );
            for label in labels {
                assert!(ids.insert(label.id.clone()), "{} occurs twice", label.id);
                assert!(Case::from(&label).applies(rules), "{}", label.id);
                assert!(
                    rules != Rules::Longmemeval || label.kind.is_some(),
                    "{}",
                    label.id
                );
            }
        }
        assert!((30..=80).contains(&total), "{total} labels");
        let kinds: HashSet<_> = hand_labels(Rules::Longmemeval)
            .iter()
            .filter_map(|label| label.kind)
            .collect();
        assert_eq!(kinds.len(), 6, "every type is there");
    }

    #[test]
    fn agreement_is_counted_as_it_says() {
        let pairs = [
            (true, true),
            (true, true),
            (true, false),
            (false, false),
            (false, true),
        ];
        let agreement = Agreement::of("m", Rules::Strict, &pairs);
        assert_eq!((agreement.n, agreement.agreement), (5, 0.6));
        assert_eq!(agreement.accepts_wrong, Some(0.5));
        assert!((agreement.refuses_right.unwrap() - 1.0 / 3.0).abs() < 1e-12);
        // Chance: 0.6 * 0.6 + 0.4 * 0.4 = 0.52.
        assert!(
            (agreement.kappa - 0.08 / 0.48).abs() < 1e-12,
            "{}",
            agreement.kappa
        );
    }

    #[test]
    fn a_judge_that_says_yes_to_all_accepts_every_wrong_answer_but_those_that_decline() {
        let model = ScriptedModel::new(|_| Ok("CORRECT".into()));
        let agreement = Agreement::measure(&model, Rules::Strict, None).unwrap();
        // Two of the twelve wrong answers decline: the rule refuses them without the model.
        assert_eq!(
            (agreement.accepts_wrong, agreement.refuses_right),
            (Some(10.0 / 12.0), Some(0.0))
        );
        let requests = model.requests();
        assert_eq!(
            requests.len(),
            3 * (agreement.n - 2),
            "two for the odds, one for the label"
        );
        assert!(requests.iter().all(|request| request.sampling.temperature == 0.0));
        let odd = ScriptedModel::new(|_| Ok("maybe".into()));
        let error = Agreement::measure(&odd, Rules::Longmemeval, None)
            .unwrap_err()
            .to_string();
        assert!(error.contains("expected yes or no"), "{error}");
    }
}
