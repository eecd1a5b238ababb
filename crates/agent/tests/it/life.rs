//! The ordinary life of an agent.

use plural_agent::AgentEvent;
use plural_core::ids::ServiceId;
use plural_testkit::{TestCluster, each_cluster, eventually};
use plural_tunnel::v1;

use crate::fixture::{FORMER, Fixture, KEPT, PATIENCE, map};

each_cluster!(
    a_hint_becomes_objects_and_a_report,
    templates_see_configuration_and_cluster,
    many_services_are_applied_and_one_bad_one_is_told,
    drift_is_put_right_without_the_console,
    a_plan_is_no_sync,
    another_commit_is_planned_and_not_applied,
    a_sync_tells_which_fields_it_changed,
    settings_that_cannot_be_read_are_told_and_change_nothing,
    a_service_is_destroyed_or_let_go,
    a_restart_repeats_nothing,
    one_artifact_is_fetched_once,
    an_agent_without_streams_polls,
    a_second_replica_waits_for_its_turn,
    killed_before_it_kept_what_it_took,
    killed_before_the_former_file_is_removed,
    what_the_previous_build_kept_is_adopted,
);

async fn a_hint_becomes_objects_and_a_report(cluster: TestCluster) -> anyhow::Result<()> {
    let f = Fixture::new(cluster).await?;
    f.event("connected", |event| matches!(event, AgentEvent::Connected).then_some(())).await?;
    let (id, service) = f.service("shop", &[("app/a.yaml", map("a", "1")), ("app/b.yaml", map("b", "1"))]);
    f.console.want(service.clone());
    let report = f.console.applied(id).await?;
    assert_eq!(report.commit_sha, "c0ffee");
    assert!(report.errors.is_empty(), "{report:?}");
    assert_eq!(f.map_names().await?, ["a", "b"]);
    let report = f
        .console
        .report(id, "has both running", |report| {
            report.components.iter().filter(|c| c.state() == v1::ComponentState::Running && c.synced).count()
                == 2
        })
        .await?;
    assert!(report.components.iter().all(|component| !component.uid.is_empty()));

    // A change writes only what changed, and prunes what left.
    let digest = f.console.artifact(&[("app/a.yaml", map("a", "2"))]);
    f.console.want(v1::Service { artifact_digest: digest, commit_sha: "decade".to_owned(), ..service });
    f.console.applied(id).await?;
    // A watch may tell late of what was written: then it is looked at once more, and nothing is to be done.
    let (changed, deleted, commit) = f
        .event("applied twice", |event| match event {
            AgentEvent::Applied { changed, deleted, commit_sha, .. } if (*changed, *deleted) != (0, 0) => {
                Some((*changed, *deleted, commit_sha.clone()))
            }
            _ => None,
        })
        .await?;
    assert_eq!((changed, deleted, commit.as_str()), (1, 1, "decade"));
    assert_eq!((f.map_names().await?, f.value("a").await?), (vec!["a".to_owned()], "2".to_owned()));
    Ok(())
}

async fn templates_see_configuration_and_cluster(cluster: TestCluster) -> anyhow::Result<()> {
    let f = Fixture::new(cluster).await?;
    let template = map("t", "{{ configuration.color }} on {{ cluster.handle }} by {{ service.name }}");
    let (id, mut service) = f.service("shop", &[("app/t.yaml.liquid", template)]);
    service.configuration.insert("color".to_owned(), "green".to_owned());
    f.console.want(service.clone());
    f.console.applied(id).await?;
    assert_eq!(f.value("t").await?, "green on blue by shop");
    // Other configuration, same artifact.
    service.configuration.insert("color".to_owned(), "red".to_owned());
    f.console.want(service);
    f.console.applied(id).await?;
    assert_eq!(f.value("t").await?, "red on blue by shop");
    Ok(())
}

async fn many_services_are_applied_and_one_bad_one_is_told(cluster: TestCluster) -> anyhow::Result<()> {
    let f = Fixture::new(cluster).await?;
    let mut good = Vec::new();
    for n in 0..20 {
        let (id, service) = f.service(&format!("s{n}"), &[("app/a.yaml", map(&format!("m{n:02}"), "1"))]);
        f.console.want(service);
        good.push(id);
    }
    let broken = "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: x\n bad: y\n".to_owned();
    let (bad, service) = f.service("bad", &[("app/ok.yaml", map("never", "1")), ("app/broken.yaml", broken)]);
    f.console.want(service);
    for id in good {
        f.console.applied(id).await?;
    }
    let report = f.console.report(bad, "names the file", |report| !report.errors.is_empty()).await?;
    let error = &report.errors[0];
    assert!(!report.applied && error.source == "render", "{report:?}");
    assert!(error.location.starts_with("app/broken.yaml:"), "{error:?}");
    assert_eq!(f.map_names().await?.len(), 20);
    Ok(())
}

async fn drift_is_put_right_without_the_console(cluster: TestCluster) -> anyhow::Result<()> {
    let f = Fixture::new(cluster).await?;
    let (id, service) = f.service("shop", &[("app/a.yaml", map("a", "1"))]);
    f.console.want(service);
    f.console.applied(id).await?;
    f.console.kill().await;
    f.meddle("a", "evil").await?;
    f.until_value("a", "1").await?;
    let drift = f
        .event("drift", |event| match event {
            AgentEvent::Applied { drift, .. } if *drift > 0 => Some(*drift),
            _ => None,
        })
        .await?;
    assert_eq!(drift, 1);
    Ok(())
}

async fn a_plan_is_no_sync(cluster: TestCluster) -> anyhow::Result<()> {
    let f = Fixture::new(cluster).await?;
    let (id, service) = f.service("shop", &[("app/a.yaml", map("a", "1")), ("app/b.yaml", map("b", "1"))]);
    // Foreign changes stay, so that there is something to tell.
    let config = r#"{"policy": {"selfHeal": false}}"#.to_owned();
    f.console.want(v1::Service { sync_config_json: config, ..service });
    f.console.applied(id).await?;
    f.meddle("a", "mine").await?;
    f.console.report(id, "tells the foreign change", |report| !report.drift.is_empty()).await?;
    let syncs = || {
        let events = f.events.lock();
        events.iter().filter(|event| matches!(event, AgentEvent::Applied { .. })).count()
    };
    let before = (f.maps().get("a").await?.metadata.resource_version, syncs());
    f.console.ask(id, "question");
    let report = f
        .console
        .report(id, "answers", |report| {
            report.plan.as_ref().is_some_and(|plan| plan.request_id == "question")
        })
        .await?;
    let plan = report.plan.unwrap_or_default();
    assert_eq!((plan.objects.len(), plan.unchanged), (1, 1), "{plan:?}");
    assert_eq!((plan.objects[0].fields[0].before.as_str(), report.applied), ("\"mine\"", true));
    assert_eq!(f.value("a").await?, "mine");
    assert_eq!((f.maps().get("a").await?.metadata.resource_version, syncs()), before, "it only looked");
    Ok(())
}

async fn another_commit_is_planned_and_not_applied(cluster: TestCluster) -> anyhow::Result<()> {
    let f = Fixture::new(cluster).await?;
    let (id, service) = f.service("shop", &[("app/a.yaml", map("a", "1")), ("app/b.yaml", map("b", "1"))]);
    f.console.want(service.clone());
    f.console.applied(id).await?;
    let before = f.maps().get("a").await?.metadata.resource_version;
    let about = |name: &str, artifact_digest| v1::PlanCandidate {
        id: name.to_owned(),
        artifact_digest,
        folder: service.folder.clone(),
        source_root: service.source_root.clone(),
        commit_sha: "head".to_owned(),
    };
    let answer = async |name: &'static str| {
        let is_it = |told: &v1::CandidatePlan| told.plan.as_ref().is_some_and(|plan| plan.request_id == name);
        let told = |report: &v1::ServiceReport| report.candidates.iter().find(|told| is_it(told)).cloned();
        let report = f.console.report(id, "answers", |report| told(report).is_some()).await?;
        anyhow::Ok((told(&report).unwrap_or_default(), report))
    };
    // One is changed, one is new, one left.
    let head = [("app/a.yaml", map("a", "2")), ("app/c.yaml", map("c", "1"))];
    f.console.ask_about(id, about("first", f.console.artifact(&head)));
    let (told, report) = answer("first").await?;
    let plan = told.plan.clone().unwrap_or_default();
    let mut lines: Vec<(String, i32)> =
        plan.objects.iter().map(|line| (line.object.clone().unwrap_or_default().name, line.action)).collect();
    lines.sort_unstable();
    let word = |action: v1::planned_object::Action| i32::from(action);
    assert_eq!(
        lines,
        [
            ("a".to_owned(), word(v1::planned_object::Action::Change)),
            ("b".to_owned(), word(v1::planned_object::Action::Prune)),
            ("c".to_owned(), word(v1::planned_object::Action::Create)),
        ]
    );
    assert!(told.problems.is_empty() && plan.error.is_empty(), "{told:?} {plan:?}");
    assert!(report.applied && report.errors.is_empty(), "the service is as it was: {report:?}");

    // What cannot be rendered there, or sent, is an answer too, and no error of the service.
    f.console.ask_about(id, about("broken", f.console.artifact(&[("app/a.yaml", "kind: [".to_owned())])));
    let (told, report) = answer("broken").await?;
    assert!(told.plan.unwrap_or_default().error.starts_with("render: "), "{report:?}");
    let odd = "apiVersion: example.org/v1\nkind: Widget\nmetadata: {name: w}\n".to_owned();
    f.console.ask_about(
        id,
        about("odd", f.console.artifact(&[("app/a.yaml", map("a", "1")), ("app/w.yaml", odd)])),
    );
    let (told, report) = answer("odd").await?;
    assert!(told.problems[0].message.contains("Widget"), "{told:?}");
    assert!(report.errors.is_empty() && report.candidates.len() == 3, "{report:?}");
    assert_eq!(f.map_names().await?, ["a", "b"]);
    assert_eq!(f.maps().get("a").await?.metadata.resource_version, before, "it only looked");
    Ok(())
}

async fn a_sync_tells_which_fields_it_changed(cluster: TestCluster) -> anyhow::Result<()> {
    let f = Fixture::new(cluster).await?;
    let secret = |value: &str| {
        format!("apiVersion: v1\nkind: Secret\nmetadata: {{name: s}}\nstringData: {{password: {value}}}\n")
    };
    let files = |value: &str| {
        [("app/a.yaml", map("a", value)), ("app/same.yaml", map("same", "1")), ("app/s.yaml", secret(value))]
    };
    let (id, service) = f.service("shop", &files("first-value"));
    f.console.want(service.clone());
    let created = f.console.any_report(id, "tells what it did", |report| report.plan.is_some()).await?;
    let plan = created.plan.unwrap_or_default();
    assert!(
        plan.request_id.is_empty() && plan.objects.iter().all(|object| object.fields.is_empty()),
        "{plan:?}"
    );

    let digest = f.console.artifact(&files("second-value"));
    f.console.want(v1::Service { artifact_digest: digest, commit_sha: "decade".to_owned(), ..service });
    let report = f
        .console
        .any_report(id, "tells the change", |report| report.commit_sha == "decade" && report.plan.is_some())
        .await?;
    let plan = report.plan.unwrap_or_default();
    let mut told: Vec<String> = plan
        .objects
        .iter()
        .flat_map(|object| {
            let name = object.object.clone().unwrap_or_default().name;
            let line = move |field: &v1::FieldChange| {
                format!("{name} {} {} {}", field.path, field.before, field.after)
            };
            object.fields.iter().map(line)
        })
        .collect();
    told.sort_unstable();
    assert_eq!(
        told,
        ["a /data/key \"first-value\" \"second-value\"", "s /data/password \"(hidden)\" \"(hidden)\"",]
    );
    assert_eq!((plan.objects.len(), plan.unchanged), (2, 1), "{plan:?}");
    Ok(())
}

async fn settings_that_cannot_be_read_are_told_and_change_nothing(
    cluster: TestCluster,
) -> anyhow::Result<()> {
    let f = Fixture::new(cluster).await?;
    let (id, service) = f.service("shop", &[("app/a.yaml", map("a", "1"))]);
    f.console.want(service.clone());
    f.console.applied(id).await?;
    let unreadable = r#"{"policy": {"prune": "sometimes"}}"#.to_owned();
    let digest = f.console.artifact(&[("app/b.yaml", map("b", "1"))]);
    f.console.want(v1::Service { sync_config_json: unreadable, artifact_digest: digest, ..service });
    let report = f.console.report(id, "names the settings", |report| !report.errors.is_empty()).await?;
    assert!(report.errors[0].message.contains("the service's settings"), "{report:?}");
    // Whoever waits for a plan is told by the source that none comes.
    assert_eq!((report.errors[0].source.as_str(), report.applied), ("render", false));
    assert_eq!(f.map_names().await?, ["a"]);
    Ok(())
}

async fn a_service_is_destroyed_or_let_go(cluster: TestCluster) -> anyhow::Result<()> {
    let f = Fixture::new(cluster).await?;
    let (doomed, service) = f.service("doomed", &[("app/a.yaml", map("doomed", "1"))]);
    let (free, other) = f.service("free", &[("app/a.yaml", map("free", "1"))]);
    f.console.want(service.clone());
    f.console.want(other);
    f.console.applied(doomed).await?;
    f.console.applied(free).await?;

    f.console.want(v1::Service { intent: v1::Intent::Destroy.into(), ..service });
    let report = f.console.report(doomed, "says destroyed", |report| report.destroyed).await?;
    assert!(report.components.is_empty(), "{report:?}");
    assert_eq!(f.map_names().await?, ["free"]);

    f.console.detach(free);
    let gone = plural_testkit::eventually(crate::fixture::PATIENCE, async || {
        f.is_recorded(free).await.is_ok_and(|recorded| !recorded)
    });
    gone.await;
    assert_eq!(f.map_names().await?, ["free"], "its objects stay");
    Ok(())
}

async fn a_restart_repeats_nothing(cluster: TestCluster) -> anyhow::Result<()> {
    let mut f = Fixture::new(cluster).await?;
    let (id, service) = f.service("shop", &[("app/a.yaml", map("a", "1")), ("app/b.yaml", map("b", "1"))]);
    f.console.want(service.clone());
    f.console.applied(id).await?;
    let version = f.maps().get("a").await?.metadata.resource_version;

    f.kill();
    f.events.lock().clear();
    f.start().await?;
    let (changed, unchanged) = f
        .event("applied after the restart", |event| match event {
            AgentEvent::Applied { changed, unchanged, .. } => Some((*changed, *unchanged)),
            _ => None,
        })
        .await?;
    assert_eq!((changed, unchanged), (0, 2));
    assert_eq!(f.maps().get("a").await?.metadata.resource_version, version);
    assert_eq!(f.console.memory().downloads[&service.artifact_digest], 1, "it was still on disk");

    // Without console and without folder, what is in the cluster stays as it is; then git's change arrives.
    f.kill();
    f.console.kill().await;
    f.folder = tempfile::tempdir()?;
    f.start().await?;
    f.console.revive().await?;
    let digest = f.console.artifact(&[("app/b.yaml", map("b", "2"))]);
    f.console.want(v1::Service { artifact_digest: digest, ..service });
    f.console.applied(id).await?;
    assert_eq!((f.map_names().await?, f.value("b").await?), (vec!["b".to_owned()], "2".to_owned()));
    Ok(())
}

async fn one_artifact_is_fetched_once(cluster: TestCluster) -> anyhow::Result<()> {
    let f = Fixture::without_agent(cluster).await?;
    let mut f = f;
    let template = map("{{ service.name }}", "1");
    let mut ids = Vec::new();
    let mut digest = String::new();
    for n in 0..10 {
        let (id, service) = f.service(&format!("s{n}"), &[("app/a.yaml.liquid", template.clone())]);
        digest.clone_from(&service.artifact_digest);
        f.console.want(service);
        ids.push(id);
    }
    f.start().await?;
    for id in ids {
        f.console.applied(id).await?;
    }
    assert_eq!(f.console.memory().downloads[&digest], 1);
    assert_eq!(f.map_names().await?.len(), 10);
    Ok(())
}

async fn an_agent_without_streams_polls(cluster: TestCluster) -> anyhow::Result<()> {
    let mut f = Fixture::without_agent(cluster).await?;
    f.console.memory().pollers_only = true;
    let (id, service) = f.service("shop", &[("app/a.yaml", map("a", "1"))]);
    f.console.want(service.clone());
    f.start().await?;
    f.console.applied(id).await?;
    assert_eq!(f.value("a").await?, "1");
    // And again, however often a stream is tried meanwhile.
    let digest = f.console.artifact(&[("app/a.yaml", map("a", "2"))]);
    f.console.want(v1::Service { artifact_digest: digest, ..service });
    eventually(PATIENCE, async || match f.value("a").await {
        Ok(value) if value == "2" => Ok(()),
        other => Err(format!("{other:?}")),
    })
    .await;
    Ok(())
}

async fn a_second_replica_waits_for_its_turn(cluster: TestCluster) -> anyhow::Result<()> {
    let mut f = Fixture::new(cluster).await?;
    let (id, service) = f.service("shop", &[("app/a.yaml", map("a", "1"))]);
    f.console.want(service.clone());
    f.console.applied(id).await?;

    let elsewhere = tempfile::tempdir()?;
    let mut config = f.config().await?;
    config.cache_dir = elsewhere.path().to_owned();
    // The first may have been told of the service by a poll, before its stream was open.
    eventually(PATIENCE, async || f.console.memory().hellos == 1).await;
    let second = plural_agent::Agent::start(config)?;
    let digest = f.console.artifact(&[("app/a.yaml", map("a", "2"))]);
    f.console.want(v1::Service { artifact_digest: digest, ..service.clone() });
    f.console.applied(id).await?;
    assert_eq!(f.console.memory().hellos, 1, "the second one keeps still");

    // The first stops in good order; the second goes on without waiting for the lease to end.
    f.agent.take().unwrap().stop().await;
    let digest = f.console.artifact(&[("app/a.yaml", map("a", "3"))]);
    f.console.want(v1::Service { artifact_digest: digest, ..service });
    f.console.applied(id).await?;
    assert_eq!(f.value("a").await?, "3");
    second.stop().await;
    Ok(())
}

/// Two services, applied and kept; the names of their objects are `a` and `b`.
async fn two_services(f: &Fixture) -> anyhow::Result<[(ServiceId, v1::Service); 2]> {
    let a = f.service("shop", &[("app/a.yaml", map("a", "1"))]);
    let b = f.service("other", &[("app/b.yaml", map("b", "1"))]);
    f.console.want(a.1.clone());
    f.console.want(b.1.clone());
    f.console.applied(a.0).await?;
    f.console.applied(b.0).await?;
    Ok([a, b])
}

/// The cursor that the first poll after a restart carried, and whether everything was sent.
fn first_poll(f: &Fixture) -> (Option<v1::Cursor>, bool) {
    let memory = f.console.memory();
    let (asked, answer) = memory.answers.first().expect("a poll");
    (asked.cursor.clone(), answer.snapshot)
}

async fn killed_before_it_kept_what_it_took(cluster: TestCluster) -> anyhow::Result<()> {
    let mut f = Fixture::new(cluster).await?;
    let [(a, _), (b, _)] = two_services(&f).await?;
    let (_, before) = f.all_kept().await;
    // What it takes from now on it cannot write.
    std::fs::create_dir(f.folder.path().join("work-2.new"))?;
    f.console.commit(a, f.console.artifact(&[("app/a.yaml", map("a", "2"))]), "decade");
    f.console.applied(a).await?;
    f.kill_and_copy()?;
    std::fs::remove_dir(f.folder.path().join("work-2.new"))?;
    assert_eq!(f.kept()?.1, before);

    f.console.memory().answers.clear();
    f.start().await?;
    f.all_kept().await;
    assert_eq!(first_poll(&f), (before.cursor, false), "what was not kept is sent again");
    f.until_value("a", "2").await?;
    assert_eq!(f.map_names().await?, ["a", "b"]);
    assert!(f.is_recorded(a).await? && f.is_recorded(b).await?, "nothing is forgotten");
    Ok(())
}

async fn killed_before_the_former_file_is_removed(cluster: TestCluster) -> anyhow::Result<()> {
    let mut f = Fixture::new(cluster).await?;
    let [(a, _), (b, _)] = two_services(&f).await?;
    let (owner, before) = f.all_kept().await;
    f.console.commit(a, f.console.artifact(&[("app/a.yaml", map("a", "2"))]), "decade");
    f.console.applied(a).await?;
    let (_, kept) = f.all_kept().await;
    f.kill_and_copy()?;
    f.keep_as_before(&owner, before)?;

    // Without a console, the newer of both files decides.
    f.console.kill().await;
    f.meddle("a", "evil").await?;
    f.start().await?;
    f.until_value("a", "2").await?;
    f.console.memory().answers.clear();
    f.console.revive().await?;
    f.console.commit(a, f.console.artifact(&[("app/a.yaml", map("a", "3"))]), "facade");
    f.console.applied(a).await?;
    f.all_kept().await;
    assert_eq!(first_poll(&f), (kept.cursor, false), "it goes on from its place");
    eventually(PATIENCE, async || !f.folder.path().join(FORMER).exists()).await;
    assert_eq!(
        (f.map_names().await?, f.value("a").await?),
        (vec!["a".to_owned(), "b".to_owned()], "3".to_owned())
    );
    assert!(f.is_recorded(a).await? && f.is_recorded(b).await?, "nothing is forgotten");
    Ok(())
}

async fn what_the_previous_build_kept_is_adopted(cluster: TestCluster) -> anyhow::Result<()> {
    let mut f = Fixture::new(cluster).await?;
    let [(a, _), (b, other)] = two_services(&f).await?;
    let (owner, kept) = f.all_kept().await;
    let known = kept.cursor.clone();
    f.kill_and_copy()?;
    f.keep_as_before(&owner, kept)?;
    std::fs::remove_file(f.folder.path().join(KEPT))?;

    // Without a console, its services are looked after.
    f.console.kill().await;
    f.meddle("a", "evil").await?;
    f.start().await?;
    f.until_value("a", "1").await?;
    // The console is of the previous build, too, and answers with what changed since.
    {
        let mut memory = f.console.memory();
        memory.previous = true;
        memory.answers.clear();
    }
    f.console.revive().await?;
    // One service changes, the other stays.
    let digest = f.console.artifact(&[("app/b.yaml", map("b", "2"))]);
    f.console.want(v1::Service { artifact_digest: digest, ..other });
    f.console.applied(b).await?;
    f.all_kept().await;
    assert_eq!(first_poll(&f), (known, false));
    eventually(PATIENCE, async || !f.folder.path().join(FORMER).exists()).await;
    assert!(f.is_recorded(a).await? && f.is_recorded(b).await?, "nothing is forgotten");
    // The console is replaced by one of this build, which sends everything that its contract carries.
    f.console.memory().previous = false;
    f.console.commit(a, f.console.artifact(&[("app/a.yaml", map("a", "2"))]), "decade");
    f.console.applied(a).await?;
    assert_eq!((f.value("a").await?, f.value("b").await?), ("2".to_owned(), "2".to_owned()));
    let whole = f.console.memory().answers.iter().filter(|(_, answer)| answer.snapshot).count();
    assert_eq!(whole, 1, "one snapshot was enough");
    assert!(f.is_recorded(a).await? && f.is_recorded(b).await?, "nothing is forgotten");
    Ok(())
}
