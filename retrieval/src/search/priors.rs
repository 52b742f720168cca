//! What speaks for a turn before its words are looked at.

use jiff::civil::{Date, DateTime};

use super::config::RankingConfig;
use super::question::Question;
use super::snapshot::Snapshot;
use crate::text::AskedDate;

/// The sum of the priors for every turn in reach.
pub(super) fn priors(config: &RankingConfig, question: &Question, snapshot: &Snapshot) -> Vec<f32> {
    let mut scores = Vec::with_capacity(snapshot.len());
    for session in &snapshot.sessions {
        let date = config.date_prior * nearness(&question.dates, session.time);
        scores.resize(session.end, date);
    }
    let turns = snapshot
        .flags
        .iter()
        .zip(&snapshot.telling)
        .zip(&snapshot.speaker);
    for (score, ((flags, telling), speaker)) in scores.iter_mut().zip(turns) {
        let named = question.speaker == Some(*speaker);
        *score += if named { config.speaker_prior } else { 0.0 }
            + if question.asks_when && flags.has_time_word() {
                config.time_word_prior
            } else {
                0.0
            }
            + if flags.is_question() {
                config.question_prior
            } else {
                0.0
            }
            + config.first_person_prior * telling.first_person()
            + config.name_prior * telling.names();
    }
    scores
}

/// How near a session is to the nearest of the dates asked for, in `[0, 2]`.
fn nearness(dates: &[AskedDate], time: Option<DateTime>) -> f32 {
    let Some(time) = time else { return 0.0 };
    dates
        .iter()
        .map(|asked| nearness_to(*asked, time.date()))
        .fold(0.0, f32::max)
}

fn nearness_to(asked: AskedDate, session: Date) -> f32 {
    const SAME_DAY: f32 = 2.0;
    const NEAR: f32 = 1.0;
    const SAME_MONTH: f32 = 1.0;
    const SAME_MONTH_OTHER_DAY: f32 = 0.3;
    const NEAR_DAYS: i32 = 3;
    let year = asked.year.unwrap_or(session.year());
    let same_month = session.month() == asked.month && session.year() == year;
    let Some(day) = asked.day else {
        return if same_month { SAME_MONTH } else { 0.0 };
    };
    let distance = Date::new(year, asked.month, day)
        .ok()
        .and_then(|date| session.since(date).ok());
    match distance.map(|span| span.get_days().abs()) {
        Some(0) => SAME_DAY,
        Some(days) if days <= NEAR_DAYS => NEAR,
        _ if same_month => SAME_MONTH_OTHER_DAY,
        _ => 0.0,
    }
}
