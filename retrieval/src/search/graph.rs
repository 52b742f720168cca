//! Looking things up in the graph, in the manner of LightRAG (Guo et al., 2024): locally, from the entities that a
//! question names to what they are related to; globally, from the relations that it speaks of to their entities.
//!
//! LightRAG lets a model write the two kinds of keywords; here both are the question's own words, so that a search needs no
//! model.

use std::collections::{BTreeMap, HashMap, HashSet};

use crate::RetrievalError;
use crate::store::{Reading, normalised};
use crate::text::Analyzer;

use super::question::QuestionWord;
use super::snapshot::Snapshot;

/// Entities and relations that a look-up goes on from.
const BEST: usize = 20;
/// What a related entity's turns count, where the entity itself is asked for.
const RELATED: f32 = 0.5;
/// What the ends of a relation count, where the relation is asked for.
const ENDS: f32 = 0.25;

#[derive(Debug, Default)]
struct Node {
    stems: HashSet<String>,
    places: Vec<usize>,
    edges: Vec<usize>,
}

#[derive(Debug, Default)]
struct Edge {
    ends: [usize; 2],
    stems: HashSet<String>,
    places: Vec<usize>,
}

/// The graph of the turns in reach.
#[derive(Debug, Default)]
pub(super) struct GraphView {
    nodes: Vec<Node>,
    edges: Vec<Edge>,
    /// How rare a stem is among names and relations.
    rarity: HashMap<String, f32>,
}

#[derive(Default)]
struct Builder {
    view: GraphView,
    names: HashMap<String, usize>,
    pairs: BTreeMap<(usize, usize), usize>,
}

impl Builder {
    fn node(&mut self, analyzer: &Analyzer, name: &str, place: usize) -> usize {
        let name = normalised(analyzer, name);
        let nodes = &mut self.view.nodes;
        let index = *self.names.entry(name).or_insert_with_key(|name| {
            nodes.push(Node {
                stems: name.split(' ').map(|word| analyzer.stem(word)).collect(),
                ..Node::default()
            });
            nodes.len() - 1
        });
        push(&mut nodes[index].places, place);
        index
    }

    fn edge(&mut self, analyzer: &Analyzer, ends: [usize; 2], said: &str, place: usize) {
        let pair = (ends[0].min(ends[1]), ends[0].max(ends[1]));
        let edges = &mut self.view.edges;
        let index = *self.pairs.entry(pair).or_insert_with(|| {
            edges.push(Edge {
                ends,
                ..Edge::default()
            });
            edges.len() - 1
        });
        let words = analyzer.content_words(said);
        edges[index]
            .stems
            .extend(words.iter().map(|word| analyzer.stem(word)));
        push(&mut edges[index].places, place);
        for end in ends {
            push(&mut self.view.nodes[end].edges, index);
        }
    }

    fn finish(mut self) -> GraphView {
        let mut counts: HashMap<String, f32> = HashMap::new();
        let nodes = self.view.nodes.iter().map(|node| &node.stems);
        for stem in nodes
            .chain(self.view.edges.iter().map(|edge| &edge.stems))
            .flatten()
        {
            *counts.entry(stem.clone()).or_default() += 1.0;
        }
        let all = (self.view.nodes.len() + self.view.edges.len()) as f32;
        let rarity = counts
            .into_iter()
            .map(|(stem, count)| (stem, (1.0 + all / count).ln()));
        self.view.rarity = rarity.collect();
        self.view
    }
}

fn push(list: &mut Vec<usize>, value: usize) {
    if !list.contains(&value) {
        list.push(value);
    }
}

impl GraphView {
    pub(super) fn read(
        reading: &Reading<'_>,
        snapshot: &Snapshot,
        analyzer: &Analyzer,
    ) -> Result<Self, RetrievalError> {
        let mut builder = Builder::default();
        reading.each_graph(|turn, graph| {
            let Some(place) = snapshot.place(turn) else { return };
            for entity in &graph.entities {
                builder.node(analyzer, &entity.name, place);
            }
            for relation in &graph.relations {
                let from = builder.node(analyzer, &relation.from, place);
                let to = builder.node(analyzer, &relation.to, place);
                let said = format!("{} {}", relation.keywords, relation.description);
                builder.edge(analyzer, [from, to], &said, place);
            }
        })?;
        Ok(builder.finish())
    }

    pub(super) fn is_empty(&self) -> bool {
        self.nodes.is_empty()
    }

    /// A score for every turn in reach; 0 for those that the graph does not lead to.
    pub(super) fn scores(&self, question: &[QuestionWord], places: usize) -> Vec<f32> {
        // Names of speakers lead to everything that they ever said.
        let asked: Vec<&str> = question
            .iter()
            .filter(|word| word.has_synonyms)
            .map(|word| word.stem.as_str())
            .collect();
        let mut scores = vec![0.0; places];
        let mut add = |list: &[usize], score: f32| {
            // An entity of many turns tells little of each.
            let share = score / (1.0 + list.len() as f32).ln().max(1.0);
            list.iter().for_each(|&place| scores[place] += share);
        };
        for (index, score) in best(self.nodes.iter().map(|node| self.match_of(&asked, &node.stems))) {
            let node = &self.nodes[index];
            add(&node.places, score);
            for &edge in &node.edges {
                let edge = &self.edges[edge];
                let said = 1.0 + self.match_of(&asked, &edge.stems);
                add(&edge.places, RELATED * score * said.min(2.0));
            }
        }
        for (index, score) in best(self.edges.iter().map(|edge| self.match_of(&asked, &edge.stems))) {
            let edge = &self.edges[index];
            add(&edge.places, score);
            for end in edge.ends {
                add(&self.nodes[end].places, ENDS * score);
            }
        }
        scores
    }

    /// The rarity of the words met, over the root of how many there are to meet.
    fn match_of(&self, asked: &[&str], stems: &HashSet<String>) -> f32 {
        let met = asked.iter().filter(|stem| stems.contains(**stem));
        let rarity: f32 = met.filter_map(|stem| self.rarity.get(*stem)).sum();
        rarity / (stems.len().max(1) as f32).sqrt()
    }
}

/// The best of scores above 0, with their places.
fn best(scores: impl Iterator<Item = f32>) -> Vec<(usize, f32)> {
    let mut found: Vec<(usize, f32)> = scores.enumerate().filter(|(_, score)| *score > 0.0).collect();
    found.sort_by(|a, b| b.1.total_cmp(&a.1).then(a.0.cmp(&b.0)));
    found.truncate(BEST);
    found
}
