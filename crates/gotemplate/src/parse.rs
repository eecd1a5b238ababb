//! Tokens become trees. Variables become slots and functions are looked up here, once.

use plural_yaml::{governor, numbers};

use super::{
    ast::{Branch, Call, Cmd, Expr, ExprKind, Node, Number, Pipe, Tree, UNSET},
    funcs,
    lex::{Item, Lexer, Tok},
    strconv,
    value::Str,
};

/// Deepest nesting of parentheses and of blocks.
const MAX_DEPTH: usize = 1000;

/// What ends a list of nodes.
enum End {
    End,
    Else,
}

enum Parsed {
    Node(Node),
    End(End),
}

struct Parser<'a> {
    lex: Lexer<'a>,
    file: Str,
    text: Str,
    /// Tokens put back, the next one last.
    back: Vec<Item>,
    /// Line of the token read last.
    line: usize,
    vars: Vec<Str>,
    /// Variables of bodies that do not run where one of these names is read: known, but unset.
    unset: Vec<Str>,
    /// While a statement is read: the variables before it, which are all that it can read.
    visible: Option<usize>,
    slots: usize,
    ranges: usize,
    depth: usize,
    action_line: usize,
    trees: Vec<Tree>,
}

type Result<T> = std::result::Result<T, String>;

/// Parses `text`: the definitions in it in the order in which they end, then the text itself.
///
/// # Errors
/// As Go words them: `template: FILE:LINE: …`.
pub fn parse(file: &str, text: &Str) -> Result<Vec<Tree>> {
    if u32::try_from(text.len()).is_err() {
        return Err(format!("template: {file}:1: the text is larger than 4 GiB"));
    }
    let mut parser = Parser {
        lex: Lexer::new(text),
        file: file.into(),
        text: text.clone(),
        back: Vec::new(),
        line: 1,
        vars: vec!["$".into()],
        unset: Vec::new(),
        visible: None,
        slots: 1,
        ranges: 0,
        depth: 0,
        action_line: 0,
        trees: Vec::new(),
    };
    let mut root = Vec::new();
    while parser.peek().tok != Tok::Eof {
        if parser.peek().tok == Tok::Left {
            let left = parser.take();
            let next = parser.take_word();
            if next.tok == Tok::Keyword && parser.text_of(&next) == "define" {
                parser.definition()?;
                continue;
            }
            parser.back.push(next);
            parser.back.push(left);
        }
        match parser.text_or_action()? {
            Parsed::Node(node) => root.push(node),
            Parsed::End(End::End) => return parser.fail("unexpected {{end}}"),
            Parsed::End(End::Else) => return parser.fail("unexpected {{else}}"),
        }
    }
    let slots = parser.slots;
    parser.add(file.into(), root, slots)?;
    Ok(parser.trees)
}

impl<'a> Parser<'a> {
    fn fail<T>(&self, message: impl AsRef<str>) -> Result<T> {
        Err(format!("template: {}:{}: {}", self.file, self.line, message.as_ref()))
    }

    /// Asks the caller whether the render may go on.
    fn asked(&self) -> Result<()> {
        if governor::may_go_on(0) { Ok(()) } else { self.fail(governor::STOPPED) }
    }

    fn unexpected<T>(&self, item: &Item, context: &str) -> Result<T> {
        if item.tok == Tok::Error
            && let Some(error) = &self.lex.problem
        {
            let mut extra = String::new();
            if self.action_line != 0 && self.action_line != item.line {
                extra = format!(" in action started at {}:{}", self.file, self.action_line);
                if error.ends_with(" action") {
                    extra = extra.replacen(" in action", "", 1);
                }
            }
            return self.fail(format!("{error}{extra}"));
        }
        self.fail(format!("unexpected {} in {context}", self.show(item)))
    }

    fn show(&self, item: &Item) -> String {
        let text = self.lex.text(item);
        match item.tok {
            Tok::Eof => "EOF".to_owned(),
            Tok::Keyword | Tok::Nil | Tok::Dot => format!("<{text}>"),
            _ if text.len() > 10 => {
                let short: String = text.chars().take(10).collect();
                format!("{}...", strconv::quote(&short))
            }
            _ => strconv::quote(text),
        }
    }

    fn text_of(&self, item: &Item) -> &'a str {
        self.lex.text(item)
    }

    fn take(&mut self) -> Item {
        if let Some(item) = self.back.pop() {
            return item;
        }
        let item = self.lex.next();
        self.line = item.line;
        item
    }

    fn peek(&mut self) -> &Item {
        if self.back.is_empty() {
            let item = self.take();
            self.back.push(item);
        }
        &self.back[self.back.len() - 1]
    }

    /// The next token that is not a space.
    fn take_word(&mut self) -> Item {
        loop {
            let item = self.take();
            if item.tok != Tok::Space {
                return item;
            }
        }
    }

    fn peek_word(&mut self) -> Item {
        let item = self.take_word();
        self.back.push(item);
        item
    }

    fn expect(&mut self, tok: Tok, context: &str) -> Result<Item> {
        let item = self.take_word();
        if item.tok == tok { Ok(item) } else { self.unexpected(&item, context) }
    }

    fn add(&mut self, name: Str, root: Vec<Node>, slots: usize) -> Result<()> {
        let tree = Tree { name, file: self.file.clone(), text: self.text.clone(), root, slots };
        if let Some(at) = self.trees.iter().position(|old| old.name == tree.name) {
            if self.trees[at].is_empty() {
                self.trees[at] = tree;
            } else if !tree.is_empty() {
                return self.fail(format!(
                    "template: multiple definition of template {}",
                    strconv::quote(&tree.name)
                ));
            }
            return Ok(());
        }
        self.trees.push(tree);
        Ok(())
    }

    /// Parses a body of its own: fresh variables until its end.
    fn body(&mut self, context: &str) -> Result<(Vec<Node>, usize)> {
        let vars = std::mem::replace(&mut self.vars, vec!["$".into()]);
        let unset = std::mem::take(&mut self.unset);
        let visible = self.visible.take();
        let slots = std::mem::replace(&mut self.slots, 1);
        let ranges = std::mem::take(&mut self.ranges);
        let (list, end) = self.item_list()?;
        if matches!(end, End::Else) {
            return self.fail(format!("unexpected {{{{else}}}} in {context}"));
        }
        self.vars = vars;
        self.unset = unset;
        self.visible = visible;
        self.ranges = ranges;
        Ok((list, std::mem::replace(&mut self.slots, slots)))
    }

    fn definition(&mut self) -> Result<()> {
        let context = "define clause";
        let item = self.take_word();
        let name = self.template_name(&item, context)?;
        self.expect(Tok::Right, context)?;
        let (list, slots) = self.body(context)?;
        self.add(name, list, slots)
    }

    fn template_name(&self, item: &Item, context: &str) -> Result<Str> {
        match item.tok {
            Tok::Quoted | Tok::RawQuoted => self.unquote(item),
            _ => self.unexpected(item, context),
        }
    }

    fn unquote(&self, item: &Item) -> Result<Str> {
        let text = self.text_of(item);
        if item.tok == Tok::Quoted && !text.contains('\\') {
            return Ok(text[1..text.len() - 1].into());
        }
        match strconv::unquote(text) {
            Some(text) => Ok(text.into()),
            None => self.fail("invalid syntax"),
        }
    }

    fn item_list(&mut self) -> Result<(Vec<Node>, End)> {
        self.depth += 1;
        if self.depth > MAX_DEPTH {
            return self.fail("exceeded maximum nesting of blocks");
        }
        let result = stacker::maybe_grow(64 << 10, 1 << 20, || {
            let mut list = Vec::new();
            while self.peek_word().tok != Tok::Eof {
                match self.text_or_action()? {
                    Parsed::Node(node) => list.push(node),
                    Parsed::End(end) => return Ok((list, end)),
                }
            }
            self.fail("unexpected EOF")
        });
        self.depth -= 1;
        result
    }

    fn text_or_action(&mut self) -> Result<Parsed> {
        self.asked()?;
        let item = self.take_word();
        match item.tok {
            Tok::Text => Ok(Parsed::Node(Node::Text(item.start as u32, item.end as u32))),
            Tok::Left => {
                self.action_line = item.line;
                let parsed = self.action();
                if parsed.is_ok() {
                    self.action_line = 0;
                }
                parsed
            }
            _ => self.unexpected(&item, "input"),
        }
    }

    fn action(&mut self) -> Result<Parsed> {
        let item = self.take_word();
        if item.tok == Tok::Keyword {
            return match self.text_of(&item) {
                "block" => self.block(),
                "break" => self.loop_control(Node::Break, "{{break}}"),
                "continue" => self.loop_control(Node::Continue, "{{continue}}"),
                "else" => {
                    let next = self.peek_word();
                    let chained = next.tok == Tok::Keyword && matches!(self.text_of(&next), "if" | "with");
                    if !chained {
                        self.expect(Tok::Right, "else")?;
                    }
                    Ok(Parsed::End(End::Else))
                }
                "end" => {
                    self.expect(Tok::Right, "end")?;
                    Ok(Parsed::End(End::End))
                }
                "if" => Ok(Parsed::Node(Node::If(self.control("if")?))),
                "range" => Ok(Parsed::Node(Node::Range(self.control("range")?))),
                "with" => Ok(Parsed::Node(Node::With(self.control("with")?))),
                "template" => self.template(),
                _ => self.unexpected(&item, "command"),
            };
        }
        self.back.push(item);
        Ok(Parsed::Node(Node::Action(self.pipeline("command", Tok::Right)?)))
    }

    fn loop_control(&mut self, node: Node, name: &str) -> Result<Parsed> {
        let item = self.take_word();
        if item.tok != Tok::Right {
            return self.unexpected(&item, name);
        }
        if self.ranges == 0 {
            return self.fail(format!("{name} outside {{{{range}}}}"));
        }
        Ok(Parsed::Node(node))
    }

    fn template(&mut self) -> Result<Parsed> {
        let context = "template clause";
        let item = self.take_word();
        let name = self.template_name(&item, context)?;
        let next = self.take_word();
        let pipe = if next.tok == Tok::Right {
            None
        } else {
            self.back.push(next);
            Some(self.pipeline(context, Tok::Right)?)
        };
        Ok(Parsed::Node(Node::Template(Call { pos: item.start as u32, name, pipe })))
    }

    fn block(&mut self) -> Result<Parsed> {
        let context = "block clause";
        let item = self.take_word();
        let name = self.template_name(&item, context)?;
        let pipe = self.pipeline(context, Tok::Right)?;
        let (list, slots) = self.body(context)?;
        self.add(name.clone(), list, slots)?;
        Ok(Parsed::Node(Node::Template(Call { pos: item.start as u32, name, pipe: Some(pipe) })))
    }

    fn control(&mut self, context: &str) -> Result<Branch> {
        let scope = self.vars.len();
        let pipe = self.pipeline(context, Tok::Right)?;
        let declared = self.vars.len();
        self.ranges += usize::from(context == "range");
        let (list, end) = self.item_list()?;
        self.ranges -= usize::from(context == "range");
        // The branch that runs instead of the body knows what the body declares, but nothing has set it.
        let unset = self.unset.len();
        self.unset.extend(self.vars.drain(declared..));
        let otherwise = match end {
            End::End => None,
            End::Else => Some(self.otherwise(context)?),
        };
        self.unset.truncate(unset);
        self.vars.truncate(scope);
        Ok(Branch { pos: pipe.pos, pipe, list, otherwise })
    }

    fn otherwise(&mut self, context: &str) -> Result<Vec<Node>> {
        let next = self.peek_word();
        if next.tok == Tok::Keyword && self.text_of(&next) == context && context != "range" {
            self.take_word();
            // A chain of else-ifs nests in the tree, so its depth counts.
            self.depth += 1;
            if self.depth > MAX_DEPTH {
                return self.fail("exceeded maximum nesting of blocks");
            }
            let branch = stacker::maybe_grow(64 << 10, 1 << 20, || self.control(context))?;
            self.depth -= 1;
            return Ok(vec![if context == "if" { Node::If(branch) } else { Node::With(branch) }]);
        }
        let (list, end) = self.item_list()?;
        match end {
            End::End => Ok(list),
            End::Else => self.fail("expected end; found {{else}}"),
        }
    }

    fn declare(&mut self, name: &str) -> (u32, Str) {
        let slot = self.vars.len();
        self.vars.push(name.into());
        self.slots = self.slots.max(slot + 1);
        (slot as u32, self.vars[slot].clone())
    }

    /// The slot of a variable that is read or assigned.
    fn resolve(&self, name: &str) -> Result<(u32, Str)> {
        let (visible, hidden) = self.vars.split_at(self.visible.unwrap_or(self.vars.len()));
        let slot = match visible.iter().rposition(|var| **var == *name) {
            Some(slot) => slot as u32,
            // Declared by this very statement, or by a body beside this one.
            None if hidden.iter().chain(&self.unset).any(|var| **var == *name) => UNSET,
            None => return self.fail(format!("undefined variable {}", strconv::quote(name))),
        };
        Ok((slot, name.into()))
    }

    fn pipeline(&mut self, context: &str, end: Tok) -> Result<Pipe> {
        let first = self.peek_word();
        let mut pipe = Pipe { pos: first.start as u32, assign: false, decl: Vec::new(), cmds: Vec::new() };
        let scope = self.vars.len();
        let mut names: Vec<&'a str> = Vec::new();
        loop {
            let variable = self.peek_word();
            if variable.tok != Tok::Variable {
                break;
            }
            self.take_word();
            let after = self.take();
            let next = if after.tok == Tok::Space { self.take_word() } else { after };
            if matches!(next.tok, Tok::Assign | Tok::Declare) {
                pipe.assign = next.tok == Tok::Assign;
                names.push(self.text_of(&variable));
                break;
            }
            if next.tok == Tok::Char && self.text_of(&next) == "," {
                names.push(self.text_of(&variable));
                if context == "range" && names.len() < 2 {
                    match self.peek_word().tok {
                        Tok::Variable | Tok::Right | Tok::RightParen => continue,
                        _ => return self.fail("range can only initialize variables"),
                    }
                }
                return self.fail(format!("too many declarations in {context}"));
            }
            self.back.push(next);
            if after.tok == Tok::Space {
                self.back.push(after);
            }
            self.back.push(variable);
            break;
        }
        let outer = self.visible;
        self.visible = outer.or(Some(scope));
        for name in names {
            let slot = if pipe.assign { self.resolve(name)? } else { self.declare(name) };
            pipe.decl.push(slot);
        }
        loop {
            let item = self.take_word();
            match item.tok {
                tok if tok == end => break,
                Tok::Bool
                | Tok::CharConstant
                | Tok::Dot
                | Tok::Field
                | Tok::Identifier
                | Tok::Number
                | Tok::Nil
                | Tok::RawQuoted
                | Tok::Quoted
                | Tok::Variable
                | Tok::LeftParen => {
                    self.back.push(item);
                    let cmd = self.command()?;
                    pipe.cmds.push(cmd);
                }
                _ => return self.unexpected(&item, context),
            }
        }
        if pipe.cmds.is_empty() {
            return self.fail(format!("missing value for {context}"));
        }
        for (stage, cmd) in pipe.cmds.iter().enumerate().skip(1) {
            if matches!(
                cmd.args[0].kind,
                ExprKind::Bool(_) | ExprKind::Dot | ExprKind::Nil | ExprKind::Number(_) | ExprKind::Text(..)
            ) {
                return self.fail(format!("non executable command in pipeline stage {}", stage + 1));
            }
        }
        self.visible = outer;
        Ok(pipe)
    }

    fn command(&mut self) -> Result<Cmd> {
        let pos = self.peek_word().start as u32;
        let mut args = Vec::new();
        loop {
            self.peek_word();
            if let Some(operand) = self.operand()? {
                args.push(operand);
            }
            let item = self.take();
            match item.tok {
                Tok::Space => continue,
                Tok::Right | Tok::RightParen => self.back.push(item),
                Tok::Pipe => {}
                _ => return self.unexpected(&item, "operand"),
            }
            break;
        }
        if args.is_empty() {
            return self.fail("empty command");
        }
        Ok(Cmd { pos, args })
    }

    fn operand(&mut self) -> Result<Option<Expr>> {
        self.asked()?;
        let Some(mut term) = self.term()? else { return Ok(None) };
        if self.peek().tok != Tok::Field {
            return Ok(Some(term));
        }
        let pos = self.peek().start as u32;
        let mut chain: Vec<Str> = Vec::new();
        while self.peek().tok == Tok::Field {
            let item = self.take();
            chain.push(self.text_of(&item)[1..].into());
        }
        match &mut term.kind {
            ExprKind::Field(fields) | ExprKind::Variable { fields, .. } => {
                fields.append(&mut chain);
                term.pos = pos;
                Ok(Some(term))
            }
            ExprKind::Bool(_) | ExprKind::Text(..) | ExprKind::Number(_) | ExprKind::Nil | ExprKind::Dot => {
                self.fail(format!("unexpected . after term {}", strconv::quote(&term.to_string())))
            }
            ExprKind::Chain(..) | ExprKind::Function(_) | ExprKind::Pipe(_) => {
                Ok(Some(Expr { pos, kind: ExprKind::Chain(Box::new(term), chain) }))
            }
        }
    }

    fn term(&mut self) -> Result<Option<Expr>> {
        let item = self.take_word();
        let text = self.text_of(&item);
        let kind = match item.tok {
            Tok::Identifier => match funcs::lookup(text) {
                Some(function) => ExprKind::Function(function),
                None => return self.fail(format!("function {} not defined", strconv::quote(text))),
            },
            Tok::Dot => ExprKind::Dot,
            Tok::Nil => ExprKind::Nil,
            Tok::Variable => {
                let (slot, name) = self.resolve(text)?;
                ExprKind::Variable { slot, name, fields: Vec::new() }
            }
            Tok::Field => ExprKind::Field(vec![text[1..].into()]),
            Tok::Bool => ExprKind::Bool(text == "true"),
            Tok::CharConstant | Tok::Number => match number(text, item.tok == Tok::CharConstant) {
                Ok(number) => ExprKind::Number(number),
                Err(message) => return self.fail(message),
            },
            Tok::LeftParen => {
                self.depth += 1;
                if self.depth > MAX_DEPTH {
                    return self.fail("max expression depth exceeded");
                }
                let pipe = stacker::maybe_grow(64 << 10, 1 << 20, || {
                    self.pipeline("parenthesized pipeline", Tok::RightParen)
                })?;
                self.depth -= 1;
                return Ok(Some(Expr { pos: pipe.pos, kind: ExprKind::Pipe(Box::new(pipe)) }));
            }
            Tok::Quoted | Tok::RawQuoted => {
                let value = self.unquote(&item)?;
                // Nearly all are written as they read, between plain quotes.
                let plain = item.tok == Tok::Quoted && value.len() + 2 == text.len();
                ExprKind::Text(value, if plain { None } else { Some(text.into()) })
            }
            _ => {
                self.back.push(item);
                return Ok(None);
            }
        };
        Ok(Some(Expr { pos: item.start as u32, kind }))
    }
}

/// The parts of a complex number, read without its `i`: `2`, or `1+2`.
fn complex(text: &str) -> Option<(f64, f64)> {
    // A sign after an exponent's letter is the exponent's.
    let signs = text.rmatch_indices(['+', '-']).map(|(at, _)| at);
    let middle = signs.filter(|at| *at > 0).find(|at| !text[..*at].ends_with(['e', 'E', 'p', 'P']));
    let (real, imaginary) = middle.map_or(("0", text), |at| text.split_at(at));
    Some((strconv::parse_float(real)?, strconv::parse_float(imaginary)?))
}

fn number(text: &str, char_constant: bool) -> std::result::Result<Number, String> {
    if char_constant {
        let Some(inner) = strconv::unquote_char(text) else {
            return Err(format!("malformed character constant: {text}"));
        };
        let code = i64::from(inner as u32);
        return Ok(Number { text: text.into(), int: Some(code), float: Some(code as f64), complex: None });
    }
    if let Some(parts) = text.strip_suffix('i') {
        let Some(complex @ (real, imaginary)) = complex(parts) else {
            return Err(format!("illegal number syntax: {}", strconv::quote(text)));
        };
        // Where a parameter needs another kind of number, one without an imaginary part will do.
        let float = (imaginary == 0.0).then_some(real);
        let int = float.filter(|v| v.fract() == 0.0 && v.abs() < 9.2e18).map(|v| v as i64);
        return Ok(Number { text: text.into(), int, float, complex: Some(complex) });
    }
    let uint = numbers::parse_uint(text, 0);
    let mut int = numbers::parse_int(text, 0);
    let mut float = int.map(|v| v as f64).or(uint.map(|v| v as f64));
    if float.is_none()
        && let Some(value) = strconv::parse_float(text)
    {
        if !text.contains(['.', 'e', 'E', 'p', 'P']) {
            return Err(format!("integer overflow: {}", strconv::quote(text)));
        }
        float = Some(value);
        if value.fract() == 0.0 && value.abs() < 9.2e18 {
            int = Some(value as i64);
        }
    }
    if float.is_none() {
        return Err(format!("illegal number syntax: {}", strconv::quote(text)));
    }
    Ok(Number { text: text.into(), int, float, complex: None })
}
