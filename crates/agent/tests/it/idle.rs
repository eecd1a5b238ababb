//! What an agent does while nothing happens: nothing but renew its lease.
//!
//! One backend is enough: requests are counted in the simulation, where nobody else makes any.

use std::{cell::Cell, time::Duration};

use plural_testkit::{TestCluster, eventually, run_case};

use crate::fixture::{Fixture, PATIENCE, map};

#[test]
fn an_idle_agent_writes_its_lease_and_asks_the_console_nothing() {
    run_case(async {
        let mut f = Fixture::without_agent(TestCluster::kubesim().await?).await?;
        let mut config = f.config().await?;
        config.engine.full_check_every = Duration::from_millis(300);
        config.lease_duration = Duration::from_secs(3);
        f.agent = Some(plural_agent::Agent::start(config)?);
        let mut ids = Vec::new();
        for n in 0..5 {
            let (id, service) = f.service(&format!("s{n}"), &[("app/a.yaml", map(&format!("m{n}"), "1"))]);
            f.console.want(service);
            ids.push(id);
        }
        for id in ids {
            f.console.applied(id).await?;
            f.console
                .report(id, "has it running", |report| report.components.iter().all(|c| c.synced))
                .await?;
        }
        let sim = f.cluster.as_kubesim().expect("a simulated cluster");
        let leases = || sim.audit().count(|key| key.is_write() && key.resource == "leases");
        let others = || sim.audit().count(|key| key.is_write() && key.resource != "leases");
        let lists = || sim.audit().count(|key| key.verb == "list" && key.resource == "configmaps");
        // At rest once a whole turn of the lease passed without a word: on a busy machine a watch may tell late of what was
        // written, and the service is looked at once more.
        let rested = Cell::new((0, 0, leases()));
        eventually(PATIENCE, async || {
            let (writes, reports) = (others(), f.console.memory().reports.len());
            let (before, told, since) = rested.get();
            if (writes, reports) == (before, told) {
                return leases() > since + 1;
            }
            rested.set((writes, reports, leases()));
            false
        })
        .await;
        let before = others();
        let polls = f.console.memory().polls;
        let reports = f.console.memory().reports.len();
        let (seen_leases, seen_lists) = (leases(), lists());
        eventually(PATIENCE, async || leases() >= seen_leases + 6 && lists() >= seen_lists + 4).await;
        assert_eq!(others(), before, "an idle agent writes nothing but its lease");
        assert_eq!(f.console.memory().polls, polls, "no poll while the stream is up");
        assert_eq!(f.console.memory().reports.len(), reports, "no news, no report");
        anyhow::Ok(())
    });
}
