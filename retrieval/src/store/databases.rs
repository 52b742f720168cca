//! The LMDB databases of a memory: names, keys and values.
//!
//! | name | key | value |
//! | --- | --- | --- |
//! | `meta` | `header`, `counters`, and while a reindexing is under way `reindex` | JSON |
//! | `conversations` | conversation number | [`ConversationRecord`] |
//! | `conversation_ids` | id | conversation number |
//! | `sessions` | conversation number, session number | [`SessionRecord`] |
//! | `session_ids` | conversation number, id | session number |
//! | `turns` | turn number | [`StoredTurn`] |
//! | `turn_ids` | conversation number, id | turn number |
//! | `postings` | stem, 0, conversation number, first turn number | see [`super::postings`] |
//! | `words` | word | see [`super::wordvectors`] |
//! | `staged_words` | word | as `words`, for the embedder of a reindexing that is under way |
//! | `vectors` | arroy's own; index 0 or 1 as the header says, item = turn number | arroy's own |
//! | `tokens` | index as for `vectors`, turn number | see [`super::tokens`] |
//! | `graph` | see [`super::graph`] | see there |
//! | `passages` | hash of a passage | number of a turn that had it, see [`super::passages`] |
//!
//! Numbers are `u32`, big endian in keys, so that LMDB's byte order is the order of numbers. Turn numbers are unique
//! in the store and grow in the order of arrival; session numbers count from 0 in their conversation.

use arroy::distances::Cosine;
use heed::byteorder::BE;
use heed::types::{Bytes, SerdeJson, Str, U32, U64};
use heed::{CommitOrAbort, Database, DatabaseOpener, RoTxn, RwTxn, WithoutTls};

use super::environment::Environment;
use super::records::{ConversationRecord, SessionRecord, StoredTurn};
use super::stats::Table;
use crate::RetrievalError;

const META: &str = "meta";
const CONVERSATIONS: &str = "conversations";
const CONVERSATION_IDS: &str = "conversation_ids";
const SESSIONS: &str = "sessions";
const SESSION_IDS: &str = "session_ids";
const TURNS: &str = "turns";
const TURN_IDS: &str = "turn_ids";
const POSTINGS: &str = "postings";
const WORDS: &str = "words";
const STAGED_WORDS: &str = "staged_words";
const VECTORS: &str = "vectors";
const TOKENS: &str = "tokens";
const PASSAGES: &str = "passages";
const GRAPH: &str = "graph";

pub(crate) type VectorDatabase = arroy::Database<'static, Cosine>;

#[derive(Debug, Clone, Copy)]
pub(crate) struct Databases {
    pub(crate) meta: Database<'static, Str, Bytes>,
    pub(crate) conversations: Database<'static, U32<BE>, SerdeJson<ConversationRecord>>,
    pub(crate) conversation_ids: Database<'static, Str, U32<BE>>,
    pub(crate) sessions: Database<'static, U64<BE>, SerdeJson<SessionRecord>>,
    pub(crate) session_ids: Database<'static, Bytes, U32<BE>>,
    pub(crate) turns: Database<'static, U32<BE>, SerdeJson<StoredTurn>>,
    pub(crate) turn_ids: Database<'static, Bytes, U32<BE>>,
    pub(crate) postings: Database<'static, Bytes, Bytes>,
    pub(crate) words: Database<'static, Str, Bytes>,
    pub(super) staged_words: Database<'static, Str, Bytes>,
    pub(crate) vectors: VectorDatabase,
    pub(crate) tokens: Database<'static, U64<BE>, Bytes>,
    pub(crate) passages: Database<'static, U64<BE>, U32<BE>>,
    pub(crate) graph: Database<'static, Bytes, Bytes>,
}

/// Key of a session: its conversation in the high half.
pub(crate) fn session_key(conversation: u32, session: u32) -> u64 {
    u64::from(conversation) << 32 | u64::from(session)
}

/// Key of a session or turn by its id in a conversation.
pub(crate) fn id_key(conversation: u32, id: &str) -> Vec<u8> {
    [&conversation.to_be_bytes(), id.as_bytes()].concat()
}

impl Databases {
    /// Creates what does not exist and writes the first records with `initialise`, all in one transaction.
    pub(super) fn create(
        environment: &Environment,
        initialise: impl FnOnce(Database<'_, Str, Bytes>, &mut RwTxn<'_>) -> Result<(), RetrievalError>,
    ) -> Result<Self, RetrievalError> {
        let env = environment.env();
        let txn = env.write_txn()?;
        let created = env.create_databases_and_commit(txn, |opener, txn| {
            let meta = create::<Str, Bytes>(opener, txn, META)?;
            initialise(meta, txn)?;
            Ok::<_, RetrievalError>(CommitOrAbort::<_, ()>::Commit((
                meta,
                create(opener, txn, CONVERSATIONS)?,
                create(opener, txn, CONVERSATION_IDS)?,
                create(opener, txn, SESSIONS)?,
                create(opener, txn, SESSION_IDS)?,
                create(opener, txn, TURNS)?,
                create(opener, txn, TURN_IDS)?,
                create(opener, txn, POSTINGS)?,
                create(opener, txn, WORDS)?,
                create(opener, txn, STAGED_WORDS)?,
                create(opener, txn, VECTORS)?,
                (
                    create(opener, txn, TOKENS)?,
                    create(opener, txn, PASSAGES)?,
                    create(opener, txn, GRAPH)?,
                ),
            )))
        })?;
        let (
            meta,
            conversations,
            conversation_ids,
            sessions,
            session_ids,
            turns,
            turn_ids,
            postings,
            words,
            staged_words,
            vectors,
            (tokens, passages, graph),
        ) = created.unwrap_commit();
        Ok(Self {
            meta,
            conversations,
            conversation_ids,
            sessions,
            session_ids,
            turns,
            turn_ids,
            postings,
            words,
            staged_words,
            vectors,
            tokens,
            passages,
            graph,
        })
    }

    /// Opens what a memory must have; `None` where a database is missing. What format 1 did not have is created.
    pub(super) fn open(environment: &Environment) -> Result<Option<Self>, RetrievalError> {
        let env = environment.env();
        let txn = env.read_txn()?;
        let opened = env.open_databases_and_commit(txn, |opener, txn| {
            Ok::<_, heed::Error>(CommitOrAbort::<_, ()>::Commit((
                open::<Str, Bytes>(opener, txn, META)?,
                open(opener, txn, CONVERSATIONS)?,
                open(opener, txn, CONVERSATION_IDS)?,
                open(opener, txn, SESSIONS)?,
                open(opener, txn, SESSION_IDS)?,
                open(opener, txn, TURNS)?,
                open(opener, txn, TURN_IDS)?,
                open(opener, txn, POSTINGS)?,
                open(opener, txn, WORDS)?,
                open::<Str, Bytes>(opener, txn, STAGED_WORDS)?,
                open(opener, txn, VECTORS)?,
                (
                    open::<U64<BE>, Bytes>(opener, txn, TOKENS)?,
                    open::<U64<BE>, U32<BE>>(opener, txn, PASSAGES)?,
                    open::<Bytes, Bytes>(opener, txn, GRAPH)?,
                ),
            )))
        })?;
        let (
            Some(meta),
            Some(conversations),
            Some(conversation_ids),
            Some(sessions),
            Some(session_ids),
            Some(turns),
            Some(turn_ids),
            Some(postings),
            Some(words),
            staged_words,
            Some(vectors),
            (tokens, passages, graph),
        ) = opened.unwrap_commit()
        else {
            return Ok(None);
        };
        let (Some(staged_words), Some(tokens), Some(passages), Some(graph)) =
            (staged_words, tokens, passages, graph)
        else {
            // A memory of an earlier version, which lacks what was added since.
            return Self::create(environment, |_, _| Ok(())).map(Some);
        };
        Ok(Some(Self {
            meta,
            conversations,
            conversation_ids,
            sessions,
            session_ids,
            turns,
            turn_ids,
            postings,
            words,
            staged_words,
            vectors,
            tokens,
            passages,
            graph,
        }))
    }
}

impl Databases {
    /// Entries and bytes of each database.
    pub(super) fn tables(&self, txn: &RoTxn<'_>) -> Result<Vec<Table>, RetrievalError> {
        let stats = [
            (META, self.meta.stat(txn)?),
            (CONVERSATIONS, self.conversations.stat(txn)?),
            (CONVERSATION_IDS, self.conversation_ids.stat(txn)?),
            (SESSIONS, self.sessions.stat(txn)?),
            (SESSION_IDS, self.session_ids.stat(txn)?),
            (TURNS, self.turns.stat(txn)?),
            (TURN_IDS, self.turn_ids.stat(txn)?),
            (POSTINGS, self.postings.stat(txn)?),
            (WORDS, self.words.stat(txn)?),
            (STAGED_WORDS, self.staged_words.stat(txn)?),
            (VECTORS, self.vectors.stat(txn)?),
            (TOKENS, self.tokens.stat(txn)?),
            (PASSAGES, self.passages.stat(txn)?),
            (GRAPH, self.graph.stat(txn)?),
        ];
        let table = |(name, stat): (&'static str, heed::DatabaseStat)| Table {
            name,
            entries: stat.entries,
            bytes: stat.non_free_page_size(),
        };
        Ok(stats.map(table).to_vec())
    }
}

fn create<'e, K: 'static, D: 'static>(
    opener: &DatabaseOpener<'e, WithoutTls>,
    txn: &mut RwTxn<'e>,
    name: &str,
) -> heed::Result<Database<'e, K, D>> {
    opener.create_database(txn, Some(name))
}

fn open<'e, K: 'static, D: 'static>(
    opener: &DatabaseOpener<'e, WithoutTls>,
    txn: &RoTxn<'e, WithoutTls>,
    name: &str,
) -> heed::Result<Option<Database<'e, K, D>>> {
    opener.open_database(txn, Some(name))
}
