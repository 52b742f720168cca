//! Keyword scores: Okapi BM25 with Lucene's idf, over counts that a turn shares with its neighbours.

use crate::RetrievalError;
use crate::store::{Posting, Reading, read_postings};

use super::kernel::Kernel;
use super::snapshot::Snapshot;

/// A word of the question as stems and what each counts; its own stem counts 1.
pub(super) type Term<'a> = Vec<(&'a str, f32)>;

pub(super) struct Bm25<'a> {
    pub(super) k1: f32,
    pub(super) b: f32,
    pub(super) kernel: Kernel<'a>,
}

impl Bm25<'_> {
    /// A score for every turn in reach; 0 where neither the turn nor a neighbour holds a term.
    pub(super) fn scores(
        &self,
        reading: &Reading<'_>,
        snapshot: &Snapshot,
        terms: &[Term<'_>],
    ) -> Result<Vec<f32>, RetrievalError> {
        let mut scores = vec![0.0; snapshot.len()];
        let mut counts = Counts::new(snapshot.len());
        let mut spread = Counts::new(snapshot.len());
        let mut postings = Vec::new();
        let turns = snapshot.len() as f32;
        for term in terms {
            for (stem, weight) in term {
                postings.clear();
                read_postings(reading, stem, snapshot.within, &mut postings)?;
                for Posting { turn, count } in &postings {
                    if let Some(place) = snapshot.place(*turn) {
                        counts.add(place, weight * *count as f32);
                    }
                }
            }
            let with: f32 = counts
                .touched
                .iter()
                .map(|&place| counts.values[place].min(1.0))
                .sum();
            let idf = (1.0 + (turns - with + 0.5) / (with + 0.5)).ln();
            for &place in &counts.touched {
                let count = counts.values[place];
                self.kernel
                    .spread(place, |other, weight| spread.add(other, weight * count));
            }
            for &place in &spread.touched {
                let count = spread.values[place];
                let length = snapshot.spread_words[place] / snapshot.mean_spread_words;
                scores[place] +=
                    idf * count * (self.k1 + 1.0) / (count + self.k1 * (1.0 - self.b + self.b * length));
            }
            counts.clear();
            spread.clear();
        }
        Ok(scores)
    }
}

/// Numbers by place, of which few are not 0.
struct Counts {
    values: Vec<f32>,
    touched: Vec<usize>,
}

impl Counts {
    fn new(places: usize) -> Self {
        Self {
            values: vec![0.0; places],
            touched: Vec::new(),
        }
    }

    fn add(&mut self, place: usize, value: f32) {
        if self.values[place] == 0.0 {
            self.touched.push(place);
        }
        self.values[place] += value;
    }

    fn clear(&mut self) {
        for place in self.touched.drain(..) {
            self.values[place] = 0.0;
        }
    }
}
