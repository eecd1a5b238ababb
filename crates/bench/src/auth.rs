//! What it costs to decide: a token that was seen a moment ago, and lists for somebody with many bindings.

use std::time::Instant;

use anyhow::Context as _;
use plural_app::cluster::{ClusterFilter, ClusterSelector};
use plural_app::policy::RoleChange;
use plural_app::service::ServiceFilter;
use plural_console::RunningConsole;
use plural_core::PageArgs;
use plural_core::access::{Action, Actor};
use plural_core::cluster::Cluster;
use plural_core::group::NewGroup;
use plural_core::policy::{BindingSubject, NamedRole, Policy, Rights, Role};
use plural_core::role::NewRole;
use plural_core::service::{Service, ServiceColumn};
use plural_core::sort::Sort;
use plural_core::user::NewUser;
use plural_testkit::{OwnedFolder, TestDatabase};
use secrecy::{ExposeSecret, SecretString};

use crate::{
    report::Figure,
    samples::Samples,
    seed::{self, seed},
};

/// Milliseconds that a list may take.
const LIST: f64 = 200.0;
/// Microseconds that a token may take that was seen a moment ago.
const TOKEN: f64 = 2.0;
/// Look-ups of a token in a row: one alone is too short to be measured.
const TOKENS: u32 = 10_000;

/// How large, and how often.
#[derive(Debug, clap::Args)]
pub(crate) struct Options {
    /// Clusters
    #[arg(long, default_value_t = 1000)]
    clusters: usize,
    /// Services on each
    #[arg(long, default_value_t = 100)]
    services: usize,
    /// Bindings of the user, on clusters and services, of the user and of groups, of built-in and custom roles
    #[arg(long, default_value_t = 50)]
    bindings: usize,
    /// Times that each list is asked for
    #[arg(long, default_value_t = 200)]
    times: usize,
    /// SQLite instead of PostgreSQL
    #[arg(long)]
    sqlite: bool,
}

pub(crate) async fn run(options: &Options) -> anyhow::Result<Vec<Figure>> {
    let folder = OwnedFolder::new("bench")?;
    let database = if options.sqlite { None } else { Some(TestDatabase::postgres()?) };
    let mut config = seed::config(folder.path());
    config.database_url = database.as_ref().map(|d| SecretString::from(d.url().to_owned()));
    let seeded = seed(folder.path(), config, None, options.clusters, options.services).await?;
    let console =
        RunningConsole::start(seeded.config.clone(), None).await.context("the console cannot start")?;
    let app = console.app();
    let system = app.ctx(Actor::System);

    let new = NewUser { email: "many@example.com".parse()?, name: "many".parse()?, admin: false };
    let user = app.user_create(&system, &new, None).await?;
    let mut subjects = vec![BindingSubject::User(user.id)];
    for number in 0..10 {
        let new =
            NewGroup { name: format!("group-{number}").parse()?, description: None, global: number == 0 };
        let group = app.group_create(&system, &new).await?;
        if number > 0 {
            app.group_member_create(&system, group.id, user.id).await?;
        }
        subjects.push(BindingSubject::Group(group.id));
    }
    let mut roles: Vec<NamedRole> = vec![Role::Read.into(), Role::Write.into(), Role::Admin.into()];
    for number in 0..3 {
        let rights = Rights::of(&[Action::Read, Action::Rollback]);
        let new = NewRole { name: format!("role-{number}").parse()?, description: None, rights };
        roles.push(NamedRole::Custom(app.role_create(&system, &new).await?.id));
    }
    let mut seen = None;
    for number in 0..options.bindings {
        let handle = format!("seed-{:06}", number * options.clusters / options.bindings);
        let cluster = app.get::<Cluster>(&system, &ClusterSelector::Handle(handle.parse()?)).await?;
        let on: Policy = if number % 2 == 0 {
            seen.get_or_insert(cluster.id);
            cluster.id.into()
        } else {
            let of = ServiceFilter { cluster_id: Some(cluster.id), ..ServiceFilter::default() };
            let some = app.list::<Service>(&system, &of, &PageArgs::first(1)).await?.into_nodes();
            some.first().context("a cluster without services")?.id.into()
        };
        let role = roles[number % roles.len()];
        let add = vec![subjects[number % subjects.len()]];
        app.binding_change(&system, on, &RoleChange { role, add, remove: Vec::new() }).await?;
    }
    let token = app.token_create(&system, Some(user.id), None).await?.text;
    let Actor::User(actor) = app.actor_authenticate(token.expose_secret()).await? else {
        anyhow::bail!("a token of nobody");
    };
    let ctx = app.ctx(Actor::User(actor));

    let total = (options.clusters * options.services + 1) as f64;
    let mut figures = Vec::new();
    let first = PageArgs::first(100);
    let all = app.list::<Service>(&ctx, &ServiceFilter::default(), &PageArgs::first(500)).await?;
    let visible = all.edges.len() as f64;
    let last = all.edges.get(all.edges.len() / 2).context("the user sees no services")?.cursor.clone();
    let middle = PageArgs { after: Some(last), ..PageArgs::first(100) };
    for (name, page) in [("first 100 services", &first), ("100 services from the middle on", &middle)] {
        let mut samples = Samples::default();
        for _ in 0..options.times {
            let from = Instant::now();
            let found = app.list::<Service>(&ctx, &ServiceFilter::default(), page).await?;
            samples.add(from.elapsed());
            anyhow::ensure!(!found.edges.is_empty(), "{name}: no rows");
        }
        figures.push(
            list(&format!("{name}, {} bindings", options.bindings), &samples, total)
                .beside("seen at least", visible),
        );
    }
    for (name, column) in [
        ("by name", ServiceColumn::Name),
        ("worst first", ServiceColumn::Status),
        ("by last change", ServiceColumn::UpdatedAt),
    ] {
        let sort = Sort { column, descending: column == ServiceColumn::UpdatedAt };
        let mut samples = Samples::default();
        for _ in 0..options.times {
            let from = Instant::now();
            let found = app.list_sorted::<Service>(&ctx, &ServiceFilter::default(), &sort, &first).await?;
            samples.add(from.elapsed());
            anyhow::ensure!(!found.edges.is_empty(), "{name}: no rows");
        }
        let name = format!("first 100 services {name}, {} bindings", options.bindings);
        figures.push(list(&name, &samples, total).beside("seen at least", visible));
    }
    let mut samples = Samples::default();
    for _ in 0..options.times {
        let from = Instant::now();
        app.service_statuses(&ctx, &ServiceFilter::default()).await?;
        app.service_clusters(&ctx, &ServiceFilter::default()).await?;
        app.service_projects(&ctx, &ServiceFilter::default()).await?;
        samples.add(from.elapsed());
    }
    figures.push(list(
        &format!("counts beside the services, {} bindings", options.bindings),
        &samples,
        total,
    ));
    let mut samples = Samples::default();
    for _ in 0..options.times {
        let from = Instant::now();
        app.list::<Cluster>(&ctx, &ClusterFilter::default(), &first).await?;
        samples.add(from.elapsed());
    }
    figures.push(list(&format!("first 100 clusters, {} bindings", options.bindings), &samples, total));
    let mut samples = Samples::default();
    for _ in 0..options.times {
        let from = Instant::now();
        app.actor_authenticate(token.expose_secret()).await?;
        samples.add(from.elapsed());
    }
    let figure = Figure::new("a token, looked up in the database, p95", samples.percentile(95), "ms");
    figures.push(figure.beside("p50", samples.percentile(50)));

    let cluster = ClusterSelector::Id(seen.context("no cluster is bound")?);
    let mut fastest = f64::INFINITY;
    for _ in 0..20 {
        app.proxy_grant(token.expose_secret(), &cluster).await?;
        let from = Instant::now();
        for _ in 0..TOKENS {
            app.proxy_grant(token.expose_secret(), &cluster).await?;
        }
        fastest = fastest.min(from.elapsed().as_secs_f64() * 1e6 / f64::from(TOKENS));
    }
    figures.push(
        Figure::new("a token with its decision, cached", fastest, "µs")
            .at_most(TOKEN)
            .beside("look-ups in a row", f64::from(TOKENS)),
    );
    console.stop().await?;
    Ok(figures)
}

fn list(name: &str, samples: &Samples, total: f64) -> Figure {
    Figure::new(format!("{name}, p95"), samples.percentile(95), "ms")
        .at_most(LIST)
        .beside("p50", samples.percentile(50))
        .beside("services", total)
}
