//! The harnesses of this machine, while they run.

use std::{
    collections::{HashMap, HashSet},
    fs,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread::{self, JoinHandle},
    time::{Duration, Instant},
};

use anyhow::Context as _;
use parking_lot::Mutex;

/// Between two looks.
const LOOK: Duration = Duration::from_millis(10);

/// What was seen of one.
#[derive(Debug, Clone)]
pub(super) struct Harness {
    /// Its run.
    pub(super) run: String,
    pub(super) from: Instant,
    pub(super) until: Instant,
    /// Bytes that were resident at once, of it alone: its commands are processes of their own.
    pub(super) most: u64,
}

/// Looks at the processes of this machine again and again.
pub(super) struct Watch {
    stop: Arc<AtomicBool>,
    /// Runs whose harness runs.
    running: Arc<Mutex<HashSet<String>>>,
    thread: JoinHandle<Vec<Harness>>,
}

impl Watch {
    pub(super) fn start() -> anyhow::Result<Self> {
        let (stop, running) =
            (Arc::new(AtomicBool::new(false)), Arc::new(Mutex::<HashSet<String>>::default()));
        let (asked, told) = (Arc::clone(&stop), Arc::clone(&running));
        let watch = move || {
            let mut seen = Seen::default();
            while !asked.load(Ordering::Acquire) {
                seen.look();
                *told.lock() = seen.running.values().map(|harness| harness.run.clone()).collect();
                thread::sleep(LOOK);
            }
            seen.ended.extend(seen.running.into_values());
            seen.ended
        };
        let thread = thread::Builder::new().name("watch".to_owned()).spawn(watch)?;
        Ok(Self { stop, running, thread })
    }

    /// Whether the harness of a run runs.
    pub(super) fn is_running(&self, run: &str) -> bool {
        self.running.lock().contains(run)
    }

    /// All that were seen.
    pub(super) fn stop(self) -> anyhow::Result<Vec<Harness>> {
        self.stop.store(true, Ordering::Release);
        self.thread.join().ok().context("the thread that looks at processes ended in a panic")
    }
}

#[derive(Default)]
struct Seen {
    running: HashMap<u32, Harness>,
    ended: Vec<Harness>,
}

impl Seen {
    fn look(&mut self) {
        let now = Instant::now();
        let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
        for pid in entries.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok()) {
            if !self.running.contains_key(&pid)
                && let Some(run) = fs::read(format!("/proc/{pid}/cmdline")).ok().as_deref().and_then(run_of)
            {
                self.running.insert(pid, Harness { run, from: now, until: now, most: 0 });
            }
        }
        let mut gone = Vec::new();
        for (pid, harness) in &mut self.running {
            match fs::read_to_string(format!("/proc/{pid}/status")).ok().as_deref().and_then(most_of) {
                Some(most) => {
                    harness.most = harness.most.max(most);
                    harness.until = Instant::now();
                }
                // One that has ended has no memory, whether somebody waited for it or not.
                None => gone.push(*pid),
            }
        }
        self.ended.extend(gone.into_iter().filter_map(|pid| self.running.remove(&pid)));
    }
}

/// The run of a harness, from its command line: words that end with a zero each.
fn run_of(line: &[u8]) -> Option<String> {
    let mut words = line.split(|byte| *byte == 0);
    // Not those who start it: they have its words among theirs.
    let is_one = words.next()?.ends_with(b"plural") && words.next()? == b"harness";
    let mut words = words.skip_while(|word| *word != b"--run");
    let run = words.nth(1).filter(|_| is_one)?;
    Some(String::from_utf8_lossy(run).into_owned())
}

/// The most that was resident at once, from `/proc/PID/status`.
fn most_of(status: &str) -> Option<u64> {
    let most = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    let kib: u64 = most.trim().trim_end_matches("kB").trim().parse().ok()?;
    Some(kib * 1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_harness_is_known_by_its_command_line() {
        let line = b"/usr/bin/plural\0harness\0--console-url\0http://localhost\0--run\0seven\0".as_slice();
        assert_eq!(run_of(line).as_deref(), Some("seven"));
        for other in [
            b"".as_slice(),
            b"/usr/bin/plural\0sandbox\0plural\0harness\0--run\0seven\0",
            b"/usr/bin/other\0harness\0--run\0seven\0",
            b"/usr/bin/plural\0harness\0--install\0/bin\0",
        ] {
            assert_eq!(run_of(other), None);
        }
    }

    #[test]
    fn this_process_had_some_memory() {
        let status = fs::read_to_string("/proc/self/status").unwrap();
        assert!(most_of(&status).unwrap() > 1 << 20);
        assert_eq!(most_of("State:\tZ (zombie)\n"), None);
    }
}
