//! Programs that are frozen and let go on.

use std::fs;
use std::time::Duration;

use plural_testkit::{eventually, process::Program};

const SOON: Duration = Duration::from_secs(10);

#[tokio::test]
async fn a_frozen_program_does_nothing_until_it_is_let_go_on() {
    let folder = tempfile::tempdir().unwrap();
    let program = Program::new("sh", folder.path()).arg("-c").arg("while :; do echo on; done");
    let mut running = program.start().unwrap();
    let written = || fs::metadata(program.log()).unwrap().len();
    eventually(SOON, async || (written() > 0).then_some(())).await;
    for _ in 0..20 {
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
