//! PR automations.

use async_trait::async_trait;
use plural_app::access::{Audited, Grant, Write};
use plural_app::pr_automation::{PrAutomationFilter, PrAutomationSelector, PrAutomationStore};
use plural_core::access::Visibility;
use plural_core::ids::{
    ClusterId, PrAutomationId, PrGovernanceId, ProjectId, RepositoryId, ScmConnectionId, ServiceId,
};
use plural_core::policy::PolicyNoun;
use plural_core::pr_automation::{PrAutomation, PrAutomationLinks};
use plural_core::pr_automation_spec::PrRole;
use plural_core::project::Project;
use plural_core::{Error, Result};
use sea_orm::sea_query::{Condition, LockType};
use sea_orm::{ActiveModelTrait, ActiveValue, ColumnTrait, EntityTrait, QueryFilter, QuerySelect, Select};

use crate::convert::{json, parse, to_json, word};
use crate::database::Database;
use crate::error::{db, gone_or, unique};
use crate::page::search;
use crate::pull_request_merge::{read_windows, written_windows};
use crate::records::{Guard, Table};
use crate::transaction::set;
use crate::{cluster, policy, pr_governance, project, repository, scm_connection, service, transaction};

pub(crate) mod row {
    use sea_orm::entity::prelude::*;

    #[derive(Clone, Debug, PartialEq, DeriveEntityModel)]
    #[sea_orm(table_name = "pr_automations")]
    pub(crate) struct Model {
        #[sea_orm(primary_key, auto_increment = false)]
        pub id: Uuid,
        pub project_id: Uuid,
        pub connection_id: Uuid,
        pub repository_id: Option<Uuid>,
        pub cluster_id: Option<Uuid>,
        pub service_id: Option<Uuid>,
        pub name: String,
        pub role: Option<String>,
        pub spec: Json,
        pub created_at: DateTimeUtc,
        pub updated_at: DateTimeUtc,
        pub revision: i64,
        pub digest: Option<String>,
        pub governance_id: Option<Uuid>,
        pub merge_windows: Option<Json>,
    }

    #[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
    pub(crate) enum Relation {}
    impl ActiveModelBehavior for ActiveModel {}
}

const NOUN: &str = "pr automation";
const SPEC: &str = "what an automation asks and does";
const UNIQUE: &[(&str, &str)] =
    &[("pr_automations_name_key", "an automation with this name already exists; choose another")];

impl TryFrom<row::Model> for PrAutomation {
    type Error = Error;

    fn try_from(row: row::Model) -> Result<Self> {
        let row::Model {
            id,
            project_id,
            connection_id,
            repository_id,
            cluster_id,
            service_id,
            name,
            role,
            spec,
            created_at,
            updated_at,
            revision,
            digest: _,
            governance_id,
            merge_windows,
        } = row;
        Ok(Self {
            id: PrAutomationId::from_uuid(id),
            project_id: ProjectId::from_uuid(project_id),
            name: parse(&name, "an automation's name")?,
            role: role.map(|role| word(PrRole::parse(&role), "an automation's role")).transpose()?,
            links: PrAutomationLinks {
                connection_id: ScmConnectionId::from_uuid(connection_id),
                repository_id: repository_id.map(RepositoryId::from_uuid),
                cluster_id: cluster_id.map(ClusterId::from_uuid),
                service_id: service_id.map(ServiceId::from_uuid),
                governance_id: governance_id.map(PrGovernanceId::from_uuid),
            },
            spec: json(spec, SPEC)?,
            merge_windows: read_windows(merge_windows)?,
            revision,
            created_at,
            updated_at,
        })
    }
}

impl Table for PrAutomation {
    type Row = row::Entity;
    const ID: row::Column = row::Column::Id;
    const READING: &'static str = "reading an automation";
    const LEAVES_OUT: bool = true;

    fn find(rows: Select<row::Entity>, by: &PrAutomationSelector) -> Select<row::Entity> {
        match by {
            PrAutomationSelector::Id(id) => rows.filter(row::Column::Id.eq(id.uuid())),
            PrAutomationSelector::Name(name) => rows.filter(row::Column::Name.eq(name.as_str())),
        }
    }

    fn filter(rows: Select<row::Entity>, filter: &PrAutomationFilter) -> Select<row::Entity> {
        let PrAutomationFilter { project_id, role, q } = filter;
        let mut rows = search(rows, &[row::Column::Name], q.as_deref());
        if let Some(id) = project_id {
            rows = rows.filter(row::Column::ProjectId.eq(id.uuid()));
        }
        if let Some(role) = role {
            rows = rows.filter(row::Column::Role.eq(role.as_str()));
        }
        rows
    }

    fn visible(to: &Visibility) -> Condition {
        policy::visible(to, &[row::Column::Id, row::Column::ProjectId], PolicyNoun::Project)
    }

    fn guard(&self) -> Guard {
        Guard::Policies(vec![self.id.into(), self.project_id.into()])
    }
}

/// What an automation uses must not go while it comes to it.
async fn hold_in_tx(write: &transaction::Write<'_>, links: &PrAutomationLinks) -> Result<()> {
    let PrAutomationLinks { connection_id, repository_id, cluster_id, service_id, governance_id } = links;
    let known = scm_connection::row::Entity::find_by_id(connection_id.uuid());
    let known = known.lock(LockType::KeyShare).one(&write.tx).await;
    known.map_err(db("reading a connection"))?.ok_or(Error::not_found("scm connection"))?;
    if let Some(id) = repository_id {
        let known = repository::row::Entity::find_by_id(id.uuid());
        let known = known.lock(LockType::KeyShare).one(&write.tx).await;
        known.map_err(db("reading a repository"))?.ok_or(Error::not_found("git repository"))?;
    }
    if let Some(id) = cluster_id {
        let known = cluster::row::Entity::find_by_id(id.uuid());
        let known = known.lock(LockType::KeyShare).one(&write.tx).await;
        known.map_err(db("reading a cluster"))?.ok_or(Error::not_found("cluster"))?;
    }
    if let Some(id) = service_id {
        let known = service::row::Entity::find_by_id(id.uuid());
        let known = known.lock(LockType::KeyShare).one(&write.tx).await;
        known.map_err(db("reading a service"))?.ok_or(Error::not_found("service"))?;
    }
    if let Some(id) = governance_id {
        let known = pr_governance::row::Entity::find_by_id(id.uuid());
        let known = known.lock(LockType::KeyShare).one(&write.tx).await;
        known.map_err(db("reading a governance"))?.ok_or(Error::not_found("pr governance"))?;
    }
    Ok(())
}

#[async_trait]
impl PrAutomationStore for Database {
    async fn pr_automation_create(
        &self,
        by: Audited<'_, Project, Write>,
        automation: &PrAutomation,
        grant: Option<&Grant>,
    ) -> Result<()> {
        let PrAutomation {
            id,
            project_id,
            name,
            role,
            links,
            spec,
            merge_windows,
            revision,
            created_at,
            updated_at,
        } = automation;
        let PrAutomationLinks { connection_id, repository_id, cluster_id, service_id, governance_id } = links;
        let write = self.write().await?;
        // It must not go while something is made in it.
        let known = project::row::Entity::find_by_id(project_id.uuid());
        let known = known.lock(LockType::KeyShare).one(&write.tx).await;
        known.map_err(db("reading a project"))?.ok_or(Error::not_found("project"))?;
        hold_in_tx(&write, links).await?;
        policy::make_in_tx(&write, &[((*id).into(), Some((*project_id).into()))]).await?;
        let row = row::ActiveModel {
            id: set(id.uuid()),
            project_id: set(project_id.uuid()),
            connection_id: set(connection_id.uuid()),
            repository_id: set(repository_id.map(RepositoryId::uuid)),
            cluster_id: set(cluster_id.map(ClusterId::uuid)),
            service_id: set(service_id.map(ServiceId::uuid)),
            governance_id: set(governance_id.map(PrGovernanceId::uuid)),
            name: set(name.to_string()),
            role: set(role.map(|role| role.as_str().to_owned())),
            spec: set(to_json(spec, SPEC)?),
            created_at: set(*created_at),
            updated_at: set(*updated_at),
            revision: set(*revision),
            digest: set(Some(spec.digest()?)),
            merge_windows: set(written_windows(merge_windows)?),
        };
        row.insert(&write.tx).await.map_err(unique("making an automation", UNIQUE))?;
        policy::grant_in_tx(&write, grant).await?;
        write.audit(by.entry()).await?;
        write.commit().await
    }

    async fn pr_automation_update(
        &self,
        by: Audited<'_, PrAutomation, Write>,
        after: &PrAutomation,
        grant: Option<&Grant>,
    ) -> Result<()> {
        let PrAutomation {
            id,
            project_id: _,
            name,
            role,
            links,
            spec,
            merge_windows,
            revision,
            created_at: _,
            updated_at,
        } = after;
        let PrAutomationLinks { connection_id, repository_id, cluster_id, service_id, governance_id } = links;
        let write = self.write().await?;
        // What it uses is locked before it, as whoever makes one does.
        if *links != by.target().links {
            hold_in_tx(&write, links).await?;
        }
        let stored = row::Entity::find_by_id(id.uuid()).lock_exclusive().one(&write.tx).await;
        let stored = stored.map_err(db("reading an automation"))?.ok_or(Error::not_found(NOUN))?;
        // Whether it may change that repository through that connection was decided from these.
        let found = PrAutomation::try_from(stored)?;
        let PrAutomation { links: was, spec: asked, merge_windows: windows, .. } = by.target();
        if found.links != *was || found.spec != *asked || found.merge_windows != *windows {
            return Err(Error::conflict(
                "somebody else changed the automation at the same time: look at it and try again",
            ));
        }
        let row = row::ActiveModel {
            id: ActiveValue::Unchanged(id.uuid()),
            connection_id: set(connection_id.uuid()),
            repository_id: set(repository_id.map(RepositoryId::uuid)),
            cluster_id: set(cluster_id.map(ClusterId::uuid)),
            service_id: set(service_id.map(ServiceId::uuid)),
            governance_id: set(governance_id.map(PrGovernanceId::uuid)),
            name: set(name.to_string()),
            role: set(role.map(|role| role.as_str().to_owned())),
            spec: set(to_json(spec, SPEC)?),
            updated_at: set(*updated_at),
            revision: set(*revision),
            digest: set(Some(spec.digest()?)),
            merge_windows: set(written_windows(merge_windows)?),
            ..Default::default()
        };
        let gone = gone_or(NOUN, unique("changing an automation", UNIQUE));
        row.update(&write.tx).await.map_err(gone)?;
        policy::grant_in_tx(&write, grant).await?;
        write.audit(by.entry()).await?;
        write.commit().await
    }

    async fn pr_automation_delete(&self, by: Audited<'_, PrAutomation, Write>) -> Result<()> {
        let id = by.target().id;
        let write = self.write().await?;
        // Before its policy, as whoever changes it locks the two.
        let stored = row::Entity::find_by_id(id.uuid()).lock_exclusive().one(&write.tx).await;
        stored.map_err(db("reading an automation"))?.ok_or(Error::not_found(NOUN))?;
        // The row goes with its policy.
        policy::forget_in_tx(&write, id).await?;
        write.audit(by.entry()).await?;
        write.commit().await
    }
}
