//! The servers that all tests of a run share: one real control plane and one PostgreSQL server.
//!
//! Prints one JSON object when they are ready: `{"env": {NAME: VALUE, …}, "missing": [TEXT, …]}`, the
//! environment that test processes need and the backends that this machine has not got. Then it waits for
//! the end of its stdin and stops them. `cargo xtask test` runs it; it is of use by hand too:
//! `sleep inf | cargo run -p plural-testkit --bin test-servers`.

use std::{
    collections::BTreeMap,
    env,
    io::{self, Read as _, Write as _},
    thread,
};

use plural_testkit::{
    OwnedFolder,
    postgres::{self, PostgresServer},
    real::{self, Binaries, RealCluster},
};
use serde_json::json;

fn main() -> anyhow::Result<()> {
    let folder = OwnedFolder::new("run")?;
    // What the caller's environment already names is the caller's to keep.
    let cluster = thread::spawn(|| {
        if env::var_os(real::SHARED_ENV).is_some() {
            return Ok(None);
        }
        match Binaries::find() {
            Ok(binaries) => RealCluster::start_blocking(&binaries).map(|c| Some(Ok(c))),
            Err(missing) => Ok(Some(Err(missing))),
        }
    });
    let postgres = thread::spawn(|| {
        if env::var_os(postgres::SHARED_ENV).is_some() {
            return Ok(None);
        }
        match postgres::find_programs() {
            Ok(_) => PostgresServer::start().map(|s| Some(Ok(s))),
            Err(missing) => Ok(Some(Err(missing))),
        }
    });
    let (cluster, postgres) = (join(cluster)?, join(postgres)?);

    let mut environment = BTreeMap::new();
    let mut missing = Vec::new();
    match &cluster {
        Some(Ok(cluster)) => {
            let file = folder.path().join("cluster.json");
            cluster.share(&file)?;
            environment.insert(real::SHARED_ENV, file.display().to_string());
        }
        Some(Err(why)) => missing.push(why.to_string()),
        None => {}
    }
    match &postgres {
        Some(Ok(server)) => {
            environment.insert(postgres::SHARED_ENV, server.url().to_owned());
        }
        Some(Err(why)) => missing.push(why.to_string()),
        None => {}
    }
    let mut stdout = io::stdout();
    writeln!(stdout, "{}", json!({"env": environment, "missing": missing}))?;
    stdout.flush()?;
    drop(io::stdin().read_to_end(&mut Vec::new()));
    Ok(())
}

fn join<T>(thread: thread::JoinHandle<T>) -> T {
    thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
}
