//! Documents of sync windows. A window is known by what it is of and its name: `cluster/blue/freeze`.

use plural_core::sync_window::{SyncWindowKind, WindowRule};
use plural_wire::{ChangeSyncWindow, MakeSyncWindow, ReadSyncWindows, RemoveSyncWindow, Seconds};
use serde_json::{Value, json};

use super::{
    console::{Console, text},
    kind::{Info, Kind},
    project::RECONCILIATION,
    schema::{Field, Type, field},
    state::{State, picked},
    thing::{Desired, Live},
};
use crate::error::CliError;

pub(super) static INFO: Info = Info {
    name: "SyncWindow",
    singular: "syncwindow",
    plural: "syncwindows",
    short: &["win", "window", "windows", "sync-window", "sync-windows"],
    named_by: "project/PROJECT/NAME, cluster/HANDLE/NAME or service/CLUSTER/SERVICE/NAME",
    docs: "A time that comes again and again, in which new commits go on, or wait, for a project, a cluster or a service.",
    fields: FIELDS,
};

const FIELDS: &[Field] = &[
    field("name", Type::Text, "Name, unique among the windows of what it is of; else the document's."),
    field(
        "kind",
        Type::Word(&["ALLOW", "DENY"]),
        "New commits go on only while one that allows is open, and wait while one that denies is.",
    )
    .required(),
    field(
        "schedule",
        Type::Text,
        "When it opens: minute, hour, day of the month, month, day of the week, as in cron.",
    )
    .required(),
    field("duration", Type::Span, "How long it stays open: 30m, 8h; a week at most.").required(),
    field("timeZone", Type::Text, "Name of the time zone that the schedule is meant in; UTC when absent."),
    field("description", Type::Text, "Why there is one."),
    field(
        "projectRef",
        Type::Reference(Kind::Project),
        "All services of this project. One of these four is required.",
    ),
    field("clusterRef", Type::Reference(Kind::Cluster), "All services of this cluster."),
    field("cluster", Type::Text, "The same, by the cluster's handle."),
    field("serviceRef", Type::Reference(Kind::ServiceDeployment), "This service."),
    RECONCILIATION,
];

pub(super) fn prepare(name: &str, said: &mut State, problems: &mut Vec<String>) -> String {
    let name = super::state::text(said, "name").unwrap_or(name).to_owned();
    said.insert("name".into(), name.clone().into());
    if let Some(cluster) = said.remove("clusterRef").filter(|_| !said.contains_key("cluster")) {
        said.insert("cluster".into(), cluster);
    }
    let of = [("projectRef", "project"), ("cluster", "cluster"), ("serviceRef", "service")];
    let of: Vec<String> = of
        .into_iter()
        .filter_map(|(field, word)| Some(format!("{word}/{}", super::state::text(said, field)?)))
        .collect();
    let [of] = of.as_slice() else {
        problems.push(
            "spec: exactly one of projectRef, clusterRef, cluster and serviceRef is required".to_owned(),
        );
        return String::new();
    };
    let zone = super::state::text(said, "timeZone").unwrap_or("UTC").to_owned();
    let kind = super::state::text(said, "kind").and_then(SyncWindowKind::parse);
    let seconds = super::state::text(said, "duration").and_then(|text| text.parse::<Seconds>().ok());
    if let (Some(kind), Some(Seconds(seconds)), Some(schedule)) =
        (kind, seconds, super::state::text(said, "schedule"))
    {
        match WindowRule::new(kind, schedule, seconds, &zone) {
            Ok(rule) => {
                said.insert("schedule".into(), rule.schedule.to_string().into());
                said.insert("timeZone".into(), rule.time_zone.name().into());
            }
            Err(error) => problems.push(format!("spec: {error}")),
        }
    }
    if super::state::text(said, "timeZone") == Some("UTC") {
        said.insert("timeZone".into(), Value::Null);
    }
    format!("{of}/{name}")
}

/// The variables that name what a window is of, the field that refers to it, and the window's name.
async fn of<'k>(
    key: &'k str,
    console: &mut Console<'_>,
) -> Result<Option<(Value, State, &'k str)>, CliError> {
    let Some((of, name)) = key.rsplit_once('/') else { return Ok(None) };
    let (word, owner) = of.split_once('/').unwrap_or_default();
    let (kind, variable, field) = match word {
        "project" => (Kind::Project, "projectId", "projectRef"),
        "cluster" => (Kind::Cluster, "clusterId", "cluster"),
        "service" => (Kind::ServiceDeployment, "serviceId", "serviceRef"),
        _ => return Ok(None),
    };
    let Some(id) = console.id(kind, owner).await? else { return Ok(None) };
    let field = State::from_iter([(field.to_owned(), owner.into())]);
    Ok(Some((json!({variable: id}), field, name)))
}

/// The key of every window of these things.
pub(super) async fn all(console: &mut Console<'_>) -> Result<Vec<String>, CliError> {
    let mut keys = Vec::new();
    for (kind, word, variable) in [
        (Kind::Project, "project", "projectId"),
        (Kind::Cluster, "cluster", "clusterId"),
        (Kind::ServiceDeployment, "service", "serviceId"),
    ] {
        for owner in console.all(kind).await? {
            let id = console.known_id(kind, &owner).await?;
            let windows = console.send(ReadSyncWindows(json!({variable: id}))).await?;
            for window in windows.as_array().into_iter().flatten() {
                let name = text(window, "name").or_else(|| text(window, "id")).unwrap_or_default();
                keys.push(format!("{word}/{owner}/{name}"));
            }
        }
    }
    Ok(keys)
}

pub(super) async fn read(key: &str, console: &mut Console<'_>) -> Result<Option<Live>, CliError> {
    let Some((variables, field, name)) = of(key, console).await? else { return Ok(None) };
    let windows = console.send(ReadSyncWindows(variables)).await?;
    let windows: Vec<&Value> = windows.as_array().into_iter().flatten().collect();
    // One that was made without a name goes by its id.
    let by = |field: &str| windows.iter().find(|window| text(window, field).as_deref() == Some(name));
    let Some(window) = by("name").or_else(|| by("id")) else { return Ok(None) };
    let mut state = picked(window, &["kind", "schedule", "timeZone", "description"]);
    state.insert("name".into(), name.into());
    state.extend(field);
    let seconds = window.get("duration").and_then(Value::as_u64).and_then(|all| u32::try_from(all).ok());
    state.insert("duration".into(), json!(Seconds(seconds.unwrap_or_default())));
    if state.get("timeZone") == Some(&json!("UTC")) {
        state.remove("timeZone");
    }
    Ok(Some(Live::new(Kind::SyncWindow, key, window, &state)))
}

fn attributes(state: &State, name: Option<&str>) -> Value {
    let mut attributes =
        picked(&Value::Object(state.clone()), &["kind", "schedule", "timeZone", "description"]);
    let seconds = super::state::text(state, "duration").and_then(|text| text.parse::<Seconds>().ok());
    attributes.insert("duration".into(), seconds.map(|Seconds(seconds)| seconds).into());
    attributes.insert("name".into(), name.into());
    Value::Object(attributes)
}

pub(super) async fn make(
    state: &State,
    desired: &Desired,
    console: &mut Console<'_>,
) -> Result<Value, CliError> {
    let found = of(&desired.key, console).await?;
    let (mut variables, _, name) = found
        .ok_or_else(|| CliError::missing("project, cluster or service of the window", "apply it first"))?;
    variables["attributes"] = attributes(state, Some(name));
    console.send(MakeSyncWindow(variables)).await
}

pub(super) async fn change(
    live: &Live,
    merged: &State,
    console: &mut Console<'_>,
) -> Result<Value, CliError> {
    let found = of(&live.key, console).await?;
    let (mut variables, _, name) = found
        .ok_or_else(|| CliError::missing("project, cluster or service of the window", "apply it first"))?;
    variables["id"] = json!(live.id);
    variables["attributes"] = attributes(merged, Some(name).filter(|name| *name != live.id));
    console.send(ChangeSyncWindow(variables)).await
}

pub(super) async fn remove(live: &Live, console: &mut Console<'_>) -> Result<Value, CliError> {
    let found = of(&live.key, console).await?;
    let Some((mut variables, _, _)) = found else { return Ok(Value::Null) };
    variables["id"] = json!(live.id);
    console.send(RemoveSyncWindow(variables)).await
}
