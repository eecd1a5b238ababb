//! Stacks.

use async_trait::async_trait;
use plural_app::access::{Admin, Audited, Grant, Write};
use plural_app::cluster_facet::TagCount;
use plural_app::job::NewJob;
use plural_app::seal::Sealed;
use plural_app::stack::{Dependents, StackFilter, StackSelector, StackStore, forgets};
use plural_app::stack_run::{MadeRun, SealedInputs};
use plural_core::access::Visibility;
use plural_core::ids::{
    ClusterId, ProjectId, RepositoryId, ScmConnectionId, StackId, StateVersionId, UserId,
};
use plural_core::policy::PolicyNoun;
use plural_core::project::Project;
use plural_core::stack::{Stack, StackChange, StackFollow, StackSource, StackTool};
use plural_core::stack_cron::Clockwork;
use plural_core::stack_drift::StackWatch;
use plural_core::stack_run::{RunStatus, StackRun};
use plural_core::stack_state::StateLock;
use plural_core::{Error, Result};
use sea_orm::sea_query::{Condition, LockType, Query};
use sea_orm::{
    ActiveModelTrait, ActiveValue, ColumnTrait, ConnectionTrait, EntityTrait, QueryFilter, QuerySelect,
    Select,
};
use uuid::Uuid;

use crate::convert::{json, parse, tags_json, to_json, word};
use crate::database::{Database, corrupt};
use crate::error::{db, gone_or, unique};
use crate::page::search;
use crate::records::{Guard, Table};
use crate::stack_state::{self, version};
use crate::transaction::{self, set};
use crate::{
    cluster, dependency, policy, project, repository, scm_connection, service_import, stack_definition,
    stack_dependency, stack_run, stack_tag,
};

pub(crate) mod row {
    use sea_orm::entity::prelude::*;

    #[derive(Clone, Debug, PartialEq, DeriveEntityModel)]
    #[sea_orm(table_name = "stacks")]
    pub(crate) struct Model {
        #[sea_orm(primary_key, auto_increment = false)]
        pub id: Uuid,
        pub project_id: Uuid,
        pub name: String,
        pub tool: String,
        pub protect: bool,
        pub state_lock: Option<Json>,
        /// Number of locks so far.
        pub fence: i64,
        /// Number of versions so far.
        pub writes: i64,
        pub current_id: Option<Uuid>,
        pub created_at: DateTimeUtc,
        pub updated_at: DateTimeUtc,
        /// Where its code is: all three, or none.
        pub repository_id: Option<Uuid>,
        pub cluster_id: Option<Uuid>,
        pub git: Option<Json>,
        /// `NULL`: written by an earlier release.
        pub spec: Option<Json>,
        pub environment: Option<Vec<u8>>,
        pub files: Option<Vec<u8>>,
        pub paused: bool,
        pub status: Option<String>,
        pub sha: Option<String>,
        pub last_successful_at: Option<DateTimeUtc>,
        pub source_error: Option<String>,
        pub seen_closure: Option<String>,
        pub seen_sha: Option<String>,
        pub seen_at: Option<DateTimeUtc>,
        pub deleted_at: Option<DateTimeUtc>,
        pub changed_by_id: Option<Uuid>,
        /// Number of runs so far.
        pub runs: i64,
        /// When the next run and the next drift detection are due.
        pub next_cron_at: Option<DateTimeUtc>,
        pub next_drift_at: Option<DateTimeUtc>,
        pub clock_error: Option<String>,
        pub drifted_at: Option<DateTimeUtc>,
        pub drift: Option<Json>,
        /// The name in the audit log of who changed it last.
        pub changed_as: Option<String>,
        /// `NULL`: it has none.
        pub tags: Option<Json>,
        pub interval_seconds: Option<i32>,
        pub connection_id: Option<Uuid>,
    }

    #[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
    pub(crate) enum Relation {}
    impl ActiveModelBehavior for ActiveModel {}
}

const UNIQUE: &[(&str, &str)] =
    &[("stacks_name_key", "another stack has this name already; choose another name")];

/// The lock in a row.
pub(crate) fn lock_of(row: &row::Model) -> Result<Option<StateLock>> {
    row.state_lock.clone().map(|lock| json(lock, "the lock of a stack's state")).transpose()
}

/// The place of the code in a row.
fn source_of(row: &row::Model) -> Result<Option<StackSource>> {
    match (row.repository_id, &row.git, row.cluster_id) {
        (Some(repository), Some(git), Some(cluster)) => Ok(Some(StackSource {
            repository_id: RepositoryId::from_uuid(repository),
            git: json(git.clone(), "the git reference of a stack")?,
            cluster_id: ClusterId::from_uuid(cluster),
        })),
        (None, None, None) => Ok(None),
        _ => Err(corrupt("where a stack's code is")),
    }
}

impl TryFrom<row::Model> for Stack {
    type Error = Error;

    fn try_from(row: row::Model) -> Result<Self> {
        let (lock, source) = (lock_of(&row)?, source_of(&row)?);
        let row::Model {
            id,
            project_id,
            name,
            tool,
            protect,
            state_lock: _,
            fence: _,
            writes: _,
            current_id: _,
            created_at,
            updated_at,
            repository_id: _,
            cluster_id: _,
            git: _,
            spec,
            environment: _,
            files: _,
            paused,
            status,
            sha,
            last_successful_at,
            source_error,
            seen_closure: _,
            seen_sha: _,
            seen_at: _,
            deleted_at,
            changed_by_id,
            runs: _,
            next_cron_at,
            next_drift_at,
            clock_error,
            drifted_at,
            drift,
            changed_as,
            tags,
            interval_seconds,
            connection_id,
        } = row;
        Ok(Self {
            id: StackId::from_uuid(id),
            project_id: ProjectId::from_uuid(project_id),
            name: parse(&name, "a stack's name")?,
            tool: word(StackTool::parse(&tool), "a stack's tool")?,
            protect,
            tags: tags.map(|tags| json(tags, "a stack's tags")).transpose()?.unwrap_or_default(),
            source,
            follow: StackFollow {
                interval_seconds: interval_seconds.map(i32::cast_unsigned),
                connection_id: connection_id.map(ScmConnectionId::from_uuid),
            },
            spec: spec.map(|spec| json(spec, "what a stack is made of")).transpose()?.unwrap_or_default(),
            paused,
            status: status
                .map(|status| word(RunStatus::parse(&status), "the status of a stack"))
                .transpose()?,
            sha,
            last_successful_at,
            source_error,
            deleted_at,
            changed_by: changed_by_id.map(UserId::from_uuid),
            changed_as,
            lock,
            // In its own table.
            state: None,
            watch: StackWatch {
                next_run_at: next_cron_at,
                next_drift_at,
                error: clock_error,
                drifted_at,
                drift: drift.map(|drift| json(drift, "what is told of a stack's drift")).transpose()?,
            },
            created_at,
            updated_at,
        })
    }
}

#[async_trait]
impl Table for Stack {
    type Row = row::Entity;
    const ID: row::Column = row::Column::Id;
    const READING: &'static str = "reading a stack";

    fn find(rows: Select<row::Entity>, by: &StackSelector) -> Select<row::Entity> {
        match by {
            StackSelector::Id(id) => rows.filter(row::Column::Id.eq(id.uuid())),
            StackSelector::Name(name) => rows.filter(row::Column::Name.eq(name.as_str())),
        }
    }

    fn filter(rows: Select<row::Entity>, filter: &StackFilter) -> Select<row::Entity> {
        let StackFilter { project_id, q, drifted, tags, any_tag } = filter;
        let mut rows = search(rows, &[row::Column::Name], q.as_deref());
        if let Some(id) = project_id {
            rows = rows.filter(row::Column::ProjectId.eq(id.uuid()));
        }
        match drifted {
            Some(true) => rows = rows.filter(row::Column::DriftedAt.is_not_null()),
            Some(false) => rows = rows.filter(row::Column::DriftedAt.is_null()),
            None => {}
        }
        if !tags.is_empty() {
            rows = rows.filter(stack_tag::with(tags, *any_tag));
        }
        rows
    }

    fn visible(to: &Visibility) -> Condition {
        policy::visible(to, &[row::Column::Id, row::Column::ProjectId], PolicyNoun::Project)
    }

    fn guard(&self) -> Guard {
        Guard::Policies(vec![self.id.into(), self.project_id.into()])
    }

    /// The current states.
    async fn complete(database: &Database, found: &mut [&mut Self]) -> Result<()> {
        if found.is_empty() {
            return Ok(());
        }
        let mut current = Query::select();
        current
            .column(row::Column::CurrentId)
            .from(row::Entity)
            .and_where(row::Column::Id.is_in(found.iter().map(|stack| stack.id.uuid())));
        let states = version::Entity::find()
            .filter(version::Column::Id.in_subquery(current))
            .all(&database.reader)
            .await
            .map_err(db("reading the states of stacks"))?;
        for state in states {
            let stack = found.iter_mut().find(|stack| stack.id.uuid() == state.stack_id);
            if let Some(stack) = stack {
                stack.state = Some(state.try_into()?);
            }
        }
        Ok(())
    }
}

/// Locks and reads a stack in a write.
pub(crate) async fn lock_in_tx(write: &transaction::Write<'_>, id: StackId) -> Result<row::Model> {
    row::Entity::find_by_id(id.uuid())
        .lock_exclusive()
        .one(&write.tx)
        .await
        .map_err(db("reading a stack"))?
        .ok_or(Error::not_found("stack"))
}

/// Locks the repository and the cluster of a stack, so that neither is deleted meanwhile.
async fn hold_in_tx(write: &transaction::Write<'_>, source: &StackSource) -> Result<()> {
    let StackSource { repository_id, git: _, cluster_id } = source;
    let known = repository::row::Entity::find_by_id(repository_id.uuid());
    let known = known.lock(LockType::KeyShare).one(&write.tx).await;
    known.map_err(db("reading a repository"))?.ok_or(Error::not_found("git repository"))?;
    let known = cluster::row::Entity::find_by_id(cluster_id.uuid());
    let known = known.lock(LockType::KeyShare).one(&write.tx).await;
    let known = known.map_err(db("reading a cluster"))?.ok_or(Error::not_found("cluster"))?;
    if known.deleted_at.is_some() {
        return Err(Error::conflict("the cluster is being deleted: choose another one for the stack's runs"));
    }
    Ok(())
}

/// Locks the connection of a stack's pull requests, so that it is not deleted meanwhile.
async fn hold_connection_in_tx(write: &transaction::Write<'_>, follow: &StackFollow) -> Result<()> {
    let Some(id) = follow.connection_id else { return Ok(()) };
    let known = scm_connection::row::Entity::find_by_id(id.uuid());
    let known = known.lock(LockType::KeyShare).one(&write.tx).await;
    known.map_err(db("reading a connection"))?.ok_or(Error::not_found("scm connection"))?;
    Ok(())
}

/// Refuses to delete what a stack uses. The caller may not be allowed to see the stack, so it is not named.
///
/// # Errors
/// [`Error::Conflict`] with `refusal`.
pub(crate) async fn check_unused_on(
    connection: &impl ConnectionTrait,
    used: row::Column,
    id: Uuid,
    refusal: &'static str,
) -> Result<()> {
    let user: Option<Uuid> = row::Entity::find()
        .select_only()
        .column(row::Column::Id)
        .filter(used.eq(id))
        .limit(1)
        .into_tuple()
        .one(connection)
        .await
        .map_err(db("looking for stacks that use something"))?;
    if user.is_some() { Err(Error::conflict(refusal)) } else { Ok(()) }
}

fn bytes_of(sealed: &Sealed) -> Vec<u8> {
    sealed.as_bytes().to_vec()
}

#[async_trait]
impl StackStore for Database {
    async fn stack_create(
        &self,
        by: Audited<'_, Project, Write>,
        stack: &Stack,
        inputs: &SealedInputs,
        grant: Option<&Grant>,
    ) -> Result<()> {
        let Stack {
            id,
            project_id,
            name,
            tool,
            protect,
            tags,
            source,
            follow,
            spec,
            paused,
            status: _,
            sha: _,
            last_successful_at: _,
            source_error: _,
            deleted_at: _,
            changed_by,
            changed_as,
            lock: _,
            state: _,
            watch,
            created_at,
            updated_at,
        } = stack;
        // A stack takes no values before it runs.
        let SealedInputs { environment, files, taken: _ } = inputs;
        let write = self.write().await?;
        self.check_stacks_are_known_in_tx(&write).await?;
        if !spec.dependencies.is_empty() {
            stack_dependency::lock_in_tx(&write).await?;
        }
        // It must not be deleted while something is created in it.
        let known = project::row::Entity::find_by_id(project_id.uuid());
        let known = known.lock(LockType::KeyShare).one(&write.tx).await;
        known.map_err(db("reading a project"))?.ok_or(Error::not_found("project"))?;
        if let Some(source) = source {
            hold_in_tx(&write, source).await?;
        }
        hold_connection_in_tx(&write, follow).await?;
        if let Some(definition) = spec.definition_id {
            stack_definition::hold_in_tx(&write, definition).await?;
        }
        policy::make_in_tx(&write, &[((*id).into(), Some((*project_id).into()))]).await?;
        let git = source.as_ref().map(|source| to_json(&source.git, "the git reference of a stack"));
        let row = row::ActiveModel {
            id: set(id.uuid()),
            project_id: set(project_id.uuid()),
            name: set(name.to_string()),
            tool: set(tool.as_str().to_owned()),
            protect: set(*protect),
            state_lock: set(None),
            fence: set(0),
            writes: set(0),
            current_id: set(None),
            created_at: set(*created_at),
            updated_at: set(*updated_at),
            repository_id: set(source.as_ref().map(|source| source.repository_id.uuid())),
            cluster_id: set(source.as_ref().map(|source| source.cluster_id.uuid())),
            git: set(git.transpose()?),
            spec: set(Some(to_json(spec, "what a stack is made of")?)),
            environment: set(environment.as_ref().map(bytes_of)),
            files: set(files.as_ref().map(bytes_of)),
            paused: set(*paused),
            status: set(None),
            sha: set(None),
            last_successful_at: set(None),
            source_error: set(None),
            seen_closure: set(None),
            seen_sha: set(None),
            seen_at: set(None),
            deleted_at: set(None),
            changed_by_id: set(changed_by.map(UserId::uuid)),
            runs: set(0),
            next_cron_at: set(watch.next_run_at),
            next_drift_at: set(watch.next_drift_at),
            clock_error: set(None),
            drifted_at: set(None),
            drift: set(None),
            changed_as: set(changed_as.clone()),
            tags: set((!tags.is_empty()).then(|| tags_json(tags))),
            interval_seconds: set(follow.interval_seconds.map(u32::cast_signed)),
            connection_id: set(follow.connection_id.map(ScmConnectionId::uuid)),
        };
        row.insert(&write.tx).await.map_err(unique("making a stack", UNIQUE))?;
        if !tags.is_empty() {
            stack_tag::replace_in_tx(&write, *id, tags).await?;
        }
        if !spec.dependencies.is_empty() {
            stack_dependency::replace_in_tx(&write, *id, &spec.dependencies).await?;
        }
        policy::grant_in_tx(&write, grant).await?;
        write.audit(by.entry()).await?;
        write.stack_changed(id.uuid(), by.entry().at);
        write.commit().await
    }

    async fn stack_update(
        &self,
        by: Audited<'_, Stack, Write>,
        change: &StackChange,
        inputs: &SealedInputs,
        grant: Option<&Grant>,
        follows: &[NewJob],
    ) -> Result<()> {
        // Environment and files are stored from the sealed inputs.
        let StackChange {
            name,
            protect,
            tags,
            source,
            follow,
            spec,
            environment: _,
            files: _,
            paused,
            bindings: _,
        } = change;
        // A stack takes no values before it runs.
        let SealedInputs { environment, files, taken: _ } = inputs;
        let mut write = self.write().await?;
        let is_renamed = name.as_ref().is_some_and(|name| *name != by.target().name);
        if is_renamed {
            // The services that import it are rendered anew below.
            dependency::lock_in_tx(&write).await?;
        }
        let is_sealing = environment.is_some() || files.is_some();
        if is_sealing {
            self.check_stacks_are_known_in_tx(&write).await?;
        }
        let (was, dependencies) =
            (&by.target().spec.dependencies, spec.as_ref().map(|spec| &spec.dependencies));
        let dependencies = dependencies.filter(|dependencies| *dependencies != was);
        if dependencies.is_some() {
            self.check_stacks_are_known_in_tx(&write).await?;
            stack_dependency::lock_in_tx(&write).await?;
        }
        let mut row = row::ActiveModel {
            id: ActiveValue::Unchanged(by.target().id.uuid()),
            updated_at: set(by.entry().at),
            ..Default::default()
        };
        if let Some(name) = name {
            row.name = set(name.to_string());
        }
        if let Some(protect) = protect {
            row.protect = set(*protect);
        }
        if let Some(tags) = tags {
            row.tags = set(Some(tags_json(tags)));
        }
        if let Some(source) = source {
            hold_in_tx(&write, source).await?;
            row.repository_id = set(Some(source.repository_id.uuid()));
            row.cluster_id = set(Some(source.cluster_id.uuid()));
            row.git = set(Some(to_json(&source.git, "the git reference of a stack")?));
            // Nothing is known of the new place.
            row.source_error = set(None);
        }
        if let Some(follow) = follow {
            hold_connection_in_tx(&write, follow).await?;
            row.interval_seconds = set(follow.interval_seconds.map(u32::cast_signed));
            row.connection_id = set(follow.connection_id.map(ScmConnectionId::uuid));
        }
        if source.is_some() || follow.is_some() || spec.is_some() || is_sealing {
            // The caller may change what they saw, but not revert a concurrent change of the approval settings; nor give another
            // environment to an actor that somebody sets meanwhile.
            let found = lock_in_tx(&write, by.target().id).await?;
            let found = Stack::try_from(found)?;
            // A connection is permitted for the stack's current repository.
            let is_moved = follow.is_some() && found.source != by.target().source;
            if is_moved || found.spec != by.target().spec || found.follow != by.target().follow {
                return Err(Error::conflict("somebody else changed the stack at the same time: try again"));
            }
        }
        if let Some(spec) = spec {
            let (was, at) = (&by.target().spec, by.entry().at);
            // An unchanged schedule continues: what is due is run.
            if !spec.ticks_as(was, Clockwork::Run) {
                row.next_cron_at = set(spec.next(Clockwork::Run, at));
                row.clock_error = set(None);
            }
            if !spec.ticks_as(was, Clockwork::Drift) {
                row.next_drift_at = set(spec.next(Clockwork::Drift, at));
                row.clock_error = set(None);
            }
            if let Some(definition) = spec.definition_id {
                stack_definition::hold_in_tx(&write, definition).await?;
            }
            row.spec = set(Some(to_json(spec, "what a stack is made of")?));
        }
        if let Some(environment) = environment {
            row.environment = set(Some(bytes_of(environment)));
        }
        if let Some(files) = files {
            row.files = set(Some(bytes_of(files)));
        }
        if let Some(paused) = paused {
            row.paused = set(*paused);
        }
        if source.is_some() || spec.is_some() || is_sealing {
            row.changed_by_id = set(by.entry().user_id.map(UserId::uuid));
            row.changed_as = set(by.entry().user_id.map(|_| by.entry().actor.clone()));
        }
        let gone = gone_or("stack", unique("changing a stack", UNIQUE));
        row.update(&write.tx).await.map_err(gone)?;
        if let Some(tags) = tags {
            // Its row is locked by now: concurrent changes of tags are serialised.
            stack_tag::replace_in_tx(&write, by.target().id, tags).await?;
        }
        if let Some(dependencies) = dependencies {
            stack_dependency::replace_in_tx(&write, by.target().id, dependencies).await?;
        }
        if is_renamed {
            service_import::renew_importers_in_tx(&mut write, by.target().id.uuid(), by.entry().at).await?;
        }
        policy::grant_in_tx(&write, grant).await?;
        write.audit(by.entry()).await?;
        write.stack_changed(by.target().id.uuid(), by.entry().at);
        write.enqueue(follows, by.entry().at).await?;
        write.commit().await
    }

    async fn stack_tags(&self, visible: &Visibility, filter: &StackFilter) -> Result<Vec<TagCount>> {
        let shown = Stack::filter(row::Entity::find().filter(Stack::visible(visible)), filter);
        stack_tag::counts_on(&self.reader, shown).await
    }

    async fn stack_edges(&self) -> Result<Vec<(StackId, StackId)>> {
        stack_dependency::edges_on(&self.reader).await
    }

    async fn stack_destroy(
        &self,
        by: Audited<'_, Stack, Admin>,
        made: Audited<'_, Stack, Write>,
        run: &MadeRun,
        dependents: Dependents,
    ) -> Result<StackRun> {
        self.stack_destroyed_by(by.target().id, (by.entry(), made.entry()), run, dependents).await
    }

    async fn stack_restore(&self, by: Audited<'_, Stack, Admin>) -> Result<()> {
        self.stack_kept(by.target().id, by.entry()).await
    }

    async fn stack_delete(
        &self,
        by: Audited<'_, Stack, Admin>,
        forget: Option<StateVersionId>,
        dependents: Dependents,
        follows: &[NewJob],
    ) -> Result<()> {
        let id = by.target().id;
        let mut write = self.write().await?;
        // The services that import it are rendered anew below.
        dependency::lock_in_tx(&write).await?;
        stack_dependency::lock_in_tx(&write).await?;
        // Before its policy, in the same order as an update.
        let row = lock_in_tx(&write, id).await?;
        if row.protect {
            return Err(Error::conflict("the stack is protected: set protect to false first"));
        }
        // It was restored after the decision to delete it, such as after the run that destroyed it.
        if by.target().deleted_at.is_some() && row.deleted_at.is_none() {
            return Err(Error::conflict(
                "the stack was restored a moment ago: delete it again if it is to go",
            ));
        }
        match dependents.of(row.deleted_at) {
            Dependents::Refuse => {
                service_import::check_unimported_in_tx(&write, id).await?;
                stack_dependency::check_unused_in_tx(&write, id).await?;
            }
            Dependents::Leave => {
                service_import::end_in_tx(&mut write, id, by.entry().at).await?;
                stack_dependency::end_in_tx(&write, id).await?;
            }
        }
        if let Some(number) = stack_run::active_in_tx(&write, id).await? {
            return Err(Error::conflict(format!(
                "run {number} of the stack is under way: cancel it, or wait until it has ended, first"
            )));
        }
        if let Some(lock) = lock_of(&row)? {
            return Err(Error::conflict(format!(
                "the stack's state is locked by {}: wait until its tool has ended, or unlock it ({}) first",
                lock.author, lock.id
            )));
        }
        if let Some(current) = stack_state::current_in_tx(&write, &row).await?
            && current.resources != Some(0)
            && forget != Some(current.id)
        {
            return Err(forgets(current.resources, current.serial, current.id));
        }
        // Deleting its policy deletes its row, its states and its runs.
        policy::forget_in_tx(&write, id).await?;
        write.audit(by.entry()).await?;
        write.stack_changed(id.uuid(), by.entry().at);
        write.enqueue(follows, by.entry().at).await?;
        write.commit().await
    }
}
