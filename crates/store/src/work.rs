//! Work of clusters' agents as the fleet keeps it in memory.

use std::collections::HashSet;
use std::sync::Arc;

use chrono::{DateTime, Utc};
use plural_core::Result;
use plural_core::ids::{ClusterId, RevisionId, ServiceId, StackRunId};
use plural_core::work::{ServiceHead, SourceHead, WorkKind, WorkRef, WorkSummary};
use sea_orm::{ConnectionTrait, DbErr, QueryResult};
use uuid::Uuid;

use crate::convert::bytes32;
use crate::database::Database;
use crate::error::db;

const SERVICES: &str = "SELECT s.id, s.cluster_id, s.revision_id, r.created_at AS revision_at, s.artifact_digest, s.sha, \
                        s.message, s.sequence FROM services s LEFT JOIN revisions r ON r.id = s.revision_id";

const CLUSTERS: &str = "SELECT c.id FROM clusters c";

/// Runs that their agent has something to do for, of clusters that there are.
const RUNS: &str = "SELECT r.id, r.cluster_id, r.sequence FROM stack_runs r JOIN clusters c ON c.id = r.cluster_id \
                    WHERE r.finished_at IS NULL AND r.status IN ('pending', 'running')";

/// One [`SourceHead`] for all services of one source.
type Heads = HashSet<Arc<SourceHead>>;

impl Database {
    /// All work of all clusters.
    pub(crate) async fn work_all(&self, connection: &impl ConnectionTrait) -> Result<Vec<WorkSummary>> {
        let doing = "loading the work of clusters";
        let rows = connection.query_all_raw(self.statement(SERVICES, [])).await.map_err(db(doing))?;
        let mut heads = Heads::new();
        let mut all =
            rows.iter().map(|row| service(row, &mut heads, doing)).collect::<Result<Vec<WorkSummary>>>()?;
        for row in connection.query_all_raw(self.statement(CLUSTERS, [])).await.map_err(db(doing))? {
            all.push(cluster(&row, doing)?);
        }
        for row in connection.query_all_raw(self.statement(RUNS, [])).await.map_err(db(doing))? {
            all.push(run(&row, doing)?);
        }
        Ok(all)
    }

    /// The summaries of this work, of what exists.
    pub(crate) async fn work_of(
        &self,
        connection: &impl ConnectionTrait,
        work: &[WorkRef],
    ) -> Result<Vec<WorkSummary>> {
        let ids = |wanted: WorkKind| -> Vec<Uuid> {
            work.iter().filter(|work| work.kind == wanted).map(|work| work.id).collect()
        };
        let mut found = Vec::with_capacity(work.len());
        for kind in WorkKind::ALL {
            let ids = ids(kind);
            if ids.is_empty() {
                continue;
            }
            match kind {
                WorkKind::Service => {
                    let doing = "reading services";
                    let sql = format!("{SERVICES} WHERE s.id IN {}", self.among());
                    let statement = self.statement(&sql, [listed(&ids).into()]);
                    let rows = connection.query_all_raw(statement).await.map_err(db(doing))?;
                    let mut heads = Heads::new();
                    for row in &rows {
                        found.push(service(row, &mut heads, doing)?);
                    }
                }
                WorkKind::Cluster => {
                    let doing = "reading clusters";
                    let sql = format!("{CLUSTERS} WHERE c.id IN {}", self.among());
                    let statement = self.statement(&sql, [listed(&ids).into()]);
                    for row in connection.query_all_raw(statement).await.map_err(db(doing))? {
                        found.push(cluster(&row, doing)?);
                    }
                }
                WorkKind::StackRun => {
                    let doing = "reading runs of stacks";
                    let sql = format!("{RUNS} AND r.id IN {}", self.among());
                    let statement = self.statement(&sql, [listed(&ids).into()]);
                    for row in connection.query_all_raw(statement).await.map_err(db(doing))? {
                        found.push(run(&row, doing)?);
                    }
                }
            }
        }
        Ok(found)
    }

    /// The ids of the first parameter, which is [`listed`]. One text however many ids there are: each text is another
    /// prepared statement on every connection.
    fn among(&self) -> &'static str {
        if self.is_postgres() {
            "(SELECT listed.id::uuid FROM json_array_elements_text($1::json) AS listed (id))"
        } else {
            "(SELECT unhex(value) FROM json_each($1))"
        }
    }
}

/// Ids as a JSON array, as both databases read them.
fn listed(ids: &[Uuid]) -> String {
    let ids: Vec<String> = ids.iter().map(|id| format!("\"{}\"", id.simple())).collect();
    format!("[{}]", ids.join(","))
}

fn cluster(row: &QueryResult, doing: &'static str) -> Result<WorkSummary> {
    let id = ClusterId::from_uuid(row.try_get("", "id").map_err(db(doing))?);
    Ok(WorkSummary { work: WorkRef::cluster(id), cluster_id: id, sequence: 0, head: None })
}

fn run(row: &QueryResult, doing: &'static str) -> Result<WorkSummary> {
    let id = StackRunId::from_uuid(row.try_get("", "id").map_err(db(doing))?);
    let cluster_id = ClusterId::from_uuid(row.try_get("", "cluster_id").map_err(db(doing))?);
    let sequence: i64 = row.try_get("", "sequence").map_err(db(doing))?;
    Ok(WorkSummary {
        work: WorkRef::stack_run(id),
        cluster_id,
        sequence: sequence.cast_unsigned(),
        head: None,
    })
}

fn service(row: &QueryResult, heads: &mut Heads, doing: &'static str) -> Result<WorkSummary> {
    let read = Row::try_from(row).map_err(db(doing))?;
    let Row { id, cluster_id, revision_id, revision_at, artifact_digest, sha, message, sequence } = read;
    let source = match artifact_digest.map(|digest| bytes32(&digest, "an artifact's digest")).transpose() {
        Ok(digest) => Ok(digest.map(|digest| shared(heads, SourceHead { digest, sha, message }))),
        // The others must be told all the same. Who reads this one whole fails with that.
        Err(error) => {
            tracing::error!(service.id = %id, error = error.log_text(), "cannot read what a service is made from");
            Err(error)
        }
    };
    Ok(WorkSummary {
        work: WorkRef::service(ServiceId::from_uuid(id)),
        cluster_id: ClusterId::from_uuid(cluster_id),
        sequence: sequence.cast_unsigned(),
        head: revision_at.zip(source.ok()).map(|(revision_at, source)| ServiceHead {
            revision_id: RevisionId::from_uuid(revision_id),
            revision_at,
            source,
        }),
    })
}

fn shared(heads: &mut Heads, head: SourceHead) -> Arc<SourceHead> {
    if let Some(known) = heads.get(&head) {
        return Arc::clone(known);
    }
    let head = Arc::new(head);
    heads.insert(Arc::clone(&head));
    head
}

struct Row {
    id: Uuid,
    cluster_id: Uuid,
    revision_id: Uuid,
    /// Absent: the revision is missing, and who reads the service whole fails with that.
    revision_at: Option<DateTime<Utc>>,
    artifact_digest: Option<Vec<u8>>,
    sha: Option<String>,
    message: Option<String>,
    sequence: i64,
}

impl TryFrom<&QueryResult> for Row {
    type Error = DbErr;

    fn try_from(row: &QueryResult) -> std::result::Result<Self, DbErr> {
        Ok(Self {
            id: row.try_get("", "id")?,
            cluster_id: row.try_get("", "cluster_id")?,
            revision_id: row.try_get("", "revision_id")?,
            revision_at: row.try_get("", "revision_at")?,
            artifact_digest: row.try_get("", "artifact_digest")?,
            sha: row.try_get("", "sha")?,
            message: row.try_get("", "message")?,
            sequence: row.try_get("", "sequence")?,
        })
    }
}
