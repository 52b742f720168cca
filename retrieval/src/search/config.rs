//! How turns are ranked, ingredient by ingredient.

use serde::{Deserialize, Serialize};

use crate::RetrievalError;

/// How a question's keyword scores and cosines become one ranking.
///
/// The default is the recipe measured in `docs/retrieval.md`. Every ingredient can be switched off by itself: an option
/// by `None`, a weight by 0. A score `z(x)` is `x` minus the mean over all turns in reach, divided by the standard
/// deviation.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct RankingConfig {
    /// How [`crate::Retriever::Hybrid`] joins keywords and vectors.
    pub fusion: Fusion,
    /// BM25's saturation of repeated words, above 0.
    pub k1: f32,
    /// BM25's discount of long turns, in `[0, 1]`.
    pub b: f32,
    /// Lets a turn's words and cosine count for its neighbours in the session.
    pub neighbours: Option<Neighbours>,
    /// Lets words of like meaning count for a question's word; needs an embedder.
    pub vocabulary: Option<Vocabulary>,
    /// Deletes the names of speakers from the question before it is embedded: they pull towards every turn of theirs.
    pub cut_names: bool,
    /// Weight of z(BM25).
    pub keyword_weight: f32,
    /// Weight of z(cosine).
    pub dense_weight: f32,
    /// Weight of the z-score of the cosines smoothed over neighbours; needs `neighbours`.
    pub smoothed_weight: f32,
    /// Ranks the best turns anew by the vectors of single tokens; needs an embedder that has such.
    pub late_interaction: Option<LateInteraction>,
    /// Weight of the z-score of what the graph leads to, for [`crate::Retriever::Graph`].
    pub graph_weight: f32,
    /// Added to turns of the only speaker that the question names.
    pub speaker_prior: f32,
    /// Added to turns of sessions near a date that the question names.
    pub date_prior: f32,
    /// Added to turns with a time word where the question asks for a time.
    pub time_word_prior: f32,
    /// Added to turns most of whose text is questions; negative, for they ask rather than tell.
    pub question_prior: f32,
    /// Added to turns in which the speaker speaks of themself: all of it from one such word in 40 tokens on.
    pub first_person_prior: f32,
    /// Added to turns that name somebody or something: all of it from one name in 40 tokens on.
    pub name_prior: f32,
}

/// How two rankings become one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Fusion {
    /// Weighted sum of z-scores and priors.
    #[default]
    ZScore,
    /// Reciprocal rank fusion with k = 60 (Cormack et al., SIGIR 2009), without priors.
    ReciprocalRank,
}

/// Turn j counts for turn i of the same session with the weight `before * exp(-g / tokens)` when j is earlier and
/// `after * exp(-g / tokens)` when it is later, where g is the distance in tokens between their middles.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Neighbours {
    /// Weight of an earlier turn at distance 0, in `[0, 1]`.
    pub before: f32,
    /// Weight of a later turn at distance 0, in `[0, 1]`.
    pub after: f32,
    /// Distance in tokens at which the weight has fallen to 1/e, above 0.
    pub tokens: f32,
    /// How strongly the best neighbour outweighs the others in the smoothed cosines, above 0.
    pub sharpness: f32,
}

impl Default for Neighbours {
    fn default() -> Self {
        Self {
            before: 0.8,
            after: 0.6,
            tokens: 80.0,
            sharpness: 1.5,
        }
    }
}

/// Which words count for a question's word, and how much.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Vocabulary {
    /// Least cosine of the two words' vectors, in `(0, 1)`.
    pub min_cosine: f32,
    /// At most this many words for each word of the question.
    pub words: usize,
    /// What a word of the same meaning counts; at `min_cosine` it is half as much.
    pub weight: f32,
}

impl Default for Vocabulary {
    fn default() -> Self {
        Self {
            min_cosine: 0.5,
            words: 40,
            weight: 0.3,
        }
    }
}

/// Late interaction (Khattab and Zaharia, "ColBERT", SIGIR 2020): a turn's score is the mean over the question's tokens
/// of the best cosine with one of the turn's tokens. It takes the place of the two other cosines.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LateInteraction {
    /// So many of the best turns by the other scores are ranked anew.
    pub candidates: usize,
    /// Weight of the z-score.
    pub weight: f32,
    /// Weight of the z-score smoothed over neighbours, as the cosines are; 0 where neighbours are switched off.
    pub smoothed_weight: f32,
    /// What the priors are multiplied by, as there is more evidence for them to balance.
    pub prior_scale: f32,
}

impl Default for LateInteraction {
    fn default() -> Self {
        Self {
            candidates: 200,
            weight: 0.25,
            smoothed_weight: 1.2,
            prior_scale: 1.5,
        }
    }
}

impl Default for RankingConfig {
    fn default() -> Self {
        Self {
            fusion: Fusion::ZScore,
            k1: 0.9,
            b: 0.75,
            neighbours: Some(Neighbours::default()),
            vocabulary: Some(Vocabulary::default()),
            cut_names: true,
            keyword_weight: 0.6,
            dense_weight: 0.3,
            smoothed_weight: 0.4,
            late_interaction: Some(LateInteraction::default()),
            graph_weight: 0.3,
            speaker_prior: 2.0,
            date_prior: 2.4,
            time_word_prior: 1.0,
            question_prior: -0.8,
            first_person_prior: 0.45,
            name_prior: 0.5,
        }
    }
}

impl RankingConfig {
    /// Reciprocal rank fusion of plain BM25 and plain cosines: the usual hybrid search, to compare with.
    #[must_use]
    pub fn reciprocal_rank() -> Self {
        Self {
            fusion: Fusion::ReciprocalRank,
            neighbours: None,
            vocabulary: None,
            cut_names: false,
            smoothed_weight: 0.0,
            late_interaction: None,
            ..Self::default().without_priors()
        }
    }

    /// The same ranking without the six priors, which suit conversations between people.
    #[must_use]
    pub fn without_priors(self) -> Self {
        Self {
            speaker_prior: 0.0,
            date_prior: 0.0,
            time_word_prior: 0.0,
            question_prior: 0.0,
            first_person_prior: 0.0,
            name_prior: 0.0,
            ..self
        }
    }

    /// Checks every value.
    ///
    /// # Errors
    /// [`RetrievalError::InvalidRanking`] names the first value that makes no sense.
    pub fn validate(&self) -> Result<(), RetrievalError> {
        let unit = |field, value| check(field, value, "a number in [0, 1]", (0.0..=1.0).contains(&value));
        let positive =
            |field, value: f32| check(field, value, "a number above 0", value > 0.0 && value.is_finite());
        let weight = |field, value: f32| {
            check(
                field,
                value,
                "a number in [0, 100]",
                (0.0..=100.0).contains(&value),
            )
        };
        let prior = |field, value: f32| check(field, value, "a number in [-100, 100]", value.abs() <= 100.0);
        positive("k1", self.k1)?;
        unit("b", self.b)?;
        if let Some(neighbours) = self.neighbours {
            unit("neighbours.before", neighbours.before)?;
            unit("neighbours.after", neighbours.after)?;
            positive("neighbours.tokens", neighbours.tokens)?;
            positive("neighbours.sharpness", neighbours.sharpness)?;
        }
        if let Some(vocabulary) = self.vocabulary {
            let cosine = vocabulary.min_cosine;
            check(
                "vocabulary.min_cosine",
                cosine,
                "a number in (0, 1)",
                cosine > 0.0 && cosine < 1.0,
            )?;
            weight("vocabulary.weight", vocabulary.weight)?;
        }
        weight("keyword_weight", self.keyword_weight)?;
        weight("dense_weight", self.dense_weight)?;
        weight("smoothed_weight", self.smoothed_weight)?;
        if self.smoothed_weight > 0.0 && self.neighbours.is_none() {
            return check(
                "smoothed_weight",
                self.smoothed_weight,
                "0 where neighbours are switched off",
                false,
            );
        }
        weight("graph_weight", self.graph_weight)?;
        prior("speaker_prior", self.speaker_prior)?;
        prior("date_prior", self.date_prior)?;
        prior("time_word_prior", self.time_word_prior)?;
        prior("question_prior", self.question_prior)?;
        prior("first_person_prior", self.first_person_prior)?;
        prior("name_prior", self.name_prior)?;
        if let Some(late) = self.late_interaction {
            weight("late_interaction.weight", late.weight)?;
            weight("late_interaction.smoothed_weight", late.smoothed_weight)?;
            weight("late_interaction.prior_scale", late.prior_scale)?;
        }
        Ok(())
    }
}

fn check(field: &'static str, value: f32, expected: &'static str, holds: bool) -> Result<(), RetrievalError> {
    if holds {
        return Ok(());
    }
    Err(RetrievalError::InvalidRanking {
        field,
        received: value.to_string(),
        expected,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn defaults_are_valid_and_bad_values_are_named() {
        RankingConfig::default().validate().unwrap();
        RankingConfig::reciprocal_rank().validate().unwrap();
        let bad = RankingConfig {
            b: f32::NAN,
            ..RankingConfig::default()
        };
        let message = bad.validate().unwrap_err().to_string();
        assert_eq!(
            message,
            "invalid ranking setting: b is NaN, expected a number in [0, 1]"
        );
        let bad = RankingConfig {
            neighbours: None,
            ..RankingConfig::default()
        };
        assert!(
            bad.validate()
                .unwrap_err()
                .to_string()
                .contains("smoothed_weight is 0.4, expected 0")
        );
    }
}
