//! Personas: who gets what from their root fields.

use serde_json::json;

use super::table::{ADMINS, Line};

pub(super) const ROWS: &[Line] = &[
    Line {
        field: "persona",
        expected: ADMINS,
        document: "query ($id: ID!) { persona(id: $id) { id configuration { all } } }",
        variables: |w| json!({"id": w.persona["id"]}),
    },
    Line {
        field: "personas",
        expected: ADMINS,
        document: "{ personas { edges { node { id bindings { group { id } } } } } }",
        variables: |_| json!({}),
    },
    Line {
        field: "createPersona",
        expected: ADMINS,
        document: "mutation ($a: PersonaAttributes!) { createPersona(attributes: $a) { id } }",
        variables: |w| json!({"a": {"name": format!("new-{}", w.name)}}),
    },
    Line {
        field: "updatePersona",
        expected: ADMINS,
        document: "mutation ($id: ID!, $a: PersonaAttributes!) { updatePersona(id: $id, attributes: $a) { id } }",
        variables: |w| json!({"id": w.persona["id"], "a": {"configuration": {"all": true}}}),
    },
    Line {
        field: "deletePersona",
        expected: ADMINS,
        document: "mutation ($id: ID!) { deletePersona(id: $id) { id } }",
        variables: |w| json!({"id": w.persona["id"]}),
    },
];
