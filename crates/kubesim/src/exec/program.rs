//! The few commands that a simulated container knows.
//!
//! A shell knows the same words; in a line they stand one after the other with `;` or `&&` between them, and `>&2` at the end
//! of one sends its output the other way.

use std::time::Duration;

use bytes::Bytes;
use serde_json::{Map, Value, json};
use tokio::sync::mpsc;

use super::{PIECE, Said};

/// What runs, and where.
pub(crate) struct Program {
    pub(crate) command: Vec<String>,
    pub(crate) machine: Machine,
}

/// What a program finds.
pub(crate) struct Machine {
    /// Its host's name: the Pod's.
    pub(crate) host: String,
    /// It has a terminal.
    pub(crate) tty: bool,
    /// What commands print that nobody here knows.
    pub(crate) told: Map<String, Value>,
}

/// How a program ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Exit {
    /// By itself.
    Code(u8),
    /// It was never begun.
    NotFound(String),
}

impl Exit {
    /// As clients read it.
    pub(crate) fn status(&self) -> Value {
        match self {
            Self::Code(0) => json!({"metadata": {}, "status": "Success"}),
            Self::Code(code) => json!({
                "metadata": {}, "status": "Failure", "reason": "NonZeroExitCode",
                "message": format!("command terminated with non-zero exit code: {code}"),
                "details": {"causes": [{"reason": "ExitCode", "message": code.to_string()}]},
            }),
            Self::NotFound(program) => json!({
                "metadata": {}, "status": "Failure", "reason": "InternalError", "code": 500,
                "message": format!(
                    "Internal error occurred: error executing command in container: exec: \"{program}\": executable \
                     file not found in $PATH"
                ),
            }),
        }
    }
}

/// What a program is given and says.
pub(crate) struct Streams {
    stdin: mpsc::Receiver<Bytes>,
    /// What came and was not read.
    rest: Vec<u8>,
    say: mpsc::Sender<Said>,
}

/// Nobody listens any more.
struct Gone;

impl Streams {
    pub(crate) fn new(stdin: mpsc::Receiver<Bytes>, say: mpsc::Sender<Said>) -> Self {
        Self { stdin, rest: Vec::new(), say }
    }

    async fn out(&self, text: impl Into<Bytes>, aside: bool) -> Result<(), Gone> {
        let text = text.into();
        let said = if aside { Said::Err(text) } else { Said::Out(text) };
        self.say.send(said).await.map_err(|_| Gone)
    }

    /// The next bytes; none at the end.
    async fn read(&mut self) -> Option<Vec<u8>> {
        if !self.rest.is_empty() {
            return Some(std::mem::take(&mut self.rest));
        }
        self.stdin.recv().await.map(|piece| piece.to_vec())
    }

    /// The next line with its end; the last one may have none.
    async fn line(&mut self, longest: usize) -> Option<Vec<u8>> {
        let mut line = Vec::new();
        while let Some(piece) = self.read().await {
            line.extend(piece);
            // A terminal ends a line in its own way.
            if let Some(end) = line.iter().position(|byte| matches!(byte, b'\n' | b'\r')) {
                self.rest = line.split_off(end + 1);
                return Some(line);
            }
            if line.len() > longest {
                return Some(line);
            }
        }
        (!line.is_empty()).then_some(line)
    }
}

/// Bytes of a line that a shell takes.
const LONGEST: usize = 64 << 10;

/// Runs a program to its end.
pub(crate) async fn run(program: Program, mut streams: Streams) -> Exit {
    let Program { command, machine } = program;
    let Some(name) = command.first() else { return Exit::NotFound(String::new()) };
    let plain = name.rsplit('/').next().unwrap_or_default();
    let done = match plain {
        "sh" | "bash" | "ash" => match command.get(1).map(String::as_str) {
            Some("-c") => script(&command.get(2).cloned().unwrap_or_default(), &machine, &mut streams).await,
            _ => shell(&machine, &mut streams).await,
        },
        _ => word(&command, false, &machine, &mut streams).await,
    };
    match done {
        // Nobody is left to hear of it.
        Err(Gone) => Exit::Code(137),
        Ok(Some(code)) => Exit::Code(code),
        Ok(None) => Exit::NotFound(name.clone()),
    }
}

/// Reads lines until there are no more, or `exit`.
async fn shell(machine: &Machine, streams: &mut Streams) -> Result<Option<u8>, Gone> {
    let mut last = 0;
    loop {
        if machine.tty {
            streams.out("$ ", false).await?;
        }
        let Some(line) = streams.line(LONGEST).await else { return Ok(Some(last)) };
        if line.contains(&4) {
            return Ok(Some(last));
        }
        if machine.tty {
            // A terminal shows what is typed.
            let shown = String::from_utf8_lossy(&line).trim_end().to_owned();
            streams.out(format!("{shown}\r\n"), false).await?;
        }
        let line = String::from_utf8_lossy(&line).trim().to_owned();
        match line.strip_prefix("exit").map(str::trim) {
            Some("") => return Ok(Some(last)),
            Some(code) if code.bytes().all(|byte| byte.is_ascii_digit()) => {
                return Ok(Some(code.parse().unwrap_or(2)));
            }
            _ => {}
        }
        if !line.is_empty() {
            last = script(&line, machine, streams).await?.unwrap_or(127);
        }
    }
}

/// Does what a line says.
async fn script(line: &str, machine: &Machine, streams: &mut Streams) -> Result<Option<u8>, Gone> {
    let mut last = 0;
    for command in commands(line) {
        let Command { mut words, only_after_success } = command;
        if only_after_success && last != 0 {
            continue;
        }
        let aside = words.last().is_some_and(|word| word == ">&2");
        if aside {
            words.pop();
        }
        match words.first().map(String::as_str) {
            None => {}
            Some("exit") => {
                let code = words.get(1).and_then(|code| code.parse().ok());
                return Ok(Some(code.unwrap_or(last)));
            }
            Some(name) => {
                let name = name.to_owned();
                last = if let Some(code) = word(&words, aside, machine, streams).await? {
                    code
                } else {
                    streams.out(ended(machine, &format!("sh: {name}: not found")), true).await?;
                    127
                };
            }
        }
    }
    Ok(Some(last))
}

/// One command; `None` when nobody here knows it.
async fn word(
    words: &[String],
    aside: bool,
    machine: &Machine,
    streams: &mut Streams,
) -> Result<Option<u8>, Gone> {
    let line = words.join(" ");
    if let Some(told) = machine.told.get(&line).and_then(Value::as_str) {
        streams.out(told.to_owned(), aside).await?;
        return Ok(Some(0));
    }
    let (name, args) = words.split_first().map_or(("", &[][..]), |(name, args)| (name.as_str(), args));
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    match (name.rsplit('/').next().unwrap_or_default(), args.as_slice()) {
        ("true" | ":", _) => {}
        ("false", _) => return Ok(Some(1)),
        ("echo", ["-n", rest @ ..]) => streams.out(rest.join(" "), aside).await?,
        ("echo", rest) => streams.out(ended(machine, &rest.join(" ")), aside).await?,
        ("hostname", []) => streams.out(ended(machine, &machine.host), aside).await?,
        ("tty", []) => {
            let name = if machine.tty { "/dev/pts/0" } else { "not a tty" };
            streams.out(ended(machine, name), aside).await?;
            return Ok(Some(u8::from(!machine.tty)));
        }
        ("sleep", [seconds]) => match seconds.parse::<f64>().map(Duration::try_from_secs_f64) {
            Ok(Ok(wait)) => tokio::time::sleep(wait).await,
            _ => return Ok(Some(1)),
        },
        ("cat", [] | ["-"]) => {
            while let Some(piece) = streams.read().await {
                streams.out(piece, aside).await?;
            }
        }
        ("head", ["-n", count]) => {
            for _ in 0..count.parse::<usize>().unwrap_or_default() {
                let Some(line) = streams.line(LONGEST).await else { break };
                streams.out(line, aside).await?;
            }
        }
        ("head", ["-c", count, "/dev/zero"]) => {
            let mut left = count.parse::<usize>().unwrap_or_default();
            let zeros = Bytes::from(vec![0; PIECE]);
            while left > 0 {
                let piece = zeros.slice(..left.min(PIECE));
                left -= piece.len();
                streams.out(piece, aside).await?;
            }
        }
        _ => return Ok(None),
    }
    Ok(Some(0))
}

/// A line with its end, as a terminal shows it.
fn ended(machine: &Machine, text: &str) -> String {
    if machine.tty { format!("{text}\r\n") } else { format!("{text}\n") }
}

/// A command of a line.
#[derive(Debug, Default, PartialEq, Eq)]
struct Command {
    words: Vec<String>,
    /// It stands behind `&&`.
    only_after_success: bool,
}

/// The commands of a line: words, of which quotes keep blanks together.
fn commands(line: &str) -> Vec<Command> {
    let mut all = vec![Command::default()];
    let mut word: Option<String> = None;
    let mut quote = None;
    let mut letters = line.chars().peekable();
    let end_word = |all: &mut Vec<Command>, word: &mut Option<String>| {
        if let (Some(word), Some(command)) = (word.take(), all.last_mut()) {
            command.words.push(word);
        }
    };
    while let Some(letter) = letters.next() {
        match (quote, letter) {
            (Some(open), _) if open == letter => quote = None,
            (None, '\'' | '"') => {
                quote = Some(letter);
                word.get_or_insert_default();
            }
            (None | Some('"'), '\\') => {
                word.get_or_insert_default().extend(letters.next());
            }
            (None, ';' | '\n') => {
                end_word(&mut all, &mut word);
                all.push(Command::default());
            }
            (None, '&') if letters.peek() == Some(&'&') => {
                letters.next();
                end_word(&mut all, &mut word);
                all.push(Command { only_after_success: true, ..Command::default() });
            }
            (None, blank) if blank.is_whitespace() => end_word(&mut all, &mut word),
            _ => word.get_or_insert_default().push(letter),
        }
    }
    end_word(&mut all, &mut word);
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Exit, output, and what went the other way.
    async fn runs(command: &[&str], input: &str, tty: bool) -> (Exit, String, String) {
        let (typed, stdin) = mpsc::channel(8);
        let (say, mut said) = mpsc::channel(8);
        typed.send(Bytes::from(input.to_owned())).await.unwrap();
        drop(typed);
        let told = json!({"ls /": "bin\netc\n"});
        let machine = Machine { host: "web-0".into(), tty, told: told.as_object().unwrap().clone() };
        let command = command.iter().map(|word| (*word).to_owned()).collect();
        let running = tokio::spawn(run(Program { command, machine }, Streams::new(stdin, say)));
        let (mut out, mut err) = (String::new(), String::new());
        while let Some(said) = said.recv().await {
            match said {
                Said::Out(text) => out.push_str(std::str::from_utf8(&text).unwrap()),
                Said::Err(text) => err.push_str(std::str::from_utf8(&text).unwrap()),
            }
        }
        (running.await.unwrap(), out, err)
    }

    #[tokio::test]
    async fn what_commands_do() {
        for (command, input, expected, code) in [
            (&["echo", "a", "b"][..], "", "a b\n", 0),
            (&["hostname"], "", "web-0\n", 0),
            (&["false"], "", "", 1),
            (&["cat"], "as it is", "as it is", 0),
            (&["head", "-n", "1"], "one\ntwo\n", "one\n", 0),
            (&["ls", "/"], "", "bin\netc\n", 0),
            (&["tty"], "", "not a tty\n", 1),
            (
                &["sh", "-c", "echo 'a  b'; false && echo no; echo \"$x\"; exit 3; echo no"],
                "",
                "a  b\n$x\n",
                3,
            ),
            (&["/bin/sh"], "echo x\nhostname\nexit 2\n", "x\nweb-0\n", 2),
        ] {
            let (exit, out, err) = runs(command, input, false).await;
            assert_eq!((exit, out.as_str(), err.as_str()), (Exit::Code(code), expected, ""), "{command:?}");
        }
        let (exit, out, err) = runs(&["sh", "-c", "nope; echo aside >&2"], "", false).await;
        assert_eq!((exit, out.as_str(), err.as_str()), (Exit::Code(0), "", "sh: nope: not found\naside\n"));
        let (exit, ..) = runs(&["tar", "cf", "-", "x"], "", false).await;
        assert_eq!(exit, Exit::NotFound("tar".into()));
        assert!(exit.status()["message"].as_str().unwrap().contains("\"tar\": executable file not found"));
        let (exit, out, _) = runs(&["bash"], "tty\rexit\r", true).await;
        assert_eq!((exit, out.as_str()), (Exit::Code(0), "$ tty\r\n/dev/pts/0\r\n$ exit\r\n"));
    }
}
