//! Where a command reads and writes. Tests give it buffers, the program its own streams.

use std::{
    cell::Cell,
    fmt,
    io::{self, BufRead, IsTerminal, Write},
    path::PathBuf,
    rc::Rc,
};

use crate::{error::CliError, plain::one_line};

/// Looks an environment variable up; an empty one counts as absent.
pub type Variables<'a> = Box<dyn Fn(&str) -> Option<String> + 'a>;

/// The surroundings of one command.
pub struct Terminal<'a> {
    /// Data.
    pub out: &'a mut dyn Write,
    /// Talk.
    pub err: &'a mut dyn Write,
    /// Answers of the person, or a secret piped in.
    pub input: &'a mut dyn BufRead,
    /// Whether a person reads and answers here.
    pub interactive: bool,
    /// The screen that what is printed is shown on; none where it is kept in a file or read by a program.
    pub screen: Option<Screen>,
    /// Environment variables.
    pub variable: Variables<'a>,
}

/// What a person looks at.
#[derive(Debug, Clone, Default)]
pub struct Screen {
    width: Option<usize>,
    /// What is written just now is made by us, colours included.
    painted: Rc<Cell<bool>>,
}

impl Screen {
    /// A screen with so many columns, where that is known.
    pub fn of_width(width: Option<usize>) -> Self {
        Self { width, ..Self::default() }
    }

    pub(crate) fn is_painted(&self) -> bool {
        self.painted.get()
    }
}

impl fmt::Debug for Terminal<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Terminal").field("interactive", &self.interactive).finish_non_exhaustive()
    }
}

impl<'a> Terminal<'a> {
    /// The process's surroundings with these streams.
    pub fn of_process(out: &'a mut dyn Write, err: &'a mut dyn Write, input: &'a mut dyn BufRead) -> Self {
        let interactive = io::stdin().is_terminal() && io::stderr().is_terminal();
        Self {
            out,
            err,
            input,
            interactive,
            screen: io::stdout().is_terminal().then(|| {
                let size = terminal_size::terminal_size_of(io::stdout());
                Screen::of_width(size.map(|(width, _)| usize::from(width.0)))
            }),
            // Empty is unset, but for a token: a secret that is missing must not become the login of whoever saved one here.
            variable: Box::new(|name| {
                std::env::var(name).ok().filter(|value| !value.is_empty() || name == "PLURAL_CONSOLE_TOKEN")
            }),
        }
    }

    /// An environment variable that is set and not empty.
    pub(crate) fn var(&self, name: &str) -> Option<String> {
        (self.variable)(name)
    }

    /// The folder of our own files: `$PLURAL_HOME`, else `~/.plural`.
    pub(crate) fn home(&self) -> Result<PathBuf, CliError> {
        if let Some(folder) = self.var("PLURAL_HOME") {
            return Ok(PathBuf::from(folder));
        }
        match self.var("HOME") {
            Some(home) => Ok(PathBuf::from(home).join(".plural")),
            None => Err(CliError::new("there is no home folder to save the login in")
                .hint("set HOME, or PLURAL_HOME to a folder of your own")),
        }
    }

    /// Columns of the screen: `$COLUMNS`, else as many as it has. None where nobody looks.
    pub(crate) fn width(&self) -> Option<usize> {
        let screen = self.screen.as_ref()?;
        let told = self.var("COLUMNS").and_then(|columns| columns.parse().ok());
        told.or(screen.width).filter(|width| *width > 0)
    }

    /// Whether somebody looks at a screen that shows colours, and wants them.
    pub(crate) fn has_colours(&self) -> bool {
        self.screen.is_some()
            && self.var("NO_COLOR").is_none()
            && self.var("CLICOLOR").as_deref() != Some("0")
            && self.var("TERM").is_some_and(|terminal| terminal != "dumb")
    }

    /// Writes text that may have colours in it. Every word of others in it went through [`one_line`].
    pub(crate) fn paint(&mut self, text: &str) -> Result<(), CliError> {
        let painted = self.screen.as_ref().map(|screen| Rc::clone(&screen.painted));
        if let Some(painted) = &painted {
            painted.set(true);
        }
        let written = self.out.write_all(text.as_bytes());
        if let Some(painted) = &painted {
            painted.set(false);
        }
        Ok(written?)
    }

    /// One line of talk. Further lines, which names and words of others may hold, are indented: none of them looks like one
    /// of ours.
    pub(crate) fn say(&mut self, line: impl fmt::Display) {
        // Talk that nobody can read any more is not worth failing for.
        let _ = writeln!(self.err, "{}", line.to_string().replace('\n', "\n  "));
    }

    /// Whether somebody is here to ask.
    pub(crate) fn is_interactive(&self) -> bool {
        self.interactive
    }

    /// Asks for a line.
    pub(crate) fn ask(&mut self, question: &str) -> Result<String, CliError> {
        if !self.interactive {
            return Err(CliError::usage(format!("{question} is required, but this is not a terminal")));
        }
        write!(self.err, "{question}: ")?;
        self.err.flush()?;
        self.line()
    }

    /// Asks for something that must not be seen.
    pub(crate) fn ask_secret(&mut self, question: &str) -> Result<String, CliError> {
        if !self.interactive {
            return Err(CliError::usage(format!("{question} is required, but this is not a terminal")));
        }
        dialoguer::Password::new()
            .with_prompt(question)
            .interact()
            .map_err(|error| CliError::new(format!("cannot read the answer: {error}")))
    }

    /// One line of input, without its end.
    pub(crate) fn line(&mut self) -> Result<String, CliError> {
        let mut line = String::new();
        // A secret is short; a file piped in by mistake must not fill memory.
        let mut limited = io::Read::take(&mut *self.input, 64 << 10);
        limited.read_line(&mut line)?;
        Ok(line.trim_end_matches(['\r', '\n']).to_owned())
    }

    /// Makes sure that the person means it. `what` is what would be done: "delete context network".
    pub(crate) fn confirm(&mut self, what: &str, yes: bool) -> Result<(), CliError> {
        if yes {
            return Ok(());
        }
        if !self.interactive {
            return Err(CliError::usage(format!("not confirmed: {what}")).hint("re-run with --yes to do it"));
        }
        let mut question = one_line(what);
        if let Some(first) = question.get_mut(..1) {
            first.make_ascii_uppercase();
        }
        write!(self.err, "{question}? [y/N] ")?;
        self.err.flush()?;
        if matches!(self.line()?.trim(), "y" | "Y" | "yes") {
            Ok(())
        } else {
            Err(CliError::new("nothing was changed"))
        }
    }
}
