//! `mneme ask`: questions in, answers with their proof out.

use std::fs;
use std::path::Path;
use std::sync::atomic::AtomicBool;

use agents::{Answered, Driver, Job, Method, Outcome, Progress, Question, RagSettings, Settings, Trace};
use anyhow::{Context, Result, bail};
use retrieval::{Recall, TurnRecord};
use serde_json::{Value, json};

use crate::cli::{self, AskArgs};
use crate::{assemble, interrupt, output, progress};

/// Answers all questions in one batch; the first failure is the command's error, after every answer was printed.
pub(crate) fn run(args: &AskArgs, quiet: bool) -> Result<()> {
    let method = method(args);
    let asked = args.question_date.as_deref().map(parse_date).transpose()?;
    let cpu = assemble::cpu(args.model.threads)?;
    let spinner = progress::spinner(quiet);
    spinner.set_message("opening the memory");
    let folder = assemble::folder(&args.place.memory, args.place.namespace.as_deref())?;
    let searcher = assemble::searcher(cpu.clone(), &folder, args.conversation.as_deref())?;
    spinner.set_message(format!("loading {}", args.model.model));
    let loaded = assemble::language_model(cpu, &args.model, Some(&folder))?;
    let cancel = interrupt::flag()?;
    let jobs = args.questions.iter().map(|text| Job {
        question: Question {
            text: text.clone(),
            asked,
        },
        method: method.clone(),
        recall: &searcher as &dyn Recall,
    });
    let driver = Driver::new(&loaded.engine).cancel(cancel);
    let answered = driver.run(jobs.collect(), &mut |event| {
        if let Progress::Asking {
            index,
            iteration,
            stage,
        } = event
        {
            spinner.set_message(format!(
                "question {}: iteration {iteration}, {stage:?}",
                index + 1
            ));
        }
    });
    spinner.finish_and_clear();
    loaded.keep_prefixes();
    if let Some(path) = &args.trace {
        write_traces(path, &answered)?;
    }
    report(args, answered, cancel)
}

fn report(args: &AskArgs, answered: Vec<Answered>, cancel: &AtomicBool) -> Result<()> {
    let mut failure = None;
    for (question, answered) in args.questions.iter().zip(answered) {
        match answered.result {
            Ok(outcome) if args.json => output::json(&as_json(question, &outcome))?,
            Ok(outcome) => print(question, &outcome, args.questions.len() > 1),
            Err(error) => {
                failure = failure.or(Some(anyhow::Error::new(error).context(format!("`{question}`"))))
            }
        }
    }
    if cancel.load(std::sync::atomic::Ordering::Relaxed) {
        bail!("interrupted; answers that were ready are printed, the memory is as it was");
    }
    failure.map_or(Ok(()), Err)
}

fn method(args: &AskArgs) -> Method {
    match args.method {
        cli::Method::Memcot => {
            let default = Settings::default();
            Method::Memcot(Settings {
                max_iterations: args.max_iterations.unwrap_or(default.max_iterations),
                window: args.window.unwrap_or(default.window),
                top_k: args.top_k.unwrap_or(default.top_k),
                abstain: !args.no_abstain,
                ..default
            })
        }
        cli::Method::Rag => {
            let default = RagSettings::default();
            Method::Rag(RagSettings {
                top_k: args.top_k.unwrap_or(default.top_k),
                abstain: !args.no_abstain,
                ..default
            })
        }
    }
}

fn parse_date(text: &str) -> Result<jiff::civil::DateTime> {
    let date: jiff::civil::Date = text
        .parse()
        .with_context(|| format!("--question-date is {text}, expected a date such as 2023-05-08"))?;
    Ok(date.at(12, 0, 0, 0))
}

/// One trace as an object, several as a list; written beside the goal and renamed, so that it is whole or absent.
fn write_traces(path: &Path, answered: &[Answered]) -> Result<()> {
    let text = match answered {
        [one] => one.trace.to_json(),
        several => {
            let traces: Vec<&Trace> = several.iter().map(|a| &a.trace).collect();
            serde_json::to_string_pretty(&traces)?
        }
    };
    let mut partial = path.as_os_str().to_owned();
    partial.push(".partial");
    fs::write(&partial, text)
        .and_then(|()| fs::rename(&partial, path))
        .with_context(|| format!("the trace cannot be written to {}", path.display()))
}

/// The object of `--json`.
pub(crate) fn as_json(question: &str, outcome: &Outcome) -> Value {
    json!({
        "question": question,
        "answer": outcome.answer,
        "abstained": outcome.abstained,
        "evidence": outcome.evidence.iter().map(|turn| json!({
            "id": turn.id,
            "conversation": turn.conversation,
            "session": turn.session,
            "time": turn.time,
            "speaker": turn.speaker,
            "text": turn.text,
            "caption": turn.caption,
        })).collect::<Vec<_>>(),
        "iterations": outcome.iterations,
        "usage": {
            "prompt_tokens": outcome.usage.prompt_tokens,
            "cached_tokens": outcome.usage.cached_tokens,
            "computed_tokens": outcome.usage.computed_tokens,
            "generated_tokens": outcome.usage.generated_tokens,
        },
        "seconds": outcome.seconds,
    })
}

/// The answer for eyes: answer, proof, cost.
pub(crate) fn print(question: &str, outcome: &Outcome, with_question: bool) {
    if with_question {
        output::line(question);
    }
    output::line(&outcome.answer);
    for turn in &outcome.evidence {
        output::line(format!("  [{}] {}", turn.id, quote(turn)));
    }
    let figure = |count: Option<usize>| count.map_or("unknown".to_owned(), |n| n.to_string());
    let usage = &outcome.usage;
    output::line(format!(
        "  {} iteration{}, {:.1} s; tokens: {} prompt ({} cached, {} computed), {} generated",
        outcome.iterations,
        if outcome.iterations == 1 { "" } else { "s" },
        outcome.seconds,
        usage.prompt_tokens,
        figure(usage.cached_tokens),
        figure(usage.computed_tokens),
        usage.generated_tokens,
    ));
}

/// `8 May 2023, Ann: text [shows a picture of …]`.
pub(crate) fn quote(turn: &TurnRecord) -> String {
    let date = turn
        .time
        .map_or(String::new(), |time| format!("{}, ", time.strftime("%-d %B %Y")));
    let caption = turn
        .caption
        .as_ref()
        .map_or(String::new(), |caption| format!(" [shows {caption}]"));
    format!("{date}{}: {}{caption}", turn.speaker, turn.text)
}
