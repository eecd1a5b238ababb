//! What neither the schema nor the documents say: which Rust type a scalar has, what is a secret, and which types are
//! written by hand.

/// Scalars of the schema and their Rust types. Another scalar is an error.
pub(crate) const SCALARS: &[(&str, &str)] = &[
    ("Boolean", "bool"),
    ("DateTime", "DateTime<Utc>"),
    ("Float", "f64"),
    ("ID", "String"),
    ("Int", "i64"),
    // JSON as text: only inputs have it.
    ("Json", "String"),
    ("Map", "Map<String, Value>"),
    ("String", "String"),
];

/// Texts that are secret wherever a field, an argument or a variable has this name.
pub(crate) const SECRET_NAMES: &[&str] = &[
    "applicationCredentials",
    "clientSecret",
    "currentPassword",
    "deployToken",
    "hmac",
    "joinToken",
    "jwt",
    "passphrase",
    "password",
    "privateKey",
    "secret",
    "secretAccessKey",
    "serviceGateUrl",
    "signingPrivateKey",
    "sshPassphrase",
    "sshPrivateKey",
    "token",
    "webhookSecret",
];

/// Texts that are secret in one type only: `Type.field`.
pub(crate) const SECRET_FIELDS: &[&str] = &[
    "AnsibleConfiguration.privateKeyFile",
    "AnsibleConfigurationAttributes.privateKeyFile",
    "ConfigAttributes.value",
    "HelmConfigAttributes.values",
    "HelmMinimal.values",
    "HelmMinimalAttributes.values",
    "HelmSpec.values",
    "HelmValue.value",
    "HelmValueAttributes.value",
    "HttpProxyAttributes.url",
    "KubeconfigAttributes.raw",
    "ServiceConfiguration.value",
];

/// Maps that hold nothing but texts; null is an empty one.
pub(crate) const TEXT_MAPS: &[&str] =
    &["ClusterTarget.tags", "ManagedNamespace.annotations", "ManagedNamespace.labels"];

/// Lists that are absent for a reason. Null is an empty list elsewhere.
pub(crate) const NULLABLE_LISTS: &[&str] = &["ManagedNamespace.pullSecrets"];

/// Root fields that answer null without an error. Null is "not found" elsewhere.
pub(crate) const NULLABLE_ROOTS: &[&str] = &["servicePlan"];

/// A fragment or an input whose Rust type is not generated for it.
pub(crate) struct ByHand {
    /// Name of the fragment or of the input.
    pub(crate) name: &'static str,
    /// Name of the type, in `plural_wire`.
    pub(crate) rust: &'static str,
    /// It is compared and written, as a generated shape without secrets is.
    pub(crate) open: bool,
}

const fn by_hand(name: &'static str, rust: &'static str) -> ByHand {
    ByHand { name, rust, open: true }
}

const fn sealed(name: &'static str, rust: &'static str) -> ByHand {
    ByHand { name, rust, open: false }
}

/// Settings documents (`plural-specs`), what users write in files, and shapes that are read and sent.
pub(crate) const BY_HAND: &[ByHand] = &[
    by_hand("ComponentRef", "ObjectRef"),
    by_hand("DiffNormalizerAttributes", "DiffNormalizer"),
    sealed("GlobalServiceAttributes", "GlobalServiceAttributes"),
    sealed("HelmConfig", "HelmConfigAttributes"),
    sealed("HelmConfigAttributes", "HelmConfigAttributes"),
    by_hand("Kustomize", "KustomizeAttributes"),
    by_hand("KustomizeAttributes", "KustomizeAttributes"),
    sealed("ManagedNamespaceAttributes", "ManagedNamespaceAttributes"),
    by_hand("ObjectRef", "ObjectRef"),
    by_hand("ObjectRefAttributes", "ObjectRef"),
    by_hand("ProjectLimitsAttributes", "ProjectLimits"),
    sealed("RendererAttributes", "RendererAttributes"),
    by_hand("ServiceSourceAttributes", "ServiceSourceAttributes"),
    sealed("StackAttributes", "StackAttributes"),
    sealed("StackDefinitionAttributes", "StackDefinitionAttributes"),
    by_hand("SyncConfig", "SyncConfig"),
    by_hand("SyncConfigAttributes", "SyncConfigPatch"),
    by_hand("Tag", "Tag"),
    by_hand("TagAttributes", "Tag"),
    by_hand("TagInput", "Tag"),
];

/// Fields that hold the shape of a spread fragment; otherwise they are called as the fragment.
pub(crate) const SPREADS: &[(&str, &str)] = &[
    ("ClusterRef", "cluster"),
    ("InfrastructureStack", "stack"),
    ("ServiceComponent", "component"),
    ("ServiceDeployment", "service"),
    ("StackRun", "run"),
];

/// Names that Rust keeps for itself.
pub(crate) const RENAMED: &[(&str, &str)] = &[("ref", "reference"), ("type", "kind")];

/// Arguments of every list, which the schema does not describe.
pub(crate) const PAGING: &[(&str, &str)] = &[
    ("after", "The page after this cursor."),
    ("before", "The page before this cursor."),
    ("first", "Items of the page, from the front."),
    ("last", "Items of the page, from the end."),
];

/// Fields that several inputs share, as one struct that is written by hand.
pub(crate) struct Part {
    /// The inputs.
    pub(crate) inputs: &'static [&'static str],
    /// The fields of each.
    pub(crate) fields: &'static [&'static str],
    /// The field that they are in.
    pub(crate) name: &'static str,
    /// The struct.
    pub(crate) rust: &'static str,
    /// What they are.
    pub(crate) docs: &'static str,
}

/// Parts of inputs.
pub(crate) const PARTS: &[Part] = &[
    Part {
        inputs: &["ServiceDeploymentAttributes", "ServiceUpdateAttributes"],
        fields: &["helm", "kustomize", "renderers", "sources"],
        name: "rendering",
        rust: "RenderingAttributes",
        docs: "How it becomes objects.",
    },
    Part {
        inputs: &["ServiceDeploymentAttributes", "ServiceUpdateAttributes"],
        fields: &["contextBindings", "dependencies", "imports"],
        name: "links",
        rust: "LinksAttributes",
        docs: "What it is tied to.",
    },
];

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use graphql_parser::schema::{Definition, TypeDefinition, parse_schema};

    use super::*;
    use crate::schema::plain;

    const SCHEMA: &str = include_str!("../../../docs/reference/schema.graphql");

    /// Type and name of every field and argument that is one text.
    struct Schema {
        /// `Type.field`; of arguments, `Type.field(argument)`.
        fields: BTreeSet<String>,
        /// Those that are one text, with the last name alone.
        texts: Vec<(String, String)>,
        types: BTreeSet<String>,
    }

    fn schema() -> Schema {
        let mut schema = Schema { fields: BTreeSet::new(), texts: Vec::new(), types: BTreeSet::new() };
        for definition in parse_schema::<String>(SCHEMA).unwrap().into_static().definitions {
            let Definition::TypeDefinition(definition) = definition else { continue };
            let mut found = Vec::new();
            match &definition {
                TypeDefinition::Object(object) => {
                    schema.types.insert(object.name.clone());
                    for field in &object.fields {
                        let at = format!("{}.{}", object.name, field.name);
                        for argument in &field.arguments {
                            let at = format!("{at}({})", argument.name);
                            found.push((at, argument.name.clone(), &argument.value_type));
                        }
                        found.push((at, field.name.clone(), &field.field_type));
                    }
                }
                TypeDefinition::InputObject(input) => {
                    schema.types.insert(input.name.clone());
                    for field in &input.fields {
                        let at = format!("{}.{}", input.name, field.name);
                        found.push((at, field.name.clone(), &field.value_type));
                    }
                }
                TypeDefinition::Scalar(it) => {
                    schema.types.insert(it.name.clone());
                }
                TypeDefinition::Enum(_) | TypeDefinition::Interface(_) | TypeDefinition::Union(_) => {}
            }
            for (at, name, ty) in found {
                if plain(ty).is_some_and(|ty| ty.name == "String" && !ty.list) {
                    schema.texts.push((at.clone(), name));
                }
                schema.fields.insert(at);
            }
        }
        schema
    }

    #[test]
    fn what_is_called_as_secrets_are_is_secret() {
        let secret = |at: &str, name: &str| SECRET_NAMES.contains(&name) || SECRET_FIELDS.contains(&at);
        let words = ["token", "password", "secret", "passphrase", "privatekey", "jwt", "credential"];
        let open: Vec<String> = schema()
            .texts
            .into_iter()
            .filter(|(at, name)| {
                let lower = name.to_lowercase();
                words.iter().any(|word| lower.contains(word)) && !secret(at, name)
            })
            .map(|(at, _)| at)
            .collect();
        assert!(open.is_empty(), "put them into SECRET_NAMES or SECRET_FIELDS: {open:?}");
    }

    #[test]
    fn every_line_of_the_tables_is_of_the_schema() {
        let schema = schema();
        for field in SECRET_FIELDS.iter().chain(TEXT_MAPS).chain(NULLABLE_LISTS) {
            assert!(schema.fields.contains(*field), "{field}");
        }
        for name in SECRET_NAMES {
            assert!(schema.texts.iter().any(|(_, known)| known == name), "{name}");
        }
        for root in NULLABLE_ROOTS {
            assert!(schema.fields.contains(&format!("RootQueryType.{root}")), "{root}");
        }
        let built_in = ["Boolean", "Float", "ID", "Int", "String"];
        for (scalar, _) in SCALARS {
            assert!(built_in.contains(scalar) || schema.types.contains(*scalar), "{scalar}");
        }
        for ByHand { name, .. } in BY_HAND.iter().filter(|it| it.name.ends_with("Attributes")) {
            assert!(schema.types.contains(*name), "{name}");
        }
    }
}
