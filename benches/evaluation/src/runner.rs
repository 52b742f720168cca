//! Asks questions of a method and hands the answers on. It is given [`Asked`] alone and so cannot leak gold.

use std::sync::atomic::AtomicBool;

use agents::{AgentError, Answered, Driver, Job, Method, Progress, Question};
use engine_contract::LanguageModel;
use retrieval::Recall;

use crate::asked::Asked;
use crate::record::Record;

/// How questions are asked.
#[derive(Clone, Copy)]
pub struct Runner<'a> {
    /// Who answers.
    pub model: &'a dyn LanguageModel,
    /// The loop and its settings.
    pub method: &'a Method,
    /// Questions under way at once, at least 1.
    pub open: usize,
    /// Ends the run when set; what is answered stays.
    pub cancel: Option<&'a AtomicBool>,
}

impl std::fmt::Debug for Runner<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Runner")
            .field("model", self.model.info())
            .field("method", self.method)
            .field("open", &self.open)
            .finish_non_exhaustive()
    }
}

/// How one question ended.
#[derive(Debug)]
pub enum Ended<'a> {
    /// With an answer and its trace as JSON.
    Answered(Box<Record>, String),
    /// With an error; it may be asked again.
    Failed(&'a AgentError),
}

impl Runner<'_> {
    /// Asks every question in the memory that stands beside it; `each` hears of every end, as it comes.
    pub fn run(&self, questions: &[(&Asked, &dyn Recall)], each: &mut dyn FnMut(&Asked, Ended<'_>)) {
        let jobs = questions.iter().map(|(asked, recall)| Job {
            question: Question {
                text: asked.text.clone(),
                asked: asked.date,
            },
            method: self.method.clone(),
            recall: *recall,
        });
        let mut driver = Driver::new(self.model).open(self.open);
        if let Some(flag) = self.cancel {
            driver = driver.cancel(flag);
        }
        driver.run(jobs.collect(), &mut |event| {
            if let Progress::Ended { index, answered } = event {
                each(questions[index].0, ended(questions[index].0, answered));
            }
        });
    }
}

fn ended<'a>(asked: &Asked, answered: &'a Answered) -> Ended<'a> {
    match &answered.result {
        Ok(outcome) => Ended::Answered(
            Box::new(Record::new(&asked.id, outcome, answered)),
            answered.trace.to_json(),
        ),
        Err(error) => Ended::Failed(error),
    }
}
