//! Runs trees: Go's evaluation, step by step, down to where an error is said to have happened.

mod call;
mod engine;
mod eval;
mod include;

pub(crate) use self::engine::Args;
use self::engine::Result;
pub use self::engine::{Engine, Fault, Limits, Lookup};
use super::{
    ast::{At, Branch, Call, Node, Tree},
    format, strconv,
    value::{ListType, MapType, Value},
};

/// Deepest nesting of templates that call each other with `template`.
const MAX_TEMPLATE_DEPTH: usize = 10_000;
/// Stack that is left when more is taken, and how much is taken.
const STACK_RED_ZONE: usize = 160 << 10;
const STACK_STEP: usize = 2 << 20;

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

impl Engine<'_> {
    /// Runs the template `name` as the outermost one.
    ///
    /// # Errors
    /// Why it stopped.
    pub fn execute(&mut self, name: &str, dot: &Value, out: &mut Vec<u8>) -> Result<()> {
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

    #[expect(clippy::unused_self, reason = "reads as what the engine does")]
    fn fail<T>(&self, frame: &Frame<'_>, message: impl AsRef<str>) -> Result<T> {
        let tree = frame.tree;
        Err(Fault::Exec(format!(
            "template: {}: executing {} at <{}>: {}",
            tree.location(frame.at),
            strconv::quote(&tree.name),
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
            return self.fail(frame, format!("template {} not defined", strconv::quote(&call.name)));
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
            [one] => self.set(frame, one, item.clone(), field)?,
            [first, second, ..] => {
                self.set(frame, first, index, false)?;
                self.set(frame, second, item.clone(), field)?;
            }
        }
        self.walk(frame, Dot { value: &item, field }, &branch.list, out)
    }
}

fn no_template(name: &str) -> Fault {
    Fault::Text(format!("template: no template {} associated with template \"gotpl\"", strconv::quote(name)))
}

/// What is printed for a value that is not there, and taken out again in the end.
pub const NO_VALUE: &str = "<no value>";

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
