//! Roles that administrators make.

use async_graphql::{Context, ID, InputObject, Object};
use chrono::{DateTime, Utc};
use plural_app::records::Search;
use plural_app::role::RoleSelector;
use plural_core::access::Action;
use plural_core::role::{CustomRole, NewRole, RoleAlteration, role_rights};

use super::{
    error::{IntoGraphql, List, Nullable, id, id_or_name, items, list, nullable, parse_option},
    page::{connection, page_args},
    record::{one, page_of},
    request::request,
};

/// A role with actions of its own, beside the built-in ones.
pub(crate) struct Role(CustomRole);

impl From<CustomRole> for Role {
    fn from(role: CustomRole) -> Self {
        Self(role)
    }
}

connection!(RoleConnection, RoleEdge, Role);

/// A role with actions of its own, beside the built-in ones.
#[Object]
impl Role {
    /// Id.
    async fn id(&self) -> ID {
        self.0.id.to_string().into()
    }

    /// Unique name.
    async fn name(&self) -> &str {
        self.0.name.as_str()
    }

    /// What it is for.
    async fn description(&self) -> Option<&str> {
        self.0.description.as_deref()
    }

    /// What it allows: words such as `read`, `rollback`, `prune`.
    async fn actions(&self) -> List<&'static str> {
        list(self.0.rights.iter().map(Action::as_str))
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

/// What a role is given; what is absent stays as it is.
#[derive(Debug, InputObject)]
pub(crate) struct RoleAttributes {
    /// Unique name; a new role needs one.
    name: Option<String>,
    /// What it is for.
    description: Option<String>,
    /// What it allows, all of it; a new role needs some.
    actions: List<String>,
}

impl RoleAttributes {
    fn parse(self) -> plural_core::Result<RoleAlteration> {
        let Self { name, description, actions } = self;
        let actions = items(actions);
        Ok(RoleAlteration {
            name: parse_option("attributes.name", name.as_deref())?,
            description,
            rights: actions.map(|words| role_rights(words.iter().map(String::as_str))).transpose()?,
        })
    }

    fn into_new(self) -> plural_core::Result<NewRole> {
        let RoleAlteration { name, description, rights } = self.parse()?;
        let missing = |field| plural_core::Error::invalid(field, "must be given for a new role");
        Ok(NewRole {
            name: name.ok_or_else(|| missing("attributes.name"))?,
            description,
            rights: rights.ok_or_else(|| missing("attributes.actions"))?,
        })
    }
}

/// Reading roles.
#[derive(Default)]
pub(crate) struct RoleQuery;

/// Reading roles.
#[Object]
impl RoleQuery {
    /// One role that administrators made, by id or by name.
    async fn role(
        &self,
        ctx: &Context<'_>,
        #[graphql(name = "id")] role: Option<ID>,
        name: Option<String>,
    ) -> Nullable<Role> {
        one::<CustomRole, _>(ctx, id_or_name(role, name, RoleSelector::Id, RoleSelector::Name)).await
    }

    /// The roles that administrators made.
    async fn roles(
        &self,
        ctx: &Context<'_>,
        after: Option<String>,
        first: Option<i32>,
        before: Option<String>,
        last: Option<i32>,
        #[graphql(desc = "Only with this in their name.")] q: Option<String>,
    ) -> Nullable<RoleConnection> {
        page_of::<CustomRole, _>(ctx, Ok(Search { q }), page_args(after, first, before, last)).await
    }
}

/// Changing roles.
#[derive(Default)]
pub(crate) struct RoleMutation;

/// Changing roles.
#[Object]
impl RoleMutation {
    /// Makes a role.
    async fn create_role(&self, ctx: &Context<'_>, attributes: RoleAttributes) -> Nullable<Role> {
        nullable(async {
            let request = request(ctx);
            let new = attributes.into_new().into_graphql(ctx)?;
            Ok(Some(request.app.role_create(&request.op, &new).await.into_graphql(ctx)?.into()))
        })
        .await
    }

    /// Changes a role wherever it is bound.
    async fn update_role(
        &self,
        ctx: &Context<'_>,
        #[graphql(name = "id")] role: ID,
        attributes: RoleAttributes,
    ) -> Nullable<Role> {
        nullable(async {
            let request = request(ctx);
            let role = id(&role).into_graphql(ctx)?;
            let change = attributes.parse().into_graphql(ctx)?;
            Ok(Some(request.app.role_update(&request.op, role, &change).await.into_graphql(ctx)?.into()))
        })
        .await
    }

    /// Deletes a role that nobody is bound with.
    async fn delete_role(&self, ctx: &Context<'_>, #[graphql(name = "id")] role: ID) -> Nullable<Role> {
        nullable(async {
            let request = request(ctx);
            let role = id(&role).into_graphql(ctx)?;
            Ok(Some(request.app.role_delete(&request.op, role).await.into_graphql(ctx)?.into()))
        })
        .await
    }
}
