//! Personas: which parts of the web console somebody is shown. They say nothing of what somebody may do.

use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::error::{Error, Result};
use crate::ids::PersonaId;
use crate::name::Name;
use crate::page::Keyed;
use crate::policy::BindingSubject;

/// Personas that an installation may have.
pub const MOST: u64 = 200;
/// Users and groups of one persona.
const MOST_SUBJECTS: usize = 500;
/// Bytes of a description.
const LONGEST: usize = 4_096;

/// Which parts of the web console the users of some groups are shown.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Persona {
    /// Id.
    pub id: PersonaId,
    /// Unique in the installation.
    pub name: Name,
    /// For people.
    pub description: Option<String>,
    /// What kind of work its people do.
    pub role: Option<PersonaRole>,
    /// What they are shown.
    pub configuration: PersonaConfiguration,
    /// Who they are.
    pub subjects: Vec<BindingSubject>,
    /// When it was made.
    pub created_at: DateTime<Utc>,
    /// When it was last changed.
    pub updated_at: DateTime<Utc>,
}

/// What kind of work people do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PersonaRole {
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

impl PersonaRole {
    /// All of them.
    pub const ALL: [Self; 5] =
        [Self::Platform, Self::Developer, Self::Security, Self::Finops, Self::Management];

    /// The word in the API and in the database.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Platform => "PLATFORM",
            Self::Developer => "DEVELOPER",
            Self::Security => "SECURITY",
            Self::Finops => "FINOPS",
            Self::Management => "MANAGEMENT",
        }
    }

    /// The role of this word.
    pub fn parse(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|role| role.as_str() == word)
    }
}

/// Says which parts a place of the web console has.
macro_rules! parts {
    ($(#[$doc:meta])* $name:ident { $($(#[$field_doc:meta])* $field:ident,)+ }) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
        #[serde(rename_all = "camelCase", default)]
        pub struct $name {
            $(
                $(#[$field_doc])*
                #[serde(skip_serializing_if = "Option::is_none")]
                pub $field: Option<bool>,
            )+
        }
    };
}

/// What is shown; what is absent is for the web console to decide.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct PersonaConfiguration {
    /// Everything.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub all: Option<bool>,
    /// Of the first page.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub home: Option<PersonaHome>,
    /// Of continuous deployment.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub deployments: Option<PersonaDeployment>,
    /// Of flows.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub flows: Option<PersonaFlows>,
    /// Of the bar at the side.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sidebar: Option<PersonaSidebar>,
    /// Of a service.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub services: Option<PersonaServices>,
    /// Of what an AI does.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ai: Option<PersonaAi>,
}

parts! {
    /// The first page.
    PersonaHome {
        /// What managers look at.
        manager,
        /// What those look at who look after security.
        security,
    }
}

parts! {
    /// Continuous deployment.
    PersonaDeployment {
        /// Clusters.
        clusters,
        /// Services of all clusters.
        deployments,
        /// Git and chart repositories.
        repositories,
        /// Services.
        services,
        /// Pipelines.
        pipelines,
        /// Providers.
        providers,
        /// Add-ons.
        add_ons,
    }
}

parts! {
    /// Flows.
    PersonaFlows {
        /// Who may do what with them.
        permissions,
        /// Jobs of workbenches.
        start_workbench_job,
        /// Workbenches.
        workbenches,
        /// Pipelines.
        pipelines,
        /// Previews.
        previews,
    }
}

parts! {
    /// The bar at the side.
    PersonaSidebar {
        /// Continuous deployment.
        cd,
        /// The audit log.
        audits,
        /// Kubernetes objects.
        kubernetes,
        /// Pull requests.
        pull_requests,
        /// Flows.
        flows,
        /// Workbenches.
        workbenches,
        /// Settings.
        settings,
        /// Backups.
        backups,
        /// Stacks.
        stacks,
        /// Security.
        security,
        /// Costs.
        cost,
        /// What an AI does.
        ai,
    }
}

parts! {
    /// A service.
    PersonaServices {
        /// Its secrets.
        secrets,
        /// Its configuration.
        configuration,
    }
}

parts! {
    /// What an AI does.
    PersonaAi {
        /// Pull requests.
        pr,
    }
}

/// What a new persona is made from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewPersona {
    /// Unique in the installation.
    pub name: Name,
    /// For people.
    pub description: Option<String>,
    /// What kind of work its people do.
    pub role: Option<PersonaRole>,
    /// What they are shown.
    pub configuration: PersonaConfiguration,
    /// Who they are.
    pub subjects: Vec<BindingSubject>,
}

/// What changes of a persona; `None` leaves a field as it is.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PersonaChange {
    /// New name.
    pub name: Option<Name>,
    /// New description.
    pub description: Option<String>,
    /// Another kind of work.
    pub role: Option<PersonaRole>,
    /// What they are shown from now on.
    pub configuration: Option<PersonaConfiguration>,
    /// Who they are from now on.
    pub subjects: Option<Vec<BindingSubject>>,
}

/// Refuses what is too long.
///
/// # Errors
/// [`Error::Invalid`].
pub fn check(description: Option<&str>, subjects: &[BindingSubject]) -> Result<()> {
    if description.is_some_and(|text| text.len() > LONGEST || text.contains('\0')) {
        return Err(Error::invalid(
            "attributes.description",
            format!("must be at most {LONGEST} bytes of text"),
        ));
    }
    if subjects.len() > MOST_SUBJECTS {
        return Err(Error::invalid(
            "attributes.bindings",
            format!("must be at most {MOST_SUBJECTS}: name groups instead of users"),
        ));
    }
    Ok(())
}

impl Keyed for Persona {
    fn key(&self) -> Uuid {
        self.id.uuid()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_configuration_holds_what_was_said_and_no_more() {
        let text =
            r#"{"all":false,"deployments":{"clusters":true,"addOns":false},"sidebar":{"pullRequests":true}}"#;
        let read: PersonaConfiguration = serde_json::from_str(text).unwrap();
        assert_eq!(serde_json::to_string(&read).unwrap(), text);
        // A later release may know more.
        assert!(serde_json::from_str::<PersonaConfiguration>(r#"{"home":{"other":true}}"#).is_ok());
    }

    #[test]
    fn roles_have_their_words() {
        for role in PersonaRole::ALL {
            assert_eq!(PersonaRole::parse(role.as_str()), Some(role));
        }
    }
}
