//! What a service costs a console that has nothing to do with it.

use std::time::Duration;

use plural_testkit::OwnedFolder;

use crate::{
    api::Api,
    idle::{NAMESPACE, address, console, name, program, repository, wait_for_artifacts},
    report::Figure,
    usage::Usage,
};

/// How many.
#[derive(Debug, clap::Args)]
pub(crate) struct Options {
    /// Services, of four objects each; a console is measured with none, with a fifth of them, and with all
    #[arg(long, default_value_t = 5000)]
    services: usize,
    /// Seconds of rest before memory is read: what was only used for the work is given back by then
    #[arg(long, default_value_t = 30.0)]
    rest: f64,
}

pub(crate) async fn run(options: &Options) -> anyhow::Result<Vec<Figure>> {
    let Options { services, rest } = *options;
    let plural = program()?;
    let folder = OwnedFolder::new("bench")?;
    let (few, rest) = (services / 5, Duration::from_secs_f64(rest));
    anyhow::ensure!(few > 0, "--services must be at least 5");

    let mut running = console(&plural, folder.path())?;
    let url = address(&mut running).await?;
    let api = Api::sign_in(&url, None).await?;
    let token = api.cluster("bench-1").await?;
    let remote = repository(services)?;
    let repository = api.repository(&remote.path().display().to_string()).await?;
    let mut registered = 0;
    let mut measured = Vec::new();
    for goal in [0, few, services] {
        eprintln!("registering services up to {goal}");
        for service in registered..goal {
            api.service("bench-1", &repository, &name(service), &name(service), NAMESPACE).await?;
        }
        registered = goal;
        wait_for_artifacts(&url, &token, goal).await?;
        tokio::time::sleep(rest).await;
        running.check()?;
        measured.push(Usage::of(running.pid())?);
    }
    running.stop();

    // The same again, started anew: what is there is read, not built.
    let mut running = console(&plural, folder.path())?;
    let after = loop {
        running.check()?;
        if running.log_tail().contains("the console listens") {
            tokio::time::sleep(rest).await;
            break Usage::of(running.pid())?;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    };
    running.stop();

    let resident = |place: usize| measured.get(place).map_or(0.0, |usage: &Usage| usage.resident as f64);
    let per_service =
        |from: usize, to: usize, count: usize| (resident(to) - resident(from)) / 1024.0 / count.max(1) as f64;
    let mebibytes = |bytes: f64| bytes / f64::from(1 << 20);
    let anew = (after.resident as f64 - resident(0)) / 1024.0 / services as f64;
    Ok(vec![
        Figure::new("memory per service", per_service(1, 2, services - few), "KiB")
            .at_most(10.0)
            .beside("from", few as f64)
            .beside("to", services as f64)
            .beside("started anew", anew),
        Figure::new("memory per service, from none to few", per_service(0, 1, few), "KiB"),
        Figure::new("memory without services", mebibytes(resident(0)), "MiB"),
        Figure::new("memory with few", mebibytes(resident(1)), "MiB"),
        Figure::new("memory with many", mebibytes(resident(2)), "MiB")
            .beside("started anew", after.mebibytes()),
    ])
}
