//! Calls of Pulumi and Terraform besides the commands of a run: configuration before, outputs after.

use plural_core::run_call::OutputReport;
use plural_core::stack::StackTool;
use serde_json::{Map, Value};

use crate::{end::End, run::Job};

/// Limit of all outputs of a stack, in bytes.
const OUTPUTS: usize = 4 << 20;
/// What Pulumi prints instead of a secret output.
const SECRET: &str = "[secret]";

impl Job {
    /// Sets Pulumi's variables through its standard input: a list of processes shows no values.
    pub(crate) async fn configure_pulumi(&self, program: &str) -> Result<(), End> {
        for (name, value) in &self.input.spec.variables {
            let text = match value {
                Value::String(text) => text.clone(),
                other => other.to_string(),
            };
            let mut args = vec!["config", "set"];
            if self.secrets.are_in(&text) {
                args.push("--secret");
            }
            args.extend(["--", name.as_str()]);
            self.own(program, &args, Some(&text), OUTPUTS).await?;
        }
        Ok(())
    }

    /// The outputs after an apply; `None` for tools that cannot print them.
    pub(crate) async fn outputs(&self, program: &str) -> Result<Option<Vec<OutputReport>>, End> {
        match self.input.tool {
            StackTool::Terraform | StackTool::Terragrunt => {
                let found = self.object(program, &["output", "-json"]).await?;
                Ok(Some(found.into_iter().map(of_terraform).collect()))
            }
            StackTool::Pulumi => {
                let shown = self.object(program, &["stack", "output", "--json"]).await?;
                let all = self.object(program, &["stack", "output", "--json", "--show-secrets"]).await?;
                let report = |(name, value): (String, Value)| {
                    let secret = shown.get(&name).is_none_or(|shown| *shown == SECRET);
                    OutputReport { name, value, secret }
                };
                Ok(Some(all.into_iter().map(report).collect()))
            }
            StackTool::Ansible | StackTool::Custom => Ok(None),
        }
    }

    async fn object(&self, program: &str, args: &[&str]) -> Result<Map<String, Value>, End> {
        let printed = self.own(program, args, None, OUTPUTS).await?;
        serde_json::from_slice(&printed)
            .map_err(|_| End::failed(format!("`{program} {}` does not print JSON", args.join(" "))))
    }
}

/// An output in Terraform's format.
pub(crate) fn of_terraform((name, mut output): (String, Value)) -> OutputReport {
    let secret = output["sensitive"] != false;
    OutputReport { name, value: output.get_mut("value").map(Value::take).unwrap_or_default(), secret }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_is_not_said_to_be_open_is_secret() {
        for (output, secret) in [
            (json!({"sensitive": false, "value": 1}), false),
            (json!({"sensitive": true, "value": 1}), true),
            (json!({"value": 1}), true),
        ] {
            let OutputReport { name, value, secret: found } = of_terraform(("a".to_owned(), output));
            assert_eq!((name.as_str(), value, found), ("a", json!(1), secret));
        }
    }
}
