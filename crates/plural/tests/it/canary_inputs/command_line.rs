//! A canary in every option, file, pipe and variable of the program that takes a secret, well formed and malformed, from whoever may
//! and who may not: nothing that is printed holds it, and no file that is left behind but the saved login.
//!
//! The options are the command line's own, and those that the roles tell by `--help`. `options.txt` says by name which of them are
//! secret; one that is not in it fails the test, and so does a secret one that no case of [`cases`] is about.
//!
//! One backend is enough: the console only has to be there, and no cluster is asked.

mod cases;

use std::{
    collections::{BTreeMap, BTreeSet},
    os::unix::fs::PermissionsExt as _,
    path::{Path, PathBuf},
};

use clap::{Arg, ArgAction, Command};
use futures::{StreamExt as _, TryStreamExt as _, stream};
use plural_testkit::run_case;

use self::cases::{CASES, Case, OF_ROLES};
use super::{CORE, world};
use crate::{
    asker::{Asker, held, holds_none},
    program::{ConsoleProcess, Done, Home, finish},
    secrets::files,
    world::PASSWORD,
};

const OPTIONS: &str = include_str!("options.txt");
/// Commands that are no person's, with those below them.
const ROLES: [&str; 10] = [
    "console",
    "console reset-password",
    "agent",
    "demo",
    "template helm",
    "template kustomize",
    "template raw",
    "health",
    "kubesim",
    "harness",
];
/// What stands for a canary in cases.
const MARK: &str = "CANARY";
/// What stands for the path of a case's file.
const FILE: &str = "FILE";
/// How many programs run at once.
const AT_ONCE: usize = 4;

/// What an option or argument is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// Its value is a secret, or an address that may hold one.
    Value,
    /// It leads to secrets: in a file, or piped in.
    Elsewhere,
    /// There is none.
    Open,
}

fn table() -> BTreeMap<String, Kind> {
    let lines = OPTIONS.lines().filter(|line| !line.is_empty() && !line.starts_with('#'));
    let row = |line: &str| {
        let (name, kind) = line.rsplit_once(' ').unwrap_or_else(|| panic!("{line}"));
        let kind = match kind {
            "secret" | "url" => Kind::Value,
            "file" | "stdin" => Kind::Elsewhere,
            "open" => Kind::Open,
            other => panic!("{line}: {other}"),
        };
        (name.to_owned(), kind)
    };
    lines.map(row).collect()
}

/// What the table says of `COMMAND NAME`.
fn kind(table: &BTreeMap<String, Kind>, input: &str) -> Option<Kind> {
    let name = input.rsplit(' ').next().unwrap_or_default();
    table.get(input).or_else(|| table.get(name)).copied()
}

fn name(arg: &Arg) -> String {
    if let Some(long) = arg.get_long() {
        return format!("--{long}");
    }
    let shown = arg.get_value_names().and_then(|names| names.first()).map(ToString::to_string);
    shown.unwrap_or_else(|| arg.get_id().as_str().to_uppercase())
}

/// What can be given to the commands of a person, as `COMMAND NAME`, and whether every command takes it.
fn arguments(command: &Command, path: &str, found: &mut BTreeMap<String, bool>) {
    let is_of_clap = |arg: &Arg| {
        matches!(
            arg.get_action(),
            ArgAction::Help | ArgAction::HelpShort | ArgAction::HelpLong | ArgAction::Version
        )
    };
    for arg in command.get_arguments().filter(|arg| !is_of_clap(arg)) {
        found.insert(format!("{path} {}", name(arg)), arg.is_global_set());
    }
    for child in command.get_subcommands().filter(|child| child.get_name() != "help") {
        arguments(child, format!("{path} {}", child.get_name()).trim_start(), found);
    }
}

fn of_persons() -> BTreeMap<String, bool> {
    let mut command = plural_cli::command();
    // Without this, arguments inherited from parents are missing below.
    command.build();
    let mut found = BTreeMap::new();
    arguments(&command, "", &mut found);
    found
}

/// The options of a role, each with the variable that it is read from, as help tells them.
fn told(help: &str) -> Vec<(String, Option<String>)> {
    let mut blocks: Vec<(String, String)> = Vec::new();
    for line in help.lines().map(str::trim) {
        let long = line.split([' ', ',', '=', '[']).find(|word| word.starts_with("--") && word.len() > 2);
        if let Some(long) = long.filter(|_| line.starts_with('-')) {
            blocks.push((long.to_owned(), line.to_owned()));
        } else if let Some((_, text)) = blocks.last_mut() {
            // Lines are broken wherever there is a space.
            *text = format!("{text} {line}");
        }
    }
    blocks.retain(|(name, _)| !["--help", "--version"].contains(&name.as_str()));
    let variable = |text: &str| {
        let (_, rest) = text.split_once("[env: ")?;
        rest.split(['=', ']']).next().map(str::to_owned)
    };
    blocks.into_iter().map(|(name, text)| (name, variable(&text))).collect()
}

async fn help(home: &Home, command: &str, variables: &[(String, String)]) -> anyhow::Result<String> {
    let words: Vec<&str> = command.split(' ').filter(|word| !word.is_empty()).chain(["--help"]).collect();
    let mut plural = home.plural(&words);
    plural.envs(variables.iter().map(|(name, value)| (name, value)));
    let done = finish(plural).await?;
    anyhow::ensure!(done.code == Some(0) && done.err.is_empty(), "{command}: {done:?}");
    Ok(done.out)
}

#[test]
fn every_option_is_named_and_every_secret_one_has_a_case() {
    run_case(async {
        let home = Home::new()?;
        let table = table();
        let of_persons = of_persons();
        let mut inputs: BTreeSet<String> = of_persons.keys().cloned().collect();
        let mut of_roles = BTreeSet::new();
        for role in ROLES {
            for (name, _) in told(&help(&home, role, &[]).await?) {
                inputs.insert(format!("{role} {name}"));
                of_roles.insert(name);
            }
        }
        assert!(inputs.len() > 600 && of_roles.len() > 60, "{} {}", inputs.len(), of_roles.len());
        let missing: Vec<_> = inputs.iter().filter(|input| kind(&table, input).is_none()).collect();
        assert!(missing.is_empty(), "say in options.txt whether these are secret: {missing:?}");
        let is_used = |row: &str| {
            inputs.contains(row) || inputs.iter().any(|input| input.ends_with(&format!(" {row}")))
        };
        let gone: Vec<_> = table.keys().filter(|row| !is_used(row.as_str())).collect();
        assert!(gone.is_empty(), "options.txt has options that there are not: {gone:?}");

        // No command is left out of what was looked at.
        let top = help(&home, "", &[]).await?;
        let listed =
            top.lines().skip_while(|line| *line != "Commands:").skip(1).take_while(|line| !line.is_empty());
        let listed: BTreeSet<&str> = listed
            .filter(|line| line.starts_with("  ") && !line.starts_with("   "))
            .filter_map(|line| line.split_whitespace().next())
            .collect();
        let command = plural_cli::command();
        let mut known: BTreeSet<&str> = command.get_subcommands().map(Command::get_name).collect();
        known.extend(ROLES.iter().filter_map(|role| role.split(' ').next()));
        let unknown: Vec<_> =
            listed.iter().filter(|name| **name != "help" && !known.contains(*name)).collect();
        assert!(listed.contains("console") && unknown.is_empty(), "{unknown:?} of {listed:?}");

        let given: BTreeSet<String> =
            CASES.iter().chain(OF_ROLES).map(|case| format!("{} {}", case.command, case.option)).collect();
        let options: BTreeSet<&str> = CASES.iter().chain(OF_ROLES).map(|case| case.option).collect();
        let is_secret = |input: &str| kind(&table, input).is_some_and(|kind| kind != Kind::Open);
        let own = of_persons.iter().filter(|(_, everywhere)| !**everywhere).map(|(input, _)| input);
        let without: Vec<_> =
            own.filter(|input| is_secret(input.as_str()) && !given.contains(input.as_str())).collect();
        assert!(without.is_empty(), "no case is about these: {without:?}");
        let names = table.iter().filter(|(name, kind)| **kind != Kind::Open && !name.contains(' '));
        let without: Vec<_> = names.filter(|(name, _)| !options.contains(name.as_str())).collect();
        assert!(without.is_empty(), "no case is about these: {without:?}");
        for Case { command, option, rest, file, piped, variables } in CASES.iter().chain(OF_ROLES) {
            let planted = [*rest, *file, *piped].iter().any(|text| text.contains(MARK))
                || variables.iter().any(|(_, value)| value.contains(MARK));
            assert!(planted, "{command} {option} has no canary");
            let is_there = !option.starts_with("--") || rest.split([' ', '=']).any(|word| word == *option);
            assert!(is_there, "{command} {rest} has no {option}");
        }
        anyhow::Ok(())
    });
}

/// Help shows what a variable holds unless an option says otherwise.
#[test]
fn help_shows_no_secret_of_the_environment() {
    run_case(async {
        let home = Home::new()?;
        let table = table();
        let mut looked_at = 0;
        for role in ROLES {
            let options = told(&help(&home, role, &[]).await?);
            let secret = options
                .iter()
                .filter(|(name, _)| kind(&table, &format!("{role} {name}")) == Some(Kind::Value));
            let variables: Vec<(String, String)> =
                secret.filter_map(|(_, variable)| Some((variable.clone()?, CORE.to_owned()))).collect();
            looked_at += variables.len();
            let shown = help(&home, role, &variables).await?;
            holds_none(&format!("{role} --help"), shown.as_bytes(), &[("canary", CORE.to_owned())]);
        }
        // The search finds what is there.
        let shown = help(&home, "console", &[("PLURAL_PUBLIC_URL".to_owned(), CORE.to_owned())]).await?;
        assert!(shown.contains(CORE) && looked_at >= 14, "{looked_at}: {shown}");
        anyhow::Ok(())
    });
}

/// A run of the program: as whom, and how it is called in messages.
struct Run {
    about: String,
    is_admin: bool,
    program: tokio::process::Command,
}

/// A folder for what the test itself writes: it is not searched.
struct Inputs {
    folder: tempfile::TempDir,
}

impl Inputs {
    fn write(&self, name: &str, text: &str) -> anyhow::Result<PathBuf> {
        let path = self.folder.path().join(name);
        std::fs::write(&path, text.replace(MARK, CORE))?;
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600))?;
        Ok(path)
    }

    /// The program with what a case gives to it.
    fn program(
        &self,
        home: &Home,
        number: usize,
        case: &Case,
        more: &[&str],
    ) -> anyhow::Result<tokio::process::Command> {
        let file = self.write(&format!("file-{number}"), case.file)?.display().to_string();
        let words = case.command.split(' ').chain(case.rest.split(' ')).filter(|word| !word.is_empty());
        let words: Vec<String> = words.map(|word| word.replace(FILE, &file).replace(MARK, CORE)).collect();
        let words: Vec<&str> = words.iter().map(String::as_str).chain(more.iter().copied()).collect();
        let mut program = home.plural(&words);
        let piped = case.piped.replace("PASSWORD", PASSWORD);
        program.stdin(std::fs::File::open(self.write(&format!("piped-{number}"), &piped)?)?);
        program.envs(case.variables.iter().map(|(name, value)| (name, value.replace(MARK, CORE))));
        program.env("RUST_LOG", "trace").env("RUST_BACKTRACE", "full");
        Ok(program)
    }
}

/// What was printed, if it holds a canary.
fn fault(about: &str, done: &Done) -> Option<String> {
    let canaries = [("canary", CORE.to_owned())];
    let streams = [("stdout", &done.out), ("stderr", &done.err)];
    streams.into_iter().find_map(|(name, text)| {
        held(text.as_bytes(), &canaries).map(|found| format!("{name} of {about}: {found}"))
    })
}

#[test]
fn attack_19_what_is_given_to_the_command_line_is_printed_nowhere() {
    run_case(async {
        let home = Home::new()?;
        let inputs = Inputs { folder: tempfile::tempdir()? };
        let mut console = ConsoleProcess::start(&home, None, "trace").await?;
        let url = console.url();
        let admin = Asker::administrator(&url).await?;
        world(&admin).await?;
        // First: wrong passwords slow down those that come after them.
        a_password_that_works(&inputs, &admin, &url).await?;
        let stranger = admin.user("stranger@example.com").await?;
        let with_output: BTreeSet<String> = of_persons()
            .into_keys()
            .filter_map(|input| input.strip_suffix(" --output").map(str::to_owned))
            .collect();

        let mut runs = Vec::new();
        let people = [("admin", Some(&admin.token)), ("stranger", Some(&stranger.token)), ("nobody", None)];
        for (number, case) in CASES.iter().enumerate() {
            let has_output = with_output.contains(case.command);
            for (who, token) in people {
                let formats: &[&[&str]] =
                    if has_output && who == "admin" { &[&[], &["-o", "json"]] } else { &[&[]] };
                for more in formats {
                    let mut program = inputs.program(&home, number, case, more)?;
                    if !case.rest.contains("://console.invalid") {
                        program.env("PLURAL_CONSOLE_URL", &url);
                    }
                    if let Some(token) = token
                        && !case.variables.iter().any(|(name, _)| *name == "PLURAL_CONSOLE_TOKEN")
                    {
                        program.env("PLURAL_CONSOLE_TOKEN", token);
                    }
                    let about = format!("`{} {}` {more:?} of {who}", case.command, case.rest);
                    runs.push(Run { about, is_admin: who == "admin", program });
                }
            }
        }
        let count = runs.len();
        let ends: Vec<(String, bool, Done)> = stream::iter(runs)
            .map(|Run { about, is_admin, program }| async move {
                anyhow::Ok((about, is_admin, finish(program).await?))
            })
            .buffered(AT_ONCE)
            .try_collect()
            .await?;
        let faults: Vec<String> = ends.iter().filter_map(|(about, _, done)| fault(about, done)).collect();
        assert!(faults.is_empty(), "{}", faults.join("\n"));
        let done = ends.iter().filter(|(_, is_admin, done)| *is_admin && done.code == Some(0)).count();
        println!("{count} runs, {done} of them did something");
        let ends: Vec<String> =
            ends.iter().map(|(about, _, done)| format!("{about}: {:?} {}", done.code, done.err)).collect();
        assert!(done >= 15, "few of them reached what they do: {}", ends.join("\n"));
        assert!(count > done + 60, "few of them are malformed or refused: {}", ends.join("\n"));

        let metrics = console.metrics().await?;
        holds_none("metrics", metrics.as_bytes(), &[("canary", CORE.to_owned())]);
        console.stop();
        nothing_is_left(home.path())?;
        anyhow::Ok(())
    });
}

/// Somebody has the canary for a password, and logs in with it: the saved login is all that is left.
async fn a_password_that_works(inputs: &Inputs, admin: &Asker, url: &str) -> anyhow::Result<()> {
    let home = Home::new()?;
    let changer = admin.user("changer@example.com").await?;
    let change = Case {
        command: "password",
        option: "--stdin",
        rest: "--stdin",
        file: "",
        piped: "PASSWORD\nCANARY works well\n",
        variables: &[],
    };
    let log_in = Case {
        command: "login",
        option: "--password-stdin",
        rest: "--email changer@example.com --password-stdin",
        piped: "CANARY works well\n",
        ..change
    };
    for (number, (case, token)) in [(&change, Some(&changer.token)), (&log_in, None)].into_iter().enumerate()
    {
        let mut program = inputs.program(&home, 10_000 + number, case, &[])?;
        program.env("PLURAL_CONSOLE_URL", url);
        if let Some(token) = token {
            program.env("PLURAL_CONSOLE_TOKEN", token);
        }
        let done = finish(program).await?;
        assert_eq!(done.code, Some(0), "{}: {done:?}", case.command);
        assert_eq!(fault(case.command, &done), None);
    }
    let saved = home.path().join(".plural/profiles.yml");
    assert_eq!(std::fs::metadata(&saved)?.permissions().mode() & 0o777, 0o600);
    let text = std::fs::read_to_string(&saved)?;
    assert!(text.contains("console-"), "there is a login: {text}");
    // Whatever else it prints: not the token that it uses.
    let token = text.split_whitespace().find(|word| word.contains("console-")).unwrap_or_default();
    let token = token.trim_matches(['"', '\'']).to_owned();
    for line in ["whoami", "whoami -o json", "tokens list -o yaml", "cd clusters list -o yaml"] {
        let mut program = home.plural(&line.split(' ').collect::<Vec<_>>());
        program.env("RUST_LOG", "trace");
        let done = finish(program).await?;
        let all = format!("{}{}", done.out, done.err);
        holds_none(line, all.as_bytes(), &[("token", token.clone())]);
    }
    nothing_is_left(home.path())
}

/// What roles are started with, which do not start.
#[test]
fn attack_19_what_is_given_to_a_role_is_printed_nowhere() {
    run_case(async {
        let home = Home::new()?;
        let inputs = Inputs { folder: tempfile::tempdir()? };
        let mut runs = Vec::new();
        for (number, case) in OF_ROLES.iter().enumerate() {
            let mut program = inputs.program(&home, number, case, &[])?;
            program.env("PLURAL_LOG", "trace");
            if case.command.starts_with("console") {
                program.env("PLURAL_DATA_DIR", home.path().join(format!("data-{number}")));
            }
            runs.push((format!("`{} {}`", case.command, case.rest), program));
        }
        let ends: Vec<(String, Done)> = stream::iter(runs)
            .map(|(about, program)| async move { anyhow::Ok((about, finish(program).await?)) })
            .buffered(AT_ONCE)
            .try_collect()
            .await?;
        let faults: Vec<String> = ends.iter().filter_map(|(about, done)| fault(about, done)).collect();
        assert!(faults.is_empty(), "{}", faults.join("\n"));
        for (about, done) in &ends {
            assert!(done.code.is_some_and(|code| code != 0) && !done.err.is_empty(), "{about}: {done:?}");
        }
        nothing_is_left(home.path())?;
        anyhow::Ok(())
    });
}

/// No file below this folder holds a canary; the saved login and keys that were made are files, too.
fn nothing_is_left(home: &Path) -> anyhow::Result<()> {
    let found = files(home);
    assert!(!found.is_empty(), "nothing was left to look at");
    for file in found {
        holds_none(&file.display().to_string(), &std::fs::read(&file)?, &[("canary", CORE.to_owned())]);
    }
    Ok(())
}
