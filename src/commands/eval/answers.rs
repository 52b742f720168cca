//! `--method rag` and `--method memcot`: answers, their scores and their price.

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;
use std::time::Instant;

use agents::{Driver, Job, Method, Outcome, Progress, RagSettings, Settings};
use anyhow::{Result, bail};
use engine_contract::{LanguageModel, Usage};
use evaluation::{Dataset, Prediction, Question, ScoreOptions, score};
use kernels::Cpu;
use retrieval::{Recall, Searcher};
use serde_json::{Value, json};

use super::log::Log;
use super::{locomo, print_scores, recall, write_json};
use crate::cli::{EvalMethod, LocomoArgs};
use crate::{assemble, interrupt, output, progress};

/// What a run cost, added up over its questions.
#[derive(Default)]
struct Price {
    questions: usize,
    iterations: usize,
    usage: Option<Usage>,
    failures: Vec<String>,
}

pub(super) fn run(
    args: &LocomoArgs,
    questions: &[&Question],
    dataset: &Dataset,
    cpu: Arc<Cpu>,
    quiet: bool,
) -> Result<()> {
    let method = method(args);
    let mut log = Log::open(args.out.as_deref(), &args.model.model, &method)?;
    let open: Vec<&Question> = questions
        .iter()
        .copied()
        .filter(|question| !log.holds(&question.id))
        .collect();
    let whole = locomo::searcher(args, cpu.clone())?;
    let searchers = recall::by_conversation(&whole, questions)?;
    let loaded = assemble::language_model(cpu, &args.model, Some(&args.memory))?;
    let started = Instant::now();
    let run = Run {
        args,
        method,
        questions: &open,
        searchers: &searchers,
        model: &loaded.engine,
    };
    let price = run.ask(&mut log, quiet)?;
    let seconds = started.elapsed().as_secs_f64();
    loaded.keep_prefixes();
    let ids: HashSet<&str> = questions.iter().map(|question| question.id.as_str()).collect();
    let predictions: Vec<Prediction> = log
        .into_predictions()
        .into_iter()
        .filter(|prediction| ids.contains(prediction.id.as_str()))
        .collect();
    if predictions.is_empty()
        && let Some(first) = price.failures.first()
    {
        bail!("every question failed, the first: {first}");
    }
    let scores = score(&predictions, dataset, &ScoreOptions::default())?;
    print_scores(&scores);
    output::line(price.sentence(seconds, &loaded.engine));
    if let Some(path) = &args.json {
        let price = price.as_json(seconds, &loaded.engine);
        write_json(
            path,
            &json!({ "scores": scores, "price": price, "model": loaded.engine.info() }),
        )?;
    }
    match price.failures.first() {
        Some(first) => bail!("{} questions failed, the first: {first}", price.failures.len()),
        None => Ok(()),
    }
}

/// Questions that are still to be answered, and what answers them.
struct Run<'a> {
    args: &'a LocomoArgs,
    method: Method,
    questions: &'a [&'a Question],
    searchers: &'a BTreeMap<String, Searcher>,
    model: &'a dyn LanguageModel,
}

impl Run<'_> {
    fn ask(&self, log: &mut Log, quiet: bool) -> Result<Price> {
        let jobs = self.questions.iter().map(|question| Job {
            question: agents::Question::new(&question.text),
            method: self.method.clone(),
            recall: &self.searchers[&question.conversation] as &dyn Recall,
        });
        let bar = progress::count_bar(quiet);
        bar.set_length(self.questions.len() as u64);
        bar.set_message("asking");
        let cancel = interrupt::flag()?;
        let mut price = Price::default();
        let mut failed = Ok(());
        Driver::new(self.model)
            .open(self.args.concurrency)
            .cancel(cancel)
            .run(jobs.collect(), &mut |event| {
                let Progress::Ended { index, answered } = event else {
                    return;
                };
                bar.inc(1);
                match &answered.result {
                    Ok(outcome) => {
                        price.add(outcome);
                        let written =
                            log.write(&self.questions[index].id, outcome, &answered.trace.to_json());
                        if failed.is_ok() {
                            failed = written;
                        }
                    }
                    Err(error) => price
                        .failures
                        .push(format!("{}: {error}", self.questions[index].id)),
                }
            });
        bar.finish_and_clear();
        failed.map(|()| price)
    }
}

/// "Not in the conversation" may be said only where the run asks unanswerable questions at all: the published protocol
/// forbids it on the others. One setting for the whole run; no question's own category is looked at.
fn method(args: &LocomoArgs) -> Method {
    let retriever = locomo::retriever(args.retriever);
    let abstain = args.categories.contains(&5);
    if args.method == EvalMethod::Rag {
        Method::Rag(RagSettings {
            retriever,
            abstain,
            ..RagSettings::default()
        })
    } else {
        Method::Memcot(Settings {
            retriever,
            abstain,
            ..Settings::default()
        })
    }
}

impl Price {
    fn add(&mut self, outcome: &Outcome) {
        self.questions += 1;
        self.iterations += outcome.iterations;
        self.usage.get_or_insert_with(Usage::zero).add(&outcome.usage);
    }

    fn per_question(&self, value: usize) -> f64 {
        value as f64 / self.questions.max(1) as f64
    }

    fn as_json(&self, seconds: f64, model: &dyn LanguageModel) -> Value {
        let usage = self.usage.unwrap_or_else(Usage::zero);
        json!({
            "questions": self.questions,
            "failures": self.failures,
            "seconds": seconds,
            "iterations": self.per_question(self.iterations),
            "prompt_tokens": self.per_question(usage.prompt_tokens),
            "cached_tokens": usage.cached_tokens.map(|tokens| self.per_question(tokens)),
            "computed_tokens": usage.computed_tokens.map(|tokens| self.per_question(tokens)),
            "generated_tokens": self.per_question(usage.generated_tokens),
            "engine": model.stats(),
        })
    }

    fn sentence(&self, seconds: f64, model: &dyn LanguageModel) -> String {
        let usage = self.usage.unwrap_or_else(Usage::zero);
        format!(
            "{} questions in {seconds:.1} s ({:.2} s each), {:.2} iterations each; tokens each: {:.0} prompt, {:.0} \
             computed, {:.0} generated; cache hit rate {:.1} %",
            self.questions,
            seconds / self.questions.max(1) as f64,
            self.per_question(self.iterations),
            self.per_question(usage.prompt_tokens),
            self.per_question(usage.computed_tokens.unwrap_or(0)),
            self.per_question(usage.generated_tokens),
            100.0 * model.stats().hit_rate(),
        )
    }
}
