//! Errors of a command line do not repeat what may be secret: standard error ends up in the logs of CI systems.

use std::ffi::OsString;

use clap::{
    Command,
    error::{ContextKind, ContextValue, ErrorKind},
};

/// Options whose values are secret, without dashes.
const SECRETS: [&str; 8] =
    ["code", "conf", "env", "secret", "secret-answer", "secret-env", "secret-set", "token"];
/// What stands for a value that is not repeated.
const HIDDEN: &str = "…";

/// The error that `args` of `command` led to, without the value that it is about, where that is likely to be a secret: the value
/// of an option that takes one, what was given to a switch, such as a password to `--password-stdin`, and a word too many
/// where a secret is read from elsewhere.
pub fn without_secrets(mut error: clap::Error, command: &Command, args: &[OsString]) -> clap::Error {
    let Some(ContextValue::String(about)) = error.get(ContextKind::InvalidArg).cloned() else { return error };
    let name = about.trim_start_matches('-').split([' ', '=']).next().unwrap_or_default();
    let hidden = || ContextValue::String(HIDDEN.to_owned());
    match error.kind() {
        ErrorKind::UnknownArgument if !about.starts_with('-') && reads_a_secret(command, args) => {
            error.insert(ContextKind::InvalidArg, hidden());
            error.remove(ContextKind::Suggested);
        }
        kind if (SECRETS.contains(&name) || kind == ErrorKind::TooManyValues)
            && error.get(ContextKind::InvalidValue).is_some() =>
        {
            error.insert(ContextKind::InvalidValue, hidden());
        }
        _ => {}
    }
    error
}

/// Whether the command that these arguments name reads secrets from standard input, a terminal or the environment.
fn reads_a_secret(command: &Command, args: &[OsString]) -> bool {
    let mut command = command;
    for word in args.iter().skip(1).filter_map(|word| word.to_str()) {
        command = command.find_subcommand(word).unwrap_or(command);
    }
    command.get_arguments().filter_map(clap::Arg::get_long).any(|long| long.ends_with("stdin"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(line: &str) -> String {
        let mut command = crate::command();
        let args: Vec<OsString> = line.split(' ').map(OsString::from).collect();
        let error = command.try_get_matches_from_mut(&args).unwrap_err();
        without_secrets(error, &command, &args).to_string()
    }

    #[test]
    fn a_value_that_may_be_secret_is_not_repeated() {
        for (line, option) in [
            ("plural cd services update blue/web --conf hunter2", "--conf <NAME=VALUE>"),
            ("plural cd stacks update network --env hunter2", "--env <NAME=VALUE>"),
            ("plural cd stacks update network --secret-env A=hunter2", "--secret-env <NAME[=@FILE]>"),
            (
                "plural cd stacks commands run grow --secret-answer A=hunter2",
                "--secret-answer <NAME[=@FILE]>",
            ),
            ("plural pr create add --secret A=hunter2", "--secret <NAME[=@FILE]>"),
            ("plural login --email ada@example.com --password-stdin=hunter2", "--password-stdin"),
            ("plural cd helm-repositories set https://charts.example.com --bearer=hunter2", "--bearer"),
            (
                "plural cd helm-repositories set https://charts.example.com --bearer hunter2",
                "unexpected argument",
            ),
            ("plural password hunter2", "unexpected argument"),
        ] {
            let told = told(line);
            assert!(told.contains(option) && !told.contains("hunter2"), "{line}: {told}");
        }
        for (line, shown) in [
            ("plural cd services wait blue/web --timeout soon", "'soon'"),
            ("plural cd clusters list green blue", "'green'"),
        ] {
            let told = told(line);
            assert!(told.contains(shown), "{line}: {told}");
        }
    }
}
