//! One repository with thousands of services.
//!
//! One backend is enough for the thousands: how many statements a commit costs is the same on both, and PostgreSQL needs half a
//! minute to make so many services. It has hundreds.

use std::sync::Arc;

use plural_app::agent_poll::{PollAnswer, PollAsked};
use plural_core::ids::ServiceId;
use plural_testkit::{TestDatabase, each_database};
use secrecy::ExposeSecret;
use tokio::task::JoinSet;

use crate::agent::poll_until;
use crate::door::{Door, by_id, eventually, new_service};

each_database!(of_many_services_a_commit_to_one_folder_moves_one);

const URL: &str = "https://example.com/team/all";

/// How many services there are, and how many statements a commit may cost: fewer than one for each service.
fn scale(database: &TestDatabase) -> (usize, u64) {
    if database.is_postgres() { (500, 400) } else { (5_000, 1_000) }
}

async fn of_many_services_a_commit_to_one_folder_moves_one(database: TestDatabase) {
    let (services, statements) = scale(&database);
    let mut door = Door::new(database).await;
    let made = door.cluster("blue").await;
    let folders: Vec<(String, String)> =
        (0..services).map(|n| (format!("s-{n}"), format!("content {n}"))).collect();
    let files: Vec<(&str, &str)> =
        folders.iter().map(|(name, text)| (name.as_str(), text.as_str())).collect();
    door.git.commit(URL, "c1", &files);
    let repository = door.repository(URL).await;
    // Before the jobs start, which would look again with each of them.
    let mut writers = JoinSet::new();
    for writer in 0..8 {
        let (app, admin) = (Arc::clone(&door.app), door.admin.clone());
        let (cluster, repository) = (made.cluster.clone(), repository.clone());
        writers.spawn(async move {
            for n in (writer..services).step_by(8) {
                let new = new_service(&repository, &format!("s-{n}"));
                app.service_create(&admin, &by_id(&cluster), new).await.unwrap();
            }
        });
    }
    while let Some(done) = writers.join_next().await {
        done.unwrap();
    }
    door.start();
    let agent = door.app.agent_authenticate(made.deploy_token.expose_secret()).unwrap();
    let settled = eventually(async || {
        let answer = door.app.agent_poll(&agent, &PollAsked::at(None)).await.map_err(|e| e.log_text())?;
        let built = answer.services.iter().filter(|service| service.artifact_digest.is_some()).count();
        if built == services { Ok(answer) } else { Err(format!("{built} are built")) }
    })
    .await;
    let one = format!("s-{}", services / 2);
    let changed = settled.services.iter().find(|service| service.name.as_str() == one).unwrap().id;
    assert_eq!(door.git.builds(), services);
    let before = door.database.statements();
    door.git.commit(URL, "c2", &[(one.as_str(), "changed")]);
    door.app.repository_kick(&door.admin, repository.id).await.unwrap();
    // What is told beside it was moved by the first commit, before.
    let moved = |answer: &PollAnswer| -> Vec<ServiceId> {
        let whole = answer.services.iter().map(|service| (service.id, service.sha.as_deref()));
        let moved = answer
            .moved
            .iter()
            .map(|step| (step.id, step.head.source.as_ref().and_then(|source| source.sha.as_deref())));
        whole.chain(moved).filter(|(_, sha)| *sha == Some("c2")).map(|(id, _)| id).collect()
    };
    let answer = poll_until(&door, &agent, Some(&settled.cursor), |answer| !moved(answer).is_empty()).await;
    let ran = door.database.statements() - before;
    let moved = moved(&answer);
    assert_eq!(moved, [changed]);
    assert_eq!(door.git.builds(), services + 1);
    // The look, the move, the answer, and as many signs of life as the machine is slow: nothing for each of the others.
    assert!(ran < statements, "{ran} statements");
    door.stop().await;
}
