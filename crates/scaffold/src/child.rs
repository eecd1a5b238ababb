//! A run or a merge in a process of its own, which a sandbox runs: the request is a file of its folder, the answer is JSON on standard
//! output.

use std::{
    fs,
    io::{self, Write as _},
    path::Path,
};

use serde::{Deserialize, Serialize, de::DeserializeOwned};

use crate::{
    Outcome, Request, ScaffoldError,
    files::Files,
    run,
    upgrade::{Merged, merge_trees},
};

/// The [`Request`] as JSON.
pub const REQUEST_FILE: &str = "request.json";
/// A [`Merge`] as JSON, in the place of a request.
pub const MERGE_FILE: &str = "merge.json";
/// Bytes of an answer.
pub const ANSWER_BYTES: u64 = 128 << 20;

/// Trees that [`merge_trees`] is to merge.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Merge {
    /// What was made.
    pub base: Files,
    /// What is to be made.
    pub theirs: Files,
    /// What is there.
    pub ours: Files,
}

/// Does what the file in `folder` asks for, and prints the answer; the exit code.
pub fn child(folder: &Path) -> u8 {
    let Ok(asked) = read(folder) else { return 1 };
    let answer = match asked {
        (Kind::Merge, bytes) => serde_json::to_vec(&parse::<Merge>(&bytes).map(|merge| merged(&merge))),
        (Kind::Run, bytes) => serde_json::to_vec(&parse::<Request>(&bytes).and_then(|request| run(&request))),
    };
    let Ok(answer) = answer else { return 1 };
    let mut out = io::stdout().lock();
    u8::from(out.write_all(&answer).and_then(|()| out.flush()).is_err())
}

enum Kind {
    Run,
    Merge,
}

/// A file that is larger than the memory of this process is not read, and that is no answer.
fn read(folder: &Path) -> io::Result<(Kind, Vec<u8>)> {
    match fs::read(folder.join(MERGE_FILE)) {
        Ok(bytes) => Ok((Kind::Merge, bytes)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            Ok((Kind::Run, fs::read(folder.join(REQUEST_FILE))?))
        }
        Err(error) => Err(error),
    }
}

fn merged(merge: &Merge) -> Merged {
    let Merge { base, theirs, ours } = merge;
    merge_trees(base, theirs, ours)
}

/// What is wrong with it is not said: the words would hold parts of it.
fn parse<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, ScaffoldError> {
    serde_json::from_slice(bytes).map_err(|_| unreadable())
}

/// Reads what [`child`] printed of a request.
///
/// # Errors
/// Why there are no changes.
pub fn read_answer(printed: &[u8]) -> Result<Outcome, ScaffoldError> {
    serde_json::from_slice(printed).unwrap_or_else(|_| Err(failed("the automation gave no answer")))
}

/// Reads what [`child`] printed of a merge.
///
/// # Errors
/// Why nothing is merged.
pub fn read_merged(printed: &[u8]) -> Result<Merged, ScaffoldError> {
    serde_json::from_slice(printed).unwrap_or_else(|_| Err(failed("the merge gave no answer")))
}

fn unreadable() -> ScaffoldError {
    failed("the request cannot be read")
}

fn failed(message: &str) -> ScaffoldError {
    ScaffoldError::Step { step: "run".to_owned(), message: message.to_owned() }
}
