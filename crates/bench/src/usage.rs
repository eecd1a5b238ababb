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
        let mut cpu = Duration::ZERO;
        // Threads that ended in between are not counted; the programs that are measured keep theirs.
        for thread in fs::read_dir(format!("/proc/{pid}/task"))?.flatten() {
            let Ok(text) = fs::read_to_string(thread.path().join("schedstat")) else { continue };
            let nanos = text.split(' ').next().and_then(|n| n.parse().ok()).unwrap_or(0);
            cpu += Duration::from_nanos(nanos);
        }
        Ok(Self { resident: resident * 1024, cpu })
    }

    /// MiB.
    pub(crate) fn mebibytes(&self) -> f64 {
        self.resident as f64 / f64::from(1 << 20)
    }

    /// Cores used on average since an earlier moment, in thousandths.
    pub(crate) fn millicores_since(&self, earlier: &Self, between: Duration) -> f64 {
        self.cpu.saturating_sub(earlier.cpu).as_secs_f64() / between.as_secs_f64() * 1000.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_process_uses_something() {
        let usage = Usage::of(std::process::id()).unwrap();
        assert!(usage.resident > 1 << 20, "{usage:?}");
        assert!(usage.cpu > Duration::ZERO, "{usage:?}");
        assert!(Usage::of(u32::MAX).is_err());
    }
}
