//! Runs trees: Go's evaluation, step by step, down to where an error is said to have happened.

mod call;

use std::{collections::HashMap, rc::Rc, sync::Arc};

use smallvec::SmallVec;

use super::{
    ast::{At, Branch, Call, Cmd, Expr, ExprKind, Node, Pipe, Tree},
    format, methods,
    objects::Struct,
    parse,
    random::Random,
    value::{ListType, Map, MapType, Str, Value},
};

/// Deepest nesting of templates that call each other with `template`.
const MAX_TEMPLATE_DEPTH: usize = 10_000;
/// How often a name may be included by itself.
const MAX_INCLUDES: usize = 1000;
/// Stack that is left when more is taken, and how much is taken.
const STACK_RED_ZONE: usize = 160 << 10;
const STACK_STEP: usize = 2 << 20;

/// Bytes that the tree of a text may have for each byte of it.
const TREE_BYTES: usize = 32;

/// Why a template stopped.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Fault {
    /// A function refused; not yet said where.
    Text(String),
    /// Said where, as Go says it.
    Exec(String),
    /// A limit of ours was reached: nothing catches it.
    Limit(String),
}

impl From<String> for Fault {
    fn from(text: String) -> Self {
        Self::Text(text)
    }
}

impl From<&str> for Fault {
    fn from(text: &str) -> Self {
        Self::Text(text.to_owned())
    }
}

/// What `lookup` asks.
pub(crate) trait Lookup {
    /// The object, or the list when `name` is empty; None when there is none or it is not granted.
    fn lookup(&self, api_version: &str, kind: &str, namespace: &str, name: &str)
    -> Option<serde_json::Value>;
}

/// How much one render may use.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// Steps: one for each action, iteration and call.
    pub fuel: u64,
    /// Bytes that all templates write, and that functions make on the way.
    pub bytes: u64,
}

impl Default for Limits {
    fn default() -> Self {
        Self { fuel: 50_000_000, bytes: 2 << 30 }
    }
}

/// What one render runs in.
pub(crate) struct Engine<'h> {
    templates: HashMap<Str, Arc<Tree>>,
    /// Definitions made by `tpl`, seen only while it runs; the innermost last.
    scopes: Vec<HashMap<Str, Arc<Tree>>>,
    parsed: HashMap<Str, Rc<ParsedText>>,
    included: HashMap<Str, usize>,
    depth: usize,
    fuel: u64,
    bytes: u64,
    limits: Limits,
    /// Maps into which maps were put: what could hold itself is emptied in the end.
    written: Vec<Map>,
    pub(crate) random: Random,
    /// Milliseconds since 1970.
    pub(crate) clock_ms: i64,
    pub(crate) lookup: Option<&'h dyn Lookup>,
    /// Compiled expressions of this render.
    pub(crate) patterns: HashMap<Str, super::funcs::Compiled>,
}

type ParsedText = std::result::Result<Vec<Arc<Tree>>, String>;
type Result<T> = std::result::Result<T, Fault>;
/// Arguments of a call.
pub(crate) type Args = SmallVec<[Value; 4]>;

impl Drop for Engine<'_> {
    fn drop(&mut self) {
        for map in &self.written {
            map.clear();
        }
    }
}

enum Flow {
    Next,
    Break,
    Continue,
}

/// The dot, and whether it was found in a map or list: errors name its type differently.
#[derive(Clone, Copy)]
struct Dot<'v> {
    value: &'v Value,
    field: bool,
}

struct Frame<'t> {
    tree: &'t Tree,
    vars: Vec<(Value, bool)>,
    at: At<'t>,
}

impl<'h> Engine<'h> {
    pub(crate) fn new(random: Random, clock_ms: i64, lookup: Option<&'h dyn Lookup>, limits: Limits) -> Self {
        Self {
            templates: HashMap::new(),
            scopes: Vec::new(),
            parsed: HashMap::new(),
            included: HashMap::new(),
            depth: 0,
            fuel: 0,
            bytes: 0,
            limits,
            written: Vec::new(),
            random,
            clock_ms,
            lookup,
            patterns: HashMap::new(),
        }
    }

    /// Adds templates; a later one replaces an earlier of the same name unless it is empty.
    pub(crate) fn add(&mut self, trees: &[Arc<Tree>]) {
        for tree in trees {
            if tree.is_empty() && self.templates.contains_key(&tree.name) {
                continue;
            }
            self.templates.insert(tree.name.clone(), tree.clone());
        }
    }

    fn find(&self, name: &str) -> Option<Arc<Tree>> {
        self.scopes
            .iter()
            .rev()
            .find_map(|scope| scope.get(name))
            .or_else(|| self.templates.get(name))
            .cloned()
    }

    /// Counts steps.
    pub(crate) fn burn(&mut self, steps: u64) -> Result<()> {
        self.fuel = self.fuel.saturating_add(steps);
        if self.fuel > self.limits.fuel {
            return Err(Fault::Limit(format!(
                "the render takes more than {} steps (limit of fuel)",
                self.limits.fuel
            )));
        }
        Ok(())
    }

    /// Steps that were taken so far.
    pub(crate) fn spent(&self) -> u64 {
        self.fuel
    }

    /// Counts bytes that are made.
    pub(crate) fn charge(&mut self, bytes: usize) -> Result<()> {
        self.bytes = self.bytes.saturating_add(bytes as u64);
        if self.bytes > self.limits.bytes {
            return Err(Fault::Limit(format!(
                "the render makes more than {} bytes (limit of bytes held)",
                self.limits.bytes
            )));
        }
        Ok(())
    }

    /// Remembers that something was put into a map.
    pub(crate) fn wrote(&mut self, map: &Map, value: &Value) {
        if matches!(value, Value::Map(_) | Value::List(_)) {
            self.written.push(map.clone());
        }
    }

    /// Runs the template `name` as the outermost one.
    pub(crate) fn execute(&mut self, name: &str, dot: &Value, out: &mut Vec<u8>) -> Result<()> {
        let Some(tree) = self.find(name) else {
            return Err(no_template(name));
        };
        self.run(&tree, dot, out)
    }

    fn run(&mut self, tree: &Tree, dot: &Value, out: &mut Vec<u8>) -> Result<()> {
        stacker::maybe_grow(STACK_RED_ZONE, STACK_STEP, || {
            let Some(first) = tree.root.first() else { return Ok(()) };
            let mut vars = Vec::with_capacity(tree.slots);
            vars.push((dot.clone(), false));
            vars.resize(tree.slots.max(1), (Value::Nil, false));
            let mut frame = Frame { tree, vars, at: At::Node(first) };
            self.walk(&mut frame, Dot { value: dot, field: false }, &tree.root, out)?;
            Ok(())
        })
    }

    /// `include`
    pub(crate) fn include(&mut self, name: &Str, dot: &Value) -> Result<Value> {
        let count = self.included.entry(name.clone()).or_insert(0);
        if *count > MAX_INCLUDES {
            return Err(Fault::Text(format!(
                "rendering template has a nested reference name: {name}: unable to execute template"
            )));
        }
        *count += 1;
        let mut out = Vec::new();
        let result = match self.find(name) {
            Some(tree) => self.run(&tree, dot, &mut out),
            None => Err(no_template(name)),
        };
        if let Some(count) = self.included.get_mut(name) {
            *count -= 1;
        }
        result?;
        self.charge(out.len())?;
        Ok(Value::string_of(out))
    }

    /// `tpl`
    pub(crate) fn tpl(&mut self, text: &Str, dot: &Value) -> Result<Value> {
        if memchr::memmem::find(text.as_bytes(), b"{{").is_none() {
            return Ok(Value::Str(strip_no_value(text)));
        }
        let parsed = if let Some(parsed) = self.parsed.get(text) {
            parsed.clone()
        } else {
            self.burn(text.len() as u64 / 16)?;
            // Trees are kept to the end, and are larger than their texts.
            self.charge(text.len().saturating_mul(TREE_BYTES))?;
            let trees = parse::parse("gotpl", text).map(|trees| trees.into_iter().map(Arc::new).collect());
            let parsed = Rc::new(trees);
            self.parsed.insert(text.clone(), parsed.clone());
            parsed
        };
        let trees = parsed.as_ref().as_ref().map_err(|error| {
            Fault::Text(format!("cannot parse template {}: {error}", format::quote(text)))
        })?;
        let Some((main, defined)) = trees.split_last() else { return Ok(Value::str("")) };
        let mut scope = HashMap::new();
        for tree in defined {
            if tree.is_empty() && self.find(&tree.name).is_some() {
                continue;
            }
            scope.insert(tree.name.clone(), tree.clone());
        }
        let scoped = !scope.is_empty();
        if scoped {
            self.scopes.push(scope);
        }
        if self.depth >= MAX_TEMPLATE_DEPTH {
            return Err(Fault::Limit(format!(
                "tpl inside tpl nests deeper than {MAX_TEMPLATE_DEPTH} (limit of template depth)"
            )));
        }
        let mut out = Vec::new();
        self.depth += 1;
        let result = self.run(main, dot, &mut out);
        self.depth -= 1;
        if scoped {
            self.scopes.pop();
        }
        match result {
            Ok(()) => {}
            Err(Fault::Exec(error) | Fault::Text(error)) => {
                return Err(Fault::Text(format!(
                    "error during tpl function execution for {}: {error}",
                    format::quote(text)
                )));
            }
            Err(limit) => return Err(limit),
        }
        self.charge(out.len())?;
        Ok(match Value::string_of(out) {
            Value::Str(text) => Value::Str(strip_no_value(&text)),
            other => other,
        })
    }

    #[expect(clippy::unused_self, reason = "reads as what the engine does")]
    fn fail<T>(&self, frame: &Frame<'_>, message: impl AsRef<str>) -> Result<T> {
        let tree = frame.tree;
        Err(Fault::Exec(format!(
            "template: {}: executing {} at <{}>: {}",
            tree.location(frame.at),
            format::quote(&tree.name),
            tree.show(frame.at),
            message.as_ref()
        )))
    }

    fn walk<'t>(
        &mut self,
        frame: &mut Frame<'t>,
        dot: Dot<'_>,
        list: &'t [Node],
        out: &mut Vec<u8>,
    ) -> Result<Flow> {
        for node in list {
            match node {
                Node::Text(from, to) => {
                    let text = &frame.tree.text.as_bytes()[*from as usize..*to as usize];
                    out.extend_from_slice(text);
                    self.charge(text.len())?;
                }
                Node::Action(pipe) => {
                    self.burn(1)?;
                    frame.at = At::Node(node);
                    let value = self.pipeline(frame, dot, pipe)?;
                    if pipe.decl.is_empty() {
                        let before = out.len();
                        print(out, &value);
                        self.charge(out.len() - before)?;
                    }
                }
                Node::If(branch) | Node::With(branch) => {
                    self.burn(1)?;
                    frame.at = At::Node(node);
                    let value = self.pipeline(frame, dot, &branch.pipe)?;
                    let flow = if value.truth() {
                        let dot = if matches!(node, Node::With(_)) {
                            Dot { value: &value, field: false }
                        } else {
                            dot
                        };
                        self.walk(frame, dot, &branch.list, out)?
                    } else if let Some(list) = &branch.otherwise {
                        self.walk(frame, dot, list, out)?
                    } else {
                        Flow::Next
                    };
                    if !matches!(flow, Flow::Next) {
                        return Ok(flow);
                    }
                }
                Node::Range(branch) => {
                    frame.at = At::Node(node);
                    let flow = self.range(frame, dot, branch, out)?;
                    if !matches!(flow, Flow::Next) {
                        return Ok(flow);
                    }
                }
                Node::Template(call) => {
                    frame.at = At::Node(node);
                    self.template(frame, dot, call, out)?;
                }
                Node::Break => return Ok(Flow::Break),
                Node::Continue => return Ok(Flow::Continue),
            }
        }
        Ok(Flow::Next)
    }

    fn template<'t>(
        &mut self,
        frame: &mut Frame<'t>,
        dot: Dot<'_>,
        call: &'t Call,
        out: &mut Vec<u8>,
    ) -> Result<()> {
        self.burn(1)?;
        let Some(tree) = self.find(&call.name) else {
            return self.fail(frame, format!("template {} not defined", format::quote(&call.name)));
        };
        if self.depth >= MAX_TEMPLATE_DEPTH {
            return self.fail(frame, format!("exceeded maximum template depth ({MAX_TEMPLATE_DEPTH})"));
        }
        let inner = match &call.pipe {
            Some(pipe) => self.pipeline(frame, dot, pipe)?,
            None => Value::Nil,
        };
        self.depth += 1;
        let result = self.run(&tree, &inner, out);
        self.depth -= 1;
        result
    }

    fn range<'t>(
        &mut self,
        frame: &mut Frame<'t>,
        dot: Dot<'_>,
        branch: &'t Branch,
        out: &mut Vec<u8>,
    ) -> Result<Flow> {
        self.burn(1)?;
        let value = self.pipeline(frame, dot, &branch.pipe)?;
        let mut ran = false;
        match &value {
            Value::Int(_) | Value::Int64(_) | Value::Uint64(_) | Value::Duration(_) => {
                let (count, make): (i64, fn(i64) -> Value) = match value {
                    Value::Int(count) => (count, Value::Int),
                    Value::Uint64(count) => {
                        (i64::try_from(count).unwrap_or(i64::MAX), |v| Value::Uint64(v as u64))
                    }
                    Value::Int64(count) | Value::Duration(count) => (count, Value::Int64),
                    _ => (0, Value::Int),
                };
                if branch.pipe.decl.len() > 1 {
                    let shown = format::display(&value);
                    return self
                        .fail(frame, format!("can't use {shown} to iterate over more than one variable"));
                }
                for number in 0..count {
                    ran = true;
                    let flow = self.iterate(frame, branch, Value::Nil, make(number), false, out)?;
                    if let Flow::Break = flow {
                        break;
                    }
                }
            }
            Value::List(list) => {
                let field = list.ty() == ListType::Any;
                for (index, item) in list.items().iter().enumerate() {
                    ran = true;
                    let flow =
                        self.iterate(frame, branch, Value::Int(index as i64), item.clone(), field, out)?;
                    if let Flow::Break = flow {
                        break;
                    }
                }
            }
            Value::Bytes(bytes) => {
                for (index, byte) in bytes.iter().enumerate() {
                    ran = true;
                    let item = Value::Uint64(u64::from(*byte));
                    let flow = self.iterate(frame, branch, Value::Int(index as i64), item, false, out)?;
                    if let Flow::Break = flow {
                        break;
                    }
                }
            }
            Value::Map(map) => {
                let field = matches!(map.ty(), MapType::Any | MapType::Values);
                self.burn(map.len() as u64 / 8)?;
                for (key, item) in map.snapshot() {
                    ran = true;
                    let flow = self.iterate(frame, branch, Value::Str(key), item, field, out)?;
                    if let Flow::Break = flow {
                        break;
                    }
                }
            }
            Value::Nil | Value::NilField => {}
            other => {
                let shown = format::display(other);
                return self.fail(frame, format!("range can't iterate over {shown}"));
            }
        }
        if !ran && let Some(list) = &branch.otherwise {
            return self.walk(frame, dot, list, out);
        }
        Ok(Flow::Next)
    }

    fn iterate<'t>(
        &mut self,
        frame: &mut Frame<'t>,
        branch: &'t Branch,
        index: Value,
        item: Value,
        field: bool,
        out: &mut Vec<u8>,
    ) -> Result<Flow> {
        self.burn(1)?;
        let item = if field { item.into_field() } else { item };
        match branch.pipe.decl.as_slice() {
            [] => {}
            [one] => frame.vars[one.0 as usize] = (item.clone(), field),
            [first, second, ..] => {
                frame.vars[first.0 as usize] = (index, false);
                frame.vars[second.0 as usize] = (item.clone(), field);
            }
        }
        self.walk(frame, Dot { value: &item, field }, &branch.list, out)
    }

    fn pipeline<'t>(&mut self, frame: &mut Frame<'t>, dot: Dot<'_>, pipe: &'t Pipe) -> Result<Value> {
        frame.at = At::Pipe(pipe);
        let mut value: Option<Value> = None;
        for cmd in &pipe.cmds {
            value = Some(self.command(frame, dot, cmd, value)?.unwrap_field());
        }
        let value = value.unwrap_or_default();
        for (slot, _) in &pipe.decl {
            frame.vars[*slot as usize] = (value.clone(), false);
        }
        Ok(value)
    }

    fn command<'t>(
        &mut self,
        frame: &mut Frame<'t>,
        dot: Dot<'_>,
        cmd: &'t Cmd,
        last: Option<Value>,
    ) -> Result<Value> {
        let first = &cmd.args[0];
        match &first.kind {
            ExprKind::Function(function) => {
                frame.at = At::Expr(first);
                self.call(frame, dot, function, At::Cmd(cmd), None, &cmd.args[1..], last)
            }
            ExprKind::Field(fields) => {
                frame.at = At::Expr(first);
                self.chain(frame, dot, dot.value.clone(), dot.field, first, fields, &cmd.args[1..], last)
            }
            ExprKind::Variable { slot, fields, .. } => {
                frame.at = At::Expr(first);
                let (value, field) = frame.vars[*slot as usize].clone();
                if fields.is_empty() {
                    self.not_a_function(frame, cmd, last.as_ref())?;
                    return Ok(value);
                }
                self.chain(frame, dot, value, field, first, fields, &cmd.args[1..], last)
            }
            ExprKind::Chain(base, fields) => {
                frame.at = At::Expr(first);
                let value = self.chain_base(frame, dot, first, base)?;
                self.chain(frame, dot, value, false, first, fields, &cmd.args[1..], last)
            }
            ExprKind::Pipe(pipe) => {
                self.not_a_function(frame, cmd, last.as_ref())?;
                self.pipeline(frame, dot, pipe)
            }
            simple => {
                frame.at = At::Expr(first);
                self.not_a_function(frame, cmd, last.as_ref())?;
                match simple {
                    ExprKind::Bool(value) => Ok(Value::Bool(*value)),
                    ExprKind::Dot => Ok(dot.value.clone()),
                    ExprKind::Text(text, _) => Ok(Value::Str(text.clone())),
                    ExprKind::Number(_) => self.constant(frame, first),
                    _ => self.fail(frame, "nil is not a command"),
                }
            }
        }
    }

    fn not_a_function(&self, frame: &Frame<'_>, cmd: &Cmd, last: Option<&Value>) -> Result<()> {
        if cmd.args.len() > 1 || last.is_some() {
            return self.fail(frame, format!("can't give argument to non-function {}", cmd.args[0]));
        }
        Ok(())
    }

    fn constant(&self, frame: &Frame<'_>, expr: &Expr) -> Result<Value> {
        let ExprKind::Number(number) = &expr.kind else { return Ok(Value::Nil) };
        let hex = number.text.len() > 2
            && (number.text.starts_with("0x") || number.text.starts_with("0X"))
            && !number.text.contains(['p', 'P']);
        let like_float = number.text.contains(['.', 'e', 'E', 'p', 'P']);
        if let Some(float) = number.float
            && !hex
            && !number.text.starts_with('\'')
            && like_float
        {
            return Ok(Value::Float(float));
        }
        match number.int {
            Some(int) => Ok(Value::Int(int)),
            None => self.fail(frame, format!("{} overflows int", number.text)),
        }
    }

    fn chain_base<'t>(
        &mut self,
        frame: &mut Frame<'t>,
        dot: Dot<'_>,
        chain: &'t Expr,
        base: &'t Expr,
    ) -> Result<Value> {
        if let ExprKind::Nil = base.kind {
            return self.fail(frame, format!("indirection through explicit nil in {chain}"));
        }
        frame.at = At::Expr(base);
        match &base.kind {
            ExprKind::Pipe(pipe) => self.pipeline(frame, dot, pipe),
            ExprKind::Function(function) => self.call(frame, dot, function, At::Expr(base), None, &[], None),
            ExprKind::Chain(inner, fields) => {
                let value = self.chain_base(frame, dot, base, inner)?;
                self.chain(frame, dot, value, false, base, fields, &[], None)
            }
            _ => self.fail(frame, "can't evaluate chain"),
        }
    }

    #[expect(clippy::too_many_arguments, reason = "the evaluator's state, always passed on whole")]
    fn chain<'t>(
        &mut self,
        frame: &mut Frame<'t>,
        dot: Dot<'_>,
        mut receiver: Value,
        mut field: bool,
        node: &'t Expr,
        fields: &'t [Str],
        args: &'t [Expr],
        last: Option<Value>,
    ) -> Result<Value> {
        let Some((name, before)) = fields.split_last() else { return Ok(receiver) };
        for name in before {
            receiver = self.field(frame, dot, name, node, &[], None, receiver, &mut field)?;
        }
        self.field(frame, dot, name, node, args, last, receiver, &mut field)
    }

    #[expect(clippy::too_many_arguments, reason = "the evaluator's state, always passed on whole")]
    fn field<'t>(
        &mut self,
        frame: &mut Frame<'t>,
        dot: Dot<'_>,
        name: &'t Str,
        node: &'t Expr,
        args: &'t [Expr],
        last: Option<Value>,
        receiver: Value,
        field: &mut bool,
    ) -> Result<Value> {
        let type_name = |value: &Value| if *field { "interface {}" } else { value.type_name() };
        match &receiver {
            Value::Nil => return Ok(Value::Nil),
            Value::NilField => {
                return self.fail(frame, format!("nil pointer evaluating interface {{}}.{name}"));
            }
            Value::Map(map) => {
                if map.ty() != MapType::Any
                    && let Some(method) = methods::of_map(map.ty(), name)
                {
                    return self.call(frame, dot, method, At::Expr(node), Some(receiver), args, last);
                }
                if !args.is_empty() || last.is_some() {
                    return self.fail(frame, format!("{name} is not a method but has arguments"));
                }
                let found = map.get(name);
                return Ok(match map.ty() {
                    MapType::Any | MapType::Values => {
                        *field = true;
                        found.unwrap_or_default().into_field()
                    }
                    MapType::Str => found.unwrap_or_else(|| Value::str("")),
                    MapType::Files => found.unwrap_or_else(|| Value::Bytes(Arc::new([]))),
                });
            }
            Value::Struct(object) => {
                if let Some(method) = methods::of_struct(object.ty, name) {
                    return self.call(frame, dot, method, At::Expr(node), Some(receiver), args, last);
                }
                if let Some(found) = Struct::field(object, name) {
                    if !args.is_empty() || last.is_some() {
                        return self
                            .fail(frame, format!("{name} has arguments but cannot be invoked as function"));
                    }
                    *field = false;
                    return Ok(found);
                }
            }
            other => {
                if let Some(method) = methods::of_value(other, name) {
                    return self.call(frame, dot, method, At::Expr(node), Some(receiver), args, last);
                }
            }
        }
        let type_name = type_name(&receiver);
        self.fail(frame, format!("can't evaluate field {name} in type {type_name}"))
    }
}

fn no_template(name: &str) -> Fault {
    Fault::Text(format!("template: no template {} associated with template \"gotpl\"", format::quote(name)))
}

/// What is printed for a value that is not there, and taken out again in the end.
pub(crate) const NO_VALUE: &str = "<no value>";

/// The text without the marks of values that are not there.
fn strip_no_value(text: &Str) -> Str {
    if text.contains(NO_VALUE) { text.replace(NO_VALUE, "").into() } else { text.clone() }
}

fn print(out: &mut Vec<u8>, value: &Value) {
    match value {
        Value::Nil => out.extend_from_slice(NO_VALUE.as_bytes()),
        Value::Struct(object) => match object.printed() {
            Some(text) => out.extend_from_slice(text.as_bytes()),
            None => format::print_value(out, value),
        },
        value => format::print_value(out, value),
    }
}
