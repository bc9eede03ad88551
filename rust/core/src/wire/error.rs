//! `WireError`: why and where a body cannot be parsed.

use std::fmt;

/// One step on the way from the top of a body to the value that could not be read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Step {
    /// A field of an object, by its Go name.
    Field(&'static str),
    /// An element of a list.
    Index(usize),
}

/// Why a value could not be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Problem {
    /// The body ends inside a value.
    #[error("the body ends too early")]
    Truncated,
    /// A byte, or the end of the body, that JSON does not allow at this place.
    #[error("unexpected {0}")]
    Unexpected(Found),
    /// A value of another kind than the field's.
    #[error("expected {expected}, found {found}")]
    WrongType {
        /// What the field holds.
        expected: &'static str,
        /// The value that was found.
        found: Found,
    },
    /// A number that is no integer, or does not fit into the field's number of bits.
    #[error("expected an integer of {0} bits")]
    NotAnInteger(u32),
    /// A string that is not a resource quantity.
    #[error("not a quantity: {0}")]
    NotAQuantity(String),
    /// A string that is not a time as RFC 3339 writes it.
    #[error("not a time as RFC 3339 writes it")]
    NotATime,
    /// Objects and lists inside each other beyond [`MAX_DEPTH`](super::MAX_DEPTH).
    #[error("nested deeper than {0} levels")]
    TooDeep(u32),
    /// Bytes that are not UTF-8.
    #[error("not UTF-8")]
    NotUtf8,
    /// Something other than white space behind the body's one value.
    #[error("unexpected data behind the end of the JSON value")]
    TrailingData,
    /// A second list of nodes in a request, because the response could not return nodes of two
    /// lists byte for byte.
    #[error("given twice, so that the nodes could not be sent back as they came in")]
    GivenTwice,
    /// The body has more bytes than a body of this kind may have.
    #[error("longer than {0} bytes")]
    LongerThan(usize),
    /// The body has so many elements that it would take more memory than a body of its length may.
    #[error("more elements than a body of this length may have")]
    TooDense,
    /// A list or watch event that lacks a field without which the store cannot use it.
    #[error("{0}")]
    Unusable(&'static str),
}

/// What was found where something else was expected.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Found {
    /// A byte that begins no value, or that JSON does not allow at its place.
    Byte(u8),
    /// The end of the body.
    End,
}

impl fmt::Display for Found {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::End => f.write_str("the end of the body"),
            Self::Byte(b'{') => f.write_str("an object"),
            Self::Byte(b'[') => f.write_str("a list"),
            Self::Byte(b'"') => f.write_str("a string"),
            Self::Byte(b't' | b'f') => f.write_str("a boolean"),
            Self::Byte(b'n') => f.write_str("null"),
            Self::Byte(b'-' | b'0'..=b'9') => f.write_str("a number"),
            Self::Byte(byte) if byte.is_ascii_graphic() => write!(f, "'{}'", *byte as char),
            Self::Byte(byte) => write!(f, "byte 0x{byte:02x}"),
        }
    }
}

/// The error for a body that cannot be parsed: the byte, the field and the problem.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WireError {
    offset: usize,
    steps: Vec<Step>,
    problem: Problem,
}

impl WireError {
    pub(crate) fn new(offset: usize, problem: Problem) -> Self {
        Self {
            offset,
            steps: Vec::new(),
            problem,
        }
    }

    /// Adds the enclosing field or list index to the error's path.
    pub(crate) fn inside(mut self, step: Step) -> Self {
        self.steps.push(step);
        self
    }

    /// The position in the body, in bytes.
    pub fn offset(&self) -> usize {
        self.offset
    }

    /// Why the body cannot be parsed.
    pub fn problem(&self) -> &Problem {
        &self.problem
    }
}

impl fmt::Display for WireError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "byte {}: ", self.offset)?;
        for (i, step) in self.steps.iter().rev().enumerate() {
            match step {
                Step::Field(name) if i == 0 => f.write_str(name)?,
                Step::Field(name) => write!(f, ".{name}")?,
                Step::Index(index) => write!(f, "[{index}]")?,
            }
        }
        if !self.steps.is_empty() {
            f.write_str(": ")?;
        }
        self.problem.fmt(f)
    }
}

impl std::error::Error for WireError {}
