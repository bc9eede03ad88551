//! Answers, written once, in the field names that every kube-scheduler reads.

use std::ops::Range;

use crate::node::{Rejection, Span};

/// A string to be written: as it stood in a request, or as text.
#[derive(Debug, Clone, Copy)]
pub(crate) enum JsonString<'a> {
    /// Bytes that stood between quotes in valid JSON.
    Raw(&'a [u8]),
    Text(&'a str),
}

impl JsonString<'_> {
    fn write(self, out: &mut Vec<u8>) {
        out.push(b'"');
        match self {
            Self::Raw(bytes) => out.extend_from_slice(bytes),
            Self::Text(text) => escape(out, text),
        }
        out.push(b'"');
    }
}

/// Writes text between quotes as Go's encoding/json would be read back.
fn escape(out: &mut Vec<u8>, text: &str) {
    let special = |byte: &u8| *byte < 0x20 || *byte == b'"' || *byte == b'\\';
    let mut rest = text.as_bytes();
    while let Some(at) = rest.iter().position(special) {
        out.extend_from_slice(&rest[..at]);
        match rest[at] {
            byte @ (b'"' | b'\\') => out.extend_from_slice(&[b'\\', byte]),
            byte => {
                const HEX: &[u8; 16] = b"0123456789abcdef";
                out.extend_from_slice(b"\\u00");
                out.push(HEX[(byte >> 4) as usize]);
                out.push(HEX[(byte & 15) as usize]);
            }
        }
        rest = &rest[at + 1..];
    }
    out.extend_from_slice(rest);
}

pub(crate) fn integer(out: &mut Vec<u8>, value: i64) {
    let mut digits = [0u8; 20];
    let mut at = digits.len();
    let mut rest = value.unsigned_abs();
    loop {
        at -= 1;
        digits[at] = b'0' + (rest % 10) as u8;
        rest /= 10;
        if rest == 0 {
            break;
        }
    }
    if value < 0 {
        out.push(b'-');
    }
    out.extend_from_slice(&digits[at..]);
}

/// `[{"Host":"n1","Score":7},…]`
pub(crate) fn host_priorities<'a>(
    scores: &[i64],
    host: impl Fn(usize) -> JsonString<'a>,
) -> Vec<u8> {
    let mut out = Vec::with_capacity(2 + 64 * scores.len());
    out.push(b'[');
    for (at, &score) in scores.iter().enumerate() {
        separate(&mut out, at > 0);
        out.extend_from_slice(br#"{"Host":"#);
        host(at).write(&mut out);
        out.extend_from_slice(br#","Score":"#);
        integer(&mut out, score);
        out.push(b'}');
    }
    out.push(b']');
    out
}

pub(crate) fn separate(out: &mut Vec<u8>, needed: bool) {
    if needed {
        out.push(b',');
    }
}

/// What becomes of each node: kept, or the number of the rejection that names it first.
fn verdicts(len: usize, rejections: &[Rejection]) -> Vec<u16> {
    let mut verdicts = vec![KEPT; len];
    for (number, rejection) in rejections.iter().enumerate().rev() {
        for at in rejection.nodes.indices() {
            verdicts[at] = number as u16;
        }
    }
    verdicts
}

const KEPT: u16 = u16::MAX;

/// An `ExtenderFilterResult` that is decided and not yet copied together: its owner can make room
/// for exactly its length and have the kept nodes copied once.
#[derive(Debug)]
pub struct FilterResult<'a> {
    body: &'a [u8],
    head: &'static [u8],
    /// What is kept, as ranges of the body that a comma goes between.
    kept: Vec<Range<usize>>,
    tail: Vec<u8>,
}

/// The range that stands for an empty string: a null in a list of names stands nowhere.
const EMPTY_NAME: Range<usize> = 0..0;

impl<'a> FilterResult<'a> {
    /// `{"Nodes":…,"NodeNames":…,"FailedNodes":…,"FailedAndUnresolvableNodes":…,"Error":""}`
    pub(crate) fn new<'h>(
        body: &'a [u8],
        nodes: Answered<'_>,
        rejections: &[Rejection],
        host: &dyn Fn(usize) -> JsonString<'h>,
    ) -> Self {
        let verdicts = verdicts(nodes.spans().len(), rejections);
        let (head, close): (&'static [u8], &[u8]) = match nodes {
            Answered::Neither => (br#"{"Nodes":null,"NodeNames":null"#, b""),
            Answered::Names(_) => (br#"{"Nodes":null,"NodeNames":["#, b"]"),
            Answered::Nodes(_) => (
                br#"{"Nodes":{"metadata":{},"items":["#,
                br#"]},"NodeNames":null"#,
            ),
        };
        let mut tail = close.to_vec();
        tail.extend_from_slice(br#","FailedNodes":"#);
        failed(&mut tail, &verdicts, rejections, false, host);
        tail.extend_from_slice(br#","FailedAndUnresolvableNodes":"#);
        failed(&mut tail, &verdicts, rejections, true, host);
        tail.extend_from_slice(br#","Error":""}"#);
        Self {
            body,
            head,
            kept: kept_ranges(body, nodes, &verdicts),
            tail,
        }
    }

    /// How many bytes it is.
    pub fn size(&self) -> usize {
        let pieces: usize = self.kept.iter().map(|range| self.piece(range).len()).sum();
        self.head.len() + pieces + self.kept.len().saturating_sub(1) + self.tail.len()
    }

    /// Hands its [`size`](Self::size) bytes to `put`, piece by piece.
    pub fn write_to(&self, mut put: impl FnMut(&[u8])) {
        put(self.head);
        for (number, range) in self.kept.iter().enumerate() {
            if number > 0 {
                put(b",");
            }
            put(self.piece(range));
        }
        put(&self.tail);
    }

    /// The answer in memory of its own.
    pub fn to_vec(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(self.size());
        self.write_to(|bytes| out.extend_from_slice(bytes));
        out
    }

    fn piece(&self, range: &Range<usize>) -> &[u8] {
        if *range == EMPTY_NAME {
            return br#""""#;
        }
        &self.body[range.clone()]
    }
}

/// What stands in the body for each node of the request.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Answered<'a> {
    /// The request had no nodes at all.
    Neither,
    /// What is between the quotes of each name.
    Names(&'a [Span]),
    /// Each node's object.
    Nodes(&'a [Span]),
}

impl<'a> Answered<'a> {
    fn spans(self) -> &'a [Span] {
        match self {
            Self::Neither => &[],
            Self::Names(spans) | Self::Nodes(spans) => spans,
        }
    }

    /// What goes into the answer for a span: a name goes with its quotes.
    fn range(self, span: Span) -> Range<usize> {
        match self {
            Self::Names(_) if span == Span::default() => EMPTY_NAME,
            Self::Names(_) => span.start() - 1..span.end() + 1,
            _ => span.start()..span.end(),
        }
    }
}

/// The kept nodes in order; neighbours that stand one comma apart go in one piece.
fn kept_ranges(body: &[u8], nodes: Answered<'_>, verdicts: &[u16]) -> Vec<Range<usize>> {
    let mut kept: Vec<Range<usize>> = Vec::new();
    for (span, _) in nodes
        .spans()
        .iter()
        .zip(verdicts)
        .filter(|(_, verdict)| **verdict == KEPT)
    {
        let range = nodes.range(*span);
        match kept.last_mut() {
            Some(last) if last.end + 1 == range.start && body[last.end] == b',' => {
                last.end = range.end;
            }
            _ => kept.push(range),
        }
    }
    kept
}

fn failed<'a>(
    out: &mut Vec<u8>,
    verdicts: &[u16],
    rejections: &[Rejection],
    unresolvable: bool,
    host: &dyn Fn(usize) -> JsonString<'a>,
) {
    let reasons: Vec<Option<Vec<u8>>> = rejections
        .iter()
        .map(|rejection| (rejection.unresolvable == unresolvable).then(|| written(rejection)))
        .collect();
    let start = out.len();
    for (at, &verdict) in verdicts.iter().enumerate() {
        let Some(Some(reason)) = reasons.get(verdict as usize) else {
            continue;
        };
        out.push(if out.len() == start { b'{' } else { b',' });
        host(at).write(out);
        out.extend_from_slice(reason);
    }
    if out.len() == start {
        out.extend_from_slice(b"null");
    } else {
        out.push(b'}');
    }
}

/// `:"the reason"`
fn written(rejection: &Rejection) -> Vec<u8> {
    let mut text = vec![b':'];
    JsonString::Text(&rejection.reason).write(&mut text);
    text
}

/// A whole string with its quotes.
pub(crate) fn string(out: &mut Vec<u8>, text: &str) {
    JsonString::Text(text).write(out);
}
