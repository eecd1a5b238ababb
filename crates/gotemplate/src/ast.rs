//! A parsed template: what runs, and enough of how it was written to say where it failed.

use std::fmt::{self, Write as _};

use super::{funcs::Func, value::Str};

/// A named template.
#[derive(Debug)]
pub struct Tree {
    /// Its own name.
    pub(crate) name: Str,
    /// Name of the text it stands in.
    pub(crate) file: Str,
    /// That whole text.
    pub(crate) text: Str,
    pub(crate) root: Vec<Node>,
    /// How many variables it needs at once.
    pub(crate) slots: usize,
}

#[derive(Debug)]
pub(crate) enum Node {
    /// Bytes from..to of the text.
    Text(u32, u32),
    Action(Pipe),
    If(Branch),
    With(Branch),
    Range(Branch),
    Template(Call),
    Break,
    Continue,
}

#[derive(Debug)]
pub(crate) struct Branch {
    pub(crate) pos: u32,
    pub(crate) pipe: Pipe,
    pub(crate) list: Vec<Node>,
    pub(crate) otherwise: Option<Vec<Node>>,
}

/// `{{ template "name" pipe }}`
#[derive(Debug)]
pub(crate) struct Call {
    pub(crate) pos: u32,
    pub(crate) name: Str,
    pub(crate) pipe: Option<Pipe>,
}

#[derive(Debug)]
pub(crate) struct Pipe {
    pub(crate) pos: u32,
    pub(crate) assign: bool,
    pub(crate) decl: Vec<(u32, Str)>,
    pub(crate) cmds: Vec<Cmd>,
}

#[derive(Debug)]
pub(crate) struct Cmd {
    pub(crate) pos: u32,
    /// Never empty.
    pub(crate) args: Vec<Expr>,
}

#[derive(Debug)]
pub(crate) struct Expr {
    pub(crate) pos: u32,
    pub(crate) kind: ExprKind,
}

#[derive(Debug)]
pub(crate) enum ExprKind {
    Dot,
    Nil,
    Bool(bool),
    Number(Number),
    /// The text, and how it was written when that is not the text between quotes.
    Text(Str, Option<Str>),
    Field(Vec<Str>),
    Variable {
        slot: u32,
        name: Str,
        fields: Vec<Str>,
    },
    Chain(Box<Expr>, Vec<Str>),
    Function(&'static Func),
    Pipe(Box<Pipe>),
}

#[derive(Debug)]
pub(crate) struct Number {
    pub(crate) text: Str,
    pub(crate) int: Option<i64>,
    pub(crate) float: Option<f64>,
    /// Real and imaginary part of a number that is written with `i`.
    pub(crate) complex: Option<(f64, f64)>,
}

/// The slot of a variable that Go's parser knows and that is not set when it is used: reading or assigning it fails.
pub(crate) const UNSET: u32 = u32::MAX;

/// Some part of a tree, for error texts.
#[derive(Debug, Clone, Copy)]
pub(crate) enum At<'t> {
    Expr(&'t Expr),
    Cmd(&'t Cmd),
    Pipe(&'t Pipe),
    Node(&'t Node),
}

impl Tree {
    /// Whether it consists of white space and definitions only.
    pub(crate) fn is_empty(&self) -> bool {
        self.root.iter().all(|node| match node {
            Node::Text(from, to) => self.text[*from as usize..*to as usize].trim().is_empty(),
            _ => false,
        })
    }

    /// `file:line:column` of a part of it.
    pub(crate) fn location(&self, at: At<'_>) -> String {
        let pos = at.pos() as usize;
        let before = &self.text.as_bytes()[..pos.min(self.text.len())];
        let line = 1 + memchr::memchr_iter(b'\n', before).count();
        let column = before.iter().rposition(|b| *b == b'\n').map_or(pos, |at| pos - at - 1);
        format!("{}:{line}:{column}", self.file)
    }

    /// A part of it, written as Go writes it.
    pub(crate) fn show(&self, at: At<'_>) -> String {
        let mut out = String::new();
        let _ = match at {
            At::Expr(expr) => write!(out, "{expr}"),
            At::Cmd(cmd) => write!(out, "{cmd}"),
            At::Pipe(pipe) => write!(out, "{pipe}"),
            At::Node(node) => self.show_node(&mut out, node),
        };
        out
    }

    fn show_list(&self, out: &mut String, list: &[Node]) -> fmt::Result {
        list.iter().try_for_each(|node| self.show_node(out, node))
    }

    fn show_node(&self, out: &mut String, node: &Node) -> fmt::Result {
        let mut branch = |name: &str, branch: &Branch| {
            write!(out, "{{{{{name} {}}}}}", branch.pipe)?;
            self.show_list(out, &branch.list)?;
            if let Some(list) = &branch.otherwise {
                out.write_str("{{else}}")?;
                self.show_list(out, list)?;
            }
            out.write_str("{{end}}")
        };
        match node {
            Node::Text(from, to) => out.write_str(&self.text[*from as usize..*to as usize]),
            Node::Action(pipe) => write!(out, "{{{{{pipe}}}}}"),
            Node::If(inner) => branch("if", inner),
            Node::With(inner) => branch("with", inner),
            Node::Range(inner) => branch("range", inner),
            Node::Template(Call { name, pipe, .. }) => {
                write!(out, "{{{{template {}", super::strconv::quote(name))?;
                if let Some(pipe) = pipe {
                    write!(out, " {pipe}")?;
                }
                out.write_str("}}")
            }
            Node::Break => out.write_str("{{break}}"),
            Node::Continue => out.write_str("{{continue}}"),
        }
    }
}

impl At<'_> {
    fn pos(self) -> u32 {
        match self {
            At::Expr(expr) => expr.pos,
            At::Cmd(cmd) => cmd.pos,
            At::Pipe(pipe) => pipe.pos,
            At::Node(node) => match node {
                Node::Text(from, _) => *from,
                Node::Action(pipe) => pipe.pos,
                Node::If(branch) | Node::With(branch) | Node::Range(branch) => branch.pos,
                Node::Template(call) => call.pos,
                Node::Break | Node::Continue => 0,
            },
        }
    }
}

fn show_fields(f: &mut fmt::Formatter<'_>, fields: &[Str]) -> fmt::Result {
    fields.iter().try_for_each(|field| write!(f, ".{field}"))
}

impl fmt::Display for Expr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.kind {
            ExprKind::Dot => f.write_str("."),
            ExprKind::Nil => f.write_str("nil"),
            ExprKind::Bool(value) => write!(f, "{value}"),
            ExprKind::Number(number) => f.write_str(&number.text),
            ExprKind::Text(_, Some(written)) => f.write_str(written),
            ExprKind::Text(text, None) => write!(f, "\"{text}\""),
            ExprKind::Field(fields) => show_fields(f, fields),
            ExprKind::Variable { name, fields, .. } => {
                f.write_str(name)?;
                show_fields(f, fields)
            }
            ExprKind::Chain(base, fields) => {
                match &base.kind {
                    ExprKind::Pipe(pipe) => write!(f, "({pipe})")?,
                    _ => write!(f, "{base}")?,
                }
                show_fields(f, fields)
            }
            ExprKind::Function(function) => f.write_str(function.name),
            ExprKind::Pipe(pipe) => write!(f, "{pipe}"),
        }
    }
}

impl fmt::Display for Cmd {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, arg) in self.args.iter().enumerate() {
            if index > 0 {
                f.write_str(" ")?;
            }
            match &arg.kind {
                ExprKind::Pipe(pipe) => write!(f, "({pipe})")?,
                _ => write!(f, "{arg}")?,
            }
        }
        Ok(())
    }
}

impl fmt::Display for Pipe {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, (_, name)) in self.decl.iter().enumerate() {
            write!(f, "{}{name}", if index > 0 { ", " } else { "" })?;
        }
        if !self.decl.is_empty() {
            f.write_str(if self.assign { " = " } else { " := " })?;
        }
        for (index, cmd) in self.cmds.iter().enumerate() {
            write!(f, "{}{cmd}", if index > 0 { " | " } else { "" })?;
        }
        Ok(())
    }
}
