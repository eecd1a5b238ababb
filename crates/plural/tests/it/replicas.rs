//! Several consoles on one PostgreSQL: what is said to one holds on all, and what one cannot do another does.
//!
//! One backend is enough: consoles share PostgreSQL alone; the cluster only has to be there.

use plural_console::RunningConsole;
use plural_testkit::{
    TestCluster, eventually,
    postgres::{PostgresServer, find_programs},
};

use crate::{
    program::page,
    proxy_world::ProxyWorld,
    world::{PATIENCE, Person, World, console_config, map},
};

mod cases {
    use plural_testkit::run_case;

    #[test]
    fn a_replica_that_is_gone_is_told_and_another_takes_the_agent_over() {
        run_case(super::a_replica_that_is_gone_is_told_and_another_takes_the_agent_over());
    }

    #[test]
    fn who_is_no_replica_is_not_served_as_one() {
        run_case(super::who_is_no_replica_is_not_served_as_one());
    }

    #[test]
    fn postgresql_restarts_and_every_replica_goes_on() {
        run_case(super::postgresql_restarts_and_every_replica_goes_on());
    }

    #[test]
    fn a_restored_backup_is_taken_up_where_it_was() {
        run_case(super::a_restored_backup_is_taken_up_where_it_was());
    }
}

fn client(ca_pem: &str) -> anyhow::Result<reqwest::Client> {
    let certificate = reqwest::Certificate::from_pem(ca_pem.as_bytes())?;
    Ok(reqwest::Client::builder().tls_certs_merge([certificate]).timeout(PATIENCE).build()?)
}

async fn a_replica_that_is_gone_is_told_and_another_takes_the_agent_over() -> anyhow::Result<()> {
    let Some(mut w) = ProxyWorld::with_replicas(TestCluster::kubesim().await?).await? else {
        return Ok(());
    };
    w.bind_in_cluster(&w.admin.email, "cluster-admin").await?;
    let client = client(&w.ca_pem)?;
    let asked =
        || client.get(format!("{}/k8s/blue/version", w.console.url)).bearer_auth(&w.admin.token).send();
    let answer = asked().await?;
    assert_eq!(answer.status(), 200);
    // It is told once, by the replica that asked the agent, under the id that the client got.
    let id = answer.headers()["x-request-id"].to_str()?.to_owned();
    let page = plural_core::PageArgs::first(100);
    let lines = eventually(PATIENCE, async || {
        let ctx = w.as_admin().await.map_err(|error| format!("{error:#}"))?;
        let listed = w
            .app()
            .cluster_audit_list(&ctx, &plural_app::cluster::ClusterSelector::Id(w.cluster_id), &page)
            .await;
        let lines = listed.map_err(|error| error.log_text())?.edges;
        let of_it: Vec<_> =
            lines.into_iter().filter(|line| line.node.entry.request_id.to_string() == id).collect();
        if of_it.is_empty() { Err("no line yet".to_owned()) } else { Ok(of_it) }
    })
    .await;
    assert_eq!(lines.len(), 1);
    assert_eq!((lines[0].node.entry.path.as_str(), lines[0].node.entry.response_code), ("/version", 200));

    // Killed: nobody told the database.
    w.other.take().unwrap().kill().await;
    let answer = asked().await?;
    assert_eq!(answer.status(), 503);
    assert_eq!(answer.headers()["retry-after"], "1");
    let told = answer.text().await?;
    assert!(told.contains("replica of the console") && told.contains("try again"), "{told}");

    // The agent comes to the replica that is left.
    if let Some(agent) = w.agent.take() {
        agent.stop().await;
    }
    w.agent = Some(plural_agent::Agent::start(w.agent_config().await?)?);
    w.until_reached().await;
    Ok(())
}

async fn who_is_no_replica_is_not_served_as_one() -> anyhow::Result<()> {
    let Some(w) = ProxyWorld::with_replicas(TestCluster::kubesim().await?).await? else { return Ok(()) };
    let other = w.other.as_ref().unwrap().app().replica_id();
    // Known with the next sign of life.
    let address = eventually(PATIENCE, async || {
        let alive = w.app().replicas_alive();
        alive.into_iter().find(|replica| replica.id == other).and_then(|replica| replica.address)
    })
    .await;
    let client =
        reqwest::Client::builder().tls_danger_accept_invalid_certs(true).timeout(PATIENCE).build()?;
    let forged = format!("{};{};{}", w.app().replica_id(), w.app().now().timestamp_millis(), "00".repeat(32));
    for said in [None, Some(forged.as_str()), Some("nonsense"), Some(";;")] {
        let mut request =
            client.get(format!("https://{}/k8s/blue/version", address.authority)).bearer_auth(&w.admin.token);
        if let Some(said) = said {
            request = request.header("x-plural-replica", said);
        }
        let answer = request.send().await?;
        assert_eq!(answer.status(), 403, "{said:?}");
        let told = answer.text().await?;
        assert!(told.contains("only other replicas"), "{told}");
    }
    // Nor does what a client says of itself keep a request from being passed on.
    let client = self::client(&w.ca_pem)?;
    let answer = client
        .get(format!("{}/k8s/blue/version", w.console.url))
        .bearer_auth(&w.admin.token)
        .header("x-plural-replica", forged)
        .send()
        .await?;
    assert!([200, 403].contains(&answer.status().as_u16()), "{answer:?}");
    // And there is nothing else behind that door.
    let client =
        reqwest::Client::builder().tls_danger_accept_invalid_certs(true).timeout(PATIENCE).build()?;
    let answer = client.get(format!("https://{}/gql", address.authority)).send().await?;
    assert_eq!(answer.status(), 404);
    Ok(())
}

async fn postgresql_restarts_and_every_replica_goes_on() -> anyhow::Result<()> {
    let Some(server) = PostgresServer::start_or_report()? else { return Ok(()) };
    let folder = tempfile::tempdir()?;
    let mut consoles = Vec::new();
    for name in ["a", "b"] {
        let mut config = console_config(&folder.path().join(name));
        config.database_url = Some(format!("{}/postgres", server.url()).into());
        if name == "b" {
            config.encryption_key_file = Some(folder.path().join("a/console/encryption.key"));
        }
        consoles.push(RunningConsole::start(config, None).await?);
    }
    let [a, b] = <[RunningConsole; 2]>::try_from(consoles).map_err(|_| anyhow::anyhow!("two"))?;
    let ready = async |console: &RunningConsole| {
        page(&console.address.to_string(), "/readyz").await.map_err(|error| error.to_string())
    };
    // Signed in at one, known at both.
    let person = Person::administrator(&a.url).await?;
    let registered = person.cluster("blue").await?;
    let hints = async |console: &RunningConsole| {
        eventually(PATIENCE, async || {
            let agent =
                console.app().agent_authenticate(&registered.token).map_err(|error| error.log_text())?;
            console.app().agent_hints(&agent, None).map_err(|error| error.log_text())
        })
        .await
    };
    let mut at_b = hints(&b).await;
    server.stop()?;
    for console in [&a, &b] {
        eventually(PATIENCE, async || {
            let told = ready(console).await?;
            if told.starts_with("HTTP/1.1 503") { Ok(()) } else { Err(told) }
        })
        .await;
    }
    server.restart()?;
    for console in [&a, &b] {
        eventually(PATIENCE, async || {
            let told = ready(console).await?;
            if told.starts_with("HTTP/1.1 200") { Ok(()) } else { Err(told) }
        })
        .await;
    }
    // What is written at one is heard by an agent at the other, notification or not.
    let remote = plural_testkit::GitRemote::new()?;
    let sha = remote.push_files([("app/a.yaml", map("a", "1"))])?;
    let repository = eventually(PATIENCE, async || {
        person.repository(&remote.path().display().to_string()).await.map_err(|error| format!("{error:#}"))
    })
    .await;
    let service = person.service(&registered, "default", &repository, "app").await?;
    assert!(tokio::time::timeout(PATIENCE, at_b.next()).await?.is_some());
    // And the work that only one does goes on: the commit is found and built.
    eventually(PATIENCE, async || {
        let found = person.details(&service).await.map_err(|error| format!("{error:#}"))?;
        if found.service.sha.as_deref() == Some(sha.as_str()) { Ok(()) } else { Err(format!("{found:?}")) }
    })
    .await;
    a.stop().await?;
    b.stop().await?;
    Ok(())
}

async fn a_restored_backup_is_taken_up_where_it_was() -> anyhow::Result<()> {
    let Some(server) = PostgresServer::start_or_report()? else { return Ok(()) };
    let database = |name: &str| format!("{}/{name}", server.url());
    let cluster = TestCluster::kubesim().await?;
    let mut w =
        World::with_config(cluster, |config| config.database_url = Some(database("postgres").into())).await?;
    w.start_agent().await?;
    let sha = w.remote.push_files([("app/a.yaml", map("a", "1")), ("late/b.yaml", map("b", "1"))])?;
    let service = w.service("app").await?;
    w.person.stands_at(&service, &sha).await;
    let programs = find_programs().map_err(|missing| anyhow::anyhow!("{missing:?}"))?;
    let run = |program: &str, arguments: &[&str]| {
        let done = std::process::Command::new(programs.join(program)).args(arguments).output()?;
        anyhow::ensure!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
        anyhow::Ok(())
    };
    let dump = w.folder.path().join("plural.sql").display().to_string();
    run("pg_dump", &["--dbname", &database("postgres"), "--file", &dump])?;
    let late = w.service("late").await?;
    w.person.stands_at(&late, &sha).await;

    // The database is lost, and the dump is what there is.
    if let Some(agent) = w.agent.take() {
        agent.stop().await;
    }
    let mut config = console_config(w.folder.path());
    config.database_url = Some(database("restored").into());
    config.restored = true;
    run("psql", &["--dbname", &database("postgres"), "--command", "CREATE DATABASE restored"])?;
    run("psql", &["--dbname", &database("restored"), "--quiet", "--file", &dump])?;
    let restored = RunningConsole::start(config, None).await?;
    std::mem::replace(&mut w.console, restored).stop().await?;
    w.person = Person::administrator(&w.console.url).await?;
    w.start_agent().await?;
    w.person.stands_at(&service, &sha).await;
    let missing = w.person.details(&late).await.map(drop);
    assert!(missing.is_err(), "it was made after the backup");
    // A commit still arrives, and what the console does not know any more stays in the cluster.
    let sha = w.remote.push_files([("app/a.yaml", map("a", "2"))])?;
    w.person.stands_at(&service, &sha).await;
    w.until_value("a", "2").await;
    assert_eq!(w.value("b").await?.as_deref(), Some("1"));
    assert_eq!((w.writes_of("a")?, w.writes_of("b")?), (2, 1), "nothing was applied again");
    w.end().await
}
