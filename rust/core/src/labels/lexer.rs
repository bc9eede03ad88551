//! Splits the text of a label selector into tokens.
//!
//! Source: apimachinery v0.36 pkg/labels/selector.go `Lexer`

/// The kinds of token in a label selector.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Token {
    End,
    Open,
    Close,
    Comma,
    Not,
    Equals,
    DoubleEquals,
    NotEquals,
    GreaterThan,
    LessThan,
    In,
    NotIn,
    Identifier,
}

/// A token of a label selector, and its text; the text of the token `End` is empty.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Scanned<'a> {
    pub(super) token: Token,
    pub(super) text: &'a str,
}

/// Returns all tokens of `text`; only the last token is `End`.
pub(super) fn scan(text: &str) -> Vec<Scanned<'_>> {
    let mut tokens = Vec::new();
    let mut rest = text;
    loop {
        rest = rest.trim_start_matches(is_space);
        let scanned = first(rest);
        tokens.push(scanned);
        if scanned.token == Token::End {
            return tokens;
        }
        rest = &rest[scanned.text.len()..];
        // Go reads a NUL as the end of the token that it follows, and swallows it.
        rest = rest.strip_prefix('\0').unwrap_or(rest);
    }
}

/// Returns the first token of `text`, which must not start with a space.
fn first(text: &str) -> Scanned<'_> {
    let (token, length) = match text.as_bytes() {
        // A NUL where a token could start ends the text, whatever follows.
        [] | [0, ..] => (Token::End, 0),
        [b'=', b'=', ..] => (Token::DoubleEquals, 2),
        [b'!', b'=', ..] => (Token::NotEquals, 2),
        [byte, ..] => match special(*byte) {
            Some(token) => (token, 1),
            None => word(text),
        },
    };
    Scanned {
        token,
        text: &text[..length],
    }
}

fn word(text: &str) -> (Token, usize) {
    let ends = |c: char| c == '\0' || is_space(c) || c.is_ascii() && special(c as u8).is_some();
    let length = text.find(ends).unwrap_or(text.len());
    let token = match &text[..length] {
        "in" => Token::In,
        "notin" => Token::NotIn,
        _ => Token::Identifier,
    };
    (token, length)
}

fn special(byte: u8) -> Option<Token> {
    Some(match byte {
        b'=' => Token::Equals,
        b'!' => Token::Not,
        b'(' => Token::Open,
        b')' => Token::Close,
        b',' => Token::Comma,
        b'>' => Token::GreaterThan,
        b'<' => Token::LessThan,
        _ => return None,
    })
}

fn is_space(c: char) -> bool {
    matches!(c, ' ' | '\t' | '\r' | '\n')
}

#[cfg(test)]
mod tests {
    use super::scan;

    #[test]
    fn text_is_cut_as_go_cuts_it() {
        for (text, expected) in [
            ("", &[""][..]),
            (" \t\r\n", &[""]),
            ("a==b", &["a", "==", "b", ""]),
            ("a===b", &["a", "==", "=", "b", ""]),
            ("a!==b", &["a", "!=", "=", "b", ""]),
            ("!!a", &["!", "!", "a", ""]),
            ("x in(a,,b)", &["x", "in", "(", "a", ",", ",", "b", ")", ""]),
            ("a\0,b", &["a", ",", "b", ""]),
            ("a,\0b", &["a", ",", "b", ""]),
            ("a, \0b", &["a", ",", ""]),
            ("é>1", &["é", ">", "1", ""]),
        ] {
            let texts: Vec<&str> = scan(text).iter().map(|scanned| scanned.text).collect();
            assert_eq!(texts, expected, "{text:?}");
        }
    }
}
