//! A page of the documentation as somebody follows it: the files that it shows, and what it has them type.

/// A file that a page shows.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Shown {
    pub(crate) path: String,
    pub(crate) text: String,
}

/// The files and the commands of a page, each in the order of the page.
pub(crate) fn read(page: &str) -> (Vec<Shown>, Vec<String>) {
    let (mut files, mut commands) = (Vec::new(), Vec::new());
    let mut lines = page.lines();
    while let Some(line) = lines.next() {
        let Some(kind) = line.strip_prefix("```") else { continue };
        let block: Vec<&str> = lines.by_ref().take_while(|line| !line.starts_with("```")).collect();
        match kind {
            "console" => typed(&block, &mut files, &mut commands),
            // A block that begins with the name of its file.
            _ => files.extend(named(&block)),
        }
    }
    (files, commands)
}

fn named(block: &[&str]) -> Option<Shown> {
    let path = block.first()?.strip_prefix("# ")?;
    let is_path = !path.contains(' ') && path.contains('.');
    is_path.then(|| Shown { path: path.to_owned(), text: block.join("\n") + "\n" })
}

fn typed(block: &[&str], files: &mut Vec<Shown>, commands: &mut Vec<String>) {
    let mut lines = block.iter().peekable();
    while let Some(line) = lines.next() {
        let Some(begun) = line.strip_prefix("$ ") else { continue };
        let mut command = begun.to_owned();
        while command.ends_with('\\') {
            let Some(more) = lines.next() else { break };
            command = format!("{command}\n{more}");
        }
        if let Some((_, end)) = command.split_once("<<'") {
            let end = end.trim_end_matches('\'').to_owned();
            for more in lines.by_ref() {
                command = format!("{command}\n{more}");
                if *more == end {
                    break;
                }
            }
        }
        if let Some(path) = command.strip_prefix("cat ") {
            // What it prints is what is in it.
            let mut text = String::new();
            while let Some(more) = lines.next_if(|line| !line.starts_with("$ ")) {
                text += more;
                text.push('\n');
            }
            files.push(Shown { path: path.to_owned(), text });
        }
        commands.push(command);
    }
}

#[test]
fn a_page_is_read_as_it_is_followed() {
    let page = "# Title\n```console\n$ plural a \\\n    --b\nanswer\n$ cat x.yaml\nx: 1\n$ plural h -f - <<'YAML'\ny: 2\nYAML\ntold\n\
                ```\n```yaml\n# fleet/base.yaml\nz: 3\n```\n```yaml\n# Argo CD is not a file\n```\n```\n$ not typed\n```\n";
    let (files, commands) = read(page);
    assert_eq!(commands, ["plural a \\\n    --b", "cat x.yaml", "plural h -f - <<'YAML'\ny: 2\nYAML"]);
    let file = |path: &str, text: &str| Shown { path: path.to_owned(), text: text.to_owned() };
    assert_eq!(files, [file("x.yaml", "x: 1\n"), file("fleet/base.yaml", "# fleet/base.yaml\nz: 3\n")]);
}
