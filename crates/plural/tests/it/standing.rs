//! How a service stands, and what is done about it, as a person meets it on the command line: waits that end, agents that are away,
//! windows that hold back, rollbacks, configurations.

use plural_testkit::{TestCluster, each_cluster, eventually};
use plural_wire::{ServiceDetails, ServiceReasonKind};

use crate::{
    sync::{Shell, service},
    world::{PATIENCE, World, map},
};

each_cluster!(
    values_that_are_not_named_stay,
    a_rollback_goes_to_the_last_healthy_commit,
    a_wait_ends_with_what_only_a_person_can_mend,
    a_rollback_does_not_wait_for_what_the_revision_before_waited_for,
    a_dry_run_and_an_empty_folder_say_why_they_do_not_become_healthy,
    an_agent_that_is_away_is_told_everywhere,
    a_window_says_its_name_and_when_it_opens,
    a_service_moves_to_another_namespace_without_losing_anything_unasked,
);

async fn until_reason(w: &World, id: &str, kind: ServiceReasonKind) -> ServiceDetails {
    eventually(PATIENCE, async || {
        let found = w.person.details(id).await.map_err(|error| format!("{error:#}"))?;
        match &found.service.reason {
            Some(reason) if reason.kind == kind => Ok(found),
            reason => Err(format!("{reason:?}")),
        }
    })
    .await
}

fn templated(values: &[&str]) -> String {
    let lines: Vec<String> =
        values.iter().map(|name| format!("  {name}: \"{{{{ configuration.{name} }}}}\"\n")).collect();
    format!("apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: values\ndata:\n{}", lines.concat())
}

async fn values_that_are_not_named_stay(cluster: TestCluster) -> anyhow::Result<()> {
    let w = World::new(cluster).await?;
    let shell = Shell::new(&w).await?;
    w.remote.push_files([("app/values.yaml.liquid", templated(&["greeting", "size"]))])?;
    let flags = ["--conf", "greeting=hello", "--conf", "size=1", "--wait"];
    let id = service(&w, &shell, &flags).await?;
    shell.does(&["services", "update", "blue/app", "--conf", "size=2", "--wait"]).await?;
    let data = w.maps().get("values").await?.data.unwrap_or_default();
    assert_eq!(data.get("greeting").map(String::as_str), Some("hello"), "{data:?}");
    assert_eq!(data.get("size").map(String::as_str), Some("2"), "{data:?}");
    let names = async || -> anyhow::Result<Vec<String>> {
        let found = w.person.details(&id).await?;
        Ok(found.configuration.into_iter().map(|value| value.name).collect())
    };

    // The same again changes nothing, and so makes no revision.
    let before = w.person.details(&id).await?.service.revision;
    shell.does(&["services", "update", "blue/app", "--conf", "size=2"]).await?;
    assert_eq!(w.person.details(&id).await?.service.revision, before);

    // One goes by its name; a name that is not there is an error, and nothing else of the change is made.
    let refused =
        shell.run(&["services", "update", "blue/app", "--conf", "size=3", "--unset-conf", "sise"]).await?;
    assert!(refused.code == Some(1) && refused.err.contains("\"sise\""), "{refused:?}");
    assert_eq!(w.person.details(&id).await?.service.revision, before);
    shell.does(&["services", "update", "blue/app", "--conf", "more=1", "--unset-conf", "size"]).await?;
    assert_eq!(names().await?, ["greeting", "more"]);
    let both = shell.run(&["services", "update", "blue/app", "--conf", "a=1", "--unset-conf", "a"]).await?;
    assert_eq!(both.code, Some(2), "{both:?}");
    shell.does(&["services", "update", "blue/app", "--conf", "size=4", "--replace-conf"]).await?;
    assert_eq!(names().await?, ["size"]);

    // Two people at once: neither loses what the other set.
    let set = async |name: &str| shell.does(&["services", "update", "blue/app", "--conf", name]).await;
    tokio::try_join!(set("a=1"), set("b=1"), set("c=1"))?;
    assert_eq!(names().await?, ["a", "b", "c", "size"]);
    w.end().await
}

async fn a_rollback_goes_to_the_last_healthy_commit(cluster: TestCluster) -> anyhow::Result<()> {
    let w = World::new(cluster).await?;
    let shell = Shell::new(&w).await?;
    let good = w.remote.push_files([("app/a.yaml", map("a", "good"))])?;
    let id = service(&w, &shell, &["--wait"]).await?;
    let none = shell.run(&["services", "rollback", "blue/app"]).await?;
    assert!(
        none.code == Some(1) && none.err.contains("never healthy at another commit before this one"),
        "{none:?}"
    );
    w.remote.push_files([("app/a.yaml", "kind: [".to_owned())])?;
    w.person.fails_with(&id, &["a.yaml"]).await;
    let fixed = w.remote.push_files([("app/a.yaml", map("a", "fixed"))])?;
    w.person.stands_at(&id, &fixed).await;
    // Another revision of the same commit.
    shell.does(&["services", "update", "blue/app", "--conf", "unused=1", "--wait"]).await?;

    let dry = shell.run(&["services", "rollback", "blue/app", "--dry-run", "-o", "json"]).await?;
    assert!(dry.err.contains(&fixed[..10]) && dry.err.contains(&good[..10]), "{dry:?}");
    assert_eq!(w.value("a").await?.as_deref(), Some("fixed"), "nothing was done");
    let done = shell.run(&["services", "rollback", "blue/app", "--wait"]).await?;
    assert!(done.code == Some(0) && done.err.contains(&format!("{} ", &fixed[..10])), "{done:?}");
    assert!(done.err.contains(&format!("→ {} ", &good[..10])), "{done:?}");
    assert_eq!(w.value("a").await?.as_deref(), Some("good"));
    let table = shell.does(&["services", "revisions", "blue/app"]).await?;
    let current: Vec<&str> = table.lines().filter(|line| line.contains(&good[..10])).collect();
    assert!(current.iter().all(|line| line.contains(" yes ")) && table.contains("HEALTHY"), "{table}");
    let unknown =
        shell.run(&["services", "rollback", "blue/app", "0190b8a2-7c11-7def-8000-0123456789ab"]).await?;
    assert!(unknown.err.contains("has no revision 0190b8a2"), "{unknown:?}");
    w.end().await
}

async fn a_wait_ends_with_what_only_a_person_can_mend(cluster: TestCluster) -> anyhow::Result<()> {
    let w = World::new(cluster).await?;
    let shell = Shell::new(&w).await?;
    w.remote.push_files([("app/a.yaml", map("a", "1")), ("broken/a.yaml", "kind: [".to_owned())])?;
    let id = service(&w, &shell, &["--wait"]).await?;
    // Each of these would be waited for in vain: five minutes by default.
    for (flags, reason) in [
        // A chart has the same errors: nothing is called "git" that needs not be.
        (&["--ref", "nowhere"][..], "source: cannot find the ref: reference \"nowhere\" not found"),
        (&["--ref", "main", "--folder", "nothing"][..], "source: "),
        (&["--folder", "broken"][..], "render: broken/a.yaml"),
    ] {
        let words: Vec<&str> =
            ["services", "update", "blue/app", "--wait"].iter().chain(flags).copied().collect();
        let done = shell.run(&words).await?;
        assert!(done.code == Some(1) && done.err.contains(reason), "{words:?}: {done:?}");
        assert!(!done.err.contains("timed out"), "{done:?}");
    }
    // What was wrong does not end the wait for what mends it.
    shell.does(&["services", "update", "blue/app", "--folder", "app", "--wait"]).await?;
    shell.does(&["services", "pause", "blue/app"]).await?;
    let paused = shell.run(&["services", "update", "blue/app", "--conf", "a=1", "--wait"]).await?;
    assert!(paused.code == Some(1) && paused.err.contains("services resume blue/app"), "{paused:?}");
    shell.does(&["services", "resume", "blue/app"]).await?;
    until_reason_is_gone(&w, &id).await;
    w.end().await
}

async fn a_rollback_does_not_wait_for_what_the_revision_before_waited_for(
    cluster: TestCluster,
) -> anyhow::Result<()> {
    let w = World::new(cluster).await?;
    let shell = Shell::new(&w).await?;
    w.remote.push_files(["a", "b", "c", "d"].map(|name| (format!("app/{name}.yaml"), map(name, "1"))))?;
    let id = service(&w, &shell, &["--wait"]).await?;
    let gone = w.remote.commit("main").file("app/a.yaml", map("a", "2"));
    gone.remove("app/b.yaml").remove("app/c.yaml").remove("app/d.yaml").push()?;
    until_reason(&w, &id, ServiceReasonKind::Approval).await;
    shell.does(&["services", "rollback", "blue/app", "--wait"]).await?;
    assert_eq!(w.value("a").await?.as_deref(), Some("1"));
    assert_eq!(w.map_names().await?, ["a", "b", "c", "d"]);
    w.end().await
}

async fn a_dry_run_and_an_empty_folder_say_why_they_do_not_become_healthy(
    cluster: TestCluster,
) -> anyhow::Result<()> {
    let w = World::new(cluster).await?;
    let shell = Shell::new(&w).await?;
    w.remote.push_files([("app/a.yaml", map("a", "1")), ("nothing/README.md", "soon".to_owned())])?;
    let at = ["--namespace", &w.namespace, "--repository", &w.repository, "--ref", "main", "--wait"];
    let create = async |name: &str, flags: &[&str]| {
        shell
            .run(&[&["services", "create", name][..], &at, &["--create-namespace=false"], flags].concat())
            .await
    };
    let dry = create("blue/dry", &["--folder", "app", "--dry-run"]).await?;
    assert!(dry.code == Some(1) && dry.err.contains("services plan blue/dry"), "{dry:?}");
    assert!(dry.err.contains("--dry-run=false") && !dry.err.contains("syncs manually"), "{dry:?}");
    let refused = shell.run(&["services", "sync", "blue/dry"]).await?;
    assert!(refused.code == Some(1) && refused.err.contains("--dry-run=false"), "{refused:?}");
    assert!(w.map_names().await?.is_empty());
    let empty = create("blue/empty", &["--folder", "nothing"]).await?;
    assert!(empty.code == Some(1) && empty.err.contains("it has no objects"), "{empty:?}");
    w.end().await
}

async fn until_reason_is_gone(w: &World, id: &str) {
    eventually(PATIENCE, async || {
        let found = w.person.details(id).await.map_err(|error| format!("{error:#}"))?;
        found.service.reason.map_or(Ok(()), |reason| Err(format!("{reason:?}")))
    })
    .await;
}

async fn an_agent_that_is_away_is_told_everywhere(cluster: TestCluster) -> anyhow::Result<()> {
    let mut w = World::new(cluster).await?;
    let shell = Shell::new(&w).await?;
    w.remote.push_files([("app/a.yaml", map("a", "1"))])?;
    let id = service(&w, &shell, &["--wait"]).await?;
    until_reason_is_gone(&w, &id).await;
    let connected = shell.does(&["clusters", "list"]).await?;
    assert!(connected.contains("CONNECTED") && connected.contains(" yes "), "{connected}");

    w.agent.take().unwrap().stop().await;
    let found = until_reason(&w, &id, ServiceReasonKind::Agent).await;
    let reason = found.service.reason.unwrap();
    assert!(reason.message.contains("the agent of blue is not connected (last seen "), "{reason:?}");
    assert!(!reason.terminal, "it may come back");
    eventually(PATIENCE, async || match shell.does(&["clusters", "list"]).await {
        Ok(list) if list.contains("Disconnected") && list.contains(" no ") => Ok(()),
        list => Err(format!("{list:?}")),
    })
    .await;
    assert!(shell.does(&["services", "list"]).await?.contains("the agent of blue is not connected"));
    assert!(
        shell
            .does(&["services", "describe", "blue/app"])
            .await?
            .contains("the agent of blue is not connected")
    );
    for words in [
        &["services", "plan", "blue/app", "--timeout", "2s"][..],
        &["services", "sync", "blue/app", "--wait", "--timeout", "2s"][..],
        &["services", "kick", "blue/app", "--wait", "--timeout", "4s"][..],
        &["services", "delete", "blue/app", "--yes", "--wait", "--timeout", "2s"][..],
    ] {
        let done = shell.run(words).await?;
        assert!(done.code == Some(1), "{words:?}: {done:?}");
        assert!(done.err.contains("the agent of blue is not connected"), "{words:?}: {done:?}");
    }
    w.start_agent().await?;
    eventually(PATIENCE, async || match w.person.details(&id).await {
        Ok(found) => Err(format!("{:?}", found.service.reason)),
        Err(_) => Ok(()),
    })
    .await;
    assert!(w.map_names().await?.is_empty());
    w.end().await
}

async fn a_window_says_its_name_and_when_it_opens(cluster: TestCluster) -> anyhow::Result<()> {
    let w = World::new(cluster).await?;
    let shell = Shell::new(&w).await?;
    w.remote.push_files([("app/a.yaml", map("a", "1"))])?;
    let id = service(&w, &shell, &["--wait"]).await?;
    // Closed for months, whenever this runs.
    let opens = chrono::Utc::now() + chrono::TimeDelta::days(150);
    let schedule = opens.format("0 0 %-d %-m *").to_string();
    let window = ["sync-windows", "create", "allow", "--service", "blue/app", "--schedule", &schedule];
    let window = [&window[..], &["--duration", "1m", "--description", "summer"]].concat();
    shell.does(&window).await?;
    w.remote.push_files([("app/a.yaml", map("a", "2"))])?;
    let found = until_reason(&w, &id, ServiceReasonKind::Window).await;
    let reason = found.service.reason.unwrap();
    assert!(reason.message.contains("held by the sync window \"summer\""), "{reason:?}");
    let day = opens.format("%Y-%m-%d 00:00 UTC").to_string();
    assert!(reason.message.contains(&day) && reason.until.is_some(), "{day}: {reason:?}");
    assert!(!found.errors.iter().any(|error| error.source == "pin"), "{:?}", found.errors);
    let list = shell.does(&["services", "list"]).await?;
    assert!(list.contains("summer"), "{list}");
    let waited = shell.run(&["services", "kick", "blue/app", "--wait", "--timeout", "3s"]).await?;
    assert!(waited.code == Some(0) && waited.out.contains("summer"), "what may run does: {waited:?}");
    shell.does(&["services", "release", "blue/app"]).await?;
    w.until_value("a", "2").await;
    w.end().await
}

async fn a_service_moves_to_another_namespace_without_losing_anything_unasked(
    cluster: TestCluster,
) -> anyhow::Result<()> {
    let w = World::new(cluster).await?;
    let shell = Shell::new(&w).await?;
    w.remote.push_files([("app/a.yaml", map("a", "1"))])?;
    let id = service(&w, &shell, &["--wait"]).await?;
    let there = w.cluster.namespace().await?;
    shell.does(&["services", "update", "blue/app", "--namespace", &there]).await?;
    let maps: kube::Api<k8s_openapi::api::core::v1::ConfigMap> =
        kube::Api::namespaced(w.client.clone(), &there);
    eventually(PATIENCE, async || maps.get("a").await.map_err(|error| error.to_string())).await;
    until_reason(&w, &id, ServiceReasonKind::Approval).await;
    assert_eq!(w.map_names().await?, ["a"], "the object in the namespace before waits for approval");
    // Whoever waits hears what it waits for.
    let waits = shell.run(&["services", "wait", "blue/app"]).await?;
    assert!(waits.code == Some(1) && waits.err.contains("approve-prune blue/app"), "{waits:?}");
    shell.does(&["services", "approve-prune", "blue/app", "--yes", "--wait"]).await?;
    eventually(PATIENCE, async || match w.map_names().await {
        Ok(names) if names.is_empty() => Ok(()),
        names => Err(format!("{names:?}")),
    })
    .await;
    shell.does(&["services", "wait", "blue/app"]).await?;
    assert!(maps.get("a").await.is_ok());
    shell.does(&["services", "delete", "blue/app", "--yes"]).await?;
    shell.does(&["services", "wait", "blue/app", "--for", "deleted"]).await?;
    assert!(maps.get("a").await.is_err());
    w.end().await
}
