//! A memory, an embedder and a ranking: what answers the agents' searches.

use std::fmt;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use engine_contract::Embedder;

use super::config::RankingConfig;
use super::dense::Vectors;
use super::interaction;
use super::ranking::{Ranker, Ranking, Reach};
use super::snapshot::Snapshot;
use super::vocabulary::Lexicon;
use crate::store::Reading;
use crate::{
    Card, ConversationId, Hit, Memory, Recall, RetrievalError, Retriever, SearchRequest, TurnId, TurnRecord,
};

/// Turns sorted at first for a token budget; doubled while they all fit.
const FIRST_CANDIDATES: usize = 128;

/// Searches a memory, all of it or one conversation.
#[derive(Clone)]
pub struct Searcher {
    memory: Memory,
    embedder: Option<Arc<dyn Embedder>>,
    config: RankingConfig,
    within: Option<ConversationId>,
    /// Of the last state searched; shared by clones with the same reach and ranking.
    reach: Arc<Mutex<Option<Arc<Reach>>>>,
}

impl fmt::Debug for Searcher {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Searcher")
            .field("memory", &self.memory)
            .field("within", &self.within)
            .finish_non_exhaustive()
    }
}

impl Searcher {
    /// Searches the whole memory. Without an embedder only keywords are searched, also by [`Retriever::Hybrid`].
    ///
    /// # Errors
    /// [`RetrievalError::EmbedderMismatch`] when the embedder is not the one the memory was made with.
    pub fn new(memory: Memory, embedder: Option<Arc<dyn Embedder>>) -> Result<Self, RetrievalError> {
        if let Some(embedder) = &embedder {
            memory.check_embedder(Some(embedder.info()))?;
        }
        Ok(Self {
            memory,
            embedder,
            config: RankingConfig::default(),
            within: None,
            reach: Arc::default(),
        })
    }

    /// The same search with another ranking.
    ///
    /// # Errors
    /// [`RetrievalError::InvalidRanking`].
    pub fn with_ranking(&self, config: RankingConfig) -> Result<Self, RetrievalError> {
        config.validate()?;
        Ok(Self {
            config,
            reach: Arc::default(),
            ..self.clone()
        })
    }

    /// The same search within one conversation: turns of others can't be found.
    ///
    /// # Errors
    /// [`RetrievalError::UnknownConversation`].
    pub fn within(&self, conversation: &ConversationId) -> Result<Self, RetrievalError> {
        self.memory.read(|reading| reading.conversation(conversation))?;
        Ok(Self {
            within: Some(conversation.clone()),
            reach: Arc::default(),
            ..self.clone()
        })
    }

    /// The memory that is searched.
    #[must_use]
    pub fn memory(&self) -> &Memory {
        &self.memory
    }

    /// The best turns whose tokens together stay within a budget, best first, up to the first that does not fit. Tokens
    /// are estimated as a quarter of the characters of `Speaker: text [shares caption]`.
    ///
    /// # Errors
    /// As [`Recall::search`].
    pub fn search_budget(
        &self,
        query: &str,
        retriever: Retriever,
        max_tokens: usize,
    ) -> Result<Vec<Hit>, RetrievalError> {
        self.search_with(query, retriever, |reach, ranking| {
            let mut candidates = FIRST_CANDIDATES;
            loop {
                let mut places = ranking.top(candidates);
                let all = places.len() < candidates;
                let mut left = max_tokens;
                let fitting = places.iter().take_while(|&&place| {
                    let rest = left.checked_sub(reach.snapshot.tokens[place] as usize);
                    left = rest.unwrap_or(0);
                    rest.is_some()
                });
                let fitting = fitting.count();
                if all || fitting < places.len() {
                    places.truncate(fitting);
                    return places;
                }
                candidates *= 2;
            }
        })
    }

    fn search_with(
        &self,
        query: &str,
        retriever: Retriever,
        choose: impl FnOnce(&Reach, &Ranking) -> Vec<usize>,
    ) -> Result<Vec<Hit>, RetrievalError> {
        if retriever == Retriever::Dense && self.embedder.is_none() {
            return Err(RetrievalError::NoEmbedder { what: "searcher" });
        }
        if self.memory.analyzer().words(query).is_empty() {
            return Ok(Vec::new());
        }
        let centre = match &self.embedder {
            Some(embedder) if self.config.late_interaction.is_some() => {
                self.memory.token_centre(&**embedder)?
            }
            _ => &[],
        };
        self.memory.read(|reading| {
            let reach = self.reach(reading)?;
            let ranker = Ranker {
                config: &self.config,
                reading,
                reach: &reach,
                analyzer: self.memory.analyzer(),
                embedder: self.embedder.as_deref(),
                centre,
            };
            let ranking = ranker.rank(query, retriever)?;
            let chosen = choose(&reach, &ranking).into_iter();
            chosen
                .map(|place| hit(reading, &reach.snapshot, place, ranking.scores[place]))
                .collect()
        })
    }

    /// The present state of the store, read anew only when it has changed.
    fn reach(&self, reading: &Reading<'_>) -> Result<Arc<Reach>, RetrievalError> {
        let mut kept = self.reach.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(reach) = kept.as_ref().filter(|reach| reach.state == reading.state()) {
            return Ok(Arc::clone(reach));
        }
        let snapshot = Snapshot::read(reading, self.within.as_ref(), self.config.neighbours)?;
        let (vectors, lexicon) = match &self.embedder {
            Some(embedder) => {
                let sizes = (embedder.info().dimension, self.memory.scan_turns());
                (
                    Vectors::read(reading, &snapshot, sizes)?,
                    Lexicon::read(reading, self.memory.analyzer(), sizes.0)?,
                )
            }
            None => (Vectors::Absent, Lexicon::default()),
        };
        let sample = match &self.embedder {
            Some(_) if self.config.late_interaction.is_some() => interaction::sample(&snapshot),
            _ => Vec::new(),
        };
        let reach = Arc::new(Reach {
            state: reading.state(),
            sample,
            graph: OnceLock::new(),
            snapshot,
            vectors,
            lexicon,
        });
        *kept = Some(Arc::clone(&reach));
        Ok(reach)
    }
}

impl Recall for Searcher {
    fn card(&self) -> Result<Card, RetrievalError> {
        self.memory.read(|reading| {
            let records = match &self.within {
                Some(id) => vec![reading.conversation(id)?],
                None => reading.conversations()?,
            };
            let mut card = Card::default();
            for (_, record) in records {
                for speaker in record.speakers {
                    if !card.speakers.contains(&speaker) {
                        card.speakers.push(speaker);
                    }
                }
                card.first = [card.first, record.first].into_iter().flatten().min();
                card.last = card.last.max(record.last);
                card.sessions += record.sessions as usize;
                card.turns += record.turns as usize;
            }
            Ok(card)
        })
    }

    fn search(&self, request: &SearchRequest) -> Result<Vec<Hit>, RetrievalError> {
        self.search_with(&request.query, request.retriever, |_, ranking| {
            ranking.top(request.limit)
        })
    }

    fn turns(&self) -> Result<Vec<TurnRecord>, RetrievalError> {
        if let Some(id) = &self.within {
            return self.memory.turns(id);
        }
        let mut turns = Vec::new();
        for conversation in self.memory.conversations()? {
            turns.extend(self.memory.turns(&conversation.id)?);
        }
        Ok(turns)
    }

    fn window(
        &self,
        conversation: &ConversationId,
        turn: &TurnId,
        each_side: usize,
    ) -> Result<Vec<TurnRecord>, RetrievalError> {
        let unknown = || RetrievalError::UnknownTurn {
            conversation: conversation.to_string(),
            turn: turn.to_string(),
        };
        if self.within.as_ref().is_some_and(|within| within != conversation) {
            return Err(unknown());
        }
        self.memory.read(|reading| {
            let Ok((number, record)) = reading.conversation(conversation) else {
                return Err(unknown());
            };
            let turn_number = reading.turn_number(number, turn)?.ok_or_else(unknown)?;
            let stored = reading.stored_turn(turn_number)?;
            let session = reading.session(number, stored.session)?;
            let place = session
                .turns
                .iter()
                .position(|&other| other == turn_number)
                .ok_or_else(unknown)?;
            let end = session
                .turns
                .len()
                .min(place.saturating_add(each_side).saturating_add(1));
            let places = place.saturating_sub(each_side)..end;
            places
                .map(|place| reading.turn_of(&record.id, &session, place))
                .collect()
        })
    }
}

fn hit(reading: &Reading<'_>, snapshot: &Snapshot, place: usize, score: f32) -> Result<Hit, RetrievalError> {
    let span = &snapshot.sessions[snapshot.session[place] as usize];
    let (number, record) = &snapshot.conversations[span.conversation];
    let session = reading.session(*number, span.index)?;
    Ok(Hit {
        turn: reading.turn_of(&record.id, &session, place - span.start)?,
        score,
    })
}
