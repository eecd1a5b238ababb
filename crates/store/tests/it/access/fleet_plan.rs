//! Plans of commits: who may do what.

use plural_app::fleet_plan::{FleetAsked, FleetPlanFilter, FleetPlanStore as _, FleetReached};
use plural_core::fleet_plan::{
    FleetFound, FleetPartState, FleetPlan, FleetPlanAsk, FleetPlanPart, PlanCounts,
};
use plural_core::ids::FleetPartId;
use plural_core::{Error, PageArgs, Result};

use super::pull_request::opened;
use super::{Case, World, found, fresh};

pub(super) fn cases() -> Vec<Case> {
    vec![
        case!("get::<FleetPlan>", "uhaaaa", w, c => async { w.door.app.get::<FleetPlan>(c, &planned(w).await.0.id).await }),
        case!("get_many::<FleetPlan>", "uhaaaa", w, c => async { let id = planned(w).await.0.id; found(w.door.app.get_many::<FleetPlan>(c, &[id]).await?.contains_key(&id)) }),
        case!("list::<FleetPlan>", "uaaaaa", w, c => w.door.app.list::<FleetPlan>(c, &FleetPlanFilter::default(), &PageArgs::default())),
        case!("fleet_plan_create", "uhdaaa", w, c => w.door.app.fleet_plan_create(c, ask(w))),
        // It does not wait for a release: whoever may release hears that.
        case!("fleet_plan_release", "uhdaaa", w, c => async { no_conflict(w.door.app.fleet_plan_release(c, planned(w).await.0.id, "main").await) }),
        // It has no plan: whoever may ask for another one hears that.
        case!("fleet_plans_again", "uhdaaa", w, c => async { let id = opened(w).await.id; no_plan(w.door.app.fleet_plans_again(c, id).await) }),
        case!("fleet_plan_parts", "uhaaaa", w, c => async { w.door.app.fleet_plan_parts(c, planned(w).await.0.id).await }),
        case!("fleet_plan_part", "uhaaaa", w, c => async { w.door.app.fleet_plan_part(c, planned(w).await.1).await }),
    ]
}

fn no_conflict(released: Result<FleetPlan>) -> Result<()> {
    match released {
        Err(Error::Conflict { .. }) => Ok(()),
        released => released.map(drop),
    }
}

fn no_plan(again: Result<Vec<FleetPlan>>) -> Result<()> {
    match again {
        Err(Error::Conflict { .. }) => Ok(()),
        again => again.map(drop),
    }
}

fn ask(w: &World<'_>) -> FleetPlanAsk {
    FleetPlanAsk {
        repository_id: w.repository.id,
        reference: fresh("head"),
        base: None,
        pull_request_id: None,
    }
}

/// A plan with a part of the world's service.
async fn planned(w: &World<'_>) -> (FleetPlan, FleetPartId) {
    let plan = w.door.app.fleet_plan_create(&w.door.admin, ask(w)).await.unwrap();
    let id = FleetPartId::new();
    let part = FleetPlanPart {
        id,
        plan_id: plan.id,
        service_id: w.service.id,
        cluster_id: w.cluster.cluster.id,
        service: w.service.name.to_string(),
        cluster: w.cluster.cluster.handle.to_string(),
        project_id: w.project.id,
        state: FleetPartState::Away,
        counts: PlanCounts::default(),
        kinds: Vec::new(),
        error: None,
        answered_at: None,
    };
    let at = w.door.app.now();
    let found = FleetFound {
        sha: "c0ffee".to_owned(),
        message: "one".to_owned(),
        base_sha: None,
        is_merged: false,
        untouched: 0,
        composed: 0,
        omitted: 0,
        deadline: at,
        about: None,
        since: None,
    };
    let reached = vec![FleetReached { part, candidate: None }];
    let asked = FleetAsked { found, reached, stacks: Vec::new() };
    w.door.database.fleet_plan_asked(plan.id, &asked, &[], at).await.unwrap();
    (plan, id)
}
