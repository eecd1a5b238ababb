//! The console names arguments as its API does (`attributes.waveTimeout`); whoever typed a command knows flags (`--wave-timeout`).

use std::collections::{BTreeMap, BTreeSet};

use clap::{ArgMatches, Command};

/// Names of the API that are no other form of their flag's.
const OTHERWISE: [(&str, &str); 2] = [("claims-like", "claim"), ("within", "in")];

/// What the command that runs can be given.
#[derive(Debug, Default)]
pub(crate) struct Flags {
    /// Names of flags, without dashes.
    long: BTreeSet<String>,
    /// Arguments without flags: how help calls them, by their name in lower case.
    places: BTreeMap<String, String>,
}

impl Flags {
    /// Those of the command that `matches` of `command` are of.
    pub(crate) fn of(command: &Command, matches: &ArgMatches) -> Self {
        let (mut command, mut matches) = (command, matches);
        while let Some((name, below)) = matches.subcommand() {
            let Some(found) = command.find_subcommand(name) else { break };
            (command, matches) = (found, below);
        }
        let mut flags = Self::default();
        // Where the console is, is no argument of what it is asked for.
        for argument in command.get_arguments().filter(|argument| !argument.is_global_set()) {
            if let Some(long) = argument.get_long() {
                flags.long.insert(long.to_owned());
            } else if argument.is_positional() {
                let shown = argument.get_value_names().and_then(|names| names.first());
                let shown = shown.map_or_else(|| argument.get_id().to_string(), ToString::to_string);
                flags.places.insert(argument.get_id().as_str().replace('_', "-"), shown);
            }
        }
        flags
    }

    /// The message with flags in place of the API's names, where the command has such flags.
    pub(crate) fn words(&self, message: &str) -> String {
        let (head, rest) = match message.split_once(": ") {
            Some((head, rest)) if is_path(head) => {
                let named = self.named(head).unwrap_or_else(|| head.to_owned());
                (format!("{named}: "), rest)
            }
            Some(_) | None => (String::new(), message),
        };
        let mut out = head;
        let mut word = String::new();
        // What is quoted is somebody's text.
        let mut quoted = false;
        for letter in rest.chars().chain(['\0']) {
            if letter.is_ascii_alphanumeric() || letter == '.' && !word.is_empty() {
                word.push(letter);
                continue;
            }
            // A full stop ends a sentence, not a path.
            let stops = word.len() - word.trim_end_matches('.').len();
            let stop = word.split_off(word.len() - stops);
            let is_ours = word.contains(|c: char| c.is_ascii_uppercase()) && is_path(&word);
            match self.named(&word).filter(|_| is_ours && !quoted) {
                Some(named) => out.push_str(&named),
                None => out.push_str(&word),
            }
            out.push_str(&stop);
            word.clear();
            quoted ^= letter == '"';
            if letter != '\0' {
                out.push(letter);
            }
        }
        out
    }

    /// How the command calls this argument of the API.
    fn named(&self, path: &str) -> Option<String> {
        let last = kebab(path.rsplit('.').next()?);
        let otherwise = OTHERWISE.iter().find(|(name, _)| *name == last).map(|(_, flag)| (*flag).to_owned());
        let one = last.strip_suffix('s').map(str::to_owned);
        let flags = [Some(last.clone()), one, otherwise].into_iter().flatten();
        let flag = flags.into_iter().find(|flag| self.long.contains(flag)).map(|flag| format!("--{flag}"));
        flag.or_else(|| self.places.get(&last).cloned())
    }
}

/// Whether this can be the name of an argument: `attributes.git.ref`, `waveTimeout`.
fn is_path(text: &str) -> bool {
    text.starts_with(|first: char| first.is_ascii_lowercase())
        && text.chars().all(|c| c.is_ascii_alphanumeric() || c == '.')
}

fn kebab(name: &str) -> String {
    let mut out = String::new();
    for letter in name.chars() {
        if letter.is_ascii_uppercase() {
            out.push('-');
        }
        out.push(letter.to_ascii_lowercase());
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_the_api_are_told_as_flags_that_the_command_has() {
        let flags = Flags {
            long: ["wave-timeout", "claim", "subject", "tag"].map(str::to_owned).into(),
            places: [("name".to_owned(), "NAME".to_owned())].into(),
        };
        for (message, expected) in [
            ("attributes.syncConfig.waveTimeout: must be a time", "--wave-timeout: must be a time"),
            ("attributes.claimsLike: must be at most 20 claims", "--claim: must be at most 20 claims"),
            ("attributes.tags: a name is given twice", "--tag: a name is given twice"),
            ("attributes.name: must not be empty", "NAME: must not be empty"),
            (
                "attributes.subject: must be given, here or as \"sub\" in claimsLike: else every token fits",
                "--subject: must be given, here or as \"sub\" in --claim: else every token fits",
            ),
            ("name: \"waveTimeout\" is taken", "NAME: \"waveTimeout\" is taken"),
            ("waveTimeout.", "--wave-timeout."),
            // What the command does not have stays.
            ("attributes.retryWait: must be a time", "attributes.retryWait: must be a time"),
            ("https://GitHub.com/a: name", "https://GitHub.com/a: name"),
            ("the subject of tags is a name", "the subject of tags is a name"),
        ] {
            assert_eq!(flags.words(message), expected);
        }
    }
}
