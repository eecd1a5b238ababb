//! Policies: who may do what to a project, a cluster or a service.

use std::collections::HashMap;

use async_trait::async_trait;
use plural_core::cluster::Cluster;
use plural_core::group::Group;
use plural_core::ids::{
    ClusterId, GroupId, MachineAccountId, PolicyId, PrAutomationId, ProjectId, SavedViewId, ServiceId,
    StackId, UserId,
};
use plural_core::machine_account::MachineAccount;
use plural_core::policy::{
    Binding, BindingSubject, BindingsChange, BoundRole, NamedRole, Policy, PolicyNoun, Rights, Role,
};
use plural_core::pr_automation::PrAutomation;
use plural_core::project::Project;
use plural_core::role::CustomRole;
use plural_core::saved_view::SavedView;
use plural_core::service::Service;
use plural_core::stack::Stack;
use plural_core::user::User;
use plural_core::{Error, Result};

use crate::access::{Act, Admin, Audited, Authorized, Bindable, Grant, Noun, Read, check_given};
use crate::app::App;
use crate::cluster::ClusterSelector;
use crate::ctx::OpCtx;
use crate::machine_account::MachineAccountSelector;
use crate::pr_automation::PrAutomationSelector;
use crate::project::ProjectSelector;
use crate::role::RoleSelector;
use crate::service::ServiceSelector;
use crate::stack::StackSelector;
use uuid::Uuid;

impl Noun for Policy {
    const NOUN: &'static str = "binding";
    fn identity(&self) -> (Option<Uuid>, String) {
        (Some(self.id().uuid()), self.noun().as_str().to_owned())
    }
}

/// Bindings.
#[async_trait]
pub trait PolicyStore: Send + Sync + 'static {
    /// The bindings of this very policy, none inherited.
    async fn binding_list(&self, policy: &Authorized<Policy, Read>) -> Result<Vec<Binding>>;
    /// Those of many policies, oldest first.
    async fn bindings_on(&self, policies: &[Authorized<Policy, Read>]) -> Result<Vec<Binding>>;
    /// Those of a policy and of all that it inherits from, the policy's own first.
    async fn bindings_above(&self, policy: &Authorized<Policy, Read>) -> Result<Vec<Binding>>;
    /// Replaces the bindings of the roles that are named; [`plural_core::Error::Invalid`] for a subject that does not exist.
    async fn binding_replace(
        &self,
        by: Audited<'_, Policy, Admin>,
        roles: &[(Role, Vec<BindingSubject>)],
    ) -> Result<Vec<Binding>>;
    /// Adds and removes bindings of one role, and leaves its others as they are; [`plural_core::Error::Invalid`] for a subject
    /// that does not exist, [`plural_core::Error::NotFound`] for a custom role that is gone.
    async fn binding_change(
        &self,
        by: Audited<'_, Policy, Admin>,
        role: BoundRole,
        change: &RoleChange,
    ) -> Result<Vec<Binding>>;
}

/// Who gets a role, and who loses it. Whoever is in both has it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RoleChange {
    /// The role.
    pub role: NamedRole,
    /// Those who have it from now on, also if they had it already.
    pub add: Vec<BindingSubject>,
    /// Those who do not have it any more, also if they never had.
    pub remove: Vec<BindingSubject>,
}

/// The bindings of a new thing, decided by what the caller may do to the thing that it is made in.
pub(crate) fn grant<T: Noun>(
    ctx: &OpCtx,
    parent: Result<Authorized<T, Admin>>,
    new: impl Into<Policy>,
    bindings: &BindingsChange,
) -> Result<Grant> {
    match parent {
        Ok(parent) => Grant::in_new(&parent, ctx, new.into(), bindings),
        Err(Error::Forbidden { .. }) => Err(Error::forbidden(format!(
            "setting bindings needs admin access to the {}; omit them or ask one of its administrators",
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

/// Says how the thing is found that a policy is of.
macro_rules! found_by {
    ($($noun:ident($id:ident) => $find:expr;)+) => {
        impl App {
            /// The permission for a policy: that for the thing that it is of. Never decided from the policy's own row, because
            /// what the thing is may count as well: a service that upgrades its cluster's agent belongs to administrators of the
            /// installation only ([`Noun::guarded_by`]), whatever its project's bindings say.
            pub(crate) async fn policy_for<A: Act>(&self, ctx: &OpCtx, of: Policy) -> Result<Authorized<Policy, A>> {
                let id = of.id().uuid();
                Ok(match of.noun() {
                    $(PolicyNoun::$noun => {
                        self.authorized::<$noun, A>(ctx, &$find($id::from_uuid(id))).await?.policy()
                    })+
                })
            }

            /// [`Self::policy_for`] of many; those that the caller may not read are left out.
            pub(crate) async fn policies_for(&self, ctx: &OpCtx, of: &[Policy]) -> Result<Vec<Authorized<Policy, Read>>> {
                let mut allowed = Vec::with_capacity(of.len());
                $(
                    let of_noun = of.iter().filter(|policy| policy.noun() == PolicyNoun::$noun);
                    let ids: Vec<$id> = of_noun.map(|policy| $id::from_uuid(policy.id().uuid())).collect();
                    allowed.extend(policies_of(&self.authorized_many::<$noun, _>(ctx, &ids).await?));
                )+
                Ok(allowed)
            }
        }
    };
}

found_by! {
    Project(ProjectId) => ProjectSelector::Id;
    Cluster(ClusterId) => ClusterSelector::Id;
    Service(ServiceId) => ServiceSelector::Id;
    SavedView(SavedViewId) => std::convert::identity;
    MachineAccount(MachineAccountId) => MachineAccountSelector::Id;
    Stack(StackId) => StackSelector::Id;
    PrAutomation(PrAutomationId) => PrAutomationSelector::Id;
}

impl App {
    /// The bindings on this very thing, none inherited.
    pub async fn binding_list(&self, ctx: &OpCtx, of: impl Into<Policy>) -> Result<Vec<BoundSubject>> {
        let policy = self.policy_for::<Read>(ctx, of.into()).await?;
        let bindings = self.store.binding_list(&policy).await?;
        self.bound_subjects(ctx, bindings).await
    }

    /// The bindings on these very things, none inherited.
    pub async fn bindings_list(
        &self,
        ctx: &OpCtx,
        of: &[Policy],
    ) -> Result<HashMap<Policy, Vec<BoundSubject>>> {
        let policies = self.policies_for(ctx, of).await?;
        let bindings = self.store.bindings_on(&policies).await?;
        let mut bound: HashMap<PolicyId, Vec<BoundSubject>> = HashMap::new();
        for one in self.bound_subjects(ctx, bindings).await? {
            bound.entry(one.binding.policy).or_default().push(one);
        }
        let policies = policies.into_iter().map(Authorized::into_inner);
        Ok(policies.map(|policy| (policy, bound.remove(&policy.id()).unwrap_or_default())).collect())
    }

    /// Replaces the bindings of the named roles; needs admin access to the thing, and every right that the roles give.
    pub async fn binding_replace(
        &self,
        ctx: &OpCtx,
        of: impl Into<Policy>,
        change: BindingsChange,
    ) -> Result<Vec<BoundSubject>> {
        let policy = self.policy_for(ctx, of.into()).await?;
        let given = change.roles().into_iter().filter(|(_, subjects)| !subjects.is_empty());
        check_given(policy.held(), given.fold(Rights::NONE, |given, (role, _)| given.union(role.rights())))?;
        let by = policy.audited(ctx, "binding.replace");
        let bindings = self.store.binding_replace(by, &change.roles()).await?;
        self.proxy.access_changed();
        self.bound_subjects(ctx, bindings).await
    }

    /// Gives a role to some and takes it from others; needs admin access to the thing, and every right that the role gives. Unlike
    /// [`Self::binding_replace`], what others change at the same time stays.
    pub async fn binding_change(
        &self,
        ctx: &OpCtx,
        of: impl Into<Policy>,
        change: &RoleChange,
    ) -> Result<Vec<BoundSubject>> {
        let policy = self.policy_for(ctx, of.into()).await?;
        let role = self.bound_role(ctx, change.role).await?;
        if !change.add.is_empty() {
            check_given(policy.held(), role.rights())?;
        }
        let by = policy.audited(ctx, "binding.change");
        let bindings = self.store.binding_change(by, role, change).await?;
        self.proxy.access_changed();
        self.bound_subjects(ctx, bindings).await
    }

    /// A role with what it gives at this moment.
    pub(crate) async fn bound_role(&self, ctx: &OpCtx, role: NamedRole) -> Result<BoundRole> {
        Ok(match role {
            NamedRole::BuiltIn(role) => BoundRole::BuiltIn(role),
            NamedRole::Custom(id) => {
                let role = self.get::<CustomRole>(ctx, &RoleSelector::Id(id)).await?;
                BoundRole::Custom(id, role.rights)
            }
        })
    }

    pub(crate) async fn bound_subjects(
        &self,
        ctx: &OpCtx,
        bindings: Vec<Binding>,
    ) -> Result<Vec<BoundSubject>> {
        let (mut user_ids, mut group_ids): (Vec<UserId>, Vec<GroupId>) = (Vec::new(), Vec::new());
        for binding in &bindings {
            match binding.subject {
                BindingSubject::User(id) => user_ids.push(id),
                BindingSubject::Group(id) => group_ids.push(id),
            }
        }
        let users = self.get_many::<User>(ctx, &user_ids).await?;
        let groups = self.get_many::<Group>(ctx, &group_ids).await?;
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

fn policies_of<T: Bindable>(things: &[Authorized<T, Read>]) -> Vec<Authorized<Policy, Read>> {
    things.iter().map(Authorized::policy).collect()
}
