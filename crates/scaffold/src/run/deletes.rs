//! Files that are taken away.

use super::{Done, Run, failed, with_texts};

pub(super) fn run(run: &mut Run<'_>) -> Done {
    let deletes = run.automation.deletes.clone();
    // An answer names files: it is no glob, and no part of one.
    let named = with_texts(&run.context, &literal);
    for (at, glob) in deletes.files.iter().enumerate() {
        let step = format!("deletes.files[{at}]");
        let text = run.expand(&step, &step, glob, &named)?;
        let is_made = text != *glob;
        let glob = run.clean(&step, text.trim())?;
        if is_made && glob.split('/').all(|part| matches!(part, "*" | "**")) {
            return Err(failed(
                step,
                "an answer is empty, or a dot: the whole repository would be taken away",
            ));
        }
        let regex = crate::regexes::regex_of(&glob_regex(&glob)).map_err(|why| failed(&step, why))?;
        let found: Vec<String> = run
            .tree
            .iter()
            .map(|(path, _)| path)
            .filter(|path| regex.is_match(path))
            .map(str::to_owned)
            .collect();
        if found.is_empty() {
            run.outcome.warnings.push(format!("{step}: no file matches"));
        }
        for path in found {
            run.tree.remove(&path);
        }
    }
    for (at, folder) in deletes.folders.iter().enumerate() {
        let step = format!("deletes.folders[{at}]");
        let text = run.expand(&step, &step, folder, &run.context)?;
        // The root is no folder that can be taken away: an answer that is empty must not empty the repository.
        let folder = run.clean(&step, text.trim())?;
        let found: Vec<String> = run.tree.below(&folder).into_iter().map(str::to_owned).collect();
        if found.is_empty() {
            run.outcome.warnings.push(format!("{step}: there is no such folder"));
        }
        for path in found {
            run.tree.remove(&path);
        }
    }
    Ok(())
}

/// A text as a glob that matches it alone.
fn literal(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        if "*?[{},".contains(c) {
            out.extend(['[', c, ']']);
        } else {
            out.push(c);
        }
    }
    out
}

/// `*` and `?` stay within a part of a path, `**` goes over parts, `[a-z]` and `{a,b}` are choices.
fn glob_regex(glob: &str) -> String {
    let mut out = "^".to_owned();
    let mut rest = glob;
    let mut braces = 0usize;
    while let Some(c) = rest.chars().next() {
        if let Some(after) = rest.strip_prefix("**/") {
            out.push_str("(?:.*/)?");
            rest = after;
            continue;
        }
        if let Some(after) = rest.strip_prefix("**") {
            out.push_str(".*");
            rest = after;
            continue;
        }
        rest = &rest[c.len_utf8()..];
        match c {
            '*' => out.push_str("[^/]*"),
            '?' => out.push_str("[^/]"),
            '{' if rest.contains('}') => {
                braces += 1;
                out.push_str("(?:");
            }
            '}' if braces > 0 => {
                braces -= 1;
                out.push(')');
            }
            ',' if braces > 0 => out.push('|'),
            '[' if rest.contains(']') => {
                let (inside, after) = rest.split_once(']').unwrap_or((rest, ""));
                let (not, inside) = match inside.strip_prefix(['!', '^']) {
                    Some(inside) => ("^/", inside),
                    None => ("", inside),
                };
                out.push('[');
                out.push_str(not);
                out.push_str(&inside.replace('[', "\\[").replace('&', "\\&").replace('~', "\\~"));
                out.push(']');
                rest = after;
            }
            c => out.push_str(&regex::escape(c.encode_utf8(&mut [0; 4]))),
        }
    }
    out.push('$');
    out
}
