//! The bytes of nodes' JSON that a request store keeps, to recognise the nodes in later requests.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// The bytes of a request, shared by reference count.
#[derive(Clone)]
pub struct Body(Arc<dyn AsRef<[u8]> + Send + Sync>);

impl Body {
    /// Wraps the bytes of a request; the bytes live as long as a node that was read from them is
    /// kept.
    pub fn new(bytes: impl AsRef<[u8]> + Send + Sync + 'static) -> Self {
        Self(Arc::new(bytes))
    }

    /// The bytes of the request.
    pub fn bytes(&self) -> &[u8] {
        (*self.0).as_ref()
    }
}

impl fmt::Debug for Body {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Body({} bytes)", self.bytes().len())
    }
}

/// A range of bytes in the body of a request.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Span {
    pub(crate) start: u32,
    pub(crate) len: u32,
}

impl Span {
    /// Makes the range from `start` to `end`, which fit into 32 bits: a body of more than 4 GiB is
    /// refused before it is read.
    pub(crate) fn between(start: usize, end: usize) -> Self {
        Self {
            start: start as u32,
            len: (end - start) as u32,
        }
    }

    pub(crate) fn start(self) -> usize {
        self.start as usize
    }

    pub(crate) fn end(self) -> usize {
        self.start as usize + self.len as usize
    }

    pub(crate) fn of(self, bytes: &[u8]) -> &[u8] {
        &bytes[self.start()..self.end()]
    }
}

/// A block of bytes that holds the JSON of one stored node or of many.
#[derive(Debug)]
pub(crate) struct Segment {
    body: Body,
    /// How many bytes of the segment belong to nodes that are still stored. Only the writer
    /// changes this number.
    alive: AtomicU64,
}

impl Segment {
    pub(crate) fn new(body: Body) -> Arc<Self> {
        Arc::new(Self {
            body,
            alive: AtomicU64::new(0),
        })
    }

    pub(crate) fn size(&self) -> u64 {
        self.body.bytes().len() as u64
    }

    pub(crate) fn grow(&self, bytes: u32) {
        self.alive.fetch_add(u64::from(bytes), Ordering::Relaxed);
    }

    /// Counts `bytes` of the segment as no longer alive (belonging to a stored node). If less than
    /// half of the segment is alive then, returns the number of alive bytes.
    pub(crate) fn lose(&self, bytes: u32) -> Option<u64> {
        let before = self.alive.fetch_sub(u64::from(bytes), Ordering::Relaxed);
        let left = before - u64::from(bytes);
        (2 * before >= self.size() && self.is_given_up()).then_some(left)
    }

    /// Whether less than half of the segment belongs to stored nodes, so that these are to be
    /// copied out.
    pub(crate) fn is_given_up(&self) -> bool {
        2 * self.alive.load(Ordering::Relaxed) < self.size()
    }
}

/// The place of a stored node's JSON: a segment and a range in it.
#[derive(Debug, Clone)]
pub(crate) struct Source {
    pub(crate) segment: Arc<Segment>,
    pub(crate) span: Span,
}

impl Source {
    /// Copies a node's bytes into a segment of their own.
    pub(crate) fn copied(bytes: &[u8]) -> Self {
        Self {
            segment: Segment::new(Body::new(bytes.to_vec())),
            span: Span::between(0, bytes.len()),
        }
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        self.span.of(self.segment.body.bytes())
    }
}
