//! Recognises nodes of a request by the bytes in which an earlier request had them.

use super::snapshot::Snapshot;

impl Snapshot {
    /// Returns the row of the stored node whose JSON equals the start of `bytes`, and the JSON's
    /// length. The row behind `after` is tried first.
    ///
    /// The stored bytes are one whole JSON object, so equal bytes of the request are one whole
    /// object, too.
    pub(crate) fn recognise(&self, bytes: &[u8], after: Option<u32>) -> Option<(u32, usize)> {
        let row = self.names.find(leading_name(bytes)?, after)?;
        let stored = self.stored(row)?;
        let known = stored.source.as_ref()?.bytes();
        bytes.starts_with(known).then_some((row, known.len()))
    }
}

/// Returns the name of a node whose JSON begins as Go writes a Node; None for any other beginning.
fn leading_name(object: &[u8]) -> Option<&[u8]> {
    let rest = object.strip_prefix(br#"{"metadata":{"name":""#)?;
    let end = memchr::memchr(b'"', rest)?;
    Some(&rest[..end])
}
