//! Stores of earlier formats, brought to the present one when they are opened, in one transaction.
//!
//! | format | since | what changed |
//! | --- | --- | --- |
//! | 1 | 0.1 | |
//! | 2 | 0.1 | turns have times, times have a zone and the source's spelling, conversations have titles; the header says which arroy index is in use; `staged_words`; terms without accents, emoji and addresses as terms; how much a turn tells; `tokens`, empty until a reindexing; `passages` |

use std::collections::{BTreeMap, BTreeSet};

use heed::RwTxn;
use serde::Deserialize;

use super::databases::{Databases, session_key};
use super::edit::stems;
use super::environment::Environment;
use super::ingest::missing::is_vocabulary;
use super::memory::{HEADER, get_json, put_json};
use super::postings::{self, Posting};
use super::records::{FORMAT_VERSION, Header};
use crate::RetrievalError;
use crate::text::{Analyzer, fold};

#[derive(Deserialize)]
struct Version {
    format: u32,
}

/// The header, after the store was brought to the present format where it had an earlier one.
///
/// # Errors
/// [`RetrievalError::FormatVersion`] for a format that is not known.
pub(super) fn open_header(environment: &Environment, databases: Databases) -> Result<Header, RetrievalError> {
    let version: Version = environment.read(|txn| get_json(databases.meta, txn, HEADER))?;
    if version.format != FORMAT_VERSION {
        environment.write(|txn| upgrade(environment, databases, txn))?;
    }
    environment.read(|txn| get_json(databases.meta, txn, HEADER))
}

fn upgrade(
    environment: &Environment,
    databases: Databases,
    txn: &mut RwTxn<'_>,
) -> Result<(), RetrievalError> {
    // Another process may have done it meanwhile.
    let Version { format } = get_json(databases.meta, txn, HEADER)?;
    match format {
        FORMAT_VERSION => Ok(()),
        1 => {
            // New fields, whose absence means what version 1 meant: no zone, no spelling, no title.
            let header: Header = get_json(databases.meta, txn, HEADER)?;
            analyse_anew(databases, txn, &Analyzer::new(header.language))?;
            let header = Header { format: 2, ..header };
            tracing::info!(path = %environment.path().display(), "the memory is brought from format 1 to 2");
            put_json(databases.meta, txn, HEADER, &header)
        }
        received => Err(RetrievalError::FormatVersion {
            path: environment.path().to_owned(),
            expected: FORMAT_VERSION,
            received,
        }),
    }
}

/// Turns whose postings are gathered before they are written.
const PART: usize = 4096;

/// Makes the keyword index and the columns of sessions anew from the turns, and fits the vocabulary to it: a word
/// without its accents keeps its vector.
fn analyse_anew(
    databases: Databases,
    txn: &mut RwTxn<'_>,
    analyzer: &Analyzer,
) -> Result<(), RetrievalError> {
    databases.postings.clear(txn)?;
    let mut said = BTreeSet::new();
    let mut gathered: BTreeMap<(String, u32), Vec<Posting>> = BTreeMap::new();
    let numbers: Vec<u32> = databases
        .turns
        .iter(txn)?
        .map(|turn| Ok(turn?.0))
        .collect::<Result<_, RetrievalError>>()?;
    for (done, &number) in (1..).zip(&numbers) {
        if let Some(turn) = databases.turns.get(txn, &number)? {
            let passage = turn.passage();
            for (stem, count) in stems(analyzer, &passage) {
                let posting = Posting { turn: number, count };
                gathered
                    .entry((stem, turn.conversation))
                    .or_default()
                    .push(posting);
            }
            let words = analyzer.content_words(&passage).into_iter();
            said.extend(words.filter(|word| is_vocabulary(word)));
        }
        if done % PART == 0 || done == numbers.len() {
            for ((stem, conversation), new) in std::mem::take(&mut gathered) {
                postings::insert(databases.postings, txn, (&stem, conversation), &new)?;
            }
        }
    }
    columns_anew(databases, txn, analyzer)?;
    vocabulary_anew(databases, txn, &said)
}

fn columns_anew(
    databases: Databases,
    txn: &mut RwTxn<'_>,
    analyzer: &Analyzer,
) -> Result<(), RetrievalError> {
    let conversations: Vec<(u32, u32)> = databases
        .conversations
        .iter(txn)?
        .map(|entry| entry.map(|(number, record)| (number, record.sessions)))
        .collect::<Result<_, _>>()?;
    let keys = conversations
        .iter()
        .flat_map(|&(number, sessions)| (0..sessions).map(move |index| session_key(number, index)));
    for key in keys {
        let Some(mut session) = databases.sessions.get(txn, &key)? else {
            continue;
        };
        session.telling.clear();
        for (place, number) in session.turns.iter().enumerate() {
            let turn = databases.turns.get(txn, number)?;
            let (passage, text) = turn.map_or_else(Default::default, |turn| (turn.passage(), turn.text));
            session.words[place] = stems(analyzer, &passage).values().sum();
            session
                .telling
                .push(analyzer.telling(&text, session.tokens[place]));
        }
        databases.sessions.put(txn, &key, &session)?;
    }
    Ok(())
}

fn vocabulary_anew(
    databases: Databases,
    txn: &mut RwTxn<'_>,
    said: &BTreeSet<String>,
) -> Result<(), RetrievalError> {
    let known: Vec<(String, Vec<u8>)> = databases
        .words
        .iter(txn)?
        .map(|entry| entry.map(|(word, vector)| (word.to_owned(), vector.to_vec())))
        .collect::<Result<_, _>>()?;
    for (word, vector) in known {
        if !said.contains(&word) {
            databases.words.delete(txn, &word)?;
        }
        let mut folded = word;
        fold(&mut folded);
        if said.contains(&folded) {
            databases.words.put(txn, &folded, &vector)?;
        }
    }
    Ok(())
}
