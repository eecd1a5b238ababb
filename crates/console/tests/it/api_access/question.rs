//! Questions about access: who gets what from their root fields.

use serde_json::{Value, json};

use super::table::{Line, MEMBERS_WRITE, USERS};
use super::world::World;

pub(super) const ROWS: &[Line] = &[
    // Whoever is signed in asks for themselves.
    Line {
        field: "accessDecision",
        expected: USERS,
        document: "query ($t: String!) { accessDecision(verb: \"delete\", thing: $t) { allowed reason } }",
        variables: cluster,
    },
    // Administrators of the installation ask for others.
    Line {
        field: "accessDecision",
        expected: super::table::ADMINS,
        document: "query ($t: String!, $e: String) { accessDecision(verb: \"delete\", thing: $t, email: $e) { allowed } }",
        variables: |w| json!({"t": cluster(w)["t"], "e": w.email}),
    },
    Line {
        field: "accessHolders",
        expected: MEMBERS_WRITE,
        document: "query ($t: String!) { accessHolders(verb: \"read\", thing: $t) { role thing user { id } group { id } } }",
        variables: cluster,
    },
];

fn cluster(w: &World) -> Value {
    json!({"t": format!("cluster/{}", w.cluster["id"].as_str().unwrap_or_default())})
}
