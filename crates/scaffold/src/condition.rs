//! Conditions of templates: small expressions over `context`.
//!
//! Written here: the language is `==`, `!=`, `<`, `<=`, `>`, `>=`, `in`, `&&`/`and`, `||`/`or`, `!`/`not`, brackets, texts, numbers,
//! `true`, `false`, `null`, and names. A name that is unknown is the empty text, which no expression library has (CEL ends with
//! an error, Liquid has no `!` and no brackets), and public automations rely on it. A name is looked up in `context`; `context.` before
//! it may be left out.

use serde_json::Value;

/// Bytes of a condition.
const MAX_BYTES: usize = 4096;
/// Brackets and negations inside each other.
const MAX_DEPTH: usize = 50;

/// Whether `condition` holds; an empty one does.
///
/// # Errors
/// Where it cannot be read.
pub fn holds(condition: &str, context: &Value) -> Result<bool, String> {
    if condition.trim().is_empty() {
        return Ok(true);
    }
    if condition.len() > MAX_BYTES {
        return Err(format!("a condition is longer than {MAX_BYTES} bytes"));
    }
    let tokens = tokens(condition)?;
    let mut reader = Reader { tokens: &tokens, at: 0, context, depth: 0 };
    let value = reader.any()?;
    if reader.at < tokens.len() {
        return Err(format!("the condition {condition:?} goes on after its end"));
    }
    Ok(truth(&value))
}

#[derive(Debug, Clone, PartialEq)]
enum Token {
    Sign(&'static str),
    Name(String),
    Value(Value),
}

const SIGNS: &[&str] = &["==", "!=", "<=", ">=", "&&", "||", "<", ">", "!", "(", ")", "[", "]", ",", "."];

fn tokens(text: &str) -> Result<Vec<Token>, String> {
    let mut found = Vec::new();
    let mut rest = text.trim_start();
    while let Some(first) = rest.chars().next() {
        if first == '"' || first == '\'' {
            let inner = &rest[1..];
            let mut value = String::new();
            let mut chars = inner.char_indices();
            let end = loop {
                match chars.next() {
                    Some((at, c)) if c == first => break at,
                    Some((_, '\\')) => match chars.next() {
                        Some((_, 'n')) => value.push('\n'),
                        Some((_, 't')) => value.push('\t'),
                        Some((_, c)) => value.push(c),
                        None => return Err(format!("the condition {text:?} has a text without an end")),
                    },
                    Some((_, c)) => value.push(c),
                    None => return Err(format!("the condition {text:?} has a text without an end")),
                }
            };
            found.push(Token::Value(Value::String(value)));
            rest = &inner[end + 1..];
        } else if first.is_ascii_digit()
            || (first == '-' && rest[1..].starts_with(|c: char| c.is_ascii_digit()))
        {
            let end =
                rest[1..].find(|c: char| !c.is_ascii_digit() && c != '.').map_or(rest.len(), |at| at + 1);
            let number: Value = serde_json::from_str(&rest[..end])
                .map_err(|_| format!("the condition {text:?} has {:?}, which is no number", &rest[..end]))?;
            found.push(Token::Value(number));
            rest = &rest[end..];
        } else if first.is_alphabetic() || first == '_' {
            let end = rest.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(rest.len());
            found.push(match &rest[..end] {
                "and" => Token::Sign("&&"),
                "or" => Token::Sign("||"),
                "not" => Token::Sign("!"),
                "in" => Token::Sign("in"),
                "true" => Token::Value(Value::Bool(true)),
                "false" => Token::Value(Value::Bool(false)),
                "null" | "nil" => Token::Value(Value::Null),
                name => Token::Name(name.to_owned()),
            });
            rest = &rest[end..];
        } else if let Some(sign) = SIGNS.iter().find(|sign| rest.starts_with(**sign)) {
            found.push(Token::Sign(sign));
            rest = &rest[sign.len()..];
        } else {
            return Err(format!("the condition {text:?} has {first:?}, which means nothing in it"));
        }
        rest = rest.trim_start();
    }
    Ok(found)
}

struct Reader<'t> {
    tokens: &'t [Token],
    at: usize,
    context: &'t Value,
    depth: usize,
}

impl Reader<'_> {
    fn takes(&mut self, sign: &str) -> bool {
        let found = matches!(self.tokens.get(self.at), Some(Token::Sign(found)) if *found == sign);
        self.at += usize::from(found);
        found
    }

    fn any(&mut self) -> Result<Value, String> {
        let mut value = self.all()?;
        while self.takes("||") {
            let other = self.all()?;
            value = Value::Bool(truth(&value) || truth(&other));
        }
        Ok(value)
    }

    fn all(&mut self) -> Result<Value, String> {
        let mut value = self.compared()?;
        while self.takes("&&") {
            let other = self.compared()?;
            value = Value::Bool(truth(&value) && truth(&other));
        }
        Ok(value)
    }

    fn compared(&mut self) -> Result<Value, String> {
        let left = self.single()?;
        for sign in ["==", "!=", "<=", ">=", "<", ">", "in"] {
            if self.takes(sign) {
                let right = self.single()?;
                return Ok(Value::Bool(compare(sign, &left, &right)));
            }
        }
        Ok(left)
    }

    fn single(&mut self) -> Result<Value, String> {
        self.depth += 1;
        if self.depth > MAX_DEPTH {
            return Err(format!("a condition nests deeper than {MAX_DEPTH}"));
        }
        let value = self.inner()?;
        self.depth -= 1;
        Ok(value)
    }

    fn inner(&mut self) -> Result<Value, String> {
        if self.takes("!") {
            return Ok(Value::Bool(!truth(&self.single()?)));
        }
        if self.takes("(") {
            let value = self.any()?;
            return if self.takes(")") { Ok(value) } else { Err("a condition lacks a )".to_owned()) };
        }
        if self.takes("[") {
            let mut items = Vec::new();
            while !self.takes("]") {
                if !items.is_empty() && !self.takes(",") {
                    return Err("a condition lacks a ]".to_owned());
                }
                items.push(self.any()?);
            }
            return Ok(Value::Array(items));
        }
        match self.tokens.get(self.at).cloned() {
            Some(Token::Value(value)) => {
                self.at += 1;
                Ok(value)
            }
            Some(Token::Name(name)) => {
                self.at += 1;
                self.lookup(&name)
            }
            _ => Err("a condition lacks a value".to_owned()),
        }
    }

    fn lookup(&mut self, first: &str) -> Result<Value, String> {
        let unknown = Value::String(String::new());
        let mut value = if first == "context" {
            self.context.clone()
        } else {
            self.context.get(first).cloned().unwrap_or(unknown.clone())
        };
        loop {
            let next = if self.takes(".") {
                let Some(Token::Name(name)) = self.tokens.get(self.at).cloned() else {
                    return Err("a condition lacks a name behind a dot".to_owned());
                };
                self.at += 1;
                value.get(name.as_str()).cloned()
            } else if self.takes("[") {
                let key = self.any()?;
                if !self.takes("]") {
                    return Err("a condition lacks a ]".to_owned());
                }
                match &key {
                    Value::String(key) => value.get(key.as_str()).cloned(),
                    Value::Number(index) => {
                        index.as_u64().and_then(|index| value.get(usize::try_from(index).ok()?)).cloned()
                    }
                    _ => None,
                }
            } else {
                break;
            };
            value = next.unwrap_or_else(|| unknown.clone());
        }
        Ok(if value.is_null() { unknown } else { value })
    }
}

fn truth(value: &Value) -> bool {
    match value {
        Value::Null => false,
        Value::Bool(value) => *value,
        Value::String(text) => !text.is_empty() && text != "false",
        Value::Number(number) => number.as_f64() != Some(0.0),
        Value::Array(items) => !items.is_empty(),
        Value::Object(entries) => !entries.is_empty(),
    }
}

/// A text that is a number equals that number: answers come as texts.
fn compare(sign: &str, left: &Value, right: &Value) -> bool {
    if sign == "in" {
        return match right {
            Value::Array(items) => items.iter().any(|item| compare("==", left, item)),
            Value::Object(entries) => left.as_str().is_some_and(|key| entries.contains_key(key)),
            Value::String(text) => left.as_str().is_some_and(|part| text.contains(part)),
            _ => false,
        };
    }
    let text = |value: &Value| match value {
        Value::Null => Some(String::new()),
        Value::String(text) => Some(text.clone()),
        Value::Bool(_) | Value::Number(_) => Some(value.to_string()),
        Value::Array(_) | Value::Object(_) => None,
    };
    let order = match (text(left), text(right)) {
        (Some(a), Some(b)) => match (number(&a), number(&b)) {
            (Some(a), Some(b)) => a.partial_cmp(&b),
            _ => Some(a.cmp(&b)),
        },
        _ => (left == right).then_some(std::cmp::Ordering::Equal),
    };
    match sign {
        "==" => order.is_some_and(std::cmp::Ordering::is_eq),
        "!=" => !order.is_some_and(std::cmp::Ordering::is_eq),
        "<" => order.is_some_and(std::cmp::Ordering::is_lt),
        "<=" => order.is_some_and(std::cmp::Ordering::is_le),
        ">" => order.is_some_and(std::cmp::Ordering::is_gt),
        _ => order.is_some_and(std::cmp::Ordering::is_ge),
    }
}

/// `inf`, `infinity` and `nan` are words.
fn number(text: &str) -> Option<f64> {
    text.parse().ok().filter(|number: &f64| number.is_finite())
}
