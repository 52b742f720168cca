//! Methods that answer: ask every question, keep every answer, judge, report.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use agents::{AgentError, Method};
use anyhow::{Result, bail};
use engine_contract::{EngineError, LanguageModel};
use evaluation::{Asked, Description, Ended, Gold, Record, RunFolder, Runner, Session};
use kernels::Cpu;
use retrieval::{Recall, Searcher};
use serde_json::{Value, json};

use super::environment::{self, ModelFile};
use super::method::{self, Planned};
use super::{judging, publish};
use crate::cli::{AnsweringArgs, ModelArgs};
use crate::{assemble, interrupt, progress};

/// Questions and everything that is needed to answer, measure and report them.
pub(super) struct Task<'a> {
    /// Name of the data set.
    pub(super) data_set: &'static str,
    pub(super) gold: Gold,
    /// What is asked: the types hold no gold.
    pub(super) asked: Vec<Asked>,
    /// What the choice of questions and the ranking depend on.
    pub(super) settings: Value,
    pub(super) method: Method,
    pub(super) answering: &'a AnsweringArgs,
    pub(super) model: &'a ModelArgs,
    pub(super) memory: &'a Path,
    pub(super) embedder: &'a str,
    pub(super) json: Option<&'a Path>,
    pub(super) quiet: bool,
}

/// What makes the memories of questions ready.
pub(super) trait Memories {
    /// How many questions may be ready at once.
    fn at_once(&self) -> usize;

    /// One searcher per question, ingested now where it is missing.
    fn ready(&mut self, asked: &[&Asked]) -> Result<Ready>;
}

/// Memories, and what making them cost.
#[derive(Default)]
pub(super) struct Ready {
    pub(super) searchers: Vec<Searcher>,
    pub(super) ingest_seconds: f64,
    pub(super) ingested_turns: usize,
}

/// A run that was asked to its end, or as far as it came.
pub(super) struct Answered {
    pub(super) planned: Planned,
    /// Its own folder, where there is one.
    pub(super) folder: Option<PathBuf>,
    pub(super) records: Vec<Record>,
    pub(super) sessions: Vec<Session>,
}

pub(super) fn run(task: &Task<'_>, memories: &mut dyn Memories, cpu: &Arc<Cpu>) -> Result<()> {
    method::plan(&task.method, task.answering)?;
    let file = environment::model_file(&task.model.model)?;
    let loaded = assemble::language_model(cpu.clone(), task.model, Some(task.memory))?;
    let fitted = method::fit(task.method.clone(), loaded.engine.info().context_tokens);
    let mut asking = Asking {
        task,
        file: &file,
        model: &loaded.engine,
        memories,
        cancel: interrupt::flag()?,
        failures: Vec::new(),
    };
    let mut runs: Vec<Answered> = Vec::new();
    for planned in method::plan(&fitted, task.answering)? {
        let same = runs.iter().find(|run| run.planned.method == planned.method);
        let answered = match same {
            Some(run) => Answered {
                planned,
                folder: run.folder.clone(),
                records: run.records.clone(),
                sessions: run.sessions.clone(),
            },
            None => asking.run(planned)?,
        };
        runs.push(answered);
        if asking.interrupted() {
            break;
        }
    }
    let (failures, interrupted) = (std::mem::take(&mut asking.failures), asking.interrupted());
    loaded.keep_prefixes();
    if runs[0].records.is_empty() {
        match failures.first() {
            Some(first) => bail!("every question failed, the first: {first}"),
            None => bail!("interrupted before the first answer"),
        }
    }
    runs.retain(|run| !run.records.is_empty());
    let mut measured = judging::measure(task, runs)?;
    // A judge that fails takes no answer with it: the report is written without its verdicts.
    let judged = if interrupted {
        Ok(())
    } else {
        judging::judge(task, &loaded.engine, cpu, &mut measured)
    };
    publish::run(task, &file, measured)?;
    judged?;
    if interrupted {
        bail!("interrupted; the same command with --resume goes on");
    }
    match failures.first() {
        Some(first) => bail!("{} questions failed, the first: {first}", failures.len()),
        None => Ok(()),
    }
}

struct Asking<'a> {
    task: &'a Task<'a>,
    file: &'a ModelFile,
    model: &'a dyn LanguageModel,
    memories: &'a mut dyn Memories,
    cancel: &'static AtomicBool,
    failures: Vec<String>,
}

impl Asking<'_> {
    fn interrupted(&self) -> bool {
        self.cancel.load(Ordering::Relaxed)
    }

    fn run(&mut self, planned: Planned) -> Result<Answered> {
        let folder = self
            .task
            .answering
            .out
            .as_ref()
            .map(|out| match planned.name.as_str() {
                "main" => out.clone(),
                name => out.join("runs").join(name),
            });
        let mut kept = match &folder {
            Some(path) => Kept::Folder(RunFolder::open(
                path,
                &self.description(&planned.method),
                self.task.answering.resume,
            )?),
            None => Kept::Here(Vec::new()),
        };
        let task = self.task;
        let open: Vec<&Asked> = task.asked.iter().filter(|asked| !kept.holds(&asked.id)).collect();
        let session = self.ask(&planned, &open, &mut kept)?;
        let mut sessions = match &folder {
            Some(path) => evaluation::FinishedRun::open(path)?.sessions,
            None => Vec::new(),
        };
        if session != Session::default() {
            if let Kept::Folder(folder) = &kept {
                folder.add_session(&session)?;
            }
            sessions.push(session);
        }
        Ok(Answered {
            planned,
            folder,
            records: kept.into_records(),
            sessions,
        })
    }

    fn ask(&mut self, planned: &Planned, open: &[&Asked], kept: &mut Kept) -> Result<Session> {
        let bar = progress::count_bar(self.task.quiet);
        bar.set_length(open.len() as u64);
        bar.set_message(format!("asking, {}", planned.name));
        let mut session = Session::default();
        let runner = Runner {
            model: self.model,
            method: &planned.method,
            open: self.task.answering.concurrency,
            cancel: Some(self.cancel),
        };
        for chunk in open.chunks(self.memories.at_once().max(1)) {
            if self.interrupted() {
                break;
            }
            let ready = self.memories.ready(chunk)?;
            session.ingest_seconds += ready.ingest_seconds;
            session.ingested_turns += ready.ingested_turns;
            let started = Instant::now();
            let recalls = ready.searchers.iter().map(|searcher| searcher as &dyn Recall);
            let questions: Vec<(&Asked, &dyn Recall)> = chunk.iter().copied().zip(recalls).collect();
            let failures = &mut self.failures;
            let mut written = Ok(());
            runner.run(&questions, &mut |asked, ended| {
                bar.inc(1);
                match ended {
                    Ended::Answered(record, trace) => {
                        session.answered += 1;
                        let result = kept.add(*record, &trace);
                        if written.is_ok() {
                            written = result;
                        }
                    }
                    Ended::Failed(AgentError::Cancelled) => {}
                    Ended::Failed(error) => {
                        failures.push(format!("{}: {error}{}", asked.id, remedy(&planned.method, error)));
                    }
                }
            });
            written?;
            session.seconds += started.elapsed().as_secs_f64();
        }
        bar.finish_and_clear();
        if session != Session::default() {
            session.peak_bytes = environment::peak_bytes();
        }
        Ok(session)
    }

    fn description(&self, method: &Method) -> Description {
        let task = self.task;
        let mut settings = json!({
            "data_set": task.data_set,
            "model": self.file.name,
            "model_sha256": self.file.sha256,
            "embedder": task.embedder,
            "method": method,
        });
        if let (Some(all), Some(more)) = (settings.as_object_mut(), task.settings.as_object()) {
            all.extend(more.clone());
        }
        let mut environment = environment::describe(self.file, task.embedder, task.model.threads);
        environment["command"] = environment::command().into();
        Description {
            settings,
            environment,
        }
    }
}

/// What helps where a whole conversation does not fit.
fn remedy(method: &Method, error: &AgentError) -> &'static str {
    let too_long = matches!(
        error,
        AgentError::Engine(EngineError::PromptTooLong { .. } | EngineError::NeverFits { .. })
    );
    match method {
        Method::FullContext(settings) if too_long && !settings.truncate => {
            "; --truncate shows the newest part of the conversation that fits"
        }
        Method::FullContext(_) | Method::Memcot(_) | Method::Rag(_) | Method::Rime(_) => "",
    }
}

/// Answers in a folder, or in memory alone.
enum Kept {
    Folder(RunFolder),
    Here(Vec<Record>),
}

impl Kept {
    fn holds(&self, id: &str) -> bool {
        match self {
            Self::Folder(folder) => folder.holds(id),
            Self::Here(_) => false,
        }
    }

    fn add(&mut self, record: Record, trace: &str) -> Result<()> {
        match self {
            Self::Folder(folder) => folder.add(record, trace)?,
            Self::Here(records) => records.push(record),
        }
        Ok(())
    }

    fn into_records(self) -> Vec<Record> {
        match self {
            Self::Folder(folder) => folder.records().to_vec(),
            Self::Here(records) => records,
        }
    }
}
