//! Label selectors: `a=b,c!=d,e in (x,y),f notin (z),g,!h,i>1`.

use std::collections::BTreeMap;

use super::error::{Error, Res};
use super::quote::quote;

/// All must hold.
#[derive(Debug, Default)]
pub(crate) struct LabelSelector(Vec<Requirement>);

#[derive(Debug)]
struct Requirement {
    key: String,
    op: Op,
}

#[derive(Debug)]
enum Op {
    Exists,
    Missing,
    In(Vec<String>),
    NotIn(Vec<String>),
    Greater(i64),
    Less(i64),
}

impl LabelSelector {
    /// # Errors
    /// The text is no selector.
    pub(crate) fn parse(text: &str) -> Res<Self> {
        let mut p = Parser { rest: text.trim_start() };
        let mut all = Vec::new();
        while !p.rest.is_empty() {
            all.push(p.requirement()?);
            if p.rest.is_empty() {
                break;
            }
            if !p.eat(",") {
                return Err(p.unexpected("',' or 'end of string'"));
            }
            if p.rest.is_empty() {
                return Err(Error::new("found '', expected: identifier after ','"));
            }
        }
        Ok(Self(all))
    }

    pub(crate) fn matches(&self, labels: &BTreeMap<&str, &str>) -> bool {
        self.0.iter().all(|r| {
            let value = labels.get(r.key.as_str()).copied();
            let number = || value.and_then(|v| v.parse::<i64>().ok());
            match &r.op {
                Op::Exists => value.is_some(),
                Op::Missing => value.is_none(),
                Op::In(list) => value.is_some_and(|v| list.iter().any(|l| l == v)),
                Op::NotIn(list) => value.is_none_or(|v| !list.iter().any(|l| l == v)),
                Op::Greater(n) => number().is_some_and(|v| v > *n),
                Op::Less(n) => number().is_some_and(|v| v < *n),
            }
        })
    }
}

struct Parser<'a> {
    rest: &'a str,
}

impl<'a> Parser<'a> {
    fn eat(&mut self, token: &str) -> bool {
        match self.rest.strip_prefix(token) {
            Some(r) => {
                self.rest = r.trim_start();
                true
            }
            None => false,
        }
    }

    fn word(&mut self) -> &'a str {
        let end = self
            .rest
            .find(|c: char| c.is_whitespace() || matches!(c, '=' | '!' | '(' | ')' | ',' | '<' | '>'))
            .unwrap_or(self.rest.len());
        let (word, rest) = self.rest.split_at(end);
        self.rest = rest.trim_start();
        word
    }

    fn unexpected(&self, expected: &str) -> Error {
        let found = self.rest.split([' ', ',']).next().unwrap_or_default();
        Error::new(format!("unable to parse requirement: found '{found}', expected: {expected}"))
    }

    fn requirement(&mut self) -> Res<Requirement> {
        if self.eat("!") {
            let key = self.key()?;
            return Ok(Requirement { key, op: Op::Missing });
        }
        let key = self.key()?;
        let op = if self.rest.is_empty() || self.rest.starts_with(',') {
            Op::Exists
        } else if self.eat("==") || (!self.rest.starts_with("==") && self.eat("=")) {
            Op::In(vec![self.value()?])
        } else if self.eat("!=") {
            Op::NotIn(vec![self.value()?])
        } else if self.eat(">") {
            Op::Greater(self.number()?)
        } else if self.eat("<") {
            Op::Less(self.number()?)
        } else {
            match self.word() {
                "in" => Op::In(self.values()?),
                "notin" => Op::NotIn(self.values()?),
                word => {
                    return Err(Error::new(format!(
                        "unable to parse requirement: found '{word}', expected: in, notin, =, ==, !=, gt, lt"
                    )));
                }
            }
        };
        Ok(Requirement { key, op })
    }

    fn key(&mut self) -> Res<String> {
        let key = self.word();
        if key.is_empty() {
            return Err(self.unexpected("identifier"));
        }
        let name = key.rsplit_once('/').map_or(key, |(_, n)| n);
        if !is_name(name) {
            return Err(Error::new(format!(
                "unable to parse requirement: <nil>: Invalid value: {}: name part must consist of alphanumeric \
                 characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyName',  \
                 or 'my.name',  or '123-abc', regex used for validation is \
                 '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')",
                quote(key)
            )));
        }
        Ok(key.to_owned())
    }

    fn value(&mut self) -> Res<String> {
        let value = self.word();
        Self::check_value(value)
    }

    fn check_value(value: &str) -> Res<String> {
        if !value.is_empty() && !is_name(value) {
            return Err(Error::new(format!(
                "unable to parse requirement: values[0]: Invalid value: {}: a valid label must be an empty string or \
                 consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric \
                 character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for validation is \
                 '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')",
                quote(value)
            )));
        }
        Ok(value.to_owned())
    }

    fn number(&mut self) -> Res<i64> {
        let word = self.word();
        word.parse().map_err(|_| {
            Error::new(format!("for 'Gt', 'Lt' operators, the value must be an integer: {word}"))
        })
    }

    fn values(&mut self) -> Res<Vec<String>> {
        if !self.eat("(") {
            return Err(self.unexpected("'('"));
        }
        let mut out = Vec::new();
        loop {
            let value = self.word();
            out.push(Self::check_value(value)?);
            if self.eat(")") {
                return Ok(out);
            }
            if !self.eat(",") {
                return Err(self.unexpected("',', or ')'"));
            }
        }
    }
}

fn is_name(text: &str) -> bool {
    let edge = |b: Option<&u8>| b.is_some_and(u8::is_ascii_alphanumeric);
    let bytes = text.as_bytes();
    edge(bytes.first())
        && edge(bytes.last())
        && bytes.len() <= 63
        && bytes.iter().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_' | b'.'))
}
