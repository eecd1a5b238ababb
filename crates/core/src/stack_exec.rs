//! Commands that a user runs on demand in the environment of a stack.
//!
//! A user with the action `stack-exec` chooses every word of them, so they get as few rights as possible: they run in the first Job of
//! the run, which reads the state. They run in the second Job, which writes it, only if the user may also write the stack; and if the stack
//! requires approval, only with that approval.

use std::fmt::Write as _;

use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};
use crate::form::FormAnswer;
use crate::run_call::InputVariable;
use crate::stack_checks::{check_command, check_path};
use crate::stack_run::RunPhase;
use crate::stack_spec::StackApproval;

/// Limit of commands in one run.
const MAX_COMMANDS: usize = 32;
/// Limit of bytes of all commands of a run.
const MAX_BYTES: usize = 64 << 10;
/// Limit of bytes of the commands in the audit log.
const MAX_TOLD: usize = 1024;
/// Least bytes of a secret variable whose value is searched for. A shorter value would match by chance.
const SHORTEST: usize = 4;

const FIELD: &str = "commands";

/// The commands of a run that a user started with them. They are part of the run's snapshot, and sealed with it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ExecCommands {
    /// The Job that runs them.
    pub phase: RunPhase,
    /// In order; the first one that fails ends the run.
    pub commands: Vec<ExecCommand>,
    /// The name that these commands are stored under, if any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub custom: Option<String>,
    /// Answers of the user who started them; their values are in the environment of the run.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub answers: Vec<ExecAnswer>,
}

/// An answer that is in the environment of the commands.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ExecAnswer {
    /// Name of the variable.
    pub name: String,
    /// Its value, unless readers of the stack may not see it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shown: Option<String>,
}

impl From<&FormAnswer> for ExecAnswer {
    fn from(answer: &FormAnswer) -> Self {
        Self { name: answer.name.clone(), shown: (!answer.is_secret()).then(|| answer.value.clone()) }
    }
}

/// A command that a user runs on demand. It does not go through a shell.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ExecCommand {
    /// Program: looked up in PATH.
    pub cmd: String,
    /// Its arguments.
    pub args: Vec<String>,
    /// Folder below the tool's working folder; absent: the working folder.
    pub dir: Option<String>,
    /// It waits for approval if the stack requires that.
    pub approve: bool,
}

impl ExecCommand {
    /// The command as a person would type it.
    fn line(&self) -> String {
        let line = line(&self.cmd, &self.args);
        match &self.dir {
            Some(dir) => format!("(in {}) {line}", quoted(dir)),
            None => line,
        }
    }
}

impl ExecCommands {
    /// These commands, with the most rights that the user can have for them.
    ///
    /// # Errors
    /// [`Error::Invalid`] for invalid commands, and for those that contain the value of a secret variable, which readers of the stack would
    /// see; [`Error::Forbidden`] if an approval would give them rights that the user does not have.
    pub fn asked(
        commands: Vec<ExecCommand>,
        approval: &StackApproval,
        may_write: bool,
        environment: &[InputVariable],
    ) -> Result<Self> {
        check_commands(&commands, environment)?;
        let waits =
            approval.required && (approval.commands || commands.iter().any(|command| command.approve));
        if waits && !may_write {
            return Err(Error::forbidden(
                "commands that wait for approval run with the rights to apply: you need write access to this stack as well",
            ));
        }
        // The stack requires approval and they do not wait for it: they get no more rights than a plan.
        let phase = if may_write && (waits || !approval.required) { RunPhase::Apply } else { RunPhase::Plan };
        Ok(Self { phase, commands, custom: None, answers: Vec::new() })
    }

    /// The same commands, stored under a name and started with these answers.
    #[must_use]
    pub fn started(self, custom: String, answers: &[FormAnswer]) -> Self {
        Self { custom: Some(custom), answers: answers.iter().map(ExecAnswer::from).collect(), ..self }
    }

    /// What people approve: every command, on a line of its own.
    pub fn text(&self) -> String {
        let mut text = match self.phase {
            RunPhase::Plan => "Runs, with the rights to plan:\n".to_owned(),
            RunPhase::Apply => "Would run, with the rights to apply:\n".to_owned(),
        };
        for command in &self.commands {
            let _ = writeln!(text, "  {}", command.line());
        }
        if let Some(custom) = &self.custom {
            let _ = writeln!(text, "Stored as {}", quoted(custom));
        }
        if !self.answers.is_empty() {
            text.push_str("In their environment:\n");
        }
        for ExecAnswer { name, shown } in &self.answers {
            let _ = match shown {
                Some(value) => writeln!(text, "  {name}={}", quoted(value)),
                None => writeln!(text, "  {name} (secret)"),
            };
        }
        text
    }

    /// The text for the audit log: all commands on one line, truncated.
    pub fn told(&self) -> String {
        let lines: Vec<String> = self.commands.iter().map(ExecCommand::line).collect();
        let mut told = match &self.custom {
            Some(custom) => format!("{} ({})", quoted(custom), lines.join("; ")),
            None => lines.join("; "),
        };
        if told.len() > MAX_TOLD {
            told.truncate(told.floor_char_boundary(MAX_TOLD));
            told.push('…');
        }
        told
    }
}

/// Checks the words of commands, and that none contains the value of a secret variable.
pub(crate) fn check_commands(commands: &[ExecCommand], environment: &[InputVariable]) -> Result<()> {
    if commands.is_empty() || commands.len() > MAX_COMMANDS {
        return Err(Error::invalid(FIELD, format!("must be 1 to {MAX_COMMANDS}")));
    }
    let mut bytes = 0;
    for ExecCommand { cmd, args, dir, approve: _ } in commands {
        check_command(FIELD, cmd, args)?;
        if let Some(dir) = dir {
            check_path("commands.dir", dir)?;
        }
        bytes += cmd.len() + args.iter().map(String::len).sum::<usize>();
    }
    if bytes > MAX_BYTES {
        return Err(Error::invalid(FIELD, format!("must not exceed {} KiB together", MAX_BYTES >> 10)));
    }
    let words = || commands.iter().flat_map(|command| [&command.cmd].into_iter().chain(&command.args));
    for InputVariable { name, value, secret } in environment {
        if *secret && value.len() >= SHORTEST && words().any(|word| word.contains(value.as_str())) {
            return Err(Error::invalid(
                FIELD,
                format!(
                    "hold the value of the secret variable {name}, and whoever reads the stack reads its commands: the \
                     command has {name} in its environment"
                ),
            ));
        }
    }
    Ok(())
}

/// Refuses visible answers that contain the value of a secret variable: readers of the stack would see it.
///
/// # Errors
/// [`Error::Invalid`], which names the question and the variable.
pub fn check_shown(answers: &[FormAnswer], environment: &[InputVariable]) -> Result<()> {
    for answer in answers.iter().filter(|answer| !answer.is_secret()) {
        let held = environment.iter().find(|InputVariable { name: _, value, secret }| {
            *secret && value.len() >= SHORTEST && answer.value.contains(value.as_str())
        });
        if let Some(InputVariable { name, .. }) = held {
            return Err(Error::invalid(
                "answers",
                format!(
                    "{} holds the value of the secret variable {name}, and whoever reads the stack reads this answer: the commands \
                     have {name} in their environment",
                    answer.name
                ),
            ));
        }
    }
    Ok(())
}

/// A command as a person would type it.
pub(crate) fn line(cmd: &str, args: &[String]) -> String {
    let mut line = quoted(cmd);
    for arg in args {
        line.push(' ');
        line.push_str(&quoted(arg));
    }
    line
}

/// A word quoted for a shell, so that nobody can mistake it for two words or for another line.
fn quoted(word: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_./:=@%+,".contains(c);
    if !word.is_empty() && word.chars().all(is_plain) {
        return word.to_owned();
    }
    // Characters that reverse the direction of text are not letters.
    if word.chars().any(|c| c.is_control() || !(c.is_ascii() || c.is_alphanumeric())) {
        return format!("$'{}'", word.escape_default());
    }
    format!("'{}'", word.replace('\'', r"'\''"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::ErrorCode;
    use crate::form::QuestionType;

    fn command(words: &[&str]) -> ExecCommand {
        let mut words = words.iter().map(|word| (*word).to_owned());
        ExecCommand { cmd: words.next().unwrap_or_default(), args: words.collect(), ..ExecCommand::default() }
    }

    fn given(phase: RunPhase, commands: Vec<ExecCommand>) -> ExecCommands {
        ExecCommands { phase, commands, custom: None, answers: Vec::new() }
    }

    /// Every case: the user's rights, the stack's approval setting, the command's flag.
    #[test]
    fn commands_have_no_more_rights_than_whoever_asks_and_what_was_agreed_to() {
        for (may_write, required, approve, expected) in [
            (false, false, false, Some(RunPhase::Plan)),
            (false, false, true, Some(RunPhase::Plan)),
            (false, true, false, Some(RunPhase::Plan)),
            (false, true, true, None),
            (true, false, false, Some(RunPhase::Apply)),
            (true, false, true, Some(RunPhase::Apply)),
            (true, true, false, Some(RunPhase::Plan)),
            (true, true, true, Some(RunPhase::Apply)),
        ] {
            let approval = StackApproval { required, ..StackApproval::default() };
            let commands = vec![command(&["ls"]), ExecCommand { approve, ..command(&["make"]) }];
            let asked = ExecCommands::asked(commands, &approval, may_write, &[]);
            match (asked, expected) {
                (Ok(asked), Some(phase)) => {
                    assert_eq!(asked.phase, phase, "{may_write} {required} {approve}");
                }
                (Err(error), None) => assert_eq!(error.code(), ErrorCode::Forbidden),
                (asked, expected) => {
                    panic!("{may_write} {required} {approve}: {asked:?}, and not {expected:?}")
                }
            }
        }
    }

    /// A stack may require approval of all commands; if it requires none for its plans, that has no effect.
    #[test]
    fn a_stack_may_let_no_command_run_that_nobody_agreed_to() {
        let asked = |required, may_write| {
            let approval = StackApproval { required, commands: true, ..StackApproval::default() };
            ExecCommands::asked(vec![command(&["ls"])], &approval, may_write, &[]).map(|asked| asked.phase)
        };
        assert_eq!(asked(true, true).unwrap(), RunPhase::Apply);
        assert_eq!(asked(true, false).unwrap_err().code(), ErrorCode::Forbidden);
        assert_eq!(asked(false, false).unwrap(), RunPhase::Plan);
    }

    #[test]
    fn what_is_no_command_is_refused() {
        let secret =
            InputVariable { name: "TOKEN".to_owned(), value: "hunter2-hunter2".to_owned(), secret: true };
        let refused = |commands: Vec<ExecCommand>| {
            let approval = StackApproval::default();
            let environment = std::slice::from_ref(&secret);
            ExecCommands::asked(commands, &approval, true, environment).unwrap_err().to_string()
        };
        assert!(refused(Vec::new()).contains("1 to 32"));
        assert!(refused(vec![command(&["ls"]); 33]).contains("1 to 32"));
        assert!(refused(vec![command(&[""])]).contains("program"));
        assert!(refused(vec![command(&["ls", "a\0b"])]).contains("arguments"));
        for dir in ["..", "/etc", "a/../../b", "~"] {
            let elsewhere = ExecCommand { dir: Some(dir.to_owned()), ..command(&["ls"]) };
            assert!(refused(vec![elsewhere]).contains("commands.dir"), "{dir}");
        }
        let long = "x".repeat(8 << 10);
        let long: Vec<&str> = std::iter::once("echo").chain(std::iter::repeat_n(long.as_str(), 9)).collect();
        assert!(refused(vec![command(&long)]).contains("64 KiB"));
        let told = refused(vec![command(&["curl", "-H", "Authorization: hunter2-hunter2"])]);
        assert!(told.contains("TOKEN") && !told.contains("hunter2"), "{told}");
        // This one has an invalid name.
        let named = vec![command(&["sh", "-c", "curl -H \"$TOKEN\""])];
        assert!(ExecCommands::asked(named, &StackApproval::default(), true, &[secret]).is_ok());
    }

    /// Two different commands never have the same text: people approve its digest.
    #[test]
    fn what_people_agree_to_says_every_word() {
        let of = |words: &[&str]| given(RunPhase::Apply, vec![command(words)]).text();
        assert_eq!(
            of(&["tofu", "state", "rm", "a.b[\"c d\"]"]),
            "Would run, with the rights to apply:\n  tofu state rm 'a.b[\"c d\"]'\n"
        );
        let all = [
            of(&["rm", "a b"]),
            of(&["rm", "a", "b"]),
            of(&["rm", "a\n  b"]),
            of(&["rm", "a\\n  b"]),
            of(&["rm", "", "ab"]),
            of(&["rm", "ab"]),
            of(&["rm", "'a b'"]),
            of(&["rm", "a\u{202e} b"]),
            of(&["rm", "a\\u{202e} b"]),
        ];
        let different: std::collections::BTreeSet<&String> = all.iter().collect();
        assert_eq!(different.len(), all.len(), "{all:#?}");
        assert!(all.iter().all(|text| text.lines().count() == 2), "{all:#?}");
        let in_folder = ExecCommand { dir: Some("modules/a".to_owned()), ..command(&["ls"]) };
        let commands = given(RunPhase::Plan, vec![in_folder, command(&["pwd"])]);
        assert_eq!(commands.told(), "(in modules/a) ls; pwd");
        let long = given(RunPhase::Plan, vec![command(&["ü".repeat(999).as_str()])]);
        assert!(long.told().len() <= 1027 && long.told().ends_with('…'));
    }

    #[test]
    fn an_answer_that_is_shown_holds_no_secret() {
        let secret =
            InputVariable { name: "TOKEN".to_owned(), value: "hunter2-hunter2".to_owned(), secret: true };
        let plain = InputVariable { secret: false, name: "NOTE".to_owned(), ..secret.clone() };
        let answer = |kind, value: &str| FormAnswer { name: "A".to_owned(), kind, value: value.to_owned() };
        let of = |kind, value, variable: &InputVariable| {
            check_shown(&[answer(kind, value)], std::slice::from_ref(variable))
        };
        let told = of(QuestionType::String, "Bearer hunter2-hunter2", &secret).unwrap_err().to_string();
        assert!(told.contains("A holds") && told.contains("TOKEN") && !told.contains("hunter2"), "{told}");
        of(QuestionType::Password, "hunter2-hunter2", &secret).unwrap();
        of(QuestionType::String, "hunter2", &secret).unwrap();
        of(QuestionType::String, "hunter2-hunter2", &plain).unwrap();
        let short = InputVariable { value: "3".to_owned(), ..secret.clone() };
        of(QuestionType::Int, "3", &short).unwrap();
    }

    /// People approve the answers, too, and never see the secret ones.
    #[test]
    fn what_people_agree_to_says_the_answers() {
        let answer = |name: &str, kind, value: &str| FormAnswer {
            name: name.to_owned(),
            kind,
            value: value.to_owned(),
        };
        let answers = [
            answer("SIZE", QuestionType::Int, "3"),
            answer("NOTE", QuestionType::String, "two\n  words"),
            answer("TOKEN", QuestionType::Password, "hunter2"),
        ];
        let started =
            given(RunPhase::Apply, vec![command(&["make"])]).started("grow it".to_owned(), &answers);
        assert_eq!(
            started.text(),
            "Would run, with the rights to apply:\n  make\nStored as 'grow it'\nIn their environment:\n  SIZE=3\n  \
             NOTE=$'two\\n  words'\n  TOKEN (secret)\n"
        );
        assert_eq!(started.told(), "'grow it' (make)");
        let json = serde_json::to_string(&started).unwrap();
        assert!(!json.contains("hunter2"), "{json}");
        // Commands without a name are stored as before.
        let plain = serde_json::to_value(given(RunPhase::Plan, vec![command(&["ls"])])).unwrap();
        assert!(plain.get("custom").is_none() && plain.get("answers").is_none(), "{plain}");
    }
}
