//! What a template may spend.

use std::io;

use liquid_core::{Error, Result, Runtime};
use plural_yaml::governor;

/// Bytes that all filters of one template may read and write together.
const MAX_FILTER_BYTES: usize = 128 << 20;
/// Loop passes of one template.
const MAX_PASSES: usize = 100_000;
/// One value.
pub(super) const MAX_VALUE_BYTES: usize = 4 << 20;

/// What is left to one rendering; kept in the runtime's registers.
#[derive(Debug)]
pub(super) struct Budget {
    filter_bytes: usize,
    passes: usize,
}

impl Default for Budget {
    fn default() -> Self {
        Self { filter_bytes: MAX_FILTER_BYTES, passes: MAX_PASSES }
    }
}

/// Pays for `bytes` read or written by a filter or capture.
pub(super) fn pay_bytes(runtime: &dyn Runtime, bytes: usize) -> Result<()> {
    let mut budget = runtime.registers().get_mut::<Budget>();
    match budget.filter_bytes.checked_sub(bytes) {
        Some(left) => {
            budget.filter_bytes = left;
            asked(bytes as u64)
        }
        None => Err(Error::with_msg(
            "the template does too much work: its filters read and write more than 128 MiB",
        )),
    }
}

/// Pays for one pass of a loop.
pub(super) fn pay_pass(runtime: &dyn Runtime) -> Result<()> {
    let mut budget = runtime.registers().get_mut::<Budget>();
    match budget.passes.checked_sub(1) {
        Some(left) => {
            budget.passes = left;
            asked(0)
        }
        None => Err(too_many_passes()),
    }
}

/// Fails when a loop over `passes` values cannot be paid for, before they are laid out in memory.
pub(super) fn can_pass(runtime: &dyn Runtime, passes: usize) -> Result<()> {
    if passes > runtime.registers().get_mut::<Budget>().passes {
        return Err(too_many_passes());
    }
    Ok(())
}

/// Asks the caller whether the render may go on.
fn asked(bytes: u64) -> Result<()> {
    if governor::may_go_on(bytes) { Ok(()) } else { Err(Error::with_msg(governor::STOPPED)) }
}

fn too_many_passes() -> Error {
    Error::with_msg("the template loops more than 100000 times")
}

/// Collects output up to a limit.
pub(super) struct Output {
    bytes: Vec<u8>,
    limit: usize,
}

impl Output {
    pub(super) fn new(limit: usize) -> Self {
        Self { bytes: Vec::new(), limit }
    }

    pub(super) fn into_bytes(self) -> Vec<u8> {
        self.bytes
    }
}

impl io::Write for Output {
    fn write(&mut self, piece: &[u8]) -> io::Result<usize> {
        if self.bytes.len() + piece.len() > self.limit {
            return Err(io::Error::other("the output is larger than allowed"));
        }
        if !governor::may_go_on(piece.len() as u64) {
            return Err(io::Error::other(governor::STOPPED));
        }
        self.bytes.extend_from_slice(piece);
        Ok(piece.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
