//! What every backend of [`LanguageModel`](crate::LanguageModel) must do, as checks that any crate can run on its own.
//!
//! The checks send random token ids, so that they need no tokenizer and hit block boundaries exactly, and compare
//! token ids and the bits of log-probabilities. Run [`run`] on a model, then [`Report::assert_passed`].

mod behaviour;
mod exactness;
mod suite;

pub use suite::{Options, Report, Suite};

use crate::LanguageModel;

/// A property, and the function that looks for a counterexample.
type Check = (&'static str, fn(&Suite<'_>) -> Result<(), String>);

const CHECKS: &[Check] = &[
    (
        "a batch gives what each request gives alone",
        exactness::batch_equals_alone,
    ),
    (
        "a cached prompt gives what a fresh one gives",
        exactness::cached_equals_fresh,
    ),
    (
        "a forked prompt gives what a fresh one gives",
        exactness::forked_equals_fresh,
    ),
    (
        "a continued reply gives what a fresh prompt gives",
        exactness::continued_equals_fresh,
    ),
    (
        "evicted and recomputed gives what fresh gives",
        exactness::evicted_equals_fresh,
    ),
    (
        "siblings that arrive together compute their stem once",
        exactness::siblings_share,
    ),
    (
        "seeded sampling is repeatable, whatever shares the batch",
        exactness::seeds_repeat,
    ),
    (
        "namespaces see nothing of each other",
        behaviour::namespaces_are_apart,
    ),
    ("usage adds up", behaviour::usage_adds_up),
    (
        "log-probabilities are natural logarithms",
        behaviour::logprobs_are_natural,
    ),
    (
        "a dropped ticket cancels, and the model lives on",
        behaviour::cancel_works,
    ),
    (
        "what does not fit is refused with the numbers",
        behaviour::overflow_is_refused,
    ),
    (
        "bad fields are refused by name",
        behaviour::bad_fields_are_refused,
    ),
    ("replies belong to their constraint", behaviour::constraints_hold),
    (
        "streamed text is the reply's text",
        behaviour::streams_concatenate,
    ),
];

/// Runs every check on a model that nobody else uses meanwhile.
pub fn run(model: &dyn LanguageModel, options: Options) -> Report {
    let suite = Suite::new(model, options);
    let results = CHECKS
        .iter()
        .map(|(name, check)| (*name, check(&suite)))
        .collect();
    Report { results }
}
