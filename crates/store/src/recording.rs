//! Recordings of shells, but for what was recorded: that is in blobs.

use std::collections::HashSet;

use async_trait::async_trait;
use chrono::{DateTime, TimeDelta, Utc};
use plural_app::access::{Admin, Audited, Authorized, Guarded, Read, ReadRecordings};
use plural_app::cluster::ClusterSelector;
use plural_app::recording::{RecordedProject, RecordingPiece, RecordingRow, RecordingStore, Recordings};
use plural_app::seal::Sealed;
use plural_core::access::{Action, Actor, Visibility};
use plural_core::ids::{ClusterId, PolicyId, ProjectId, RecordingId, RequestId, UserId};
use plural_core::policy::{BindingSubject, PolicyNoun, Role};
use plural_core::project::Project;
use plural_core::recording::{Recording, RecordingEnd, Shell, ShellKind};
use plural_core::recording_policy::RecordingPolicy;
use plural_core::{Error, Page, PageRequest, Result};
use sea_orm::sea_query::{Expr, ExprTrait};
use sea_orm::{
    ActiveModelTrait, ColumnTrait, ConnectionTrait, EntityTrait, QueryFilter, QueryOrder, QuerySelect,
};
use uuid::Uuid;

use crate::convert::{bytes32, word};
use crate::database::{Database, corrupt};
use crate::error::db;
use crate::page::page;
use crate::transaction::set;
use crate::{cluster, policy, project, recording_policy};

/// A recording that was written to so recently stays, whatever was said when it began.
const OPEN: TimeDelta = TimeDelta::hours(1);
/// Ids of one statement.
const AT_ONCE: usize = 500;
/// Pieces whose digests are read at a time.
pub(crate) const DIGESTS: u64 = 4096;

pub(crate) mod row {
    use sea_orm::entity::prelude::*;

    #[derive(Clone, Debug, PartialEq, Eq, DeriveEntityModel)]
    #[sea_orm(table_name = "recordings")]
    pub(crate) struct Model {
        #[sea_orm(primary_key, auto_increment = false)]
        pub id: Uuid,
        pub cluster_id: Uuid,
        pub project_id: Uuid,
        pub user_id: Uuid,
        pub actor: String,
        pub kind: String,
        pub namespace: String,
        pub pod: String,
        pub container: Option<String>,
        pub command: Vec<u8>,
        pub tty: bool,
        pub request_id: Uuid,
        pub bytes: i64,
        pub width: Option<i32>,
        pub height: Option<i32>,
        pub started_at: DateTimeUtc,
        pub written_at: DateTimeUtc,
        pub ended: Option<String>,
        pub expires_at: DateTimeUtc,
    }

    #[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
    pub(crate) enum Relation {}
    impl ActiveModelBehavior for ActiveModel {}
}

pub(crate) mod piece {
    use sea_orm::entity::prelude::*;

    #[derive(Clone, Debug, PartialEq, Eq, DeriveEntityModel)]
    #[sea_orm(table_name = "recording_pieces")]
    pub(crate) struct Model {
        #[sea_orm(primary_key, auto_increment = false)]
        pub recording_id: Uuid,
        #[sea_orm(primary_key, auto_increment = false)]
        pub number: i32,
        pub digest: Vec<u8>,
        pub bytes: i64,
        pub sealed_with: Option<Vec<u8>>,
    }

    #[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
    pub(crate) enum Relation {}
    impl ActiveModelBehavior for ActiveModel {}
}

/// Whether there are recordings of a project.
pub(crate) async fn is_any_of_on(connection: &impl ConnectionTrait, project: ProjectId) -> Result<bool> {
    let found: Option<Uuid> = row::Entity::find()
        .select_only()
        .column(row::Column::Id)
        .filter(row::Column::ProjectId.eq(project.uuid()))
        .limit(1)
        .into_tuple()
        .one(connection)
        .await
        .map_err(db("looking for recordings of a project"))?;
    Ok(found.is_some())
}

fn row_of(recording: &Recording, command: &Sealed) -> row::ActiveModel {
    let Recording {
        id,
        cluster_id,
        project_id,
        user_id,
        actor,
        shell,
        request_id,
        bytes,
        size,
        started_at,
        written_at,
        end,
        expires_at,
    } = recording;
    // The command may hold a secret: it is kept sealed only.
    let Shell { kind, namespace, pod, container, command: _, tty } = shell;
    row::ActiveModel {
        id: set(id.uuid()),
        cluster_id: set(cluster_id.uuid()),
        project_id: set(project_id.uuid()),
        user_id: set(user_id.uuid()),
        actor: set(actor.clone()),
        kind: set(kind.as_str().to_owned()),
        namespace: set(namespace.clone()),
        pod: set(pod.clone()),
        container: set(container.clone()),
        command: set(command.as_bytes().to_vec()),
        tty: set(*tty),
        request_id: set(request_id.uuid()),
        bytes: set(bytes.cast_signed()),
        width: set(size.map(|(width, _)| i32::from(width))),
        height: set(size.map(|(_, height)| i32::from(height))),
        started_at: set(*started_at),
        written_at: set(*written_at),
        ended: set(end.map(|end| end.as_str().to_owned())),
        expires_at: set(*expires_at),
    }
}

impl TryFrom<row::Model> for RecordingRow {
    type Error = Error;

    fn try_from(row: row::Model) -> Result<Self> {
        let row::Model {
            id,
            cluster_id,
            project_id,
            user_id,
            actor,
            kind,
            namespace,
            pod,
            container,
            command,
            tty,
            request_id,
            bytes,
            width,
            height,
            started_at,
            written_at,
            ended,
            expires_at,
        } = row;
        let side = |side: i32| u16::try_from(side).map_err(|_| corrupt("the size of a terminal"));
        let size = match (width, height) {
            (Some(width), Some(height)) => Some((side(width)?, side(height)?)),
            _ => None,
        };
        let end = ended.map(|end| word(RecordingEnd::parse(&end), "the end of a recording")).transpose()?;
        let kind = word(ShellKind::parse(&kind), "the kind of a shell")?;
        let recording = Recording {
            id: RecordingId::from_uuid(id),
            cluster_id: ClusterId::from_uuid(cluster_id),
            project_id: ProjectId::from_uuid(project_id),
            user_id: UserId::from_uuid(user_id),
            actor,
            shell: Shell { kind, namespace, pod, container, command: Vec::new(), tty },
            request_id: RequestId::from_uuid(request_id),
            bytes: bytes.cast_unsigned(),
            size,
            started_at,
            written_at,
            end,
            expires_at,
        };
        Ok(Self { recording, command: Sealed::from_bytes(command) })
    }
}

fn piece_row_of(id: RecordingId, piece: &RecordingPiece) -> Result<piece::ActiveModel> {
    let RecordingPiece { number, digest, bytes, sealed_with } = piece;
    Ok(piece::ActiveModel {
        recording_id: set(id.uuid()),
        number: set(piece_number(*number)?),
        digest: set(digest.to_vec()),
        bytes: set(bytes.cast_signed()),
        sealed_with: set(sealed_with.clone()),
    })
}

fn piece_number(number: u32) -> Result<i32> {
    i32::try_from(number).map_err(|cause| Error::internal("numbering the pieces of a recording", cause))
}

/// Adds the digests of all blobs that hold a piece. There may be millions: some are read at a time, and one that is named
/// meanwhile is of a blob that is young.
pub(crate) async fn digests_into(
    connection: &impl ConnectionTrait,
    at_a_time: u64,
    named: &mut HashSet<[u8; 32]>,
) -> Result<()> {
    let mut last: Option<(Uuid, i32)> = None;
    loop {
        let mut query = piece::Entity::find()
            .select_only()
            .columns([piece::Column::RecordingId, piece::Column::Number, piece::Column::Digest])
            .order_by_asc(piece::Column::RecordingId)
            .order_by_asc(piece::Column::Number)
            .limit(at_a_time);
        if let Some((recording, number)) = last {
            let place =
                Expr::tuple([Expr::col(piece::Column::RecordingId), Expr::col(piece::Column::Number)]);
            query = query.filter(place.gt(Expr::tuple([Expr::value(recording), Expr::value(number)])));
        }
        let rows: Vec<(Uuid, i32, Vec<u8>)> =
            query.into_tuple().all(connection).await.map_err(db("listing the pieces of recordings"))?;
        for (.., digest) in &rows {
            named.insert(bytes32(digest, "a piece of a recording")?);
        }
        match rows.last() {
            Some((recording, number, _)) if rows.len() as u64 == at_a_time => {
                last = Some((*recording, *number));
            }
            _ => return Ok(()),
        }
    }
}

impl Database {
    /// A cluster and its project.
    async fn recording_cluster(&self, selector: &ClusterSelector) -> Result<(ClusterId, ProjectId)> {
        let query = cluster::row::Entity::find()
            .select_only()
            .columns([cluster::row::Column::Id, cluster::row::Column::ProjectId]);
        let query = match selector {
            ClusterSelector::Id(id) => query.filter(cluster::row::Column::Id.eq(id.uuid())),
            ClusterSelector::Handle(handle) => query.filter(cluster::row::Column::Handle.eq(handle.as_str())),
        };
        let found: Option<(Uuid, Uuid)> =
            query.into_tuple().one(&self.reader).await.map_err(db("reading a cluster's project"))?;
        let (cluster, project) = found.ok_or(Error::not_found("cluster"))?;
        Ok((ClusterId::from_uuid(cluster), ProjectId::from_uuid(project)))
    }
}

#[async_trait]
impl RecordingStore for Database {
    async fn recording_policy(&self, project: &Authorized<Project, Read>) -> Result<RecordingPolicy> {
        recording_policy::of_project_on(&self.reader, project.id).await
    }

    async fn recording_policy_set(
        &self,
        by: Audited<'_, Project, Admin>,
        policy: &RecordingPolicy,
        readers: &[BindingSubject],
    ) -> Result<()> {
        let project = by.target().id;
        let write = self.write().await?;
        recording_policy::set_in_tx(&write, project, policy, by.entry().at).await?;
        policy::replace_in_tx(&write, project.into(), &[(Role::Recordings, readers.to_vec())]).await?;
        write.audit(by.entry()).await?;
        write.commit().await
    }

    async fn recording_policy_of(&self, cluster: ClusterId) -> Result<(ProjectId, RecordingPolicy)> {
        let (_, project) = self.recording_cluster(&ClusterSelector::Id(cluster)).await?;
        Ok((project, recording_policy::of_project_on(&self.reader, project).await?))
    }

    async fn recording_begin(
        &self,
        recording: &Recording,
        command: &Sealed,
        first: &RecordingPiece,
    ) -> Result<()> {
        let doing = "beginning a recording";
        let first = piece_row_of(recording.id, first)?;
        let write = self.write().await?;
        row_of(recording, command).insert(&write.tx).await.map_err(db(doing))?;
        first.insert(&write.tx).await.map_err(db(doing))?;
        write.commit().await
    }

    async fn recording_append(
        &self,
        id: RecordingId,
        piece: &RecordingPiece,
        size: Option<(u16, u16)>,
        now: DateTime<Utc>,
    ) -> Result<()> {
        let doing = "going on with a recording";
        let RecordingPiece { number, digest, bytes, sealed_with } = piece;
        let write = self.write().await?;
        // The same again, when the answer to the first time was lost, changes nothing.
        let sql = "INSERT INTO recording_pieces (recording_id, number, digest, bytes, sealed_with) \
                   VALUES ($1, $2, $3, $4, $5) ON CONFLICT DO NOTHING";
        let values = [
            id.uuid().into(),
            piece_number(*number)?.into(),
            digest.to_vec().into(),
            bytes.cast_signed().into(),
            sealed_with.clone().into(),
        ];
        let inserted = write.tx.execute_raw(self.statement(sql, values)).await.map_err(db(doing))?;
        if inserted.rows_affected() == 0 {
            return Ok(());
        }
        let mut update = row::Entity::update_many()
            .col_expr(row::Column::Bytes, Expr::col(row::Column::Bytes).add(piece.bytes.cast_signed()))
            .col_expr(row::Column::WrittenAt, Expr::value(now));
        if let Some((width, height)) = size {
            update = update
                .col_expr(row::Column::Width, Expr::value(i32::from(width)))
                .col_expr(row::Column::Height, Expr::value(i32::from(height)));
        }
        update.filter(row::Column::Id.eq(id.uuid())).exec(&write.tx).await.map_err(db(doing))?;
        write.commit().await
    }

    async fn recording_mark(
        &self,
        id: RecordingId,
        end: Option<RecordingEnd>,
        now: DateTime<Utc>,
    ) -> Result<()> {
        let write = self.write().await?;
        let mut update = row::Entity::update_many().col_expr(row::Column::WrittenAt, Expr::value(now));
        if let Some(end) = end {
            update = update.col_expr(row::Column::Ended, Expr::value(end.as_str()));
        }
        let update = update.filter(row::Column::Id.eq(id.uuid()));
        update.exec(&write.tx).await.map_err(db("telling how a recording goes on"))?;
        write.commit().await
    }

    async fn recording_discard(&self, id: RecordingId) -> Result<()> {
        let write = self.write().await?;
        row::Entity::delete_by_id(id.uuid())
            .exec(&write.tx)
            .await
            .map_err(db("forgetting a recording that never began"))?;
        write.commit().await
    }

    async fn recordings_for_cluster(
        &self,
        actor: &Actor,
        of: &ClusterSelector,
    ) -> Result<Guarded<Recordings>> {
        let (cluster, project) = self.recording_cluster(of).await?;
        let scope = policy::scope(&self.reader, actor, &[cluster.into(), project.into()]).await?;
        Ok(Guarded::new(Recordings::OfCluster(cluster), scope))
    }

    async fn recordings_for_project(&self, actor: &Actor, of: ProjectId) -> Result<Guarded<Recordings>> {
        let scope = policy::scope(&self.reader, actor, &[of.into()]).await?;
        Ok(Guarded::new(Recordings::OfProject(of), scope))
    }

    async fn recorded_project_named(&self, name: &str) -> Result<Option<ProjectId>> {
        // Later ids are of later projects.
        let sql = "SELECT n.id FROM (SELECT id, 0 AS gone FROM projects WHERE name = $1 \
                   UNION ALL SELECT id, 1 FROM policies WHERE name = $1) n ORDER BY n.gone, n.id DESC LIMIT 1";
        let doing = "reading a project's name";
        let row = self.reader.query_one_raw(self.statement(sql, [name.into()])).await.map_err(db(doing))?;
        let id: Option<Uuid> = row.map(|row| row.try_get("", "id")).transpose().map_err(db(doing))?;
        Ok(id.map(ProjectId::from_uuid))
    }

    async fn recorded_projects_for(
        &self,
        actor: &Actor,
        ids: &[ProjectId],
    ) -> Result<Vec<Guarded<RecordedProject>>> {
        let doing = "reading names of projects";
        let mut found: Vec<(Uuid, String)> = Vec::with_capacity(ids.len());
        for chunk in ids.chunks(AT_ONCE) {
            let ids = || chunk.iter().map(|id| id.uuid());
            let there: Vec<(Uuid, String)> = project::row::Entity::find()
                .select_only()
                .columns([project::row::Column::Id, project::row::Column::Name])
                .filter(project::row::Column::Id.is_in(ids()))
                .into_tuple()
                .all(&self.reader)
                .await
                .map_err(db(doing))?;
            let gone: Vec<(Uuid, String)> = policy::row::Entity::find()
                .select_only()
                .columns([policy::row::Column::Id, policy::row::Column::Name])
                .filter(policy::row::Column::Id.is_in(ids()))
                .filter(policy::row::Column::Name.is_not_null())
                .into_tuple()
                .all(&self.reader)
                .await
                .map_err(db(doing))?;
            found.extend(there.into_iter().chain(gone));
        }
        let found: Vec<RecordedProject> = found
            .into_iter()
            .map(|(id, name)| RecordedProject { id: ProjectId::from_uuid(id), name })
            .collect();
        let of: Vec<Vec<PolicyId>> = found.iter().map(|project| vec![project.id.into()]).collect();
        let scopes = policy::scopes(&self.reader, actor, &of).await?;
        Ok(found.into_iter().zip(scopes).map(|(project, scope)| Guarded::new(project, scope)).collect())
    }

    async fn recording_for(&self, actor: &Actor, id: RecordingId) -> Result<Guarded<RecordingRow>> {
        let row = row::Entity::find_by_id(id.uuid()).one(&self.reader).await;
        let row = row.map_err(db("reading a recording"))?.ok_or(Error::not_found("recording"))?;
        let row = RecordingRow::try_from(row)?;
        let Recording { cluster_id, project_id, .. } = row.recording;
        // Either may be gone.
        let of = [cluster_id.into(), project_id.into()];
        let scope = policy::scope(&self.reader, actor, &of).await?;
        Ok(Guarded::new(row, scope))
    }

    async fn recording_list(
        &self,
        of: &Authorized<Recordings, ReadRecordings>,
        request: &PageRequest,
    ) -> Result<Page<RecordingRow>> {
        let query = row::Entity::find().filter(match **of {
            Recordings::OfCluster(cluster) => row::Column::ClusterId.eq(cluster.uuid()),
            Recordings::OfProject(project) => row::Column::ProjectId.eq(project.uuid()),
        });
        page(&self.reader, query, row::Column::Id, request, RecordingRow::try_from).await
    }

    async fn recordings_readable(
        &self,
        visibility: &Visibility,
        request: &PageRequest,
    ) -> Result<Page<RecordingRow>> {
        let columns = [row::Column::ClusterId, row::Column::ProjectId];
        let readable = policy::visible_for(visibility, Action::ReadRecordings, &columns, PolicyNoun::Project);
        let query = row::Entity::find().filter(readable);
        page(&self.reader, query, row::Column::Id, request, RecordingRow::try_from).await
    }

    async fn recording_pieces(
        &self,
        by: Audited<'_, RecordingRow, ReadRecordings>,
    ) -> Result<Vec<RecordingPiece>> {
        let doing = "reading the pieces of a recording";
        let write = self.write().await?;
        let rows = piece::Entity::find()
            .filter(piece::Column::RecordingId.eq(by.target().recording.id.uuid()))
            .order_by_asc(piece::Column::Number)
            .all(&write.tx)
            .await
            .map_err(db(doing))?;
        write.audit(by.entry()).await?;
        write.commit().await?;
        rows.into_iter()
            .map(|piece::Model { recording_id: _, number, digest, bytes, sealed_with }| {
                Ok(RecordingPiece {
                    number: u32::try_from(number).map_err(|_| corrupt("the number of a piece"))?,
                    digest: bytes32(&digest, "a piece of a recording")?,
                    bytes: bytes.cast_unsigned(),
                    sealed_with,
                })
            })
            .collect()
    }

    async fn recording_prune(&self, now: DateTime<Utc>) -> Result<u64> {
        let write = self.write().await?;
        let removed = row::Entity::delete_many()
            .filter(row::Column::ExpiresAt.lt(now))
            .filter(row::Column::WrittenAt.lt(now - OPEN))
            .exec(&write.tx)
            .await
            .map_err(db("removing old recordings"))?
            .rows_affected;
        policy::forget_kept_in_tx(&write).await?;
        write.commit().await?;
        Ok(removed)
    }
}

#[cfg(test)]
mod tests {
    use plural_testkit::{TestDatabase, each_database};

    use super::*;
    use crate::DatabaseOptions;

    each_database!(all_pieces_are_named_however_many_are_read_at_a_time);

    async fn all_pieces_are_named_however_many_are_read_at_a_time(source: TestDatabase) {
        let database = Database::open(&DatabaseOptions::new(source.url())).await.unwrap();
        let digest = |recording: u8, number: u8| {
            let mut digest = [recording; 32];
            digest[0] = number;
            digest
        };
        let mut all = HashSet::new();
        for recording in 1..=3 {
            let now = Utc::now();
            let begun = Recording {
                id: RecordingId::new(),
                cluster_id: ClusterId::new(),
                project_id: ProjectId::new(),
                user_id: UserId::new(),
                actor: "ada".into(),
                shell: Shell {
                    kind: ShellKind::Attach,
                    namespace: "a".into(),
                    pod: "p".into(),
                    container: None,
                    command: Vec::new(),
                    tty: false,
                },
                request_id: RequestId::new(),
                bytes: 1,
                size: None,
                started_at: now,
                written_at: now,
                end: None,
                expires_at: now,
            };
            let piece = |number: u8| RecordingPiece {
                number: number.into(),
                digest: digest(recording, number),
                bytes: 1,
                sealed_with: None,
            };
            database.recording_begin(&begun, &Sealed::from_bytes(vec![1]), &piece(0)).await.unwrap();
            for number in 1..4 {
                database.recording_append(begun.id, &piece(number), None, now).await.unwrap();
            }
            all.extend((0..4).map(|number| digest(recording, number)));
        }
        for at_a_time in [1, 5, 12, 100] {
            let mut named = HashSet::new();
            digests_into(&database.reader, at_a_time, &mut named).await.unwrap();
            assert_eq!(named, all, "{at_a_time}");
        }
    }
}
