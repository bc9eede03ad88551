//! Parses the tokens of a label selector to requirements.
//!
//! Source: apimachinery v0.36 pkg/labels/selector.go `Parser`, with the same error messages.

use super::fault::{FieldErrors, RequirementError, SelectorError};
use super::lexer::{Scanned, Token, scan};
use super::requirement::{Operator, Requirement, key_error};

const OPERATORS: &str = "in, notin, =, ==, !=, gt, lt";

/// Parses a label selector; returns its requirements in the order of the text.
pub(super) fn parse(text: &str) -> Result<Vec<Requirement>, SelectorError> {
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
    fn requirements(&mut self) -> Result<Vec<Requirement>, SelectorError> {
        let mut requirements = Vec::new();
        let next = self.peek();
        if next.token == Token::End {
            return Ok(requirements);
        }
        if !starts_requirement(next.token) {
            return Err(misplaced(next, "!, identifier, or 'end of string'"));
        }
        loop {
            requirements.push(self.requirement().map_err(SelectorError::Requirement)?);
            if !self.comma()? {
                return Ok(requirements);
            }
        }
    }

    /// Takes a comma and returns true if another requirement follows; false at the end of the text.
    fn comma(&mut self) -> Result<bool, SelectorError> {
        let separator = self.next();
        if separator.token == Token::End {
            return Ok(false);
        }
        if separator.token != Token::Comma {
            return Err(misplaced(separator, "',' or 'end of string'"));
        }
        let next = self.peek();
        if !starts_requirement(next.token) {
            return Err(misplaced(next, "identifier after ','"));
        }
        Ok(true)
    }

    fn requirement(&mut self) -> Result<Requirement, RequirementError> {
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
        Ok(Requirement::new(key, operator, values)?)
    }

    fn key(&mut self) -> Result<&'a str, RequirementError> {
        let Scanned { token, text } = self.next();
        if token != Token::Identifier {
            return Err(unexpected(text, "identifier"));
        }
        // Go has no path to show for a key, and says so.
        match key_error("<nil>".to_owned(), text) {
            Some(error) => Err(FieldErrors::one(error).into()),
            None => Ok(text),
        }
    }

    fn operator(&mut self) -> Result<Operator, RequirementError> {
        let Scanned { token, text } = self.next_raw();
        Ok(match token {
            Token::In => Operator::In,
            Token::NotIn => Operator::NotIn,
            Token::Equals => Operator::Equals,
            Token::DoubleEquals => Operator::DoubleEquals,
            Token::NotEquals => Operator::NotEquals,
            Token::GreaterThan => Operator::GreaterThan,
            Token::LessThan => Operator::LessThan,
            _ => return Err(unexpected(text, OPERATORS)),
        })
    }

    fn values(&mut self, operator: Operator) -> Result<Vec<String>, RequirementError> {
        let mut values = match operator {
            Operator::Exists | Operator::DoesNotExist => Vec::new(),
            Operator::In | Operator::NotIn => self.value_list()?,
            _ => vec![self.exact_value()?],
        };
        values.sort_unstable();
        values.dedup();
        Ok(values.into_iter().map(str::to_owned).collect())
    }

    fn exact_value(&mut self) -> Result<&'a str, RequirementError> {
        if matches!(self.peek().token, Token::End | Token::Comma) {
            return Ok("");
        }
        let Scanned { token, text } = self.next();
        match token {
            Token::Identifier => Ok(text),
            _ => Err(unexpected(text, "identifier")),
        }
    }

    fn value_list(&mut self) -> Result<Vec<&'a str>, RequirementError> {
        let open = self.next();
        if open.token != Token::Open {
            let found = open.text.to_owned();
            return Err(RequirementError::NoValueList { found });
        }
        let first = self.peek();
        match first.token {
            Token::Identifier | Token::Comma | Token::Close => self.listed_values(),
            _ => Err(unexpected(first.text, "',', ')' or identifier")),
        }
    }

    /// Takes the values of a list up to the closing parenthesis; a value that is left out is "".
    fn listed_values(&mut self) -> Result<Vec<&'a str>, RequirementError> {
        let mut values = Vec::new();
        loop {
            values.push(self.value_or_empty()?);
            let Scanned { token, text } = self.next();
            match token {
                Token::Close => return Ok(values),
                Token::Comma => {}
                _ => return Err(unexpected(text, "',' or ')'")),
            }
        }
    }

    fn value_or_empty(&mut self) -> Result<&'a str, RequirementError> {
        let Scanned { token, text } = self.peek();
        match token {
            Token::Identifier => Ok(self.next().text),
            Token::Comma | Token::Close => Ok(""),
            _ => Err(unexpected(text, "',', or identifier")),
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

fn misplaced(scanned: Scanned<'_>, expected: &'static str) -> SelectorError {
    let found = scanned.text.to_owned();
    SelectorError::Unexpected { found, expected }
}

fn unexpected(found: &str, expected: &'static str) -> RequirementError {
    let found = found.to_owned();
    RequirementError::Unexpected { found, expected }
}
