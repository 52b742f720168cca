//! A language model that says whether an answer is right, by rules that stand in prompt files.
//!
//! A judge is a measuring instrument: its name, its rules and its agreement with labels by hand belong to every figure
//! it gives. Generous rules accept vague wrong answers (62.8 % of deliberately vague ones in dial481/locomo-audit), so
//! that a strict judge stands beside the lenient one.

mod agreement;

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::Duration;

use engine_contract::{
    Constraint, EngineError, Generation, GenerationRequest, LanguageModel, Message, Prompt, Role, Ticket,
};
use serde::{Deserialize, Serialize};

use crate::error::EvaluationError;
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
    fn text(self, kind: Option<HistoryKind>, unanswerable: bool) -> &'static str {
        match self {
            Self::Lenient => include_str!("../../prompts/lenient.md"),
            Self::Strict => include_str!("../../prompts/strict.md"),
            Self::Longmemeval if unanswerable => include_str!("../../prompts/history_abstention.md"),
            Self::Longmemeval => match kind {
                Some(HistoryKind::TemporalReasoning) => include_str!("../../prompts/history_temporal.md"),
                Some(HistoryKind::KnowledgeUpdate) => include_str!("../../prompts/history_update.md"),
                Some(HistoryKind::SingleSessionPreference) => {
                    include_str!("../../prompts/history_preference.md")
                }
                Some(
                    HistoryKind::SingleSessionUser
                    | HistoryKind::SingleSessionAssistant
                    | HistoryKind::MultiSession,
                )
                | None => include_str!("../../prompts/history_answer.md"),
            },
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

    /// The judge's prompt: greedy, and nothing but a label can come back.
    #[must_use]
    pub fn request(&self, rules: Rules) -> GenerationRequest {
        let one_line = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
        let labels = rules.labels();
        let case = format!(
            "\nNow this one.\n\nQuestion: {} Right answer: {}\nAnswer of the system: {}\nLabel:",
            one_line(self.question),
            one_line(self.gold),
            one_line(self.answer),
        );
        let messages = vec![
            Message::new(Role::System, include_str!("../../prompts/system.md").trim_end()),
            Message {
                role: Role::User,
                parts: vec![rules.text(self.kind, self.unanswerable).to_owned(), case],
            },
        ];
        let mut request = GenerationRequest::new(Prompt::Chat(messages), 10);
        request.constraint = Constraint::Choices(labels.map(str::to_owned).to_vec());
        request
    }
}

/// Judges cases, many at once; the verdicts stand in the order of the cases.
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
    let (sender, receiver) = mpsc::channel();
    let mut tickets: BTreeMap<usize, Ticket> = BTreeMap::new();
    let mut verdicts: Vec<bool> = cases.iter().map(|case| case.settled() == Some(true)).collect();
    let open: Vec<usize> = (0..cases.len())
        .filter(|&i| cases[i].settled().is_none())
        .collect();
    let (mut next, mut done) = (0, 0);
    while done < open.len() {
        while next < open.len() {
            let (sender, index) = (sender.clone(), open[next]);
            let sink = move |result: Result<Generation, EngineError>| {
                // Nobody listens any more when another case has failed.
                let _ = sender.send((index, result));
            };
            match model.submit(cases[index].request(rules), Box::new(sink)) {
                Ok(ticket) => {
                    tickets.insert(index, ticket);
                    next += 1;
                }
                Err(EngineError::QueueFull { .. }) if done < next => break,
                Err(error) => return Err(failed(error.to_string())),
            }
        }
        match receiver.recv_timeout(CANCEL_POLL) {
            Ok((index, result)) => {
                if let Some(ticket) = tickets.remove(&index) {
                    ticket.detach();
                }
                let generation = result.map_err(|error| failed(error.to_string()))?;
                verdicts[index] = verdict(rules, &generation.text).map_err(&failed)?;
                done += 1;
            }
            Err(RecvTimeoutError::Timeout) if cancel.is_some_and(|flag| flag.load(Ordering::Relaxed)) => {
                return Err(failed("interrupted".into()));
            }
            Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => {}
        }
    }
    Ok(verdicts)
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
