//! Errors of a command line do not repeat what may be secret: standard error ends up in the logs of CI systems.

use clap::error::{ContextKind, ContextValue, ErrorKind};

/// Options whose values are secret, without dashes.
const SECRETS: [&str; 3] = ["code", "conf", "token"];
/// What stands for a value that is not repeated.
const HIDDEN: &str = "…";

/// The same error without the value that it is about, where that is likely to be a secret: the value of an option that takes
/// one, and what was given to a switch, such as a password to `--password-stdin`.
pub fn without_secrets(mut error: clap::Error) -> clap::Error {
    let Some(ContextValue::String(option)) = error.get(ContextKind::InvalidArg) else { return error };
    let name = option.trim_start_matches('-').split([' ', '=']).next().unwrap_or_default();
    let is_secret = SECRETS.contains(&name) || error.kind() == ErrorKind::TooManyValues;
    if is_secret && error.get(ContextKind::InvalidValue).is_some() {
        error.insert(ContextKind::InvalidValue, ContextValue::String(HIDDEN.to_owned()));
    }
    error
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(line: &str) -> String {
        let error = crate::command().try_get_matches_from(line.split(' ')).unwrap_err();
        without_secrets(error).to_string()
    }

    #[test]
    fn a_value_that_may_be_secret_is_not_repeated() {
        for (line, option) in [
            ("plural cd services update blue/web --conf hunter2", "--conf <NAME=VALUE>"),
            ("plural login --email ada@example.com --password-stdin=hunter2", "--password-stdin"),
            ("plural cd helm-repositories set https://charts.example.com --bearer=hunter2", "--bearer"),
        ] {
            let told = told(line);
            assert!(told.contains(option) && !told.contains("hunter2"), "{line}: {told}");
        }
        let told = told("plural cd services wait blue/web --timeout soon");
        assert!(told.contains("'soon'") && told.contains("--timeout"), "{told}");
    }
}
