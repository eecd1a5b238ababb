//! Definitions of stacks: named steps and an image that many `CUSTOM` stacks use.
//!
//! A stack names its definition and has no commands of its own. Its runs take what the definition says when they are made.

use std::borrow::Cow;

use chrono::{DateTime, Utc};
use uuid::Uuid;

use crate::error::{Error, Result};
use crate::ids::{StackDefinitionId, UserId};
use crate::name::Name;
use crate::page::Keyed;
use crate::stack::StackTool;
use crate::stack_spec::{StackCommand, StackConfiguration, StackSpec};

/// Bytes of a description.
const MAX_DESCRIPTION: usize = 1024;

/// Named steps and an image.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StackDefinition {
    /// Id.
    pub id: StackDefinitionId,
    /// Unique in the installation.
    pub name: Name,
    /// For people.
    pub description: Option<String>,
    /// What its stacks are run with. Of this, image, version, tag and hooks count.
    pub configuration: StackConfiguration,
    /// The commands of its stacks.
    pub steps: Vec<StackCommand>,
    /// The commands that undo them.
    pub delete_steps: Vec<StackCommand>,
    /// Whoever last changed what its stacks run; absent where nobody of this console did.
    pub changed_by: Option<UserId>,
    /// The same as the audit log names them: a service account together with whoever assumed it.
    pub changed_as: Option<String>,
    /// When it was made.
    pub created_at: DateTime<Utc>,
    /// When it was last changed.
    pub updated_at: DateTime<Utc>,
}

/// What a definition is made from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewStackDefinition {
    /// Unique in the installation.
    pub name: Name,
    /// For people.
    pub description: Option<String>,
    /// What its stacks are run with.
    pub configuration: StackConfiguration,
    /// The commands of its stacks.
    pub steps: Vec<StackCommand>,
    /// The commands that undo them.
    pub delete_steps: Vec<StackCommand>,
}

impl NewStackDefinition {
    /// Checks the document.
    ///
    /// # Errors
    /// [`Error::Invalid`], which names the field.
    pub fn check(&self) -> Result<()> {
        let Self { name: _, description, configuration, steps, delete_steps } = self;
        let is_text = |text: &String| text.len() <= MAX_DESCRIPTION && !text.chars().any(char::is_control);
        if !description.as_ref().is_none_or(is_text) {
            let told = format!("must be a line of at most {MAX_DESCRIPTION} bytes");
            return Err(Error::invalid("attributes.description", told));
        }
        if steps.is_empty() {
            return Err(Error::invalid(
                "attributes.steps",
                "are needed: a definition is what its stacks run",
            ));
        }
        let StackConfiguration {
            image: _,
            version: _,
            tag: _,
            hooks: _,
            terraform,
            terragrunt,
            pulumi,
            ansible,
        } = configuration;
        if terraform.is_some() || terragrunt.is_some() || pulumi.is_some() || ansible.is_some() {
            return Err(Error::invalid(
                "attributes.configuration",
                "has image, version, tag and hooks: the settings of a tool are each stack's own",
            ));
        }
        // As those of a stack, which has other names for the commands.
        let spec = StackSpec {
            configuration: configuration.clone(),
            commands: steps.clone(),
            delete_commands: delete_steps.clone(),
            ..StackSpec::default()
        };
        spec.check(StackTool::Custom).map_err(|error| match error {
            Error::Invalid { field, reason } => {
                let called = match &*field {
                    "attributes.commands" => Some("attributes.steps"),
                    "attributes.deleteCommands" => Some("attributes.deleteSteps"),
                    _ => None,
                };
                Error::Invalid { field: called.map_or(field, Cow::Borrowed), reason }
            }
            error => error,
        })
    }
}

impl StackDefinition {
    /// Its stacks run the same when it becomes the other.
    pub fn runs_as(&self, other: &NewStackDefinition) -> bool {
        (&self.configuration, &self.steps, &self.delete_steps)
            == (&other.configuration, &other.steps, &other.delete_steps)
    }

    /// A stack's document with what the definition gives it: its commands, and an image and hooks where the stack has none.
    ///
    /// # Errors
    /// [`Error::Invalid`] for a stack that has commands of its own.
    pub fn laid_under(&self, spec: &StackSpec) -> Result<StackSpec> {
        if !spec.commands.is_empty() || !spec.delete_commands.is_empty() {
            return Err(Error::invalid(
                "attributes.definitionId",
                "gives the stack its commands: leave commands and deleteCommands out",
            ));
        }
        let mut laid = spec.clone();
        laid.commands.clone_from(&self.steps);
        laid.delete_commands.clone_from(&self.delete_steps);
        let (is, from) = (&mut laid.configuration, &self.configuration);
        if is.image.is_none() {
            is.image.clone_from(&from.image);
            // A version is one of an image.
            if is.version.is_none() && is.tag.is_none() {
                is.version.clone_from(&from.version);
                is.tag.clone_from(&from.tag);
            }
        }
        if is.hooks.is_empty() {
            is.hooks.clone_from(&from.hooks);
        }
        Ok(laid)
    }
}

impl StackSpec {
    /// Runs by the one are those by the other, as far as a definition has a say in it.
    pub fn runs_as(&self, other: &Self) -> bool {
        (&self.configuration, &self.commands, &self.delete_commands)
            == (&other.configuration, &other.commands, &other.delete_commands)
    }
}

impl Keyed for StackDefinition {
    fn key(&self) -> Uuid {
        self.id.uuid()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn command(cmd: &str) -> StackCommand {
        StackCommand { cmd: cmd.to_owned(), args: Vec::new(), stage: None, approve: false }
    }

    fn new() -> NewStackDefinition {
        NewStackDefinition {
            name: "deploy".parse().unwrap(),
            description: None,
            configuration: StackConfiguration {
                image: Some("a.b/c".to_owned()),
                tag: Some("1".to_owned()),
                ..StackConfiguration::default()
            },
            steps: vec![command("make")],
            delete_steps: vec![command("undo")],
        }
    }

    #[test]
    fn a_stack_has_what_its_definition_says_and_an_image_of_its_own_first() {
        let other = NewStackDefinition { name: "other".parse().unwrap(), ..new() };
        let NewStackDefinition { name, description, configuration, steps, delete_steps } = new();
        let (id, at) = (StackDefinitionId::new(), DateTime::UNIX_EPOCH);
        let definition = StackDefinition {
            id,
            name,
            description,
            configuration,
            steps,
            delete_steps,
            changed_by: None,
            changed_as: None,
            created_at: at,
            updated_at: at,
        };
        assert!(definition.runs_as(&other), "by another name");
        assert!(!definition.runs_as(&NewStackDefinition { delete_steps: Vec::new(), ..other }));
        let mut spec = StackSpec { definition_id: Some(id), ..StackSpec::default() };
        let laid = definition.laid_under(&spec).unwrap();
        assert_eq!((&laid.commands, &laid.delete_commands), (&definition.steps, &definition.delete_steps));
        assert_eq!(laid.configuration, definition.configuration);
        assert_eq!(laid.definition_id, Some(id));
        spec.configuration.image = Some("own".to_owned());
        let laid = definition.laid_under(&spec).unwrap();
        assert_eq!((laid.configuration.image.as_deref(), laid.configuration.tag), (Some("own"), None));
        spec.commands = vec![command("own")];
        let refused = definition.laid_under(&spec).unwrap_err().to_string();
        assert!(refused.contains("attributes.definitionId"), "{refused}");
    }

    #[test]
    fn what_is_no_definition_is_refused() {
        assert!(new().check().is_ok());
        let mut tool = new();
        tool.configuration.terraform = Some(crate::stack_spec::TerraformConfiguration::default());
        for (definition, field) in [
            (NewStackDefinition { steps: Vec::new(), ..new() }, "attributes.steps"),
            (NewStackDefinition { steps: vec![command("")], ..new() }, "attributes.steps"),
            (NewStackDefinition { description: Some("x".repeat(1025)), ..new() }, "attributes.description"),
            (tool, "attributes.configuration"),
        ] {
            let refused = definition.check().unwrap_err().to_string();
            assert!(refused.contains(field), "{field}: {refused}");
        }
    }
}
