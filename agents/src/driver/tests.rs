//! Many questions at once: batching, failures, cancelling.

use std::sync::{Arc, Mutex};

use engine_contract::scripted::ScriptedModel;
use engine_contract::{EngineStats, FinishReason, GenerationRequest, ModelInfo, Prompt, Usage};

use super::*;
use crate::RagSettings;
use crate::fixture::Notebook;

type Held = Vec<(GenerationRequest, Box<dyn GenerationSink>)>;

/// What a [`Slow`] model does with a request.
#[derive(Clone, Copy)]
enum Manner {
    /// Replies to all at once, last first, as soon as this many wait.
    Together(usize),
    /// Refuses what does not fit a queue of one, and replies from another thread.
    QueueOfOne,
    /// Keeps everything and never replies.
    Silent,
    /// Loses every request without a word.
    Forgetful,
}

/// A model that does not reply while it is asked.
struct Slow {
    info: ModelInfo,
    manner: Manner,
    held: Arc<Mutex<Held>>,
    cancelled: Arc<Mutex<usize>>,
}

impl Slow {
    fn new(manner: Manner) -> Self {
        let info = ModelInfo {
            name: "slow".into(),
            context_tokens: 4096,
            vocabulary: 10,
        };
        Self {
            info,
            manner,
            held: Arc::default(),
            cancelled: Arc::default(),
        }
    }
}

fn reply(sink: Box<dyn GenerationSink>) {
    let text = r#"{"answer": "Rex", "evidence": [], "found": true}"#.to_owned();
    let finish = FinishReason::End;
    sink.on_done(Ok(Generation {
        text,
        tokens: vec![],
        finish,
        usage: Usage::zero(),
        logprobs: None,
    }));
}

impl LanguageModel for Slow {
    fn info(&self) -> &ModelInfo {
        &self.info
    }

    fn count_tokens(&self, _prompt: &Prompt) -> Result<usize, EngineError> {
        Ok(1)
    }

    fn submit(
        &self,
        request: GenerationRequest,
        sink: Box<dyn GenerationSink>,
    ) -> Result<Ticket, EngineError> {
        let mut held = self.held.lock().unwrap();
        match self.manner {
            Manner::Together(size) => {
                held.push((request, sink));
                if held.len() == size {
                    held.drain(..).rev().for_each(|(_, sink)| reply(sink));
                }
            }
            Manner::QueueOfOne if held.is_empty() => {
                held.push((request, sink));
                let held = Arc::clone(&self.held);
                std::thread::spawn(move || {
                    let taken = held.lock().unwrap().pop();
                    taken.into_iter().for_each(|(_, sink)| reply(sink));
                });
            }
            Manner::QueueOfOne => return Err(EngineError::QueueFull { capacity: 1 }),
            Manner::Silent => held.push((request, sink)),
            Manner::Forgetful => drop(sink),
        }
        let cancelled = Arc::clone(&self.cancelled);
        Ok(Ticket::new(move || *cancelled.lock().unwrap() += 1))
    }

    fn stats(&self) -> EngineStats {
        EngineStats::default()
    }
}

fn jobs<'a>(memory: &'a Notebook, questions: &[&str]) -> Vec<Job<'a>> {
    let job = |text: &&str| Job {
        question: Question::new(*text),
        method: Method::Rag(RagSettings::default()),
        recall: memory,
    };
    questions.iter().map(job).collect()
}

const EIGHT: [&str; 8] = [
    "Rex 1", "Rex 2", "Rex 3", "Rex 4", "Rex 5", "Rex 6", "Rex 7", "Rex 8",
];

#[test]
fn all_open_questions_reach_the_model_before_the_first_reply() {
    let memory = Notebook::small();
    let model = Slow::new(Manner::Together(8));
    let mut ended = Vec::new();
    let answered = Driver::new(&model).run(jobs(&memory, &EIGHT), &mut |progress| {
        if let Progress::Ended { index, .. } = progress {
            ended.push(index);
        }
    });
    assert_eq!(ended, [7, 6, 5, 4, 3, 2, 1, 0], "the model replies last first");
    for (answered, question) in answered.iter().zip(EIGHT) {
        assert_eq!(
            answered.trace.question.text, question,
            "results stand in the order of the jobs"
        );
        assert_eq!(answered.result.as_ref().unwrap().answer, "Rex");
    }
    assert_eq!(
        *model.cancelled.lock().unwrap(),
        0,
        "a finished request is not cancelled"
    );
}

#[test]
fn no_more_than_the_allowed_number_is_open() {
    let memory = Notebook::small();
    let model = Slow::new(Manner::Together(2));
    let answered = Driver::new(&model)
        .open(2)
        .run(jobs(&memory, &EIGHT), &mut |_| {});
    assert_eq!(
        answered.iter().filter(|answered| answered.result.is_ok()).count(),
        8
    );
}

#[test]
fn full_queue_delays_but_loses_nothing() {
    let memory = Notebook::small();
    let model = Slow::new(Manner::QueueOfOne);
    let answered = Driver::new(&model).run(jobs(&memory, &EIGHT), &mut |_| {});
    assert_eq!(
        answered.iter().filter(|answered| answered.result.is_ok()).count(),
        8
    );
}

#[test]
fn one_failure_does_not_lose_the_others() {
    let memory = Notebook::small();
    let model = ScriptedModel::new(|request| {
        let Prompt::Chat(messages) = &request.prompt else {
            panic!("loops send chats")
        };
        if messages[1].text().contains("Rex 2") {
            return Err(EngineError::Forward {
                reason: "out of memory".into(),
            });
        }
        Ok(r#"{"answer": "Rex", "evidence": [], "found": true}"#.to_owned())
    });
    let mut jobs = jobs(&memory, &EIGHT[..3]);
    jobs.push(Job {
        question: Question::new(" "),
        ..jobs[0].clone()
    });
    let answered = Driver::new(&model).run(jobs, &mut |_| {});
    let good: Vec<bool> = answered.iter().map(|answered| answered.result.is_ok()).collect();
    assert_eq!(good, [true, false, true, false]);
    let failed = &answered[1];
    assert!(matches!(
        failed.result,
        Err(AgentError::Engine(EngineError::Forward { .. }))
    ));
    assert!(matches!(&failed.trace.end, End::Failed { reason } if reason.contains("out of memory")));
    assert_eq!(
        failed.trace.steps.len(),
        1,
        "the search before the failure is kept"
    );
    assert!(matches!(answered[3].result, Err(AgentError::EmptyQuestion)));
}

#[test]
fn a_model_that_forgets_a_request_ends_the_question() {
    let memory = Notebook::small();
    let answered = Driver::new(&Slow::new(Manner::Forgetful)).run(jobs(&memory, &EIGHT[..2]), &mut |_| {});
    for answered in answered {
        assert!(matches!(
            answered.result,
            Err(AgentError::Engine(EngineError::ShutDown))
        ));
    }
}

#[test]
fn cancelling_keeps_what_is_done_and_frees_the_rest() {
    let memory = Notebook::small();
    let (model, flag) = (Slow::new(Manner::Silent), AtomicBool::new(false));
    let driver = Driver::new(&model).cancel(&flag);
    let answered = driver.run(jobs(&memory, &EIGHT[..2]), &mut |progress| {
        if let Progress::Asking { index: 1, .. } = progress {
            flag.store(true, Ordering::Relaxed);
        }
    });
    for answered in &answered {
        assert!(matches!(answered.result, Err(AgentError::Cancelled)));
        assert_eq!(answered.trace.end, End::Open, "it can be resumed");
        assert_eq!(answered.trace.steps.len(), 1);
    }
    assert_eq!(*model.cancelled.lock().unwrap(), 2);
}

#[test]
fn driver_tells_what_it_asks_for() {
    let memory = Notebook::small();
    let model = ScriptedModel::replies([r#"{"answer": "Rex", "evidence": [], "found": true}"#]);
    let mut told = Vec::new();
    Driver::new(&model).run(jobs(&memory, &["Rex"]), &mut |progress| {
        told.push(match progress {
            Progress::Asking {
                index,
                iteration,
                stage,
            } => format!("{index} {iteration} {stage:?}"),
            Progress::Ended { index, answered } => format!("{index} {}", answered.result.is_ok()),
        });
    });
    assert_eq!(told, ["0 1 Respond", "0 true"]);
}
