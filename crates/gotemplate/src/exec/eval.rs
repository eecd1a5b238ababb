//! Values of pipelines: commands, constants, chains of fields.

use std::sync::Arc;

use super::{Dot, Engine, Frame, Result};
use crate::{
    ast::{At, Cmd, Expr, ExprKind, Pipe},
    methods,
    objects::Struct,
    value::{MapType, Str, Value},
};

impl Engine<'_> {
    pub(super) fn pipeline<'t>(
        &mut self,
        frame: &mut Frame<'t>,
        dot: Dot<'_>,
        pipe: &'t Pipe,
    ) -> Result<Value> {
        frame.at = At::Pipe(pipe);
        let mut value: Option<Value> = None;
        for cmd in &pipe.cmds {
            value = Some(self.command(frame, dot, cmd, value)?.unwrap_field());
        }
        let value = value.unwrap_or_default();
        for variable in &pipe.decl {
            self.set(frame, variable, value.clone(), false)?;
        }
        Ok(value)
    }

    /// Sets a variable; `field` says whether the value is a field's.
    pub(super) fn set(
        &self,
        frame: &mut Frame<'_>,
        (slot, name): &(u32, Str),
        value: Value,
        field: bool,
    ) -> Result<()> {
        let Some(place) = frame.vars.get_mut(*slot as usize) else {
            return self.fail(frame, format!("undefined variable: {name}"));
        };
        *place = (value, field);
        Ok(())
    }

    /// The value of a variable, and whether it is a field's.
    pub(super) fn variable(&self, frame: &Frame<'_>, slot: u32, name: &str) -> Result<(Value, bool)> {
        match frame.vars.get(slot as usize) {
            Some(found) => Ok(found.clone()),
            None => self.fail(frame, format!("undefined variable: {name}")),
        }
    }

    pub(super) fn command<'t>(
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
            ExprKind::Variable { slot, name, fields } => {
                frame.at = At::Expr(first);
                let (value, field) = self.variable(frame, *slot, name)?;
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

    pub(super) fn not_a_function(&self, frame: &Frame<'_>, cmd: &Cmd, last: Option<&Value>) -> Result<()> {
        if cmd.args.len() > 1 || last.is_some() {
            return self.fail(frame, format!("can't give argument to non-function {}", cmd.args[0]));
        }
        Ok(())
    }

    pub(super) fn constant(&self, frame: &Frame<'_>, expr: &Expr) -> Result<Value> {
        let ExprKind::Number(number) = &expr.kind else { return Ok(Value::Nil) };
        if let Some((real, imaginary)) = number.complex {
            return Ok(Value::Complex(real, imaginary));
        }
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

    pub(super) fn chain_base<'t>(
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
    pub(super) fn chain<'t>(
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
    pub(super) fn field<'t>(
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
