//! Typed ids: a cluster's id cannot be passed where a service's is meant.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use uuid::Uuid;

/// The text is not an id.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{text:?} is not a {noun} id: expected a UUID")]
pub struct IdError {
    /// What kind of id was expected.
    pub noun: &'static str,
    /// What was given, cut to a printable length.
    pub text: String,
}

macro_rules! id {
    ($(#[$doc:meta])* $name:ident, $noun:literal) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[serde(transparent)]
        pub struct $name(Uuid);

        impl $name {
            /// A new id. Version 7: ids made later sort later, so that lists page by id.
            #[expect(clippy::new_without_default, reason = "two defaults would differ")]
            pub fn new() -> Self {
                Self(Uuid::now_v7())
            }

            /// The id that this UUID is.
            pub const fn from_uuid(uuid: Uuid) -> Self {
                Self(uuid)
            }

            /// The UUID that this id is.
            pub const fn uuid(self) -> Uuid {
                self.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.fmt(f)
            }
        }

        impl FromStr for $name {
            type Err = IdError;

            fn from_str(text: &str) -> Result<Self, IdError> {
                Uuid::parse_str(text.trim()).map(Self).map_err(|_| IdError {
                    noun: $noun,
                    text: text.chars().take(64).collect(),
                })
            }
        }

        impl From<$name> for Uuid {
            fn from(id: $name) -> Uuid {
                id.0
            }
        }
    };
}

id!(/// Id of a project.
    ProjectId, "project");
id!(/// Id of a user.
    UserId, "user");
id!(/// Id of a group.
    GroupId, "group");
id!(/// Id of one membership of a user in a group.
    GroupMemberId, "group member");
id!(/// Id of a service account: that of the user that it is.
    MachineAccountId, "service account");
id!(/// Id of a federated credential.
    FederatedCredentialId, "federated credential");
id!(/// Id of a registration token (not the token itself).
    RegistrationTokenId, "registration token");
id!(/// Id of a persona.
    PersonaId, "persona");
id!(/// Id of a custom role.
    RoleId, "role");
id!(/// Id of a binding.
    BindingId, "binding");
id!(/// Id of a policy: that of the thing that it is of.
    PolicyId, "policy");
id!(/// Id of one line of the clusters' audit log.
    ClusterAuditId, "cluster audit log");
id!(/// Id of a recording of a shell.
    RecordingId, "recording");
id!(/// Id of one console process, from its start to its end.
    ReplicaId, "replica");
id!(/// Id of an identity provider.
    IdentityProviderId, "identity provider");
id!(/// Id of what ties an account to a subject of an identity provider.
    UserIdentityId, "identity");
id!(/// Id of a login of a program that waits to be allowed.
    ProgramLoginId, "login");
id!(/// Id of a passkey (not the credential's own).
    PasskeyId, "passkey");
id!(/// Id of an invitation (not its code).
    InviteId, "invitation");
id!(/// Id of an access token (not the token itself).
    TokenId, "access token");
id!(/// Id of a cluster.
    ClusterId, "cluster");
id!(/// Id of a git repository.
    RepositoryId, "git repository");
id!(/// Id of a chart repository.
    HelmRepositoryId, "helm repository");
id!(/// Id of a service.
    ServiceId, "service");
id!(/// Id of a revision of a service.
    RevisionId, "revision");
id!(/// Id of a plan of a sync.
    PlanId, "plan");
id!(/// Id of a foreign change of an object.
    DriftId, "drift event");
id!(/// Id of a sync window.
    SyncWindowId, "sync window");
id!(/// Id of a global service.
    GlobalServiceId, "global service");
id!(/// Id of a managed namespace.
    ManagedNamespaceId, "managed namespace");
id!(/// Id of a dependency of one service on another.
    DependencyId, "dependency");
id!(/// Id of a context.
    ServiceContextId, "service context");
id!(/// Id of a saved view.
    SavedViewId, "saved view");
id!(/// Id of a connection to a git host.
    ScmConnectionId, "scm connection");
id!(/// Id of a webhook of a git host.
    ScmWebhookId, "scm webhook");
id!(/// Id of an automation that opens pull requests.
    PrAutomationId, "pr automation");
id!(/// Id of a governance of pull requests.
    PrGovernanceId, "pr governance");
id!(/// Id of a pull request.
    PullRequestId, "pull request");
id!(/// Id of a plan of a commit for all clusters.
    FleetPlanId, "fleet plan");
id!(/// Id of what such a plan says of one service.
    FleetPartId, "part of a fleet plan");
id!(/// Id of what a pull request generated.
    PrInstanceId, "pr instance");
id!(/// Id of a stack.
    StackId, "stack");
id!(/// Id of commands of stacks under a name.
    CustomStackRunId, "custom stack run");
id!(/// Id of a version of a stack's state.
    StateVersionId, "state version");
id!(/// Id of a data key (not the key itself).
    DataKeyId, "data key");
id!(/// Id of a change of a service's status.
    HealthChangeId, "health change");
id!(/// Id of a background job.
    JobId, "background job");
id!(/// Id of an audit row.
    AuditId, "audit row");
id!(/// Id of a batch of the audit log's chain.
    AuditBatchId, "audit batch");
id!(/// Id of one request, printed with every error that its caller cannot mend.
    RequestId, "request");
id!(/// Id of an import of a service.
    ServiceImportId, "service import");
id!(/// Id of a run of a stack.
    StackRunId, "stack run");
id!(/// Id of a definition of stacks.
    StackDefinitionId, "stack definition");
id!(/// Id of a step of a run.
    RunStepId, "run step");
id!(/// Id of a resource of a stack that drifted.
    StackDriftId, "drifted resource");
id!(/// Id of a pull request that reaches a stack.
    StackPullRequestId, "pull request of a stack");

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn later_ids_sort_later() {
        let ids: Vec<ClusterId> = (0..100).map(|_| ClusterId::new()).collect();
        assert!(ids.is_sorted());
    }

    #[test]
    fn text_round_trips_and_nonsense_is_named() {
        let id = ServiceId::new();
        assert_eq!(id.to_string().parse::<ServiceId>(), Ok(id));
        let error = "x".parse::<ServiceId>().unwrap_err();
        assert_eq!(error.to_string(), "\"x\" is not a service id: expected a UUID");
    }
}
