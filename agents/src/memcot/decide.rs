//! What each reply leads to: the way through the stages, with one retry and a plain way out for every stage.

use engine_contract::Generation;
use retrieval::TurnRecord;

use super::{Call, Memcot, Phase, fused, judge, perceive, respond, rewrite, stem, zoom_in, zoom_out};
use crate::machine::{Note, QueryAction, Stage};
use crate::query;
use crate::reply::ReplyError;

/// What becomes of a reply.
enum Settled<T> {
    Use(T),
    /// It is asked for once more.
    Again,
    /// It failed twice; the reason.
    Lost(String),
}

impl Memcot {
    /// One failed reply is asked for again, a second one is given up.
    fn settle<T>(&mut self, stage: Stage, parsed: Result<T, ReplyError>) -> Settled<T> {
        let again = self.state.retry.take().is_none();
        match parsed {
            Ok(value) => Settled::Use(value),
            Err(error) if again => {
                let reason = error.to_string();
                self.state.retry = Some(reason.clone());
                self.state.notes.push(Note::Retry { stage, reason });
                Settled::Again
            }
            Err(error) => Settled::Lost(error.to_string()),
        }
    }

    fn degraded(&mut self, stage: Stage, reason: String, instead: &str) {
        self.state.notes.push(Note::Degraded {
            stage,
            reason,
            instead: instead.into(),
        });
    }

    pub(super) fn skip(&mut self, stage: Stage, reason: &str) {
        self.state.notes.push(Note::Skipped {
            stage,
            reason: reason.into(),
        });
    }

    /// The best candidates, taken as they are ranked where the model could not choose.
    fn best_candidates(&self) -> Vec<usize> {
        (0..self.state.choices.len().min(self.state.settings.max_picks)).collect()
    }

    /// The candidates that are taken whatever the model picks.
    fn best_ranked(&self) -> Vec<usize> {
        (0..self.state.choices.len().min(self.state.settings.keep_ranked)).collect()
    }

    fn pick(&mut self, positions: &[usize]) {
        let turns: Vec<TurnRecord> = positions.iter().map(|&i| self.state.choices[i].clone()).collect();
        self.state.picked.extend(turns);
    }

    pub(super) fn zoomed_in(&mut self, generation: &Generation) {
        let parsed = zoom_in::parse(&self.state, generation);
        match self.settle(Stage::ZoomIn, parsed) {
            Settled::Again => return,
            Settled::Use(useful) => {
                let ranked = self.best_ranked();
                let added: Vec<usize> = useful
                    .into_iter()
                    .filter(|place| !ranked.contains(place))
                    .collect();
                self.pick(&ranked);
                self.pick(&added);
            }
            Settled::Lost(reason) => {
                self.degraded(Stage::ZoomIn, reason, "the best ranked turns are taken");
                let best = self.best_candidates();
                self.pick(&best);
            }
        }
        if self.state.settings.zoom_out {
            self.phase = Phase::Window;
        } else {
            self.skip(Stage::ZoomOut, "zoom_out is off");
            self.perceived();
        }
    }

    pub(super) fn windowed(&mut self, windows: Vec<Vec<TurnRecord>>) {
        let around = perceive::neighbourhood(&self.state, windows);
        let new: Vec<TurnRecord> = around
            .iter()
            .filter(|turn| !self.state.holds(turn))
            .cloned()
            .collect();
        if new.is_empty() {
            self.skip(Stage::ZoomOut, "the neighbourhood holds nothing new");
            return self.perceived();
        }
        self.state.show(around, new);
        self.phase = Phase::Ask(Call::ZoomOut);
    }

    pub(super) fn zoomed_out(&mut self, generation: &Generation) {
        let parsed = zoom_out::parse(&self.state, generation);
        match self.settle(Stage::ZoomOut, parsed) {
            Settled::Again => return,
            Settled::Use(add) => self.pick(&add),
            Settled::Lost(reason) => self.degraded(Stage::ZoomOut, reason, "nothing is added"),
        }
        self.perceived();
    }

    /// The iteration's perception is complete: its evidence is settled, and the judge is asked where its verdict
    /// can change something.
    pub(super) fn perceived(&mut self) {
        let added = self.state.settle();
        if self.state.iteration == self.state.settings.max_iterations {
            self.skip(Stage::Judge, "this was the last iteration");
            return self.respond();
        }
        if added > 0 {
            self.phase = Phase::Ask(Call::Judge);
            return;
        }
        self.skip(Stage::Judge, "there is no new evidence");
        self.phase = Phase::Ask(Call::Rewrite);
    }

    pub(super) fn judged(&mut self, generation: &Generation) {
        let parsed = judge::parse(generation);
        match self.settle(Stage::Judge, parsed) {
            Settled::Again => {}
            Settled::Lost(reason) => {
                self.degraded(
                    Stage::Judge,
                    reason,
                    "the question is answered from what was found",
                );
                self.respond();
            }
            Settled::Use(verdict) => {
                if self.enough(verdict) {
                    self.respond();
                } else {
                    self.phase = Phase::Ask(Call::Rewrite);
                }
            }
        }
    }

    /// Notes a verdict.
    fn enough(&mut self, verdict: judge::Verdict) -> bool {
        let judge::Verdict { enough, draft } = verdict;
        self.state.notes.push(Note::Judged { enough, draft });
        self.state.enough = Some(enough);
        enough
    }

    pub(super) fn rewritten(&mut self, generation: &Generation) {
        let parsed = rewrite::parse(generation);
        let rewrite::Rewrite {
            missing,
            action,
            queries,
        } = match self.settle(Stage::Rewrite, parsed) {
            Settled::Again => return,
            Settled::Use(reply) => reply,
            Settled::Lost(reason) => {
                self.degraded(
                    Stage::Rewrite,
                    reason,
                    "keywords of the missing part are searched",
                );
                return self.keywords();
            }
        };
        self.state.missing = missing;
        let new = self.new_queries(queries.clone());
        if !new.is_empty() {
            return self.next_iteration(action, new);
        }
        if self.state.refused.is_empty() {
            // Asked once more with the refusal shown.
            self.state.refused = queries;
        } else {
            self.keywords();
        }
    }

    /// The queries that were not searched before; the others are noted.
    fn new_queries(&mut self, queries: Vec<String>) -> Vec<String> {
        let (mut new, mut repeated) = (Vec::new(), Vec::new());
        for query in queries {
            if self.state.repeats(&query, &new) {
                repeated.push(query)
            } else {
                new.push(query)
            }
        }
        if !repeated.is_empty() {
            self.state.notes.push(Note::Repeated { queries: repeated });
        }
        new
    }

    /// Searches for the telling words of what is missing; ends the search where even these are not new.
    fn keywords(&mut self) {
        let texts = [self.state.missing.as_str(), self.state.question.text.as_str()];
        let [missing, both] = [query::keywords(&texts[..1]), query::keywords(&texts)];
        match self.new_queries(vec![missing, both]).into_iter().next() {
            Some(query) => self.next_iteration(QueryAction::Keywords, vec![query]),
            None => {
                self.skip(Stage::Rewrite, "there is no new query");
                self.respond();
            }
        }
    }

    fn next_iteration(&mut self, action: QueryAction, queries: Vec<String>) {
        let missing = self.state.missing.clone();
        self.state.notes.push(Note::Queries {
            queries: queries.clone(),
            action,
            missing,
        });
        self.state.remember();
        let shortened = stem::shortened(&self.state);
        if shortened > 0 && self.state.settings.episodic {
            self.state.notes.push(Note::Compacted {
                iterations: shortened,
            });
        }
        self.state.queries = queries;
        self.state.action = action;
        self.state.refused.clear();
        self.state.iteration += 1;
        self.phase = Phase::Search;
    }

    pub(super) fn fused(&mut self, generation: &Generation) {
        let parsed = fused::parse(&self.state, generation);
        let reply = match self.settle(Stage::Fused, parsed) {
            Settled::Again => return,
            Settled::Use(reply) => reply,
            Settled::Lost(reason) => {
                self.degraded(
                    Stage::Fused,
                    reason,
                    "the best ranked turns are taken and answered from",
                );
                let best = self.best_candidates();
                self.pick(&best);
                self.state.settle();
                return self.respond();
            }
        };
        let fused::Fused {
            useful,
            verdict,
            missing,
            queries,
        } = reply;
        self.pick(&useful);
        self.state.settle();
        if self.enough(verdict) || self.state.iteration == self.state.settings.max_iterations {
            return self.respond();
        }
        self.state.missing = missing;
        match self.new_queries(queries) {
            new if new.is_empty() => self.keywords(),
            new => self.next_iteration(QueryAction::Rephrase, new),
        }
    }

    fn respond(&mut self) {
        let base = perceive::answer_base(&self.state);
        if base.is_empty() {
            self.skip(Stage::Respond, "no turn was found at all");
            return self.finish(None, Vec::new());
        }
        self.state.show(base.clone(), base);
        self.phase = Phase::Ask(Call::Respond);
    }

    pub(super) fn responded(&mut self, generation: &Generation) {
        let parsed = respond::parse(&self.state, generation);
        match self.settle(Stage::Respond, parsed) {
            Settled::Again => {}
            Settled::Use(respond::Answer { text, evidence }) => {
                let cited = evidence
                    .into_iter()
                    .map(|i| self.state.shown[i].clone())
                    .collect();
                self.finish(text, cited);
            }
            Settled::Lost(reason) => {
                self.degraded(Stage::Respond, reason, "there is no answer");
                self.finish(None, Vec::new());
            }
        }
    }

    fn finish(&mut self, answer: Option<String>, cited: Vec<TurnRecord>) {
        self.phase = Phase::Done(Box::new(self.state.outcome(answer, cited)));
    }
}
