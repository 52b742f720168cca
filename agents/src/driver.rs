//! Runs many questions at once over one model: while one waits for its reply, the others' prompts are already
//! with the engine, which batches them.

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::time::{Duration, Instant};

use engine_contract::{EngineError, Generation, GenerationSink, LanguageModel, Ticket};
use retrieval::{Recall, RetrievalError};

use crate::machine::{Event, Machine, Stage, Step};
use crate::trace::{End, Trace, TraceStep};
use crate::{AgentError, MemoryBank, Method, Outcome, Question};

/// How often a waiting driver looks at the cancel flag.
const CANCEL_POLL: Duration = Duration::from_millis(50);

/// One question with the memory it is asked of.
#[derive(Clone)]
pub struct Job<'a> {
    /// What is asked.
    pub question: Question,
    /// Which loop answers it.
    pub method: Method,
    /// Where it is looked up.
    pub recall: &'a dyn Recall,
}

impl std::fmt::Debug for Job<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Job")
            .field("question", &self.question)
            .field("method", &self.method)
            .finish_non_exhaustive()
    }
}

/// How a question ended, and the record of its way.
#[derive(Debug)]
pub struct Answered {
    /// The outcome, or why there is none.
    pub result: Result<Outcome, AgentError>,
    /// The record so far, whatever the end.
    pub trace: Trace,
}

/// What a run tells while it goes on.
#[derive(Debug)]
pub enum Progress<'a> {
    /// A question asks the model.
    Asking {
        /// Index of the question among the jobs.
        index: usize,
        /// Its iteration, from 1.
        iteration: usize,
        /// What for.
        stage: Stage,
    },
    /// A question has ended.
    Ended {
        /// Index of the question among the jobs.
        index: usize,
        /// How.
        answered: &'a Answered,
    },
}

/// Runs questions over one model.
#[derive(Clone)]
pub struct Driver<'a> {
    model: &'a dyn LanguageModel,
    cancel: Option<&'a AtomicBool>,
    memories: Option<&'a dyn MemoryBank>,
    open: usize,
}

impl std::fmt::Debug for Driver<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Driver")
            .field("model", self.model.info())
            .field("open", &self.open)
            .finish_non_exhaustive()
    }
}

impl<'a> Driver<'a> {
    /// A driver that keeps 32 questions open at once.
    #[must_use]
    pub fn new(model: &'a dyn LanguageModel) -> Self {
        Self {
            model,
            cancel: None,
            memories: None,
            open: 32,
        }
    }

    /// How many questions may be under way at once, at least 1.
    #[must_use]
    pub fn open(mut self, questions: usize) -> Self {
        self.open = questions.max(1);
        self
    }

    /// When the flag is set, open requests are cancelled and the run ends; what is answered stays.
    #[must_use]
    pub fn cancel(mut self, flag: &'a AtomicBool) -> Self {
        self.cancel = Some(flag);
        self
    }

    /// The memories that the jobs of this driver answer from.
    #[must_use]
    pub fn memories(mut self, bank: &'a dyn MemoryBank) -> Self {
        self.memories = Some(bank);
        self
    }

    /// Answers every question; the results stand in the order of the jobs. A question that fails does not
    /// disturb the others. `progress` is called on this thread.
    pub fn run(&self, jobs: Vec<Job<'a>>, progress: &mut dyn FnMut(Progress<'_>)) -> Vec<Answered> {
        let (sender, receiver) = mpsc::channel();
        let mut run = Run {
            driver: self,
            progress,
            sender,
            open: BTreeMap::new(),
            done: BTreeMap::new(),
        };
        let mut waiting = jobs.into_iter().enumerate();
        loop {
            while run.open.len() < self.open
                && let Some((index, job)) = waiting.next()
            {
                run.start(index, job);
            }
            if run.open.is_empty() {
                break;
            }
            match receiver.recv_timeout(CANCEL_POLL) {
                Ok(reply) => run.replied(reply),
                Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => run.resubmit(),
            }
        }
        run.done.into_values().collect()
    }

    fn cancelled(&self) -> bool {
        self.cancel.is_some_and(|flag| flag.load(Ordering::Relaxed))
    }
}

/// A reply on its way to its question.
struct Reply {
    index: usize,
    call: usize,
    result: Result<Generation, EngineError>,
}

/// Hands a reply to the driver's thread; a backend that forgets it says so when it drops it.
struct Postbox {
    sender: Sender<Reply>,
    index: usize,
    call: usize,
    sent: bool,
}

impl Postbox {
    fn send(&mut self, result: Result<Generation, EngineError>) {
        self.sent = true;
        // The driver may have given up waiting; then nobody wants the reply.
        let _ = self.sender.send(Reply {
            index: self.index,
            call: self.call,
            result,
        });
    }
}

impl GenerationSink for Postbox {
    fn on_done(mut self: Box<Self>, result: Result<Generation, EngineError>) {
        self.send(result);
    }
}

impl Drop for Postbox {
    fn drop(&mut self) {
        if !self.sent {
            self.send(Err(EngineError::ShutDown));
        }
    }
}

/// A question under way.
struct Open<'a> {
    machine: Box<dyn Machine>,
    recall: &'a dyn Recall,
    trace: Trace,
    started: Instant,
    /// The step that waits for its event, and since when.
    step: Option<(Step, Instant)>,
    /// Number of model calls so far: replies to older ones are stale.
    call: usize,
    ticket: Option<Ticket>,
    /// The engine's queue was full; the request is submitted again later.
    stalled: bool,
}

/// The state of one [`Driver::run`].
struct Run<'r, 'a> {
    driver: &'r Driver<'a>,
    progress: &'r mut dyn FnMut(Progress<'_>),
    sender: Sender<Reply>,
    open: BTreeMap<usize, Open<'a>>,
    done: BTreeMap<usize, Answered>,
}

impl<'a> Run<'_, 'a> {
    fn start(&mut self, index: usize, job: Job<'a>) {
        let Job {
            question,
            method,
            recall,
        } = job;
        let card = recall.card();
        let known = card.as_ref().ok().cloned().unwrap_or_default();
        let trace = Trace::new(
            &self.driver.model.info().name,
            method.clone(),
            question.clone(),
            known,
        );
        let machine = card
            .map_err(AgentError::from)
            .and_then(|card| method.start(question, card));
        match machine {
            Err(error) => self.end(index, trace, Err(error)),
            Ok(machine) => {
                let started = Instant::now();
                let open = Open {
                    machine,
                    recall,
                    trace,
                    started,
                    step: None,
                    call: 0,
                    ticket: None,
                    stalled: false,
                };
                self.open.insert(index, open);
                self.advance(index);
            }
        }
    }

    /// Goes on with a question until it waits for the model or ends.
    fn advance(&mut self, index: usize) {
        while let Some(open) = self.open.get_mut(&index) {
            if self.driver.cancelled() {
                return self.fail(index, AgentError::Cancelled);
            }
            let step = open.machine.next_step();
            open.step = Some((step.clone(), Instant::now()));
            let event = match &step {
                Step::Search { requests } => requests
                    .iter()
                    .map(|request| open.recall.search(request))
                    .collect::<Result<_, RetrievalError>>()
                    .map(Event::Searched),
                Step::Window { turns, each_side } => turns
                    .iter()
                    .map(|key| open.recall.window(&key.conversation, &key.turn, *each_side))
                    .collect::<Result<_, RetrievalError>>()
                    .map(Event::Windowed),
                Step::Read => open.recall.turns().map(Event::Read),
                Step::Memories { text, limit } => match self.driver.memories {
                    Some(bank) => bank.similar_memories(text, *limit).map(Event::Memories),
                    None => return self.fail(index, AgentError::NoMemories),
                },
                Step::Generate { .. } => return self.submit(index),
                Step::Finished(outcome) => {
                    let mut outcome = outcome.clone();
                    outcome.seconds = open.started.elapsed().as_secs_f64();
                    return self.finish(index, Ok(*outcome));
                }
            };
            match event {
                Ok(event) => self.take(index, event),
                Err(error) => return self.fail(index, error.into()),
            }
        }
    }

    /// Hands the current step's request to the model.
    fn submit(&mut self, index: usize) {
        let Some(open) = self.open.get_mut(&index) else {
            return;
        };
        let Some((Step::Generate { stage, request }, _)) = &open.step else {
            return;
        };
        let (stage, iteration) = (*stage, open.machine.iteration());
        open.call += 1;
        open.stalled = false;
        let postbox = Postbox {
            sender: self.sender.clone(),
            index,
            call: open.call,
            sent: false,
        };
        match self.driver.model.submit((**request).clone(), Box::new(postbox)) {
            Ok(ticket) => {
                open.ticket = Some(ticket);
                (self.progress)(Progress::Asking {
                    index,
                    iteration,
                    stage,
                });
            }
            Err(EngineError::QueueFull { .. }) => {
                // The dropped postbox has posted a reply to this call: make it stale.
                open.call += 1;
                open.stalled = true;
            }
            Err(error) => self.fail(index, error.into()),
        }
    }

    fn replied(&mut self, reply: Reply) {
        let Reply { index, call, result } = reply;
        let Some(open) = self.open.get_mut(&index).filter(|open| open.call == call) else {
            return;
        };
        if let Some(ticket) = open.ticket.take() {
            ticket.detach();
        }
        match result {
            Ok(generation) => {
                self.take(index, Event::Generated(generation));
                self.advance(index);
            }
            Err(error) => self.fail(index, error.into()),
        }
        self.resubmit();
    }

    /// Tries what the engine had no room for, and ends everything when the run was cancelled.
    fn resubmit(&mut self) {
        let open: Vec<(usize, bool)> = self
            .open
            .iter()
            .map(|(index, open)| (*index, open.stalled))
            .collect();
        for (index, stalled) in open {
            if self.driver.cancelled() {
                self.fail(index, AgentError::Cancelled);
            } else if stalled {
                self.submit(index);
            }
        }
    }

    /// Gives an event to its question and records both.
    fn take(&mut self, index: usize, event: Event) {
        let Some(open) = self.open.get_mut(&index) else {
            return;
        };
        let Some((step, since)) = open.step.take() else {
            return;
        };
        let iteration = open.machine.iteration();
        if let Err(error) = open.machine.on_event(event.clone()) {
            return self.fail(index, error);
        }
        let notes = open.machine.take_notes();
        open.trace.steps.push(TraceStep {
            iteration,
            step,
            event,
            notes,
            seconds: since.elapsed().as_secs_f64(),
        });
    }

    fn fail(&mut self, index: usize, error: AgentError) {
        self.finish(index, Err(error));
    }

    fn finish(&mut self, index: usize, result: Result<Outcome, AgentError>) {
        if let Some(open) = self.open.remove(&index) {
            self.end(index, open.trace, result);
        }
    }

    fn end(&mut self, index: usize, mut trace: Trace, result: Result<Outcome, AgentError>) {
        trace.end = match &result {
            Ok(outcome) => End::Finished(Box::new(outcome.clone())),
            Err(AgentError::Cancelled) => End::Open,
            Err(error) => End::Failed {
                reason: error.to_string(),
            },
        };
        let answered = Answered { result, trace };
        (self.progress)(Progress::Ended {
            index,
            answered: &answered,
        });
        self.done.insert(index, answered);
    }
}
