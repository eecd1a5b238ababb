//! Calls of functions: their arguments, and the types that Go demands of them.

use smallvec::SmallVec;

use super::{Args, Dot, Engine, Fault, Frame, Result};
use crate::{
    ast::{At, Expr, ExprKind},
    funcs::{Action, Func, Ty},
    value::Value,
};

/// Bytes of texts that a function may read for one step.
const FREE_BYTES: usize = 1024;

impl Engine<'_> {
    #[expect(clippy::too_many_arguments, reason = "the evaluator's state, always passed on whole")]
    pub(super) fn call<'t>(
        &mut self,
        frame: &mut Frame<'t>,
        dot: Dot<'_>,
        function: &'static Func,
        node: At<'t>,
        receiver: Option<Value>,
        args: &'t [Expr],
        last: Option<Value>,
    ) -> Result<Value> {
        self.burn(1)?;
        let fixed = function.params.len();
        let count = args.len() + usize::from(last.is_some());
        if function.variadic.is_some() {
            if count < fixed {
                let message = format!(
                    "wrong number of args for {}: want at least {fixed} got {}",
                    function.name,
                    args.len()
                );
                return self.fail(frame, message);
            }
        } else if count != fixed {
            let message = format!("wrong number of args for {}: want {fixed} got {count}", function.name);
            return self.fail(frame, message);
        }
        let ty = |index: usize| match function.params.get(index) {
            Some(ty) => *ty,
            None => function.variadic.unwrap_or(Ty::Any),
        };
        if let Action::Either(wanted) = function.action {
            let mut value = Value::Nil;
            for arg in args {
                value = self.argument(frame, dot, Ty::Reflect, arg)?;
                if value.truth() == wanted {
                    return Ok(value);
                }
            }
            return Ok(last.unwrap_or(value));
        }
        let mut values: Args = SmallVec::new();
        values.extend(receiver);
        for (index, arg) in args.iter().enumerate() {
            let value = self.argument(frame, dot, ty(index), arg)?;
            values.push(value.unwrap_field());
        }
        if let Some(last) = last {
            let last = self.validate(frame, last, ty(count - 1))?;
            values.push(last.unwrap_field());
        }
        // A function may look at every byte of its texts: long ones cost more.
        let bytes: usize = values.iter().filter_map(Value::as_string_bytes).map(<[u8]>::len).sum();
        if bytes > FREE_BYTES {
            self.burn((bytes / FREE_BYTES) as u64)?;
        }
        let result = match function.action {
            Action::Pure(run) => run(&mut values),
            Action::Engine(run) => run(self, &mut values),
            Action::Call => {
                let name = args.first().map_or_else(String::new, ToString::to_string);
                match values.first() {
                    None | Some(Value::Nil) => Err("call of nil".into()),
                    Some(value) => Err(format!("non-function {name} of type {}", value.type_name()).into()),
                }
            }
            Action::Either(_) => Ok(Value::Nil),
        };
        match result {
            Ok(value) => Ok(value),
            Err(Fault::Limit(limit)) => Err(Fault::Limit(limit)),
            Err(Fault::Text(message) | Fault::Exec(message)) => {
                frame.at = node;
                self.fail(frame, format!("error calling {}: {message}", function.name))
            }
        }
    }

    fn argument<'t>(&mut self, frame: &mut Frame<'t>, dot: Dot<'_>, ty: Ty, expr: &'t Expr) -> Result<Value> {
        frame.at = At::Expr(expr);
        let value = match &expr.kind {
            ExprKind::Dot => dot.value.clone(),
            ExprKind::Field(fields) => {
                self.chain(frame, dot, dot.value.clone(), dot.field, expr, fields, &[], None)?
            }
            ExprKind::Variable { slot, name, fields } => {
                let (value, field) = self.variable(frame, *slot, name)?;
                self.chain(frame, dot, value, field, expr, fields, &[], None)?
            }
            ExprKind::Pipe(pipe) => self.pipeline(frame, dot, pipe)?,
            ExprKind::Function(function) => {
                self.call(frame, dot, function, At::Expr(expr), None, &[], None)?
            }
            ExprKind::Chain(base, fields) => {
                let value = self.chain_base(frame, dot, expr, base)?;
                self.chain(frame, dot, value, false, expr, fields, &[], None)?
            }
            ExprKind::Nil => {
                if ty.nilable() {
                    return Ok(Value::Nil);
                }
                return self.fail(frame, format!("cannot assign nil to {}", ty.name()));
            }
            ExprKind::Text(text, _) => {
                return match ty {
                    Ty::Str | Ty::Any | Ty::Reflect => Ok(Value::Str(text.clone())),
                    _ => self.bad_constant(frame, ty, expr),
                };
            }
            ExprKind::Bool(value) => {
                return match ty {
                    Ty::Bool | Ty::Any | Ty::Reflect => Ok(Value::Bool(*value)),
                    _ => self.bad_constant(frame, ty, expr),
                };
            }
            ExprKind::Number(number) => {
                return match (ty, number.int, number.float) {
                    (Ty::Any | Ty::Reflect, ..) => self.constant(frame, expr),
                    (Ty::Int, Some(int), _) => Ok(Value::Int(int)),
                    (Ty::Float, _, Some(float)) => Ok(Value::Float(float)),
                    _ => self.bad_constant(frame, ty, expr),
                };
            }
        };
        self.validate(frame, value, ty)
    }

    fn bad_constant(&self, frame: &Frame<'_>, ty: Ty, expr: &Expr) -> Result<Value> {
        let expected = match ty {
            Ty::Str => "string",
            Ty::Bool => "bool",
            Ty::Int => "integer",
            Ty::Float => "float",
            _ => return self.fail(frame, format!("can't handle {expr} for arg of type {}", ty.name())),
        };
        self.fail(frame, format!("expected {expected}; found {expr}"))
    }

    /// Checks that a value can be given to a parameter.
    fn validate(&self, frame: &Frame<'_>, value: Value, ty: Ty) -> Result<Value> {
        if ty.takes(&value) {
            return Ok(value);
        }
        match value {
            Value::Nil if ty.nilable() => Ok(value),
            Value::Nil => self.fail(frame, format!("invalid value; expected {}", ty.name())),
            value => {
                let found = value.type_name();
                self.fail(frame, format!("wrong type for value; expected {}; got {found}", ty.name()))
            }
        }
    }
}
