//! Running test programs side by side.
//!
//! A lane runs one program after another; the lanes take the longest that is left from one queue. What a program
//! prints goes into a file while it runs, and from there to stdout when it ends, so that programs do not mix. The
//! programs stay in this process's group: Ctrl-C ends them together with this task.

use std::{
    collections::{BTreeMap, VecDeque},
    fs::{self, File},
    io::{self, BufRead as _, BufReader, Read, Write},
    path::{Path, PathBuf},
    process::{Child, Command, ExitStatus, Stdio},
    sync::{
        Arc,
        mpsc::{self, RecvTimeoutError},
    },
    thread,
    time::{Duration, Instant},
};

use anyhow::Context as _;
use parking_lot::Mutex;

use super::report::Report;
use crate::shell;

/// How often to say what still runs.
const PROGRESS: Duration = Duration::from_secs(30);
/// How long output may stay open after its program ended: what the program left behind may hold it.
const OUTPUT_CLOSES_WITHIN: Duration = Duration::from_secs(5);
/// How often to look whether a program has ended.
const LOOK: Duration = Duration::from_millis(50);
/// Lines that are shown of a program that ended without saying why.
const TAIL: usize = 40;

/// A program to run.
#[derive(Debug)]
pub(super) struct Job {
    pub(super) name: String,
    pub(super) command: Command,
    /// How many of its tests run at once.
    pub(super) threads: usize,
    /// Whether only the lines of its tests are worth showing when all of them pass.
    pub(super) is_noisy: bool,
    /// Whether it runs tests, and so has to say how many passed.
    pub(super) has_result: bool,
}

/// Where what programs print is shown: stdout, or nowhere in tests, whose own stdout the runner of the runner reads.
type Out = Arc<Mutex<Box<dyn Write + Send>>>;

/// Where and how to run programs.
pub(super) struct Runner {
    /// Folder for what programs print and note.
    pub(super) folder: PathBuf,
    /// How many programs run at once. With one, output is shown as it comes.
    pub(super) lanes: usize,
    out: Out,
}

/// How a program ended.
#[derive(Debug, Default)]
pub(super) struct Outcome {
    pub(super) name: String,
    pub(super) threads: usize,
    pub(super) took: Duration,
    /// Processor time of the program and of the processes that it waited for, where the system tells.
    pub(super) cpu: Option<Duration>,
    pub(super) report: Report,
    /// Tests that noted that they did not run.
    pub(super) not_run: Vec<String>,
    /// `NAME BACKEND`: what tests used whose names do not tell it.
    pub(super) backends: Vec<String>,
    /// A test, a tab, and what it said of the cases that it holds: `WHAT: PASSED of TOTAL`.
    pub(super) compared: Vec<String>,
    /// What is wrong with the program itself, apart from tests that failed.
    pub(super) trouble: Option<String>,
    /// The end of its output, where there is trouble.
    pub(super) tail: String,
}

impl Runner {
    pub(super) fn new(folder: PathBuf, lanes: usize) -> Self {
        Self { folder, lanes, out: Arc::new(Mutex::new(Box::new(io::stdout()))) }
    }

    /// Run all jobs, in this order as far as lanes are free. Outcomes come in the order in which programs ended.
    pub(super) fn run(&self, jobs: Vec<Job>) -> Vec<Outcome> {
        let queue = &Mutex::new(VecDeque::from(jobs));
        let running = &Mutex::new(BTreeMap::new());
        let outcomes = &Mutex::new(Vec::new());
        thread::scope(|scope| {
            let (done, ended) = mpsc::channel::<()>();
            scope.spawn(move || tell_progress(&ended, queue, running));
            for _ in 0..self.lanes {
                let done = done.clone();
                scope.spawn(move || {
                    // A guard in the condition would live as long as the body.
                    let next = || queue.lock().pop_front();
                    while let Some(job) = next() {
                        let name = job.name.clone();
                        running.lock().insert(name.clone(), Instant::now());
                        let outcome = self.run_one(job);
                        running.lock().remove(&name);
                        outcomes.lock().push(outcome);
                    }
                    drop(done);
                });
            }
            drop(done);
        });
        std::mem::take(&mut *outcomes.lock())
    }

    fn run_one(&self, job: Job) -> Outcome {
        let Job { name, mut command, threads, is_noisy, has_result } = job;
        let started = Instant::now();
        let file = self.folder.join(format!("{}.txt", name.replace(' ', "-")));
        let not_run = notes(&mut command, "PLURAL_TEST_NOT_RUN", &file.with_extension("not-run"));
        let backends = notes(&mut command, "PLURAL_TEST_BACKENDS", &file.with_extension("backends"));
        let compared = notes(&mut command, "PLURAL_TEST_COMPARED", &file.with_extension("compared"));

        let mut outcome = Outcome { name, threads, ..Outcome::default() };
        match self.watch(&mut command, &file, is_noisy) {
            Ok(Ended { status, cpu, report }) => {
                // Libtest ends with 101 when a test failed, and has said which.
                let is_explained = status.success() || (status.code() == Some(101) && report.counts().1 > 0);
                outcome.trouble = if !is_explained {
                    Some(status.to_string())
                } else if has_result && !report.has_result {
                    Some("it ended before its tests did".to_owned())
                } else {
                    None
                };
                outcome.cpu = cpu;
                outcome.report = report;
            }
            Err(e) => outcome.trouble = Some(format!("{e:#}")),
        }
        outcome.took = started.elapsed();
        outcome.not_run = lines(&not_run);
        outcome.backends = lines(&backends);
        outcome.compared = lines(&compared);
        if outcome.trouble.is_some() {
            outcome.tail = tail(&file);
        }
        self.show(&outcome, &file, is_noisy);
        outcome
    }

    /// Run a program to its end, with its output in a file.
    fn watch(&self, command: &mut Command, file: &Path, is_noisy: bool) -> anyhow::Result<Ended> {
        let is_live = self.lanes == 1;
        let log = File::create(file).with_context(|| format!("cannot write {}", file.display()))?;
        let stderr = if is_live && !is_noisy { Stdio::inherit() } else { Stdio::piped() };
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(stderr);
        let mut child = command.spawn().context("cannot run the program")?;

        let shown = match (is_live, is_noisy) {
            (false, _) => Shown::Nothing,
            (true, true) => Shown::Cases,
            (true, false) => Shown::All,
        };
        let sink =
            Arc::new(Mutex::new(Sink { log, shown, out: Arc::clone(&self.out), report: Report::default() }));
        let (done, ended) = mpsc::channel();
        if let Some(out) = child.stdout.take() {
            read(out, Stream::Out, &sink, done.clone());
        }
        if let Some(err) = child.stderr.take() {
            read(err, Stream::Err, &sink, done.clone());
        }
        drop(done);
        let (status, cpu) = wait(&mut child)?;
        // Both readers have ended when nobody holds the other end of the channel.
        if ended.recv_timeout(OUTPUT_CLOSES_WITHIN) == Err(RecvTimeoutError::Timeout) {
            eprintln!("{} ended, and something that it started holds its output open", file.display());
        }
        let report = std::mem::take(&mut sink.lock().report);
        Ok(Ended { status, cpu, report })
    }

    /// Print what a program has printed, and a line about it.
    fn show(&self, outcome: &Outcome, file: &Path, is_noisy: bool) {
        let Outcome { name, took, report, trouble, .. } = outcome;
        let (passed, failed) = report.counts();
        let mut out = self.out.lock();
        let mut print = || -> io::Result<()> {
            if self.lanes > 1 {
                writeln!(out, "\n== {name}")?;
                if is_noisy && failed == 0 && trouble.is_none() {
                    for case in &report.cases {
                        writeln!(out, "test {} ... ok", case.name)?;
                    }
                } else {
                    io::copy(&mut File::open(file)?, &mut *out)?;
                }
            }
            let trouble = trouble.as_ref().map(|trouble| format!("; {trouble}")).unwrap_or_default();
            let took = shell::shown_duration(*took);
            writeln!(out, "{name}: {passed} passed, {failed} failed in {took}{trouble}")?;
            out.flush()
        };
        // Nobody reads stdout any more: the exit code still says how it went.
        drop(print());
    }
}

/// A file that the tests of a program write to, named in their environment, and empty at first.
fn notes(command: &mut Command, variable: &str, file: &Path) -> PathBuf {
    drop(fs::remove_file(file));
    command.env(variable, file);
    file.to_owned()
}

fn lines(file: &Path) -> Vec<String> {
    fs::read_to_string(file).unwrap_or_default().lines().map(str::to_owned).collect()
}

/// A program that ran to its end.
struct Ended {
    status: ExitStatus,
    cpu: Option<Duration>,
    report: Report,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stream {
    Out,
    Err,
}

/// What is shown of a program's stdout while it runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Shown {
    Nothing,
    Cases,
    All,
}

/// Where the lines of a program go.
struct Sink {
    log: File,
    shown: Shown,
    out: Out,
    report: Report,
}

impl Sink {
    fn take(&mut self, line: &[u8], stream: Stream) {
        // A full disk costs the log, not the run.
        drop(self.log.write_all(line).and_then(|()| self.log.write_all(b"\n")));
        if stream == Stream::Out {
            self.report.read(&String::from_utf8_lossy(line));
            let is_shown = match self.shown {
                Shown::Nothing => false,
                Shown::Cases => line.starts_with(b"test "),
                Shown::All => true,
            };
            if is_shown {
                let mut out = self.out.lock();
                drop(out.write_all(line).and_then(|()| out.write_all(b"\n")));
            }
        }
    }
}

/// Read a stream to its end on a thread of its own, which drops `done` then. The thread is not joined: a process that
/// the program left behind may hold the stream open.
fn read(stream: impl Read + Send + 'static, which: Stream, sink: &Arc<Mutex<Sink>>, done: mpsc::Sender<()>) {
    let sink = Arc::clone(sink);
    thread::spawn(move || {
        for line in BufReader::new(stream).split(b'\n').map_while(Result::ok) {
            sink.lock().take(&line, which);
        }
        drop(done);
    });
}

/// Wait for the end of a program. Its processor time is read while it is a zombie: afterwards nothing knows it.
fn wait(child: &mut Child) -> anyhow::Result<(ExitStatus, Option<Duration>)> {
    let mut cpu = None;
    loop {
        let Some(stat) = Stat::of(child.id()) else { return Ok((child.wait()?, cpu)) };
        cpu = Some(stat.cpu);
        if stat.is_zombie {
            return Ok((child.wait()?, cpu));
        }
        thread::sleep(LOOK);
    }
}

/// What Linux tells about a process in `/proc/PID/stat`.
#[derive(Debug, PartialEq, Eq)]
struct Stat {
    is_zombie: bool,
    /// In user and system mode, with those of its children that it waited for.
    cpu: Duration,
}

impl Stat {
    fn of(pid: u32) -> Option<Self> {
        Self::read(&fs::read_to_string(format!("/proc/{pid}/stat")).ok()?)
    }

    fn read(text: &str) -> Option<Self> {
        // The second field is the program's name in brackets, which may hold anything.
        let (_, fields) = text.rsplit_once(") ")?;
        let is_zombie = fields.starts_with(['Z', 'X']);
        // utime, stime, cutime and cstime are the fields 14 to 17 of proc(5), in hundredths of a second.
        let ticks: Vec<u64> =
            fields.split(' ').skip(11).take(4).map(str::parse).collect::<Result<_, _>>().ok()?;
        Some(Self { is_zombie, cpu: Duration::from_millis(ticks.iter().sum::<u64>() * 10) })
    }
}

/// Say now and then what runs, until all lanes have ended.
fn tell_progress(
    ended: &mpsc::Receiver<()>,
    queue: &Mutex<VecDeque<Job>>,
    running: &Mutex<BTreeMap<String, Instant>>,
) {
    while ended.recv_timeout(PROGRESS) == Err(RecvTimeoutError::Timeout) {
        let names: Vec<String> = running
            .lock()
            .iter()
            .map(|(name, started)| format!("{name} ({})", shell::took(*started)))
            .collect();
        eprintln!("running: {}; {} programs wait", names.join(", "), queue.lock().len());
    }
}

fn tail(file: &Path) -> String {
    let text = fs::read(file).map(|bytes| String::from_utf8_lossy(&bytes).into_owned()).unwrap_or_default();
    let lines: Vec<&str> = text.lines().collect();
    lines.get(lines.len().saturating_sub(TAIL)..).unwrap_or_default().join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn job(name: &str, script: &str) -> Job {
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        Job { name: name.to_owned(), command, threads: 1, is_noisy: false, has_result: true }
    }

    fn run(lanes: usize, jobs: Vec<Job>) -> Vec<Outcome> {
        let folder = std::env::temp_dir().join(format!("plural-lanes-{}-{lanes}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        let mut outcomes =
            Runner { folder: folder.clone(), lanes, out: Arc::new(Mutex::new(Box::new(io::sink()))) }
                .run(jobs);
        fs::remove_dir_all(folder).unwrap();
        outcomes.sort_by(|a, b| a.name.cmp(&b.name));
        outcomes
    }

    #[test]
    fn programs_run_and_are_read() {
        let passes = "echo 'test a ... ok'; echo a >\"$PLURAL_TEST_NOT_RUN\"; echo 'test result: ok. 1 passed; 0 failed'";
        let fails = "echo 'test b ... FAILED'; echo 'failures:'; echo why; echo 'test result: FAILED. 0 passed; 1 failed'; exit 101";
        let outcomes = run(
            2,
            vec![
                job("1", passes),
                job("2", fails),
                job("3", "echo aborts >&2; exit 134"),
                job("4", "exit 0"),
            ],
        );
        let [first, second, third, fourth] = outcomes.as_slice() else {
            panic!("four programs ran: {outcomes:?}")
        };
        assert_eq!((first.report.counts(), &first.not_run), ((1, 0), &vec!["a".to_owned()]));
        assert_eq!(first.trouble, None);
        assert_eq!(second.report.counts(), (0, 1));
        assert_eq!((second.trouble.as_ref(), second.report.failures.as_str()), (None, "failures:\nwhy\n"));
        assert_eq!(third.trouble.as_deref(), Some("exit status: 134"));
        assert_eq!(third.tail, "aborts");
        assert_eq!(fourth.trouble.as_deref(), Some("it ended before its tests did"));
    }

    #[test]
    fn a_program_that_cannot_be_run_is_trouble() {
        let missing = Job { command: Command::new("/nowhere/at/all"), ..job("1", "") };
        let outcomes = run(1, vec![missing]);
        let trouble = outcomes.first().and_then(|outcome| outcome.trouble.as_deref()).unwrap_or_default();
        assert!(trouble.starts_with("cannot run the program"), "{trouble}");
    }

    #[test]
    fn processor_times_are_read() {
        let text = "12 (a b) c) Z 1 12 12 0 -1 4194304 10 20 0 0 100 20 3 4 20 0 1 0 99 0 0";
        assert_eq!(Stat::read(text), Some(Stat { is_zombie: true, cpu: Duration::from_millis(1270) }));
        assert_eq!(Stat::read("12 (a)"), None);
    }
}
