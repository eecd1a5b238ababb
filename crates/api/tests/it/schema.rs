//! The schema as text.

use graphql_parser::schema::{Definition, Document, TypeDefinition, parse_schema};

fn names(document: &Document<'_, String>) -> Vec<String> {
    document
        .definitions
        .iter()
        .filter_map(|definition| match definition {
            Definition::TypeDefinition(TypeDefinition::Object(object)) => Some(object.name.clone()),
            Definition::TypeDefinition(TypeDefinition::InputObject(input)) => Some(input.name.clone()),
            Definition::TypeDefinition(TypeDefinition::Enum(it)) => Some(it.name.clone()),
            Definition::TypeDefinition(TypeDefinition::Scalar(scalar)) => Some(scalar.name.clone()),
            _ => None,
        })
        .collect()
}

/// Every word that existing clients compare, as they spell it.
#[test]
fn names_and_enums_are_those_that_clients_know() {
    let sdl = plural_api::sdl();
    let schema = parse_schema::<String>(&sdl).unwrap();
    let names = names(&schema);
    for name in [
        "Cluster",
        "ClusterConnection",
        "ClusterEdge",
        "ServiceDeployment",
        "ServiceDeploymentConnection",
        "ServiceComponent",
        "ServiceComponentChild",
        "ServiceCloneAttributes",
        "ServiceError",
        "ServiceConfiguration",
        "Revision",
        "SyncConfig",
        "NamespaceMetadata",
        "GitRepository",
        "GitRef",
        "Project",
        "User",
        "Group",
        "GroupMember",
        "PolicyBinding",
        "AccessToken",
        "Tag",
        "PageInfo",
        "Json",
        "Map",
        "DateTime",
        "ClusterAttributes",
        "ClusterUpdateAttributes",
        "GitAttributes",
        "GitRefAttributes",
        "ServiceDeploymentAttributes",
        "ServiceUpdateAttributes",
        "ConfigAttributes",
        "SyncConfigAttributes",
        "MetadataAttributes",
        "RbacAttributes",
        "PolicyBindingAttributes",
        "TagAttributes",
        "TagInput",
        "TagQuery",
        "UserAttributes",
        "UserRoleAttributes",
        "GroupAttributes",
        "ProjectAttributes",
        "RootQueryType",
        "RootMutationType",
    ] {
        assert!(names.iter().any(|known| known == name), "{name} is missing");
    }
    for (name, values) in [
        ("ClusterDistro", "AKS EKS GENERIC GKE K3S OPENSHIFT RKE"),
        ("ComponentState", "FAILED PAUSED PENDING RUNNING"),
        ("Conjunction", "AND OR"),
        ("GitHealth", "FAILED PULLABLE"),
        ("AuthMethod", "BASIC SSH"),
        ("ServiceDeploymentStatus", "FAILED HEALTHY PAUSED STALE SYNCED"),
    ] {
        let found = schema.definitions.iter().find_map(|definition| match definition {
            Definition::TypeDefinition(TypeDefinition::Enum(it)) if it.name == name => Some(it),
            _ => None,
        });
        let mut found: Vec<&str> =
            found.expect(name).values.iter().map(|value| value.name.as_str()).collect();
        found.sort_unstable();
        assert_eq!(found.join(" "), values, "{name}");
    }
}

/// What a reader of the schema learns about each thing is never nothing.
#[test]
fn every_type_and_root_field_is_described() {
    let sdl = plural_api::sdl();
    let schema = parse_schema::<String>(&sdl).unwrap();
    for definition in &schema.definitions {
        match definition {
            Definition::TypeDefinition(TypeDefinition::Object(object)) => {
                assert!(object.description.is_some(), "{}", object.name);
                for field in &object.fields {
                    assert!(field.description.is_some(), "{}.{}", object.name, field.name);
                }
            }
            Definition::TypeDefinition(TypeDefinition::InputObject(input)) => {
                assert!(input.description.is_some(), "{}", input.name);
                for field in &input.fields {
                    assert!(field.description.is_some(), "{}.{}", input.name, field.name);
                }
            }
            _ => {}
        }
    }
}
