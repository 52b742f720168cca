//! `mneme eval`: measure on a data set.

mod answers;
mod embedding_cache;
mod environment;
mod haystacks;
mod histories;
mod judging;
mod locomo;
mod longmemeval;
mod method;
mod publish;
mod recall;
mod score;

use std::fs;
use std::path::Path;

use anyhow::{Context, Result};
use evaluation::Category;
use serde::Serialize;

use crate::cli::{EvalArgs, EvalCommand};

pub(crate) fn run(args: EvalArgs, quiet: bool) -> Result<()> {
    match args.command {
        EvalCommand::Locomo(args) => locomo::run(&args, quiet),
        EvalCommand::Longmemeval(args) => histories::run(&args, quiet),
        EvalCommand::Score(args) => score::run(&args),
        EvalCommand::Judge(args) => judging::run(&args, quiet),
        EvalCommand::Compare(args) => publish::compare_runs(&args),
        EvalCommand::Report(args) => publish::report(&args),
    }
}

fn parse_categories(numbers: &[u64]) -> Result<Vec<Category>> {
    let parse = |number: &u64| {
        Category::from_number(*number)
            .with_context(|| format!("--categories has {number}, expected numbers from 1 to 5"))
    };
    numbers.iter().map(parse).collect()
}

fn write_json(path: &Path, value: &impl Serialize) -> Result<()> {
    fs::write(path, serde_json::to_string_pretty(value)?)
        .with_context(|| format!("cannot write {}", path.display()))
}
