//! Outputs of tools without a command that prints them: their commands write them to a file, whose path is in the environment.

use std::{
    fs,
    io::Read as _,
    path::{Path, PathBuf},
};

use plural_core::run_call::{InputVariable, OutputReport, RunInput};
use plural_core::stack::StackTool;
use plural_core::stack_run::{RunKind, RunPhase};
use rustix::fs::{Mode, OFlags, open};
use rustix::io::Errno;
use serde_json::Value;

use crate::{end::End, pulumi::of_terraform};

/// The variable with the path of the file.
pub(crate) const VARIABLE: &str = "PLURAL_OUTPUTS";
/// The file, in the folder of the run.
const FILE: &str = "outputs.json";
/// Limit of the file, in bytes.
const MOST: u64 = 1 << 20;
/// Limit of a name in bytes, as the console has it.
const LONGEST_NAME: usize = 255;
/// Secret values that are shorter stand in other texts by chance.
const LEAST_SECRET: usize = 8;

/// The file for the outputs of this Job's commands: for an apply, with a tool that cannot print any.
pub(crate) fn file(input: &RunInput, root: &Path) -> Option<PathBuf> {
    let writes = match input.tool {
        StackTool::Ansible | StackTool::Custom => true,
        StackTool::Terraform | StackTool::Terragrunt | StackTool::Pulumi => false,
    };
    let applies = input.kind == RunKind::Apply && input.phase == RunPhase::Apply;
    (writes && applies).then(|| root.join(FILE))
}

/// The outputs that a successful apply wrote there. Without a file there are none.
///
/// # Errors
/// What is wrong with the file, without any of its content.
pub(crate) fn read(path: &Path) -> Result<Vec<OutputReport>, End> {
    let found = match opened(path) {
        Ok(Some(bytes)) => parse(&bytes),
        Ok(None) => Ok(Vec::new()),
        Err(why) => Err(why),
    };
    found.map_err(|why| {
        End::Failed(format!(
            "the apply itself succeeded, but not its outputs: the file ${VARIABLE} {why}. Write it as `terraform output \
             -json` prints outputs, and run the stack again; until then it has the outputs of before"
        ))
    })
}

/// Its bytes; `None` if it does not exist. The target of a link could be a file that the commands themselves cannot read.
fn opened(path: &Path) -> Result<Option<Vec<u8>>, String> {
    let unreadable = |error: &dyn std::fmt::Display| format!("cannot be read: {error}");
    // A FIFO without a writer does not block this.
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let file = match open(path, flags, Mode::empty()) {
        Ok(file) => fs::File::from(file),
        Err(Errno::NOENT) => return Ok(None),
        Err(Errno::LOOP) => return Err("is a symbolic link, which is not followed".to_owned()),
        Err(error) => return Err(unreadable(&error)),
    };
    if !file.metadata().map_err(|error| unreadable(&error))?.is_file() {
        return Err("is no regular file".to_owned());
    }
    let mut bytes = Vec::new();
    file.take(MOST + 1).read_to_end(&mut bytes).map_err(|error| unreadable(&error))?;
    if bytes.len() as u64 > MOST {
        return Err(format!("is larger than {} MiB", MOST >> 20));
    }
    Ok(Some(bytes))
}

fn parse(bytes: &[u8]) -> Result<Vec<OutputReport>, String> {
    let found: Value = serde_json::from_slice(bytes)
        .map_err(|error| format!("is no JSON (line {}, column {})", error.line(), error.column()))?;
    let Value::Object(found) = found else {
        return Err("is no JSON object with the outputs by their names".to_owned());
    };
    found.into_iter().map(output).collect()
}

/// An output in Terraform's format, or its bare value.
fn output((name, value): (String, Value)) -> Result<OutputReport, String> {
    if name.is_empty() || name.len() > LONGEST_NAME || name.chars().any(char::is_control) {
        return Err(format!(
            "has an output whose name is empty, longer than {LONGEST_NAME} bytes, or has control characters"
        ));
    }
    if value.get("value").is_some() {
        return Ok(of_terraform((name, value)));
    }
    // As a bare value it would be visible to everybody.
    if value.get("sensitive").is_some() {
        return Err(format!("has an output {name:?} with `sensitive` and without `value`"));
    }
    Ok(OutputReport { name, value, secret: false })
}

/// What holds the value of a secret variable is sensitive, whatever the tool says of it.
pub(crate) fn guard(found: &mut [OutputReport], environment: &[InputVariable]) {
    let secrets: Vec<&str> = environment
        .iter()
        .filter(|variable| variable.secret)
        .map(|variable| variable.value.trim())
        .filter(|value| value.len() >= LEAST_SECRET)
        .collect();
    for output in found {
        output.secret = output.secret || secrets.iter().any(|secret| holds(&output.value, secret));
    }
}

fn holds(value: &Value, secret: &str) -> bool {
    match value {
        Value::Null | Value::Bool(_) => false,
        Value::Number(number) => number.to_string().contains(secret),
        Value::String(text) => text.contains(secret),
        Value::Array(items) => items.iter().any(|item| holds(item, secret)),
        Value::Object(fields) => {
            fields.iter().any(|(name, field)| name.contains(secret) || holds(field, secret))
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn read_of(text: &str) -> Result<Vec<(String, Value, bool)>, String> {
        let report = |OutputReport { name, value, secret }| (name, value, secret);
        parse(text.as_bytes()).map(|found| found.into_iter().map(report).collect())
    }

    #[test]
    fn outputs_are_as_terraform_prints_them_or_bare() {
        for (text, value, secret) in [
            (
                r#"{"a": {"value": [1, "ü"], "sensitive": false, "type": ["list", "string"]}}"#,
                json!([1, "ü"]),
                false,
            ),
            (r#"{"a": {"value": "x", "sensitive": true}}"#, json!("x"), true),
            // Secret unless marked otherwise.
            (r#"{"a": {"value": null}}"#, Value::Null, true),
            (r#"{"a": {"value": 1, "sensitive": "no"}}"#, json!(1), true),
            (r#"{"a": "bare"}"#, json!("bare"), false),
            (r#"{"a": {"host": "db", "port": 5432}}"#, json!({"host": "db", "port": 5432}), false),
        ] {
            assert_eq!(read_of(text), Ok(vec![("a".to_owned(), value, secret)]), "{text}");
        }
        assert_eq!(read_of("{}"), Ok(Vec::new()));
    }

    #[test]
    fn what_is_wrong_is_said_without_its_content() {
        let long = format!("{{\"{}\": 1}}", "a".repeat(256));
        for (text, told) in [
            ("", "is no JSON (line 1, column 0)"),
            ("{\"a\": hunter2}", "is no JSON (line 1, column"),
            ("[\"hunter2\"]", "is no JSON object"),
            ("{\"\": 1}", "whose name is empty"),
            ("{\"a\\nb\": 1}", "control characters"),
            (long.as_str(), "longer than 255 bytes"),
            (
                r#"{"a": {"sensitive": true, "vlaue": "hunter2"}}"#,
                "\"a\" with `sensitive` and without `value`",
            ),
        ] {
            let refused = read_of(text).unwrap_err();
            assert!(refused.contains(told) && !refused.contains("hunter2"), "{text}: {refused}");
        }
    }

    #[test]
    fn only_a_file_of_its_own_is_read() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        assert_eq!(opened(&at("none")), Ok(None));
        fs::write(at("file"), "{}").unwrap();
        assert_eq!(opened(&at("file")), Ok(Some(b"{}".to_vec())));
        std::os::unix::fs::symlink(at("file"), at("link")).unwrap();
        assert!(opened(&at("link")).unwrap_err().contains("a symbolic link"));
        for path in [folder.path(), Path::new("/dev/zero")] {
            assert!(opened(path).unwrap_err().contains("no regular file"), "{}", path.display());
        }
        let large = fs::File::create(at("large")).unwrap();
        large.set_len(MOST).unwrap();
        assert!(opened(&at("large")).unwrap().is_some());
        large.set_len(MOST + 1).unwrap();
        assert!(opened(&at("large")).unwrap_err().contains("larger than 1 MiB"));
    }
}
