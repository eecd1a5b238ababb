//! Bindings: who may do what with a thing.

use async_graphql::{Context, Enum, ID, Object, Result};
use plural_app::policy::{BoundSubject, RoleChange, SubjectNoun};
use plural_core::Error;
use plural_core::ids::{ClusterId, ProjectId, RoleId, ServiceId};
use plural_core::policy::{BoundRole, NamedRole, Policy, Role};
use plural_core::role::CustomRole;

use super::{
    error::{IntoGraphql, List, Nullable, exactly_one, id, nullable},
    group::Group,
    limited::limited,
    record::by_id,
    request::request,
    role,
    shared::{PolicyBindingAttributes, RbacAttributes, subjects},
    user::User,
};

/// What a binding lets do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Enum)]
pub(crate) enum PolicyRole {
    /// Look.
    Read,
    /// Change.
    Write,
    /// Delete, and decide who may do what.
    Admin,
}

impl From<PolicyRole> for Role {
    fn from(role: PolicyRole) -> Self {
        match role {
            PolicyRole::Read => Self::Read,
            PolicyRole::Write => Self::Write,
            PolicyRole::Admin => Self::Admin,
        }
    }
}

impl PolicyRole {
    /// The one of a built-in role that bindings of things are written with.
    pub(crate) const fn of(role: Role) -> Option<Self> {
        match role {
            Role::Read => Some(Self::Read),
            Role::Write => Some(Self::Write),
            Role::Admin => Some(Self::Admin),
            Role::Recordings | Role::Assume | Role::Create => None,
        }
    }
}

/// The user of a binding, if it is for one.
pub(crate) fn user_of(subject: &SubjectNoun) -> Option<User> {
    match subject {
        SubjectNoun::User(user) => Some(user.clone().into()),
        SubjectNoun::Group(_) => None,
    }
}

/// The group of a binding, if it is for one.
pub(crate) fn group_of(subject: &SubjectNoun) -> Option<Group> {
    match subject {
        SubjectNoun::User(_) => None,
        SubjectNoun::Group(group) => Some(group.clone().into()),
    }
}

/// A user or a group that may do something with a thing.
pub(crate) struct PolicyBinding {
    id: ID,
    subject: SubjectNoun,
}

impl PolicyBinding {
    /// A user or a group that is named where no role is given: it has no id but its own.
    pub(crate) fn named(subject: SubjectNoun) -> Self {
        let id = match &subject {
            SubjectNoun::User(user) => user.id.to_string(),
            SubjectNoun::Group(group) => group.id.to_string(),
        };
        Self { id: id.into(), subject }
    }
}

impl From<BoundSubject> for PolicyBinding {
    fn from(bound: BoundSubject) -> Self {
        let BoundSubject { binding, subject } = bound;
        Self { id: binding.id.to_string().into(), subject }
    }
}

/// A user or a group that may do something with a thing.
#[Object]
impl PolicyBinding {
    /// Id.
    async fn id(&self) -> Option<ID> {
        Some(self.id.clone())
    }

    /// The user, if it is one.
    async fn user(&self) -> Option<User> {
        user_of(&self.subject)
    }

    /// The group, if it is one.
    async fn group(&self) -> Option<Group> {
        group_of(&self.subject)
    }
}

/// A user or a group with a role that administrators made.
pub(crate) struct RoleBinding {
    bound: BoundSubject,
    role: RoleId,
}

/// A user or a group with a role that administrators made.
#[Object]
impl RoleBinding {
    /// Id.
    async fn id(&self) -> Option<ID> {
        Some(self.bound.binding.id.to_string().into())
    }

    /// The role.
    async fn role(&self, ctx: &Context<'_>) -> Nullable<role::Role> {
        nullable(by_id::<CustomRole, _>(ctx, self.role)).await
    }

    /// The user, if it is one.
    async fn user(&self) -> Option<User> {
        user_of(&self.bound.subject)
    }

    /// The group, if it is one.
    async fn group(&self) -> Option<Group> {
        group_of(&self.bound.subject)
    }
}

/// The bindings of roles that administrators made, on this very thing.
pub(crate) async fn role_bindings_of(ctx: &Context<'_>, of: Policy) -> Result<List<RoleBinding>> {
    let request = request(ctx);
    let look_up = async |all: Vec<_>| request.app.bindings_list(&request.op, &all).await.into_graphql(ctx);
    let bindings = request.batches.bindings.get(of, look_up).await?.unwrap_or_default();
    let custom = bindings.into_iter().filter_map(|bound| match bound.binding.role {
        BoundRole::Custom(role, _) => Some(RoleBinding { bound, role }),
        BoundRole::BuiltIn(_) => None,
    });
    Ok(limited(ctx, custom.collect::<Vec<_>>().into_iter()))
}

/// The bindings of one role on this very thing; those inherited from above are not among them.
pub(crate) async fn bindings_of(ctx: &Context<'_>, of: Policy, role: Role) -> Result<List<PolicyBinding>> {
    let request = request(ctx);
    let look_up = async |all: Vec<_>| request.app.bindings_list(&request.op, &all).await.into_graphql(ctx);
    let bindings = request.batches.bindings.get(of, look_up).await?.unwrap_or_default();
    let of_role: Vec<_> = bindings.into_iter().filter(|bound| bound.binding.role == role).collect();
    Ok(limited(ctx, of_role.into_iter().map(PolicyBinding::from)))
}

/// Changing who may do what.
#[derive(Default)]
pub(crate) struct BindingMutation;

/// Changing who may do what.
#[Object]
impl BindingMutation {
    /// Gives a role on exactly one thing to some users and groups, and takes it from others. Unlike `updateRbac`, it leaves all
    /// other bindings as they are. Nobody gives a role that allows more than they may do themselves.
    #[expect(clippy::too_many_arguments, reason = "the schema's arguments")]
    async fn change_bindings(
        &self,
        ctx: &Context<'_>,
        #[graphql(desc = "A built-in role.")] role: Option<PolicyRole>,
        #[graphql(desc = "Id of a role that administrators made; one of this and `role` is given.")]
        role_id: Option<ID>,
        #[graphql(desc = "Who gets the role, or keeps it.")] add: List<PolicyBindingAttributes>,
        #[graphql(desc = "Who loses the role.")] remove: List<PolicyBindingAttributes>,
        service_id: Option<ID>,
        cluster_id: Option<ID>,
        project_id: Option<ID>,
    ) -> Nullable<bool> {
        nullable(async {
            let request = request(ctx);
            let of = policy(service_id, cluster_id, project_id).into_graphql(ctx)?;
            let change = RoleChange {
                role: named(role, role_id).into_graphql(ctx)?,
                add: subjects("add", add).into_graphql(ctx)?.unwrap_or_default(),
                remove: subjects("remove", remove).into_graphql(ctx)?.unwrap_or_default(),
            };
            request.app.binding_change(&request.op, of, &change).await.into_graphql(ctx)?;
            Ok(Some(true))
        })
        .await
    }

    /// Replaces the bindings of exactly one thing, role by role as given.
    async fn update_rbac(
        &self,
        ctx: &Context<'_>,
        rbac: RbacAttributes,
        service_id: Option<ID>,
        cluster_id: Option<ID>,
        project_id: Option<ID>,
        #[graphql(desc = "There are no provider records: anything but null is refused.")] provider_id: Option<
            ID,
        >,
    ) -> Nullable<bool> {
        nullable(async {
            let request = request(ctx);
            if provider_id.is_some() {
                return Err(Error::not_found("cluster provider")).into_graphql(ctx);
            }
            let of = policy(service_id, cluster_id, project_id).into_graphql(ctx)?;
            let access = rbac.change().into_graphql(ctx)?;
            request.app.binding_replace(&request.op, of, access).await.into_graphql(ctx)?;
            Ok(Some(true))
        })
        .await
    }
}

/// The role of one of two arguments.
pub(crate) fn named(role: Option<PolicyRole>, custom: Option<ID>) -> plural_core::Result<NamedRole> {
    match (role, custom) {
        (Some(role), None) => Ok(NamedRole::BuiltIn(role.into())),
        (None, Some(role)) => Ok(NamedRole::Custom(id(&role)?)),
        _ => Err(exactly_one("role and roleId")),
    }
}

fn policy(service: Option<ID>, cluster: Option<ID>, project: Option<ID>) -> plural_core::Result<Policy> {
    match (service, cluster, project) {
        (Some(service), None, None) => Ok(id::<ServiceId>(&service)?.into()),
        (None, Some(cluster), None) => Ok(id::<ClusterId>(&cluster)?.into()),
        (None, None, Some(project)) => Ok(id::<ProjectId>(&project)?.into()),
        _ => Err(exactly_one("serviceId, clusterId and projectId")),
    }
}
