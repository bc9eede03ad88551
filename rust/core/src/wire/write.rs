//! Writes the JSON of responses, with the field names that every kube-scheduler reads.

use std::ops::Range;

use crate::node::{Nodes, Rejection, Span};
use crate::plain::plain_prefix;

/// Writes the escaped content of a JSON string, which Go's encoding/json reads as `text`.
fn escape(text: &str, put: &mut impl FnMut(&[u8])) {
    const HEX: &[u8; 16] = b"0123456789abcdef";
    let mut rest = text.as_bytes();
    loop {
        let at = plain_prefix(rest);
        put(&rest[..at]);
        match rest.get(at) {
            None => return,
            Some(&byte @ (b'"' | b'\\')) => put(&[b'\\', byte]),
            Some(&byte) => {
                let digits = [HEX[(byte >> 4) as usize], HEX[(byte & 15) as usize]];
                put(b"\\u00");
                put(&digits);
            }
        }
        rest = &rest[at + 1..];
    }
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

/// Writes the response to a prioritize request, such as `[{"Host":"n1","Score":7}]`.
pub(crate) fn host_priorities(scores: &[i64], hosts: Hosts<'_>) -> Vec<u8> {
    let mut out = Vec::with_capacity(2 + 96 * scores.len());
    out.push(b'[');
    for (at, &score) in scores.iter().enumerate() {
        separate(&mut out, at > 0);
        out.extend_from_slice(br#"{"Host":"#);
        hosts.write(at, &mut |bytes| out.extend_from_slice(bytes));
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

/// Returns for each node whether it is kept, or the number of the first rejection that has it.
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

/// An `ExtenderFilterResult` that is ready to be written. The length is known before, so that every
/// byte is copied once, to memory of the right size.
#[derive(Debug)]
pub struct FilterResult<'a> {
    body: &'a [u8],
    nodes: Answered<'a>,
    hosts: Hosts<'a>,
    /// The kept nodes as ranges of the request's body, which are written with commas between them.
    kept: Vec<Range<usize>>,
    verdicts: Vec<u16>,
    reasons: Vec<Reason>,
}

/// The JSON that is written behind the name of each node of a rejection.
#[derive(Debug)]
struct Reason {
    unresolvable: bool,
    /// The reason as JSON with the colon before it: `:"the reason"`.
    written: Vec<u8>,
}

/// The range for a null in a list of names, which is written as an empty string.
const EMPTY_NAME: Range<usize> = 0..0;

impl<'a> FilterResult<'a> {
    /// `{"Nodes":…,"NodeNames":…,"FailedNodes":…,"FailedAndUnresolvableNodes":…,"Error":""}`
    pub(crate) fn new(
        body: &'a [u8],
        nodes: Answered<'a>,
        rejections: &[Rejection],
        hosts: Hosts<'a>,
    ) -> Self {
        let verdicts = verdicts(nodes.spans().len(), rejections);
        Self {
            body,
            nodes,
            hosts,
            kept: kept_ranges(body, nodes, &verdicts),
            verdicts,
            reasons: rejections.iter().map(Reason::of).collect(),
        }
    }

    /// Leaves out the rejected nodes, which kube-scheduler reads only if no node is kept, or if a
    /// later extender filters as well.
    #[must_use]
    pub fn kept_only(mut self) -> Self {
        self.reasons.clear();
        self
    }

    /// The length of the response in bytes.
    pub fn size(&self) -> usize {
        let mut size = 0;
        self.write_to(|bytes| size += bytes.len());
        size
    }

    /// Writes the response, [`size`](Self::size) bytes, by calls of `put`, piece by piece.
    pub fn write_to(&self, mut put: impl FnMut(&[u8])) {
        let (open, close): (&[u8], &[u8]) = match self.nodes {
            Answered::Neither => (br#"{"Nodes":null,"NodeNames":null"#, b""),
            Answered::Names(_) => (br#"{"Nodes":null,"NodeNames":["#, b"]"),
            Answered::Nodes(_) => (
                br#"{"Nodes":{"metadata":{},"items":["#,
                br#"]},"NodeNames":null"#,
            ),
        };
        put(open);
        for (number, range) in self.kept.iter().enumerate() {
            if number > 0 {
                put(b",");
            }
            put(piece(self.body, range.clone()));
        }
        put(close);
        put(br#","FailedNodes":"#);
        self.write_failed(false, &mut put);
        put(br#","FailedAndUnresolvableNodes":"#);
        self.write_failed(true, &mut put);
        put(br#","Error":""}"#);
    }

    fn write_failed(&self, unresolvable: bool, put: &mut impl FnMut(&[u8])) {
        let mut before: &[u8] = b"{";
        for (at, &verdict) in self.verdicts.iter().enumerate() {
            let Some(reason) = self.reasons.get(verdict as usize) else {
                continue;
            };
            if reason.unresolvable == unresolvable {
                put(before);
                before = b",";
                self.hosts.write(at, put);
                put(&reason.written);
            }
        }
        put(if before == b"{" { b"null" } else { b"}" });
    }

    /// Returns the response as a vector.
    pub fn to_vec(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(self.size());
        self.write_to(|bytes| out.extend_from_slice(bytes));
        out
    }
}

impl Reason {
    fn of(rejection: &Rejection) -> Self {
        let mut written = vec![b':'];
        string(&mut written, &rejection.reason);
        Self {
            unresolvable: rejection.unresolvable,
            written,
        }
    }
}

fn piece(body: &[u8], range: Range<usize>) -> &[u8] {
    if range == EMPTY_NAME {
        return br#""""#;
    }
    &body[range]
}

/// The names of a request's nodes, for the response.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Hosts<'a> {
    /// The names as ranges of the request's body.
    Raw(&'a [u8], &'a [Span]),
    /// The names of the parsed nodes.
    Named(&'a Nodes),
    /// The request had no nodes at all.
    None,
}

impl Hosts<'_> {
    /// Writes one name with its quotes.
    fn write(&self, at: usize, put: &mut impl FnMut(&[u8])) {
        match self {
            Self::Raw(body, spans) => put(piece(body, quoted(spans[at]))),
            Self::Named(nodes) => name(nodes, at, put),
            Self::None => put(br#""""#),
        }
    }
}

/// Returns the range of a name with its quotes; `span` is the range without the quotes.
fn quoted(span: Span) -> Range<usize> {
    if span == Span::default() {
        return EMPTY_NAME;
    }
    span.start() - 1..span.end() + 1
}

/// The ranges of the request's body that hold its nodes.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Answered<'a> {
    /// The request had no nodes at all.
    Neither,
    /// The range of each name, without its quotes.
    Names(&'a [Span]),
    /// The range of each node's object.
    Nodes(&'a [Span]),
}

impl<'a> Answered<'a> {
    fn spans(self) -> &'a [Span] {
        match self {
            Self::Neither => &[],
            Self::Names(spans) | Self::Nodes(spans) => spans,
        }
    }

    /// Returns the range that the response repeats for a node: an object, or a name with quotes.
    fn range(self, span: Span) -> Range<usize> {
        match self {
            Self::Names(_) => quoted(span),
            _ => span.start()..span.end(),
        }
    }
}

/// Returns the ranges of the kept nodes in order; adjacent nodes with only a comma between them are
/// one range.
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

/// Writes the names of nodes as a JSON list, in order, by calls of `put`, piece by piece.
pub fn write_names(nodes: &Nodes, mut put: impl FnMut(&[u8])) {
    put(b"[");
    for at in 0..nodes.len() {
        put(if at == 0 { b"" } else { b"," });
        name(nodes, at, &mut put);
    }
    put(b"]");
}

/// Writes the name of a node with its quotes.
fn name(nodes: &Nodes, at: usize, put: &mut impl FnMut(&[u8])) {
    put(b"\"");
    if let Some(ended) = nodes.plain_name(at) {
        put(ended);
        return;
    }
    escape(nodes.name(at), put);
    put(b"\"");
}

/// Appends a JSON string with its quotes.
pub(crate) fn string(out: &mut Vec<u8>, text: &str) {
    out.push(b'"');
    escape(text, &mut |bytes| out.extend_from_slice(bytes));
    out.push(b'"');
}
