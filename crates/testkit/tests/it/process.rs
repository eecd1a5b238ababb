//! Programs that are frozen and let go on.

use std::{env, fs, io::Write as _, thread, time::Duration};

use plural_testkit::{eventually, process::Program};

const CHILD_ENV: &str = "PLURAL_TESTKIT_WRITES";
const SOON: Duration = Duration::from_secs(10);

/// Not a test of its own: a program whose many threads keep every processor busy, and write all the time.
#[test]
fn child() {
    if env::var_os(CHILD_ENV).is_none() {
        return;
    }
    thread::scope(|scope| {
        for _ in 0..16 {
            scope.spawn(|| while writeln!(std::io::stderr(), "on").is_ok() {});
        }
    });
}

#[tokio::test]
async fn a_frozen_program_does_nothing_until_it_is_let_go_on() {
    let folder = tempfile::tempdir().unwrap();
    let program = Program::new(env::current_exe().unwrap(), folder.path())
        .arg("--exact")
        .arg("process::child")
        .arg("--nocapture")
        .env(CHILD_ENV, "1");
    let mut running = program.start().unwrap();
    let written = || fs::metadata(program.log()).unwrap().len();
    eventually(SOON, async || (written() > 0).then_some(())).await;
    for _ in 0..10 {
        running.freeze().unwrap();
        let then = written();
        assert!((0..1_000).all(|_| written() == then), "it goes on writing");
        running.thaw().unwrap();
        eventually(SOON, async || (written() > then).then_some(())).await;
    }
    // Also a frozen one is stopped.
    running.freeze().unwrap();
    running.stop();
    running.freeze().unwrap_err();
    running.thaw().unwrap_err();
}
