//! What a token opens, and what it does not.
//!
//! One backend is enough: tokens open the console; the cluster only has to be there.

use std::time::Duration;

use plural_agent::AgentEvent;
use plural_testkit::{TestCluster, eventually, run_case};
use plural_tunnel::{ArtifactDigest, Console, ConsoleOptions};
use plural_wire::{
    Client, ClientOptions, DeleteCluster, DetachCluster, GetServiceDeployment, RotateDeployToken, Secret,
};

use crate::world::{PATIENCE, World, map};

fn dial(url: &str, token: &str) -> Console {
    let options = ConsoleOptions {
        url: url.to_owned(),
        token: token.to_owned(),
        ca_pem: None,
        deadline: Duration::from_secs(10),
    };
    Console::new(&options).unwrap()
}

async fn refusal(w: &World) -> String {
    eventually(PATIENCE, async || {
        let events = w.events.lock();
        events.iter().rev().find_map(|event| match event {
            AgentEvent::Disconnected { message, refused: true } => Some(message.clone()),
            _ => None,
        })
    })
    .await
}

#[test]
fn a_wrong_token_is_refused_and_a_replaced_one_ends_at_once() {
    run_case(async {
        let mut w = World::without_agent(TestCluster::kubesim().await?).await?;
        let sha = w.remote.push_files([("app/a.yaml", map("a", "1"))])?;
        let id = w.service("app").await?;

        let right = std::mem::replace(&mut w.registered.token, "deploy-wrong".to_owned());
        w.start_agent().await?;
        let message = refusal(&w).await;
        assert!(
            message.contains("rejected this agent's token") && message.contains("bootstrap"),
            "{message}"
        );
        assert!(!message.contains("deploy-wrong"), "{message}");
        assert_eq!(w.map_names().await?, Vec::<String>::new());
        w.agent.take().unwrap().stop().await;

        w.registered.token = right.clone();
        w.start_agent().await?;
        w.person.stands_at(&id, &sha).await;
        w.events.lock().clear();
        let rotated = w.person.client.send(&RotateDeployToken { id: w.registered.id.clone() }).await?;
        // The old one ends for the stream that is open, and for every call.
        let message = refusal(&w).await;
        assert!(!message.contains(&right), "{message}");
        assert!(dial(&w.console.url, &right).poll(None, Vec::new()).await.unwrap_err().is_unauthorized());
        let sha = w.remote.push_files([("app/a.yaml", map("a", "2"))])?;
        w.agent.take().unwrap().stop().await;
        w.registered.token = rotated.deploy_token.unwrap().expose().to_owned();
        w.start_agent().await?;
        w.person.stands_at(&id, &sha).await;
        assert_eq!(w.value("a").await?.as_deref(), Some("2"));
        assert_eq!(w.writes_of("a")?, 2);
        w.end().await
    });
}

#[test]
fn a_token_reaches_its_own_cluster_and_nothing_else() {
    run_case(async {
        let w = World::new(TestCluster::kubesim().await?).await?;
        let sha = w.remote.push_files([("app/a.yaml", map("a", "1"))])?;
        let id = w.service("app").await?;
        w.person.stands_at(&id, &sha).await;
        let stranger = w.person.cluster("red").await?;

        let own = dial(&w.console.url, &w.registered.token);
        let polled = own.poll(None, Vec::new()).await?;
        let [service] = polled.whole_services().collect::<Vec<_>>()[..] else {
            anyhow::bail!("one service was expected: {polled:?}");
        };
        let digest: ArtifactDigest = service.artifact_digest.parse()?;
        assert!(own.artifact(&digest).await.is_ok());

        let other = dial(&w.console.url, &stranger.token);
        assert!(other.poll(None, Vec::new()).await?.whole_services().next().is_none());
        // Another's cursor opens nothing either.
        assert!(other.poll(polled.cursor, Vec::new()).await?.whole_services().next().is_none());
        let refused = other.artifact(&digest).await.err().unwrap();
        assert!(refused.is_not_found(), "a stranger's artifact looks like none: {refused}");
        // A report on another's service changes nothing of it.
        let report = plural_tunnel::v1::ReportRequest {
            services: vec![plural_tunnel::v1::ServiceReport {
                service_id: id.clone(),
                errors: vec![plural_tunnel::v1::ServiceError {
                    source: "sync".to_owned(),
                    message: "a lie".to_owned(),
                    ..Default::default()
                }],
                ..Default::default()
            }],
            ..Default::default()
        };
        let _ = other.report(report).await;
        let found = w.person.details(&id).await?;
        assert!(found.errors.is_empty(), "{:?}", found.errors);

        // An agent's token is no person's: the API shows it neither its own services nor another's.
        for token in [&stranger.token, &w.registered.token] {
            let options = ClientOptions::new(w.console.url.clone(), Some(Secret::new(token)));
            let asked = GetServiceDeployment { id: Some(id.clone()), cluster: None, name: None };
            let refused = Client::new(&options)?.send(&asked).await.unwrap_err();
            assert!(!format!("{refused:?}").contains(token.as_str()), "{refused:?}");
        }
        w.end().await
    });
}

#[test]
fn a_detached_cluster_keeps_what_it_runs() {
    run_case(async {
        let w = World::new(TestCluster::kubesim().await?).await?;
        let sha = w.remote.push_files([("app/a.yaml", map("a", "1"))])?;
        let id = w.service("app").await?;
        w.person.stands_at(&id, &sha).await;
        w.person.client.send(&DetachCluster { id: w.registered.id.clone() }).await?;
        let message = refusal(&w).await;
        assert!(message.contains("If the cluster was deleted"), "{message}");
        assert_eq!(w.map_names().await?, ["a"]);
        assert!(w.person.client.send(&DeleteCluster { id: w.registered.id.clone() }).await.is_err());
        w.end().await
    });
}
