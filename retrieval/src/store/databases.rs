//! The LMDB databases of a memory: names, keys and values.
//!
//! | name | key | value |
//! | --- | --- | --- |
//! | `meta` | `header`, `counters` | JSON |
//! | `conversations` | conversation number | [`ConversationRecord`] |
//! | `conversation_ids` | id | conversation number |
//! | `sessions` | conversation number, session number | [`SessionRecord`] |
//! | `session_ids` | conversation number, id | session number |
//! | `turns` | turn number | [`StoredTurn`] |
//! | `turn_ids` | conversation number, id | turn number |
//! | `postings` | stem, 0, conversation number, first turn number | see [`super::postings`] |
//! | `words` | word | see [`super::wordvectors`] |
//! | `vectors` | arroy's own; index 0, item = turn number | arroy's own |
//! | `tokens` | turn number | see [`super::tokens`] |
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
const VECTORS: &str = "vectors";
const TOKENS: &str = "tokens";
const PASSAGES: &str = "passages";

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
    pub(crate) vectors: VectorDatabase,
    pub(crate) tokens: Database<'static, U32<BE>, Bytes>,
    pub(crate) passages: Database<'static, U64<BE>, U32<BE>>,
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
                create(opener, txn, VECTORS)?,
                create(opener, txn, TOKENS)?,
                create(opener, txn, PASSAGES)?,
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
            vectors,
            tokens,
            passages,
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
            vectors,
            tokens,
            passages,
        })
    }

    /// Opens what a memory must have; `None` where a database is missing.
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
                open(opener, txn, VECTORS)?,
                open(opener, txn, TOKENS)?,
                open(opener, txn, PASSAGES)?,
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
            Some(vectors),
            tokens,
            passages,
        ) = opened.unwrap_commit()
        else {
            return Ok(None);
        };
        let (Some(tokens), Some(passages)) = (tokens, passages) else {
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
            vectors,
            tokens,
            passages,
        }))
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
