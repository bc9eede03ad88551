//! `Cursor`: a position in a JSON body, with methods that parse or skip the next value.
//!
//! Every byte is read once; skipped values are checked as well. No function is recursive, so no
//! body can exhaust the stack.

use std::borrow::Cow;

use super::error::{Found, Problem, Step, WireError};
use crate::node::{Parts, Span};
use crate::plain::plain_prefix;

/// How deep objects and lists may be nested. Go's encoding/json stops at 10,000; a Node or a Pod
/// never comes near 128.
pub const MAX_DEPTH: u32 = 128;

/// The bytes of memory that any parsed body may take; a longer body may take more, by its length.
///
/// Without a limit, three bytes of a body, `{},` in a list, would become hundreds in memory.
/// Requests of kube-scheduler take less: names less than three times their length, pods and nodes
/// less than twice, and small nodes with their details about three times.
const FREE_BYTES: usize = 1 << 20;
const BYTES_FOR_ONE: usize = 4;

pub(crate) type Result<T> = std::result::Result<T, WireError>;

#[derive(Debug)]
pub(crate) struct Cursor<'a> {
    bytes: &'a [u8],
    pos: usize,
    depth: u32,
    utf8_checked: usize,
    /// How many bytes of memory the rest of the body may take once it is parsed.
    budget: usize,
    /// How many bytes of the memory charged so far lists take only until they are converted.
    temporary: usize,
    /// The optional parts of nodes and pods to decode; all other parts are skipped.
    parts: Parts,
}

impl<'a> Cursor<'a> {
    /// Starts at the beginning of a request's body, and limits the memory that the parsed body may
    /// take, because any client may send a request.
    ///
    /// # Errors
    /// The body is longer than positions can name.
    pub(crate) fn new(bytes: &'a [u8]) -> Result<Self> {
        let budget = bytes.len().saturating_mul(BYTES_FOR_ONE);
        Self::with_budget(bytes, budget.saturating_add(FREE_BYTES))
    }

    /// Starts at the beginning of a response of kube-apiserver, without a limit on memory: with a
    /// limit, a user could make a whole list unreadable by one object. kube-apiserver limits the
    /// size of each object.
    ///
    /// # Errors
    /// The body is longer than positions can name.
    pub(crate) fn watched(bytes: &'a [u8]) -> Result<Self> {
        Self::with_budget(bytes, usize::MAX)
    }

    fn with_budget(bytes: &'a [u8], budget: usize) -> Result<Self> {
        // Spans and offsets have 32 bits.
        refuse_longer(bytes, u32::MAX as usize)?;
        Ok(Self {
            bytes,
            pos: 0,
            depth: 0,
            utf8_checked: 0,
            budget,
            temporary: 0,
            parts: Parts::default(),
        })
    }

    /// Returns the cursor, which decodes these optional parts of nodes and pods too.
    pub(crate) fn with_parts(self, parts: Parts) -> Self {
        Self { parts, ..self }
    }

    pub(crate) fn parts(&self) -> Parts {
        self.parts
    }

    /// Charges the memory of a text or an element to the budget, before the memory is allocated.
    ///
    /// # Errors
    /// All texts and elements together take more memory than a body of this length may.
    pub(crate) fn charge(&mut self, bytes: usize) -> Result<()> {
        match self.budget.checked_sub(bytes) {
            Some(left) => {
                self.budget = left;
                Ok(())
            }
            None => self.fail(Problem::TooDense),
        }
    }

    /// Charges the memory of a list's elements to the budget twice: for the decoded elements, and
    /// for those of about the same size to which they are converted. Both exist for a while.
    ///
    /// # Errors
    /// The rest of the body would take more memory than the budget has left.
    pub(crate) fn charge_list(&mut self, bytes: usize) -> Result<()> {
        self.charge(2 * bytes)?;
        self.temporary += bytes;
        Ok(())
    }

    /// How many bytes of the memory charged so far decoded lists take, which end once they are
    /// converted.
    pub(crate) fn temporary(&self) -> usize {
        self.temporary
    }

    /// Gives the memory of the lists back to the budget that were decoded since `temporary`
    /// returned `before`, and that are converted now.
    pub(crate) fn give_back(&mut self, before: usize) {
        self.budget += self.temporary - before;
        self.temporary = before;
    }

    pub(crate) fn pos(&self) -> usize {
        self.pos
    }

    pub(crate) fn rest(&self) -> &'a [u8] {
        &self.bytes[self.pos..]
    }

    pub(crate) fn bytes(&self) -> &'a [u8] {
        self.bytes
    }

    pub(crate) fn fail<T>(&self, problem: Problem) -> Result<T> {
        Err(WireError::new(self.pos, problem))
    }

    fn found(&self) -> Found {
        self.bytes
            .get(self.pos)
            .map_or(Found::End, |&byte| Found::Byte(byte))
    }

    pub(crate) fn wrong_type<T>(&self, expected: &'static str) -> Result<T> {
        match self.found() {
            Found::End => self.fail(Problem::Truncated),
            found @ Found::Byte(_) => self.fail(Problem::WrongType { expected, found }),
        }
    }

    fn unexpected<T>(&self) -> Result<T> {
        match self.found() {
            Found::End => self.fail(Problem::Truncated),
            found @ Found::Byte(_) => self.fail(Problem::Unexpected(found)),
        }
    }

    fn skip_white_space(&mut self) {
        while let Some(b' ' | b'\n' | b'\t' | b'\r') = self.bytes.get(self.pos) {
            self.pos += 1;
        }
    }

    /// Skips white space, and returns the next byte without taking it.
    pub(crate) fn peek(&mut self) -> Option<u8> {
        self.skip_white_space();
        self.bytes.get(self.pos).copied()
    }

    fn expect(&mut self, byte: u8) -> Result<()> {
        if self.peek() == Some(byte) {
            self.pos += 1;
            return Ok(());
        }
        self.unexpected()
    }

    /// Moves over `null` and returns true if the next value is `null`.
    pub(crate) fn null(&mut self) -> Result<bool> {
        if self.peek() == Some(b'n') {
            self.literal(b"null")?;
            return Ok(true);
        }
        Ok(false)
    }

    /// Moves over `len` bytes that are known to be a whole, valid value.
    pub(crate) fn pass_known(&mut self, len: usize) -> Result<()> {
        self.check_utf8_up_to(self.pos)?;
        self.pos += len;
        self.utf8_checked = self.pos;
        Ok(())
    }

    /// Moves over the next string if the bytes behind its opening quote begin with `ended`, which
    /// includes the closing quote; else returns false.
    pub(crate) fn pass_string(&mut self, ended: &[u8]) -> bool {
        let here = &self.bytes[self.pos..];
        let stands_here = here
            .strip_prefix(b"\"")
            .is_some_and(|rest| rest.starts_with(ended));
        if stands_here {
            self.pos += 1 + ended.len();
        }
        stands_here
    }

    /// Checks that the bytes moved over since the last check are UTF-8, while they are in the CPU's
    /// cache.
    pub(crate) fn check_passed_utf8(&mut self) -> Result<()> {
        self.check_utf8_up_to(self.pos)
    }

    /// Checks that only white space is left in the body, and that the whole body is UTF-8.
    pub(crate) fn finish(&mut self) -> Result<()> {
        if self.peek().is_some() {
            return self.fail(Problem::TrailingData);
        }
        self.check_utf8_up_to(self.bytes.len())
    }

    fn check_utf8_up_to(&mut self, end: usize) -> Result<()> {
        let from = self.utf8_checked;
        if let Err(error) = simdutf8::compat::from_utf8(&self.bytes[from..end]) {
            return Err(WireError::new(from + error.valid_up_to(), Problem::NotUtf8));
        }
        self.utf8_checked = end;
        Ok(())
    }

    fn enter(&mut self) -> Result<()> {
        self.depth += 1;
        if self.depth > MAX_DEPTH {
            return self.fail(Problem::TooDeep(MAX_DEPTH));
        }
        self.pos += 1;
        Ok(())
    }

    fn leave(&mut self) {
        self.depth -= 1;
        self.pos += 1;
    }

    /// Parses an object: calls `field` with every key; `field` must move over the key's value.
    ///
    /// False if the value is `null`.
    pub(crate) fn object(
        &mut self,
        mut field: impl FnMut(&mut Self, Cow<'a, str>) -> Result<()>,
    ) -> Result<bool> {
        match self.peek() {
            Some(b'{') => self.enter()?,
            Some(b'n') => return self.null().map(|_| false),
            _ => return self.wrong_type("an object"),
        }
        if self.peek() == Some(b'}') {
            self.leave();
            return Ok(true);
        }
        loop {
            if self.peek() != Some(b'"') {
                return self.unexpected();
            }
            let key = self.string_here()?;
            self.expect(b':')?;
            field(self, key)?;
            match self.peek() {
                Some(b',') => self.pos += 1,
                Some(b'}') => {
                    self.leave();
                    return Ok(true);
                }
                _ => return self.unexpected(),
            }
        }
    }

    /// Parses a list: calls `element` with the index of each element; `element` must move over it.
    ///
    /// False if the value is `null`.
    pub(crate) fn list(
        &mut self,
        mut element: impl FnMut(&mut Self, usize) -> Result<()>,
    ) -> Result<bool> {
        match self.peek() {
            Some(b'[') => self.enter()?,
            Some(b'n') => return self.null().map(|_| false),
            _ => return self.wrong_type("a list"),
        }
        if self.peek() == Some(b']') {
            self.leave();
            return Ok(true);
        }
        for index in 0.. {
            self.skip_white_space();
            element(self, index).map_err(|error| error.inside(Step::Index(index)))?;
            match self.peek() {
                Some(b',') => self.pos += 1,
                Some(b']') => {
                    self.leave();
                    break;
                }
                _ => return self.unexpected(),
            }
        }
        Ok(true)
    }

    /// Parses a string; None for `null`.
    pub(crate) fn string(&mut self) -> Result<Option<Cow<'a, str>>> {
        match self.peek() {
            Some(b'"') => self.string_here().map(Some),
            Some(b'n') => self.null().map(|_| None),
            _ => self.wrong_type("a string"),
        }
    }

    /// Returns the place of a string with its escapes not decoded; None for `null`.
    pub(crate) fn raw_string(&mut self) -> Result<Option<RawString>> {
        match self.peek() {
            Some(b'"') => self.raw_string_here().map(Some),
            Some(b'n') => self.null().map(|_| None),
            _ => self.wrong_type("a string"),
        }
    }

    fn raw_string_here(&mut self) -> Result<RawString> {
        let start = self.pos + 1;
        let escaped = self.skip_string()?;
        Ok(RawString {
            span: Span::between(start, self.pos - 1),
            escaped,
        })
    }

    /// Decodes the escapes of a string of this body.
    pub(crate) fn text(&self, raw: RawString) -> Result<Cow<'a, str>> {
        let text = std::str::from_utf8(raw.span.of(self.bytes)).map_err(|error| {
            WireError::new(raw.span.start() + error.valid_up_to(), Problem::NotUtf8)
        })?;
        Ok(if raw.escaped {
            Cow::Owned(unescape(text))
        } else {
            Cow::Borrowed(text)
        })
    }

    fn string_here(&mut self) -> Result<Cow<'a, str>> {
        let raw = self.raw_string_here()?;
        self.text(raw)
    }

    /// Moves over a string; returns true if the string has an escape.
    fn skip_string(&mut self) -> Result<bool> {
        self.pos += 1;
        let mut escaped = false;
        loop {
            self.pos += plain_prefix(&self.bytes[self.pos..]);
            match self.bytes.get(self.pos) {
                Some(b'"') => {
                    self.pos += 1;
                    return Ok(escaped);
                }
                Some(b'\\') => {
                    escaped = true;
                    self.skip_escape()?;
                }
                _ => return self.unexpected(),
            }
        }
    }

    fn skip_escape(&mut self) -> Result<()> {
        self.pos += 1;
        match self.bytes.get(self.pos) {
            Some(b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't') => self.pos += 1,
            Some(b'u') => {
                self.pos += 1;
                for _ in 0..4 {
                    match self.bytes.get(self.pos) {
                        Some(byte) if byte.is_ascii_hexdigit() => self.pos += 1,
                        _ => return self.unexpected(),
                    }
                }
            }
            _ => return self.unexpected(),
        }
        Ok(())
    }

    pub(crate) fn boolean(&mut self) -> Result<Option<bool>> {
        match self.peek() {
            Some(b't') => self.literal(b"true").map(|()| Some(true)),
            Some(b'f') => self.literal(b"false").map(|()| Some(false)),
            Some(b'n') => self.null().map(|_| None),
            _ => self.wrong_type("a boolean"),
        }
    }

    /// Parses an integer as Go does: no fraction, no exponent, within `T`; None for `null`.
    pub(crate) fn integer<T: TryFrom<i64>>(&mut self) -> Result<Option<T>> {
        match self.peek() {
            Some(b'-' | b'0'..=b'9') => {}
            Some(b'n') => return self.null().map(|_| None),
            _ => return self.wrong_type("an integer"),
        }
        let start = self.pos;
        self.skip_number()?;
        std::str::from_utf8(&self.bytes[start..self.pos])
            .ok()
            .and_then(|text| text.parse::<i64>().ok())
            .and_then(|wide| T::try_from(wide).ok())
            .map(Some)
            .ok_or_else(|| {
                let bits = u32::try_from(8 * size_of::<T>()).unwrap_or(u32::MAX);
                WireError::new(start, Problem::NotAnInteger(bits))
            })
    }

    fn literal(&mut self, word: &'static [u8]) -> Result<()> {
        for &byte in word {
            if self.bytes.get(self.pos) != Some(&byte) {
                return self.unexpected();
            }
            self.pos += 1;
        }
        Ok(())
    }

    fn digits(&mut self) -> Result<()> {
        let start = self.pos;
        while let Some(b'0'..=b'9') = self.bytes.get(self.pos) {
            self.pos += 1;
        }
        if self.pos == start {
            return self.unexpected();
        }
        Ok(())
    }

    fn skip_number(&mut self) -> Result<()> {
        if self.bytes.get(self.pos) == Some(&b'-') {
            self.pos += 1;
        }
        if self.bytes.get(self.pos) == Some(&b'0') {
            self.pos += 1;
        } else {
            self.digits()?;
        }
        if self.bytes.get(self.pos) == Some(&b'.') {
            self.pos += 1;
            self.digits()?;
        }
        if let Some(b'e' | b'E') = self.bytes.get(self.pos) {
            self.pos += 1;
            if let Some(b'+' | b'-') = self.bytes.get(self.pos) {
                self.pos += 1;
            }
            self.digits()?;
        }
        Ok(())
    }

    /// Moves over one value of any kind.
    pub(crate) fn skip_value(&mut self) -> Result<()> {
        let outside = self.depth;
        // One bit for each level of nesting, the innermost lowest: 1 for an object, 0 for a list.
        let mut objects: u128 = 0;
        loop {
            match self.peek() {
                Some(b'"') => {
                    self.skip_string()?;
                }
                Some(b'{') => {
                    self.enter()?;
                    if self.peek() != Some(b'}') {
                        objects = objects << 1 | 1;
                        self.skip_key()?;
                        continue;
                    }
                    self.leave();
                }
                Some(b'[') => {
                    self.enter()?;
                    if self.peek() != Some(b']') {
                        objects <<= 1;
                        continue;
                    }
                    self.leave();
                }
                Some(b'-' | b'0'..=b'9') => self.skip_number()?,
                Some(b't') => self.literal(b"true")?,
                Some(b'f') => self.literal(b"false")?,
                Some(b'n') => self.literal(b"null")?,
                _ => return self.unexpected(),
            }
            loop {
                if self.depth == outside {
                    return Ok(());
                }
                let in_object = objects & 1 == 1;
                match self.peek() {
                    Some(b',') => {
                        self.pos += 1;
                        if in_object {
                            self.skip_key()?;
                        }
                        break;
                    }
                    Some(b'}') if in_object => {}
                    Some(b']') if !in_object => {}
                    _ => return self.unexpected(),
                }
                self.leave();
                objects >>= 1;
            }
        }
    }

    fn skip_key(&mut self) -> Result<()> {
        if self.peek() != Some(b'"') {
            return self.unexpected();
        }
        self.skip_string()?;
        self.expect(b':')
    }
}

/// Returns an error if a body is longer than `most` bytes.
pub(crate) fn refuse_longer(bytes: &[u8], most: usize) -> Result<()> {
    if bytes.len() > most {
        return Err(WireError::new(most, Problem::LongerThan(most)));
    }
    Ok(())
}

/// The place of a string in a body, whose escapes are not decoded; the default is the empty string.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct RawString {
    /// The range between the quotes of the string.
    pub(crate) span: Span,
    pub(crate) escaped: bool,
}

/// Decodes the escapes of a string, which must be well formed.
///
/// A surrogate without its other half becomes U+FFFD, as Go's encoding/json reads it.
fn unescape(raw: &str) -> String {
    let mut text = String::with_capacity(raw.len());
    let mut rest = raw;
    while let Some(at) = memchr::memchr(b'\\', rest.as_bytes()) {
        text.push_str(&rest[..at]);
        let (decoded, used) = unescape_one(&rest[at + 1..]);
        text.push(decoded);
        rest = &rest[at + 1 + used..];
    }
    text.push_str(rest);
    text
}

/// Decodes one escape; `rest` begins behind its backslash. Returns the character and the length.
fn unescape_one(rest: &str) -> (char, usize) {
    match rest.as_bytes()[0] {
        b'b' => ('\u{8}', 1),
        b'f' => ('\u{c}', 1),
        b'n' => ('\n', 1),
        b'r' => ('\r', 1),
        b't' => ('\t', 1),
        b'u' => unescape_unicode(rest),
        other => (other as char, 1),
    }
}

fn unescape_unicode(rest: &str) -> (char, usize) {
    let hex = |at: usize| {
        rest.get(at..at + 4)
            .and_then(|digits| u32::from_str_radix(digits, 16).ok())
    };
    let first = hex(1).expect("four hexadecimal digits, checked when it was scanned");
    if let Some(plain) = char::from_u32(first) {
        return (plain, 5);
    }
    let second = rest
        .get(5..7)
        .filter(|&mark| mark == "\\u")
        .and_then(|_| hex(7));
    match (first, second) {
        (0xd800..0xdc00, Some(low @ 0xdc00..0xe000)) => {
            let code = 0x1_0000 + ((first - 0xd800) << 10) + (low - 0xdc00);
            (char::from_u32(code).unwrap_or('\u{fffd}'), 11)
        }
        _ => ('\u{fffd}', 5),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn skip(body: &[u8]) -> Result<()> {
        let mut cursor = Cursor::new(body).expect("short");
        cursor.skip_value()?;
        cursor.finish()
    }

    #[test]
    fn skipping_accepts_exactly_what_serde_json_accepts_up_to_the_depth_limit() {
        let cases: [&[u8]; 24] = [
            b"{}",
            b"[]",
            b"[1,]",
            b"{\"a\":}",
            b"{\"a\" 1}",
            b"{\"a\":1,}",
            b"[1 2]",
            b"01",
            b"-",
            b"-0",
            b"1.",
            b"1e+",
            b"1e5",
            b"\"\\x\"",
            b"\"\\u12g4\"",
            b"\"a\tb\"",
            b"tru",
            b"nul",
            b" [ { \"a\" : [ null , true ] } ] ",
            b"[}",
            b"{]",
            b"\"unfinished",
            b"",
            b"\xef\xbb\xbf{}",
        ];
        for case in cases {
            let ours = skip(case).is_ok();
            let theirs = serde_json::from_slice::<serde::de::IgnoredAny>(case).is_ok();
            assert_eq!(ours, theirs, "{}", String::from_utf8_lossy(case));
        }
    }

    #[test]
    fn the_memory_of_a_converted_list_is_given_back_once() {
        let mut cursor = Cursor::with_budget(b"", 100).expect("short");
        cursor.charge_list(10).expect("there is room");
        let inner = cursor.temporary();
        cursor.charge_list(20).expect("there is room");
        cursor.give_back(inner);
        assert_eq!((cursor.budget, cursor.temporary()), (60, 10));
        cursor.give_back(0);
        assert_eq!((cursor.budget, cursor.temporary()), (70, 0));
    }

    #[test]
    fn depth_is_limited_and_never_recurses() {
        let nested = |open: &str, close: &str, times: usize| {
            let mut body = open.repeat(times);
            body.push('1');
            body.push_str(&close.repeat(times));
            body.into_bytes()
        };
        for (open, close, times) in [("[", "]", 128), ("{\"\":", "}", 128), ("[{\"\":", "}]", 64)] {
            assert_eq!(skip(&nested(open, close, times)), Ok(()), "{open}");
        }
        for body in [nested("[", "]", 129), nested("[{\"\":", "}]", 50_000)] {
            let error = skip(&body).expect_err("too deep");
            assert_eq!(error.problem(), &Problem::TooDeep(MAX_DEPTH));
        }
    }

    #[test]
    fn escapes_become_the_text_that_go_reads() {
        let cases = [
            (r#""\u00e9\ud83d\ude00""#, "é😀"),
            (r#""\ud800\udc00\udbff\udfff""#, "\u{10000}\u{10ffff}"),
            (r#""\ud83d""#, "\u{fffd}"),
            (r#""\ud83d\u0041""#, "\u{fffd}A"),
            (r#""\ude00\ud83d""#, "\u{fffd}\u{fffd}"),
            (r#""\u003c\/\"\\\b\f\n\r\t""#, "</\"\\\u{8}\u{c}\n\r\t"),
        ];
        for (body, expected) in cases {
            let text = Cursor::new(body.as_bytes())
                .expect("short")
                .string()
                .expect("valid");
            assert_eq!(text.as_deref(), Some(expected));
        }
    }

    #[test]
    fn integers_are_literal_and_within_their_width() {
        let read = |body: &str| {
            Cursor::new(body.as_bytes())
                .expect("short")
                .integer::<i32>()
        };
        assert_eq!(read("-2147483648").expect("fits"), Some(i32::MIN));
        assert_eq!(read("null").expect("null"), None);
        for body in ["2147483648", "3.0", "1e1", "\"3\"", "true"] {
            assert!(read(body).is_err(), "{body}");
        }
    }

    proptest::proptest! {
        #[test]
        fn skipping_agrees_with_serde_json_on_mangled_json(
            mut body in proptest::collection::vec(
                proptest::sample::select(b"{}[]\",:\\ u0123456789abtrfalsenul.-+eE\n".to_vec()), 0..24),
            prefix in proptest::sample::select(vec!["", "[", "{\"a\":", "[{\"b\":[", "\""]),
        ) {
            let mut whole = prefix.as_bytes().to_vec();
            whole.append(&mut body);
            let theirs = serde_json::from_slice::<serde::de::IgnoredAny>(&whole).is_ok();
            proptest::prop_assert_eq!(skip(&whole).is_ok(), theirs);
        }
    }
}
