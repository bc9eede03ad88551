//! Serialises values to bytes, and deserialises them, for processes of the same build.
//!
//! The format may change with every build: the bytes are never written to a file or a network.

use std::sync::Arc;

/// A value that can be serialised for another process of the same build.
pub(crate) trait Transfer: Sized {
    /// Appends the serialised value to `out`.
    fn put(&self, out: &mut Vec<u8>);

    /// Deserialises the next value; None if the bytes hold no such value.
    fn take(from: &mut Received<'_>) -> Option<Self>;
}

/// The error for bytes that no process of this build serialised, or that are incomplete.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("these bytes were not packed by the same version of kubextend")]
pub struct Unreceivable;

/// Received bytes that are not deserialised yet.
#[derive(Debug)]
pub(crate) struct Received<'a>(&'a [u8]);

impl<'a> Received<'a> {
    /// Deserialises one value from all of the bytes.
    pub(crate) fn whole<T: Transfer>(bytes: &'a [u8]) -> Result<T, Unreceivable> {
        let mut received = Self(bytes);
        let value = T::take(&mut received).filter(|_| received.0.is_empty());
        value.ok_or(Unreceivable)
    }

    fn bytes(&mut self, count: usize) -> Option<&'a [u8]> {
        let (bytes, rest) = self.0.split_at_checked(count)?;
        self.0 = rest;
        Some(bytes)
    }

    pub(crate) fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        self.bytes(N)?.try_into().ok()
    }

    fn count(&mut self) -> Option<usize> {
        Some(u32::take(self)? as usize)
    }

    pub(crate) fn text(&mut self) -> Option<&'a str> {
        let count = self.count()?;
        simdutf8::basic::from_utf8(self.bytes(count)?).ok()
    }
}

fn put_count(count: usize, out: &mut Vec<u8>) {
    (count as u32).put(out);
}

macro_rules! numbers {
    ($($number:ty),*) => {
        $(impl Transfer for $number {
            fn put(&self, out: &mut Vec<u8>) {
                out.extend_from_slice(&self.to_le_bytes());
            }

            fn take(from: &mut Received<'_>) -> Option<Self> {
                Some(Self::from_le_bytes(from.array()?))
            }
        })*
    };
}

numbers!(u32, i32, i64);

impl Transfer for bool {
    fn put(&self, out: &mut Vec<u8>) {
        out.push(u8::from(*self));
    }

    fn take(from: &mut Received<'_>) -> Option<Self> {
        match from.array()? {
            [0] => Some(false),
            [1] => Some(true),
            _ => None,
        }
    }
}

/// Appends a text; `Received::text` takes it.
pub(crate) fn put_text(text: &str, out: &mut Vec<u8>) {
    put_count(text.len(), out);
    out.extend_from_slice(text.as_bytes());
}

macro_rules! texts {
    ($($text:ty: $read:expr),* $(,)?) => {
        $(impl Transfer for $text {
            fn put(&self, out: &mut Vec<u8>) {
                put_text(self, out);
            }

            fn take(from: &mut Received<'_>) -> Option<Self> {
                from.text().map($read)
            }
        })*
    };
}

texts!(String: str::to_owned, Box<str>: Into::into, Arc<str>: Into::into);

impl<T: Transfer> Transfer for Option<T> {
    fn put(&self, out: &mut Vec<u8>) {
        self.is_some().put(out);
        if let Some(value) = self {
            value.put(out);
        }
    }

    fn take(from: &mut Received<'_>) -> Option<Self> {
        let some = bool::take(from)?;
        Some(if some { Some(T::take(from)?) } else { None })
    }
}

impl<A: Transfer, B: Transfer> Transfer for (A, B) {
    fn put(&self, out: &mut Vec<u8>) {
        self.0.put(out);
        self.1.put(out);
    }

    fn take(from: &mut Received<'_>) -> Option<Self> {
        Some((A::take(from)?, B::take(from)?))
    }
}

impl<T: Transfer> Transfer for Vec<T> {
    fn put(&self, out: &mut Vec<u8>) {
        put_all(self, out);
    }

    fn take(from: &mut Received<'_>) -> Option<Self> {
        // Nothing is reserved: a count is believed as far as there are bytes for it.
        (0..from.count()?).map(|_| T::take(from)).collect()
    }
}

macro_rules! slices {
    ($($slice:ty),*) => {
        $(impl<T: Transfer> Transfer for $slice {
            fn put(&self, out: &mut Vec<u8>) {
                put_all(self, out);
            }

            fn take(from: &mut Received<'_>) -> Option<Self> {
                Vec::take(from).map(Into::into)
            }
        })*
    };
}

slices!(Box<[T]>, Arc<[T]>);

impl<T: Transfer> Transfer for Arc<T> {
    fn put(&self, out: &mut Vec<u8>) {
        T::put(self, out);
    }

    fn take(from: &mut Received<'_>) -> Option<Self> {
        T::take(from).map(Self::new)
    }
}

fn put_all<T: Transfer>(values: &[T], out: &mut Vec<u8>) {
    put_count(values.len(), out);
    for value in values {
        value.put(out);
    }
}

/// Declares a struct that is serialised field by field.
macro_rules! packed {
    ($(#[$about:meta])* $seen:vis struct $type:ident {
        $($(#[$of:meta])* $by:vis $field:ident: $kind:ty),* $(,)?
    }) => {
        $(#[$about])*
        $seen struct $type {
            $($(#[$of])* $by $field: $kind,)*
        }

        impl $crate::packing::Transfer for $type {
            fn put(&self, out: &mut Vec<u8>) {
                let Self { $($field),* } = self;
                $($crate::packing::Transfer::put($field, out);)*
            }

            fn take(from: &mut $crate::packing::Received<'_>) -> Option<Self> {
                $(let $field = $crate::packing::Transfer::take(from)?;)*
                Some(Self { $($field),* })
            }
        }
    };
    ($(#[$about:meta])* $seen:vis struct $type:ident($by:vis $kind:ty);) => {
        $(#[$about])*
        $seen struct $type($by $kind);

        impl $crate::packing::Transfer for $type {
            fn put(&self, out: &mut Vec<u8>) {
                $crate::packing::Transfer::put(&self.0, out);
            }

            fn take(from: &mut $crate::packing::Received<'_>) -> Option<Self> {
                Some(Self($crate::packing::Transfer::take(from)?))
            }
        }
    };
}

pub(crate) use packed;
