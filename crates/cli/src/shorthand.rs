//! `plural services list` for `plural cd services list`, and `plural status blue/web` for `plural cd services describe blue/web`:
//! what people type who come from other tools.

use std::ffi::OsString;

use clap::{Arg, Command};

/// Words for commands of `plural cd services`, which is what most of them are about elsewhere.
const VERBS: [(&str, &str); 11] = [
    ("status", "describe"),
    ("describe", "describe"),
    ("history", "revisions"),
    ("refresh", "kick"),
    ("reconcile", "kick"),
    ("wait", "wait"),
    ("sync", "sync"),
    ("diff", "diff"),
    ("rollback", "rollback"),
    ("tree", "tree"),
    ("logs", "logs"),
];

/// The command line in full, where its first word stands for more. `command` is the whole command line: what it has itself is
/// left alone.
pub fn in_full<I, T>(command: &Command, args: I) -> Vec<OsString>
where
    I: IntoIterator<Item = T>,
    T: Into<OsString>,
{
    let mut args: Vec<OsString> = args.into_iter().map(Into::into).collect();
    let Some(word) = args.get(1).and_then(|word| word.to_str()).map(str::to_owned) else { return args };
    if command.find_subcommand(&word).is_some() && !is_diff_of_service(&args) {
        return args;
    }
    let is_noun = command.find_subcommand("cd").is_some_and(|cd| cd.find_subcommand(&word).is_some());
    if is_noun {
        args.insert(1, "cd".into());
    } else if let Some((_, verb)) = VERBS.iter().find(|(short, _)| *short == word) {
        args.splice(1..2, ["cd", "services", verb].map(OsString::from));
    }
    args
}

/// The command line with these words as commands, which completion needs: it goes by commands and does not know the words.
pub(crate) fn spelled_out(command: Command) -> Command {
    let Some(cd) = command.find_subcommand("cd").cloned() else { return command };
    let connection: Vec<Arg> = cd.get_arguments().filter(|arg| arg.is_global_set()).cloned().collect();
    let of_service = |verb: &str| cd.find_subcommand("services")?.find_subcommand(verb).cloned();
    let mut command = command;
    for noun in cd.get_subcommands().filter(|noun| !noun.is_hide_set()) {
        if command.find_subcommand(noun.get_name()).is_none() {
            command = command.subcommand(noun.clone().args(connection.clone()));
        }
    }
    for (word, verb) in VERBS {
        let Some(full) = of_service(verb) else { continue };
        if command.get_subcommands().any(|one| one.get_name() == word) {
            // `plural diff` of files takes a service as well.
            let services: Vec<Arg> = full.get_positionals().cloned().collect();
            command = command.mut_subcommand(word, |files| files.args(services));
        } else {
            // Its other names are words of their own here.
            let full = full.name(word).visible_alias(None::<&str>).alias(None::<&str>);
            command = command.subcommand(full.args(connection.clone()));
        }
    }
    command
}

/// `plural diff` is about files, and about a service where no file is named.
fn is_diff_of_service(args: &[OsString]) -> bool {
    let mut words = args.iter().filter_map(|word| word.to_str()).skip(1);
    words.next() == Some("diff")
        && words.clone().any(|word| !word.starts_with('-'))
        && !words.any(|word| {
            let is_file = word.starts_with("-f") || word.starts_with("--filename");
            is_file || matches!(word, "-h" | "--help")
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn short_forms_are_those_of_cd() {
        let full = |line: &str| {
            let args = in_full(&crate::command(), line.split(' '));
            let args: Vec<_> = args.iter().map(|word| word.to_string_lossy().into_owned()).collect();
            args.join(" ")
        };
        for (short, long) in [
            ("plural services list", "plural cd services list"),
            ("plural svc ls", "plural cd svc ls"),
            ("plural clusters", "plural cd clusters"),
            ("plural status blue/web", "plural cd services describe blue/web"),
            ("plural history blue/web -o json", "plural cd services revisions blue/web -o json"),
            ("plural refresh blue/web --wait", "plural cd services kick blue/web --wait"),
            ("plural diff blue/web", "plural cd services diff blue/web"),
            ("plural diff -f web.yaml", "plural diff -f web.yaml"),
            ("plural diff --help", "plural diff --help"),
            ("plural cd services list", "plural cd services list"),
            ("plural login", "plural login"),
            ("plural --help", "plural --help"),
            ("plural nonsense", "plural nonsense"),
            ("plural", "plural"),
        ] {
            assert_eq!(full(short), long);
        }
        for (verb, command) in VERBS {
            let services = crate::command();
            let services = services.find_subcommand("cd").and_then(|cd| cd.find_subcommand("services"));
            assert!(services.is_some_and(|all| all.find_subcommand(command).is_some()), "{verb}");
        }
    }
}
