//! What the JSON formats share: one array element at a time, and errors that name file and line.

use std::cell::RefCell;
use std::fmt;
use std::io::{BufReader, Read};
use std::marker::PhantomData;
use std::path::Path;

use serde::de::{DeserializeOwned, Error as _, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};

use crate::RetrievalError;

/// Calls `each` with every element of the JSON array that `reader` holds, or with the one object it is, so that a
/// file of any size needs the memory of one element. `each` returns whether to go on.
pub(super) fn for_each<T: DeserializeOwned>(
    source: &Source<'_>,
    reader: impl Read,
    mut each: impl FnMut(T) -> Result<bool, RetrievalError>,
) -> Result<(), RetrievalError> {
    // serde carries only its own errors through a visitor: the caller's error waits here.
    let failure = RefCell::new(None);
    let mut handle = |element: T| match each(element) {
        Ok(true) => Ok(()),
        Ok(false) => Err(None),
        Err(error) => Err(Some(error)),
    };
    let mut stopped = false;
    let mut deserializer = serde_json::Deserializer::from_reader(BufReader::new(reader));
    let result = deserializer.deserialize_any(Elements {
        each: |element| {
            handle(element).map_err(|error| {
                stopped = true;
                *failure.borrow_mut() = error;
            })
        },
        element: PhantomData,
    });
    match (result, failure.into_inner()) {
        (_, Some(error)) => Err(error),
        (Ok(()), None) => deserializer.end().map_err(|error| source.malformed(&error)),
        (Err(_), None) if stopped => Ok(()),
        (Err(error), None) => Err(source.malformed(&error)),
    }
}

/// Which file is read as what, for error messages.
pub(super) struct Source<'a> {
    pub(super) path: &'a Path,
    pub(super) format: &'static str,
}

impl Source<'_> {
    pub(super) fn malformed(&self, error: &serde_json::Error) -> RetrievalError {
        if let Some(kind) = error.io_error_kind() {
            return RetrievalError::UnreadableFile {
                path: self.path.to_owned(),
                source: std::io::Error::new(kind, error.to_string()),
            };
        }
        // serde_json appends the position, which the message names already.
        let text = error.to_string();
        let reason = text.split(" at line ").next().unwrap_or(&text);
        self.at_line(error.line(), reason)
    }

    pub(super) fn at_line(&self, line: usize, reason: impl Into<String>) -> RetrievalError {
        RetrievalError::Malformed {
            path: self.path.to_owned(),
            line,
            format: self.format,
            reason: reason.into(),
        }
    }
}

struct Elements<T, F> {
    each: F,
    element: PhantomData<T>,
}

impl<'de, T, F> Visitor<'de> for Elements<T, F>
where
    T: Deserialize<'de>,
    F: FnMut(T) -> Result<(), ()>,
{
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an array of objects, or one object")
    }

    fn visit_seq<A: SeqAccess<'de>>(mut self, mut sequence: A) -> Result<(), A::Error> {
        while let Some(element) = sequence.next_element()? {
            (self.each)(element).map_err(|()| A::Error::custom("stopped"))?;
        }
        Ok(())
    }

    fn visit_map<A: MapAccess<'de>>(mut self, map: A) -> Result<(), A::Error> {
        let element = T::deserialize(serde::de::value::MapAccessDeserializer::new(map))?;
        (self.each)(element).map_err(|()| A::Error::custom("stopped"))
    }
}

/// The keys of an object; the values are skipped.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Keys(pub(super) Vec<String>);

impl Keys {
    pub(super) fn has(&self, key: &str) -> bool {
        self.0.iter().any(|k| k == key)
    }
}

impl<'de> Deserialize<'de> for Keys {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct KeysVisitor;
        impl<'de> Visitor<'de> for KeysVisitor {
            type Value = Keys;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Keys, A::Error> {
                let mut keys = Vec::new();
                while let Some((key, IgnoredAny)) = map.next_entry::<String, IgnoredAny>()? {
                    keys.push(key);
                }
                Ok(Keys(keys))
            }
        }
        deserializer.deserialize_map(KeysVisitor)
    }
}
