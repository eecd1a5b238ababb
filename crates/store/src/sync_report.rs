//! What agents tell of syncs, written only where it is news.

use std::collections::{HashMap, HashSet};

use chrono::{DateTime, Utc};
use plural_app::ports::agents::ServiceReportRow;
use plural_core::Result;
use plural_core::promotion::PromotionRequest;
use plural_core::sync::{ApprovedPrune, ReportedPlan, SyncReport, SyncRequest};
use sea_orm::ConnectionTrait;
use uuid::Uuid;

use crate::convert::{json, to_json};
use crate::{drift, plan, sync};

/// Stores what was told of each of these services, in order; of which there was something new.
pub(crate) async fn store_on(
    connection: &impl ConnectionTrait,
    told: &[(&ServiceReportRow, DateTime<Utc>)],
) -> Result<HashSet<Uuid>> {
    let ids: Vec<Uuid> = told.iter().map(|(said, _)| said.id.uuid()).collect();
    let mut rows = sync::list_on(connection, &ids).await?;
    let mut changed: HashSet<Uuid> = HashSet::new();
    let mut plans: Vec<(Uuid, &ReportedPlan, DateTime<Utc>)> = Vec::new();
    let mut drifts: HashMap<Uuid, (&SyncReport, DateTime<Utc>)> = HashMap::new();
    for (said, at) in told {
        let id = said.id.uuid();
        let row = rows.entry(id).or_insert_with(|| sync::blank(id));
        let before = row.clone();
        if let Some(plan) = &said.sync.plan {
            let key = plan::key(plan);
            if row.plan_key.as_deref() != Some(key.as_str()) {
                plans.push((id, plan, *at));
                row.plan_key = Some(key);
            }
            if plan.request_id.is_some() && plan.request_id == row.plan_request {
                row.plan_request = None;
                row.cleared = true;
            }
        }
        take_in(row, said)?;
        if *row != before {
            changed.insert(id);
        }
        if !said.sync.drift.is_empty() {
            // A later report of the same service holds what the earlier one did.
            drifts.insert(id, (&said.sync, *at));
        }
    }
    sync::write_on(connection, rows.into_values().filter(|row| changed.contains(&row.service_id)).collect())
        .await?;
    plan::keep_on(connection, &plans).await?;
    for (id, (report, at)) in drifts {
        changed.insert(id);
        drift::keep_on(connection, id, &report.drift, at).await?;
    }
    Ok(changed)
}

fn take_in(row: &mut sync::row::Model, said: &ServiceReportRow) -> Result<()> {
    let SyncReport { progress, pending, plan: _, drift: _, request_done, promoted, candidates: _ } =
        &said.sync;
    row.progress = progress.as_ref().map(|told| to_json(told, "a sync's progress")).transpose()?;
    row.pending = pending.as_ref().map(|told| to_json(told, "what waits for approval")).transpose()?;
    if let Some(done) = request_done {
        row.request_done = Some(done.clone());
        let waiting: Option<SyncRequest> =
            row.request.clone().map(|request| json(request, "a sync request")).transpose()?;
        if waiting.is_some_and(|request| request.id.to_string() == *done) {
            row.request = None;
            row.cleared = true;
        }
    }
    if let Some(promoted) = promoted {
        row.promoted = Some(to_json(promoted, "what came of a word to canaries")?);
        let waiting: Option<PromotionRequest> =
            row.promotion.clone().map(|said| json(said, "a word to canaries")).transpose()?;
        if waiting.is_some_and(|said| said.id.to_string() == promoted.id) {
            row.promotion = None;
            row.cleared = true;
        }
    }
    if let Some(approved) = row.approved.clone() {
        let approved: ApprovedPrune = json(approved, "an approval")?;
        let waits = pending.as_ref().is_some_and(|pending| pending.digest == approved.digest);
        // An agent that has not heard of it yet says nothing about it.
        if said.sequence >= approved.sequence && !waits {
            row.approved = None;
            row.cleared = true;
        }
    }
    Ok(())
}
