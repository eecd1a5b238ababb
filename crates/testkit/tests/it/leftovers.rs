//! Nothing is left behind, however a test process ends.

use std::{
    env, fs,
    io::{BufRead as _, BufReader},
    process::{Command, Stdio},
    time::Duration,
};

use plural_testkit::{
    eventually,
    postgres::{PostgresServer, find_programs},
};

const CHILD_ENV: &str = "PLURAL_TESTKIT_LEFTOVERS_CHILD";

/// Not a case of its own: the process that [`a_killed_process_leaves_nothing`] kills.
#[test]
fn child() {
    if env::var_os(CHILD_ENV).is_none() {
        return;
    }
    let server = PostgresServer::start().unwrap();
    println!("\nURL {}", server.url());
    std::thread::park();
}

#[tokio::test]
async fn a_killed_process_leaves_nothing() {
    if let Err(missing) = find_programs() {
        missing.report();
        return;
    }
    let temp = tempfile::tempdir().unwrap();
    // The server's own user must be able to pass through.
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    fs::set_permissions(temp.path(), mode).unwrap();
    let mut child = Command::new(env::current_exe().unwrap())
        .args(["--exact", "leftovers::child", "--nocapture"])
        .env(CHILD_ENV, "1")
        .env("TMPDIR", temp.path())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let output = BufReader::new(child.stdout.take().unwrap());
    let url = output
        .lines()
        .map_while(Result::ok)
        .find_map(|line| line.strip_prefix("URL ").map(str::to_owned))
        .expect("the child starts a server");
    let address = url.rsplit('@').next().unwrap().to_owned();
    std::net::TcpStream::connect(&address).unwrap();
    assert_eq!(fs::read_dir(temp.path()).unwrap().count(), 1);

    child.kill().unwrap();
    child.wait().unwrap();
    eventually(Duration::from_secs(20), || async {
        std::net::TcpStream::connect(&address).is_err() && fs::read_dir(temp.path()).unwrap().count() == 0
    })
    .await;
}
