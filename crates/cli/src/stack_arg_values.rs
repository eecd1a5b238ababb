//! What options of stacks hold besides plain texts: files, secrets, and other stacks with what is taken from them.

use std::path::PathBuf;

use plural_wire::Client;
use serde_json::{Value, json};

use crate::{error::CliError, file, stacks, terminal::Terminal};

/// A stack that another one depends on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Dependency {
    stack: String,
    /// Output and variable.
    outputs: Vec<(String, String)>,
}

pub(crate) fn parse_dependency(text: &str) -> Result<Dependency, String> {
    let (stack, outputs) = text.split_once(':').unwrap_or((text, ""));
    if stack.is_empty() {
        return Err("it must name a stack: STACK or STACK:OUTPUT=VARIABLE".to_owned());
    }
    let output = |text: &str| {
        let (output, variable) = text.split_once('=').unwrap_or((text, text));
        if output.is_empty() || variable.is_empty() {
            return Err(format!("{text:?} must have the form OUTPUT or OUTPUT=VARIABLE"));
        }
        Ok((output.to_owned(), variable.to_owned()))
    };
    let outputs = outputs.split(',').filter(|text| !text.is_empty()).map(output).collect::<Result<_, _>>()?;
    Ok(Dependency { stack: stack.to_owned(), outputs })
}

/// What a stack depends on, as the API names it.
pub(crate) async fn dependencies(given: Vec<Dependency>, client: &Client) -> Result<Vec<Value>, CliError> {
    let mut all = Vec::with_capacity(given.len());
    for Dependency { stack, outputs } in given {
        let id = stacks::find(&stack, client).await?.id;
        let outputs: Vec<Value> = outputs
            .into_iter()
            .map(|(output, variable)| json!({"output": output, "variable": variable}))
            .collect();
        all.push(json!({"stackId": id, "outputs": outputs}));
    }
    Ok(all)
}

/// A variable whose value is read from elsewhere.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct SecretVariable {
    name: String,
    file: Option<PathBuf>,
}

impl SecretVariable {
    /// Its name, and its value from where that is.
    pub(crate) fn read(&self, terminal: &mut Terminal<'_>) -> Result<(String, String), CliError> {
        let Self { name, file } = self;
        let value = match file {
            Some(path) => {
                file::text_or_input("value", path, terminal)?.trim_end_matches(['\r', '\n']).to_owned()
            }
            None if terminal.is_interactive() => terminal.ask_secret(&format!("Value of {name}"))?,
            None => terminal.line()?,
        };
        if value.is_empty() {
            return Err(CliError::usage(format!("the value of {name} is empty")));
        }
        Ok((name.clone(), value))
    }
}

pub(crate) fn parse_secret(text: &str) -> Result<SecretVariable, String> {
    let (name, file) = match text.split_once('=') {
        None => (text, None),
        Some((name, value)) => {
            let at = value.strip_prefix('@').filter(|file| !file.is_empty());
            let file = if value == "-" { Some(value) } else { at };
            let told = || "it must have the form NAME=@FILE, NAME=- or NAME: a value here could be read in the process list";
            (name, Some(PathBuf::from(file.ok_or_else(told)?)))
        }
    };
    if name.is_empty() {
        Err("it must have a name".to_owned())
    } else {
        Ok(SecretVariable { name: name.to_owned(), file })
    }
}

pub(crate) fn parse_file(text: &str) -> Result<(String, PathBuf), String> {
    match text.split_once("=@") {
        Some((path, file)) if !path.is_empty() && !file.is_empty() => {
            Ok((path.to_owned(), PathBuf::from(file)))
        }
        _ => Err("it must have the form PATH=@FILE".to_owned()),
    }
}

pub(crate) fn parse_at(text: &str) -> Result<PathBuf, String> {
    let path = text.strip_prefix('@').unwrap_or(text);
    if path.is_empty() { Err("it must name a file".to_owned()) } else { Ok(PathBuf::from(path)) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_is_not_on_the_command_line() {
        let file = |name: &str, file: &str| SecretVariable { name: name.into(), file: Some(file.into()) };
        assert_eq!(parse_secret("TOKEN=@/run/token"), Ok(file("TOKEN", "/run/token")));
        assert_eq!(parse_secret("TOKEN"), Ok(SecretVariable { name: "TOKEN".into(), file: None }));
        assert_eq!(parse_secret("TOKEN=-"), Ok(file("TOKEN", "-")));
        for wrong in ["", "TOKEN=hunter2", "TOKEN=@", "=@file", "TOKEN="] {
            let refused = parse_secret(wrong).unwrap_err();
            assert!(!refused.contains("hunter2"), "{refused}");
        }
    }

    #[test]
    fn files_are_named_with_what_is_in_them() {
        assert_eq!(parse_file("a/b=@c=@d"), Ok(("a/b".to_owned(), PathBuf::from("c=@d"))));
        assert!(parse_file("a=b").is_err() && parse_file("=@b").is_err());
        assert_eq!(parse_at("@vars.yaml"), Ok(PathBuf::from("vars.yaml")));
        assert_eq!(parse_at("-"), Ok(PathBuf::from("-")));
    }
}
