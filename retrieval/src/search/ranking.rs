//! Scores for every turn in reach: keywords, cosines and priors, joined.

use std::sync::OnceLock;

use engine_contract::{EmbedKind, Embedder, TextVectors};

use super::bm25::{Bm25, Term};
use super::config::{Fusion, RankingConfig};
use super::dense::{DenseScores, Vectors};
use super::fusion;
use super::graph::GraphView;
use super::interaction::{Interaction, QueryTokens};
use super::kernel::Kernel;
use super::priors::priors;
use super::question::Question;
use super::snapshot::Snapshot;
use super::vocabulary::Lexicon;
use crate::store::Reading;
use crate::text::Analyzer;
use crate::{RetrievalError, Retriever};

/// In a large reach, so many of the best turns by keywords have their vectors looked at.
const PROMISING: usize = 256;

/// One state of the store, read for searching.
#[derive(Debug)]
pub(super) struct Reach {
    /// Names the state.
    pub(super) state: usize,
    pub(super) snapshot: Snapshot,
    pub(super) vectors: Vectors,
    pub(super) lexicon: Lexicon,
    /// See [`super::interaction::sample`]; empty where it is not used.
    pub(super) sample: Vec<usize>,
    /// Read when it is first asked for.
    pub(super) graph: OnceLock<GraphView>,
}

/// What a ranking is made with.
pub(super) struct Ranker<'a> {
    pub(super) config: &'a RankingConfig,
    pub(super) reading: &'a Reading<'a>,
    pub(super) reach: &'a Reach,
    pub(super) analyzer: &'a Analyzer,
    pub(super) embedder: Option<&'a dyn Embedder>,
    /// The mean of the embedder's token vectors; empty when it has none.
    pub(super) centre: &'a [f32],
}

/// A score per turn in reach, and which turns are found at all.
pub(super) struct Ranking {
    pub(super) scores: Vec<f32>,
    pub(super) found: Vec<bool>,
}

impl Ranking {
    /// The places of the best turns found, best first.
    pub(super) fn top(&self, limit: usize) -> Vec<usize> {
        fusion::top(&self.scores, limit, |place| self.found[place])
    }
}

impl Ranker<'_> {
    pub(super) fn rank(&self, query: &str, retriever: Retriever) -> Result<Ranking, RetrievalError> {
        let snapshot = &self.reach.snapshot;
        let question = Question::new(query, snapshot, self.analyzer);
        let keyword = match retriever {
            Retriever::Dense => None,
            Retriever::Bm25 | Retriever::Hybrid | Retriever::Graph => Some(self.keyword_scores(&question)?),
        };
        let vectors = match retriever {
            Retriever::Bm25 => None,
            Retriever::Dense | Retriever::Hybrid | Retriever::Graph => self.embed(query, &question)?,
        };
        let dense = match &vectors {
            Some(vectors) => Some(self.dense_scores(&vectors.text, keyword.as_deref())?),
            None => None,
        };
        // A turn must share a word with the question, itself or through a neighbour, or have a known cosine.
        let is_keyword = |place: usize| keyword.as_ref().is_some_and(|scores| scores[place] > 0.0);
        let is_dense = |place: usize| dense.as_ref().is_some_and(|scores| scores.known[place]);
        let found = (0..snapshot.len())
            .map(|place| is_dense(place) || is_keyword(place))
            .collect();
        let ranking = |scores| Ranking { scores, found };
        Ok(match self.config.fusion {
            Fusion::ReciprocalRank => ranking(self.reciprocal_rank(keyword, dense)),
            Fusion::ZScore => {
                let mut priors = priors(self.config, &question, snapshot);
                if retriever == Retriever::Graph {
                    self.add_graph(&question, &mut priors)?;
                }
                let keyword = keyword.map(|mut scores| {
                    fusion::z_scores(&mut scores);
                    scores
                });
                let first = ranking(self.weighted_sum(&priors, keyword.as_deref(), dense.as_ref()));
                match &vectors {
                    Some(vectors) => {
                        self.ranked_anew(first, (&priors, keyword.as_deref()), &vectors.tokens)?
                    }
                    None => first,
                }
            }
        })
    }

    /// Adds what the graph leads to; read once per state.
    fn add_graph(&self, question: &Question, sum: &mut [f32]) -> Result<(), RetrievalError> {
        let graph = match self.reach.graph.get() {
            Some(graph) => graph,
            None => {
                let graph = GraphView::read(self.reading, &self.reach.snapshot, self.analyzer)?;
                self.reach.graph.get_or_init(|| graph)
            }
        };
        if !graph.is_empty() {
            let mut scores = graph.scores(&question.words, sum.len());
            fusion::z_scores(&mut scores);
            fusion::add(sum, &scores, self.config.graph_weight);
        }
        Ok(())
    }

    fn keyword_scores(&self, question: &Question) -> Result<Vec<f32>, RetrievalError> {
        let lexicon = &self.reach.lexicon;
        let vectors = match (self.config.vocabulary, self.embedder) {
            (Some(_), Some(embedder)) => lexicon.vectors(&question.words, embedder)?,
            _ => vec![None; question.words.len()],
        };
        let terms = question.words.iter().zip(&vectors).map(|(word, vector)| {
            let mut term: Term<'_> = vec![(&word.stem, 1.0)];
            if let (Some(vector), Some(config)) = (vector, self.config.vocabulary) {
                term.extend(lexicon.neighbours(word, vector, config));
            }
            term
        });
        let terms: Vec<Term<'_>> = terms.collect();
        let bm25 = Bm25 {
            k1: self.config.k1,
            b: self.config.b,
            kernel: Kernel::new(self.config.neighbours, &self.reach.snapshot),
        };
        bm25.scores(self.reading, &self.reach.snapshot, &terms)
    }

    /// The question's vectors; `None` without an embedder.
    fn embed(&self, query: &str, question: &Question) -> Result<Option<TextVectors>, RetrievalError> {
        let Some(embedder) = self.embedder else {
            return Ok(None);
        };
        let text = if self.config.cut_names {
            &question.without_names
        } else {
            query
        };
        Ok(embedder.embed_tokens(&[text], EmbedKind::Query)?.pop())
    }

    fn dense_scores(&self, vector: &[f32], keyword: Option<&[f32]>) -> Result<DenseScores, RetrievalError> {
        let promising = keyword.map_or_else(Vec::new, |scores| {
            fusion::top(scores, PROMISING, |place| scores[place] > 0.0)
        });
        let (vectors, snapshot) = (&self.reach.vectors, &self.reach.snapshot);
        let neighbours = self
            .config
            .neighbours
            .filter(|_| self.config.smoothed_weight > 0.0);
        vectors.scores(self.reading, snapshot, neighbours, (vector, &promising))
    }

    fn reciprocal_rank(&self, keyword: Option<Vec<f32>>, dense: Option<DenseScores>) -> Vec<f32> {
        let places = self.reach.snapshot.len();
        let mut rankings = Vec::new();
        if let Some(scores) = keyword {
            rankings.push(fusion::top(&scores, places, |place| scores[place] > 0.0));
        }
        if let Some(scores) = dense {
            rankings.push(fusion::top(&scores.plain, places, |place| scores.known[place]));
        }
        fusion::reciprocal_rank(places, &rankings)
    }

    /// `keyword` are z-scores.
    fn weighted_sum(&self, priors: &[f32], keyword: Option<&[f32]>, dense: Option<&DenseScores>) -> Vec<f32> {
        let config = self.config;
        let mut sum = priors.to_vec();
        if let Some(keyword) = keyword {
            fusion::add(&mut sum, keyword, config.keyword_weight);
        }
        if let Some(dense) = dense {
            fusion::add(&mut sum, &dense.plain, config.dense_weight);
            fusion::add(&mut sum, &dense.smoothed, config.smoothed_weight);
        }
        sum
    }

    /// The best turns of a ranking with scores by late interaction in place of cosines, the others below them as they
    /// were.
    fn ranked_anew(
        &self,
        first: Ranking,
        (priors, keyword): (&[f32], Option<&[f32]>),
        tokens: &[f32],
    ) -> Result<Ranking, RetrievalError> {
        let Some(config) = self.config.late_interaction else {
            return Ok(first);
        };
        let Some(tokens) = QueryTokens::new(tokens, self.centre) else {
            return Ok(first);
        };
        let interaction = Interaction {
            reading: self.reading,
            snapshot: &self.reach.snapshot,
            sample: &self.reach.sample,
            neighbours: self.config.neighbours,
        };
        let Some(matches) = interaction.matches(&tokens, &first.top(config.candidates))? else {
            return Ok(first);
        };
        let Ranking { mut scores, found } = first;
        let anew: Vec<(usize, f32)> = matches
            .iter()
            .map(|of| {
                let keyword = keyword.map_or(0.0, |scores| self.config.keyword_weight * scores[of.place]);
                let tokens = config.weight * of.plain + config.smoothed_weight * of.smoothed;
                (of.place, keyword + tokens + config.prior_scale * priors[of.place])
            })
            .collect();
        let worst_before = matches
            .iter()
            .map(|of| scores[of.place])
            .fold(f32::INFINITY, f32::min);
        let worst_now = anew.iter().map(|(_, score)| *score).fold(f32::INFINITY, f32::min);
        if worst_now.is_finite() {
            // No other turn was better than the worst of the candidates, so that none is now.
            scores
                .iter_mut()
                .for_each(|score| *score += worst_now - worst_before);
        }
        anew.into_iter().for_each(|(place, score)| scores[place] = score);
        Ok(Ranking { scores, found })
    }
}
