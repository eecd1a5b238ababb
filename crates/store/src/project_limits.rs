//! What the services of projects may touch.

use std::collections::{HashMap, HashSet};

use plural_app::source::SourceLimits;
use plural_app::sync::NamedLimits;
use plural_core::ids::{ClusterId, ProjectId, RepositoryId};
use plural_core::project_limits::ProjectLimits;
use plural_core::service::Rendering;
use plural_core::{Error, Result};
use sea_orm::{ColumnTrait, ConnectionTrait, EntityTrait, JsonValue, QueryFilter, QuerySelect};
use uuid::Uuid;

use crate::convert::json;
use crate::error::db;
use crate::{cluster, helm_repository, project, repository, service};

/// Rows of one statement.
const AT_ONCE: usize = 500;

/// What is empty limits nothing.
pub(crate) fn of_row(stored: Option<JsonValue>) -> Result<ProjectLimits> {
    stored.map_or_else(|| Ok(ProjectLimits::default()), |limits| json(limits, "a project's limits"))
}

/// What the services of a cluster may touch.
pub(crate) async fn of_cluster_on(
    connection: &impl ConnectionTrait,
    cluster: ClusterId,
) -> Result<NamedLimits> {
    let doing = "reading the limits of a project";
    let project: Option<Uuid> = cluster::row::Entity::find_by_id(cluster.uuid())
        .select_only()
        .column(cluster::row::Column::ProjectId)
        .into_tuple()
        .one(connection)
        .await
        .map_err(db(doing))?;
    let row = project::row::Entity::find_by_id(project.ok_or(Error::not_found("cluster"))?);
    let row = row.one(connection).await.map_err(db(doing))?.ok_or(Error::not_found("project"))?;
    Ok(NamedLimits { project: row.name, limits: of_row(row.limits)? })
}

/// Whose a service is, and from where it may be read.
#[derive(Debug, Clone)]
pub(crate) struct Owned {
    pub(crate) project: ProjectId,
    pub(crate) limits: SourceLimits,
}

/// Projects of services, and from where they let them be read. Agents' own upgrades are limited by none.
pub(crate) async fn source_limits_on(
    connection: &impl ConnectionTrait,
    services: &[Uuid],
) -> Result<HashMap<Uuid, Owned>> {
    let doing = "reading from where services may be read";
    let mut of_cluster: HashMap<Uuid, Vec<Uuid>> = HashMap::new();
    let mut upgrades: HashSet<Uuid> = HashSet::new();
    for chunk in services.chunks(AT_ONCE) {
        let found: Vec<(Uuid, Uuid, bool)> = service::row::Entity::find()
            .select_only()
            .columns([
                service::row::Column::Id,
                service::row::Column::ClusterId,
                service::row::Column::AgentUpgrade,
            ])
            .filter(service::row::Column::Id.is_in(chunk.iter().copied()))
            .into_tuple()
            .all(connection)
            .await
            .map_err(db(doing))?;
        for (id, cluster, is_upgrade) in found {
            of_cluster.entry(cluster).or_default().push(id);
            if is_upgrade {
                upgrades.insert(id);
            }
        }
    }
    let mut of_project: HashMap<Uuid, Vec<Uuid>> = HashMap::new();
    let clusters: Vec<Uuid> = of_cluster.keys().copied().collect();
    for chunk in clusters.chunks(AT_ONCE) {
        let found: Vec<(Uuid, Uuid)> = cluster::row::Entity::find()
            .select_only()
            .columns([cluster::row::Column::Id, cluster::row::Column::ProjectId])
            .filter(cluster::row::Column::Id.is_in(chunk.iter().copied()))
            .into_tuple()
            .all(connection)
            .await
            .map_err(db(doing))?;
        for (cluster, project) in found {
            of_project.entry(project).or_default().extend(of_cluster.remove(&cluster).unwrap_or_default());
        }
    }
    let owners = helm_repository::owners_on(connection).await?;
    let mut limits = HashMap::new();
    let projects: Vec<Uuid> = of_project.keys().copied().collect();
    for chunk in projects.chunks(AT_ONCE) {
        let rows = project::row::Entity::find()
            .filter(project::row::Column::Id.is_in(chunk.iter().copied()))
            .all(connection)
            .await
            .map_err(db(doing))?;
        for row in rows {
            let repositories = of_row(row.limits)?.repositories;
            let project = ProjectId::from_uuid(row.id);
            let charts_of = owners.contains(&row.id).then_some(project);
            // Those that say nothing are alike.
            let of = if repositories.is_empty() && charts_of.is_none() {
                SourceLimits::default()
            } else {
                SourceLimits { project: row.name, repositories, charts_of }
            };
            let services = of_project.remove(&row.id).unwrap_or_default();
            for id in services {
                let mut limits_of = of.clone();
                if upgrades.contains(&id) {
                    limits_of.repositories.clear();
                }
                limits.insert(id, Owned { project, limits: limits_of });
            }
        }
    }
    Ok(limits)
}

/// Where each of these services is read from: the place that the limits refuse, if they refuse one.
pub(crate) async fn sources_on(
    connection: &impl ConnectionTrait,
    limits: &ProjectLimits,
    services: &[service::row::Model],
) -> Result<HashMap<Uuid, String>> {
    let mut found = HashMap::with_capacity(services.len());
    if limits.repositories.is_empty() {
        return Ok(found);
    }
    let mut read_from: Vec<(Uuid, Option<Uuid>, Rendering)> = Vec::with_capacity(services.len());
    let mut named: HashSet<Uuid> = HashSet::new();
    for row in services {
        let rendering = service::rendering_of(row.rendering.clone())?;
        named.extend(row.repository_id);
        named.extend(rendering.repositories().map(RepositoryId::uuid));
        read_from.push((row.id, row.repository_id, rendering));
    }
    let urls: Vec<(Uuid, String)> = repository::row::Entity::find()
        .select_only()
        .columns([repository::row::Column::Id, repository::row::Column::Url])
        .filter(repository::row::Column::Id.is_in(named))
        .into_tuple()
        .all(connection)
        .await
        .map_err(db("reading where services are read from"))?;
    let urls: HashMap<Uuid, String> = urls.into_iter().collect();
    for (id, repository, rendering) in read_from {
        let further: Vec<Uuid> = rendering.repositories().map(RepositoryId::uuid).collect();
        let chart = rendering.helm.as_ref().and_then(|helm| helm.url.as_deref());
        let of = |id: &Uuid| urls.get(id).map(String::as_str);
        let all: Vec<&str> = repository
            .as_ref()
            .and_then(of)
            .into_iter()
            .chain(chart)
            .chain(further.iter().filter_map(of))
            .collect();
        let told = limits.refused_source(all.iter().copied()).or(all.first().copied());
        found.insert(id, told.unwrap_or_default().to_owned());
    }
    Ok(found)
}
