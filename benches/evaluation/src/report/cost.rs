//! What a run cost.

use serde::Serialize;

use crate::f1::count;
use crate::record::{Price, Record};
use crate::run_folder::Session;

/// The price of a run. Means are per question that has a price.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Cost {
    /// Questions that have a price.
    pub priced: usize,
    /// Rounds of search.
    pub iterations: f64,
    /// Tokens of prompts.
    pub prompt_tokens: f64,
    /// Those that came from the cache; `None` where the engine does not say.
    pub cached_tokens: Option<f64>,
    /// Those that were computed.
    pub computed_tokens: Option<f64>,
    /// New tokens.
    pub generated_tokens: f64,
    /// From a question's first step to its last, beside others.
    pub latency_seconds: f64,
    /// Wall-clock time of the run by its answers, in sessions that came to their end; `None` without one.
    pub seconds_per_question: Option<f64>,
    /// Computed and generated tokens per second of that time.
    pub tokens_per_second: Option<f64>,
    /// Most memory that a session held, in bytes.
    pub peak_bytes: Option<u64>,
    /// Wall-clock time of ingesting conversations.
    pub ingest_seconds: f64,
    /// Turns that were ingested in this run; 0 where the memory was there.
    pub ingested_turns: usize,
    /// Questions to which only the newest part of the conversation was shown.
    pub truncated: usize,
}

impl Cost {
    /// The price of these answers and sessions.
    #[must_use]
    pub fn of(records: &[Record], sessions: &[Session]) -> Self {
        let prices: Vec<&Price> = records
            .iter()
            .filter_map(|record| record.price.as_ref())
            .collect();
        let n = count(prices.len().max(1));
        let mean = |value: &dyn Fn(&Price) -> f64| prices.iter().map(|price| value(price)).sum::<f64>() / n;
        let known = |value: &dyn Fn(&Price) -> Option<usize>| -> Option<f64> {
            let sum: Option<usize> = prices.iter().map(|price| value(price)).sum();
            sum.map(|sum| count(sum) / n)
        };
        let computed_tokens = known(&|price| price.computed_tokens);
        let generated_tokens = mean(&|price| count(price.generated_tokens));
        let answered: usize = sessions.iter().map(|session| session.answered).sum();
        let seconds: f64 = sessions.iter().map(|session| session.seconds).sum();
        let seconds_per_question = (answered > 0).then(|| seconds / count(answered));
        Self {
            priced: prices.len(),
            iterations: mean(&|price| count(price.iterations)),
            prompt_tokens: mean(&|price| count(price.prompt_tokens)),
            cached_tokens: known(&|price| price.cached_tokens),
            computed_tokens,
            generated_tokens,
            latency_seconds: mean(&|price| price.seconds),
            seconds_per_question,
            tokens_per_second: seconds_per_question
                .zip(computed_tokens)
                .map(|(seconds, computed)| (computed + generated_tokens) / seconds),
            peak_bytes: sessions.iter().filter_map(|session| session.peak_bytes).max(),
            ingest_seconds: sessions.iter().map(|session| session.ingest_seconds).sum(),
            ingested_turns: sessions.iter().map(|session| session.ingested_turns).sum(),
            truncated: records.iter().filter(|record| record.truncated.is_some()).count(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn means_are_per_question_and_wall_time_per_session() {
        let record = |computed: Option<usize>, seconds: f64| Record {
            price: Some(Price {
                iterations: 2,
                prompt_tokens: 100,
                cached_tokens: computed.map(|n| 100 - n),
                computed_tokens: computed,
                generated_tokens: 10,
                seconds,
            }),
            ..Record::default()
        };
        let session = |answered, seconds, peak| Session {
            answered,
            seconds,
            peak_bytes: peak,
            ..Session::default()
        };
        let sessions = [session(1, 2.0, Some(5)), session(1, 4.0, Some(9))];
        let cost = Cost::of(
            &[record(Some(40), 1.0), record(Some(60), 3.0), Record::default()],
            &sessions,
        );
        assert_eq!(
            (cost.priced, cost.latency_seconds, cost.seconds_per_question),
            (2, 2.0, Some(3.0))
        );
        assert_eq!(
            (cost.computed_tokens, cost.cached_tokens),
            (Some(50.0), Some(50.0))
        );
        assert_eq!((cost.tokens_per_second, cost.peak_bytes), (Some(20.0), Some(9)));
        let unknown = Cost::of(&[record(None, 1.0)], &[]);
        assert_eq!(
            (unknown.computed_tokens, unknown.seconds_per_question),
            (None, None)
        );
    }
}
