//! Gateway API.

use serde_json::Value;

use super::{
    Health,
    read::{Condition, View, condition, items, text},
};

pub(super) fn health(kind: &str, view: &View<'_>) -> Option<Health> {
    Some(match kind {
        "GatewayClass" => class(view),
        "Gateway" => gateway(view),
        "HTTPRoute" | "GRPCRoute" | "TCPRoute" | "TLSRoute" | "UDPRoute" => {
            attached(view, &view.status["parents"], "parentRef", "no gateway has reconciled it yet")
        }
        "BackendTLSPolicy" => {
            attached(view, &view.status["ancestors"], "ancestorRef", "no gateway has reconciled it yet")
        }
        "ReferenceGrant" => Health::healthy(),
        _ => return None,
    })
}

fn class(view: &View<'_>) -> Health {
    match view.condition("Accepted") {
        Some(found) if found.is_true() => Health::healthy(),
        Some(found) if found.is_false() => Health::degraded(found.why("no controller accepts it")),
        Some(found) => Health::progressing(found.why("no controller has reconciled it yet")),
        None => Health::progressing("no controller has reconciled it yet"),
    }
}

fn gateway(view: &View<'_>) -> Health {
    for listener in items(&view.status["listeners"]) {
        if let Some(trouble) = refused(&listener["conditions"], &["Accepted", "ResolvedRefs", "Programmed"]) {
            return Health::degraded(format!("listener {}: {trouble}", text(&listener["name"])));
        }
        if let Some(conflict) = condition(&listener["conditions"], "Conflicted").filter(Condition::is_true) {
            let why = conflict.why("it conflicts with another listener");
            return Health::degraded(format!("listener {}: {why}", text(&listener["name"])));
        }
    }
    if let Some(refused) = view.no("Accepted") {
        return Health::degraded(refused.why("no controller accepts it"));
    }
    match view.condition("Programmed") {
        Some(found) if found.is_behind(view) => {
            Health::progressing("its controller has not seen the change yet")
        }
        Some(found) if found.is_true() => Health::healthy(),
        // An address or capacity may still come.
        Some(found) if matches!(found.reason, "AddressNotAssigned" | "Pending" | "NoResources") => {
            Health::progressing(found.why("it is not programmed yet"))
        }
        Some(found) if found.is_false() => Health::degraded(found.why("it cannot be programmed")),
        Some(found) => Health::progressing(found.why("it is not programmed yet")),
        None => Health::progressing("no controller has reconciled it yet"),
    }
}

/// A route or policy, as each gateway that it is attached to sees it.
fn attached(view: &View<'_>, parents: &Value, reference: &str, nobody: &str) -> Health {
    let mut seen = false;
    for parent in items(parents) {
        seen = true;
        let name = text(&parent[reference]["name"]);
        if let Some(trouble) = refused(&parent["conditions"], &["Accepted", "ResolvedRefs"]) {
            return Health::degraded(format!("{name}: {trouble}"));
        }
        match condition(&parent["conditions"], "Accepted") {
            Some(found) if found.is_true() && !found.is_behind(view) => {}
            _ => return Health::progressing(format!("{name} has not accepted it yet")),
        }
        if let Some(partly) = condition(&parent["conditions"], "PartiallyInvalid").filter(Condition::is_true)
        {
            return Health::degraded(format!("{name}: {}", partly.why("a part of it is invalid")));
        }
    }
    if seen { Health::healthy() } else { Health::progressing(nobody) }
}

/// The first of these conditions that is false.
fn refused(conditions: &Value, kinds: &[&str]) -> Option<String> {
    kinds.iter().find_map(|kind| {
        let found = condition(conditions, kind).filter(Condition::is_false)?;
        (found.reason != "Pending").then(|| found.why(&format!("{kind} is False")))
    })
}
