//! The process of their own in which the consoles of tests run automations, confined as the program itself is.

use std::{env, ffi::OsStr, path::Path, process::ExitCode};

fn main() -> ExitCode {
    let mut args = env::args_os().skip(1);
    let first = args.next();
    match first.as_deref().and_then(OsStr::to_str) {
        Some("sandbox") => ExitCode::from(plural_sandbox::enter(args)),
        Some("run-automation") => ExitCode::from(plural_scaffold::child(Path::new("."))),
        _ => ExitCode::from(2),
    }
}
