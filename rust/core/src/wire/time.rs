//! Parses a `metav1.Time`, and keeps its text.

use std::borrow::Cow;

use super::cursor::{Cursor, Result};
use super::decode::Decode;
use super::error::{Problem, WireError};

/// A time in a format that Go's `time.RFC3339` accepts; empty if absent or null.
#[derive(Debug, Default, Clone)]
pub(crate) struct WireTime<'a>(pub(crate) Cow<'a, str>);

impl<'a> Decode<'a> for WireTime<'a> {
    fn decode(&mut self, cursor: &mut Cursor<'a>) -> Result<()> {
        cursor.peek();
        let start = cursor.pos();
        // Unlike with a string, a null makes an earlier time empty.
        self.0 = cursor.string()?.unwrap_or_default();
        if cursor.bytes()[start] == b'"' && !is_rfc3339(self.0.as_bytes()) {
            return Err(WireError::new(start, Problem::NotATime));
        }
        cursor.charge(self.0.len())
    }
}

/// Whether Go's `time.Parse(time.RFC3339, text)` accepts the text: an hour may have one digit, a
/// comma may precede the fraction, an offset may reach 24:60.
fn is_rfc3339(text: &[u8]) -> bool {
    shape(text).is_some_and(<[u8]>::is_empty)
}

/// Returns the bytes behind the time at the start of `text`; None if `text` starts with no time.
fn shape(text: &[u8]) -> Option<&[u8]> {
    let (century, rest) = two_digits(text)?;
    let (year, rest) = two_digits(rest)?;
    let (month, rest) = two_digits(rest.strip_prefix(b"-")?)?;
    let (day, rest) = two_digits(rest.strip_prefix(b"-")?)?;
    let rest = rest.strip_prefix(b"T")?;
    let (hour, rest) = two_digits(rest).or_else(|| one_digit(rest))?;
    let (minute, rest) = two_digits(rest.strip_prefix(b":")?)?;
    let (second, rest) = two_digits(rest.strip_prefix(b":")?)?;
    let known_date = (1..=days(century * 100 + year, month)).contains(&day);
    if !known_date || hour > 23 || minute > 59 || second > 59 {
        return None;
    }
    offset(after_fraction(rest))
}

fn offset(text: &[u8]) -> Option<&[u8]> {
    match text {
        [b'Z', rest @ ..] => Some(rest),
        [b'+' | b'-', rest @ ..] => {
            let (hours, rest) = two_digits(rest)?;
            let (minutes, rest) = two_digits(rest.strip_prefix(b":")?)?;
            (hours <= 24 && minutes <= 60).then_some(rest)
        }
        _ => None,
    }
}

fn after_fraction(text: &[u8]) -> &[u8] {
    match text {
        [b'.' | b',', b'0'..=b'9', rest @ ..] => {
            let digits = rest.iter().take_while(|byte| byte.is_ascii_digit());
            &rest[digits.count()..]
        }
        _ => text,
    }
}

fn one_digit(text: &[u8]) -> Option<(u32, &[u8])> {
    match text {
        [digit @ b'0'..=b'9', rest @ ..] => Some((u32::from(digit - b'0'), rest)),
        _ => None,
    }
}

fn two_digits(text: &[u8]) -> Option<(u32, &[u8])> {
    let (tens, rest) = one_digit(text)?;
    let (ones, rest) = one_digit(rest)?;
    Some((tens * 10 + ones, rest))
}

/// Returns how many days a month has; 0 if there is no such month.
fn days(year: u32, month: u32) -> u32 {
    let leap = year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400));
    match month {
        2 => 28 + u32::from(leap),
        4 | 6 | 9 | 11 => 30,
        1..=12 => 31,
        _ => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::is_rfc3339;
    use crate::oracle::{list, text};

    #[test]
    fn go_and_we_take_the_same_texts_for_times() {
        for case in list("pod_requests", "times") {
            assert_eq!(
                case["valid"],
                is_rfc3339(text(&case["text"]).as_bytes()),
                "{case}"
            );
        }
    }
}
