//! `plural kubesim`.

use std::path::PathBuf;

use anyhow::Context;
use plural_kit::Shutdown;
use plural_kubesim::{ClusterOptions, Sim};

use crate::{process::LogArgs, runner::Runner};

/// Flags of `plural kubesim`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// How many clusters
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    clusters: u32,

    /// Folder for one kubeconfig file per cluster
    #[arg(long, value_name = "DIR", default_value = ".")]
    kubeconfigs: PathBuf,

    /// Run the Jobs that agents make for runs of stacks of this console, on this machine: each as a process that is confined to a
    /// folder of its own. All other Jobs stay simulated
    #[arg(long, value_name = "CONSOLE_URL")]
    run_jobs: Option<String>,

    #[command(flatten)]
    log: LogArgs,
}

pub(crate) async fn run(args: Args) -> anyhow::Result<()> {
    let Args { clusters, kubeconfigs, run_jobs, log } = args;
    log.init()?;
    std::fs::create_dir_all(&kubeconfigs)
        .with_context(|| format!("cannot create {}", kubeconfigs.display()))?;
    let sim = Sim::new()?;
    let runs = match run_jobs {
        Some(console) => Some((console, tempfile::Builder::new().prefix("plural-runs-").tempdir()?)),
        None => None,
    };
    let (mut running, mut runners) = (Vec::new(), Vec::new());
    for number in 1..=clusters {
        let name = format!("sim-{number}");
        let cluster = sim.cluster(ClusterOptions::named(&name)).await?;
        let file = kubeconfigs.join(format!("{name}.yaml"));
        crate::demo::write_private(&file, &cluster.kubeconfig())?;
        if let Some((console, folder)) = &runs {
            let kube = crate::demo::read_kubeconfig(&file).await?;
            runners.push(Runner::start(&cluster, kube, console, &folder.path().join(&name))?);
        }
        println!("{name}\t{}\t{}", cluster.url(), file.display());
        running.push(cluster);
    }
    let shutdown = Shutdown::new();
    shutdown.on_process_signal().await.context("cannot wait for signals")?;
    for runner in runners {
        runner.stop().await;
    }
    for cluster in running {
        cluster.stop().await;
    }
    Ok(())
}
