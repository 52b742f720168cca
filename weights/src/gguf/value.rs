//! Metadata values. Long arrays (vocabularies) stay in the map: only their place is kept.

use std::ops::Range;

use super::cursor::{Cursor, ReadResult};

/// Arrays of arrays deeper than this are refused, so that a hostile file cannot exhaust the stack.
const MAX_ARRAY_DEPTH: usize = 4;

/// One metadata value.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Value {
    Unsigned(u64),
    Signed(i64),
    F32(f32),
    F64(f64),
    Bool(bool),
    /// Where the UTF-8 bytes lie; checked when the head was read.
    String(Range<usize>),
    Array(Array),
}

/// An array of `count` elements of one type whose encoded elements lie at `range`.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Array {
    pub(crate) element: ValueType,
    pub(crate) count: usize,
    pub(crate) range: Range<usize>,
}

/// The type ids of the GGUF specification.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ValueType {
    U8,
    I8,
    U16,
    I16,
    U32,
    I32,
    F32,
    Bool,
    String,
    Array,
    U64,
    I64,
    F64,
}

impl ValueType {
    pub(crate) fn from_id(id: u32) -> ReadResult<Self> {
        Ok(match id {
            0 => Self::U8,
            1 => Self::I8,
            2 => Self::U16,
            3 => Self::I16,
            4 => Self::U32,
            5 => Self::I32,
            6 => Self::F32,
            7 => Self::Bool,
            8 => Self::String,
            9 => Self::Array,
            10 => Self::U64,
            11 => Self::I64,
            12 => Self::F64,
            _ => return Err(format!("unknown metadata type {id}, expected 0 to 12")),
        })
    }

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::U8 => "u8",
            Self::I8 => "i8",
            Self::U16 => "u16",
            Self::I16 => "i16",
            Self::U32 => "u32",
            Self::I32 => "i32",
            Self::F32 => "f32",
            Self::Bool => "bool",
            Self::String => "string",
            Self::Array => "array",
            Self::U64 => "u64",
            Self::I64 => "i64",
            Self::F64 => "f64",
        }
    }

    /// Encoded bytes of one element; `None` where they vary.
    fn width(self) -> Option<u64> {
        match self {
            Self::U8 | Self::I8 | Self::Bool => Some(1),
            Self::U16 | Self::I16 => Some(2),
            Self::U32 | Self::I32 | Self::F32 => Some(4),
            Self::U64 | Self::I64 | Self::F64 => Some(8),
            Self::String | Self::Array => None,
        }
    }
}

impl Value {
    /// Reads a value of type `kind`.
    pub(crate) fn read(cursor: &mut Cursor<'_>, kind: ValueType, what: &str) -> ReadResult<Self> {
        Ok(match kind {
            ValueType::U8 => Self::Unsigned(cursor.u8(what)?.into()),
            ValueType::I8 => Self::Signed(cursor.u8(what)?.cast_signed().into()),
            ValueType::U16 => Self::Unsigned(cursor.u16(what)?.into()),
            ValueType::I16 => Self::Signed(cursor.u16(what)?.cast_signed().into()),
            ValueType::U32 => Self::Unsigned(cursor.u32(what)?.into()),
            ValueType::I32 => Self::Signed(cursor.u32(what)?.cast_signed().into()),
            ValueType::U64 => Self::Unsigned(cursor.u64(what)?),
            ValueType::I64 => Self::Signed(cursor.u64(what)?.cast_signed()),
            ValueType::F32 => Self::F32(f32::from_bits(cursor.u32(what)?)),
            ValueType::F64 => Self::F64(f64::from_bits(cursor.u64(what)?)),
            ValueType::Bool => Self::Bool(cursor.u8(what)? != 0),
            ValueType::String => Self::String(cursor.string(what)?),
            ValueType::Array => Self::Array(read_array(cursor, what, 0)?),
        })
    }

    /// Type and, where short, value: for error messages.
    pub(crate) fn describe(&self) -> String {
        match self {
            Self::Unsigned(value) => format!("unsigned {value}"),
            Self::Signed(value) => format!("signed {value}"),
            Self::F32(value) => format!("f32 {value}"),
            Self::F64(value) => format!("f64 {value}"),
            Self::Bool(value) => format!("bool {value}"),
            Self::String(_) => "a string".to_owned(),
            Self::Array(array) => format!("an array of {} {}", array.count, array.element.name()),
        }
    }
}

fn read_array(cursor: &mut Cursor<'_>, what: &str, depth: usize) -> ReadResult<Array> {
    if depth >= MAX_ARRAY_DEPTH {
        return Err(format!("{what}: arrays nested deeper than {MAX_ARRAY_DEPTH}"));
    }
    let element = ValueType::from_id(cursor.u32(what)?)?;
    let length = cursor.u64(what)?;
    let count = usize::try_from(length).map_err(|_| format!("{what}: array of {length} elements"))?;
    let start = cursor.position();
    if let Some(width) = element.width() {
        let bytes = length
            .checked_mul(width)
            .ok_or_else(|| format!("{what}: array of {length} elements"))?;
        cursor.skip(bytes, what)?;
    } else {
        for _ in 0..count {
            if element == ValueType::String {
                cursor.string(what)?;
            } else {
                read_array(cursor, what, depth + 1)?;
            }
        }
    }
    Ok(Array {
        element,
        count,
        range: start..cursor.position(),
    })
}
