//! An old backup is put back. Agents are the witnesses of what was: nobody goes back unasked.
//!
//! One backend is enough: each database has a test of its own, as their backups are made in different ways; the cluster
//! only has to be there.

use std::{path::Path, time::Duration};

use anyhow::Context as _;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::Api;
use plural_console::{ConsoleConfig, RunningConsole};
use plural_testkit::{
    TestCluster, eventually,
    postgres::{PostgresServer, find_programs},
    run_case,
};
use plural_tunnel::{Console, ConsoleOptions, v1::Cursor};

use crate::world::{PATIENCE, Person, World, console_config, map};

/// The agent's own door.
fn as_agent(console: &RunningConsole, token: &str) -> anyhow::Result<Console> {
    Ok(Console::new(&ConsoleOptions {
        url: console.url.clone(),
        token: token.to_owned(),
        ca_pem: None,
        deadline: Duration::from_secs(10),
    })?)
}

async fn cursor(console: &RunningConsole, token: &str) -> anyhow::Result<Cursor> {
    as_agent(console, token)?.poll(None, Vec::new()).await?.cursor.context("no cursor")
}

/// Writes until the feed is longer than it was when the agent was told of it, and then some.
async fn write_past(person: &Person, console: &RunningConsole, token: &str, cursor: &Cursor) {
    let mut n = 0;
    eventually(PATIENCE, || {
        n += 1;
        let name = format!("new-{n}");
        async move {
            person.cluster(&name).await.map_err(|error| format!("{error:#}"))?;
            let now = self::cursor(console, token).await.map_err(|error| format!("{error:#}"))?;
            if now.sequence > cursor.sequence + 2 { Ok(()) } else { Err(format!("{now:?}")) }
        }
    })
    .await;
}

/// A console that knows of another history than the agent tells it nothing but so.
async fn refuses(console: &RunningConsole, token: &str, cursor: &Cursor) -> anyhow::Result<()> {
    let refused = as_agent(console, token)?.poll(Some(cursor.clone()), Vec::new()).await;
    let told = refused.err().context("it was answered")?.to_string();
    anyhow::ensure!(told.contains("--restored"), "{told}");
    Ok(())
}

/// A folder and what is in it. A console that stopped in this process may still be tidying up: what goes meanwhile was
/// temporary.
pub(crate) fn copy(from: &Path, to: &Path) -> std::io::Result<()> {
    std::fs::create_dir_all(to)?;
    for entry in std::fs::read_dir(from)? {
        let entry = entry?;
        let to = to.join(entry.file_name());
        let copied = if entry.file_type()?.is_dir() {
            copy(&entry.path(), &to)
        } else {
            std::fs::copy(entry.path(), to).map(drop)
        };
        match copied {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
            copied => copied?,
        }
    }
    Ok(())
}

async fn value(maps: &Api<ConfigMap>, name: &str) -> anyhow::Result<Option<String>> {
    let found = maps.get_opt(name).await?;
    Ok(found.and_then(|map| map.data).and_then(|mut data| data.remove("key")))
}

/// Agents keep what they know until somebody says that the console was restored.
#[test]
fn attack_36_a_restored_backup_moves_no_agent_back_unasked() {
    run_case(async {
        let w = World::new(TestCluster::kubesim().await?).await?;
        let sha = w.remote.push_files([("app/a.yaml", map("a", "1")), ("late/b.yaml", map("b", "1"))])?;
        let app = w.service("app").await?;
        w.person.stands_at(&app, &sha).await;

        let (data, backup) = (w.folder.path().join("console"), w.folder.path().join("backup"));
        let World { console, agent, registered, client, namespace, remote, repository, folder, .. } = w;
        let config = ConsoleConfig { listen: console.address, ..console_config(folder.path()) };
        let restart = async |from: Option<&Path>, restored: bool| -> anyhow::Result<RunningConsole> {
            if let Some(from) = from {
                std::fs::remove_dir_all(&data)?;
                copy(from, &data)?;
            }
            Ok(RunningConsole::start(ConsoleConfig { restored, ..config.clone() }, None).await?)
        };
        let maps: Api<ConfigMap> = Api::namespaced(client, &namespace);
        // The backup is taken while the console does not run; afterwards a service comes.
        console.stop().await?;
        copy(&data, &backup)?;
        let console = restart(None, false).await?;
        let person = Person::administrator(&console.url).await?;
        let late = person.service(&registered, &namespace, &repository, "late").await?;
        person.stands_at(&late, &sha).await;
        let known = cursor(&console, &registered.token).await?;
        console.stop().await?;

        // The backup knows nothing of it, and says nothing of having been put back: what runs stays.
        let console = restart(Some(&backup), false).await?;
        let person = Person::administrator(&console.url).await?;
        refuses(&console, &registered.token, &known).await?;
        assert!(person.details(&late).await.is_err(), "the backup is older");
        // Written to until it is longer than what was lost, it is still another history.
        write_past(&person, &console, &registered.token, &known).await;
        refuses(&console, &registered.token, &known).await?;
        let newer = remote.push_files([("app/a.yaml", map("a", "2")), ("late/b.yaml", map("b", "2"))])?;
        eventually(PATIENCE, async || {
            let found = person.details(&app).await.map_err(|error| format!("{error:#}"))?;
            if found.service.sha.as_deref() == Some(newer.as_str()) {
                Ok(())
            } else {
                Err(format!("{found:?}"))
            }
        })
        .await;
        refuses(&console, &registered.token, &known).await?;
        assert_eq!(
            (value(&maps, "a").await?.as_deref(), value(&maps, "b").await?.as_deref()),
            (Some("1"), Some("1"))
        );
        // Nor does a restart change that.
        console.stop().await?;
        let console = restart(None, false).await?;
        refuses(&console, &registered.token, &known).await?;
        console.stop().await?;

        // Somebody says so: the agent takes the state as it is, and what it forgets it leaves in the cluster.
        let console = restart(None, true).await?;
        let told = as_agent(&console, &registered.token)?.poll(Some(known.clone()), Vec::new()).await?;
        assert!(told.snapshot && told.cursor.is_some_and(|told| told.epoch != known.epoch));
        let person = Person::administrator(&console.url).await?;
        person.stands_at(&app, &newer).await;
        assert_eq!(
            (value(&maps, "a").await?.as_deref(), value(&maps, "b").await?.as_deref()),
            (Some("2"), Some("1"))
        );
        agent.context("no agent")?.stop().await;
        console.stop().await?;
        drop(folder);
        anyhow::Ok(())
    });
}

/// PostgreSQL, where a place is a transaction's id: tables that came from elsewhere are not started on, and tables that were
/// put back where they were are found out by the agents.
#[test]
fn attack_36_restored_tables_are_told_from_those_that_were() {
    run_case(async {
        let Some(server) = PostgresServer::start_or_report()? else { return Ok(()) };
        let database = |name: &str| format!("{}/{name}", server.url());
        let with = |name: &str| {
            let url = database(name);
            move |config: &mut ConsoleConfig| config.database_url = Some(url.into())
        };
        let w = World::with_config(TestCluster::kubesim().await?, with("postgres")).await?;
        let programs = find_programs().map_err(|missing| anyhow::anyhow!("{missing:?}"))?;
        let run = |program: &str, arguments: &[&str]| {
            let done = std::process::Command::new(programs.join(program)).args(arguments).output()?;
            anyhow::ensure!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
            anyhow::Ok(())
        };
        let start = async |name: &str, restored: bool| {
            let mut config = console_config(w.folder.path());
            with(name)(&mut config);
            config.restored = restored;
            RunningConsole::start(config, None).await
        };
        let dump = w.folder.path().join("plural.sql").display().to_string();
        run("pg_dump", &["--clean", "--if-exists", "--dbname", &database("postgres"), "--file", &dump])?;
        // What the backup does not know.
        w.person.cluster("red").await?;
        let token = w.registered.token.clone();
        let known = cursor(&w.console, &token).await?;
        w.console.stop().await?;

        // Into another database: no console starts on it unasked.
        run("psql", &["--dbname", &database("postgres"), "--command", "CREATE DATABASE moved"])?;
        run("psql", &["--dbname", &database("moved"), "--quiet", "--file", &dump])?;
        let refused = start("moved", false).await.err().context("it started")?;
        assert!(refused.to_string().contains("--restored"), "{refused}");
        let moved = start("moved", true).await?;
        let told = as_agent(&moved, &token)?.poll(Some(known.clone()), Vec::new()).await?;
        assert!(told.snapshot && told.cursor.is_some_and(|told| told.epoch != known.epoch));
        moved.stop().await?;

        // Over the old tables: the server's transactions went on, and so do the places.
        run("psql", &["--dbname", &database("postgres"), "--quiet", "--file", &dump])?;
        let over = start("postgres", false).await?;
        let person = Person::administrator(&over.url).await?;
        write_past(&person, &over, &token, &known).await;
        refuses(&over, &token, &known).await?;
        over.stop().await?;
        let over = start("postgres", true).await?;
        let told = as_agent(&over, &token)?.poll(Some(known.clone()), Vec::new()).await?;
        assert!(told.snapshot);
        over.stop().await?;
        anyhow::Ok(())
    });
}
