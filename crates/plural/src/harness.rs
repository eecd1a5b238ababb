//! `plural harness`: the only program of the Job of a run of a stack. The agent starts it; nothing that a person calls.

use std::{
    fs,
    io::{Read as _, Write as _},
    os::fd::AsFd as _,
    os::unix::fs::OpenOptionsExt as _,
    path::{Path, PathBuf},
    process::ExitCode,
    time::Duration,
};

use anyhow::Context as _;
use object::{
    Endianness,
    elf::{FileHeader64, PT_INTERP},
    read::elf::{FileHeader as _, ProgramHeader as _},
};
use plural_core::ids::StackRunId;
use plural_core::run_call::is_run_token;
use plural_harness::{ConsoleProxy, HarnessConfig, Outcome, PROXY_VARIABLE, Pace, TOKEN_VARIABLE};
use plural_kit::Shutdown;
use secrecy::SecretString;

use crate::process::keep_private;

const EXIT_CODES: &str = "\
The agent of a cluster starts this for each run of a stack; the credential of the run is in the variable PLURAL_RUN_TOKEN.

Exit codes: 0 when all steps ended well; 1 when they did not; 2 when the console refuses this Job, or the command line cannot be understood.";

/// What a container writes here is in the state of its Pod.
const LAST_WORDS: &str = "/dev/termination-log";
/// Its headers are at the beginning of a program.
const BEGINNING: u64 = 64 * 1024;

/// Flags of `plural harness`.
#[derive(Debug, clap::Args)]
#[command(after_help = EXIT_CODES)]
pub(crate) struct Args {
    /// The console's address
    #[arg(
        long,
        env = "PLURAL_CONSOLE_URL",
        hide_env_values = true,
        value_name = "URL",
        required_unless_present = "install"
    )]
    console_url: Option<String>,

    /// The run
    #[arg(long, value_name = "ID", required_unless_present = "install")]
    run: Option<StackRunId>,

    /// Certificate authority (PEM) of the console, where the system does not know it
    #[arg(long, env = "PLURAL_CONSOLE_CA_FILE", value_name = "FILE")]
    console_ca_file: Option<PathBuf>,

    /// Talk to a console elsewhere that has no TLS: whoever is between reads the credential and the state
    #[arg(long)]
    insecure_http: bool,

    /// The folder in which code is unpacked and commands run
    #[arg(long, env = "PLURAL_RUN_DIR", value_name = "DIR", default_value = "/plural/run")]
    folder: PathBuf,

    /// Seconds that a tool which was asked to stop may take
    #[arg(long, env = "PLURAL_GRACE_SECONDS", value_name = "SECONDS", default_value_t = 60,
          value_parser = clap::value_parser!(u64).range(0..=86_400))]
    grace_seconds: u64,

    /// Copy this program into a folder, for the container of the tool, and do nothing else
    #[arg(long, value_name = "DIR")]
    install: Option<PathBuf>,
}

/// Runs to the end; the exit code says how that was.
pub(crate) fn run(args: Args) -> ExitCode {
    match ran(args) {
        Ok(outcome) => outcome.exit_code(),
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::from(2)
        }
    }
}

fn ran(args: Args) -> anyhow::Result<Outcome> {
    let Args { console_url, run, console_ca_file, insecure_http, folder, grace_seconds, install } = args;
    if let Some(folder) = install {
        let program = install_into(&folder)?;
        if let Some(warning) = cannot_start_everywhere(&program) {
            eprintln!("warning: {warning}");
            // The agent tells it where the tool's container does not start. Outside of a Pod nothing is made.
            if let Ok(mut words) = fs::OpenOptions::new().write(true).truncate(true).open(LAST_WORDS) {
                let _ = words.write_all(warning.as_bytes());
            }
        }
        return Ok(Outcome::Done);
    }
    keep_private();
    hide_environment();
    let token = std::env::var(TOKEN_VARIABLE).unwrap_or_default();
    anyhow::ensure!(is_run_token(token.trim()), "the variable {TOKEN_VARIABLE} holds no credential of a run");
    let ca_pem = match console_ca_file {
        None => None,
        Some(file) => Some(fs::read(&file).with_context(|| format!("cannot read {}", file.display()))?),
    };
    let config = HarnessConfig {
        console_url: console_url.context("--console-url is missing")?,
        run: run.context("--run is missing")?,
        token: SecretString::from(token.trim()),
        ca_pem,
        insecure_http,
        proxy: proxy_of(|name| std::env::var(name).ok()),
        folder,
        pace: Pace { grace: Duration::from_secs(grace_seconds), ..Pace::default() },
    };
    let stdout =
        std::io::stdout().as_fd().try_clone_to_owned().context("cannot write to the log of the Pod")?;
    let stdout = tokio::fs::File::from_std(fs::File::from(stdout));
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let outcome = runtime.block_on(async {
        let shutdown = Shutdown::new();
        let signal = shutdown.signal();
        let signals = tokio::spawn(async move { shutdown.on_process_signal().await });
        let outcome = plural_harness::run(config, Box::new(stdout), signal).await;
        signals.abort();
        outcome
    });
    runtime.shutdown_timeout(Duration::from_secs(2));
    Ok(outcome)
}

/// The proxy to the console, as the agent knows it: its address is in a Secret, and on no command line.
fn proxy_of(variable: impl Fn(&str) -> Option<String>) -> Option<ConsoleProxy> {
    let url = variable(PROXY_VARIABLE).filter(|url| !url.is_empty())?;
    let except = variable("PLURAL_CONSOLE_NO_PROXY").unwrap_or_default();
    Some(ConsoleProxy { url: url.into(), except })
}

/// The tool runs as the same user: it must not find the credential in the environment of this process either.
fn hide_environment() {
    #[cfg(target_os = "linux")]
    {
        use rustix::process::{DumpableBehavior, set_dumpable_behavior};
        let _ = set_dumpable_behavior(DumpableBehavior::NotDumpable);
    }
}

/// What hinders a program in images of others, if anything does: that it is not linked statically.
fn cannot_start_everywhere(program: &Path) -> Option<String> {
    let interpreter = interpreter(program)?;
    Some(format!(
        "the agent's image has a plural that needs {interpreter}: images of tools without that file, such as those of Alpine, \
         cannot start it; make the agent's image with the program that `cargo xtask release` builds"
    ))
}

/// The dynamic linker that a program names.
fn interpreter(program: &Path) -> Option<String> {
    let mut beginning = Vec::new();
    fs::File::open(program).ok()?.take(BEGINNING).read_to_end(&mut beginning).ok()?;
    let beginning = beginning.as_slice();
    let header = FileHeader64::<Endianness>::parse(beginning).ok()?;
    let endian = header.endian().ok()?;
    let segments = header.program_headers(endian, beginning).ok()?;
    let segment = segments.iter().find(|segment| segment.p_type(endian) == PT_INTERP)?;
    let name = segment.interpreter(endian, beginning).ok().flatten();
    Some(
        name.map_or_else(|| "a dynamic linker".to_owned(), |name| String::from_utf8_lossy(name).into_owned()),
    )
}

/// Whoever looks into the folder sees all of the program, or none of it. Its new path.
fn install_into(folder: &Path) -> anyhow::Result<PathBuf> {
    fs::create_dir_all(folder).with_context(|| format!("cannot make {}", folder.display()))?;
    let own = std::env::current_exe().context("cannot find this program's own file")?;
    let mut own = fs::File::open(&own).with_context(|| format!("cannot read {}", own.display()))?;
    let (path, next) = (folder.join("plural"), folder.join(".plural.next"));
    let written = || format!("cannot write {}", path.display());
    let mut file = fs::OpenOptions::new()
        .write(true)
        .create(true)
        .truncate(true)
        .mode(0o755)
        .open(&next)
        .with_context(written)?;
    std::io::copy(&mut own, &mut file).with_context(written)?;
    file.flush().with_context(written)?;
    drop(file);
    fs::rename(&next, &path).with_context(written)?;
    Ok(path)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use clap::Parser as _;

    use super::*;

    #[derive(Debug, clap::Parser)]
    struct Program {
        #[command(flatten)]
        args: Args,
    }

    #[test]
    fn a_run_needs_a_console_and_an_installation_nothing_else() {
        let id = StackRunId::new().to_string();
        for (given, good) in [
            (vec!["--console-url", "http://localhost", "--run", id.as_str()], true),
            (vec!["--install", "/plural/bin"], true),
            (vec!["--run", id.as_str()], false),
            (vec!["--console-url", "http://localhost"], false),
            (vec!["--console-url", "http://localhost", "--run", "seven"], false),
            (
                vec!["--console-url", "http://localhost", "--run", id.as_str(), "--grace-seconds", "soon"],
                false,
            ),
        ] {
            let parsed = Program::try_parse_from(["harness"].iter().chain(&given));
            assert_eq!(parsed.is_ok(), good, "{given:?}");
        }
    }

    #[test]
    fn an_installed_program_is_whole_and_runs() {
        let folder = tempfile::tempdir().unwrap();
        let into = folder.path().join("bin");
        for _ in 0..2 {
            assert_eq!(install_into(&into).unwrap(), into.join("plural"));
        }
        let own = std::env::current_exe().unwrap();
        let found = fs::metadata(into.join("plural")).unwrap();
        assert_eq!(found.len(), fs::metadata(own).unwrap().len());
        assert_eq!(found.permissions().mode() & 0o100, 0o100);
        assert_eq!(fs::read_dir(&into).unwrap().count(), 1);
    }

    #[cfg(all(target_os = "linux", target_env = "gnu", not(target_feature = "crt-static")))]
    #[test]
    fn a_program_that_needs_a_dynamic_linker_says_which() {
        let folder = tempfile::tempdir().unwrap();
        let program = install_into(folder.path()).unwrap();
        let linker = interpreter(&program).unwrap();
        assert!(linker.starts_with('/') && linker.contains("ld"), "{linker}");
        let warning = cannot_start_everywhere(&program).unwrap();
        assert!(warning.contains(&linker) && !warning.contains('\n'), "{warning}");
    }

    #[test]
    fn what_is_no_program_needs_no_linker() {
        let folder = tempfile::tempdir().unwrap();
        let script = folder.path().join("plural");
        assert_eq!(cannot_start_everywhere(&script), None);
        for text in ["", "#!/bin/sh\nexec true\n", "\x7fELF\x02\x01\x01"] {
            fs::write(&script, text).unwrap();
            assert_eq!(cannot_start_everywhere(&script), None, "{text:?}");
        }
    }
}
