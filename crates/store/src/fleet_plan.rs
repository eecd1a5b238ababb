//! Plans of commits for all clusters, and what agents answer.

use std::collections::{BTreeSet, HashMap, HashSet};

use async_trait::async_trait;
use chrono::{DateTime, Utc};
use plural_app::access::{Approve, Audited, Authorized, CreatePr, Read, Write};
use plural_app::fleet_plan::{
    FleetAsked, FleetPartPlan, FleetPlanFilter, FleetPlanStore, FleetReached, FleetTarget, PrunedPreviews,
    fleet_plan_tellers,
};
use plural_app::job::NewJob;
use plural_app::seal::Sealed;
use plural_core::access::{Scope, Visibility};
use plural_core::fleet_plan::{
    FleetFound, FleetPartState, FleetPlan, FleetPlanPart, FleetPlanPhase, FleetSince,
};
use plural_core::ids::{
    ClusterId, FleetPartId, FleetPlanId, ProjectId, PullRequestId, RepositoryId, ServiceId, StackId,
    StackRunId,
};
use plural_core::policy::PolicyNoun;
use plural_core::pr_automation::PrAutomation;
use plural_core::repository::Repository;
use plural_core::service::GitRef;
use plural_core::specs::without_nul;
use plural_core::{Error, Result};
use sea_orm::sea_query::{Condition, Expr, ExprTrait as _};
use sea_orm::{
    ActiveModelTrait, ActiveValue, ColumnTrait, ConnectionTrait, EntityTrait, JsonValue, QueryFilter,
    QueryOrder, QuerySelect, Select,
};
use uuid::Uuid;

use crate::convert::{json, word};
use crate::database::Database;
use crate::error::db;
use crate::records::{Guard, Table};
use crate::service::rendering_of;
use crate::service_life::renew_in_tx;
use crate::transaction::{self, set};
use crate::{cluster, dependency, fleet_plan_follow, fleet_plan_part, fleet_preview, policy, service};

/// Plans kept of one repository that are over.
const KEPT: u64 = 50;
/// Those of one repository that are not: hosts wait for them, and nobody makes them again.
const MOST_OPEN: u64 = 500;
/// Rows of one statement.
const AT_ONCE: usize = 500;
/// Rows of one statement that have many columns.
const PARTS_AT_ONCE: usize = 200;

pub(crate) mod row {
    use sea_orm::entity::prelude::*;

    #[derive(Clone, Debug, PartialEq, DeriveEntityModel)]
    #[sea_orm(table_name = "fleet_plans")]
    pub(crate) struct Model {
        #[sea_orm(primary_key, auto_increment = false)]
        pub id: Uuid,
        pub project_id: Uuid,
        pub repository_id: Uuid,
        pub pull_request_id: Option<Uuid>,
        pub creator: String,
        pub reference: String,
        pub head_reference: Option<String>,
        pub base: Option<String>,
        pub phase: String,
        pub sha: Option<String>,
        pub message: Option<String>,
        pub base_sha: Option<String>,
        pub is_merged: bool,
        pub about: Option<String>,
        pub since_sha: Option<String>,
        pub since_other: bool,
        pub untouched: i32,
        pub composed: i32,
        pub omitted: i32,
        pub deadline_at: Option<DateTimeUtc>,
        pub error: Option<String>,
        pub created_at: DateTimeUtc,
        pub updated_at: DateTimeUtc,
        pub owner_id: Option<Uuid>,
        pub automation_id: Option<Uuid>,
        pub asked: Option<Vec<u8>>,
        pub stacks: Option<Json>,
        pub expires_at: Option<DateTimeUtc>,
    }

    #[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
    pub(crate) enum Relation {}
    impl ActiveModelBehavior for ActiveModel {}
}

impl TryFrom<row::Model> for FleetPlan {
    type Error = Error;

    fn try_from(row: row::Model) -> Result<Self> {
        let row::Model {
            id,
            project_id,
            repository_id,
            pull_request_id,
            creator,
            reference,
            head_reference,
            base,
            phase,
            sha,
            message,
            base_sha,
            is_merged,
            about,
            since_sha,
            since_other,
            untouched,
            composed,
            omitted,
            deadline_at,
            error,
            created_at,
            updated_at,
            owner_id,
            automation_id,
            asked: _,
            stacks,
            expires_at,
        } = row;
        let preview = fleet_preview::of_row(owner_id.zip(automation_id).zip(expires_at), stacks)?;
        let found = sha.zip(deadline_at).map(|(sha, deadline)| FleetFound {
            sha,
            message: message.unwrap_or_default(),
            base_sha,
            is_merged,
            untouched: untouched.cast_unsigned(),
            composed: composed.cast_unsigned(),
            omitted: omitted.cast_unsigned(),
            deadline,
            about,
            since: since_sha.map(|sha| FleetSince { sha, is_other: since_other }),
        });
        Ok(Self {
            id: FleetPlanId::from_uuid(id),
            project_id: ProjectId::from_uuid(project_id),
            repository_id: RepositoryId::from_uuid(repository_id),
            pull_request_id: pull_request_id.map(PullRequestId::from_uuid),
            creator,
            reference,
            head_reference,
            base,
            phase: word(FleetPlanPhase::parse(&phase), "the phase of a fleet plan")?,
            found,
            error,
            preview,
            created_at,
            updated_at,
        })
    }
}

impl Table for FleetPlan {
    type Row = row::Entity;
    const ID: row::Column = row::Column::Id;
    const READING: &'static str = "reading fleet plans";

    fn find(rows: Select<row::Entity>, by: &FleetPlanId) -> Select<row::Entity> {
        rows.filter(row::Column::Id.eq(by.uuid()))
    }

    fn filter(mut rows: Select<row::Entity>, filter: &FleetPlanFilter) -> Select<row::Entity> {
        let FleetPlanFilter { repository_id, pull_request_id } = filter;
        // Those of previews are no plans of commits: whoever asked for one has its id.
        rows = rows.filter(row::Column::OwnerId.is_null());
        if let Some(id) = repository_id {
            rows = rows.filter(row::Column::RepositoryId.eq(id.uuid()));
        }
        if let Some(id) = pull_request_id {
            rows = rows.filter(row::Column::PullRequestId.eq(id.uuid()));
        }
        rows
    }

    fn visible(to: &Visibility) -> Condition {
        let (user, of_project) = match to {
            Visibility::All => return Condition::all(),
            Visibility::Bound { user, groups: _ } => {
                (user.uuid(), policy::visible(to, &[row::Column::ProjectId], PolicyNoun::Project))
            }
        };
        let of_commits = Condition::all().add(row::Column::OwnerId.is_null()).add(of_project);
        Condition::any().add(row::Column::OwnerId.eq(user)).add(of_commits)
    }

    fn guard(&self) -> Guard {
        match &self.preview {
            Some(preview) => Guard::Scope(Scope::Own(preview.owner)),
            None => Guard::Policies(vec![self.project_id.into()]),
        }
    }
}

/// Services of a repository: id, cluster, name, own repository, git ref, rendering, closure digest.
type Target = (Uuid, Uuid, String, Option<Uuid>, Option<JsonValue>, Option<JsonValue>, Option<String>);

#[async_trait]
impl FleetPlanStore for Database {
    async fn fleet_plan_begin(
        &self,
        by: Audited<'_, Repository, Write>,
        plan: &FleetPlan,
        before: Option<FleetPlanId>,
        jobs: &[NewJob],
    ) -> Result<bool> {
        let FleetPlan {
            id,
            project_id,
            repository_id,
            pull_request_id,
            creator,
            reference,
            head_reference,
            base,
            phase,
            found: _,
            error: _,
            // It has a beginning of its own.
            preview: _,
            created_at,
            updated_at,
        } = plan;
        let mut write = self.write().await?;
        if !fleet_plan_follow::may_begin_in_tx(&write.tx, plan, before).await? {
            return Ok(false);
        }
        let earlier = row::Entity::find()
            .filter(row::Column::RepositoryId.eq(repository_id.uuid()))
            .filter(row::Column::OwnerId.is_null());
        let same = match pull_request_id {
            Some(id) => Condition::all().add(row::Column::PullRequestId.eq(id.uuid())),
            None => Condition::all()
                .add(row::Column::PullRequestId.is_null())
                .add(row::Column::Reference.eq(reference.as_str())),
        };
        let open = FleetPlanPhase::ALL.into_iter().filter(|phase| !phase.is_over());
        let open = open.map(FleetPlanPhase::as_str);
        // In the order in which everybody locks them.
        let superseded: Vec<Uuid> = earlier
            .clone()
            .filter(same)
            .filter(row::Column::Phase.is_in(open))
            .select_only()
            .column(row::Column::Id)
            .order_by_asc(row::Column::Id)
            .lock_exclusive()
            .into_tuple()
            .all(&write.tx)
            .await
            .map_err(db("reading earlier plans"))?;
        let change = row::ActiveModel {
            phase: set(FleetPlanPhase::Superseded.as_str().to_owned()),
            updated_at: set(*updated_at),
            ..Default::default()
        };
        row::Entity::update_many()
            .set(change)
            .filter(row::Column::Id.is_in(superseded))
            .exec(&write.tx)
            .await
            .map_err(db("superseding plans"))?;
        if let Some(pull_request) = pull_request_id {
            fleet_plan_follow::forget_in_tx(&write.tx, *repository_id, *pull_request, reference).await?;
        }
        for (is_over, kept) in [(true, KEPT), (false, MOST_OPEN)] {
            let of = FleetPlanPhase::ALL.into_iter().filter(|phase| phase.is_over() == is_over);
            let of = row::Column::Phase.is_in(of.map(FleetPlanPhase::as_str));
            let oldest: Option<Uuid> = earlier
                .clone()
                .filter(of.clone())
                .select_only()
                .column(row::Column::Id)
                .order_by_desc(row::Column::Id)
                .offset(kept)
                .limit(1)
                .into_tuple()
                .one(&write.tx)
                .await
                .map_err(db("reading old plans"))?;
            let Some(oldest) = oldest else { continue };
            // Nobody makes the plan of an open pull request again that goes: it stays beside those.
            let followed = if is_over {
                fleet_plan_follow::followed_on(&write.tx, *repository_id).await?
            } else {
                Vec::new()
            };
            row::Entity::delete_many()
                .filter(row::Column::RepositoryId.eq(repository_id.uuid()))
                .filter(row::Column::OwnerId.is_null())
                .filter(of)
                .filter(row::Column::Id.lte(oldest))
                .filter(row::Column::Id.is_not_in(followed.iter().map(|plan| plan.id.uuid())))
                .exec(&write.tx)
                .await
                .map_err(db("removing old plans"))?;
        }
        let row = row::ActiveModel {
            id: set(id.uuid()),
            project_id: set(project_id.uuid()),
            repository_id: set(repository_id.uuid()),
            pull_request_id: set(pull_request_id.map(PullRequestId::uuid)),
            creator: set(creator.clone()),
            reference: set(reference.clone()),
            head_reference: set(head_reference.clone()),
            base: set(base.clone()),
            phase: set(phase.as_str().to_owned()),
            sha: set(None),
            message: set(None),
            base_sha: set(None),
            is_merged: set(false),
            about: set(None),
            since_sha: set(None),
            since_other: set(false),
            untouched: set(0),
            composed: set(0),
            omitted: set(0),
            deadline_at: set(None),
            error: set(None),
            created_at: set(*created_at),
            updated_at: set(*updated_at),
            ..Default::default()
        };
        row.insert(&write.tx).await.map_err(db("recording a fleet plan"))?;
        write.enqueue(jobs, *created_at).await?;
        write.audit(by.entry()).await?;
        write.commit().await?;
        Ok(true)
    }

    async fn fleet_plan_to_look_at(&self, id: FleetPlanId) -> Result<Option<FleetPlan>> {
        let found = row::Entity::find_by_id(id.uuid())
            .filter(row::Column::Phase.eq(FleetPlanPhase::Looking.as_str()))
            .filter(row::Column::OwnerId.is_null())
            .one(&self.reader)
            .await;
        found.map_err(db("reading a fleet plan"))?.map(FleetPlan::try_from).transpose()
    }

    async fn fleet_plan_is_known(
        &self,
        repository: RepositoryId,
        pull_request: PullRequestId,
        reference: &str,
        base: Option<&str>,
    ) -> Result<bool> {
        let newest: Option<(String, Option<String>, String)> = row::Entity::find()
            .select_only()
            .columns([row::Column::Reference, row::Column::Base, row::Column::Phase])
            .filter(row::Column::RepositoryId.eq(repository.uuid()))
            .filter(row::Column::PullRequestId.eq(pull_request.uuid()))
            .filter(row::Column::Phase.ne(FleetPlanPhase::Superseded.as_str()))
            .order_by_desc(row::Column::Id)
            .limit(1)
            .into_tuple()
            .one(&self.reader)
            .await
            .map_err(db("reading a fleet plan"))?;
        let failed = FleetPlanPhase::Failed.as_str();
        Ok(newest.is_some_and(|(known, goes_to, phase)| {
            let is_elsewhere = goes_to.as_deref().zip(base).is_some_and(|(was, is)| was != is);
            known == reference && !is_elsewhere && phase != failed
        }))
    }

    async fn fleet_plans_followed(&self, repository: RepositoryId) -> Result<Vec<FleetPlan>> {
        fleet_plan_follow::followed_on(&self.reader, repository).await
    }

    async fn fleet_plans_newest(&self, pull_request: PullRequestId) -> Result<Vec<FleetPlan>> {
        fleet_plan_follow::newest_on(&self.reader, pull_request).await
    }

    async fn fleet_plan_since(
        &self,
        id: FleetPlanId,
        since: &FleetSince,
        jobs: &[NewJob],
        at: DateTime<Utc>,
    ) -> Result<()> {
        fleet_plan_follow::since(self, id, since, (jobs, at)).await
    }

    async fn fleet_plan_release(
        &self,
        by: Audited<'_, Repository, Approve>,
        id: FleetPlanId,
        jobs: &[NewJob],
    ) -> Result<FleetPlan> {
        let at = by.entry().at;
        let mut write = self.write().await?;
        let Some(known) = open_in_tx(&write, id, FleetPlanPhase::Held).await? else {
            return Err(Error::conflict("the plan does not wait for a release"));
        };
        let change = row::ActiveModel {
            id: ActiveValue::Unchanged(known.id),
            phase: set(FleetPlanPhase::Looking.as_str().to_owned()),
            updated_at: set(at),
            ..Default::default()
        };
        let row = change.update(&write.tx).await.map_err(db("releasing a fleet plan"))?;
        write.enqueue(jobs, at).await?;
        write.audit(by.entry()).await?;
        write.commit().await?;
        row.try_into()
    }

    async fn fleet_plan_targets(&self, repository: RepositoryId) -> Result<Vec<FleetTarget>> {
        use service::row::Column;
        let doing = "reading a repository's services";
        // A rendering may name the repository, too: whether it does is in its text. Those of all other services are not read.
        let named = Expr::col(Column::Rendering).cast_as("text").like(format!("%{}%", repository.uuid()));
        let rows: Vec<Target> = service::row::Entity::find()
            .select_only()
            .columns([
                Column::Id,
                Column::ClusterId,
                Column::Name,
                Column::RepositoryId,
                Column::Git,
                Column::Rendering,
                Column::ClosureDigest,
            ])
            .filter(Condition::any().add(Column::RepositoryId.eq(repository.uuid())).add(named))
            .filter(Column::DeletedAt.is_null())
            .filter(Column::Pin.is_null())
            // One that was never fetched has nothing that an agent could answer with.
            .filter(Column::ArtifactDigest.is_not_null())
            .into_tuple()
            .all(&self.reader)
            .await
            .map_err(db(doing))?;
        let ids: BTreeSet<Uuid> = rows.iter().map(|(_, cluster, ..)| *cluster).collect();
        let ids: Vec<Uuid> = ids.into_iter().collect();
        let mut clusters: HashMap<Uuid, (String, Uuid)> = HashMap::with_capacity(ids.len());
        for chunk in ids.chunks(AT_ONCE) {
            use cluster::row::Column;
            let found: Vec<(Uuid, String, Uuid)> = cluster::row::Entity::find()
                .select_only()
                .columns([Column::Id, Column::Handle, Column::ProjectId])
                .filter(Column::Id.is_in(chunk.iter().copied()))
                .into_tuple()
                .all(&self.reader)
                .await
                .map_err(db(doing))?;
            clusters.extend(found.into_iter().map(|(id, handle, project)| (id, (handle, project))));
        }
        let mut targets = Vec::with_capacity(rows.len());
        for (id, cluster_id, name, own, git, rendering, closure_digest) in rows {
            let Some((cluster, project)) = clusters.get(&cluster_id) else { continue };
            let rendering = rendering_of(rendering)?;
            let own = git.filter(|_| own == Some(repository.uuid()));
            let own = own.map(|git| json::<GitRef>(git, "a service's git ref")).transpose()?;
            let is_composed = rendering.is_composed();
            let parts = rendering.refs_of(repository).filter(|_| is_composed).cloned();
            let mut refs = own.into_iter().chain(parts);
            let Some(git) = refs.next() else { continue };
            let also = refs.collect();
            targets.push(FleetTarget {
                id: ServiceId::from_uuid(id),
                name,
                cluster_id: ClusterId::from_uuid(cluster_id),
                cluster: cluster.clone(),
                project_id: ProjectId::from_uuid(*project),
                beside: rendering.beside(&git.folder),
                is_composed,
                git,
                also,
                closure_digest,
            });
        }
        targets.sort_unstable_by(|a, b| (&a.cluster, &a.name, a.id).cmp(&(&b.cluster, &b.name, b.id)));
        Ok(targets)
    }

    async fn fleet_plan_asked(
        &self,
        id: FleetPlanId,
        asked: &FleetAsked,
        jobs: &[NewJob],
        at: DateTime<Utc>,
    ) -> Result<()> {
        let mut write = self.write().await?;
        let named: Vec<Uuid> = asked.reached.iter().map(|reached| reached.part.service_id.uuid()).collect();
        let is_asked = |reached: &&FleetReached| reached.part.state == FleetPartState::Waiting;
        let to_ask = asked.reached.iter().filter(is_asked);
        let to_ask: Vec<Uuid> = to_ask.map(|reached| reached.part.service_id.uuid()).collect();
        // Services are locked before plans, as reports lock them.
        dependency::lock_in_tx(&write).await?;
        for chunk in to_ask.chunks(AT_ONCE) {
            renew_in_tx(&mut write, service::row::Column::Id.is_in(chunk.iter().copied()), at).await?;
        }
        let Some(known) = open_in_tx(&write, id, FleetPlanPhase::Looking).await? else { return Ok(()) };
        let there = there_on(&write.tx, &named).await?;
        let mut rows = Vec::with_capacity(asked.reached.len());
        for reached in &asked.reached {
            if there.contains(&reached.part.service_id.uuid()) {
                rows.push(fleet_plan_part::new_part(reached));
            }
        }
        for chunk in rows.chunks(PARTS_AT_ONCE) {
            fleet_plan_part::row::Entity::insert_many(chunk.to_vec())
                .exec_without_returning(&write.tx)
                .await
                .map_err(db("recording parts of a fleet plan"))?;
        }
        let phase = if asked.is_any() { FleetPlanPhase::Asked } else { FleetPlanPhase::Done };
        let FleetFound {
            sha,
            message,
            base_sha,
            is_merged,
            untouched,
            composed,
            omitted,
            deadline,
            about,
            // It was made a moment ago.
            since: _,
        } = &asked.found;
        let change = row::ActiveModel {
            id: ActiveValue::Unchanged(known.id),
            phase: set(phase.as_str().to_owned()),
            sha: set(Some(sha.clone())),
            message: set(Some(without_nul(message))),
            base_sha: set(base_sha.clone()),
            is_merged: set(*is_merged),
            about: set(about.clone()),
            untouched: set(number(*untouched)),
            composed: set(number(*composed)),
            omitted: set(number(*omitted)),
            deadline_at: set(Some(*deadline)),
            asked: set(None),
            stacks: set(fleet_preview::stacks(&known, &asked.stacks)?),
            updated_at: set(at),
            ..Default::default()
        };
        change.update(&write.tx).await.map_err(db("recording a fleet plan"))?;
        write.enqueue(jobs, at).await?;
        write.commit().await
    }

    async fn fleet_plan_failed(
        &self,
        id: FleetPlanId,
        (error, base_sha): (&str, Option<&str>),
        jobs: &[NewJob],
        at: DateTime<Utc>,
    ) -> Result<()> {
        let mut write = self.write().await?;
        let Some(known) = open_in_tx(&write, id, FleetPlanPhase::Looking).await? else { return Ok(()) };
        // Where it was compared with, for whoever follows it: the commit is known by what was asked for.
        let base_sha = base_sha.filter(|_| known.pull_request_id.is_some()).map(str::to_owned);
        let is_followed = base_sha.is_some();
        let change = row::ActiveModel {
            id: ActiveValue::Unchanged(known.id),
            sha: set(is_followed.then(|| known.reference.clone())),
            deadline_at: set(is_followed.then_some(at)),
            base_sha: set(base_sha),
            phase: set(FleetPlanPhase::Failed.as_str().to_owned()),
            error: set(Some(without_nul(error))),
            asked: set(None),
            updated_at: set(at),
            ..Default::default()
        };
        change.update(&write.tx).await.map_err(db("recording a fleet plan"))?;
        write.enqueue(jobs, at).await?;
        write.commit().await
    }

    async fn fleet_preview_begin(
        &self,
        by: Audited<'_, PrAutomation, CreatePr>,
        plan: &FleetPlan,
        asked: &Sealed,
        jobs: &[NewJob],
    ) -> Result<()> {
        fleet_preview::begin(self, by, (plan, asked), jobs).await
    }

    async fn fleet_preview_to_look_at(&self, id: FleetPlanId) -> Result<Option<(FleetPlan, Sealed)>> {
        fleet_preview::to_look_at_on(&self.reader, id).await
    }

    async fn fleet_preview_planned(
        &self,
        id: FleetPlanId,
        stack: StackId,
        planned: &std::result::Result<StackRunId, String>,
    ) -> Result<()> {
        fleet_preview::planned(self, id, stack, planned).await
    }

    async fn fleet_previews_prune(&self, at: DateTime<Utc>) -> Result<PrunedPreviews> {
        fleet_preview::prune(self, at).await
    }

    async fn fleet_plan_end(&self, id: FleetPlanId, at: DateTime<Utc>) -> Result<()> {
        let mut write = self.write().await?;
        let Some(known) = open_in_tx(&write, id, FleetPlanPhase::Asked).await? else { return Ok(()) };
        let late = fleet_plan_part::row::ActiveModel {
            state: set(FleetPartState::Late.as_str().to_owned()),
            ..Default::default()
        };
        fleet_plan_part::row::Entity::update_many()
            .set(late)
            .filter(fleet_plan_part::row::Column::PlanId.eq(known.id))
            .filter(fleet_plan_part::row::Column::State.eq(FleetPartState::Waiting.as_str()))
            .exec(&write.tx)
            .await
            .map_err(db("ending a fleet plan"))?;
        done_in_tx(&mut write, &known, at).await?;
        write.commit().await
    }

    async fn fleet_plan_parts(&self, plan: &Authorized<FleetPlan, Read>) -> Result<Vec<FleetPlanPart>> {
        fleet_plan_part::list_on(&self.reader, plan.id).await
    }

    async fn fleet_plan_part(&self, id: FleetPartId) -> Result<Option<FleetPartPlan>> {
        fleet_plan_part::one_on(&self.reader, id).await
    }

    async fn fleet_plan_asks(&self, cluster: ClusterId, digest: &str) -> Result<bool> {
        fleet_plan_part::asks_on(&self.reader, cluster, digest).await
    }
}

/// The row of a plan that is in this phase, locked.
pub(crate) async fn open_in_tx(
    write: &transaction::Write<'_>,
    id: FleetPlanId,
    phase: FleetPlanPhase,
) -> Result<Option<row::Model>> {
    let rows = row::Entity::find_by_id(id.uuid()).filter(row::Column::Phase.eq(phase.as_str()));
    rows.lock_exclusive().one(&write.tx).await.map_err(db("reading a fleet plan"))
}

/// Ends a plan, and has its host told.
pub(crate) async fn done_in_tx(
    write: &mut transaction::Write<'_>,
    plan: &row::Model,
    at: DateTime<Utc>,
) -> Result<()> {
    let change = row::ActiveModel {
        id: ActiveValue::Unchanged(plan.id),
        phase: set(FleetPlanPhase::Done.as_str().to_owned()),
        updated_at: set(at),
        ..Default::default()
    };
    change.update(&write.tx).await.map_err(db("ending a fleet plan"))?;
    let id = FleetPlanId::from_uuid(plan.id);
    let repository = RepositoryId::from_uuid(plan.repository_id);
    let jobs = fleet_plan_tellers(id, repository, plan.pull_request_id.map(PullRequestId::from_uuid))?;
    write.enqueue(&jobs, at).await
}

/// Those of these services that there still are.
async fn there_on(connection: &impl ConnectionTrait, services: &[Uuid]) -> Result<HashSet<Uuid>> {
    let mut there = HashSet::with_capacity(services.len());
    for chunk in services.chunks(AT_ONCE) {
        let found: Vec<Uuid> = service::row::Entity::find()
            .select_only()
            .column(service::row::Column::Id)
            .filter(service::row::Column::Id.is_in(chunk.iter().copied()))
            .into_tuple()
            .all(connection)
            .await
            .map_err(db("reading services of a fleet plan"))?;
        there.extend(found);
    }
    Ok(there)
}

/// A count as it is stored.
pub(crate) fn number(count: u32) -> i32 {
    i32::try_from(count).unwrap_or(i32::MAX)
}
