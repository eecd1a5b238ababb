//! Managed namespaces: who gets what from their root fields.

use serde_json::json;

use super::table::{Line, MEMBERS_READ, MEMBERS_WRITE, USERS};
use super::world::namespace_attributes;

pub(super) const ROWS: &[Line] = &[
    Line {
        field: "managedNamespace",
        expected: MEMBERS_READ,
        document: "query ($id: ID!) { managedNamespace(id: $id) { id name service { namespace } instances { edges { node { serviceId } } } instanceCounts { all } } }",
        variables: |w| json!({"id": w.managed["id"]}),
    },
    Line {
        field: "managedNamespaces",
        expected: USERS,
        document: "{ managedNamespaces { edges { node { id } } } }",
        variables: |_| json!({}),
    },
    Line {
        field: "clusterManagedNamespaces",
        // Only clusters may ask, with their deploy tokens.
        expected: ["401", "FORBIDDEN", "FORBIDDEN", "FORBIDDEN", "FORBIDDEN"],
        document: "{ clusterManagedNamespaces { edges { node { id } } } }",
        variables: |_| json!({}),
    },
    Line {
        field: "createManagedNamespace",
        expected: MEMBERS_WRITE,
        document: "mutation ($a: ManagedNamespaceAttributes!) { createManagedNamespace(attributes: $a) { id } }",
        variables: |w| json!({"a": namespace_attributes(&format!("new-{}", w.name), &w.shared)}),
    },
    Line {
        field: "updateManagedNamespace",
        expected: MEMBERS_WRITE,
        document: "mutation ($id: ID!, $a: ManagedNamespaceAttributes!) { updateManagedNamespace(id: $id, attributes: $a) { id } }",
        variables: |w| json!({"id": w.managed["id"], "a": namespace_attributes(&w.managed_name, &w.shared)}),
    },
    Line {
        field: "deleteManagedNamespace",
        expected: MEMBERS_WRITE,
        document: "mutation ($id: ID!) { deleteManagedNamespace(id: $id) { id } }",
        variables: |w| json!({"id": w.managed["id"]}),
    },
];
