//! Lists in an order that people choose, and how many of their rows are how.

use std::collections::BTreeMap;

use chrono::{DateTime, TimeDelta, Utc};
use plural_app::OpCtx;
use plural_app::cluster::ClusterFilter;
use plural_app::ports::agents::{AgentStore as _, PingRow};
use plural_app::records::{Sortable, SortedRecords};
use plural_app::service::ServiceFilter;
use plural_core::cluster::{
    Cluster, ClusterColumn, ClusterDistro, ClusterFacts, ClusterState, MinorVersion, NewCluster, TagsChange,
};
use plural_core::cluster_issuer::IssuerReport;
use plural_core::policy::BindingsChange;
use plural_core::service::{Service, ServiceColumn};
use plural_core::sort::Sort;
use plural_core::status::ServiceStatus;
use plural_core::work::Contract;
use plural_core::{Page, PageArgs};
use plural_testkit::{TestDatabase, each_database};
use sea_orm::ConnectionTrait as _;

use crate::door::{Door, by_id, subject};

each_database!(
    clusters_are_sorted_and_counted,
    services_are_sorted_and_counted,
    a_cursor_is_good_for_its_order_only,
    pings_between_two_pages_move_no_cluster,
);

/// All rows of a list, by pages of two, from its start or from its end.
async fn walk<N: Sortable>(
    door: &Door,
    ctx: &OpCtx,
    filter: &N::Filter,
    sort: &Sort<N::Column>,
    from_the_end: bool,
) -> Vec<N>
where
    dyn plural_app::Store: SortedRecords<N>,
{
    let mut all = Vec::new();
    let mut args =
        if from_the_end { PageArgs { last: Some(2), ..PageArgs::default() } } else { PageArgs::first(2) };
    loop {
        let page: Page<N> = door.app.list_sorted::<N>(ctx, filter, sort, &args).await.unwrap();
        let (start, end) = (page.start_cursor().map(str::to_owned), page.end_cursor().map(str::to_owned));
        if from_the_end {
            assert_eq!(page.has_next_page, !all.is_empty());
            args.before = start;
            let goes_on = page.has_previous_page;
            let rows: Vec<N> = page.into_nodes();
            all.splice(0..0, rows);
            if !goes_on {
                return all;
            }
        } else {
            assert_eq!(page.has_previous_page, !all.is_empty());
            args.after = end;
            let goes_on = page.has_next_page;
            all.extend(page.into_nodes());
            if !goes_on {
                return all;
            }
        }
    }
}

/// The order is that of `key` and then of ids, whichever way it is read.
async fn sorted_by<N: Sortable, K: Ord>(
    door: &Door,
    filter: &N::Filter,
    column: N::Column,
    mut all: Vec<N>,
    key: impl Fn(&N) -> K,
) where
    dyn plural_app::Store: SortedRecords<N>,
{
    all.sort_by_key(|one| (key(one), one.key()));
    for descending in [false, true] {
        let mut expected: Vec<_> = all.iter().map(plural_core::page::Keyed::key).collect();
        if descending {
            expected.reverse();
        }
        for from_the_end in [false, true] {
            let sort = Sort { column, descending };
            let found = walk::<N>(door, &door.admin, filter, &sort, from_the_end).await;
            let found: Vec<_> = found.iter().map(plural_core::page::Keyed::key).collect();
            assert_eq!(found, expected, "{sort:?}, from the end: {from_the_end}");
        }
    }
}

async fn ping(door: &Door, cluster: &Cluster, version: Option<&str>, contract: Contract, at: DateTime<Utc>) {
    let ping = PingRow {
        cluster_id: cluster.id,
        facts: Some(ClusterFacts { current_version: version.map(str::to_owned), ..ClusterFacts::default() }),
        distro: Some(ClusterDistro::Eks),
        contract: Some(contract),
        issuer: IssuerReport::Untold,
        at,
    };
    door.database.agent_pings(&[ping]).await.unwrap();
}

async fn list(door: &Door, ctx: &OpCtx, filter: &ClusterFilter) -> Vec<Cluster> {
    door.app.list::<Cluster>(ctx, filter, &PageArgs::default()).await.unwrap().into_nodes()
}

async fn clusters_are_sorted_and_counted(database: TestDatabase) {
    let door = Door::new(database).await;
    let now = Utc::now();
    let minutes = TimeDelta::minutes;
    for (name, tier, heard) in [
        ("m", "1", Some((Some("v1.9.0"), Contract::NEWEST, minutes(1)))),
        ("c", "1", Some((Some("v1.33.10"), Contract::NEWEST, minutes(2)))),
        ("z", "2", Some((Some("v1.33.9"), Contract::SERVICES, minutes(1)))),
        ("b", "1", None),
        ("k", "2", Some((Some("v1.33.4+k3s1"), Contract::NEWEST, minutes(60)))),
        ("a", "1", Some((Some("next"), Contract::NEWEST, minutes(1)))),
        ("y", "2", None),
    ] {
        let tags = BTreeMap::from([("tier".to_owned(), tier.to_owned())]);
        let new = NewCluster { tags, ..NewCluster::named(name.parse().unwrap()) };
        let made = door.app.cluster_create(&door.admin, new).await.unwrap().cluster;
        if let Some((version, contract, ago)) = heard {
            ping(&door, &made, version, contract, now - ago).await;
        }
    }
    let everything = ClusterFilter::default();
    let all = list(&door, &door.admin, &everything).await;
    assert_eq!(all.len(), 7);
    sorted_by(&door, &everything, ClusterColumn::Handle, all.clone(), |one: &Cluster| one.handle.to_string())
        .await;
    // Lately is one moment, and none is before all others.
    let heard = |one: &Cluster| (one.is_healthy(now), one.pinged_at.filter(|_| !one.is_healthy(now)));
    sorted_by(&door, &everything, ClusterColumn::LastHeard(now), all.clone(), heard).await;
    sorted_by(&door, &everything, ClusterColumn::State(now), all.clone(), |one: &Cluster| one.state(now))
        .await;
    let numbers = ["v1.9.0", "v1.33.4+k3s1", "v1.33.9", "v1.33.10"];
    // What has no numbers is as old as what is not known: before all others.
    let version = |one: &Cluster| {
        let version = one.facts.current_version.as_deref();
        numbers.iter().position(|known| Some(*known) == version)
    };
    sorted_by(&door, &everything, ClusterColumn::Version, all.clone(), version).await;

    // Each count is that of the list which its value chooses.
    let states = door.app.cluster_states(&door.admin, &everything).await.unwrap();
    let counts: Vec<u64> = states.iter().map(|(_, count)| *count).collect();
    assert_eq!(counts, [1, 0, 1, 2, 3], "{states:?}");
    for (state, count) in states {
        let filter = ClusterFilter { state: Some((state, now)), ..ClusterFilter::default() };
        let found = list(&door, &door.admin, &filter).await;
        assert_eq!(found.len() as u64, count, "{state:?}");
        assert!(found.iter().all(|one| one.state(now) == state), "{state:?}");
        // It leaves out what it counts.
        let again = door.app.cluster_states(&door.admin, &filter).await.unwrap();
        assert_eq!(again.iter().map(|(_, count)| count).sum::<u64>(), 7);
    }
    let versions = door.app.cluster_versions(&door.admin, &everything).await.unwrap();
    let told: Vec<_> =
        versions.iter().map(|(version, count)| (version.map(|v| v.to_string()), *count)).collect();
    assert_eq!(told, [(Some("1.33".to_owned()), 3), (Some("1.9".to_owned()), 1), (None, 3)]);
    let old = ClusterFilter { version: MinorVersion::of("1.33"), ..ClusterFilter::default() };
    assert_eq!(list(&door, &door.admin, &old).await.len(), 3);
    let distros = door.app.cluster_distros(&door.admin, &everything).await.unwrap();
    assert_eq!(distros, [(Some(ClusterDistro::Eks), 5), (None, 2)]);
    let eks = ClusterFilter { distro: Some(ClusterDistro::Eks), ..old };
    let handles: Vec<_> =
        list(&door, &door.admin, &eks).await.iter().map(|one| one.handle.to_string()).collect();
    assert_eq!(handles, ["c", "z", "k"]);
    let tags = door.app.cluster_tags(&door.admin, &eks).await.unwrap();
    assert_eq!(tags, [(("tier".into(), "2".into()), 2), (("tier".into(), "1".into()), 1)]);
    let projects = door.app.cluster_projects(&door.admin, &eks).await.unwrap();
    assert_eq!(projects, [(door.default_project().await.id, 3)]);

    // Who sees two of them counts two.
    let reader = door.user("reader").await;
    for cluster in &all[..2] {
        let read = BindingsChange { read: Some(vec![subject(&reader)]), ..BindingsChange::default() };
        door.app.binding_replace(&door.admin, cluster.id, read).await.unwrap();
    }
    let reader = door.as_user(&reader).await;
    let states = door.app.cluster_states(&reader, &everything).await.unwrap();
    assert_eq!(states.iter().map(|(_, count)| count).sum::<u64>(), 2);
    let tags = door.app.cluster_tags(&reader, &everything).await.unwrap();
    assert_eq!(tags, [(("tier".into(), "1".into()), 2)]);
    let sort = Sort { column: ClusterColumn::Handle, descending: false };
    let seen = walk::<Cluster>(&door, &reader, &everything, &sort, false).await;
    assert_eq!(seen.iter().map(|one| one.handle.to_string()).collect::<Vec<_>>(), ["c", "m"]);

    // One that is being removed is in that state, whatever is heard.
    let repository = door.repository("https://git.example.com/a.git").await;
    door.service(&all[0], &repository, "web").await;
    door.app.cluster_delete(&door.admin, &by_id(&all[0])).await.unwrap();
    let removing = ClusterFilter { state: Some((ClusterState::Removing, now)), ..ClusterFilter::default() };
    assert_eq!(list(&door, &door.admin, &removing).await.len(), 1);
}

async fn services_are_sorted_and_counted(database: TestDatabase) {
    let source = std::sync::Arc::new(database);
    let door = Door::open(std::sync::Arc::clone(&source)).await;
    let repository = door.repository("https://git.example.com/a.git").await;
    let (blue, green) = (door.cluster("blue").await.cluster, door.cluster("green").await.cluster);
    let other = door.project("other").await;
    let new = NewCluster { project_id: Some(other.id), ..NewCluster::named("red".parse().unwrap()) };
    let red = door.app.cluster_create(&door.admin, new).await.unwrap().cluster;
    for (cluster, name, status) in [
        (&blue, "web", ServiceStatus::Healthy),
        (&green, "web", ServiceStatus::Failed),
        (&blue, "api-2", ServiceStatus::Synced),
        (&red, "db", ServiceStatus::Failed),
        (&blue, "apiv1", ServiceStatus::Paused),
        (&green, "api-10", ServiceStatus::Stale),
    ] {
        let made = door.service(cluster, &repository, name).await;
        // What an agent would report.
        let connection = sea_orm::Database::connect(source.url()).await.unwrap();
        let statement = sea_orm::Statement::from_sql_and_values(
            connection.get_database_backend(),
            "UPDATE services SET status = $1 WHERE id = $2",
            [status.as_str().into(), made.id.uuid().into()],
        );
        connection.execute_raw(statement).await.unwrap();
        connection.close().await.unwrap();
    }
    let everything = ServiceFilter::default();
    let all: Vec<Service> =
        door.app.list::<Service>(&door.admin, &everything, &PageArgs::default()).await.unwrap().into_nodes();
    sorted_by(&door, &everything, ServiceColumn::Name, all.clone(), |one: &Service| one.name.to_string())
        .await;
    sorted_by(&door, &everything, ServiceColumn::UpdatedAt, all.clone(), |one: &Service| one.updated_at)
        .await;
    let place = |one: &Service| ServiceStatus::WORST_FIRST.iter().position(|status| *status == one.status);
    sorted_by(&door, &everything, ServiceColumn::Status, all.clone(), place).await;
    let on_blue = ServiceFilter { cluster_id: Some(blue.id), ..ServiceFilter::default() };
    let blues: Vec<Service> = all.iter().filter(|one| one.cluster_id == blue.id).cloned().collect();
    sorted_by(&door, &on_blue, ServiceColumn::Name, blues, |one: &Service| one.name.to_string()).await;

    let statuses = door.app.service_statuses(&door.admin, &everything).await.unwrap();
    for (status, count) in statuses {
        let expected = all.iter().filter(|one| one.status == status).count();
        assert_eq!(count, expected as u64, "{status:?}");
    }
    let clusters = door.app.service_clusters(&door.admin, &on_blue).await.unwrap();
    assert_eq!(clusters, [(blue.id, 3), (green.id, 2), (red.id, 1)], "it leaves out what it counts");
    let failed = ServiceFilter { status: Some(ServiceStatus::Failed), ..ServiceFilter::default() };
    let mut projects = door.app.service_projects(&door.admin, &failed).await.unwrap();
    projects.sort();
    let mut expected = [(door.default_project().await.id, 1), (other.id, 1)];
    expected.sort();
    assert_eq!(projects, expected);
    let of_other = ServiceFilter { project_id: Some(other.id), ..ServiceFilter::default() };
    let page = door.app.list::<Service>(&door.admin, &of_other, &PageArgs::default()).await.unwrap();
    assert_eq!(page.into_nodes().iter().map(|one| one.name.to_string()).collect::<Vec<_>>(), ["db"]);

    let member = door.user("reader").await;
    let read = BindingsChange { read: Some(vec![subject(&member)]), ..BindingsChange::default() };
    door.app.binding_replace(&door.admin, green.id, read).await.unwrap();
    let reader = door.as_user(&member).await;
    let clusters = door.app.service_clusters(&reader, &everything).await.unwrap();
    assert_eq!(clusters, [(green.id, 2)]);
    let sort = Sort { column: ServiceColumn::Status, descending: false };
    let seen = walk::<Service>(&door, &reader, &everything, &sort, false).await;
    assert_eq!(seen.iter().map(|one| one.name.to_string()).collect::<Vec<_>>(), ["web", "api-10"]);

    // A service of its own counts once, also on a cluster that may be read.
    for name in ["web", "api-2"] {
        for one in all.iter().filter(|one| one.name.as_str() == name) {
            let read = BindingsChange { read: Some(vec![subject(&member)]), ..BindingsChange::default() };
            door.app.binding_replace(&door.admin, one.id, read).await.unwrap();
        }
    }
    let mut clusters = door.app.service_clusters(&reader, &everything).await.unwrap();
    clusters.sort();
    let mut expected = [(blue.id, 2), (green.id, 2)];
    expected.sort();
    assert_eq!(clusters, expected);
    let statuses = door.app.service_statuses(&reader, &everything).await.unwrap();
    assert_eq!(statuses.iter().map(|(_, count)| count).sum::<u64>(), 4);
    let projects = door.app.service_projects(&reader, &everything).await.unwrap();
    assert_eq!(projects, [(door.default_project().await.id, 4)]);
}

/// A cursor of another order names no place in this one.
async fn a_cursor_is_good_for_its_order_only(database: TestDatabase) {
    let door = Door::new(database).await;
    for name in ["a", "b"] {
        door.cluster(name).await;
    }
    let everything = ClusterFilter::default();
    let handles = Sort { column: ClusterColumn::Handle, descending: false };
    let first =
        door.app.list_sorted::<Cluster>(&door.admin, &everything, &handles, &PageArgs::first(1)).await;
    let cursor = first.unwrap().end_cursor().unwrap().to_owned();
    let args = PageArgs { after: Some(cursor), ..PageArgs::first(1) };
    let rest = door.app.list_sorted::<Cluster>(&door.admin, &everything, &handles, &args).await.unwrap();
    assert_eq!(rest.into_nodes()[0].handle.as_str(), "b");
    for other in [
        Sort { column: ClusterColumn::LastHeard(Utc::now()), descending: false },
        Sort { column: ClusterColumn::Handle, descending: true },
    ] {
        let error =
            door.app.list_sorted::<Cluster>(&door.admin, &everything, &other, &args).await.unwrap_err();
        assert!(error.to_string().contains("not a cursor of this list in this order"), "{error}");
    }
    let error = door.app.list::<Cluster>(&door.admin, &everything, &args).await.unwrap_err();
    assert!(error.to_string().contains("not a cursor"), "{error}");
    // What goes or changes in between moves nobody else.
    let change = plural_core::cluster::ClusterChange {
        tags: TagsChange::default(),
        handle: Some("z".parse().unwrap()),
        ..Default::default()
    };
    let a = list(&door, &door.admin, &everything).await.remove(0);
    door.app.cluster_update(&door.admin, &by_id(&a), &change).await.unwrap();
    let rest = door.app.list_sorted::<Cluster>(&door.admin, &everything, &handles, &args).await.unwrap();
    let handles: Vec<_> = rest.into_nodes().iter().map(|one| one.handle.to_string()).collect();
    assert_eq!(handles, ["b"]);
}

/// Agents are heard all the time: a list by that neither repeats nor leaves out a cluster for it.
async fn pings_between_two_pages_move_no_cluster(database: TestDatabase) {
    let door = Door::new(database).await;
    let now = Utc::now();
    let mut lively = Vec::new();
    for (name, ago) in [("a", 60), ("b", 30), ("c", 3), ("d", 2), ("e", 1)] {
        let new = NewCluster::named(name.parse().unwrap());
        let made = door.app.cluster_create(&door.admin, new).await.unwrap().cluster;
        ping(&door, &made, None, Contract::NEWEST, now - TimeDelta::minutes(ago)).await;
        if ago < 5 {
            lively.push(made);
        }
    }
    door.cluster("f").await;
    let everything = ClusterFilter::default();
    for (descending, size, later) in [(false, 4, 10), (true, 2, 20)] {
        let page = async |seconds: i64, args: PageArgs| {
            let column = ClusterColumn::LastHeard(now + TimeDelta::seconds(seconds));
            let sort = Sort { column, descending };
            door.app.list_sorted::<Cluster>(&door.admin, &everything, &sort, &args).await.unwrap()
        };
        let first = page(0, PageArgs::first(size)).await;
        let after = first.end_cursor().map(str::to_owned);
        for cluster in &lively {
            ping(&door, cluster, None, Contract::NEWEST, now + TimeDelta::seconds(later)).await;
        }
        let rest = page(30, PageArgs { after, ..PageArgs::first(10) }).await;
        let found = first.into_nodes().into_iter().chain(rest.into_nodes());
        let mut handles: Vec<String> = found.map(|one| one.handle.to_string()).collect();
        handles.sort();
        assert_eq!(handles, ["a", "b", "c", "d", "e", "f"], "descending: {descending}");
    }
}
