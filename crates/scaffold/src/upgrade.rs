//! Three-way merge of trees: what an automation's old version made, what its new version makes, and what the repository has.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::{Duration, Instant},
};

use serde::{Deserialize, Serialize};
use similar::{Algorithm, DiffOp, capture_diff_slices_deadline};

use crate::files::{Entry, File, Files};

/// Lines of a file that is merged line by line: beyond them, comparing takes too long.
const MAX_LINES: usize = 20_000;
/// Bytes of such a file.
const MAX_FILE: usize = 4 << 20;
/// Bytes of all such files of one merge, in the three trees together.
const MAX_BYTES: usize = 128 << 20;
/// How long one merge may compare.
const TIME: Duration = Duration::from_secs(10);

/// Why a file was not merged.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Conflict {
    /// Both changed the same lines; the file holds both between markers.
    Lines,
    /// Both changed it, and it is no text; the repository's is kept.
    Binary,
    /// The new version changes what the repository does not have any more; it stays away.
    DeletedHere,
    /// The new version no longer makes what the repository has changed; it stays.
    ChangedHere,
    /// Both made it, differently; the file holds both between markers.
    BothMade,
    /// Both changed it, and comparing it would take too long; the repository's is kept.
    TooLarge,
}

/// What a merge makes.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Merged {
    /// Paths of the repository that change; nothing where they are taken away.
    pub changes: BTreeMap<String, Option<Entry>>,
    /// What a person has to settle, by path.
    pub conflicts: BTreeMap<String, Conflict>,
}

/// Brings `ours` from what `base` made to what `theirs` makes. Files that neither has are not looked at. Bounded in bytes and time: what is
/// beyond is [`Conflict::TooLarge`].
pub fn merge_trees(base: &Files, theirs: &Files, ours: &Files) -> Merged {
    merge_trees_until(base, theirs, ours, Instant::now() + TIME)
}

/// The same with a deadline of the caller's.
pub fn merge_trees_until(base: &Files, theirs: &Files, ours: &Files, until: Instant) -> Merged {
    let mut merged = Merged::default();
    let mut left = Left { bytes: MAX_BYTES, until };
    let paths: BTreeSet<&str> = base.iter().chain(theirs.iter()).map(|(path, _)| path).collect();
    for path in paths {
        let (old, new, here) = (base.get(path), theirs.get(path), ours.get(path));
        if old == new || new == here {
            continue;
        }
        if old == here {
            merged.changes.insert(path.to_owned(), new.cloned());
            continue;
        }
        let conflict = match (new, here) {
            (Some(new), Some(here)) => {
                let (entry, conflict) = merge_entry(old, new, here, &mut left);
                if entry != *here {
                    merged.changes.insert(path.to_owned(), Some(entry));
                }
                conflict
            }
            (Some(_), None) => Some(Conflict::DeletedHere),
            (None, Some(_)) => Some(Conflict::ChangedHere),
            (None, None) => None,
        };
        if let Some(conflict) = conflict {
            merged.conflicts.insert(path.to_owned(), conflict);
        }
    }
    merged
}

/// What a merge may still use.
struct Left {
    bytes: usize,
    until: Instant,
}

fn merge_entry(old: Option<&Entry>, new: &Entry, here: &Entry, left: &mut Left) -> (Entry, Option<Conflict>) {
    let size = |entry: &Entry| match entry {
        Entry::File(file) => file.bytes.len(),
        Entry::Link(_) => 0,
    };
    let sizes = [old.map_or(0, size), size(new), size(here)];
    let paid = left.bytes.checked_sub(sizes.iter().sum());
    let (Some(bytes), true) = (paid, sizes.iter().all(|size| *size <= MAX_FILE)) else {
        return (here.clone(), Some(Conflict::TooLarge));
    };
    left.bytes = bytes;
    let text = |entry: &Entry| match entry {
        Entry::File(file) => String::from_utf8(file.bytes.clone()).ok(),
        Entry::Link(_) => None,
    };
    let base = old.map_or(Some(String::new()), text);
    let (Some(base), Some(theirs), Some(ours), Entry::File(here_file)) = (base, text(new), text(here), here)
    else {
        return (here.clone(), Some(Conflict::Binary));
    };
    let Some((text, is_clean)) = merge_text_until(&base, &theirs, &ours, left.until) else {
        return (here.clone(), Some(Conflict::TooLarge));
    };
    let executable = match (old, new) {
        (Some(Entry::File(old)), Entry::File(new)) if old.executable != new.executable => new.executable,
        _ => here_file.executable,
    };
    let conflict = match (is_clean, old) {
        (true, _) => None,
        (false, None) => Some(Conflict::BothMade),
        (false, Some(_)) => Some(Conflict::Lines),
    };
    (Entry::File(File { bytes: text.into_bytes(), executable }), conflict)
}

/// The lines of `base` with the changes of both, and whether they agree; nothing of a text with too many lines or bytes, or that takes too
/// long.
pub fn merge_text(base: &str, theirs: &str, ours: &str) -> Option<(String, bool)> {
    merge_text_until(base, theirs, ours, Instant::now() + TIME)
}

/// The same with a deadline of the caller's.
fn merge_text_until(base: &str, theirs: &str, ours: &str, until: Instant) -> Option<(String, bool)> {
    if base.len().max(theirs.len()).max(ours.len()) > MAX_FILE {
        return None;
    }
    let [base, theirs, ours] =
        [base, theirs, ours].map(|text| text.split_inclusive('\n').collect::<Vec<_>>());
    if base.len().max(theirs.len()).max(ours.len()) > MAX_LINES {
        return None;
    }
    let (there, here) = (kept(&base, &theirs, until)?, kept(&base, &ours, until)?);
    let is_crlf = base.iter().chain(&ours).any(|line| line.ends_with("\r\n"));
    let newline = if is_crlf { "\r\n" } else { "\n" };
    let mut out = String::new();
    let mut is_clean = true;
    let (mut b, mut t, mut o) = (0, 0, 0);
    loop {
        // Lines that all three have, one after the other.
        while b < base.len() && there[b] == Some(t) && here[b] == Some(o) {
            out.push_str(base[b]);
            (b, t, o) = (b + 1, t + 1, o + 1);
        }
        if b == base.len() && t == theirs.len() && o == ours.len() {
            break;
        }
        // The next line that all three have ends the part that differs.
        let next = (b..base.len()).find_map(|at| Some((at, there[at]?, here[at]?)));
        let (b_end, t_end, o_end) = next.unwrap_or((base.len(), theirs.len(), ours.len()));
        let (was, new, own) = (&base[b..b_end], &theirs[t..t_end], &ours[o..o_end]);
        if own == was || own == new {
            out.extend(new.iter().copied());
        } else if new == was {
            out.extend(own.iter().copied());
        } else {
            is_clean = false;
            for (mark, lines) in [("<<<<<<< repository", own), ("=======", new)] {
                out.push_str(mark);
                out.push_str(newline);
                out.extend(lines.iter().copied());
                if !out.ends_with('\n') {
                    out.push_str(newline);
                }
            }
            out.push_str(">>>>>>> automation");
            out.push_str(newline);
        }
        (b, t, o) = (b_end, t_end, o_end);
    }
    Some((out, is_clean))
}

/// Of each line of `base`, which one it is in `other`; nothing where that was not known in time: what was found until then would be a merge
/// that another run does not make.
fn kept(base: &[&str], other: &[&str], until: Instant) -> Option<Vec<Option<usize>>> {
    let mut lines = vec![None; base.len()];
    let ops = capture_diff_slices_deadline(Algorithm::Myers, base, other, Some(until));
    if Instant::now() >= until {
        return None;
    }
    for op in ops {
        if let DiffOp::Equal { old_index, new_index, len } = op {
            for at in 0..len {
                lines[old_index + at] = Some(new_index + at);
            }
        }
    }
    Some(lines)
}
