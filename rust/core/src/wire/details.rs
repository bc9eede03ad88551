//! Decodes what nodes and pods have in common and only some stores keep: details, and the JSON.

use std::borrow::Cow;

use super::cursor::{Cursor, Result};
use super::decode::{Decode, Slice, object};
use super::time::WireTime;
use crate::node::{Condition, Span};

/// A field that is decoded only if details are kept, and skipped otherwise.
///
/// A box, so that an object takes hardly more memory where details are not kept.
#[derive(Debug, Default, Clone)]
pub(crate) struct Detail<T>(Option<Box<T>>);

impl<T: Default> Detail<T> {
    /// Takes the decoded value out; an absent or skipped field gives the default.
    pub(crate) fn take(&mut self) -> T {
        self.0.take().map_or_else(T::default, |value| *value)
    }
}

impl<'a, T: Decode<'a> + Default> Decode<'a> for Detail<T> {
    fn decode(&mut self, cursor: &mut Cursor<'a>) -> Result<()> {
        if !cursor.parts().details {
            return cursor.skip_value();
        }
        if self.0.is_none() {
            cursor.charge(size_of::<T>())?;
        }
        self.0.get_or_insert_default().decode(cursor)
    }
}

/// The place of a value that is skipped.
#[derive(Debug, Default)]
pub(crate) struct Skipped(Option<Span>);

impl<'a> Decode<'a> for Skipped {
    fn decode(&mut self, cursor: &mut Cursor<'a>) -> Result<()> {
        cursor.peek();
        let start = cursor.pos();
        cursor.skip_value()?;
        self.0 = Some(Span::between(start, cursor.pos()));
        Ok(())
    }
}

/// A decoded object with the place of its JSON in the body.
#[derive(Debug, Default)]
pub(crate) struct Placed<T> {
    pub(crate) object: T,
    pub(crate) span: Span,
}

impl<'a, T: Decode<'a>> Decode<'a> for Placed<T> {
    fn decode(&mut self, cursor: &mut Cursor<'a>) -> Result<()> {
        cursor.peek();
        let start = cursor.pos();
        self.object.decode(cursor)?;
        self.span = Span::between(start, cursor.pos());
        Ok(())
    }
}

/// Returns a copy of an object's JSON, with an empty list as its managed fields, which are a third
/// of a usual object and say nothing to plugins. Returns None if no store keeps the JSON.
pub(crate) fn raw(cursor: &Cursor<'_>, object: Span, managed: &Skipped) -> Option<Box<[u8]>> {
    if !cursor.parts().raw {
        return None;
    }
    let bytes = cursor.bytes();
    // Of an object that comes twice, the managed fields may be outside of the later one.
    let inside =
        |managed: &Span| object.start() <= managed.start() && managed.end() <= object.end();
    Some(match managed.0.filter(inside) {
        Some(managed) => [
            &bytes[object.start()..managed.start()],
            b"[]",
            &bytes[managed.end()..object.end()],
        ]
        .concat()
        .into(),
        None => object.of(bytes).into(),
    })
}

object! {
    #[derive(Clone)]
    pub(crate) struct WireCondition<'a> {
        "type" => pub(crate) kind: Cow<'a, str>,
        "reason" => pub(crate) reason: Cow<'a, str>,
        "status" => status: Detail<Cow<'a, str>>,
        "lastTransitionTime" => last_transition_time: Detail<WireTime<'a>>,
    }
}

impl From<WireCondition<'_>> for Condition {
    fn from(mut wire: WireCondition<'_>) -> Self {
        Self {
            kind: often(wire.kind),
            status: often(wire.status.take()),
            reason: often(wire.reason),
            last_transition_time: wire.last_transition_time.take().0.into(),
        }
    }
}

/// The conditions of a node, which are decoded only if details are kept.
pub(crate) type WireConditions<'a> = Detail<Slice<WireCondition<'a>>>;

/// Texts that most nodes or pods have, and that therefore take no memory of their own.
const OFTEN: [&str; 22] = [
    "True",
    "False",
    "Unknown",
    "Ready",
    "PodScheduled",
    "Initialized",
    "ContainersReady",
    "PodReadyToStartContainers",
    "MemoryPressure",
    "DiskPressure",
    "PIDPressure",
    "NetworkUnavailable",
    "KubeletReady",
    "KubeletHasSufficientMemory",
    "KubeletHasNoDiskPressure",
    "KubeletHasSufficientPID",
    "persistentVolumeClaim",
    "projected",
    "configMap",
    "secret",
    "emptyDir",
    "hostPath",
];

/// Returns a text without memory of its own if most nodes or pods have it.
pub(crate) fn often(text: Cow<'_, str>) -> Cow<'static, str> {
    match OFTEN.iter().find(|known| **known == text) {
        Some(known) => Cow::Borrowed(known),
        None if text.is_empty() => Cow::Borrowed(""),
        None => Cow::Owned(text.into_owned()),
    }
}
