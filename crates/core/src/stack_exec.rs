//! Commands that somebody runs on demand in the environment of a stack.
//!
//! Whoever may run them (the action `stack-exec`) chooses every word, so they get as little as they need: they run in the first Job of
//! the run, which reads the state. In the second, which writes it, they run only where whoever asks may write the stack, too, and a stack
//! that asks for approval lets none of them pass there that nobody agreed to.

use std::fmt::Write as _;

use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};
use crate::form::FormAnswer;
use crate::run_call::InputVariable;
use crate::stack_checks::{check_command, check_path};
use crate::stack_run::RunPhase;
use crate::stack_spec::StackApproval;

/// Commands of one run.
const MAX_COMMANDS: usize = 32;
/// Bytes of all of them.
const MAX_BYTES: usize = 64 << 10;
/// Bytes of what the audit log says of them.
const MAX_TOLD: usize = 1024;
/// Bytes from which on the value of a secret variable is looked for. A shorter one would be found by chance.
const SHORTEST: usize = 4;

const FIELD: &str = "commands";

/// The commands of a run that somebody made with them. They are a part of what the run is made of, and sealed with it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ExecCommands {
    /// The Job that runs them.
    pub phase: RunPhase,
    /// In this order; the first one that fails is the last.
    pub commands: Vec<ExecCommand>,
    /// The name that these commands are stored under, where they are.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub custom: Option<String>,
    /// Variables that whoever started them answered; their values are in the environment of the run.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub answers: Vec<ExecAnswer>,
}

/// An answer that commands have in their environment.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ExecAnswer {
    /// Name of the variable.
    pub name: String,
    /// Its value, where readers of the stack may see it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shown: Option<String>,
}

impl From<&FormAnswer> for ExecAnswer {
    fn from(answer: &FormAnswer) -> Self {
        Self { name: answer.name.clone(), shown: (!answer.is_secret()).then(|| answer.value.clone()) }
    }
}

/// A command that somebody runs on demand. No shell reads it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ExecCommand {
    /// Program: looked up in PATH.
    pub cmd: String,
    /// Its arguments.
    pub args: Vec<String>,
    /// Folder below the one in which the tool runs; absent for that itself.
    pub dir: Option<String>,
    /// It waits for approval where the stack asks for that.
    pub approve: bool,
}

impl ExecCommand {
    /// As a person would type it.
    fn line(&self) -> String {
        let line = line(&self.cmd, &self.args);
        match &self.dir {
            Some(dir) => format!("(in {}) {line}", quoted(dir)),
            None => line,
        }
    }
}

impl ExecCommands {
    /// These commands, with the rights that whoever asks can have for them.
    ///
    /// # Errors
    /// [`Error::Invalid`] for commands that are none or hold the value of a secret variable, which whoever reads the stack would see then,
    /// and [`Error::Forbidden`] where they want an approval after which they would have rights that whoever asks has not.
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
        // Where nobody agrees to them though the stack asks for it, they change nothing that a plan could not.
        let phase = if may_write && (waits || !approval.required) { RunPhase::Apply } else { RunPhase::Plan };
        Ok(Self { phase, commands, custom: None, answers: Vec::new() })
    }

    /// The same, as they are stored under a name and started with these answers.
    #[must_use]
    pub fn started(self, custom: String, answers: &[FormAnswer]) -> Self {
        Self { custom: Some(custom), answers: answers.iter().map(ExecAnswer::from).collect(), ..self }
    }

    /// What people agree to: every command, on a line of its own.
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

    /// What the audit log says: all of them on one line, cut where that is long.
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

/// Checks commands of a run: their words, and that none of these holds the value of a secret variable.
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

/// Refuses answers that are shown and hold the value of a secret variable: whoever reads the stack would see it.
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

/// A word as a shell would take it back: what it shows cannot be taken for two words, or for another line.
fn quoted(word: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_./:=@%+,".contains(c);
    if !word.is_empty() && word.chars().all(is_plain) {
        return word.to_owned();
    }
    // Marks that turn the order of what is shown around are no letters.
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

    /// Every case: who asks, what the stack asks for, what the command says.
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

    /// A stack may ask for approval of all of them; where it asks for none of its plans, that says nothing.
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
        // The name of it is none.
        let named = vec![command(&["sh", "-c", "curl -H \"$TOKEN\""])];
        assert!(ExecCommands::asked(named, &StackApproval::default(), true, &[secret]).is_ok());
    }

    /// Two commands that do other things never read the same: people agree to the digest of this text.
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

    /// People agree to the answers, too, and never see those that are secret.
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
        // Those without a name are stored as before.
        let plain = serde_json::to_value(given(RunPhase::Plan, vec![command(&["ls"])])).unwrap();
        assert!(plain.get("custom").is_none() && plain.get("answers").is_none(), "{plain}");
    }
}
