//! What the services of projects may touch.

use std::collections::{HashMap, HashSet};

use plural_app::NamedLimits;
use plural_core::{ClusterId, Error, ProjectLimits, Rendering, RepositoryId, Result};
use sea_orm::{ColumnTrait, ConnectionTrait, EntityTrait, JsonValue, QueryFilter, QuerySelect};
use uuid::Uuid;

use crate::convert::json;
use crate::error::db;
use crate::{cluster, project, repository, service};

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
