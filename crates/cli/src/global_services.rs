//! `plural cd global-services …`.

use std::fmt::Write as _;

use chrono::{DateTime, Utc};
use plural_wire::{
    Client, ClientError, CreateGlobalService, DeleteGlobalService, GetGlobalService, GlobalService,
    GlobalServiceAttributes, GlobalServiceInstance, InstanceCounts, ListGlobalServiceInstances,
    ListGlobalServices, PAGE_SIZE, RolloutState, RolloutSteering, SteerRollout, UpdateGlobalService,
    all_pages,
};
use serde::Serialize;
use serde_json::{Map, Value, json};

use crate::{
    args::{
        GlobalServiceCommand, GlobalServiceCreateArgs, GlobalServiceDeleteArgs, GlobalServiceDescribeArgs,
        GlobalServiceListArgs, GlobalServiceRolloutArgs, GlobalServiceTargetArgs, GlobalServiceUpdateArgs,
        RolloutChoice,
    },
    documents::Kind,
    error::CliError,
    file,
    format::Format,
    key,
    output::{self, Row, columns, or_dash},
    terminal::Terminal,
    wait::{self, Observed},
    watch::watch,
};

const NOTHING: &str = "no global services found; `plural cd global-services create NAME` makes one";

impl Row for GlobalService {
    const HEADINGS: (&'static [&'static str], usize) =
        (&["NAME", "TARGET", "HEALTHY", "GENERATION", "ROLLOUT", "ID", "ERROR"], 5);

    fn id(&self) -> &str {
        &self.id
    }

    fn name(&self) -> String {
        format!("global-service/{}", self.name)
    }

    fn cells(&self, _now: DateTime<Utc>) -> Vec<String> {
        vec![
            or_dash(Some(&self.name)),
            or_dash(Some(&target(self))),
            healthy(self),
            self.generation.clone(),
            rollout(self),
            self.id.clone(),
            or_dash(self.error.as_deref()),
        ]
    }
}

fn target(global: &GlobalService) -> String {
    let mut all: Vec<String> = global.tags.iter().map(|tag| format!("{}={}", tag.name, tag.value)).collect();
    all.extend(global.distro.map(|distro| distro.as_str().to_owned()));
    if all.is_empty() { "all".into() } else { all.join(",") }
}

fn healthy(global: &GlobalService) -> String {
    let InstanceCounts { all, healthy, newest: _, leaving } = global.instance_counts.unwrap_or_default();
    output::share(healthy, all, leaving)
}

fn rollout(global: &GlobalService) -> String {
    if global.deleted_at.is_some() {
        return "DELETING".into();
    }
    global.rollout.as_ref().map_or_else(|| "-".into(), |rollout| rollout.state.as_str().into())
}

pub(crate) async fn run(
    command: GlobalServiceCommand,
    client: &Client,
    terminal: &mut Terminal<'_>,
) -> Result<(), CliError> {
    match command {
        GlobalServiceCommand::List(args) => list(args, client, terminal).await,
        GlobalServiceCommand::Create(args) => create(*args, client, terminal).await,
        GlobalServiceCommand::Update(args) => update(*args, client, terminal).await,
        GlobalServiceCommand::Describe(args) => describe(args, client, terminal).await,
        GlobalServiceCommand::Rollout(args) => steer(args, client, terminal).await,
        GlobalServiceCommand::Delete(args) => delete(args, client, terminal).await,
    }
}

async fn list(
    args: GlobalServiceListArgs,
    client: &Client,
    terminal: &mut Terminal<'_>,
) -> Result<(), CliError> {
    let look = async || -> Result<Vec<GlobalService>, ClientError> {
        all_pages(client, |after| ListGlobalServices { after, first: PAGE_SIZE }).await
    };
    if args.watch {
        return watch(&args.output, NOTHING, terminal, look).await;
    }
    output::list(&look().await?, &args.output, NOTHING, terminal)
}

async fn create(
    args: GlobalServiceCreateArgs,
    client: &Client,
    terminal: &mut Terminal<'_>,
) -> Result<(), CliError> {
    let mut attributes = attributes(&args.target, terminal)?;
    attributes.insert("name".into(), json!(args.name));
    if let Some(project) = &args.project {
        attributes.insert("projectId".into(), json!(key::project(client, project).await?.id));
    }
    let service_id = match &args.service {
        Some(key) => Some(key.get(client).await?.service.id),
        None => None,
    };
    let attributes = GlobalServiceAttributes(attributes);
    let mut global = client.send(&CreateGlobalService { service_id, attributes }).await?;
    if args.wait.wait {
        global = until_everywhere(global, args.wait.timeout, client, terminal).await?;
    }
    output::item(&global, &args.output.output, terminal)
}

async fn update(
    args: GlobalServiceUpdateArgs,
    client: &Client,
    terminal: &mut Terminal<'_>,
) -> Result<(), CliError> {
    let mut attributes = attributes(&args.target, terminal)?;
    if attributes.keys().all(|name| name == "name") {
        return Err(CliError::unchanged("global-services"));
    }
    let current = get(&args.name, client).await?;
    attributes.insert("name".into(), json!(current.name));
    let attributes = GlobalServiceAttributes(attributes);
    let mut global = client.send(&UpdateGlobalService { id: current.id, attributes }).await?;
    if args.wait.wait {
        global = until_everywhere(global, args.wait.timeout, client, terminal).await?;
    }
    output::item(&global, &args.output.output, terminal)
}

async fn describe(
    args: GlobalServiceDescribeArgs,
    client: &Client,
    terminal: &mut Terminal<'_>,
) -> Result<(), CliError> {
    let global = get(&args.name, client).await?;
    show(global, &args.output.output, client, terminal).await
}

async fn steer(
    args: GlobalServiceRolloutArgs,
    client: &Client,
    terminal: &mut Terminal<'_>,
) -> Result<(), CliError> {
    let mut global = get(&args.name, client).await?;
    let steering = match args.action {
        RolloutChoice::Status => None,
        RolloutChoice::Pause => Some(RolloutSteering::Halt),
        RolloutChoice::Resume => Some(RolloutSteering::Resume),
        RolloutChoice::Undo => Some(RolloutSteering::Undo),
    };
    if let Some(action) = steering {
        global = client.send(&SteerRollout { id: global.id, action }).await?;
    } else if global.rollout.is_none() {
        terminal.say(format_args!("{} has no rollout: changes go to all clusters at once", global.name));
    }
    if args.wait.wait {
        global = until_still(global, args.action, args.wait.timeout, client, terminal).await?;
    }
    show(global, &args.output.output, client, terminal).await
}

/// The global service once its rollout stands still, and as it should after what was asked for.
async fn until_still(
    global: GlobalService,
    asked: RolloutChoice,
    timeout: std::time::Duration,
    client: &Client,
    terminal: &mut Terminal<'_>,
) -> Result<GlobalService, CliError> {
    let ask = GetGlobalService { id: Some(global.id), name: None };
    wait::until(&format!("the rollout of {}", global.name), timeout, terminal, async || {
        let now = client.send(&ask).await?;
        let state = now.rollout.as_ref().map(|rollout| rollout.state);
        Ok(match state {
            Some(RolloutState::Halted) if asked == RolloutChoice::Pause => Observed::Done(now),
            Some(RolloutState::Halted) => Observed::Never(stands_still(&now)),
            None | Some(RolloutState::Complete | RolloutState::Undone) if now.spread => Observed::Done(now),
            _ => Observed::NotYet(moving(&now)),
        })
    })
    .await
}

/// What is said while a rollout moves.
fn moving(global: &GlobalService) -> String {
    let rollout = global.rollout.as_ref();
    let state = rollout.map_or("not begun", |rollout| rollout.state.as_str());
    let cohort = rollout.and_then(|rollout| rollout.cohort.as_deref());
    let cohort = cohort.map_or_else(String::new, |cohort| format!(", cohort {cohort}"));
    format!("{}{cohort}, {} clusters healthy", state.to_lowercase(), healthy(global))
}

fn stands_still(global: &GlobalService) -> CliError {
    let name = &global.name;
    let hint = match global.rollout.as_ref().map(|rollout| rollout.state) {
        Some(RolloutState::Undone) => {
            format!("what was undone stays undone until `plural cd global-services update {name}` changes it")
        }
        _ => format!(
            "`plural cd global-services rollout resume {name}` goes on, `… rollout undo {name}` goes back"
        ),
    };
    CliError::new(format!("the rollout of {name} is halted: {}", story(global))).hint(hint)
}

/// A global service with all of its instances.
#[derive(Serialize)]
struct Details {
    #[serde(flatten)]
    global: GlobalService,
    instances: Vec<GlobalServiceInstance>,
}

async fn show(
    global: GlobalService,
    format: &Format,
    client: &Client,
    terminal: &mut Terminal<'_>,
) -> Result<(), CliError> {
    if *format == Format::Name {
        return output::item(&global, format, terminal);
    }
    let page = |after| ListGlobalServiceInstances { id: global.id.clone(), after, first: PAGE_SIZE };
    let instances = all_pages(client, page).await?;
    let details = Details { global, instances };
    output::described(&details, &details.global, format, terminal, || description(&details))
}

async fn delete(
    args: GlobalServiceDeleteArgs,
    client: &Client,
    terminal: &mut Terminal<'_>,
) -> Result<(), CliError> {
    let global = get(&args.name, client).await?;
    let instances = global.instance_counts.unwrap_or_default().all;
    let plan = match instances {
        0 => format!("delete global service {}, which has no instances", global.name),
        all => format!(
            "delete global service {} and do with its {} as its cascade says",
            global.name,
            output::counted(usize::try_from(all).unwrap_or_default(), "instance")
        ),
    };
    terminal.confirm(&plan, args.confirm.yes)?;
    client.send(&DeleteGlobalService { id: global.id.clone() }).await?;
    let ask = GetGlobalService { id: Some(global.id), name: None };
    let left =
        |now: &GlobalService| format!("{} instances left", now.instance_counts.unwrap_or_default().all);
    let what = format!("global service {}", global.name);
    wait::until_gone(&what, &args.wait, (client, &ask), terminal, left).await
}

async fn get(name: &str, client: &Client) -> Result<GlobalService, CliError> {
    let name = Kind::GlobalService.bare(name);
    let (by_id, by_name) = key::id_or_name(name);
    client.send(&GetGlobalService { id: by_id, name: by_name }).await.map_err(|error| {
        let hint = "`plural cd global-services list` shows those you may see";
        CliError::absent(error, || CliError::missing(format_args!("global service {name:?}"), hint))
    })
}

/// The file's attributes with the flags over them.
fn attributes(
    args: &GlobalServiceTargetArgs,
    terminal: &mut Terminal<'_>,
) -> Result<Map<String, Value>, CliError> {
    let mut attributes = match &args.file {
        None => Map::new(),
        Some(path) => file::mapping("a global service's attributes", path, terminal)?,
    };
    if !args.tags.is_empty() {
        let tags = args.tags.iter().map(|(name, value)| json!({"name": name, "value": value}));
        attributes.insert("tags".into(), tags.collect());
    }
    if let Some(distro) = &args.distro {
        attributes.insert("distro".into(), json!(distro.to_uppercase()));
    }
    if args.reparent {
        attributes.insert("reparent".into(), json!(true));
    }
    if let Some(cascade) = args.cascade {
        attributes.insert("cascade".into(), json!({cascade.as_str(): true}));
    }
    Ok(attributes)
}

/// The global service once every target has the newest generation and is healthy.
pub(crate) async fn until_everywhere(
    global: GlobalService,
    timeout: std::time::Duration,
    client: &Client,
    terminal: &mut Terminal<'_>,
) -> Result<GlobalService, CliError> {
    let ask = GetGlobalService { id: Some(global.id), name: None };
    wait::until(&format!("global service {}", global.name), timeout, terminal, async || {
        let now = client.send(&ask).await?;
        let there = now.instance_counts.is_some_and(|counts| counts.newest + counts.leaving == counts.all);
        let state = now.rollout.as_ref().map(|rollout| rollout.state);
        Ok(match state {
            Some(RolloutState::Halted | RolloutState::Undone) if now.spread => {
                Observed::Never(stands_still(&now))
            }
            None | Some(RolloutState::Complete) if now.spread && there => match &now.error {
                None => Observed::Done(now),
                Some(error) => Observed::Never(CliError::new(format!(
                    "{} is not healthy on all target clusters: {}",
                    now.name,
                    or_dash(Some(error))
                ))),
            },
            _ => Observed::NotYet(moving(&now)),
        })
    })
    .await
}

fn story(global: &GlobalService) -> String {
    or_dash(global.rollout.as_ref().and_then(|rollout| rollout.message.as_deref()))
}

fn description(details: &Details) -> String {
    let Details { global, instances } = details;
    let line = |name: &str, value: String| vec![format!("{name}:"), value];
    let mut lines = vec![
        line("Global service", or_dash(Some(&global.name))),
        line("Id", global.id.clone()),
        line("Target", or_dash(Some(&target(global)))),
        line("Generation", global.generation.clone()),
        line("Healthy", healthy(global)),
    ];
    if let Some(rollout) = &global.rollout {
        lines.push(line("Rollout", rollout.state.as_str().into()));
        lines.push(line("Cohort", or_dash(rollout.cohort.as_deref())));
        lines.push(line("From", rollout.previous.clone()));
        if rollout.message.is_some() {
            lines.push(line("Message", story(global)));
        }
    }
    if let Some(error) = &global.error {
        lines.push(line("Error", or_dash(Some(error))));
    }
    let mut text = columns(&lines, 2);
    if !instances.is_empty() {
        let mut rows = vec![["CLUSTER", "GENERATION", "STATUS"].map(str::to_owned).to_vec()];
        rows.extend(instances.iter().map(|one| {
            let cluster =
                one.cluster.as_ref().map(|cluster| cluster.handle.as_deref().unwrap_or(&cluster.id));
            vec![or_dash(cluster), one.generation.clone(), one.status.as_str().into()]
        }));
        text.push_str("\nInstances:\n");
        for row in columns(&rows, 3).lines() {
            let _ = writeln!(text, "  {row}");
        }
    }
    text
}
