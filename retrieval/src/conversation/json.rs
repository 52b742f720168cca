//! What the JSON formats share: one element of a large array at a time, wherever it lies, and errors that name file and line.

use std::fmt;
use std::io::{BufRead, BufReader, Read};
use std::marker::PhantomData;
use std::path::Path;

use serde::de::value::MapAccessDeserializer;
use serde::de::{
    DeserializeOwned, DeserializeSeed, Error as _, IgnoredAny, MapAccess, SeqAccess, Unexpected, Visitor,
};
use serde::{Deserialize, Deserializer};

use super::container::{Container, unreadable};
use crate::RetrievalError;

/// A step from a JSON document towards the values that are wanted.
#[derive(Debug, Clone, Copy)]
pub(super) enum Step {
    /// The values of these keys; other keys are skipped.
    Keys(&'static [&'static str]),
    /// Every element of an array.
    Each,
    /// Every element of an array, or the one object that stands in its place.
    EachOrOne,
}

/// Calls `each` with every element of the JSON array that `reader` holds, or with the one object it is, so that a
/// file of any size needs the memory of one element. `each` returns whether to go on.
pub(super) fn for_each<T: DeserializeOwned>(
    source: &Source<'_>,
    reader: impl Read,
    mut each: impl FnMut(T) -> Result<bool, RetrievalError>,
) -> Result<(), RetrievalError> {
    walk(source, reader, &[Step::EachOrOne], |_, element| each(element))
}

/// Calls `each` with every value that the steps lead to and with its indices in the arrays passed, outermost first.
/// `each` returns whether to go on.
pub(super) fn walk<T: DeserializeOwned>(
    source: &Source<'_>,
    reader: impl Read,
    steps: &[Step],
    mut each: impl FnMut(&[usize], T) -> Result<bool, RetrievalError>,
) -> Result<(), RetrievalError> {
    // serde carries only its own errors through a visitor: the caller's answer waits here.
    let mut answer = Ok(true);
    let mut deserializer = serde_json::Deserializer::from_reader(BufReader::new(reader));
    let walk = Walk {
        steps,
        indices: &mut Vec::new(),
        each: &mut |indices: &[usize], element: T| {
            answer = each(indices, element);
            matches!(answer, Ok(true))
        },
        element: PhantomData,
    };
    let result = walk.deserialize(&mut deserializer);
    match (answer, result) {
        (Err(error), _) => Err(error),
        (Ok(false), _) => Ok(()),
        (Ok(true), Ok(())) => deserializer.end().map_err(|error| source.malformed(&error)),
        (Ok(true), Err(error)) => Err(source.malformed(&error)),
    }
}

struct Walk<'w, T, F> {
    steps: &'w [Step],
    indices: &'w mut Vec<usize>,
    /// Returns whether to go on.
    each: &'w mut F,
    element: PhantomData<T>,
}

impl<'w, T, F> Walk<'w, T, F> {
    fn next(&mut self) -> Walk<'_, T, F> {
        Walk {
            steps: &self.steps[1..],
            indices: self.indices,
            each: self.each,
            element: PhantomData,
        }
    }
}

impl<'de, T, F> DeserializeSeed<'de> for Walk<'_, T, F>
where
    T: Deserialize<'de>,
    F: FnMut(&[usize], T) -> bool,
{
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        if !self.steps.is_empty() {
            return deserializer.deserialize_any(self);
        }
        let element = T::deserialize(deserializer)?;
        if (self.each)(self.indices, element) {
            Ok(())
        } else {
            Err(D::Error::custom("stopped"))
        }
    }
}

impl<'de, T, F> Visitor<'de> for Walk<'_, T, F>
where
    T: Deserialize<'de>,
    F: FnMut(&[usize], T) -> bool,
{
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self.steps.first() {
            Some(Step::Keys(_)) => "an object",
            Some(Step::Each) => "an array",
            Some(Step::EachOrOne) | None => "an array of objects, or one object",
        })
    }

    fn visit_seq<A: SeqAccess<'de>>(mut self, mut sequence: A) -> Result<(), A::Error> {
        if let Some(Step::Keys(_)) = self.steps.first() {
            return Err(A::Error::invalid_type(Unexpected::Seq, &self));
        }
        self.indices.push(0);
        while sequence.next_element_seed(self.next())?.is_some() {
            if let Some(index) = self.indices.last_mut() {
                *index += 1;
            }
        }
        self.indices.pop();
        Ok(())
    }

    fn visit_map<A: MapAccess<'de>>(mut self, mut map: A) -> Result<(), A::Error> {
        match self.steps.first() {
            Some(Step::Keys(keys)) => {
                while let Some(key) = map.next_key::<String>()? {
                    if keys.contains(&key.as_str()) {
                        map.next_value_seed(self.next())?;
                    } else {
                        map.next_value::<IgnoredAny>()?;
                    }
                }
                Ok(())
            }
            Some(Step::EachOrOne) => {
                self.indices.push(0);
                self.next().deserialize(MapAccessDeserializer::new(map))?;
                self.indices.pop();
                Ok(())
            }
            Some(Step::Each) | None => Err(A::Error::invalid_type(Unexpected::Map, &self)),
        }
    }

    /// A list that is not there is an empty one.
    fn visit_unit<E: serde::de::Error>(self) -> Result<(), E> {
        Ok(())
    }
}

/// Calls `each` with every record of a document and its number from 1: the elements of an array, one object, or an object a
/// line.
pub(super) fn for_each_record<T: DeserializeOwned>(
    source: &Source<'_>,
    container: &mut Container,
    index: usize,
    mut each: impl FnMut(usize, T) -> Result<(), RetrievalError>,
) -> Result<(), RetrievalError> {
    let mut reader = container.read(index)?;
    let start = reader
        .fill_buf()
        .map_err(|error| unreadable(source.path, error))?;
    let is_array = start.iter().find(|byte| !byte.is_ascii_whitespace()) == Some(&b'[');
    let mut number = 0;
    if is_array {
        return for_each(source, reader, |record| {
            number += 1;
            each(number, record).map(|()| true)
        });
    }
    // A stream of objects is what JSON lines are, and also one object over many lines.
    for record in serde_json::Deserializer::from_reader(reader).into_iter() {
        number += 1;
        each(number, record.map_err(|error| source.malformed(&error))?)?;
    }
    Ok(())
}

/// Calls `each` with every line that is not blank and its number from 1, so that a file of any size needs the memory of one
/// line. `each` returns the reason when it cannot be read.
pub(super) fn for_each_line(
    source: &Source<'_>,
    reader: impl BufRead,
    mut each: impl FnMut(usize, &str) -> Result<(), LineError>,
) -> Result<(), RetrievalError> {
    for_any_line(source, reader, |number, line| {
        if line.trim().is_empty() {
            Ok(())
        } else {
            each(number, line)
        }
    })
}

/// As [`for_each_line`], with blank lines.
pub(super) fn for_any_line(
    source: &Source<'_>,
    mut reader: impl BufRead,
    mut each: impl FnMut(usize, &str) -> Result<(), LineError>,
) -> Result<(), RetrievalError> {
    let mut line = Vec::new();
    for number in 1.. {
        line.clear();
        let read = reader.read_until(b'\n', &mut line);
        if read.map_err(|error| unreadable(source.path, error))? == 0 {
            break;
        }
        let text = std::str::from_utf8(&line).map_err(|_| source.at_line(number, "not UTF-8"))?;
        let text = text.strip_suffix('\n').unwrap_or(text);
        let text = text.strip_suffix('\r').unwrap_or(text);
        each(number, text).map_err(|error| match error {
            LineError::Malformed(reason) => source.at_line(number, reason),
            LineError::Other(error) => error,
        })?;
    }
    Ok(())
}

/// Why a line was not taken.
pub(super) enum LineError {
    /// What is wrong with it.
    Malformed(String),
    /// Something that is not the line's fault.
    Other(RetrievalError),
}

impl From<RetrievalError> for LineError {
    fn from(error: RetrievalError) -> Self {
        Self::Other(error)
    }
}

impl From<String> for LineError {
    fn from(reason: String) -> Self {
        Self::Malformed(reason)
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

/// For a field of a foreign format: `null` is as good as no field.
pub(super) fn or_default<'de, D: Deserializer<'de>, T: Deserialize<'de> + Default>(
    deserializer: D,
) -> Result<T, D::Error> {
    Option::<T>::deserialize(deserializer).map(Option::unwrap_or_default)
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
