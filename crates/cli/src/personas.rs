//! `plural cd personas …`.

use chrono::{DateTime, Utc};
use clap::{Args, Subcommand, ValueEnum};
use plural_wire::{
    Client, CreatePersona, DeletePersona, GetPersona, ListPersonas, PAGE_SIZE, Persona, PersonaAiAttributes,
    PersonaAttributes, PersonaConfiguration, PersonaConfigurationAttributes, PersonaDeploymentAttributes,
    PersonaFlowsAttributes, PersonaHomeAttributes, PersonaRole, PersonaServicesAttributes,
    PersonaSidebarAttributes, PolicyBindingAttributes, UpdatePersona, all_pages,
};
use serde_json::Value;

use crate::{
    args::{ConfirmArgs, ListOutputArgs, OutputArgs},
    error::CliError,
    groups, key,
    output::{self, Row, age, or_dash},
    terminal::Terminal,
    users,
};

const NOTHING: &str = "no personas; `plural cd personas create NAME --group GROUP --show PART` makes one";

/// Personas, what the web console shows to whom: list, create, update, delete
#[derive(Debug, Args)]
#[command(visible_alias = "persona", subcommand_required = true, arg_required_else_help = true)]
pub(crate) struct PersonasArgs {
    #[command(subcommand)]
    pub(crate) command: PersonaCommand,
}

#[derive(Debug, Subcommand)]
pub(crate) enum PersonaCommand {
    List(PersonaListArgs),
    Create(PersonaCreateArgs),
    Update(PersonaUpdateArgs),
    Delete(PersonaDeleteArgs),
}

/// List all personas, for administrators of the installation
#[derive(Debug, Args)]
#[command(
    visible_alias = "ls",
    after_help = "Examples:
  plural cd personas list
  plural cd personas list -o json"
)]
pub(crate) struct PersonaListArgs {
    #[command(flatten)]
    pub(crate) output: ListOutputArgs,
}

/// Whom a persona is for, and what they are shown
#[derive(Debug, Args)]
pub(crate) struct PersonaPartsArgs {
    /// E-mail address of a user whom it is for; may be given several times
    #[arg(long = "user", value_name = "EMAIL")]
    pub(crate) users: Vec<String>,

    /// Name of a group that it is for; may be given several times
    #[arg(long = "group", value_name = "NAME")]
    pub(crate) groups: Vec<String>,

    /// Part that is shown, as deployments.clusters or all; may be given several times
    #[arg(long = "show", value_name = "PART")]
    pub(crate) show: Vec<String>,

    /// Part that is not shown; may be given several times
    #[arg(long = "hide", value_name = "PART")]
    pub(crate) hide: Vec<String>,

    /// What it is for
    #[arg(long, value_name = "TEXT")]
    pub(crate) description: Option<String>,

    /// What kind of work its people do
    #[arg(long, value_enum, value_name = "ROLE")]
    pub(crate) role: Option<Work>,
}

/// What kind of work people do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Work {
    /// They run the fleet.
    Platform,
    /// They deploy to it.
    Developer,
    /// They look after its security.
    Security,
    /// They look after its costs.
    Finops,
    /// They lead.
    Management,
}

impl From<Work> for PersonaRole {
    fn from(work: Work) -> Self {
        match work {
            Work::Platform => Self::Platform,
            Work::Developer => Self::Developer,
            Work::Security => Self::Security,
            Work::Finops => Self::Finops,
            Work::Management => Self::Management,
        }
    }
}

/// Create a persona
///
/// It says which parts of the web console somebody sees, and nothing of what they may do: `plural cd access` does that.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  plural cd personas create developers --group shop --role developer --show deployments.services --hide sidebar.settings")]
pub(crate) struct PersonaCreateArgs {
    /// Its name
    #[arg(value_name = "NAME")]
    pub(crate) name: String,

    #[command(flatten)]
    pub(crate) parts: PersonaPartsArgs,

    #[command(flatten)]
    pub(crate) output: OutputArgs,
}

/// Change a persona
///
/// --user and --group replace all whom it is for. --show and --hide change those parts and leave the others.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  plural cd personas update developers --show sidebar.pullRequests
  plural cd personas update developers --name engineers --group shop --group search")]
pub(crate) struct PersonaUpdateArgs {
    /// Its name or id
    #[arg(value_name = "PERSONA")]
    pub(crate) persona: String,

    /// A new name
    #[arg(long, value_name = "NAME")]
    pub(crate) name: Option<String>,

    #[command(flatten)]
    pub(crate) parts: PersonaPartsArgs,

    #[command(flatten)]
    pub(crate) output: OutputArgs,
}

/// Delete a persona
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  plural cd personas delete developers --yes")]
pub(crate) struct PersonaDeleteArgs {
    /// Its name or id
    #[arg(value_name = "PERSONA")]
    pub(crate) persona: String,

    #[command(flatten)]
    pub(crate) confirm: ConfirmArgs,
}

impl Row for Persona {
    const HEADINGS: (&'static [&'static str], usize) =
        (&["NAME", "FOR", "SHOWN", "NOT SHOWN", "AGE", "DESCRIPTION", "ID"], 5);

    fn id(&self) -> &str {
        &self.id
    }

    fn name(&self) -> String {
        format!("persona/{}", self.name)
    }

    fn cells(&self, now: DateTime<Utc>) -> Vec<String> {
        let subjects: Vec<&str> = self
            .bindings
            .iter()
            .filter_map(|binding| match (&binding.user, &binding.group) {
                (Some(user), _) => Some(user.email.as_str()),
                (None, Some(group)) => Some(group.name.as_str()),
                (None, None) => None,
            })
            .collect();
        let parts = parts_of(self.configuration.as_ref());
        let of = |shown: bool| {
            let names =
                parts.iter().filter(|(_, is_shown)| *is_shown == shown).map(|(name, _)| name.as_str());
            names.collect::<Vec<_>>().join(",")
        };
        vec![
            or_dash(Some(&self.name)),
            or_dash(Some(&subjects.join(","))),
            or_dash(Some(&of(true))),
            or_dash(Some(&of(false))),
            age(self.inserted_at, now),
            output::cell(self.description.as_deref()),
            self.id.clone(),
        ]
    }
}

/// The parts that a configuration decides about, by their paths, in order.
fn parts_of(configuration: Option<&PersonaConfiguration>) -> Vec<(String, bool)> {
    let value = configuration.and_then(|configuration| serde_json::to_value(configuration).ok());
    let mut parts = Vec::new();
    for (name, part) in value.as_ref().and_then(Value::as_object).into_iter().flatten() {
        if let Some(is_shown) = part.as_bool() {
            parts.push((name.clone(), is_shown));
        }
        for (inner, part) in part.as_object().into_iter().flatten() {
            if let Some(is_shown) = part.as_bool() {
                parts.push((format!("{name}.{inner}"), is_shown));
            }
        }
    }
    parts
}

/// A configuration with one more decision.
fn decided(
    configuration: &PersonaConfiguration,
    part: &str,
    is_shown: bool,
) -> Result<PersonaConfiguration, CliError> {
    let unknown = || {
        CliError::usage(format!("{part:?} is no part of the web console"))
            .hint("parts are all, home.manager, deployments.clusters, sidebar.cd …: docs/users.md lists them")
    };
    let mut value = serde_json::to_value(configuration).map_err(|_| unknown())?;
    let all = value.as_object_mut().ok_or_else(unknown)?;
    match part.split_once('.') {
        None => {
            all.insert(part.to_owned(), is_shown.into());
        }
        Some((place, inner)) => {
            let place = all.entry(place).or_insert(Value::Null);
            if place.is_null() {
                *place = Value::Object(serde_json::Map::new());
            }
            place.as_object_mut().ok_or_else(unknown)?.insert(inner.to_owned(), is_shown.into());
        }
    }
    let decided: PersonaConfiguration = serde_json::from_value(value).map_err(|_| unknown())?;
    // What there is not is not read.
    let is_known = parts_of(Some(&decided)).iter().any(|(name, shown)| name == part && *shown == is_shown);
    if is_known { Ok(decided) } else { Err(unknown()) }
}

/// The input of the same fields.
macro_rules! input {
    ($parts:expr => $input:ident { $($field:ident),+ }) => {
        $parts.map(|parts| $input { $($field: parts.$field),+ })
    };
}

fn attributes_of(configuration: &PersonaConfiguration) -> PersonaConfigurationAttributes {
    let PersonaConfiguration { all, home, deployments, flows, sidebar, services, ai } = *configuration;
    PersonaConfigurationAttributes {
        all,
        home: input!(home => PersonaHomeAttributes { manager, security }),
        deployments: input!(deployments => PersonaDeploymentAttributes {
            clusters, deployments, repositories, services, pipelines, providers, add_ons
        }),
        flows: input!(flows => PersonaFlowsAttributes {
            permissions, start_workbench_job, workbenches, pipelines, previews
        }),
        sidebar: input!(sidebar => PersonaSidebarAttributes {
            cd, audits, kubernetes, pull_requests, flows, workbenches, settings, backups, stacks, security, cost, ai
        }),
        services: input!(services => PersonaServicesAttributes { secrets, configuration }),
        ai: input!(ai => PersonaAiAttributes { pr }),
    }
}

/// What the flags say, over what is known.
async fn attributes(
    name: Option<String>,
    parts: PersonaPartsArgs,
    known: Option<PersonaConfiguration>,
    client: &Client,
) -> Result<PersonaAttributes, CliError> {
    let PersonaPartsArgs { users, groups, show, hide, description, role } = parts;
    let mut bindings = Vec::new();
    for email in &users {
        let user_id = Some(users::find(email, client).await?.id);
        bindings.push(PolicyBindingAttributes { user_id, ..PolicyBindingAttributes::default() });
    }
    for group in &groups {
        let group_id = Some(groups::find(group, client).await?.id);
        bindings.push(PolicyBindingAttributes { group_id, ..PolicyBindingAttributes::default() });
    }
    let changes = !show.is_empty() || !hide.is_empty();
    let mut configuration = known.unwrap_or_default();
    for (part, is_shown) in show.iter().map(|part| (part, true)).chain(hide.iter().map(|part| (part, false)))
    {
        configuration = decided(&configuration, part, is_shown)?;
    }
    Ok(PersonaAttributes {
        name,
        description,
        configuration: changes.then(|| attributes_of(&configuration)),
        role: role.map(Into::into),
        bindings: (!bindings.is_empty()).then_some(bindings),
    })
}

async fn find(persona: &str, client: &Client) -> Result<Persona, CliError> {
    let persona = key::bare_id("persona", persona).to_owned();
    let request = if key::is_id(&persona) {
        GetPersona { id: Some(persona.clone()), name: None }
    } else {
        GetPersona { id: None, name: Some(persona.clone()) }
    };
    client.send(&request).await.map_err(|error| {
        let hint = "`plural cd personas list` shows the personas";
        CliError::absent(error, || CliError::missing(format_args!("persona {persona:?}"), hint))
    })
}

pub(crate) async fn run(
    command: PersonaCommand,
    client: &Client,
    terminal: &mut Terminal<'_>,
) -> Result<(), CliError> {
    match command {
        PersonaCommand::List(PersonaListArgs { output }) => {
            let all: Vec<Persona> =
                all_pages(client, |after| ListPersonas { after, first: PAGE_SIZE }).await?;
            output::list(&all, &output, NOTHING, terminal)
        }
        PersonaCommand::Create(PersonaCreateArgs { name, parts, output }) => {
            let attributes = attributes(Some(name), parts, None, client).await?;
            let made = client.send(&CreatePersona { attributes }).await?;
            output::item(&made, &output.output, terminal)
        }
        PersonaCommand::Update(PersonaUpdateArgs { persona, name, parts, output }) => {
            let known = find(&persona, client).await?;
            let attributes = attributes(name, parts, known.configuration, client).await?;
            let changed = client.send(&UpdatePersona { id: known.id, attributes }).await?;
            output::item(&changed, &output.output, terminal)
        }
        PersonaCommand::Delete(PersonaDeleteArgs { persona, confirm }) => {
            let known = find(&persona, client).await?;
            terminal.confirm(&format!("delete persona {}", known.name), confirm.yes)?;
            client.send(&DeletePersona { id: known.id }).await?;
            terminal.say(format_args!("persona {} deleted", known.name));
            Ok(())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_are_decided_one_by_one() {
        let none = PersonaConfiguration::default();
        let one = decided(&none, "deployments.addOns", true).unwrap();
        let two = decided(&one, "all", false).unwrap();
        let three = decided(&two, "deployments.clusters", false).unwrap();
        let expected = [("all", false), ("deployments.addOns", true), ("deployments.clusters", false)];
        let mut parts = parts_of(Some(&three));
        parts.sort();
        assert_eq!(parts, expected.map(|(name, shown)| (name.to_owned(), shown)));
        for unknown in ["", "home", "nowhere", "nowhere.at", "home.nothing", "all.of", "home.manager.more"] {
            assert!(decided(&none, unknown, true).is_err(), "{unknown}");
        }
    }
}
