//! Things that are made or changed together with bindings, by a user who may write and may not decide who else may. The table
//! of root fields has no such user: its owner may do both.

use std::collections::{BTreeMap, BTreeSet};

use graphql_parser::schema::{Definition, Type, TypeDefinition, parse_schema};
use serde_json::{Value, json};

use super::world::World;
use crate::api_server::TestServer;

struct Case {
    field: &'static str,
    /// What the writer gets without bindings, and with them.
    expected: [&'static str; 2],
    document: &'static str,
    /// The variables without bindings, whose `a` takes them; the text is a name that nothing has.
    variables: fn(&World, &str) -> Value,
}

const WRITERS_WRITE: [&str; 2] = ["OK", "FORBIDDEN"];
const NEITHER: [&str; 2] = ["FORBIDDEN", "FORBIDDEN"];

const CASES: [Case; 18] = [
    Case {
        field: "createProject",
        expected: NEITHER,
        document: "mutation ($a: ProjectAttributes!) { createProject(attributes: $a) { id } }",
        variables: |_, name| json!({"a": {"name": name}}),
    },
    Case {
        field: "updateProject",
        expected: WRITERS_WRITE,
        document: "mutation ($id: ID!, $a: ProjectAttributes!) { updateProject(id: $id, attributes: $a) { id } }",
        variables: |w, name| json!({"id": w.project["id"], "a": {"name": name}}),
    },
    Case {
        field: "createCluster",
        expected: WRITERS_WRITE,
        document: "mutation ($a: ClusterAttributes!) { createCluster(attributes: $a) { id } }",
        variables: |w, name| json!({"a": {"name": name, "projectId": w.shared}}),
    },
    Case {
        field: "updateCluster",
        expected: WRITERS_WRITE,
        document: "mutation ($id: ID!, $a: ClusterUpdateAttributes!) { updateCluster(id: $id, attributes: $a) { id } }",
        variables: |w, _| json!({"id": w.cluster["id"], "a": {"protect": false}}),
    },
    Case {
        field: "createServiceDeployment",
        expected: WRITERS_WRITE,
        document: "mutation ($id: ID, $a: ServiceDeploymentAttributes!) { createServiceDeployment(clusterId: $id, attributes: $a) { id } }",
        variables: |w, name| json!({"id": w.cluster["id"], "a": {"name": name, "namespace": "api", "repositoryId": w.repository["id"], "git": {"ref": "main", "folder": ""}}}),
    },
    Case {
        field: "updateServiceDeployment",
        expected: WRITERS_WRITE,
        document: "mutation ($id: ID, $a: ServiceUpdateAttributes!) { updateServiceDeployment(id: $id, attributes: $a) { id } }",
        variables: |w, _| json!({"id": w.service["id"], "a": {"dryRun": true}}),
    },
    Case {
        field: "createSavedView",
        // Whoever makes it owns it.
        expected: ["OK", "OK"],
        document: "mutation ($a: SavedViewAttributes!) { createSavedView(attributes: $a) { id } }",
        variables: |_, name| json!({"a": {"name": name, "page": "services", "query": ""}}),
    },
    Case {
        field: "updateSavedView",
        expected: WRITERS_WRITE,
        document: "mutation ($id: ID!, $a: SavedViewUpdateAttributes!) { updateSavedView(id: $id, attributes: $a) { id } }",
        variables: |w, _| json!({"id": w.view["id"], "a": {"query": "q=a"}}),
    },
    Case {
        field: "createStack",
        expected: WRITERS_WRITE,
        document: "mutation ($a: StackAttributes!) { createStack(attributes: $a) { id } }",
        variables: |w, name| json!({"a": {"name": name, "type": "TERRAFORM", "projectId": w.shared}}),
    },
    Case {
        field: "updateStack",
        expected: WRITERS_WRITE,
        document: "mutation ($id: ID!, $a: StackAttributes!) { updateStack(id: $id, attributes: $a) { id } }",
        variables: |w, _| json!({"id": w.stack["id"], "a": {"protect": false}}),
    },
    Case {
        field: "createPrAutomation",
        expected: WRITERS_WRITE,
        document: "mutation ($a: PrAutomationAttributes!) { createPrAutomation(attributes: $a) { id } }",
        variables: |w, name| json!({"a": {"name": name, "title": "Add", "message": "Adds", "projectId": w.shared, "connectionId": w.automation["connection"]}}),
    },
    Case {
        field: "updatePrAutomation",
        expected: WRITERS_WRITE,
        document: "mutation ($id: ID!, $a: PrAutomationAttributes!) { updatePrAutomation(id: $id, attributes: $a) { id } }",
        variables: |w, _| json!({"id": w.automation["id"], "a": {"documentation": "More"}}),
    },
    Case {
        field: "createServiceAccount",
        expected: NEITHER,
        document: "mutation ($a: ServiceAccountAttributes!) { createServiceAccount(attributes: $a) { id } }",
        variables: |w, name| json!({"a": {"name": name, "projectId": w.shared}}),
    },
    Case {
        field: "updateServiceAccount",
        expected: NEITHER,
        document: "mutation ($id: ID!, $a: ServiceAccountAttributes!) { updateServiceAccount(id: $id, attributes: $a) { id } }",
        variables: |w, name| json!({"id": w.machine["id"], "a": {"name": name}}),
    },
    // They decide nothing, and are for administrators of the installation all the same.
    Case {
        field: "createPersona",
        expected: NEITHER,
        document: "mutation ($a: PersonaAttributes!) { createPersona(attributes: $a) { id } }",
        variables: |_, name| json!({"a": {"name": name}}),
    },
    Case {
        field: "updatePersona",
        expected: NEITHER,
        document: "mutation ($id: ID!, $a: PersonaAttributes!) { updatePersona(id: $id, attributes: $a) { id } }",
        variables: |w, name| json!({"id": w.persona["id"], "a": {"name": name}}),
    },
    Case {
        field: "changeBindings",
        // It is about nothing else.
        expected: NEITHER,
        document: "mutation ($id: ID, $u: ID!) { changeBindings(role: WRITE, remove: [{userId: $u}], clusterId: $id) }",
        variables: |w, _| json!({"id": w.cluster["id"], "u": w.user["id"]}),
    },
    Case {
        field: "updateRbac",
        // It is about nothing else.
        expected: NEITHER,
        document: "mutation ($id: ID, $a: RbacAttributes!) { updateRbac(rbac: $a, clusterId: $id) }",
        variables: |w, _| json!({"id": w.cluster["id"], "a": {"writeBindings": []}}),
    },
];

#[tokio::test]
async fn who_may_write_decides_not_who_else_may() {
    let t = TestServer::start().await;
    let writer = t.admin.add_user("writer@example.com").await;
    let world = World::new(&t, 1).await;
    let writes = json!({"writeBindings": [{"userId": writer.id}]});
    for project in [json!(t.project), world.project["id"].clone()] {
        let document = "mutation ($id: ID, $a: RbacAttributes!) { updateRbac(rbac: $a, projectId: $id) }";
        t.admin.data(document, json!({"id": project, "a": writes})).await;
    }
    let document = "mutation ($id: ID!, $a: SavedViewUpdateAttributes!) { updateSavedView(id: $id, attributes: $a) { id } }";
    t.admin.data(document, json!({"id": world.view["id"], "a": writes})).await;

    let mut wrong = Vec::new();
    for Case { field, expected: [free, bound], document, variables } in CASES {
        for (name, expected) in [("bound", bound), ("free", free)] {
            let mut variables = variables(&world, name);
            if name == "bound" {
                let bindings = match field {
                    "createServiceAccount" | "updateServiceAccount" => "assumeBindings",
                    "createPersona" | "updatePersona" => "bindings",
                    _ => "readBindings",
                };
                variables["a"][bindings] = json!([{"userId": t.reader.id}]);
            }
            let answer = writer.ask(document, variables).await;
            if answer.outcome() != expected {
                wrong.push(format!("{field}, {name}: expected {expected}, got {answer:?}"));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    t.stop().await;
}

#[test]
fn whatever_takes_bindings_has_a_case() {
    let sdl = plural_api::sdl();
    let (mut inputs, mut mutations) = (BTreeMap::new(), BTreeMap::new());
    for definition in parse_schema::<String>(&sdl).unwrap().definitions {
        match definition {
            Definition::TypeDefinition(TypeDefinition::InputObject(input)) => {
                let of: BTreeSet<String> =
                    input.fields.iter().map(|field| named(&field.value_type)).collect();
                inputs.insert(input.name, of);
            }
            Definition::TypeDefinition(TypeDefinition::Object(object))
                if object.name == "RootMutationType" =>
            {
                for field in object.fields {
                    let of: BTreeSet<String> =
                        field.arguments.iter().map(|given| named(&given.value_type)).collect();
                    mutations.insert(field.name, of);
                }
            }
            _ => {}
        }
    }
    // Inputs that hold bindings, or others that do.
    let mut holders = BTreeSet::from(["PolicyBindingAttributes".to_owned()]);
    loop {
        let more = inputs.iter().filter(|(name, of)| !holders.contains(*name) && !of.is_disjoint(&holders));
        let more: Vec<String> = more.map(|(name, _)| name.clone()).collect();
        if more.is_empty() {
            break;
        }
        holders.extend(more);
    }
    let takes = mutations.iter().filter(|(_, of)| !of.is_disjoint(&holders)).map(|(name, _)| name.as_str());
    let covered: BTreeSet<&str> = CASES.iter().map(|case| case.field).collect();
    assert_eq!(takes.collect::<BTreeSet<_>>(), covered);
    for case in &CASES {
        assert!(case.document.contains(case.field), "{}", case.field);
    }
}

fn named(of: &Type<'_, String>) -> String {
    match of {
        Type::NamedType(name) => name.clone(),
        Type::ListType(of) | Type::NonNullType(of) => named(of),
    }
}
