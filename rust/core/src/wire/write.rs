//! Answers, written once, in the field names that every kube-scheduler reads.

use super::args::Rejection;
use crate::node::Span;

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

/// `{"Nodes":…,"NodeNames":…,"FailedNodes":…,"FailedAndUnresolvableNodes":…,"Error":""}`
pub(crate) fn filter_result<'a>(
    body: &[u8],
    spans: &[Span],
    names_mode: bool,
    any_nodes: bool,
    rejections: &[Rejection],
    host: &dyn Fn(usize) -> JsonString<'a>,
) -> Vec<u8> {
    let verdicts = verdicts(spans.len(), rejections);
    let mut out = Vec::with_capacity(answer_size(spans, &verdicts, rejections));
    match (any_nodes, names_mode) {
        (false, _) => out.extend_from_slice(br#"{"Nodes":null,"NodeNames":null"#),
        (true, true) => {
            out.extend_from_slice(br#"{"Nodes":null,"NodeNames":["#);
            kept_spans(&mut out, body, spans, &verdicts, 1);
            out.push(b']');
        }
        (true, false) => {
            out.extend_from_slice(br#"{"Nodes":{"metadata":{},"items":["#);
            kept_spans(&mut out, body, spans, &verdicts, 0);
            out.extend_from_slice(br#"]},"NodeNames":null"#);
        }
    }
    out.extend_from_slice(br#","FailedNodes":"#);
    failed(&mut out, &verdicts, rejections, false, host);
    out.extend_from_slice(br#","FailedAndUnresolvableNodes":"#);
    failed(&mut out, &verdicts, rejections, true, host);
    out.extend_from_slice(br#","Error":""}"#);
    out
}

fn answer_size(spans: &[Span], verdicts: &[u16], rejections: &[Rejection]) -> usize {
    let entry = |(span, &verdict): (&Span, &u16)| match rejections.get(verdict as usize) {
        None => span.len as usize + 3,
        Some(rejection) => rejection.reason.len() + 80,
    };
    128 + spans.iter().zip(verdicts).map(entry).sum::<usize>()
}

/// Copies the kept spans, each with `quotes` bytes on either side.
fn kept_spans(out: &mut Vec<u8>, body: &[u8], spans: &[Span], verdicts: &[u16], quotes: usize) {
    let mut list = CopiedList::new(out, body);
    for (span, _) in spans
        .iter()
        .zip(verdicts)
        .filter(|(_, verdict)| **verdict == KEPT)
    {
        if *span == Span::default() {
            list.push_empty_string();
        } else {
            list.push(span.start() - quotes, span.end() + quotes);
        }
    }
    list.end_run();
}

/// Elements of a list, copied from a body; neighbours one comma apart go in one piece.
struct CopiedList<'a> {
    out: &'a mut Vec<u8>,
    body: &'a [u8],
    run: Option<(usize, usize)>,
    first: bool,
}

impl<'a> CopiedList<'a> {
    fn new(out: &'a mut Vec<u8>, body: &'a [u8]) -> Self {
        Self {
            out,
            body,
            run: None,
            first: true,
        }
    }

    fn push(&mut self, start: usize, end: usize) {
        match &mut self.run {
            Some((_, to)) if *to + 1 == start && self.body[*to] == b',' => *to = end,
            _ => {
                self.end_run();
                self.run = Some((start, end));
            }
        }
    }

    /// A null in a list of names is an empty name, and stands nowhere to be copied from.
    fn push_empty_string(&mut self) {
        self.end_run();
        self.write(br#""""#);
    }

    fn end_run(&mut self) {
        if let Some((start, end)) = self.run.take() {
            self.write(&self.body[start..end]);
        }
    }

    fn write(&mut self, element: &[u8]) {
        separate(self.out, !self.first);
        self.first = false;
        self.out.extend_from_slice(element);
    }
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
