//! A run in a process of its own, which a sandbox runs: the request is a file of its folder, the answer is JSON on standard output.

use std::{fs, io::Write as _, path::Path};

use crate::{Outcome, Request, ScaffoldError, run};

/// The [`Request`] as JSON.
pub const REQUEST_FILE: &str = "request.json";
/// Bytes of an answer.
pub const ANSWER_BYTES: u64 = 128 << 20;

/// Runs the request in `folder`, and prints the answer; the exit code.
pub fn child(folder: &Path) -> u8 {
    let done = read(folder).and_then(|request| run(&request));
    let Ok(answer) = serde_json::to_vec(&done) else { return 1 };
    let mut out = std::io::stdout().lock();
    u8::from(out.write_all(&answer).and_then(|()| out.flush()).is_err())
}

fn read(folder: &Path) -> Result<Request, ScaffoldError> {
    // What is wrong with it is not said: the words would hold parts of it.
    let failed = || failed("the request cannot be read");
    let bytes = fs::read(folder.join(REQUEST_FILE)).map_err(|_| failed())?;
    serde_json::from_slice(&bytes).map_err(|_| failed())
}

/// Reads what [`child`] printed.
///
/// # Errors
/// Why there are no changes.
pub fn read_answer(printed: &[u8]) -> Result<Outcome, ScaffoldError> {
    serde_json::from_slice(printed).unwrap_or_else(|_| Err(failed("the automation gave no answer")))
}

fn failed(message: &str) -> ScaffoldError {
    ScaffoldError::Step { step: "run".to_owned(), message: message.to_owned() }
}
