//! Commands of stacks under a name: somebody writes them and their questions once, and others start them with answers.
//!
//! Answers reach the commands as variables of the environment, by the names of their questions. No command's words are ever put together
//! from an answer.

use chrono::{DateTime, Utc};
use uuid::Uuid;

use crate::error::{Error, Result};
use crate::form::{FormQuestion, check_questions};
use crate::ids::{CustomStackRunId, ProjectId, StackId};
use crate::name::Name;
use crate::page::Keyed;
use crate::run_call::InputVariable;
use crate::stack_checks::check_variable_name;
use crate::stack_exec::{ExecCommand, check_commands};

/// Bytes of what explains it.
const MAX_DOCUMENTATION: usize = 16 << 10;

/// Commands under a name, of a stack or of all stacks of a project.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CustomStackRun {
    /// Id.
    pub id: CustomStackRunId,
    /// Where it belongs: the project of its stack, if it has one.
    pub project_id: ProjectId,
    /// The stack that it is of; absent: any of the project.
    pub stack_id: Option<StackId>,
    /// Unique in the project.
    pub name: Name,
    /// What it is for, in Markdown.
    pub documentation: String,
    /// In this order; the first one that fails is the last.
    pub commands: Vec<ExecCommand>,
    /// What whoever starts it is asked.
    pub questions: Vec<FormQuestion>,
    /// When it was made.
    pub created_at: DateTime<Utc>,
    /// When it was last changed.
    pub updated_at: DateTime<Utc>,
}

impl Keyed for CustomStackRun {
    fn key(&self) -> Uuid {
        self.id.uuid()
    }
}

/// What new ones are made from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewCustomStackRun {
    /// Unique in the project.
    pub name: Name,
    /// What it is for.
    pub documentation: String,
    /// The stack that it is of.
    pub stack_id: Option<StackId>,
    /// Without a stack: the project that it is of; else the default one.
    pub project_id: Option<ProjectId>,
    /// The commands.
    pub commands: Vec<ExecCommand>,
    /// What whoever starts it is asked.
    pub questions: Vec<FormQuestion>,
}

/// What changes; `None` leaves a part as it is. It stays where it is.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CustomStackRunChange {
    /// A new name.
    pub name: Option<Name>,
    /// What it is for.
    pub documentation: Option<String>,
    /// Other commands: all of them.
    pub commands: Option<Vec<ExecCommand>>,
    /// Other questions: all of them.
    pub questions: Option<Vec<FormQuestion>>,
}

/// Checks what is given of commands under a name. `environment` is that of their stack, where it is known.
///
/// # Errors
/// [`Error::Invalid`], which names the field.
pub fn check_custom(
    documentation: Option<&str>,
    commands: Option<&[ExecCommand]>,
    questions: Option<&[FormQuestion]>,
    environment: &[InputVariable],
) -> Result<()> {
    if documentation.is_some_and(|text| text.len() > MAX_DOCUMENTATION) {
        let told = format!("must not exceed {} KiB", MAX_DOCUMENTATION >> 10);
        return Err(Error::invalid("attributes.documentation", told));
    }
    if let Some(commands) = commands {
        check_commands(commands, environment)?;
    }
    let Some(questions) = questions else { return Ok(()) };
    check_questions(questions, |name| check_variable_name("attributes.configuration", name))?;
    // The answer would take the place of what the stack says.
    match questions.iter().find(|question| environment.iter().any(|variable| variable.name == question.name))
    {
        Some(question) => Err(Error::invalid(
            "attributes.configuration",
            format!("{} is a variable of the stack already: give the question another name", question.name),
        )),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::form::QuestionType;

    fn question(name: &str) -> FormQuestion {
        FormQuestion {
            name: name.to_owned(),
            kind: QuestionType::String,
            default: None,
            documentation: None,
            longform: None,
            display_name: None,
            placeholder: None,
            page: None,
            optional: false,
            values: Vec::new(),
            condition: None,
            validation: None,
        }
    }

    #[test]
    fn answers_take_no_names_that_are_taken() {
        let environment =
            [InputVariable { name: "REGION".to_owned(), value: "eu".to_owned(), secret: false }];
        for (name, why) in [
            ("REGION", "of the stack already"),
            ("PATH", "the console's"),
            ("LD_PRELOAD", "the console's"),
            ("PLURAL_TOKEN", "the console's"),
            ("image-tag", "letters, digits"),
            ("", "letters, digits"),
        ] {
            let refused = check_custom(None, None, Some(&[question(name)]), &environment);
            let refused = refused.unwrap_err().to_string();
            assert!(
                refused.contains("attributes.configuration") && refused.contains(why),
                "{name}: {refused}"
            );
        }
        check_custom(None, None, Some(&[question("TF_VAR_size")]), &environment).unwrap();
    }

    #[test]
    fn commands_are_checked_as_those_of_a_run() {
        let refused = check_custom(None, Some(&[]), None, &[]).unwrap_err().to_string();
        assert!(refused.contains("1 to 32"), "{refused}");
        let long = "x".repeat(MAX_DOCUMENTATION + 1);
        assert!(check_custom(Some(&long), None, None, &[]).is_err());
    }
}
