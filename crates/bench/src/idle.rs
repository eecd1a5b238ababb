//! What the product costs while nothing happens.

use std::{
    collections::BTreeMap,
    env,
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use plural_testkit::{
    GitRemote, OwnedFolder,
    process::{Program, Running, StopSignal},
    real::{AuditEvent, RealCluster},
};
use plural_tunnel::{Console, ConsoleOptions};

use crate::{
    api::{ADMIN, Api, PASSWORD},
    report::Figure,
    usage::Usage,
    workload::{OBJECTS, objects},
};

const WITHIN: Duration = Duration::from_mins(10);
pub(crate) const NAMESPACE: &str = "bench";
/// How long an agent without services rests before its memory is read.
const ALONE: Duration = Duration::from_mins(1);
/// Objects that the budget of an agent's memory is for.
const MANY: usize = 5000;
/// What services are made of, as the API server's metrics call it.
const KINDS: [&str; OBJECTS] = ["serviceaccounts", "configmaps", "services", "deployments"];
/// No write for so long means that everything is applied and told.
const CALM: Duration = Duration::from_secs(20);

/// How much and how long.
#[derive(Debug, clap::Args)]
pub(crate) struct Options {
    /// Services, of four objects each
    #[arg(long, default_value_t = 1250)]
    services: usize,
    /// Minutes of rest: full checks of the agent have to fall into them
    #[arg(long, default_value_t = 15.0)]
    minutes: f64,
    /// Minutes between two full checks of the agent, give or take a quarter
    #[arg(long, default_value_t = 4)]
    full_check_minutes: u64,
}

pub(crate) async fn run(options: &Options) -> anyhow::Result<Vec<Figure>> {
    let Options { services, minutes, full_check_minutes } = *options;
    let plural = program()?;
    let folder = OwnedFolder::new("bench")?;
    let cluster = RealCluster::start().await?;

    // Processes of their own, started as a person starts them: their memory is theirs alone.
    let console_folder = folder.path().join("console");
    std::fs::create_dir(&console_folder)?;
    let mut console = console(&plural, &console_folder)?;
    let url = address(&mut console).await?;
    let empty_console = Usage::of(console.pid())?;

    let api = Api::sign_in(&url, None).await?;
    let token = api.cluster("bench-1").await?;
    let agent_folder = folder.path().join("agent");
    std::fs::create_dir(&agent_folder)?;
    let mut agent = Program::new(&plural, &agent_folder)
        .arg("agent")
        .flag("cache-dir", agent_folder.join("cache"))
        .flag("full-check-minutes", full_check_minutes.to_string())
        .env("PLURAL_CONSOLE_URL", &url)
        .env("PLURAL_DEPLOY_TOKEN", &token)
        .env("KUBECONFIG", &cluster.access().kubeconfig)
        .stopped_by(StopSignal::Terminate)
        .start()?;
    eprintln!("an agent without services rests for {} s", ALONE.as_secs());
    tokio::time::sleep(ALONE).await;
    agent.check()?;
    let empty_agent = Usage::of(agent.pid())?;

    let remote = repository(services)?;
    let repository = api.repository(&remote.path().display().to_string()).await?;
    eprintln!("registering {services} services, whose {} objects the agent applies", services * OBJECTS);
    for service in 0..services {
        api.service("bench-1", &repository, &name(service), &name(service), NAMESPACE).await?;
    }
    wait_for_artifacts(&url, &token, services).await?;
    wait_for_calm(&cluster, &mut agent, services).await?;

    eprintln!("resting for {minutes} minutes");
    let client = cluster.client().await?;
    let before = cluster.audit()?.len();
    let lists_before = lists(&metrics(&client).await?);
    let (console_before, agent_before) = (Usage::of(console.pid())?, Usage::of(agent.pid())?);
    let began = Instant::now();
    tokio::time::sleep(Duration::from_secs_f64(minutes * 60.0)).await;
    let rested = began.elapsed();
    let (console_after, agent_after) = (Usage::of(console.pid())?, Usage::of(agent.pid())?);
    console.check()?;
    agent.check()?;
    let lists = lists(&metrics(&client).await?) - lists_before;
    anyhow::ensure!(
        lists >= 1.0,
        "no full check fell into the rest: what is measured is not all that an agent does"
    );
    let events = cluster.audit()?;
    let writes = by_resource(events.get(before..).unwrap_or_default());
    let lease = writes.get("leases").copied().unwrap_or(0);
    let others: usize = writes.iter().filter(|(resource, _)| *resource != "leases").map(|(_, n)| n).sum();
    for (resource, count) in writes.iter().filter(|(resource, _)| *resource != "leases") {
        eprintln!("an idle agent wrote {resource} {count} times");
    }
    agent.stop();
    console.stop();

    let per_service =
        (console_after.resident as f64 - empty_console.resident as f64) / 1024.0 / services.max(1) as f64;
    let objects = services * OBJECTS;
    // The budget is one for an agent without services and one for 5 000 objects. What is in between has none.
    let full = Figure::new("agent, memory with services", agent_after.mebibytes(), "MiB");
    let full = if objects >= MANY { full.at_most(64.0) } else { full };
    Ok(vec![
        Figure::new("writes of an idle agent besides its lease", others as f64, "")
            .at_most(0.0)
            .beside("of its lease", lease as f64)
            .beside("minutes", rested.as_secs_f64() / 60.0),
        Figure::new("lists by the agent's full checks", lists, "")
            .beside("minutes between two of a kind", full_check_minutes as f64),
        Figure::new("agent, memory without services", empty_agent.mebibytes(), "MiB").at_most(25.0),
        full.beside("objects", objects as f64),
        Figure::new("agent, CPU", agent_after.millicores_since(&agent_before, rested), "millicores"),
        Figure::new("console, memory", console_after.mebibytes(), "MiB")
            .beside("without services", empty_console.mebibytes()),
        Figure::new("console, memory per service", per_service, "KiB").at_most(10.0),
        Figure::new("console, CPU", console_after.millicores_since(&console_before, rested), "millicores"),
    ])
}

/// The page of the API server's metrics.
async fn metrics(client: &kube::Client) -> anyhow::Result<String> {
    Ok(client.request_text(http::Request::get("/metrics").body(Vec::new())?).await?)
}

/// Lists of the kinds that the services have objects of. Controllers list them when they start and only watch from then on.
fn lists(page: &str) -> f64 {
    let counted = |series: &str| {
        series.starts_with("apiserver_request_total{")
            && series.contains("verb=\"LIST\"")
            && KINDS.iter().any(|kind| series.contains(&format!("resource=\"{kind}\"")))
    };
    let lines = page.lines().filter_map(|line| line.rsplit_once(' '));
    lines.filter(|(series, _)| counted(series)).filter_map(|(_, count)| count.parse::<f64>().ok()).sum()
}

/// What consoles under measurement tell their metrics for.
pub(crate) const METRICS_TOKEN: &str = "of-the-bench-alone";

/// A console as a process of its own, on SQLite in `folder`.
pub(crate) fn console(plural: &Path, folder: &Path) -> anyhow::Result<Running> {
    console_with(plural, folder, |program| program)
}

/// The same with further settings.
pub(crate) fn console_with(
    plural: &Path,
    folder: &Path,
    more: impl FnOnce(Program) -> Program,
) -> anyhow::Result<Running> {
    let program = Program::new(plural, folder)
        .arg("console")
        .flag("listen", "127.0.0.1:0")
        .flag("data-dir", folder.join("data"))
        .arg("--allow-local-repositories")
        .env("PLURAL_ADMIN_EMAIL", ADMIN)
        .env("PLURAL_ADMIN_PASSWORD", PASSWORD)
        .env("PLURAL_METRICS_TOKEN", METRICS_TOKEN)
        .stopped_by(StopSignal::Terminate);
    more(program).start()
}

/// The program itself: beside this one, where the same build put it.
pub(crate) fn program() -> anyhow::Result<PathBuf> {
    let here = env::current_exe()?;
    let plural = here.with_file_name("plural");
    anyhow::ensure!(
        plural.is_file(),
        "{} is not built; `cargo xtask bench` builds it, or `cargo build --release -p plural`",
        plural.display()
    );
    Ok(plural)
}

pub(crate) fn name(service: usize) -> String {
    format!("service-{service:05}")
}

pub(crate) fn repository(services: usize) -> anyhow::Result<GitRemote> {
    let remote = GitRemote::new()?;
    let mut files = Vec::new();
    for service in 0..services {
        let documents =
            objects(NAMESPACE, service).iter().map(serde_json::to_string).collect::<Result<Vec<_>, _>>()?;
        files.push((format!("{}/objects.yaml", name(service)), documents.join("\n---\n") + "\n"));
    }
    remote.push_files(files)?;
    Ok(remote)
}

/// The URL that a starting console tells its first administrator.
pub(crate) async fn address(console: &mut Running) -> anyhow::Result<String> {
    let started = Instant::now();
    loop {
        console.check()?;
        let told = console.log_tail();
        let url = told.split_once("--url ").and_then(|(_, rest)| rest.split_whitespace().next());
        if let Some(url) = url {
            return Ok(url.to_owned());
        }
        anyhow::ensure!(started.elapsed() < WITHIN, "the console did not start: {told}");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

pub(crate) async fn wait_for_artifacts(url: &str, token: &str, services: usize) -> anyhow::Result<()> {
    let options = ConsoleOptions {
        url: url.to_owned(),
        token: token.to_owned(),
        ca_pem: None,
        deadline: Duration::from_secs(10),
    };
    let door = Console::new(&options)?;
    let started = Instant::now();
    loop {
        let told = door.poll(None, Vec::new()).await?;
        let ready = told.whole_services().filter(|service| !service.artifact_digest.is_empty()).count();
        if ready >= services {
            return Ok(());
        }
        anyhow::ensure!(started.elapsed() < WITHIN, "the console built {ready} of {services} artifacts");
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
}

/// Until every object has been written and then nothing but leases for a while.
async fn wait_for_calm(cluster: &RealCluster, agent: &mut Running, services: usize) -> anyhow::Result<()> {
    let started = Instant::now();
    let (mut seen, mut since) = (0, Instant::now());
    loop {
        agent.check()?;
        let writes = by_resource(&cluster.audit()?);
        let now: usize = writes.iter().filter(|(resource, _)| *resource != "leases").map(|(_, n)| n).sum();
        if now != seen {
            (seen, since) = (now, Instant::now());
        }
        if seen >= services * OBJECTS && since.elapsed() >= CALM {
            return Ok(());
        }
        anyhow::ensure!(
            started.elapsed() < WITHIN,
            "the agent wrote {seen} times and did not come to rest; the end of its log:\n{}",
            agent.log_tail()
        );
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
}

/// Successful or not, a write is a write. The agent is the only one who uses the administrator's token.
fn by_resource(events: &[AuditEvent]) -> BTreeMap<String, usize> {
    let mut counts = BTreeMap::new();
    for event in events.iter().filter(|e| e.user.username == "admin") {
        let resource = event.object_ref.as_ref().map_or("", |o| o.resource.as_str());
        *counts.entry(resource.to_owned()).or_default() += 1;
    }
    counts
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_of_the_services_kinds_are_counted() {
        let page = "# TYPE apiserver_request_total counter\n\
            apiserver_request_total{code=\"200\",group=\"\",resource=\"configmaps\",scope=\"cluster\",verb=\"LIST\"} 3\n\
            apiserver_request_total{code=\"200\",group=\"apps\",resource=\"deployments\",scope=\"cluster\",verb=\"LIST\"} 2\n\
            apiserver_request_total{code=\"200\",group=\"apps\",resource=\"deployments\",scope=\"cluster\",verb=\"WATCH\"} 7\n\
            apiserver_request_total{code=\"200\",group=\"\",resource=\"nodes\",scope=\"cluster\",verb=\"LIST\"} 9\n\
            apiserver_request_duration_seconds_count{resource=\"configmaps\",verb=\"LIST\"} 11\n";
        assert!((lists(page) - 5.0).abs() < f64::EPSILON);
    }
}
