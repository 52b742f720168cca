//! The `mneme` binary: parse, wire, run, print. It computes nothing itself.

mod assemble;
mod cli;
mod commands;
mod interrupt;
mod output;
mod progress;

use std::process::ExitCode;

use clap::Parser;

fn main() -> ExitCode {
    let cli = cli::Cli::parse();
    progress::start_logging(cli.quiet);
    match commands::run(cli) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            output::error(&error);
            ExitCode::FAILURE
        }
    }
}
