//! What fuzzing calls: one function for each kind of input from outside.
//!
//! The functions are bodies of the `cargo fuzz` targets in `fuzz/`, of the bounded run in the tests and of the program
//! of this crate. They panic, overflow the stack or do not end when there is a fault; everything else is well.

mod corpus;
mod doors;
mod mutate;
mod targets;

pub use corpus::{corpus, corpus_folder};
pub use mutate::Mutator;
pub use targets::{TARGETS, Target};

/// Runs the target of that name; none does nothing.
pub fn run(target: &str, data: &[u8]) {
    if let Some(target) = TARGETS.iter().find(|known| known.name == target) {
        (target.run)(data);
    }
}
