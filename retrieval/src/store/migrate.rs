//! Stores of earlier formats, brought to the present one when they are opened, in one transaction.
//!
//! | format | since | what changed |
//! | --- | --- | --- |
//! | 1 | 0.1 | |
//! | 2 | 0.1 | turns have times, times have a zone and the source's spelling, conversations have titles; the header says which arroy index is in use; `staged_words` |

use heed::RwTxn;
use serde::Deserialize;

use super::databases::Databases;
use super::environment::Environment;
use super::memory::{HEADER, get_json, put_json};
use super::records::{FORMAT_VERSION, Header};
use crate::RetrievalError;

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
            // New fields only, whose absence means what version 1 meant: no zone, no spelling, no title.
            let header: Header = get_json(databases.meta, txn, HEADER)?;
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
