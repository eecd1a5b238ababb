//! What a process uses, as the kernel counts it.

use std::{fs, time::Duration};

use anyhow::Context as _;

/// Memory and CPU time of a process at one moment.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Usage {
    /// Resident bytes.
    pub(crate) resident: u64,
    /// Time on a CPU since its start, all threads.
    pub(crate) cpu: Duration,
}

impl Usage {
    /// Of a process of this machine.
    pub(crate) fn of(pid: u32) -> anyhow::Result<Self> {
        let status = fs::read_to_string(format!("/proc/{pid}/status"))
            .with_context(|| format!("process {pid} has ended"))?;
        let resident = status
            .lines()
            .find_map(|line| line.strip_prefix("VmRSS:"))
            .and_then(|value| value.trim().trim_end_matches("kB").trim().parse::<u64>().ok())
            .context("the kernel does not tell the resident memory")?;
        // The process's own sum keeps what threads used that have ended since, as those of a pool do.
        let stat = fs::read_to_string(format!("/proc/{pid}/stat"))?;
        let ticks = cpu_ticks(&stat).context("the kernel does not tell the CPU time")?;
        Ok(Self { resident: resident * 1024, cpu: Duration::from_millis(ticks * TICK_MS) })
    }

    /// MiB.
    pub(crate) fn mebibytes(&self) -> f64 {
        self.resident as f64 / f64::from(1 << 20)
    }

    /// Cores used on average since an earlier moment, in thousandths.
    pub(crate) fn millicores_since(&self, earlier: &Self, between: Duration) -> f64 {
        (self.cpu.as_secs_f64() - earlier.cpu.as_secs_f64()) / between.as_secs_f64() * 1000.0
    }
}

/// What `/proc/PID/stat` counts in (`USER_HZ`: a hundred a second on every Linux that Rust's targets name).
const TICK_MS: u64 = 10;

/// `utime` and `stime` of `proc_pid_stat(5)`, fields 14 and 15. The name in the second one may hold anything.
fn cpu_ticks(stat: &str) -> Option<u64> {
    let (_, rest) = stat.rsplit_once(')')?;
    let mut fields = rest.split_ascii_whitespace().skip(11).map(str::parse::<u64>);
    Some(fields.next()?.ok()? + fields.next()?.ok()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_process_uses_something() {
        let usage = Usage::of(std::process::id()).unwrap();
        assert!(usage.resident > 1 << 20, "{usage:?}");
        assert!(Usage::of(u32::MAX).is_err());
    }

    #[test]
    fn threads_that_ended_are_counted() {
        let before = Usage::of(std::process::id()).unwrap();
        let busy = std::thread::spawn(move || {
            while Usage::of(std::process::id()).unwrap().cpu <= before.cpu + Duration::from_millis(20) {}
        });
        busy.join().unwrap();
        let after = Usage::of(std::process::id()).unwrap();
        assert!(after.millicores_since(&before, Duration::from_secs(1)) > 0.0, "{before:?} {after:?}");
    }

    #[test]
    fn a_name_may_hold_anything() {
        let stat = "7 (a) b (c)) S 1 7 7 0 -1 4194560 1 0 0 0 5 6 1 1 20 0 3 0";
        assert_eq!(cpu_ticks(stat), Some(11));
        assert_eq!(cpu_ticks("7 (a) S"), None);
    }
}
