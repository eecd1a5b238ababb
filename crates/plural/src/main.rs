//! The one binary: a role is a subcommand.

mod agent;
mod console;
mod demo;
#[cfg(test)]
mod documented;
mod harness;
mod health;
mod kubesim;
mod memory;
mod process;
mod runner;
mod template;

use std::process::ExitCode;

use clap::{Args as _, Command, FromArgMatches};

fn main() -> ExitCode {
    // The helper that confines command renderers, which the agent starts: nothing that a person calls.
    if std::env::args_os().nth(1).is_some_and(|first| first == agent::SANDBOX) {
        return ExitCode::from(plural_sandbox::enter(std::env::args_os().skip(2)));
    }
    // What that helper becomes for the console, to evaluate rules: nothing that a person calls, either.
    if std::env::args_os().nth(1).is_some_and(|first| first == console::RULES) {
        return ExitCode::from(plural_rules::child(std::path::Path::new(".")));
    }
    // Or to run an automation.
    if std::env::args_os().nth(1).is_some_and(|first| first == console::SCAFFOLD) {
        return ExitCode::from(plural_scaffold::child(std::path::Path::new(".")));
    }
    if plural_cli::complete(command) {
        return ExitCode::SUCCESS;
    }
    memory::set_up();
    let mut command = command();
    let args = plural_cli::in_full(&command, std::env::args_os());
    let matches = match command.try_get_matches_from_mut(&args) {
        Ok(matches) => matches,
        Err(error) => {
            // Help and version are not failures: clap knows which is which, and where each goes.
            let error = plural_cli::without_secrets(error, &command, &args);
            let _ = error.print();
            return ExitCode::from(u8::try_from(error.exit_code()).unwrap_or(2));
        }
    };
    match matches.subcommand() {
        Some(("console", given)) => role(given, console::run),
        Some(("agent", given)) => role(given, agent::run),
        Some(("demo", given)) => role(given, demo::run),
        Some(("kubesim", given)) => role(given, kubesim::run),
        Some(("harness", given)) => match harness::Args::from_arg_matches(given) {
            Ok(args) => harness::run(args),
            Err(error) => error.exit(),
        },
        Some(("health", given)) => match health::Args::from_arg_matches(given) {
            Ok(args) => health::run(&args),
            Err(error) => error.exit(),
        },
        Some(("template", given)) => role(given, async |args| template::run(args)),
        _ => plural_cli::dispatch(command, &matches),
    }
}

/// All commands: those of a person, and the roles.
fn command() -> Command {
    let role = |name: &'static str, about: &'static str, arguments: fn(Command) -> Command| {
        // After the arguments: their struct's own comment is for readers of the code.
        arguments(Command::new(name)).about(about).long_about(None)
    };
    plural_cli::command()
        .subcommand(role("console", "Run the control plane", console::Args::augment_args))
        .subcommand(role(
            "agent",
            "Run the agent of one cluster: it connects to the console and applies the desired state",
            agent::Args::augment_args,
        ))
        .subcommand(role(
            "demo",
            "Run a console, clusters and agents here and watch commits arrive",
            demo::Args::augment_args,
        ))
        .subcommand(role(
            "template",
            "Render a chart, a kustomization or a folder of manifests here, as `helm template` and `kustomize build` print it",
            template::Args::augment_args,
        ))
        .subcommand(role(
            "health",
            "Assess the health of Kubernetes objects by the rules that agents use or by a script",
            health::Args::augment_args,
        ))
        .subcommand(role(
            "harness",
            "Run the commands of one run of a stack, in the Job that an agent makes for it",
            harness::Args::augment_args,
        ))
        .subcommand(role("kubesim", "Run simulated Kubernetes API servers", kubesim::Args::augment_args))
}

/// Runs a role to its end on a runtime of its own.
fn role<A: FromArgMatches, F: Future<Output = anyhow::Result<()>>>(
    given: &clap::ArgMatches,
    run: impl FnOnce(A) -> F,
) -> ExitCode {
    let outcome = A::from_arg_matches(given).map_err(anyhow::Error::from).and_then(|args| {
        process::raise_file_limit();
        let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
        // Boxed: the future of a whole role is larger than a small stack likes.
        let outcome = runtime.block_on(Box::pin(run(args)));
        runtime.shutdown_timeout(std::time::Duration::from_secs(2));
        outcome
    });
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_command_line_is_consistent() {
        super::command().debug_assert();
    }
}
