//! Syncs as a person asks for them: plan, diff, sync, approve-prune.

use std::{fmt::Write as _, time::Duration};

use chrono::{DateTime, Utc};
use clap::Args;
use plural_wire::{
    ApproveServicePrune, Client, ErrorCode, FieldChange, GetServiceDeployment, GetServicePlan, ObjectRef,
    PlanAction, PlanService, PlannedObject, ServiceDetails, ServicePlan, ServiceReasonKind, SyncService,
    SyncServiceAttributes,
};

use tokio::time::Instant;

use crate::{
    args::{ConfirmArgs, OutputArgs, WaitArgs},
    error::CliError,
    format::Format,
    key::{ServiceKey, parse_duration},
    output::{self, age, counted, or_dash},
    plain::one_line,
    services::{Patience, address, standing, until_healthy},
    sync_described::words,
    terminal::Terminal,
    wait::{self, Observed},
};

/// Objects that are listed before a confirmation.
const SHOWN: usize = 50;

/// Show what a sync would do, without doing it
///
/// The cluster's agent applies every object that differs as a dry run, so defaults and admission are the API server's own
/// word. Values of Secrets are never shown.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  plural cd services plan blue/web
  plural cd services plan blue/web -o json
  plural cd services plan blue/web --last   # what the last sync did")]
pub(crate) struct ServicePlanArgs {
    /// The service: CLUSTER/NAME or its id
    #[arg(value_name = "SERVICE")]
    pub(crate) service: ServiceKey,

    /// Show the newest existing plan instead of requesting one
    #[arg(long)]
    pub(crate) last: bool,

    /// How long to wait for the agent: 90s, 5m, 1h
    #[arg(long, default_value = "1m", value_parser = parse_duration, value_name = "DURATION")]
    pub(crate) timeout: Duration,

    #[command(flatten)]
    pub(crate) output: OutputArgs,
}

/// Compare git with the cluster, field by field
///
/// Exit code 0: nothing differs; 1: something does; more than 1: it could not be found out.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  plural cd services diff blue/web
  plural cd services diff blue/web > /dev/null || echo differs")]
pub(crate) struct ServiceDiffArgs {
    /// The service: CLUSTER/NAME or its id
    #[arg(value_name = "SERVICE")]
    pub(crate) service: ServiceKey,

    /// How long to wait for the agent: 90s, 5m, 1h
    #[arg(long, default_value = "1m", value_parser = parse_duration, value_name = "DURATION")]
    pub(crate) timeout: Duration,

    #[command(flatten)]
    pub(crate) output: OutputArgs,
}

/// Sync a service now: all of it, or chosen objects
///
/// A service with manual sync waits for this. Of an object that somebody changed, it takes over what git says.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  plural cd services sync blue/web --wait
  plural cd services sync blue/web --object Deployment.apps/shop/web --object ConfigMap/shop/settings
  plural cd services sync blue/web --prune --run-tests --wait
  plural cd services sync blue/web --dry-run")]
pub(crate) struct ServiceSyncArgs {
    /// The service: CLUSTER/NAME or its id
    #[arg(value_name = "SERVICE")]
    pub(crate) service: ServiceKey,

    /// Only this object; may be given several times. The kind may have its group behind it
    #[arg(long = "object", value_name = "KIND/[NAMESPACE/]NAME")]
    pub(crate) objects: Vec<String>,

    /// Delete what left git even if the service keeps it
    #[arg(long)]
    pub(crate) prune: bool,

    /// Run the chart's tests afterwards
    #[arg(long)]
    pub(crate) run_tests: bool,

    /// Run hooks again that were completed
    #[arg(long)]
    pub(crate) repeat_hooks: bool,

    /// Only show what would be done
    #[arg(long, conflicts_with_all = ["wait", "run_tests", "repeat_hooks"])]
    pub(crate) dry_run: bool,

    #[command(flatten)]
    pub(crate) wait: WaitArgs,

    #[command(flatten)]
    pub(crate) output: OutputArgs,
}

/// Approve pending deletions
///
/// Shows which objects they are, and approves exactly these: if others wait by then, nothing is approved.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  plural cd services approve-prune blue/web
  plural cd services approve-prune blue/web --yes --wait")]
pub(crate) struct ServiceApprovePruneArgs {
    /// The service: CLUSTER/NAME or its id
    #[arg(value_name = "SERVICE")]
    pub(crate) service: ServiceKey,

    /// Approve only if the deletions have this digest
    #[arg(long, value_name = "DIGEST")]
    pub(crate) digest: Option<String>,

    #[command(flatten)]
    pub(crate) wait: WaitArgs,

    #[command(flatten)]
    pub(crate) confirm: ConfirmArgs,
}

pub(crate) async fn plan(
    args: ServicePlanArgs,
    client: &Client,
    terminal: &mut Terminal<'_>,
) -> Result<(), CliError> {
    let details = args.service.get(client).await?;
    let plan = if args.last {
        let ask = GetServicePlan { service_id: details.service.id.clone(), request_id: None };
        let found = client.send(&ask).await?;
        found.ok_or_else(|| CliError::new("no sync of the service has changed anything yet"))?
    } else {
        made(&details, args.timeout, client, terminal).await?
    };
    print(&plan, &args.output.output, terminal)
}

pub(crate) async fn diff(
    args: ServiceDiffArgs,
    client: &Client,
    terminal: &mut Terminal<'_>,
) -> Result<(), CliError> {
    // As with diff and kubectl diff: 1 is an answer, what is more is a failure.
    let plan = async {
        let details = args.service.get(client).await?;
        made(&details, args.timeout, client, terminal).await
    };
    let plan = plan.await.map_err(|error| error.code(2))?;
    let differs = plan.objects.iter().any(|planned| planned.action != PlanAction::Unchanged);
    match &args.output.output {
        Format::Table | Format::Wide => write!(terminal.out, "{}", difference(&plan, Utc::now())),
        format => {
            return print(&plan, format, terminal).and_then(|()| differing(differs));
        }
    }
    .map_err(|error| CliError::from(error).code(2))?;
    differing(differs)
}

fn differing(differs: bool) -> Result<(), CliError> {
    if differs { Err(CliError::silent()) } else { Ok(()) }
}

pub(crate) async fn sync(
    args: ServiceSyncArgs,
    client: &Client,
    terminal: &mut Terminal<'_>,
) -> Result<(), CliError> {
    let details = args.service.get(client).await?;
    let address = address(&details.service);
    if args.dry_run {
        let mut plan = made(&details, args.wait.timeout, client, terminal).await?;
        if !args.objects.is_empty() {
            let chosen = chosen(&args.objects, &details, client).await?;
            plan.objects.retain(|planned| chosen.contains(&planned.object));
        }
        return print(&plan, &args.output.output, terminal);
    }
    let objects = chosen(&args.objects, &details, client).await?;
    let whole = objects.is_empty();
    let attributes = SyncServiceAttributes {
        objects: (!objects.is_empty()).then_some(objects),
        run_tests: Some(args.run_tests),
        repeat_hooks: Some(args.repeat_hooks),
        prune: Some(args.prune),
    };
    let asked = client.send(&SyncService { id: details.service.id.clone(), attributes }).await?;
    terminal.say(format_args!("service {address} is being synced"));
    let mut service = details.service;
    if args.wait.wait {
        let ask = GetServiceDeployment { id: Some(service.id.clone()), cluster: None, name: None };
        let mut patience = Patience::within(args.wait.timeout);
        service = wait::until(&format!("service {address}"), args.wait.timeout, terminal, async || {
            let now = client.send(&ask).await?;
            let done = now.service.sync.as_ref().and_then(|sync| sync.request_done.as_ref());
            if done == Some(&asked.request_id) {
                return Ok(Observed::Done(now.service));
            }
            // Healthy is how it may have been before: the request counts.
            Ok(match patience.look(&address, now.clone()) {
                Observed::Done(_) => Observed::NotYet(standing(&now)),
                other => other,
            })
        })
        .await?;
        if whole {
            service = until_healthy(&service, args.wait.timeout, client, terminal).await?;
        }
    }
    output::item(&service, &args.output.output, terminal)
}

pub(crate) async fn approve_prune(
    args: ServiceApprovePruneArgs,
    client: &Client,
    terminal: &mut Terminal<'_>,
) -> Result<(), CliError> {
    let details = args.service.get(client).await?;
    let address = address(&details.service);
    let Some(pending) = details.service.pending_approval.clone() else {
        return Err(CliError::new(format!("no deletion of service {address} is waiting for approval")));
    };
    if args.digest.as_ref().is_some_and(|digest| *digest != pending.digest) {
        return Err(CliError::new(format!(
            "other deletions are pending: their digest is {}",
            pending.digest
        ))
        .hint("`plural cd services describe` shows them"));
    }
    terminal.say(format_args!("{}:", or_dash(Some(&pending.reason))));
    list_objects(&pending.objects, pending.count, terminal);
    let count = usize::try_from(pending.count).unwrap_or_default();
    let plan = format!("delete {} of {address}", counted(count, "object"));
    terminal.confirm(&plan, args.confirm.yes)?;
    let digest = pending.digest;
    let service =
        client.send(&ApproveServicePrune { id: details.service.id, digest: digest.clone() }).await?;
    terminal.say(format_args!("service {address}: {} approved", counted(count, "deletion")));
    if !args.wait.wait {
        return Ok(());
    }
    let ask = GetServiceDeployment { id: Some(service.id), cluster: None, name: None };
    wait::until(&format!("deletions of service {address}"), args.wait.timeout, terminal, async || {
        let now = match client.send(&ask).await {
            // The approval was of the whole service's deletion.
            Err(error) if error.is_not_found() => return Ok(Observed::Done(())),
            other => other?,
        };
        let waits = now.service.pending_approval.as_ref().is_some_and(|pending| pending.digest == digest);
        Ok(if waits || now.service.deleted_at.is_some() {
            Observed::NotYet(standing(&now))
        } else {
            Observed::Done(())
        })
    })
    .await?;
    terminal.say(format_args!("service {address}: the objects are deleted"));
    Ok(())
}

/// Lists objects that are about to go.
pub(crate) fn list_objects(objects: &[ObjectRef], count: i64, terminal: &mut Terminal<'_>) {
    for object in objects.iter().take(SHOWN) {
        terminal.say(format_args!("  {}", or_dash(Some(&object.to_string()))));
    }
    let listed = i64::try_from(objects.len().min(SHOWN)).unwrap_or(i64::MAX);
    if count > listed {
        terminal.say(format_args!("  and {} more", count - listed));
    }
}

/// The plan that the agent makes now.
async fn made(
    details: &ServiceDetails,
    timeout: Duration,
    client: &Client,
    terminal: &mut Terminal<'_>,
) -> Result<ServicePlan, CliError> {
    let id = details.service.id.clone();
    let address = address(&details.service);
    let look = GetServiceDeployment { id: Some(id.clone()), cluster: None, name: None };
    let plan = PlanService { id: id.clone() };
    let started = Instant::now();
    let source = format!("the source of service {address}");
    let request = wait::until_quick(&source, timeout, terminal, async || {
        let refused = match client.send(&plan).await {
            Ok(asked) => return Ok(Observed::Done(asked.request_id)),
            Err(error) if error.code() == Some(ErrorCode::Conflict) => error,
            Err(error) => return Err(error),
        };
        // A service that was made a moment ago: its first fetch may still come. Anything else does not pass.
        let now = client.send(&look).await?;
        if let Some(never) = now.service.reason.as_ref().filter(|reason| reason.terminal) {
            let why = or_dash(Some(&never.message));
            return Ok(Observed::Never(CliError::new(format!("service {address} cannot be planned: {why}"))));
        }
        if now.service.sha.is_some() || now.service.deleted_at.is_some() {
            // It may have been fetched between the two questions.
            return Ok(match client.send(&plan).await {
                Ok(asked) => Observed::Done(asked.request_id),
                Err(_) => Observed::Never(refused.into()),
            });
        }
        Ok(Observed::NotYet("it is being fetched".to_owned()))
    })
    .await?;
    let timeout = timeout.saturating_sub(started.elapsed());
    let ask = GetServicePlan { service_id: id, request_id: Some(request) };
    let answer = |plan: ServicePlan| match &plan.error {
        None => Observed::Done(plan),
        Some(error) => {
            let why = or_dash(Some(error));
            Observed::Never(CliError::new(format!("service {address} cannot be planned: {why}")))
        }
    };
    wait::until_quick(&format!("a plan of service {address}"), timeout, terminal, async || {
        if let Some(plan) = client.send(&ask).await? {
            return Ok(answer(plan));
        }
        let now = client.send(&look).await?;
        let reason = now.service.reason.as_ref();
        // An agent of an earlier build reports why, and no plan. One of this build may have answered in between.
        if let Some(error) =
            reason.filter(|reason| reason.kind == ServiceReasonKind::Error && reason.terminal)
        {
            if let Some(plan) = client.send(&ask).await? {
                return Ok(answer(plan));
            }
            let why = or_dash(Some(&error.message));
            return Ok(Observed::Never(CliError::new(format!("service {address} cannot be planned: {why}"))));
        }
        let away = reason.filter(|reason| reason.kind == ServiceReasonKind::Agent);
        Ok(Observed::NotYet(match away {
            Some(away) => or_dash(Some(&away.message)),
            None => "its agent makes one".to_owned(),
        }))
    })
    .await
}

/// The objects that a person means, as the service knows them.
pub(crate) async fn chosen(
    texts: &[String],
    details: &ServiceDetails,
    client: &Client,
) -> Result<Vec<ObjectRef>, CliError> {
    if texts.is_empty() {
        return Ok(Vec::new());
    }
    let mut known: Vec<ObjectRef> = details
        .components
        .iter()
        .map(|component| ObjectRef {
            group: component.group.clone().unwrap_or_default(),
            kind: component.kind.clone(),
            namespace: component.namespace.clone(),
            name: component.name.clone(),
        })
        .collect();
    // What is not there yet stands in a plan.
    let ask = GetServicePlan { service_id: details.service.id.clone(), request_id: None };
    known.extend(
        client.send(&ask).await?.into_iter().flat_map(|plan| plan.objects).map(|planned| planned.object),
    );
    let mut all = Vec::with_capacity(texts.len());
    for text in texts {
        all.push(meant(text, &known)?);
    }
    Ok(all)
}

/// Kinds as kubectl abbreviates them.
const SHORT_KINDS: [(&str, &str); 24] = [
    ("cm", "ConfigMap"),
    ("cj", "CronJob"),
    ("crd", "CustomResourceDefinition"),
    ("deploy", "Deployment"),
    ("ds", "DaemonSet"),
    ("ep", "Endpoints"),
    ("hpa", "HorizontalPodAutoscaler"),
    ("ing", "Ingress"),
    ("job", "Job"),
    ("limits", "LimitRange"),
    ("netpol", "NetworkPolicy"),
    ("no", "Node"),
    ("ns", "Namespace"),
    ("pc", "PriorityClass"),
    ("pdb", "PodDisruptionBudget"),
    ("po", "Pod"),
    ("pv", "PersistentVolume"),
    ("pvc", "PersistentVolumeClaim"),
    ("quota", "ResourceQuota"),
    ("rs", "ReplicaSet"),
    ("sa", "ServiceAccount"),
    ("sc", "StorageClass"),
    ("sts", "StatefulSet"),
    ("svc", "Service"),
];

fn meant(text: &str, known: &[ObjectRef]) -> Result<ObjectRef, CliError> {
    let parts: Vec<&str> = text.split('/').collect();
    let (kind, namespace, name) = match parts[..] {
        [kind, name] if !kind.is_empty() && !name.is_empty() => (kind, None, name),
        [kind, namespace, name] if parts.iter().all(|part| !part.is_empty()) => (kind, Some(namespace), name),
        _ => {
            return Err(CliError::usage(format!(
                "{text:?} is not an object: it must be KIND/NAMESPACE/NAME or KIND/NAME"
            )));
        }
    };
    let (kind, group) = match kind.split_once('.') {
        Some((kind, group)) => (kind, Some(group)),
        None => (kind, None),
    };
    let kind =
        SHORT_KINDS.iter().find(|(short, _)| short.eq_ignore_ascii_case(kind)).map_or(kind, |(_, kind)| kind);
    let mut fitting: Vec<&ObjectRef> = known
        .iter()
        .filter(|object| {
            is_kind(&object.kind, kind)
                && object.name == name
                && group.is_none_or(|group| object.group == group)
                && namespace.is_none_or(|namespace| object.namespace.as_deref() == Some(namespace))
        })
        .collect();
    fitting.dedup();
    match fitting[..] {
        [object] => Ok(object.clone()),
        [] => Err(CliError::new(format!("the service has no object {text}"))
            .hint("`plural cd services describe` and `plural cd services plan` show its objects")),
        [first, ..] if fitting.iter().all(|object| *object == first) => Ok(first.clone()),
        _ => {
            let all: Vec<String> = fitting.iter().map(ToString::to_string).collect();
            Err(CliError::usage(format!("{text} is ambiguous: it matches {}", all.join(", "))))
        }
    }
}

/// Whether a person means this kind: in the singular, or in the plural as kubectl has it.
fn is_kind(kind: &str, word: &str) -> bool {
    let stem = |ending: &str| word.len().checked_sub(ending.len()).and_then(|at| word.get(..at));
    kind.eq_ignore_ascii_case(word)
        || [("s", ""), ("es", ""), ("ies", "y")].into_iter().any(|(ending, other)| {
            let ends = word.to_ascii_lowercase().ends_with(ending);
            ends && stem(ending).is_some_and(|stem| kind.eq_ignore_ascii_case(&format!("{stem}{other}")))
        })
}

fn print(plan: &ServicePlan, format: &Format, terminal: &mut Terminal<'_>) -> Result<(), CliError> {
    match format {
        Format::Name => {
            for planned in &plan.objects {
                writeln!(terminal.out, "{}", one_line(&planned.object.to_string()))?;
            }
            Ok(())
        }
        Format::Table | Format::Wide => Ok(write!(terminal.out, "{}", planned(plan, Utc::now()))?),
        _ => output::program_one(plan, format, terminal),
    }
}

/// A plan, one line for each object, and under it what differs.
fn planned(plan: &ServicePlan, now: DateTime<Utc>) -> String {
    let mut text = String::new();
    for planned in &plan.objects {
        let PlannedObject { object, action, phase, wave, why, fields, fields_omitted, location } = planned;
        let place = match (phase, wave) {
            (Some(phase), Some(wave)) if *action != PlanAction::Prune => {
                format!("  ({}, wave {wave})", words(phase.as_str()))
            }
            _ => String::new(),
        };
        let _ = writeln!(text, "{:<9} {}{place}", action_words(*action), or_dash(Some(&object.to_string())));
        if let Some(why) = why {
            let _ = writeln!(text, "            {}", or_dash(Some(why)));
        }
        if let (Some(location), PlanAction::Blocked | PlanAction::Conflict) = (location, action) {
            let _ = writeln!(text, "            at {}", or_dash(Some(location)));
        }
        for field in fields {
            let _ = writeln!(text, "            {}", field_line(field, now));
        }
        if let Some(more) = more_fields(*fields_omitted) {
            let _ = writeln!(text, "            {more}");
        }
    }
    text.push_str(&summary(plan));
    text
}

/// How many fields there are that are not listed.
fn more_fields(omitted: Option<i64>) -> Option<String> {
    match omitted {
        None | Some(..=0) => None,
        Some(1) => Some("and 1 field more".to_owned()),
        Some(more) => Some(format!("and {more} fields more")),
    }
}

fn action_words(action: PlanAction) -> String {
    match action {
        PlanAction::RunHook => "run hook".to_owned(),
        other => words(other.as_str()),
    }
}

fn summary(plan: &ServicePlan) -> String {
    let count = |action| plan.objects.iter().filter(|planned| planned.action == action).count();
    let mut words: Vec<String> = [
        (PlanAction::Create, "to create"),
        (PlanAction::Change, "to change"),
        (PlanAction::RunHook, "hooks to run"),
        (PlanAction::Prune, "to prune"),
        (PlanAction::Conflict, "in conflict"),
        (PlanAction::Blocked, "blocked"),
    ]
    .into_iter()
    .filter_map(|(action, words)| {
        let count = count(action);
        (count > 0).then(|| format!("{count} {words}"))
    })
    .collect();
    words.push(format!("{} unchanged", plan.unchanged.unwrap_or(0)));
    if let Some(omitted) = plan.omitted.filter(|omitted| *omitted > 0) {
        words.push(format!("{omitted} not listed"));
    }
    format!("{}\n", words.join(", "))
}

/// `/spec/replicas: 3 → 1, written by somebody 5m ago`.
pub(crate) fn field_line(field: &FieldChange, now: DateTime<Utc>) -> String {
    let value = |value: &Option<String>| match value {
        Some(text) => or_dash(Some(text)),
        None => "nothing".to_owned(),
    };
    let mut line =
        format!("{}: {} → {}", or_dash(Some(&field.path)), value(&field.before), value(&field.after));
    if let Some(manager) = &field.manager {
        let _ = write!(line, ", written by {}", or_dash(Some(manager)));
        if field.written_at.is_some() {
            let _ = write!(line, " {} ago", age(field.written_at, now));
        }
    }
    line
}

/// A plan as diff writes it: `-` is the cluster, `+` is git.
fn difference(plan: &ServicePlan, now: DateTime<Utc>) -> String {
    let mut text = String::new();
    for planned in &plan.objects {
        let name = or_dash(Some(&planned.object.to_string()));
        let sign = match planned.action {
            PlanAction::Create | PlanAction::RunHook => '+',
            PlanAction::Prune => '-',
            PlanAction::Change => '~',
            PlanAction::Conflict | PlanAction::Blocked => '!',
            PlanAction::Unchanged | PlanAction::Unknown => ' ',
        };
        let _ = writeln!(text, "{sign} {name}");
        if let Some(why) = &planned.why {
            let _ = writeln!(text, "    {}", or_dash(Some(why)));
        }
        for field in &planned.fields {
            let path = or_dash(Some(&field.path));
            if let Some(before) = &field.before {
                let by = field.manager.as_ref().map_or(String::new(), |manager| {
                    let when = age(field.written_at, now);
                    format!("   # {}, {when} ago", or_dash(Some(manager)))
                });
                let _ = writeln!(text, "-   {path}: {}{by}", or_dash(Some(before)));
            }
            if let Some(after) = &field.after {
                let _ = writeln!(text, "+   {path}: {}", or_dash(Some(after)));
            }
        }
        if let Some(more) = more_fields(planned.fields_omitted) {
            let _ = writeln!(text, "    {more}");
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn plan() -> ServicePlan {
        serde_json::from_value(json!({
            "id": "1", "requestId": "2", "revisionId": "3", "digest": "d", "unchanged": 4, "omitted": 0, "error": null,
            "insertedAt": null,
            "objects": [
                {"object": {"group": "", "kind": "ConfigMap", "namespace": "shop", "name": "new"},
                    "action": "CREATE", "phase": "SYNC", "wave": 1, "why": null, "fields": [], "location": "a.yaml:1"},
                {"object": {"group": "apps", "kind": "Deployment", "namespace": "shop", "name": "web"},
                    "action": "CHANGE", "phase": "SYNC", "wave": 2, "why": null, "location": null, "fields": [
                        {"path": "/spec/replicas", "before": "4", "after": "1", "hidden": false,
                            "manager": "somebody", "writtenAt": "1970-01-01T00:00:00Z"},
                        {"path": "/spec/paused", "before": "true", "after": null, "hidden": false,
                            "manager": null, "writtenAt": null}], "fieldsOmitted": 3},
                {"object": {"group": "", "kind": "ConfigMap", "namespace": "shop", "name": "old\u{1b}[2J"},
                    "action": "PRUNE", "phase": "SYNC", "wave": 1, "why": null, "fields": null, "location": null},
            ],
        }))
        .unwrap()
    }

    #[test]
    fn a_plan_is_told() {
        let now = DateTime::UNIX_EPOCH + chrono::TimeDelta::minutes(5);
        let expected = "\
create    ConfigMap/shop/new  (sync, wave 1)
change    Deployment.apps/shop/web  (sync, wave 2)
            /spec/replicas: 4 → 1, written by somebody 5m ago
            /spec/paused: true → nothing
            and 3 fields more
prune     ConfigMap/shop/old [2J
1 to create, 1 to change, 1 to prune, 4 unchanged
";
        assert_eq!(planned(&plan(), now), expected);
        let expected = "\
+ ConfigMap/shop/new
~ Deployment.apps/shop/web
-   /spec/replicas: 4   # somebody, 5m ago
+   /spec/replicas: 1
-   /spec/paused: true
    and 3 fields more
- ConfigMap/shop/old [2J
";
        assert_eq!(difference(&plan(), now), expected);
    }

    #[test]
    fn objects_are_found_by_what_a_person_says() {
        let object = |text: &str| {
            let (kind, rest) = text.split_once('/').unwrap();
            let (namespace, name) = rest.split_once('/').unwrap();
            let (kind, group) = kind.split_once('.').unwrap_or((kind, ""));
            ObjectRef {
                group: group.to_owned(),
                kind: kind.to_owned(),
                namespace: Some(namespace.to_owned()),
                name: name.to_owned(),
            }
        };
        let known = ["Deployment.apps/shop/web", "ConfigMap/shop/web", "ConfigMap/other/web"].map(object);
        let found = |text: &str| meant(text, &known).map(|object| object.to_string());
        assert_eq!(found("deployment/web").unwrap(), "Deployment.apps/shop/web");
        assert_eq!(found("deploy/web").unwrap(), "Deployment.apps/shop/web");
        assert_eq!(found("cm/other/web").unwrap(), "ConfigMap/other/web");
        assert_eq!(found("Deployment.apps/shop/web").unwrap(), "Deployment.apps/shop/web");
        assert_eq!(found("configmap/other/web").unwrap(), "ConfigMap/other/web");
        assert!(found("configmap/web").unwrap_err().to_string().contains("is ambiguous"));
        assert!(found("configmap/shop/none").unwrap_err().to_string().contains("no object"));
        assert_eq!(found("web").unwrap_err().exit_code(), 2);
    }
}
