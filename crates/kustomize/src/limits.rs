//! What a build may use.

use std::cell::Cell;

use super::Error;
use super::yaml::node::Node;
use plural_yaml::governor;

/// Bounds of one build. Exceeding one is an error that names it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Steps: nodes read, copied, visited and compared.
    pub fuel: u64,
    /// Bytes that copies may hold beyond the input.
    pub held_bytes: u64,
    /// Bytes of YAML that come out.
    pub output_bytes: u64,
    /// Levels of nesting of a document.
    pub depth: usize,
    /// Kustomizations within kustomizations.
    pub bases: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self { fuel: 200_000_000, held_bytes: 256 << 20, output_bytes: 256 << 20, depth: 200, bases: 64 }
    }
}

/// What is left of the limits.
pub(crate) struct Budget {
    limits: Limits,
    fuel: Cell<u64>,
    held: Cell<u64>,
}

impl Budget {
    pub(crate) fn new(limits: Limits) -> Self {
        Self { limits, fuel: Cell::new(limits.fuel), held: Cell::new(limits.held_bytes) }
    }

    pub(crate) fn depth(&self) -> usize {
        self.limits.depth
    }

    pub(crate) fn bases(&self) -> usize {
        self.limits.bases
    }

    pub(crate) fn output_bytes(&self) -> u64 {
        self.limits.output_bytes
    }

    /// # Errors
    /// The fuel is used up.
    pub(crate) fn spend(&self, steps: u64) -> Result<(), Error> {
        match self.fuel.get().checked_sub(steps) {
            Some(left) => {
                self.fuel.set(left);
                asked(0)
            }
            None => Err(Error::limit("fuel", self.limits.fuel)),
        }
    }

    /// # Errors
    /// Too much is held.
    pub(crate) fn hold(&self, bytes: u64) -> Result<(), Error> {
        match self.held.get().checked_sub(bytes) {
            Some(left) => {
                self.held.set(left);
                asked(bytes)
            }
            None => Err(Error::limit("held bytes", self.limits.held_bytes)),
        }
    }

    /// Accounts for a copy of a node.
    ///
    /// # Errors
    /// Fuel or memory is used up.
    pub(crate) fn copy_of(&self, node: &Node) -> Result<(), Error> {
        let (nodes, bytes) = node.weight();
        self.spend(nodes)?;
        self.hold(bytes)
    }
}

/// Asks the caller whether the build may go on.
fn asked(bytes: u64) -> Result<(), Error> {
    if governor::may_go_on(bytes) { Ok(()) } else { Err(Error::stopped()) }
}
