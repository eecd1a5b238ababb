//! Time as a render uses it: on a CPU, so that a busy machine does not change the figures.

use std::{process::Command, time::Duration};

use anyhow::Context as _;
use rustix::time::{ClockId, clock_gettime};

/// What this thread has used.
pub(super) fn thread() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec.try_into().unwrap_or(0), time.tv_nsec.try_into().unwrap_or(0))
}

/// What a program uses from its start to its end, all its threads; `None` when it fails.
pub(super) fn program(command: &mut Command) -> anyhow::Result<Option<Duration>> {
    let before = children()?;
    let output = command.output().context("cannot run the program")?;
    let used = children()?.saturating_sub(before);
    Ok(output.status.success().then_some(used))
}

/// What all children that were waited for have used, to the tick of the kernel's accounting.
fn children() -> anyhow::Result<Duration> {
    let stat = std::fs::read_to_string("/proc/self/stat").context("cannot read /proc/self/stat")?;
    // The name, in parentheses, may hold spaces.
    let after = stat.rsplit_once(')').map_or("", |(_, after)| after);
    let ticks = |at: usize| after.split_whitespace().nth(at).and_then(|n| n.parse::<u64>().ok()).unwrap_or(0);
    // cutime and cstime: fields 16 and 17, the state after the name being field 3.
    Ok(Duration::from_millis((ticks(13) + ticks(14)) * 1000 / rustix::param::clock_ticks_per_second()))
}
