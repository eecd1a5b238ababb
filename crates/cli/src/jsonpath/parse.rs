//! From text to templates and paths.

use serde_json::{Number, Value};

use super::{BadTemplate, Comparison, Node, Operand, Path, Pick, Step};

pub(super) fn template(text: &str) -> Result<Vec<Node>, BadTemplate> {
    let mut reader = Reader::new(text);
    let nodes = reader.nodes(None)?;
    Ok(nodes)
}

pub(super) fn path(text: &str) -> Result<Path, BadTemplate> {
    let text = text.trim();
    let inner = text.strip_prefix('{').and_then(|text| text.strip_suffix('}')).unwrap_or(text);
    let mut reader = Reader::new(inner);
    if !inner.starts_with(['.', '[', '$', '@']) {
        reader.letters.insert(0, '.');
    }
    let path = reader.path()?;
    if reader.peek().is_some() {
        return Err(reader.bad("expected the end of the path"));
    }
    Ok(path)
}

struct Reader {
    letters: Vec<char>,
    at: usize,
}

/// What a word ends with.
fn ends_name(letter: char) -> bool {
    letter.is_whitespace() || ".[]{}(),=<>!~|&?*\"'".contains(letter)
}

impl Reader {
    fn new(text: &str) -> Self {
        Self { letters: text.chars().collect(), at: 0 }
    }

    fn peek(&self) -> Option<char> {
        self.letters.get(self.at).copied()
    }

    fn take(&mut self, letter: char) -> bool {
        let is_it = self.peek() == Some(letter);
        self.at += usize::from(is_it);
        is_it
    }

    fn spaces(&mut self) {
        while self.peek().is_some_and(char::is_whitespace) {
            self.at += 1;
        }
    }

    fn bad(&self, message: impl Into<String>) -> BadTemplate {
        BadTemplate { position: self.at + 1, message: message.into() }
    }

    fn bad_at(at: usize, message: impl Into<String>) -> BadTemplate {
        BadTemplate { position: at + 1, message: message.into() }
    }

    /// Everything up to the end of the template, or of the range that began at `range`.
    fn nodes(&mut self, range: Option<usize>) -> Result<Vec<Node>, BadTemplate> {
        let mut nodes = Vec::new();
        let mut text = String::new();
        while let Some(letter) = self.peek() {
            if letter != '{' {
                text.push(letter);
                self.at += 1;
                continue;
            }
            if !text.is_empty() {
                nodes.push(Node::Text(std::mem::take(&mut text)));
            }
            let start = self.at;
            self.at += 1;
            loop {
                self.spaces();
                match self.peek() {
                    None => return Err(self.bad("the expression has no }")),
                    Some('}') => {
                        self.at += 1;
                        break;
                    }
                    Some('"' | '\'') => nodes.push(Node::Text(self.quoted()?)),
                    Some('.' | '[' | '$' | '@') => nodes.push(Node::Path(self.path()?)),
                    Some(_) => {
                        let word_at = self.at;
                        let word = self.word();
                        match word.as_str() {
                            "range" => {
                                self.spaces();
                                let over = self.path()?;
                                self.spaces();
                                if !self.take('}') {
                                    return Err(self.bad("expected } after the path of the range"));
                                }
                                nodes.push(Node::Range(over, self.nodes(Some(start))?));
                                break;
                            }
                            "end" => {
                                self.spaces();
                                if !self.take('}') {
                                    return Err(self.bad("expected } after end"));
                                }
                                let without = || Self::bad_at(start, "{end} without a range");
                                return range.map(|_| nodes).ok_or_else(without);
                            }
                            word => {
                                let word = if word.is_empty() {
                                    self.peek().unwrap_or_default().to_string()
                                } else {
                                    word.to_owned()
                                };
                                return Err(Self::bad_at(
                                    word_at,
                                    format!("expected a path, a quoted text, range or end, not {word:?}"),
                                ));
                            }
                        }
                    }
                }
            }
        }
        if let Some(start) = range {
            return Err(Self::bad_at(start, "the range has no {end}"));
        }
        if !text.is_empty() {
            nodes.push(Node::Text(text));
        }
        Ok(nodes)
    }

    fn word(&mut self) -> String {
        let mut word = String::new();
        while let Some(letter) = self.peek().filter(|letter| !ends_name(*letter)) {
            word.push(letter);
            self.at += 1;
        }
        word
    }

    /// A text in either kind of quotes, with the escapes of JSON.
    fn quoted(&mut self) -> Result<String, BadTemplate> {
        let start = self.at;
        let quote = self.peek().unwrap_or('"');
        self.at += 1;
        let mut text = String::new();
        loop {
            let Some(letter) = self.peek() else {
                return Err(Self::bad_at(start, format!("the text has no {quote} at its end")));
            };
            self.at += 1;
            match letter {
                letter if letter == quote => return Ok(text),
                '\\' => {
                    let escaped = self.peek();
                    self.at += 1;
                    match escaped {
                        Some('n') => text.push('\n'),
                        Some('t') => text.push('\t'),
                        Some('r') => text.push('\r'),
                        Some(letter @ ('\\' | '"' | '\'' | '/')) => text.push(letter),
                        // What it means stays to be seen: `\.` in a key.
                        Some(letter) => text.extend(['\\', letter]),
                        None => {}
                    }
                }
                letter => text.push(letter),
            }
        }
    }

    fn path(&mut self) -> Result<Path, BadTemplate> {
        let of_root = self.take('$');
        if !of_root {
            self.take('@');
        }
        let mut steps = Vec::new();
        loop {
            match self.peek() {
                Some('.') => {
                    self.at += 1;
                    if self.take('.') {
                        steps.push(Step::Descend);
                        if self.peek() == Some('[') {
                            continue;
                        }
                    } else if self.peek() == Some('[') {
                        // `.items.[0]`
                        continue;
                    }
                    if self.take('*') {
                        steps.push(Step::All);
                    } else {
                        steps.push(Step::Field(self.name()?));
                    }
                }
                Some('[') => {
                    self.at += 1;
                    steps.push(self.bracket()?);
                }
                _ => return Ok(Path { of_root, steps }),
            }
        }
    }

    /// A name after a dot; `\` before a letter takes it as it is.
    fn name(&mut self) -> Result<String, BadTemplate> {
        let mut name = String::new();
        while let Some(letter) = self.peek() {
            if letter == '\\' && self.letters.get(self.at + 1).is_some() {
                self.at += 1;
                name.extend(self.peek());
            } else if ends_name(letter) {
                break;
            } else {
                name.push(letter);
            }
            self.at += 1;
        }
        if name.is_empty() { Err(self.bad("expected a name")) } else { Ok(name) }
    }

    fn bracket(&mut self) -> Result<Step, BadTemplate> {
        self.spaces();
        if self.take('*') {
            self.spaces();
            return if self.take(']') { Ok(Step::All) } else { Err(self.bad("expected , or ]")) };
        }
        if self.take('?') {
            return self.filter();
        }
        let mut picks = Vec::new();
        loop {
            self.spaces();
            picks.push(self.pick()?);
            self.spaces();
            if self.take(']') {
                return Ok(Step::Pick(picks));
            }
            if !self.take(',') {
                return Err(self.bad("expected , or ]"));
            }
        }
    }

    fn pick(&mut self) -> Result<Pick, BadTemplate> {
        if matches!(self.peek(), Some('"' | '\'')) {
            let key = self.quoted()?;
            let mut dotted = vec![String::new()];
            let mut letters = key.chars();
            while let Some(letter) = letters.next() {
                let (letter, splits) =
                    if letter == '\\' { (letters.next(), false) } else { (Some(letter), letter == '.') };
                if splits {
                    dotted.push(String::new());
                } else if let Some(last) = dotted.last_mut() {
                    last.extend(letter);
                }
            }
            return Ok(Pick::Key(key, dotted));
        }
        let from = self.integer()?;
        if !self.take(':') {
            let wanted = "expected *, ?(…), a number, a slice or a quoted key";
            return from.map(Pick::Index).ok_or_else(|| self.bad(wanted));
        }
        let to = self.integer()?;
        let mut by = 1;
        if self.take(':') {
            let at = self.at;
            let step = self.integer()?.unwrap_or(1);
            by = usize::try_from(step)
                .ok()
                .filter(|step| *step > 0)
                .ok_or_else(|| Self::bad_at(at, "a step is at least 1"))?;
        }
        Ok(Pick::Slice { from, to, by })
    }

    fn integer(&mut self) -> Result<Option<i64>, BadTemplate> {
        let start = self.at;
        let mut digits = String::new();
        while let Some(letter) =
            self.peek().filter(|letter| letter.is_ascii_digit() || (digits.is_empty() && *letter == '-'))
        {
            digits.push(letter);
            self.at += 1;
        }
        if digits.is_empty() {
            return Ok(None);
        }
        digits.parse().map(Some).map_err(|_| Self::bad_at(start, format!("{digits} is no index")))
    }

    /// After `[?`.
    fn filter(&mut self) -> Result<Step, BadTemplate> {
        if !self.take('(') {
            return Err(self.bad("expected ("));
        }
        let left = self.operand()?;
        self.spaces();
        let comparison = if self.peek() == Some(')') {
            None
        } else {
            let comparison = self.comparison()?;
            Some((comparison, self.operand()?))
        };
        self.spaces();
        if !self.take(')') {
            return Err(self.bad("expected )"));
        }
        self.spaces();
        if !self.take(']') {
            return Err(self.bad("expected ]"));
        }
        Ok(Step::Filter(left, comparison))
    }

    fn comparison(&mut self) -> Result<Comparison, BadTemplate> {
        let start = self.at;
        let mut sign = String::new();
        while let Some(letter) = self.peek().filter(|letter| "=!<>".contains(*letter)) {
            sign.push(letter);
            self.at += 1;
        }
        Ok(match sign.as_str() {
            "==" | "=" => Comparison::Equal,
            "!=" => Comparison::NotEqual,
            "<" => Comparison::Less,
            "<=" => Comparison::LessOrEqual,
            ">" => Comparison::Greater,
            ">=" => Comparison::GreaterOrEqual,
            _ => return Err(Self::bad_at(start, "expected ==, !=, <, <=, >, >= or )")),
        })
    }

    fn operand(&mut self) -> Result<Operand, BadTemplate> {
        self.spaces();
        match self.peek() {
            Some('@' | '$' | '.' | '[') => Ok(Operand::Path(self.path()?)),
            Some('"' | '\'') => Ok(Operand::Literal(Value::String(self.quoted()?))),
            _ => {
                let start = self.at;
                let mut word = self.word();
                if self.peek() == Some('.') {
                    self.at += 1;
                    word = format!("{word}.{}", self.word());
                }
                let number = || word.parse().ok().or_else(|| Number::from_f64(word.parse().ok()?));
                match word.as_str() {
                    "true" => Some(Value::Bool(true)),
                    "false" => Some(Value::Bool(false)),
                    "null" => Some(Value::Null),
                    _ => number().map(Value::Number),
                }
                .map(Operand::Literal)
                .ok_or_else(|| Self::bad_at(start, "expected a path, a quoted text or a number"))
            }
        }
    }
}
