//! A tree of files, an automation and answers become changes of files and the words of a pull request.
//!
//! # Guarantees
//! - No network, file, environment, clock or randomness of its own: the same request gives the same outcome.
//! - Steps, bytes, files and memory of scripts are bounded; regexes take linear time. Deadlines are the caller's: it runs this in a
//!   process of its own, see [`child()`]. Merges of [`upgrade`] have one, after which a file is told and left as it is.
//! - A path stays in the tree, is no `.git`, and goes through no link.
//! - An edit changes the bytes that it has to; done twice it is done once.
//! - What fails changes nothing. No error, title or message holds an answer to a `PASSWORD`.

pub mod automation;
mod child;
pub mod condition;
pub mod document;
pub mod edit;
pub mod files;
mod regexes;
mod run;
pub mod upgrade;

pub use child::{ANSWER_BYTES, MERGE_FILE, Merge, REQUEST_FILE, child, read_answer, read_merged};
pub use run::{Limits, Outcome, Request, ScaffoldError, run};
