//! What a commit touched: the figures that count for a feature.

use std::{path::Path, process::Command};

use super::{Chapter, Figure, is_generated};
use crate::shell;

const TOUCH_POINTS: usize = 12;
const LINES: usize = 950;

pub(super) fn count(root: &Path, revision: &str) -> anyhow::Result<Chapter> {
    let git = |args: &[&str]| shell::output(Command::new("git").args(args).current_dir(root));
    let printed = git(&["show", "--numstat", "--no-renames", "--format=", revision])?;
    let mut chapter = Chapter { title: "A commit, without what tools wrote", ..Chapter::default() };
    let (mut files, mut lines) = (0, 0);
    for (added, path) in touched(&printed) {
        // A file that the commit removes has no text in it any more.
        let text = git(&["show", &format!("{revision}:{path}")]).unwrap_or_default();
        if !is_generated(path, &text) {
            files += 1;
            lines += added;
            chapter.details.push(format!("{added:>5} {path}"));
        }
    }
    chapter.figures.push(Figure::count(format!("{revision}: touch points"), files, "files", TOUCH_POINTS));
    chapter.figures.push(Figure::count(format!("{revision}: lines that came"), lines, "lines", LINES));
    Ok(chapter)
}

/// Lines that came, and the path, from `git show --numstat`.
fn touched(printed: &str) -> Vec<(usize, &str)> {
    printed
        .lines()
        .filter_map(|line| {
            let mut fields = line.split('\t');
            let (added, _removed, path) = (fields.next()?, fields.next()?, fields.next()?);
            // `-` for what is no text.
            Some((added.parse().unwrap_or(0), path))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_git_prints_is_read() {
        let printed = "\n12\t3\tcrates/a/src/lib.rs\n-\t-\tlogo.png\n";
        assert_eq!(touched(printed), [(12, "crates/a/src/lib.rs"), (0, "logo.png")]);
    }
}
