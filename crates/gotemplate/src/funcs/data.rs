//! Defaults, types and chance.

use super::{Func, Ty, convert, convert::is_empty, take, text};
use crate::value::{Value, deep_copy, deep_equal};

pub(super) static FUNCS: &[Func] = &[
    Func::many("default", &[Ty::Any], Ty::Any, |args| {
        let given = args.get(1).is_some_and(|given| !is_empty(given));
        Ok(take(args, usize::from(given)))
    }),
    Func::pure("empty", &[Ty::Any], |args| Ok(Value::Bool(is_empty(&args[0])))),
    Func::many("coalesce", &[], Ty::Any, |args| {
        Ok(args.iter().position(|arg| !is_empty(arg)).map(|at| take(args, at)).unwrap_or_default())
    }),
    Func::many("all", &[], Ty::Any, |args| Ok(Value::Bool(args.iter().all(|arg| !is_empty(arg))))),
    Func::many("any", &[], Ty::Any, |args| Ok(Value::Bool(args.iter().any(|arg| !is_empty(arg))))),
    Func::pure("ternary", &[Ty::Any, Ty::Any, Ty::Bool], |args| {
        let yes = matches!(args[2], Value::Bool(true));
        Ok(take(args, usize::from(!yes)))
    }),
    Func::pure("typeOf", &[Ty::Any], |args| Ok(args[0].type_name().into())),
    Func::pure("typeIs", &[Ty::Str, Ty::Any], |args| Ok((text(args, 0) == args[1].type_name()).into())),
    Func::pure("typeIsLike", &[Ty::Str, Ty::Any], |args| {
        let wanted = text(args, 0);
        let found = args[1].type_name();
        Ok((wanted == found || found.strip_prefix('*').is_some_and(|found| wanted == found)).into())
    }),
    Func::pure("kindOf", &[Ty::Any], |args| Ok(args[0].kind().into())),
    Func::pure("kindIs", &[Ty::Str, Ty::Any], |args| Ok((text(args, 0) == args[1].kind()).into())),
    Func::pure("deepEqual", &[Ty::Any, Ty::Any], |args| Ok(deep_equal(&args[0], &args[1]).into())),
    Func::pure("deepCopy", &[Ty::Any], copy),
    Func::pure("mustDeepCopy", &[Ty::Any], copy),
    Func::pure("toString", &[Ty::Any], |args| {
        Ok(match &args[0] {
            Value::Str(_) | Value::Raw(_) => take(args, 0),
            other => Value::string_of(convert::bytes_of(other)),
        })
    }),
    Func::pure("hello", &[], |_| Ok("Hello!".into())),
    Func::pure("getHostByName", &[Ty::Str], |_| Ok("".into())),
];

fn copy(args: &mut [Value]) -> Result<Value, super::Fault> {
    if args[0].is_nil() {
        return Err("reflect: call of reflect.Value.Type on zero Value".into());
    }
    deep_copy(&args[0]).ok_or_else(|| "the value holds itself".into())
}
