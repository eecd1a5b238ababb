//! Why a command failed, and what to try next.

use std::{fmt, io};

use plural_wire::{ClientError, ErrorCode};

use crate::{flags::Flags, terminal::Terminal};

/// A failed command.
#[derive(Debug)]
pub struct CliError {
    message: String,
    hint: Option<String>,
    kind: Kind,
    /// The console refused an argument.
    of_arguments: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Failed,
    Usage,
    /// Nobody reads our output any more (`plural … | head`), or the exit code is the answer: not worth a word.
    Silent,
    /// What was named is not there, or not for the caller's eyes.
    Missing,
    /// Failed with an exit code of the command's own.
    Code(u8),
    /// This exit code is the answer: not worth a word.
    Answer(u8),
}

impl CliError {
    /// A failure in these words: lower case, no full stop.
    pub(crate) fn new(message: impl Into<String>) -> Self {
        Self { message: message.into(), hint: None, kind: Kind::Failed, of_arguments: false }
    }

    /// A command line that cannot be carried out as it is.
    pub(crate) fn usage(message: impl Into<String>) -> Self {
        Self { kind: Kind::Usage, ..Self::new(message) }
    }

    /// What a person named is not there, or not for their eyes.
    pub(crate) fn missing(what: impl fmt::Display, hint: impl Into<String>) -> Self {
        Self { kind: Kind::Missing, ..Self::new(format!("{what} not found (or you have no access)")) }
            .hint(hint)
    }

    /// Whether what was named is not there.
    pub(crate) fn is_missing(&self) -> bool {
        self.kind == Kind::Missing
    }

    /// A look-up that failed; `missing` are the words where what was looked up is not there.
    pub(crate) fn absent(error: ClientError, missing: impl FnOnce() -> Self) -> Self {
        if error.is_not_found() { missing() } else { error.into() }
    }

    /// An update of one of these `nouns` that names nothing.
    pub(crate) fn unchanged(nouns: &str) -> Self {
        Self::usage("nothing is changed: name something in --file or by a flag")
            .hint(format!("see the examples of `plural cd {nouns} update --help`"))
    }

    /// An update of one of these `nouns` without any flag.
    pub(crate) fn unchanged_flags(nouns: &str) -> Self {
        Self::usage("nothing to change")
            .hint(format!("see the examples of `plural cd {nouns} update --help`"))
    }

    /// An exit code that is an answer, without words.
    pub(crate) fn silent() -> Self {
        Self { kind: Kind::Silent, ..Self::new("") }
    }

    /// The same of another exit code than 1.
    pub(crate) fn answer(code: u8) -> Self {
        Self { kind: Kind::Answer(code), ..Self::new("") }
    }

    /// The same failure with another exit code.
    pub(crate) fn code(self, code: u8) -> Self {
        match self.kind {
            Kind::Silent | Kind::Answer(_) => self,
            Kind::Failed | Kind::Missing | Kind::Usage | Kind::Code(_) => {
                Self { kind: Kind::Code(code), ..self }
            }
        }
    }

    /// The same failure, where it is one of arguments that the console names as its API does, in the words of this command line.
    pub(crate) fn in_words_of(self, flags: &Flags) -> Self {
        if !self.of_arguments {
            return self;
        }
        Self { message: flags.words(&self.message), hint: self.hint.map(|hint| flags.words(&hint)), ..self }
    }

    /// Adds the next step.
    pub(crate) fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    /// What the program's exit code becomes: 1, or 2 for a command line that cannot be understood.
    pub fn exit_code(&self) -> u8 {
        match self.kind {
            Kind::Failed | Kind::Missing | Kind::Silent => 1,
            Kind::Usage => 2,
            Kind::Code(code) | Kind::Answer(code) => code,
        }
    }

    pub(crate) fn print(&self, terminal: &mut Terminal<'_>) {
        if matches!(self.kind, Kind::Silent | Kind::Answer(_)) {
            return;
        }
        terminal.say(format_args!("error: {}", self.message));
        if let Some(hint) = &self.hint {
            terminal.say(format_args!("hint: {hint}"));
        }
    }
}

impl fmt::Display for CliError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for CliError {}

impl From<ClientError> for CliError {
    fn from(error: ClientError) -> Self {
        let of_arguments = error.code() == Some(ErrorCode::Invalid);
        Self { hint: error.hint(), of_arguments, ..Self::new(error.to_string()) }
    }
}

impl From<io::Error> for CliError {
    fn from(error: io::Error) -> Self {
        if error.kind() == io::ErrorKind::BrokenPipe {
            return Self { kind: Kind::Silent, ..Self::new("") };
        }
        Self::new(format!("cannot write the answer: {error}"))
    }
}
