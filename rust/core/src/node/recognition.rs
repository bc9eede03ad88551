//! Nodes that are known by the very bytes that they came in.

use super::snapshot::Snapshot;

impl Snapshot {
    /// The stored node whose very bytes stand at the start of `bytes`, and how many they are. The row
    /// behind `after` is tried first.
    ///
    /// Stored bytes are one whole object, so whatever follows them follows the object.
    pub(crate) fn recognise(&self, bytes: &[u8], after: Option<u32>) -> Option<(u32, usize)> {
        let row = self.names.find(leading_name(bytes)?, after)?;
        let stored = self.stored(row)?;
        let known = stored.source.as_ref()?.bytes();
        bytes.starts_with(known).then_some((row, known.len()))
    }
}

/// The name of a node whose object begins as Go writes it.
fn leading_name(object: &[u8]) -> Option<&[u8]> {
    let rest = object.strip_prefix(br#"{"metadata":{"name":""#)?;
    let end = memchr::memchr(b'"', rest)?;
    Some(&rest[..end])
}
