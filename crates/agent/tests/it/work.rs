//! How work is sent: whole or as a move, in the shape of this contract or of the one before.

use plural_agent::AgentEvent;
use plural_core::ids::ServiceId;
use plural_testkit::{TestCluster, each_cluster, eventually};
use plural_tunnel::{v1, work::work_ref};

use crate::fixture::{Fixture, PATIENCE, map};

each_cluster!(
    a_commit_moves_a_service,
    a_move_that_does_not_fit_asks_for_the_whole_service,
    a_service_that_the_console_cannot_read_stays_as_it_is,
    work_of_an_unknown_kind_is_skipped,
    a_console_of_the_previous_build_is_understood,
    a_kick_reconciles_what_did_not_change,
);

/// A service whose object says its configuration and the number of its artifact.
fn colored(f: &Fixture, color: &str) -> (ServiceId, v1::Service) {
    let (id, mut service) = f.service("shop", &[("app/a.yaml.liquid", template(1))]);
    service.configuration.insert("color".to_owned(), color.to_owned());
    (id, service)
}

fn template(number: u32) -> String {
    map("a", &format!("{{{{ configuration.color }}}} {number}"))
}

async fn a_commit_moves_a_service(cluster: TestCluster) -> anyhow::Result<()> {
    let f = Fixture::new(cluster).await?;
    let (id, service) = colored(&f, "green");
    f.console.want(service);
    f.console.applied(id).await?;
    f.all_kept().await;
    f.console.commit(id, f.console.artifact(&[("app/a.yaml.liquid", template(2))]), "decade");
    let report = f.console.applied(id).await?;
    assert_eq!((f.value("a").await?.as_str(), report.commit_sha.as_str()), ("green 2", "decade"));
    {
        let memory = f.console.memory();
        let moves = memory.answers.iter().filter(|(_, answer)| !answer.moved.is_empty());
        let told: Vec<_> = moves.map(|(_, answer)| (answer.moved.len(), answer.work.len())).collect();
        assert_eq!(told, [(1, 0)], "the service was not sent again");
        assert!(
            memory
                .answers
                .iter()
                .all(|(asked, _)| asked.contract == plural_tunnel::work::CONTRACT && asked.want.is_empty())
        );
    }
    // What is kept is the service after the move.
    let (_, kept) = f.all_kept().await;
    let sent = v1::PollResponse { work: kept.work, ..v1::PollResponse::default() };
    assert!(sent.whole_services().eq([&f.console.service(id)]));
    Ok(())
}

async fn a_move_that_does_not_fit_asks_for_the_whole_service(cluster: TestCluster) -> anyhow::Result<()> {
    let f = Fixture::new(cluster).await?;
    let (id, service) = colored(&f, "green");
    f.console.want(service);
    f.console.applied(id).await?;
    // Its other configuration does not reach the agent, whose cursor goes on all the same.
    f.console.memory().withholds = true;
    let mut red = f.console.service(id);
    red.configuration.insert("color".to_owned(), "red".to_owned());
    f.console.want(red);
    eventually(PATIENCE, async || {
        let memory = f.console.memory();
        let told = memory.answers.last().and_then(|(_, answer)| answer.cursor.clone());
        told.is_some_and(|told| told.sequence == memory.sequence)
    })
    .await;
    f.console.commit(id, f.console.artifact(&[("app/a.yaml.liquid", template(2))]), "decade");
    f.console.applied(id).await?;
    assert_eq!(f.value("a").await?, "red 2");
    let revision = f.console.service(id).revision_id;
    // The new revision never ran with the configuration of before.
    let writes: usize = f
        .events
        .lock()
        .iter()
        .map(|event| match event {
            AgentEvent::Applied { revision_id, changed, .. } if *revision_id == revision => *changed,
            _ => 0,
        })
        .sum();
    assert_eq!(writes, 1);
    let wanted = work_ref(v1::WorkKind::Service, id);
    let asked: Vec<_> = {
        let memory = f.console.memory();
        memory.answers.iter().map(|(asked, _)| asked.want.clone()).filter(|want| !want.is_empty()).collect()
    };
    assert_eq!(asked, [vec![wanted]], "it asked once");
    Ok(())
}

async fn a_service_that_the_console_cannot_read_stays_as_it_is(cluster: TestCluster) -> anyhow::Result<()> {
    let mut f = Fixture::new(cluster).await?;
    let (id, service) = colored(&f, "green");
    let (other, free) = f.service("free", &[("app/b.yaml", map("b", "1"))]);
    let (third, gone) = f.service("gone", &[("app/c.yaml", map("c", "1"))]);
    for (each, wanted) in [(id, service), (other, free), (third, gone)] {
        f.console.want(wanted);
        f.console.applied(each).await?;
    }
    f.console.memory().damaged_service = Some(id.to_string());
    let mut red = f.console.service(id);
    red.configuration.insert("color".to_owned(), "red".to_owned());
    f.console.want(red);
    f.console.commit(other, f.console.artifact(&[("app/b.yaml", map("b", "2"))]), "decade");
    f.console.applied(other).await?;
    let (_, kept) = f.all_kept().await;
    assert_eq!(kept.missing, [work_ref(v1::WorkKind::Service, id)]);
    assert_eq!((f.value("a").await?, f.value("b").await?), ("green 1".to_owned(), "2".to_owned()));
    assert!(f.is_recorded(id).await?);
    // An agent that lost what it kept forgets what is not named any more, and nothing of what is only named.
    f.kill();
    f.folder = tempfile::tempdir()?;
    f.console.detach(third);
    f.start().await?;
    eventually(PATIENCE, async || f.is_recorded(third).await.is_ok_and(|there| !there)).await;
    f.all_kept().await;
    assert!(f.is_recorded(id).await?);
    // It can be read again, and nothing else happens to it.
    f.console.memory().damaged_service = None;
    f.console.commit(other, f.console.artifact(&[("app/b.yaml", map("b", "3"))]), "facade");
    f.console.applied(id).await?;
    assert_eq!(f.value("a").await?, "red 1");
    Ok(())
}

async fn work_of_an_unknown_kind_is_skipped(cluster: TestCluster) -> anyhow::Result<()> {
    let f = Fixture::without_agent(cluster).await?;
    let mut f = f;
    f.console.memory().is_later = true;
    let (id, service) = colored(&f, "green");
    let (free, other) = f.service("free", &[("app/b.yaml", map("b", "1"))]);
    f.console.want(service);
    f.console.want(other);
    f.start().await?;
    f.console.applied(id).await?;
    f.console.applied(free).await?;
    f.console.commit(id, f.console.artifact(&[("app/a.yaml.liquid", template(2))]), "decade");
    f.console.applied(id).await?;
    assert_eq!(f.value("a").await?, "green 2");
    f.console.detach(free);
    eventually(PATIENCE, async || f.is_recorded(free).await.is_ok_and(|there| !there)).await;
    assert_eq!(f.map_names().await?, ["a", "b"], "its objects stay");
    Ok(())
}

async fn a_console_of_the_previous_build_is_understood(cluster: TestCluster) -> anyhow::Result<()> {
    let mut f = Fixture::without_agent(cluster).await?;
    f.console.memory().previous = true;
    let (id, service) = colored(&f, "green");
    let (free, other) = f.service("free", &[("app/b.yaml", map("b", "1"))]);
    f.console.want(service);
    f.console.want(other);
    f.start().await?;
    f.console.applied(id).await?;
    f.console.applied(free).await?;
    f.console.commit(id, f.console.artifact(&[("app/a.yaml.liquid", template(2))]), "decade");
    f.console.applied(id).await?;
    assert_eq!(f.value("a").await?, "green 2");
    f.console.detach(free);
    eventually(PATIENCE, async || f.is_recorded(free).await.is_ok_and(|there| !there)).await;
    assert_eq!(f.map_names().await?, ["a", "b"], "its objects stay");
    assert!(f.is_recorded(id).await?);
    let memory = f.console.memory();
    assert!(memory.answers.iter().all(|(_, answer)| answer.work.is_empty() && answer.moved.is_empty()));
    Ok(())
}

async fn a_kick_reconciles_what_did_not_change(cluster: TestCluster) -> anyhow::Result<()> {
    let f = Fixture::new(cluster).await?;
    f.event("connected", |event| matches!(event, AgentEvent::Connected).then_some(())).await?;
    let (id, service) = colored(&f, "green");
    f.console.want(service);
    f.console.applied(id).await?;
    f.all_kept().await;
    f.events.lock().clear();
    f.console.kick(id);
    let changed = f
        .event("reconciled once more", |event| match event {
            AgentEvent::Applied { changed, .. } => Some(*changed),
            _ => None,
        })
        .await?;
    assert_eq!(changed, 0);
    Ok(())
}
