//! One file per command: from what was typed to what is printed.

mod ask;
mod demo;
mod eval;
mod generate;
mod graph;
mod ingest;
mod memory;
mod models;
mod search;

use anyhow::Result;

use crate::cli::{Cli, Command};

/// Runs the command.
pub(crate) fn run(cli: Cli) -> Result<()> {
    match cli.command {
        Command::Demo(args) => demo::run(args, cli.quiet),
        Command::Ingest(args) => ingest::run(&args, cli.quiet),
        Command::Ask(args) => ask::run(&args, cli.quiet),
        Command::Search(args) => search::run(&args),
        Command::Generate(args) => generate::run(&args, cli.quiet),
        Command::Graph(args) => graph::run(&args, cli.quiet),
        Command::Memory(args) => memory::run(args, cli.quiet),
        Command::Models(args) => models::run(args, cli.quiet),
        Command::Eval(args) => eval::run(args, cli.quiet),
    }
}
