//! Personas: what the web console shows to whom.

use async_graphql::{Context, Enum, ID, InputObject, Object, SimpleObject};
use chrono::{DateTime, Utc};
use plural_app::persona::PersonaSelector;
use plural_app::policy::SubjectNoun;
use plural_app::records::Search;
use plural_core::ids::{GroupId, UserId};
use plural_core::persona as core;
use plural_core::policy::BindingSubject;

use super::{
    binding::PolicyBinding,
    error::{IntoGraphql, List, Nullable, id, id_or_name, nullable, parse_option},
    limited::limited,
    page::{connection, page_args},
    record::{one, page_of},
    request::request,
    shared::{PolicyBindingAttributes, subjects},
};

/// What kind of work people do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Enum)]
#[graphql(remote = "core::PersonaRole")]
pub(crate) enum PersonaRole {
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

/// Says which parts a place of the web console has: a type, and an input of the same fields.
macro_rules! parts {
    ($(#[$doc:meta])* $name:ident, $input:literal { $($(#[$field_doc:meta])* $field:ident,)+ }) => {
        $(#[$doc])*
        #[derive(Debug, Clone, SimpleObject, InputObject)]
        #[graphql(input_name = $input)]
        pub(crate) struct $name {
            $($(#[$field_doc])* $field: Option<bool>,)+
        }

        impl From<core::$name> for $name {
            fn from(parts: core::$name) -> Self {
                let core::$name { $($field,)+ } = parts;
                Self { $($field,)+ }
            }
        }

        impl From<$name> for core::$name {
            fn from(parts: $name) -> Self {
                let $name { $($field,)+ } = parts;
                Self { $($field,)+ }
            }
        }
    };
}

parts! {
    /// What is shown of the first page.
    PersonaHome, "PersonaHomeAttributes" {
        /// What managers look at.
        manager,
        /// What those look at who look after security.
        security,
    }
}

parts! {
    /// What is shown of continuous deployment.
    PersonaDeployment, "PersonaDeploymentAttributes" {
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
    /// What is shown of flows.
    PersonaFlows, "PersonaFlowsAttributes" {
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
    /// What is shown of the bar at the side.
    PersonaSidebar, "PersonaSidebarAttributes" {
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
    /// What is shown of a service.
    PersonaServices, "PersonaServicesAttributes" {
        /// Its secrets.
        secrets,
        /// Its configuration.
        configuration,
    }
}

parts! {
    /// What is shown of what an AI does.
    PersonaAi, "PersonaAiAttributes" {
        /// Pull requests.
        pr,
    }
}

/// What is shown of the web console; what is absent is for that to decide.
#[derive(Debug, Clone, SimpleObject, InputObject)]
#[graphql(input_name = "PersonaConfigurationAttributes")]
pub(crate) struct PersonaConfiguration {
    /// Everything.
    all: Option<bool>,
    /// Of the first page.
    home: Option<PersonaHome>,
    /// Of continuous deployment.
    deployments: Option<PersonaDeployment>,
    /// Of flows.
    flows: Option<PersonaFlows>,
    /// Of the bar at the side.
    sidebar: Option<PersonaSidebar>,
    /// Of a service.
    services: Option<PersonaServices>,
    /// Of what an AI does.
    ai: Option<PersonaAi>,
}

impl From<core::PersonaConfiguration> for PersonaConfiguration {
    fn from(configuration: core::PersonaConfiguration) -> Self {
        let core::PersonaConfiguration { all, home, deployments, flows, sidebar, services, ai } =
            configuration;
        Self {
            all,
            home: home.map(Into::into),
            deployments: deployments.map(Into::into),
            flows: flows.map(Into::into),
            sidebar: sidebar.map(Into::into),
            services: services.map(Into::into),
            ai: ai.map(Into::into),
        }
    }
}

impl From<PersonaConfiguration> for core::PersonaConfiguration {
    fn from(configuration: PersonaConfiguration) -> Self {
        let PersonaConfiguration { all, home, deployments, flows, sidebar, services, ai } = configuration;
        Self {
            all,
            home: home.map(Into::into),
            deployments: deployments.map(Into::into),
            flows: flows.map(Into::into),
            sidebar: sidebar.map(Into::into),
            services: services.map(Into::into),
            ai: ai.map(Into::into),
        }
    }
}

/// What some users are shown of the web console.
pub(crate) struct Persona(core::Persona);

impl From<core::Persona> for Persona {
    fn from(persona: core::Persona) -> Self {
        Self(persona)
    }
}

connection!(PersonaConnection, PersonaEdge, Persona);

/// What some users are shown of the web console. It says nothing of what they may do.
#[Object]
impl Persona {
    /// Id.
    async fn id(&self) -> ID {
        self.0.id.to_string().into()
    }

    /// Unique name.
    async fn name(&self) -> &str {
        self.0.name.as_str()
    }

    /// For people.
    async fn description(&self) -> Option<&str> {
        self.0.description.as_deref()
    }

    /// What kind of work its people do.
    async fn role(&self) -> Option<PersonaRole> {
        self.0.role.map(Into::into)
    }

    /// What they are shown.
    async fn configuration(&self) -> Option<PersonaConfiguration> {
        Some(self.0.configuration.clone().into())
    }

    /// Who they are: users and groups.
    async fn bindings(&self, ctx: &Context<'_>) -> Nullable<Vec<Option<PolicyBinding>>> {
        nullable(async {
            let request = request(ctx);
            let (mut users, mut groups): (Vec<UserId>, Vec<GroupId>) = (Vec::new(), Vec::new());
            for subject in &self.0.subjects {
                match subject {
                    BindingSubject::User(user) => users.push(*user),
                    BindingSubject::Group(group) => groups.push(*group),
                }
            }
            let users = request.app.get_many::<plural_core::user::User>(&request.op, &users).await;
            let groups = request.app.get_many::<plural_core::group::Group>(&request.op, &groups).await;
            let (users, groups) = (users.into_graphql(ctx)?, groups.into_graphql(ctx)?);
            let named = self.0.subjects.iter().filter_map(|subject| match subject {
                BindingSubject::User(user) => users.get(user).cloned().map(SubjectNoun::User),
                BindingSubject::Group(group) => groups.get(group).cloned().map(SubjectNoun::Group),
            });
            let named: Vec<SubjectNoun> = named.collect();
            Ok(limited(ctx, named.into_iter().map(PolicyBinding::named)))
        })
        .await
    }

    /// When it was made.
    async fn inserted_at(&self) -> Option<DateTime<Utc>> {
        Some(self.0.created_at)
    }

    /// When it was last changed.
    async fn updated_at(&self) -> Option<DateTime<Utc>> {
        Some(self.0.updated_at)
    }
}

/// What a persona is given; what is absent stays as it is.
#[derive(Debug, InputObject)]
pub(crate) struct PersonaAttributes {
    /// Unique name; a new persona needs one.
    name: Option<String>,
    /// For people.
    description: Option<String>,
    /// What its people are shown; replaces all of it.
    configuration: Option<PersonaConfiguration>,
    /// What kind of work they do.
    role: Option<PersonaRole>,
    /// Who they are; replaces the list.
    bindings: List<PolicyBindingAttributes>,
}

impl PersonaAttributes {
    fn parse(self) -> plural_core::Result<core::PersonaChange> {
        let Self { name, description, configuration, role, bindings } = self;
        Ok(core::PersonaChange {
            name: parse_option("attributes.name", name.as_deref())?,
            description,
            role: role.map(Into::into),
            configuration: configuration.map(Into::into),
            subjects: subjects("attributes.bindings", bindings)?,
        })
    }

    fn into_new(self) -> plural_core::Result<core::NewPersona> {
        let core::PersonaChange { name, description, role, configuration, subjects } = self.parse()?;
        Ok(core::NewPersona {
            name: name.ok_or_else(|| {
                plural_core::Error::invalid("attributes.name", "must be given for a new persona")
            })?,
            description,
            role,
            configuration: configuration.unwrap_or_default(),
            subjects: subjects.unwrap_or_default(),
        })
    }
}

/// Reading personas.
#[derive(Default)]
pub(crate) struct PersonaQuery;

/// Reading personas.
#[Object]
impl PersonaQuery {
    /// One persona, by id or by name, for administrators; `me` has your own.
    async fn persona(
        &self,
        ctx: &Context<'_>,
        #[graphql(name = "id")] persona: Option<ID>,
        name: Option<String>,
    ) -> Nullable<Persona> {
        let by = id_or_name(persona, name, PersonaSelector::Id, PersonaSelector::Name);
        one::<core::Persona, _>(ctx, by).await
    }

    /// All personas, for administrators; `me` has your own.
    async fn personas(
        &self,
        ctx: &Context<'_>,
        after: Option<String>,
        first: Option<i32>,
        before: Option<String>,
        last: Option<i32>,
        #[graphql(desc = "Only with this in their name.")] q: Option<String>,
    ) -> Nullable<PersonaConnection> {
        page_of::<core::Persona, _>(ctx, Ok(Search { q }), page_args(after, first, before, last)).await
    }
}

/// Changing personas.
#[derive(Default)]
pub(crate) struct PersonaMutation;

/// Changing personas.
#[Object]
impl PersonaMutation {
    /// Makes a persona.
    async fn create_persona(&self, ctx: &Context<'_>, attributes: PersonaAttributes) -> Nullable<Persona> {
        nullable(async {
            let request = request(ctx);
            let new = attributes.into_new().into_graphql(ctx)?;
            Ok(Some(request.app.persona_create(&request.op, &new).await.into_graphql(ctx)?.into()))
        })
        .await
    }

    /// Changes a persona.
    async fn update_persona(
        &self,
        ctx: &Context<'_>,
        #[graphql(name = "id")] persona: ID,
        attributes: PersonaAttributes,
    ) -> Nullable<Persona> {
        nullable(async {
            let request = request(ctx);
            let persona = id(&persona).into_graphql(ctx)?;
            let change = attributes.parse().into_graphql(ctx)?;
            Ok(Some(
                request.app.persona_update(&request.op, persona, &change).await.into_graphql(ctx)?.into(),
            ))
        })
        .await
    }

    /// Deletes a persona.
    async fn delete_persona(
        &self,
        ctx: &Context<'_>,
        #[graphql(name = "id")] persona: ID,
    ) -> Nullable<Persona> {
        nullable(async {
            let request = request(ctx);
            let persona = id(&persona).into_graphql(ctx)?;
            Ok(Some(request.app.persona_delete(&request.op, persona).await.into_graphql(ctx)?.into()))
        })
        .await
    }
}
