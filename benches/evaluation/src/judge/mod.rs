//! A language model that says whether an answer is right, by rules that stand in prompt files.
//!
//! A judge is a measuring instrument: its name, its rules and its agreement with labels by hand belong to every figure
//! it gives. Generous rules accept vague wrong answers (62.8 % of deliberately vague ones in dial481/locomo-audit), so
//! that a strict judge stands beside the lenient one.

mod agreement;
mod anchor;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::Duration;

use engine_contract::{
    Constraint, EngineError, Generation, GenerationRequest, LanguageModel, Message, Prompt, Role, Ticket,
};
use serde::{Deserialize, Serialize};

use crate::error::EvaluationError;
use crate::f1::count;
use crate::history::HistoryKind;
use crate::item::{Item, Metric};

pub use agreement::{Agreement, HandLabel, hand_labels};

/// How often a waiting judge looks at the cancel flag.
const CANCEL_POLL: Duration = Duration::from_millis(50);

/// By which rules answers are judged.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Rules {
    /// Generous, in the meaning of mem0's judge: the same topic counts, dates in any form.
    Lenient,
    /// The same main fact and nothing contrary (snap-research/locomo#23).
    Strict,
    /// LongMemEval's rules: one for abstention, tested first, else one for each type (`evaluate_qa.py`).
    Longmemeval,
}

impl Rules {
    /// `lenient`, `strict` or `longmemeval`.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Lenient => "lenient",
            Self::Strict => "strict",
            Self::Longmemeval => "longmemeval",
        }
    }

    /// The metric that these rules give.
    #[must_use]
    pub fn metric(self) -> Metric {
        match self {
            Self::Lenient => Metric::JudgeLenient,
            Self::Strict => Metric::JudgeStrict,
            Self::Longmemeval => Metric::JudgeLongmemeval,
        }
    }

    /// The label for right and the one for wrong.
    #[must_use]
    pub fn labels(self) -> [&'static str; 2] {
        match self {
            Self::Lenient | Self::Strict => ["CORRECT", "WRONG"],
            Self::Longmemeval => ["yes", "no"],
        }
    }

    /// The prompt file for a question.
    fn prompt(self, kind: Option<HistoryKind>, unanswerable: bool) -> PromptFile {
        match self {
            Self::Lenient => PromptFile::Lenient,
            Self::Strict => PromptFile::Strict,
            Self::Longmemeval if unanswerable => PromptFile::HistoryAbstention,
            Self::Longmemeval => match kind {
                Some(HistoryKind::TemporalReasoning) => PromptFile::HistoryTemporal,
                Some(HistoryKind::KnowledgeUpdate) => PromptFile::HistoryUpdate,
                Some(HistoryKind::SingleSessionPreference) => PromptFile::HistoryPreference,
                Some(
                    HistoryKind::SingleSessionUser
                    | HistoryKind::SingleSessionAssistant
                    | HistoryKind::MultiSession,
                )
                | None => PromptFile::HistoryAnswer,
            },
        }
    }
}

/// The files in `prompts`, one for each set of rules.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Deserialize)]
#[serde(rename_all = "snake_case")]
enum PromptFile {
    Lenient,
    Strict,
    HistoryAnswer,
    HistoryTemporal,
    HistoryUpdate,
    HistoryPreference,
    HistoryAbstention,
}

impl PromptFile {
    fn text(self) -> &'static str {
        match self {
            Self::Lenient => include_str!("../../prompts/lenient.md"),
            Self::Strict => include_str!("../../prompts/strict.md"),
            Self::HistoryAnswer => include_str!("../../prompts/history_answer.md"),
            Self::HistoryTemporal => include_str!("../../prompts/history_temporal.md"),
            Self::HistoryUpdate => include_str!("../../prompts/history_update.md"),
            Self::HistoryPreference => include_str!("../../prompts/history_preference.md"),
            Self::HistoryAbstention => include_str!("../../prompts/history_abstention.md"),
        }
    }
}

/// What a judge looks at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Case<'a> {
    /// The question.
    pub question: &'a str,
    /// The right answer, or LongMemEval's rubric or explanation.
    pub gold: &'a str,
    /// The answer to judge.
    pub answer: &'a str,
    /// LongMemEval's type, where the question has one.
    pub kind: Option<HistoryKind>,
    /// Whether the conversation does not hold the answer.
    pub unanswerable: bool,
    /// Whether the answer declines.
    pub declined: bool,
}

impl<'a> Case<'a> {
    /// The case of a measured answer.
    #[must_use]
    pub fn of(item: &'a Item) -> Self {
        Self {
            question: &item.question,
            gold: &item.gold,
            answer: &item.prediction,
            kind: HistoryKind::from_name(&item.group),
            unanswerable: item.unanswerable,
            declined: item.declined,
        }
    }

    /// The verdict where no model is needed: an answer that declines is right exactly where there is no answer. All rules
    /// say so, and a small judge does not heed them.
    #[must_use]
    pub fn settled(&self) -> Option<bool> {
        self.declined.then_some(self.unanswerable)
    }

    /// Whether these rules say anything of the case: the two of LoCoMo leave unanswerable questions out.
    #[must_use]
    pub fn applies(&self, rules: Rules) -> bool {
        rules == Rules::Longmemeval || !self.unanswerable
    }

    /// The judge's prompt: greedy, and nothing but one of `labels` can come back, with its probability where the model
    /// tells it.
    #[must_use]
    pub fn request(&self, rules: Rules, labels: &[&str]) -> GenerationRequest {
        let one_line = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
        let [right, wrong] = rules.labels();
        let case = format!(
            "\nQuestion: {}\nRight answer: {}\nAnswer of the system: {}\n\nReply {right} or {wrong}.",
            one_line(self.question),
            one_line(self.gold),
            one_line(self.answer),
        );
        let messages = vec![
            Message::new(Role::System, include_str!("../../prompts/system.md").trim_end()),
            Message {
                role: Role::User,
                parts: vec![rules.prompt(self.kind, self.unanswerable).text().to_owned(), case],
            },
        ];
        let mut request = GenerationRequest::new(Prompt::Chat(messages), 10);
        request.constraint = Constraint::Choices(labels.iter().map(|label| (*label).to_owned()).collect());
        request.logprobs = Some(0);
        request
    }
}

/// Judges cases, many at once; the verdicts stand in the order of the cases.
///
/// A small model leans to one label whatever it reads. Where the model tells probabilities, a case is therefore right when
/// the log odds of the two labels exceed those halfway between known right and known wrong answers (`data/anchors.json`)
/// under the same prompt; otherwise the greedy label counts. After Zhao et al., "Calibrate Before Use", ICML 2021.
///
/// # Errors
/// [`EvaluationError::Judge`] when the model fails or says something that is no label, or when `cancel` was set.
pub fn judge(
    model: &dyn LanguageModel,
    rules: Rules,
    cases: &[Case<'_>],
    cancel: Option<&AtomicBool>,
) -> Result<Vec<bool>, EvaluationError> {
    let failed = |reason: String| EvaluationError::Judge {
        judge: model.info().name.clone(),
        rules: rules.name(),
        reason,
    };
    let mut verdicts: Vec<bool> = cases.iter().map(|case| case.settled() == Some(true)).collect();
    let open: Vec<usize> = (0..cases.len())
        .filter(|&i| cases[i].settled().is_none())
        .collect();
    let open_cases: Vec<Case<'_>> = open.iter().map(|&i| cases[i]).collect();
    let odds = log_odds(model, rules, &open_cases, cancel).map_err(&failed)?;
    let found = match odds {
        Some(odds) => {
            let thresholds = thresholds(model, rules, &open_cases, cancel).map_err(&failed)?;
            let of = |case: &Case<'_>| thresholds[&rules.prompt(case.kind, case.unanswerable)];
            open_cases
                .iter()
                .zip(odds)
                .map(|(case, odds)| odds > of(case))
                .collect()
        }
        None => greedy(model, rules, &open_cases, cancel).map_err(&failed)?,
    };
    for (index, right) in open.into_iter().zip(found) {
        verdicts[index] = right;
    }
    Ok(verdicts)
}

/// For each case the logarithm of P(right label) / P(wrong label); `None` when the model tells no probabilities.
fn log_odds(
    model: &dyn LanguageModel,
    rules: Rules,
    cases: &[Case<'_>],
    cancel: Option<&AtomicBool>,
) -> Result<Option<Vec<f64>>, String> {
    let [right, wrong] = rules.labels();
    let both = |case: &Case<'_>| [case.request(rules, &[right]), case.request(rules, &[wrong])];
    let replies = ask_all(model, cases.iter().flat_map(both).collect(), cancel)?;
    let sum = |reply: &Generation| {
        let tokens = reply.logprobs.as_ref()?;
        Some(tokens.iter().map(|token| f64::from(token.logprob)).sum::<f64>())
    };
    let odds = replies
        .chunks(2)
        .map(|pair| Some(sum(&pair[0])? - sum(&pair[1])?));
    Ok(odds.collect())
}

/// The log odds halfway between known right and known wrong answers, for each prompt that the cases use.
fn thresholds(
    model: &dyn LanguageModel,
    rules: Rules,
    cases: &[Case<'_>],
    cancel: Option<&AtomicBool>,
) -> Result<BTreeMap<PromptFile, f64>, String> {
    let prompts: BTreeSet<PromptFile> = cases
        .iter()
        .map(|case| rules.prompt(case.kind, case.unanswerable))
        .collect();
    let mut thresholds = BTreeMap::new();
    for prompt in prompts {
        let anchors = anchor::of(prompt);
        let known: Vec<Case<'_>> = anchors.iter().map(Case::from).collect();
        let odds = log_odds(model, rules, &known, cancel)?.unwrap_or_default();
        let mean = |right: bool| {
            let some: Vec<f64> = anchors
                .iter()
                .zip(&odds)
                .filter(|(anchor, _)| anchor.right == right)
                .map(|(_, odds)| *odds)
                .collect();
            some.iter().sum::<f64>() / count(some.len().max(1))
        };
        thresholds.insert(prompt, f64::midpoint(mean(true), mean(false)));
    }
    Ok(thresholds)
}

/// The labels that the model chooses by itself.
fn greedy(
    model: &dyn LanguageModel,
    rules: Rules,
    cases: &[Case<'_>],
    cancel: Option<&AtomicBool>,
) -> Result<Vec<bool>, String> {
    let requests = cases
        .iter()
        .map(|case| case.request(rules, &rules.labels()))
        .collect();
    let replies = ask_all(model, requests, cancel)?;
    replies.iter().map(|reply| verdict(rules, &reply.text)).collect()
}

/// Sends all requests at once; the replies stand in their order.
fn ask_all(
    model: &dyn LanguageModel,
    requests: Vec<GenerationRequest>,
    cancel: Option<&AtomicBool>,
) -> Result<Vec<Generation>, String> {
    let (sender, receiver) = mpsc::channel();
    let mut tickets: BTreeMap<usize, Ticket> = BTreeMap::new();
    let mut replies: BTreeMap<usize, Generation> = BTreeMap::new();
    let total = requests.len();
    let mut waiting = requests.into_iter().enumerate().peekable();
    while replies.len() < total {
        while let Some((index, request)) = waiting.peek().cloned() {
            let sender = sender.clone();
            let sink = move |result: Result<Generation, EngineError>| {
                // Nobody listens any more when another case has failed.
                let _ = sender.send((index, result));
            };
            match model.submit(request, Box::new(sink)) {
                Ok(ticket) => {
                    tickets.insert(index, ticket);
                    waiting.next();
                }
                Err(EngineError::QueueFull { .. }) if replies.len() < index => break,
                Err(error) => return Err(error.to_string()),
            }
        }
        match receiver.recv_timeout(CANCEL_POLL) {
            Ok((index, result)) => {
                if let Some(ticket) = tickets.remove(&index) {
                    ticket.detach();
                }
                replies.insert(index, result.map_err(|error| error.to_string())?);
            }
            Err(RecvTimeoutError::Timeout) if cancel.is_some_and(|flag| flag.load(Ordering::Relaxed)) => {
                return Err("interrupted".into());
            }
            Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => {}
        }
    }
    Ok(replies.into_values().collect())
}

fn verdict(rules: Rules, reply: &str) -> Result<bool, String> {
    let [right, wrong] = rules.labels();
    match reply.trim() {
        label if label == right => Ok(true),
        label if label == wrong => Ok(false),
        other => Err(format!("its reply is {other:?}, expected {right} or {wrong}")),
    }
}

/// Judges every item to which the rules apply and enters the verdicts.
///
/// # Errors
/// As [`judge`].
pub fn judge_items(
    model: &dyn LanguageModel,
    rules: Rules,
    items: &mut [Item],
    cancel: Option<&AtomicBool>,
) -> Result<(), EvaluationError> {
    let chosen: Vec<usize> = (0..items.len())
        .filter(|&i| Case::of(&items[i]).applies(rules))
        .collect();
    let cases: Vec<Case<'_>> = chosen.iter().map(|&i| Case::of(&items[i])).collect();
    let verdicts = judge(model, rules, &cases, cancel)?;
    for (index, right) in chosen.into_iter().zip(verdicts) {
        items[index]
            .values
            .insert(rules.metric(), f64::from(u8::from(right)));
    }
    Ok(())
}
