//! Commands that the pages of this repository show are commands of this program.

use std::{
    fs,
    path::{Path, PathBuf},
};

/// Pages that are made from the command line: its own tests parse their examples.
const GENERATED: &str = "docs/reference";
/// What stands for a value in a page, and a value.
const PLACEHOLDERS: [(&str, &str); 2] =
    [("REVISION", "0190b8a2-7c11-7def-8000-0123456789ab"), ("$POD_IP", "10.0.0.1")];

/// `README.md` and the pages of `docs`.
fn pages() -> Vec<PathBuf> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut pages = vec![root.join("README.md")];
    let mut folders = vec![root.join("docs")];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() && path != root.join(GENERATED) {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == "md") {
                pages.push(path);
            }
        }
    }
    pages
}

/// Lines of a page's blocks that a shell would read, each with those that continue it.
fn typed(page: &str) -> Vec<String> {
    let mut typed = Vec::new();
    let mut is_block = false;
    let joined = page.replace("\\\n", " ");
    for line in joined.lines() {
        if line.trim_start().starts_with("```") {
            is_block = !is_block;
        } else if is_block {
            let typed_here = line.strip_prefix("$ ").or_else(|| line.starts_with("plural ").then_some(line));
            typed.extend(typed_here.map(str::to_owned));
        }
    }
    typed
}

/// Commands of a line, as words: enough of a shell's quotes, pipes, redirections and comments for our pages.
fn commands(line: &str) -> Vec<Vec<String>> {
    let mut commands = vec![Vec::new()];
    let mut word: Option<String> = None;
    let mut quote = None;
    let mut is_redirected = false;
    let end = |word: &mut Option<String>, commands: &mut Vec<Vec<String>>, is_redirected: &mut bool| {
        if let Some(word) = word.take()
            && !std::mem::take(is_redirected)
        {
            commands.last_mut().unwrap().push(word);
        }
    };
    for letter in line.chars() {
        match (quote, letter) {
            (Some(open), letter) if open == letter => quote = None,
            (None, '\'' | '"') => {
                quote = Some(letter);
                word.get_or_insert_default();
            }
            (None, '#') if word.is_none() => break,
            (None, '|' | ';' | '&') => {
                end(&mut word, &mut commands, &mut is_redirected);
                commands.push(Vec::new());
            }
            (None, '<' | '>') => {
                end(&mut word, &mut commands, &mut is_redirected);
                is_redirected = true;
            }
            (None, letter) if letter.is_whitespace() => end(&mut word, &mut commands, &mut is_redirected),
            (Some(_) | None, letter) => word.get_or_insert_default().push(letter),
        }
    }
    end(&mut word, &mut commands, &mut is_redirected);
    commands.retain(|words| !words.is_empty());
    commands
}

#[test]
fn lines_are_read_as_a_shell_does() {
    let words = |line| commands(line).into_iter().map(|words| words.join(",")).collect::<Vec<_>>();
    assert_eq!(words("plural health -f - <<'YAML'"), ["plural,health,-f,-"]);
    assert_eq!(words("echo 'a: b' | plural cd x -f - # why"), ["echo,a: b", "plural,cd,x,-f,-"]);
    assert_eq!(words("plural a --b=\"\" '|' > file c"), ["plural,a,--b=,|,c"]);
    let page = "plural no\n```console\n$ plural a \\\n    --b\noutput\nplural c\n```\n$ plural no\n";
    assert_eq!(typed(page), ["plural a      --b", "plural c"]);
}

#[test]
fn every_command_of_the_pages_is_taken() {
    let (mut count, mut wrong) = (0, Vec::new());
    for page in pages() {
        let text = fs::read_to_string(&page).unwrap();
        for line in typed(&text) {
            for mut words in commands(&line) {
                if words[0] != "plural" {
                    continue;
                }
                for word in &mut words {
                    for (placeholder, value) in PLACEHOLDERS {
                        if word == placeholder {
                            value.clone_into(word);
                        }
                    }
                }
                count += 1;
                let mut command = super::command();
                let words = plural_cli::in_full(&command, &words);
                if let Err(error) = command.try_get_matches_from_mut(words) {
                    wrong.push(format!("{}: {line}\n{error}", page.display()));
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    // Fewer would mean that pages are read in another way than they are written.
    assert!(count > 80, "only {count} commands");
    plural_testkit::note_compared("commands of the pages", count, count);
}
