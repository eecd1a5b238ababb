//! Runs one command in this process with its own streams, environment and home folder.

use std::{collections::HashMap, ffi::OsString, io::Cursor, path::Path};

use plural_cli::{Screen, Terminal};

/// What a command did.
#[derive(Debug)]
pub(crate) struct Done {
    pub(crate) code: u8,
    pub(crate) out: String,
    pub(crate) err: String,
}

impl Done {
    /// All of it as one text, for golden files.
    pub(crate) fn text(&self) -> String {
        format!("exit code: {}\n--- stdout\n{}--- stderr\n{}", self.code, self.out, self.err)
    }
}

/// The surroundings of the commands of one test.
pub(crate) struct Person {
    home: tempfile::TempDir,
    variables: HashMap<String, String>,
    interactive: bool,
    screen: bool,
    input: String,
}

impl Person {
    /// With an empty home folder and no environment.
    pub(crate) fn new() -> Self {
        let home = tempfile::tempdir().unwrap();
        let variables = HashMap::from([("HOME".to_owned(), home.path().display().to_string())]);
        Self { home, variables, interactive: false, screen: true, input: String::new() }
    }

    /// With the environment of a program that talks to `url`.
    pub(crate) fn of(url: &str) -> Self {
        Self::new().with("PLURAL_CONSOLE_TOKEN", "console-test").with("PLURAL_TEST_URL", url)
    }

    pub(crate) fn with(mut self, name: &str, value: &str) -> Self {
        self.variables.insert(name.into(), value.into());
        self
    }

    /// Someone who answers `input`.
    pub(crate) fn answering(mut self, input: &str) -> Self {
        self.interactive = true;
        self.input = input.into();
        self
    }

    /// Whose output goes into a file.
    pub(crate) fn into_a_file(mut self) -> Self {
        self.screen = false;
        self
    }

    /// Standard input of a program.
    pub(crate) fn piping(mut self, input: &str) -> Self {
        self.interactive = false;
        self.input = input.into();
        self
    }

    pub(crate) fn home(&self) -> &Path {
        self.home.path()
    }

    /// Runs `plural` with the words of `line`. `--url` is added to commands of people with a server.
    pub(crate) async fn run(&self, line: &str) -> Done {
        self.run_words(&line.split_whitespace().collect::<Vec<_>>()).await
    }

    /// The same with words that may have spaces in them.
    pub(crate) async fn run_words(&self, line: &[&str]) -> Done {
        let mut words: Vec<String> = vec!["plural".into()];
        words.extend(line.iter().map(|&word| word.to_owned()));
        if let Some(url) = self.variables.get("PLURAL_TEST_URL") {
            // What is behind `--` is for another program.
            let end = words.iter().position(|word| word == "--").unwrap_or(words.len());
            words.splice(end..end, ["--url".into(), url.clone()]);
        }
        let mut command = plural_cli::command();
        if line.last() != Some(&"--help") {
            // What the developer has set must not decide a test.
            command = without_environment(command);
        }
        let args: Vec<OsString> = words.into_iter().map(OsString::from).collect();
        let matches = match command.try_get_matches_from_mut(&args) {
            Ok(matches) => matches,
            Err(error) => {
                // As the program prints it.
                let error = plural_cli::without_secrets(error, &command, &args);
                let code = u8::try_from(error.exit_code()).unwrap();
                let text = error.render().to_string();
                let (out, err) =
                    if error.use_stderr() { (String::new(), text) } else { (text, String::new()) };
                return Done { code, out, err };
            }
        };
        let (mut out, mut err) = (Vec::new(), Vec::new());
        let mut input = Cursor::new(self.input.clone().into_bytes());
        let mut terminal = Terminal {
            out: &mut out,
            err: &mut err,
            input: &mut input,
            interactive: self.interactive,
            screen: self.screen.then(Screen::default),
            variable: Box::new(|name| self.variables.get(name).cloned()),
        };
        let code = plural_cli::execute(command, &matches, &mut terminal).await;
        drop(terminal);
        let home = self.home.path().display().to_string();
        let read = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap().replace(&home, "~");
        Done { code, out: read(out), err: read(err) }
    }
}

pub(crate) fn without_environment(command: clap::Command) -> clap::Command {
    let names: Vec<String> = command.get_subcommands().map(|child| child.get_name().to_owned()).collect();
    let command = command.mut_args(|arg| arg.env(clap::builder::Resettable::Reset));
    names.into_iter().fold(command, |command, name| command.mut_subcommand(name, without_environment))
}
