//! Quotes texts for error messages, as Go's `strconv.Quote` does.

use std::fmt::Write;

/// Returns `text` between double quotes, with unprintable characters escaped.
pub(super) fn quoted(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 2);
    out.push('"');
    text.chars().for_each(|c| push_escaped(&mut out, c));
    out.push('"');
    out
}

fn push_escaped(out: &mut String, c: char) {
    match short_escape(c) {
        Some(letter) => out.extend(['\\', letter]),
        None if is_printable(c) => out.push(c),
        None => push_code_point(out, u32::from(c)),
    }
}

fn short_escape(c: char) -> Option<char> {
    Some(match c {
        '"' | '\\' => c,
        '\x07' => 'a',
        '\x08' => 'b',
        '\x0c' => 'f',
        '\n' => 'n',
        '\r' => 'r',
        '\t' => 't',
        '\x0b' => 'v',
        _ => return None,
    })
}

fn push_code_point(out: &mut String, code: u32) {
    let written = match code {
        0..0x80 => write!(out, "\\x{code:02x}"),
        0x80..0x1_0000 => write!(out, "\\u{code:04x}"),
        _ => write!(out, "\\U{code:08x}"),
    };
    written.expect("writing into a String does not fail");
}

/// Whether Go prints `c` without an escape. Combining marks are printable in Go, but Rust escapes a
/// mark at the start of a text: hence the letter before the mark.
fn is_printable(c: char) -> bool {
    c == '\'' || String::from_iter(['a', c]).escape_debug().nth(1) == Some(c)
}

#[cfg(test)]
mod tests {
    use super::quoted;

    #[test]
    fn text_is_quoted_as_go_quotes_it() {
        for (text, expected) in [
            ("", r#""""#),
            ("plain", r#""plain""#),
            ("it's", r#""it's""#),
            ("a\"b\\c", r#""a\"b\\c""#),
            ("\x07\x08\x0c\n\r\t\x0b", r#""\a\b\f\n\r\t\v""#),
            ("\x01\x1b\x7f", r#""\x01\x1b\x7f""#),
            ("é\u{301}", "\"é\u{301}\""),
            ("\u{301}", "\"\u{301}\""),
            ("\u{a0}\u{200b}", r#""\u00a0\u200b""#),
            ("\u{e0001}", r#""\U000e0001""#),
        ] {
            assert_eq!(quoted(text), expected);
        }
    }
}
