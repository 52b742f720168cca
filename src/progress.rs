//! What a person sees on stderr while work goes on.

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use tracing_subscriber::EnvFilter;

/// Sends diagnostics to stderr: warnings, or what `MNEME_LOG` asks for (`MNEME_LOG=engine=debug`). An unreachable hub is no
/// error while another source is left; `models pull` says itself what each source answered when none is.
pub(crate) fn start_logging(quiet: bool) {
    let default = if quiet {
        "error,hf_hub=off"
    } else {
        "warn,hf_hub=off"
    };
    let filter = EnvFilter::try_from_env("MNEME_LOG").unwrap_or_else(|_| EnvFilter::new(default));
    tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr)
        .with_target(true)
        .init();
}

/// A bar of bytes with rate and time left; silent when quiet or not on a terminal.
pub(crate) fn byte_bar(quiet: bool) -> ProgressBar {
    bar(
        quiet,
        "{msg:30} {bar:30} {bytes:>10}/{total_bytes:10} {bytes_per_sec:>12} {eta:>4}",
    )
}

/// A bar of counted things.
pub(crate) fn count_bar(quiet: bool) -> ProgressBar {
    bar(quiet, "{msg:30} {bar:30} {pos:>6}/{len:6} {eta:>4}")
}

/// A line that says what is being done.
pub(crate) fn spinner(quiet: bool) -> ProgressBar {
    let bar = bar(quiet, "{spinner} {msg} [{elapsed}]");
    bar.enable_steady_tick(std::time::Duration::from_millis(120));
    bar
}

fn bar(quiet: bool, template: &str) -> ProgressBar {
    let target = if quiet {
        ProgressDrawTarget::hidden()
    } else {
        ProgressDrawTarget::stderr()
    };
    let bar = ProgressBar::with_draw_target(Some(0), target);
    bar.set_style(ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar()));
    bar
}
