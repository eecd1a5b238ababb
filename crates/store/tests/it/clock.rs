//! Clocks that jump.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use chrono::{DateTime, TimeDelta, Utc};
use plural_app::ctx::Clock;
use plural_app::replica::ReplicaStore;
use plural_core::component::ComponentState;
use plural_core::ids::ReplicaId;
use plural_core::service::Service;
use plural_core::status::ServiceStatus;
use plural_store::DatabaseOptions;
use plural_testkit::{TestDatabase, each_database};
use secrecy::ExposeSecret as _;

use crate::agent::{component, deployed, digests, poll_until, report, reported};
use crate::door::{Door, eventually, service_id};
use crate::git::{FakeGit, digest};

each_database!(attack_34_a_clock_that_jumps_moves_no_work);

/// The machine's, set wrong by so many seconds.
#[derive(Default)]
pub(crate) struct Wrong(pub(crate) AtomicI64);

impl Clock for Wrong {
    fn now(&self) -> DateTime<Utc> {
        plural_app::ctx::SystemClock.now() + TimeDelta::seconds(self.0.load(Ordering::Relaxed))
    }
}

/// Commits arrive, reports count, leases stay and tokens hold, whatever the console's clock says.
async fn attack_34_a_clock_that_jumps_moves_no_work(database: TestDatabase) {
    const URL: &str = "https://example.com/a";
    const HOUR: i64 = 3600;
    let clock = Arc::new(Wrong::default());
    let git = Arc::new(FakeGit::default());
    let source = Arc::new(database);
    let mut door =
        Door::open_by(source, &DatabaseOptions::new(""), git, Arc::clone(&clock) as Arc<dyn Clock>).await;
    door.start();
    let token = door.app.token_create(&door.admin, None, None).await.unwrap();
    let (agent, service, _, mut cursor) = deployed(&door, "blue").await;
    let lease: Arc<str> = "sources".into();
    eventually(async || is_leased(&door, &lease).await.then_some(())).await;

    for (n, jump) in [HOUR, -HOUR, -HOUR, HOUR, 0].into_iter().enumerate() {
        clock.0.store(jump, Ordering::Relaxed);
        let content = format!("after jump {n}");
        door.git.commit(URL, &format!("j{n}"), &[("web", &content)]);
        door.app.repository_kick(&door.admin, service.repository_id.unwrap()).await.unwrap();
        let wanted = digest(&content);
        let told = poll_until(&door, &agent, Some(&cursor), |answer| digests(answer).contains(&wanted)).await;
        cursor = told.cursor;
        let now = poll_until(&door, &agent, None, |answer| digests(answer).contains(&wanted)).await;
        let done = reported(&now.services[0], |said| {
            said.components = Some(vec![component("a", ComponentState::Running)]);
        });
        door.app.agent_report(&agent, report(n as u64 + 1, vec![done])).await.unwrap();
        eventually(async || {
            let found = door.app.get::<Service>(&door.admin, &service_id(&service)).await.unwrap();
            let is_done = found.artifact_digest.as_deref() == Some(wanted.as_str())
                && found.status == ServiceStatus::Healthy;
            if is_done { Ok(()) } else { Err(format!("{found:?}")) }
        })
        .await;
        assert!(door.app.actor_authenticate(token.text.expose_secret()).await.is_ok());
        // By the database's clock nothing happened.
        assert!(is_leased(&door, &lease).await);
    }
    door.stop().await;
}

/// Whether another replica is refused this lease. It never joins: the repositories that would be its share are fetched by
/// nobody else.
async fn is_leased(door: &Door, lease: &Arc<str>) -> bool {
    let taken = door.database.lease_acquire(lease, ReplicaId::new()).await.unwrap();
    if let Some(fence) = &taken {
        door.database.lease_release(fence).await.unwrap();
    }
    taken.is_none()
}
