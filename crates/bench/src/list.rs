//! How long a person waits for the first rows of a long list.

use std::time::Instant;

use anyhow::Context as _;
use plural_app::OpCtx;
use plural_app::cluster::ClusterSelector;
use plural_app::service::ServiceFilter;
use plural_console::RunningConsole;
use plural_core::PageArgs;
use plural_core::access::{Actor, UserActor};
use plural_core::cluster::Cluster;
use plural_core::policy::{BindingSubject, BindingsChange, Policy};
use plural_core::service::{Service, ServiceColumn};
use plural_core::sort::Sort;
use plural_core::specs::Email;
use plural_core::user::NewUser;
use plural_testkit::{OwnedFolder, TestDatabase};
use secrecy::SecretString;

use crate::{
    api::{Api, PASSWORD},
    report::Figure,
    samples::Samples,
    seed::{self, seed},
};

/// Milliseconds that the first rows may take.
const GOAL: f64 = 200.0;

/// How large, and how often.
#[derive(Debug, clap::Args)]
pub(crate) struct Options {
    /// Clusters
    #[arg(long, default_value_t = 1000)]
    clusters: usize,
    /// Services on each
    #[arg(long, default_value_t = 100)]
    services: usize,
    /// Times that each page is asked for
    #[arg(long, default_value_t = 100)]
    times: usize,
    /// PostgreSQL instead of SQLite
    #[arg(long)]
    postgres: bool,
}

pub(crate) async fn run(options: &Options) -> anyhow::Result<Vec<Figure>> {
    let folder = OwnedFolder::new("bench")?;
    let database = if options.postgres { Some(TestDatabase::postgres()?) } else { None };
    let mut config = seed::config(folder.path());
    config.database_url = database.as_ref().map(|d| SecretString::from(d.url().to_owned()));
    let seeded = seed(folder.path(), config, None, options.clusters, options.services).await?;
    let console =
        RunningConsole::start(seeded.config.clone(), None).await.context("the console cannot start")?;
    let app = console.app();
    let system = app.ctx(Actor::System);

    // Three people who may see less and less: everything, one project by a binding, one cluster.
    let some = ClusterSelector::Handle(format!("seed-{:06}", options.clusters / 2).parse()?);
    let cluster = app.get::<Cluster>(&system, &some).await?;
    let project = person(&console, "project", cluster.project_id).await?;
    let one = person(&console, "cluster", cluster.id).await?;
    let admin = Api::sign_in(&console.url, None).await?;
    let middle = app.list::<Service>(&system, &of_cluster(&cluster), &PageArgs::first(1)).await?;
    let middle = middle.end_cursor().context("the fleet has no services")?.to_owned();

    let total = (options.clusters * options.services + 1) as f64;
    let mut figures = Vec::new();
    for (name, who, handle, after) in [
        ("first 100 services of all", &admin, None, None),
        ("100 services from the middle on", &admin, None, Some(middle.as_str())),
        ("first 100 services of one cluster", &admin, Some(cluster.handle.as_str()), None),
        ("first 100 services, seen by a project's reader", &project.api, None, None),
        ("first 100 services, seen by a cluster's reader", &one.api, None, None),
    ] {
        let mut samples = Samples::default();
        for _ in 0..options.times {
            let from = Instant::now();
            let rows = who.services(handle, after).await?;
            samples.add(from.elapsed());
            anyhow::ensure!(rows == 100.min(options.services), "{name}: {rows} rows");
        }
        figures.push(figure(name, &samples, total));
    }
    // Orders and counts, too, are asked of the use case.
    for (whose, ctx) in [("all", &system), ("a project's", &project.ctx)] {
        for (name, column) in [
            ("by name", ServiceColumn::Name),
            ("worst first", ServiceColumn::Status),
            ("by last change", ServiceColumn::UpdatedAt),
        ] {
            let sort = Sort { column, descending: column == ServiceColumn::UpdatedAt };
            let mut samples = Samples::default();
            for _ in 0..options.times {
                let from = Instant::now();
                app.list_sorted::<Service>(ctx, &ServiceFilter::default(), &sort, &PageArgs::first(100))
                    .await?;
                samples.add(from.elapsed());
            }
            figures.push(figure(&format!("first 100 services of {whose} {name}"), &samples, total));
        }
        let mut samples = Samples::default();
        for _ in 0..options.times {
            let from = Instant::now();
            // At once, as one request to the API asks for them.
            let filter = ServiceFilter::default();
            tokio::try_join!(
                app.service_statuses(ctx, &filter),
                app.service_clusters(ctx, &filter),
                app.service_projects(ctx, &filter)
            )?;
            samples.add(from.elapsed());
        }
        figures.push(figure(&format!("counts beside the services of {whose}"), &samples, total));
    }
    // Names are searched for in the use case: the command line does not ask for it.
    for (name, q) in [("search that finds many", "web-0001"), ("search that finds nothing", "nowhere")] {
        for (whose, ctx) in [("", &system), (", by a project's reader", &project.ctx)] {
            let filter = ServiceFilter { q: Some(q.to_owned()), ..ServiceFilter::default() };
            let mut samples = Samples::default();
            for _ in 0..options.times {
                let from = Instant::now();
                app.list::<Service>(ctx, &filter, &PageArgs::first(100)).await?;
                samples.add(from.elapsed());
            }
            figures.push(figure(&format!("{name}{whose}"), &samples, total));
        }
    }
    console.stop().await?;
    Ok(figures)
}

fn of_cluster(cluster: &plural_core::cluster::Cluster) -> ServiceFilter {
    ServiceFilter { cluster_id: Some(cluster.id), ..ServiceFilter::default() }
}

fn figure(name: &str, samples: &Samples, total: f64) -> Figure {
    Figure::new(format!("{name}, p95"), samples.percentile(95), "ms")
        .at_most(GOAL)
        .beside("p50", samples.percentile(50))
        .beside("services", total)
}

/// Somebody with one binding.
struct Person {
    api: Api,
    ctx: OpCtx,
}

async fn person(console: &RunningConsole, name: &str, on: impl Into<Policy>) -> anyhow::Result<Person> {
    let app = console.app();
    let system = app.ctx(Actor::System);
    let email: Email = format!("{name}@example.com").parse()?;
    let new = NewUser { email: email.clone(), name: name.parse()?, admin: false };
    let user = app
        .user_create(
            &system,
            &new,
            Some(plural_app::user::NewPassword::new(SecretString::from(PASSWORD.to_owned()))),
        )
        .await?;
    let read = Some(vec![BindingSubject::User(user.id)]);
    app.binding_replace(&system, on, BindingsChange { read, ..BindingsChange::default() }).await?;
    let api = Api::sign_in_as(email.as_str(), &console.url, None).await?;
    let actor = UserActor {
        id: user.id,
        email: email.to_string(),
        admin: false,
        groups: std::collections::HashSet::new(),
        token: None,
    };
    Ok(Person { api, ctx: app.ctx(Actor::User(actor)) })
}
