//! Bindings: who may do what to a project, a cluster or a service.

use std::collections::HashMap;

use async_trait::async_trait;
use plural_core::access::Scope;
use plural_core::{
    Binding, BindingSubject, BindingTarget, Error, Group, GroupId, Result, Role, User, UserId,
};

use crate::access::{Act, Admin, Audited, Authorized, Grant, Noun, Read, authorize_installation};
use crate::app::App;
use crate::cluster::ClusterSelector;
use crate::ctx::OpCtx;
use crate::project::ProjectSelector;
use crate::service::ServiceSelector;

/// Bindings.
#[async_trait]
pub trait BindingStore: Send + Sync + 'static {
    /// The bindings on this very thing, none inherited.
    async fn binding_list(&self, target: &Authorized<BindingTarget, Read>) -> Result<Vec<Binding>>;
    /// Replaces the bindings of the roles that are named; [`plural_core::Error::Invalid`] for a subject that does not exist.
    async fn binding_replace(
        &self,
        by: Audited<'_, BindingTarget, Admin>,
        roles: &[(Role, Vec<BindingSubject>)],
    ) -> Result<Vec<Binding>>;
}

/// The bindings of a thing, by role; a role that is `None` stays as it is.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct BindingsChange {
    /// Who may look.
    pub read: Option<Vec<BindingSubject>>,
    /// Who may change.
    pub write: Option<Vec<BindingSubject>>,
    /// Who may decide who may.
    pub admin: Option<Vec<BindingSubject>>,
}

impl BindingsChange {
    /// Nothing changes.
    pub fn is_empty(&self) -> bool {
        let Self { read, write, admin } = self;
        read.is_none() && write.is_none() && admin.is_none()
    }

    pub(crate) fn into_roles(self) -> Vec<(Role, Vec<BindingSubject>)> {
        let Self { read, write, admin } = self;
        [(Role::Read, read), (Role::Write, write), (Role::Admin, admin)]
            .into_iter()
            .filter_map(|(role, subjects)| Some((role, subjects?)))
            .collect()
    }
}

/// The bindings of a new `target`, decided by what the caller may do to the thing that it is made in.
pub(crate) fn grant<T: Noun>(
    ctx: &OpCtx,
    parent: Result<Authorized<T, Admin>>,
    target: BindingTarget,
    access: BindingsChange,
) -> Result<Grant> {
    match parent {
        Ok(parent) => Ok(Grant::new(&parent, ctx, target, access.into_roles())),
        Err(Error::Forbidden { .. }) => Err(Error::forbidden(format!(
            "to say who may use what you make here you need admin access to its {}: leave the bindings out, \
             or ask one of its administrators",
            T::NOUN
        ))),
        Err(error) => Err(error),
    }
}

/// Whom a binding is for, in full.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SubjectNoun {
    /// A user.
    User(User),
    /// A group.
    Group(Group),
}

/// A binding with its subject.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BoundSubject {
    /// The binding.
    pub binding: Binding,
    /// For whom.
    pub subject: SubjectNoun,
}

impl App {
    pub(crate) async fn binding_target_for<A: Act>(
        &self,
        ctx: &OpCtx,
        target: BindingTarget,
    ) -> Result<Authorized<BindingTarget, A>> {
        Ok(match target {
            BindingTarget::Project(id) => {
                self.project_for::<A>(ctx, &ProjectSelector::Id(id)).await?.bindings()
            }
            BindingTarget::Cluster(id) => {
                self.cluster_for::<A>(ctx, &ClusterSelector::Id(id)).await?.bindings()
            }
            BindingTarget::Service(id) => {
                self.service_for::<A>(ctx, &ServiceSelector::Id(id)).await?.bindings()
            }
        })
    }

    /// The bindings on this very thing, none inherited.
    pub async fn binding_list(&self, ctx: &OpCtx, target: BindingTarget) -> Result<Vec<BoundSubject>> {
        let target = self.binding_target_for::<Read>(ctx, target).await?;
        let bindings = self.store.binding_list(&target).await?;
        self.bound_subjects(ctx, bindings).await
    }

    /// Replaces the bindings of the named roles; needs admin access to the thing.
    pub async fn binding_replace(
        &self,
        ctx: &OpCtx,
        target: BindingTarget,
        change: BindingsChange,
    ) -> Result<Vec<BoundSubject>> {
        let target = self.binding_target_for(ctx, target).await?;
        let by = target.audited(ctx, "binding.replace");
        let bindings = self.store.binding_replace(by, &change.into_roles()).await?;
        self.proxy.access_changed();
        self.bound_subjects(ctx, bindings).await
    }

    pub(crate) async fn bound_subjects(
        &self,
        ctx: &OpCtx,
        bindings: Vec<Binding>,
    ) -> Result<Vec<BoundSubject>> {
        let by = authorize_installation::<Read>(ctx, Scope::Installation)?;
        let (mut user_ids, mut group_ids): (Vec<UserId>, Vec<GroupId>) = (Vec::new(), Vec::new());
        for binding in &bindings {
            match binding.subject {
                BindingSubject::User(id) => user_ids.push(id),
                BindingSubject::Group(id) => group_ids.push(id),
            }
        }
        let users: HashMap<UserId, User> =
            self.store.users_named(&by, &user_ids).await?.into_iter().map(|user| (user.id, user)).collect();
        let groups: HashMap<GroupId, Group> = self
            .store
            .groups_named(&by, &group_ids)
            .await?
            .into_iter()
            .map(|group| (group.id, group))
            .collect();
        Ok(bindings
            .into_iter()
            .filter_map(|binding| {
                let subject = match binding.subject {
                    BindingSubject::User(id) => SubjectNoun::User(users.get(&id)?.clone()),
                    BindingSubject::Group(id) => SubjectNoun::Group(groups.get(&id)?.clone()),
                };
                Some(BoundSubject { binding, subject })
            })
            .collect())
    }
}
