//! Whether shells are recorded.

use async_graphql::{Context, ID, InputObject, Object};
use plural_app::project::ProjectSelector;
use plural_app::recording::{NewRecordingPolicy, RecordingSettings};
use plural_core::ids::{GroupId, UserId};
use plural_core::policy::BindingSubject;

use super::{
    error::{IntoGraphql, List, Nullable, id, items, nullable},
    group::Group,
    limited::limited,
    request::request,
    user::User,
};

/// Whether shells in the clusters of a project are recorded, and who may read that.
pub(crate) struct RecordingPolicy(RecordingSettings);

impl From<RecordingSettings> for RecordingPolicy {
    fn from(settings: RecordingSettings) -> Self {
        Self(settings)
    }
}

/// Whether shells in the clusters of a project are recorded, and who may read that.
#[Object]
impl RecordingPolicy {
    /// Every shell is recorded, or there is none.
    async fn record(&self) -> Option<bool> {
        Some(self.0.policy.record)
    }

    /// What is typed is recorded too, passwords included.
    async fn input(&self) -> Option<bool> {
        Some(self.0.policy.input)
    }

    /// A recording is kept for so many days from its beginning.
    async fn keep_days(&self) -> Option<u32> {
        Some(self.0.policy.keep_days)
    }

    /// Megabytes that a recording may take; a shell ends there.
    async fn limit_megabytes(&self) -> Option<u32> {
        Some(self.0.policy.limit_megabytes)
    }

    /// Who may read the recordings, besides administrators of the installation.
    async fn user_readers(&self, ctx: &Context<'_>) -> Nullable<Vec<Option<User>>> {
        nullable(async {
            let request = request(ctx);
            let ids: Vec<UserId> = self.0.readers.iter().copied().filter_map(user).collect();
            let mut found =
                request.app.get_many::<plural_core::user::User>(&request.op, &ids).await.into_graphql(ctx)?;
            let users: Vec<_> = ids.iter().filter_map(|id| found.remove(id)).collect();
            Ok(limited(ctx, users.into_iter().map(User::from)))
        })
        .await
    }

    /// Whose members may.
    async fn group_readers(&self, ctx: &Context<'_>) -> Nullable<Vec<Option<Group>>> {
        nullable(async {
            let request = request(ctx);
            let ids: Vec<GroupId> = self.0.readers.iter().copied().filter_map(group).collect();
            let mut found = request
                .app
                .get_many::<plural_core::group::Group>(&request.op, &ids)
                .await
                .into_graphql(ctx)?;
            let groups: Vec<_> = ids.iter().filter_map(|id| found.remove(id)).collect();
            Ok(limited(ctx, groups.into_iter().map(Group::from)))
        })
        .await
    }
}

fn user(reader: BindingSubject) -> Option<UserId> {
    match reader {
        BindingSubject::User(id) => Some(id),
        BindingSubject::Group(_) => None,
    }
}

fn group(reader: BindingSubject) -> Option<GroupId> {
    match reader {
        BindingSubject::User(_) => None,
        BindingSubject::Group(id) => Some(id),
    }
}

/// Whether shells are recorded; what is absent gets its default.
#[derive(Debug, InputObject)]
pub(crate) struct RecordingPolicyAttributes {
    /// Every shell is recorded, or there is none.
    record: bool,
    /// What is typed is recorded too, passwords included; not by default.
    input: Option<bool>,
    /// A recording is kept for so many days from its beginning: 90 by default.
    keep_days: Option<u32>,
    /// Megabytes that a recording may take: 64 by default. A shell ends there.
    limit_megabytes: Option<u32>,
    /// Who may read the recordings: e-mail addresses or ids.
    user_readers: List<String>,
    /// Whose members may: names or ids of groups.
    group_readers: List<String>,
}

/// Deciding whether shells are recorded.
#[derive(Default)]
pub(crate) struct RecordingPolicyMutation;

/// Deciding whether shells are recorded.
#[Object]
impl RecordingPolicyMutation {
    /// Says whether shells in the clusters of a project are recorded, in place of what was said so far. It holds for shells
    /// that are opened from then on. For administrators of the project.
    async fn set_recording_policy(
        &self,
        ctx: &Context<'_>,
        project_id: ID,
        attributes: RecordingPolicyAttributes,
    ) -> Nullable<RecordingPolicy> {
        nullable(async {
            let request = request(ctx);
            let selector = ProjectSelector::Id(id(&project_id).into_graphql(ctx)?);
            let RecordingPolicyAttributes {
                record,
                input,
                keep_days,
                limit_megabytes,
                user_readers,
                group_readers,
            } = attributes;
            let new = NewRecordingPolicy {
                record,
                input: input.unwrap_or(false),
                keep_days,
                limit_megabytes,
                users: items(user_readers).unwrap_or_default(),
                groups: items(group_readers).unwrap_or_default(),
            };
            let policy =
                request.app.recording_policy_set(&request.op, &selector, new).await.into_graphql(ctx)?;
            Ok(Some(policy.into()))
        })
        .await
    }
}
