//! Parses the tokens of a label selector to requirements.
//!
//! Source: apimachinery v0.36 pkg/labels/selector.go `Parser`.

use super::fault::LabelError;
use super::lexer::{Scanned, Token, scan};
use super::requirement::{Operator, Requirement};

const OPERATORS: &str = "in, notin, =, ==, !=, gt, lt";

/// Parses a label selector; returns its requirements in the order of the text.
pub(super) fn parse(text: &str) -> Result<Vec<Requirement>, LabelError> {
    let mut parser = Parser {
        tokens: scan(text),
        position: 0,
    };
    parser.requirements()
}

struct Parser<'a> {
    tokens: Vec<Scanned<'a>>,
    position: usize,
}

impl<'a> Parser<'a> {
    fn requirements(&mut self) -> Result<Vec<Requirement>, LabelError> {
        let mut requirements = Vec::new();
        let next = self.peek();
        if next.token == Token::End {
            return Ok(requirements);
        }
        if !starts_requirement(next.token) {
            return Err(unexpected(next, "'!', a key, or nothing"));
        }
        loop {
            requirements.push(self.requirement()?);
            if !self.comma()? {
                return Ok(requirements);
            }
        }
    }

    /// Takes a comma and returns true if another requirement follows; false at the end of the text.
    fn comma(&mut self) -> Result<bool, LabelError> {
        let separator = self.next();
        if separator.token == Token::End {
            return Ok(false);
        }
        if separator.token != Token::Comma {
            return Err(unexpected(separator, "',' or the end"));
        }
        let next = self.peek();
        if !starts_requirement(next.token) {
            return Err(unexpected(next, "a key after ','"));
        }
        Ok(true)
    }

    fn requirement(&mut self) -> Result<Requirement, LabelError> {
        let negated = self.peek().token == Token::Not;
        if negated {
            self.next();
        }
        let key = self.key()?;
        let operator = match self.peek().token {
            _ if negated => Operator::DoesNotExist,
            Token::End | Token::Comma => Operator::Exists,
            _ => self.operator()?,
        };
        let values = self.values(operator)?;
        Requirement::new(key, operator, values)
    }

    fn key(&mut self) -> Result<&'a str, LabelError> {
        let next = self.next();
        match next.token {
            Token::Identifier => Ok(next.text),
            _ => Err(unexpected(next, "a key")),
        }
    }

    fn operator(&mut self) -> Result<Operator, LabelError> {
        let next = self.next_raw();
        Ok(match next.token {
            Token::In => Operator::In,
            Token::NotIn => Operator::NotIn,
            Token::Equals => Operator::Equals,
            Token::DoubleEquals => Operator::DoubleEquals,
            Token::NotEquals => Operator::NotEquals,
            Token::GreaterThan => Operator::GreaterThan,
            Token::LessThan => Operator::LessThan,
            _ => return Err(unexpected(next, OPERATORS)),
        })
    }

    fn values(&mut self, operator: Operator) -> Result<Vec<String>, LabelError> {
        let mut values = match operator {
            Operator::Exists | Operator::DoesNotExist => Vec::new(),
            Operator::In | Operator::NotIn => self.value_list()?,
            _ => vec![self.exact_value()?],
        };
        values.sort_unstable();
        values.dedup();
        Ok(values.into_iter().map(str::to_owned).collect())
    }

    fn exact_value(&mut self) -> Result<&'a str, LabelError> {
        if matches!(self.peek().token, Token::End | Token::Comma) {
            return Ok("");
        }
        let next = self.next();
        match next.token {
            Token::Identifier => Ok(next.text),
            _ => Err(unexpected(next, "a value")),
        }
    }

    fn value_list(&mut self) -> Result<Vec<&'a str>, LabelError> {
        let open = self.next();
        if open.token != Token::Open {
            return Err(unexpected(open, "'('"));
        }
        let first = self.peek();
        match first.token {
            Token::Identifier | Token::Comma | Token::Close => self.listed_values(),
            _ => Err(unexpected(first, "a value, ',' or ')'")),
        }
    }

    /// Takes the values of a list up to the closing parenthesis; a value that is left out is "".
    fn listed_values(&mut self) -> Result<Vec<&'a str>, LabelError> {
        let mut values = Vec::new();
        loop {
            values.push(self.value_or_empty()?);
            let next = self.next();
            match next.token {
                Token::Close => return Ok(values),
                Token::Comma => {}
                _ => return Err(unexpected(next, "',' or ')'")),
            }
        }
    }

    fn value_or_empty(&mut self) -> Result<&'a str, LabelError> {
        let next = self.peek();
        match next.token {
            Token::Identifier => Ok(self.next().text),
            Token::Comma | Token::Close => Ok(""),
            _ => Err(unexpected(next, "a value or ','")),
        }
    }

    /// Returns the next token without taking it; `in` and `notin` are identifiers here.
    fn peek(&self) -> Scanned<'a> {
        let mut next = self.peek_raw();
        if matches!(next.token, Token::In | Token::NotIn) {
            next.token = Token::Identifier;
        }
        next
    }

    fn next(&mut self) -> Scanned<'a> {
        let next = self.peek();
        self.next_raw();
        next
    }

    fn peek_raw(&self) -> Scanned<'a> {
        self.tokens[self.position]
    }

    /// Takes and returns the next token, which may be `in` or `notin`; `End` is never used up.
    fn next_raw(&mut self) -> Scanned<'a> {
        let next = self.peek_raw();
        self.position += usize::from(next.token != Token::End);
        next
    }
}

fn starts_requirement(token: Token) -> bool {
    matches!(token, Token::Identifier | Token::Not)
}

fn unexpected(scanned: Scanned<'_>, expected: &str) -> LabelError {
    LabelError::unexpected(scanned.text, expected)
}
