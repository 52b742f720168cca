//! A memory, an embedder and a ranking: what answers the agents' searches.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use engine_contract::{EmbedKind, Embedder};

use super::snapshot::Snapshot;
use super::{bm25, dense, fusion};
use crate::store::Reading;
use crate::{
    Card, ConversationId, Hit, Memory, Recall, RetrievalError, Retriever, SearchRequest, TurnId, TurnRecord,
};

/// Searches a memory, all of it or one conversation.
#[derive(Clone)]
pub struct Searcher {
    memory: Memory,
    embedder: Option<Arc<dyn Embedder>>,
    within: Option<ConversationId>,
    /// Of the last state searched; shared by clones with the same reach.
    snapshot: Arc<Mutex<Option<Arc<Snapshot>>>>,
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
            within: None,
            snapshot: Arc::default(),
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
            snapshot: Arc::default(),
            ..self.clone()
        })
    }

    /// The memory that is searched.
    #[must_use]
    pub fn memory(&self) -> &Memory {
        &self.memory
    }

    fn snapshot(&self, reading: &Reading<'_>) -> Result<Arc<Snapshot>, RetrievalError> {
        let mut kept = self.snapshot.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(snapshot) = kept.as_ref().filter(|snapshot| snapshot.state == reading.state()) {
            return Ok(Arc::clone(snapshot));
        }
        let snapshot = Arc::new(Snapshot::read(reading, self.within.as_ref())?);
        *kept = Some(Arc::clone(&snapshot));
        Ok(snapshot)
    }

    fn embed(&self, query: &str) -> Result<Option<Vec<f32>>, RetrievalError> {
        match &self.embedder {
            Some(embedder) => Ok(embedder.embed(&[query], EmbedKind::Query)?.pop()),
            None => Ok(None),
        }
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
        let wants_vector = request.retriever != Retriever::Bm25 && !request.query.trim().is_empty();
        let vector = if wants_vector {
            self.embed(&request.query)?
        } else {
            None
        };
        if request.retriever == Retriever::Dense && self.embedder.is_none() {
            return Err(RetrievalError::NoEmbedder { what: "searcher" });
        }
        let analyzer = self.memory.analyzer();
        let mut stems: Vec<String> = analyzer
            .content_words(&request.query)
            .iter()
            .map(|word| analyzer.stem(word))
            .collect();
        stems.sort_unstable();
        stems.dedup();
        self.memory.read(|reading| {
            let snapshot = self.snapshot(reading)?;
            let mut rankings = Vec::new();
            if request.retriever != Retriever::Dense {
                let scores = bm25::scores(reading, &snapshot, &stems)?;
                rankings.push((
                    fusion::top(&scores, snapshot.len(), |place| scores[place] > 0.0),
                    scores,
                ));
            }
            if let Some(vector) = &vector {
                let scores = dense::scan(reading, &snapshot, vector)?;
                rankings.push((fusion::top(&scores, snapshot.len(), |_| true), scores));
            }
            let scores = match &rankings[..] {
                [(_, scores)] => scores.clone(),
                _ => {
                    let rankings: Vec<Vec<usize>> =
                        rankings.into_iter().map(|(ranking, _)| ranking).collect();
                    fusion::reciprocal_rank(snapshot.len(), &rankings)
                }
            };
            let places = fusion::top(&scores, request.limit, |place| scores[place] != 0.0);
            places
                .into_iter()
                .map(|place| hit(reading, &snapshot, place, scores[place]))
                .collect()
        })
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
