//! Foreign changes of a service's objects: drift, ignore, take-over.

use chrono::{DateTime, Utc};
use clap::Args;
use plural_wire::{
    Client, DiffNormalizer, DriftEvent, IgnoreServiceDrift, ListServiceDrift, ObjectRef, SyncService,
    SyncServiceAttributes,
};

use crate::{
    args::{ListOutputArgs, OutputArgs},
    error::CliError,
    key::ServiceKey,
    output::{self, Row, age, or_dash},
    service_sync::{chosen, field_line},
    services::address,
    sync_described::words,
    terminal::Terminal,
};

/// Fields of one event that a table shows; the rest is counted.
const SHOWN: usize = 3;

/// List changes to a service's objects that did not come from git
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  plural cd services drift blue/web
  plural cd services drift blue/web --last 100 -o json")]
pub(crate) struct ServiceDriftArgs {
    /// The service: CLUSTER/NAME or its id
    #[arg(value_name = "SERVICE")]
    pub(crate) service: ServiceKey,

    /// How many, the newest
    #[arg(long, default_value_t = 20, value_parser = clap::value_parser!(i64).range(1..=100), value_name = "N")]
    pub(crate) last: i64,

    #[command(flatten)]
    pub(crate) output: ListOutputArgs,
}

/// Stop managing fields of an object
///
/// They are not compared and not sent any more, and drift of them is no drift. Adds to the service's diffNormalizers.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  plural cd services ignore blue/web Deployment.apps/shop/web --field /spec/replicas
  plural cd services ignore blue/web Deployment.apps/shop/web   # what somebody changed last
  plural cd services ignore blue/web 'Deployment.apps/*' --manager istiod")]
pub(crate) struct ServiceIgnoreArgs {
    /// The service: CLUSTER/NAME or its id
    #[arg(value_name = "SERVICE")]
    pub(crate) service: ServiceKey,

    /// The object; * stands for any run of characters
    #[arg(value_name = "KIND/[NAMESPACE/]NAME")]
    pub(crate) object: String,

    /// Field as a JSON pointer; may be given several times. Without any, those that somebody changed last
    #[arg(long = "field", value_name = "POINTER")]
    pub(crate) fields: Vec<String>,

    /// Everything that this field manager owns; may be given several times
    #[arg(long = "manager", value_name = "NAME")]
    pub(crate) managers: Vec<String>,

    /// Send the live value along instead of leaving the field out
    #[arg(long)]
    pub(crate) backfill: bool,

    #[command(flatten)]
    pub(crate) output: OutputArgs,
}

/// Revert manual changes to an object, even where self-heal is off
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  plural cd services take-over blue/web Deployment.apps/shop/web")]
pub(crate) struct ServiceTakeOverArgs {
    /// The service: CLUSTER/NAME or its id
    #[arg(value_name = "SERVICE")]
    pub(crate) service: ServiceKey,

    /// The objects
    #[arg(required = true, value_name = "KIND/[NAMESPACE/]NAME")]
    pub(crate) objects: Vec<String>,
}

impl Row for DriftEvent {
    const HEADINGS: (&'static [&'static str], usize) =
        (&["AGE", "LAST", "OBJECT", "OUTCOME", "COUNT", "WHAT", "ID"], 6);

    fn id(&self) -> &str {
        &self.id
    }

    fn name(&self) -> String {
        format!("drift/{}", self.id)
    }

    fn cells(&self, now: DateTime<Utc>) -> Vec<String> {
        let mut what: Vec<String> =
            self.fields.iter().take(SHOWN).map(|field| field_line(field, now)).collect();
        if self.fields.len() > SHOWN {
            what.push(format!("and {} more fields", self.fields.len() - SHOWN));
        }
        if what.is_empty() {
            what.extend(self.what.clone());
        }
        vec![
            age(self.inserted_at, now),
            age(self.updated_at, now),
            or_dash(Some(&self.object.to_string())),
            words(self.kind.as_str()),
            self.count.unwrap_or(1).to_string(),
            or_dash(Some(&what.join("; "))),
            self.id.clone(),
        ]
    }
}

pub(crate) async fn drift(
    args: ServiceDriftArgs,
    client: &Client,
    terminal: &mut Terminal<'_>,
) -> Result<(), CliError> {
    let events = events(&args.service, args.last, client).await?;
    output::list(&events, &args.output, "no manual changes found", terminal)
}

/// The last events, the newest first.
async fn events(service: &ServiceKey, last: i64, client: &Client) -> Result<Vec<DriftEvent>, CliError> {
    let (id, cluster, name) = service.variables(client).await?;
    let found = client
        .send(&ListServiceDrift { id, cluster, name, last })
        .await
        .map_err(|error| CliError::absent(error, || service.missing()))?;
    let mut events: Vec<DriftEvent> = found.drift.edges.into_iter().map(|edge| edge.node).collect();
    events.reverse();
    Ok(events)
}

pub(crate) async fn ignore(
    args: ServiceIgnoreArgs,
    client: &Client,
    terminal: &mut Terminal<'_>,
) -> Result<(), CliError> {
    let details = args.service.get(client).await?;
    let address = address(&details.service);
    let mut pointers = args.fields;
    let normalizer = if args.object.contains('*') {
        pattern(&args.object)?
    } else {
        let objects = chosen(std::slice::from_ref(&args.object), &details, client).await?;
        let Some(ObjectRef { group: _, kind, namespace, name }) = objects.into_iter().next() else {
            return Err(CliError::usage("which object?"));
        };
        DiffNormalizer { kind: Some(kind), namespace, name: Some(name), ..DiffNormalizer::default() }
    };
    if pointers.is_empty() && args.managers.is_empty() {
        let events = events(&args.service, 100, client).await?;
        let last = events.into_iter().find(|event| {
            Some(&event.object.kind) == normalizer.kind.as_ref()
                && Some(&event.object.name) == normalizer.name.as_ref()
                && event.object.namespace == normalizer.namespace
                && !event.fields.is_empty()
        });
        let last = last.ok_or_else(|| {
            CliError::usage(format!("no changed field of {} is known: name one with --field", args.object))
                .hint("`plural cd services drift` shows what was changed")
        })?;
        pointers.extend(last.fields.into_iter().map(|field| field.path));
    }
    let told = pointers.iter().chain(&args.managers).cloned().collect::<Vec<_>>().join(", ");
    let attributes = DiffNormalizer {
        json_pointers: pointers,
        managers: args.managers,
        backfill: args.backfill,
        ..normalizer
    };
    let service = client.send(&IgnoreServiceDrift { id: details.service.id, attributes }).await?;
    terminal.say(format_args!("service {address} leaves {told} of {} to others", args.object));
    output::item(&service, &args.output.output, terminal)
}

/// Patterns of kind, namespace and name.
fn pattern(text: &str) -> Result<DiffNormalizer, CliError> {
    let parts: Vec<&str> = text.split('/').collect();
    let (kind, namespace, name) = match parts[..] {
        [kind, name] => (kind, None, name),
        [kind, namespace, name] => (kind, Some(namespace), name),
        _ => return Err(CliError::usage(format!("{text:?} must be KIND/NAMESPACE/NAME or KIND/NAME"))),
    };
    // Normalizers match kinds of whatever group.
    let kind = kind.split_once('.').map_or(kind, |(kind, _)| kind);
    let some = |text: &str| Some(text.to_owned()).filter(|text| !text.is_empty() && text != "*");
    Ok(DiffNormalizer {
        kind: some(kind),
        namespace: namespace.and_then(some),
        name: some(name),
        ..DiffNormalizer::default()
    })
}

pub(crate) async fn take_over(
    args: ServiceTakeOverArgs,
    client: &Client,
    terminal: &mut Terminal<'_>,
) -> Result<(), CliError> {
    let details = args.service.get(client).await?;
    let objects = chosen(&args.objects, &details, client).await?;
    let attributes = SyncServiceAttributes { objects: Some(objects), ..SyncServiceAttributes::default() };
    let address = address(&details.service);
    client.send(&SyncService { id: details.service.id, attributes }).await?;
    terminal.say(format_args!("service {address}: {} becomes what git says", args.objects.join(", ")));
    Ok(())
}
