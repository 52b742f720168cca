//! Measures answers, and lets a model judge them where that was asked for. Also `mneme eval judge`.

use std::sync::Arc;

use anyhow::{Context, Result};
use engine_contract::LanguageModel;
use evaluation::{
    Agreement, Audit, Case, Gold, Item, Judgements, Measured, Resampling, Rules, Table, judge_items,
};
use kernels::Cpu;
use serde_json::json;

use super::answers::{Answered, Task};
use super::{publish, write_json};
use crate::cli::{JudgeArgs, JudgeKind, ModelArgs};
use crate::{assemble, interrupt, output, progress};

/// Cases judged between two writes: what a crash loses at most.
const AT_ONCE: usize = 16;

/// Runs with their measures, and what is known of the judges.
pub(super) struct Runs {
    pub(super) measured: Vec<Measured>,
    pub(super) folders: Vec<Option<std::path::PathBuf>>,
    pub(super) agreements: Vec<Agreement>,
    pub(super) audit: Option<Audit>,
}

pub(super) fn rules(kind: JudgeKind) -> Rules {
    match kind {
        JudgeKind::Lenient => Rules::Lenient,
        JudgeKind::Strict => Rules::Strict,
        JudgeKind::Longmemeval => Rules::Longmemeval,
    }
}

/// Opens the file of known label errors, which only LoCoMo has.
pub(super) fn audit(path: Option<&std::path::Path>, gold: &Gold) -> Result<Option<Audit>> {
    match (path, gold) {
        (None, _) => Ok(None),
        (Some(path), Gold::Questions(dataset)) => Ok(Some(Audit::open(path, dataset)?)),
        (Some(_), Gold::Histories(_)) => {
            anyhow::bail!("--audit is for LoCoMo's labels, not for LongMemEval's")
        }
    }
}

pub(super) fn measure(task: &Task<'_>, runs: Vec<Answered>) -> Result<Runs> {
    let audit = audit(task.answering.audit.as_deref(), &task.gold)?;
    let out = task.answering.out.as_deref();
    let mut measured = Vec::with_capacity(runs.len());
    let mut folders = Vec::with_capacity(runs.len());
    for run in runs {
        let below = run
            .folder
            .as_deref()
            .zip(out)
            .and_then(|(folder, out)| folder.strip_prefix(out).ok());
        measured.push(Measured {
            name: if run.planned.name == "main" {
                task.method_name()
            } else {
                run.planned.name
            },
            folder: below.map(|path| path.display().to_string()).unwrap_or_default(),
            axis: run.planned.axis,
            items: task.gold.measure(&run.records, audit.as_ref())?,
            records: run.records,
            sessions: run.sessions,
        });
        folders.push(run.folder);
    }
    Ok(Runs {
        measured,
        folders,
        agreements: Vec::new(),
        audit,
    })
}

impl Task<'_> {
    /// `memcot`, `rag` or `full-context`.
    pub(super) fn method_name(&self) -> String {
        publish::method_name(&serde_json::to_value(&self.method).unwrap_or_default())
    }
}

/// Judges every run by the rules that were asked for; what was judged before is not asked again.
pub(super) fn judge(
    task: &Task<'_>,
    answerer: &dyn LanguageModel,
    cpu: &Arc<Cpu>,
    runs: &mut Runs,
) -> Result<()> {
    if task.answering.judge.is_empty() {
        return Ok(());
    }
    let other = task
        .answering
        .judge_model
        .as_ref()
        .filter(|name| **name != task.model.model);
    let loaded = other
        .map(|name| {
            let args = ModelArgs {
                model: name.clone(),
                ..task.model.clone()
            };
            assemble::language_model(cpu.clone(), &args, None)
        })
        .transpose()?;
    let model = loaded
        .as_ref()
        .map_or(answerer, |loaded| &loaded.engine as &dyn LanguageModel);
    for kind in &task.answering.judge {
        let rules = rules(*kind);
        let mut known = None;
        for (run, folder) in runs.measured.iter_mut().zip(&runs.folders) {
            let Some(folder) = folder else {
                judge_items(model, rules, &mut run.items, Some(interrupt::flag()?))?;
                continue;
            };
            let mut kept = Judgements::open(folder)?;
            known = known.or_else(|| agreement_in(&kept, model, rules));
            judge_missing(model, rules, &mut run.items, &mut kept, task.quiet)?;
        }
        let agreement = match known {
            Some(agreement) => agreement,
            None => Agreement::measure(model, rules, Some(interrupt::flag()?))?,
        };
        if let Some(folder) = runs.folders.first().and_then(Option::as_ref) {
            let mut kept = Judgements::open(folder)?;
            if agreement_in(&kept, model, rules).is_none() {
                kept.add_agreement(agreement.clone())?;
            }
        }
        runs.agreements.push(agreement);
    }
    Ok(())
}

fn agreement_in(kept: &Judgements, model: &dyn LanguageModel, rules: Rules) -> Option<Agreement> {
    let mut all = kept.agreements().into_iter();
    all.find(|agreement| agreement.rules == rules && agreement.judge == model.info().name)
}

fn judge_missing(
    model: &dyn LanguageModel,
    rules: Rules,
    items: &mut [Item],
    kept: &mut Judgements,
    quiet: bool,
) -> Result<()> {
    let judge = model.info().name.clone();
    let mut missing = kept.enter(Some(&judge), rules, items);
    missing.retain(|&index| Case::of(&items[index]).applies(rules));
    let bar = progress::count_bar(quiet);
    bar.set_length(missing.len() as u64);
    bar.set_message(format!("judging, {}", rules.name()));
    for chunk in missing.chunks(AT_ONCE) {
        let cases: Vec<Case<'_>> = chunk.iter().map(|&index| Case::of(&items[index])).collect();
        let verdicts = evaluation::judge(model, rules, &cases, Some(interrupt::flag()?))?;
        let ids = chunk.iter().map(|&index| items[index].id.clone());
        kept.add_verdicts(&judge, rules, ids.zip(verdicts))?;
        bar.inc(chunk.len() as u64);
    }
    bar.finish_and_clear();
    kept.enter(Some(&judge), rules, items);
    Ok(())
}

/// `mneme eval judge`.
pub(super) fn run(args: &JudgeArgs, quiet: bool) -> Result<()> {
    let gold = args.data.as_deref().map(Gold::open).transpose()?;
    let mut items = match (&args.predictions, &gold) {
        (Some(path), Some(gold)) => gold.measure(&publish::records(path, gold)?, None)?,
        _ => Vec::new(),
    };
    let spinner = progress::spinner(quiet);
    spinner.set_message(format!("loading {}", args.model.model));
    let loaded = assemble::language_model(assemble::cpu(args.model.threads)?, &args.model, None)?;
    let cancel = Some(interrupt::flag()?);
    let mut agreements = Vec::new();
    for kind in &args.judge {
        let rules = rules(*kind);
        spinner.set_message(format!("judging by {} rules", rules.name()));
        agreements.push(Agreement::measure(&loaded.engine, rules, cancel)?);
        judge_items(&loaded.engine, rules, &mut items, cancel)?;
    }
    spinner.finish_and_clear();
    let table = gold.as_ref().filter(|_| !items.is_empty()).map(|gold| {
        let table = Table::of(&items, &gold.order(), Resampling::default());
        output::table(&publish::rows(&table));
        table
    });
    output::table(&publish::agreement_rows(&agreements));
    if let Some(path) = &args.json {
        let json = json!({ "agreements": agreements, "table": table, "questions": items });
        write_json(path, &json).context("the labels cannot be kept")?;
    }
    Ok(())
}
