//! How much an answer to a document may be: lists count as often as they have items.
//!
//! The walk expands fragments, which is why it comes after the document was measured.

use async_graphql::{
    Variables,
    parser::types::{ExecutableDocument, Field, OperationType, Selection, SelectionSet},
};
use async_graphql_value::{ConstValue, Value};

use super::{
    Refusal,
    shape::Shapes,
    size::{VariableSizes, value_size},
};

/// The most that a document may weigh: nodes of its answer, if pages are full and other lists are as long as they
/// usually are. The heaviest list of known clients weighs a tenth of it, and half
/// of it with the largest pages.
pub(crate) const MOST_WEIGHT: u64 = 200_000;
/// Rows of a page when the document names no number, and the most there are.
const PAGE: (u64, u64) = (100, 500);
/// How long a list without pages usually is.
const USUAL_LENGTH: u64 = 10;
/// Lists without pages that are usually longer, or shorter.
const LONGER: [(&str, &str, u64); 19] = [
    ("ClusterStatus", "conditions", 1),
    ("FleetPlanPartPlan", "objects", 50),
    ("FleetPlanReach", "parts", 50),
    ("Group", "members", 50),
    ("ServiceContext", "imports", 5),
    ("ServiceDeployment", "components", 50),
    ("RootQueryType", "stackStateDiff", 100),
    ("RootQueryType", "stackTags", 100),
    ("ServicePlan", "objects", 50),
    ("ServicePreview", "objects", 50),
    ("Cluster", "apiDeprecations", 50),
    ("ClusterFacets", "versions", 20),
    ("ClusterFacets", "projects", 100),
    ("ClusterFacets", "tags", 100),
    ("ServiceFacets", "clusters", 100),
    ("ServiceFacets", "projects", 100),
    ("StackGraph", "stacks", 100),
    ("StackGraph", "edges", 100),
    ("StackState", "state", 100),
];
/// Types that nothing has: fields of them are null.
const NOTHING: [&str; 7] = [
    "ClusterProvider",
    "ComponentContent",
    "ContainerSpec",
    "Flow",
    "NodePool",
    "ProviderCredential",
    "Taint",
];
/// Fields that cost more than a look-up, or hold up to a megabyte that is read before it can be counted.
const COSTLY: [(&str, &str, u64); 42] = [
    ("FleetPlan", "reach", 100),
    ("RootQueryType", "auditVerify", 2_000),
    ("RootQueryType", "healthChanges", 500),
    ("RootQueryType", "revisions", 500),
    ("RootQueryType", "serviceStatuses", 4_000),
    ("ClusterFacets", "states", 1_000),
    ("ClusterFacets", "versions", 1_000),
    ("ClusterFacets", "distros", 1_000),
    ("ClusterFacets", "projects", 1_000),
    ("ClusterFacets", "tags", 1_000),
    ("ServiceFacets", "statuses", 4_000),
    ("ServiceFacets", "clusters", 4_000),
    ("ServiceFacets", "projects", 4_000),
    ("RootQueryType", "servicePreview", 2_000),
    ("RootQueryType", "serviceTarball", 2_000),
    ("RootQueryType", "stackGraph", 1_000),
    ("RootQueryType", "stackState", 2_000),
    ("RootQueryType", "stackStateDiff", 4_000),
    ("RootQueryType", "stackTags", 1_000),
    ("GlobalService", "instanceCounts", 50),
    ("ManagedNamespace", "instanceCounts", 50),
    ("InfrastructureStack", "dependents", 100),
    ("InfrastructureStack", "stateVersions", 100),
    ("InfrastructureStack", "state", 300),
    ("InfrastructureStack", "environment", 50),
    ("InfrastructureStack", "files", 50),
    ("InfrastructureStack", "output", 50),
    ("InfrastructureStack", "pullRequests", 100),
    ("ServiceImport", "outputs", 50),
    ("Project", "stackRules", 50),
    ("Project", "stackSettings", 50),
    ("StackRun", "output", 50),
    ("StackRun", "violations", 100),
    ("StackRun", "cost", 100),
    ("StackRunPlan", "text", 500),
    ("StackState", "plan", 400),
    ("StackState", "planJson", 400),
    ("RunStep", "logs", 50),
    ("ServiceDeployment", "components", 300),
    ("ServiceDeployment", "configuration", 500),
    ("ServiceContextEdge", "node", 300),
    ("ServicePlanEdge", "node", 300),
];
/// How often the same type may stand on one way from the root to a leaf.
const MOST_OF_ONE_TYPE: usize = 3;
/// The same of those that lead from one to the other for ever.
const MOST_OF_PEOPLE: usize = 2;
const PEOPLE: [&str; 2] = ["User", "Group"];
/// Bytes of the arguments of a field that is no root field: it is asked once for each row.
const LARGEST_NESTED_ARGUMENTS: u64 = 4 << 10;
/// `__schema` and `__type` of one document, and the selections below them.
const MOST_INTROSPECTIONS: usize = 4;
const MOST_INTROSPECTED: u64 = 400;
/// `__typename` in one selection set, with fragments expanded. Each is one value of the answer under one name, however
/// often it stands there.
const MOST_TYPENAMES: usize = 8;
/// About as many fields and arguments as the schema has.
const INTROSPECTED_ROWS: u64 = 400;

/// Refuses what is too heavy, or goes round in circles. Answers the number of root fields.
///
/// # Errors
/// [`Refusal`] with the limit.
pub(super) fn check(
    document: &ExecutableDocument,
    selections: &SelectionSet,
    kind: OperationType,
    variables: &Variables,
    sizes: &VariableSizes<'_>,
) -> Result<usize, Refusal> {
    let (weight, roots) = weigh(document, selections, kind, variables, sizes)?;
    if weight > MOST_WEIGHT {
        return Err(Refusal::new(format!(
            "the document is too complex: its answer may have {weight} values, at most {MOST_WEIGHT} are allowed. \
             Ask for smaller pages (`first`) or for fewer nested lists"
        )));
    }
    Ok(roots)
}

/// The weight of an operation and the number of its root fields.
///
/// # Errors
/// [`Refusal`] for limits other than the weight.
pub(super) fn weigh(
    document: &ExecutableDocument,
    selections: &SelectionSet,
    kind: OperationType,
    variables: &Variables,
    sizes: &VariableSizes<'_>,
) -> Result<(u64, usize), Refusal> {
    let root = match kind {
        OperationType::Query => "RootQueryType",
        OperationType::Mutation => "RootMutationType",
        OperationType::Subscription => "RootSubscriptionType",
    };
    let mut walk = Walk {
        document,
        shapes: Shapes::of_schema(),
        variables,
        sizes,
        path: Vec::new(),
        roots: 0,
        introspections: 0,
        introspected: 0,
    };
    let weight = walk.selections(selections, Parent { of: Some(root), rows: 1, is_root: true })?;
    Ok((weight, walk.roots))
}

/// Refuses what has more `__typename` than anybody needs: the library answers it without telling anybody, so it is in no
/// budget. Answers how many the set has.
///
/// # Errors
/// [`Refusal`] for one with an alias below the root, and for too many of them in one set.
pub(super) fn typenames(
    document: &ExecutableDocument,
    set: &SelectionSet,
    is_root: bool,
) -> Result<usize, Refusal> {
    let mut count = 0;
    for item in &set.items {
        count += match &item.node {
            Selection::Field(field) if field.node.name.node.as_str() == "__typename" => {
                if !is_root && field.node.alias.is_some() {
                    return Err(Refusal::new("`__typename` has no alias below the root"));
                }
                1
            }
            Selection::Field(field) => {
                typenames(document, &field.node.selection_set.node, false)?;
                0
            }
            Selection::InlineFragment(fragment) => {
                typenames(document, &fragment.node.selection_set.node, is_root)?
            }
            Selection::FragmentSpread(spread) => {
                match document.fragments.get(&spread.node.fragment_name.node) {
                    Some(fragment) => typenames(document, &fragment.node.selection_set.node, is_root)?,
                    None => 0,
                }
            }
        };
    }
    // Those of the root count as root fields.
    if !is_root && count > MOST_TYPENAMES {
        return Err(Refusal::new(format!(
            "a selection set may have `__typename` at most {MOST_TYPENAMES} times, fragments expanded"
        )));
    }
    Ok(count)
}

struct Walk<'a> {
    document: &'a ExecutableDocument,
    shapes: &'static Shapes,
    variables: &'a Variables,
    sizes: &'a VariableSizes<'a>,
    /// Types from the root to here.
    path: Vec<&'static str>,
    roots: usize,
    introspections: usize,
    introspected: u64,
}

/// What a selection set belongs to.
#[derive(Clone, Copy)]
struct Parent {
    /// Its type; absent below a field that the schema does not have, which validation refuses.
    of: Option<&'static str>,
    /// Rows of the page, if it is a connection.
    rows: u64,
    is_root: bool,
}

impl Walk<'_> {
    fn selections(&mut self, set: &SelectionSet, parent: Parent) -> Result<u64, Refusal> {
        let mut weight = 0_u64;
        for item in &set.items {
            let one = match &item.node {
                Selection::Field(field) => self.field(&field.node, parent)?,
                Selection::InlineFragment(fragment) => {
                    self.selections(&fragment.node.selection_set.node, parent)?
                }
                Selection::FragmentSpread(spread) => {
                    match self.document.fragments.get(&spread.node.fragment_name.node) {
                        Some(fragment) => self.selections(&fragment.node.selection_set.node, parent)?,
                        None => 1,
                    }
                }
            };
            weight = weight.saturating_add(one);
        }
        Ok(weight)
    }

    fn field(&mut self, field: &Field, parent: Parent) -> Result<u64, Refusal> {
        let name = field.name.node.as_str();
        if parent.is_root {
            self.roots += 1;
        } else {
            self.nested_arguments(field)?;
        }
        match name {
            "__typename" => return Ok(1),
            "__schema" | "__type" if parent.is_root => return self.introspection(field),
            _ => {}
        }
        let below = &field.selection_set.node;
        let shape = parent.of.and_then(|of| Some((of, self.shapes.field(of, name)?)));
        let Some((of, shape)) = shape else {
            let unknown = Parent { of: None, rows: 1, is_root: false };
            return Ok(self.selections(below, unknown)?.saturating_add(1));
        };
        let cost = listed(&COSTLY, of, name).unwrap_or(1);
        if !self.shapes.is_object(&shape.of) {
            return Ok(cost);
        }
        self.enter(&shape.of)?;
        let rows = if shape.paged { self.page_size(field) } else { 1 };
        let times = match (shape.list, name) {
            _ if NOTHING.contains(&shape.of.as_str()) => 0,
            (true, "edges") => parent.rows,
            (true, _) => listed(&LONGER, of, name).unwrap_or(USUAL_LENGTH),
            (false, _) => 1,
        };
        let one = self.selections(below, Parent { of: Some(&shape.of), rows, is_root: false })?;
        self.path.pop();
        Ok(times.saturating_mul(one).saturating_add(cost))
    }

    /// Goes one type deeper.
    fn enter(&mut self, of: &'static str) -> Result<(), Refusal> {
        self.path.push(of);
        let most = if PEOPLE.contains(&of) { MOST_OF_PEOPLE } else { MOST_OF_ONE_TYPE };
        if self.path.iter().filter(|&&known| known == of).count() > most {
            return Err(Refusal::new(format!(
                "the query nests {of} more than {most} levels deep; query deeper levels separately"
            )));
        }
        Ok(())
    }

    fn nested_arguments(&self, field: &Field) -> Result<(), Refusal> {
        let bytes = field
            .arguments
            .iter()
            .fold(0_u64, |bytes, (_, value)| bytes.saturating_add(value_size(&value.node, self.sizes).1));
        if bytes > LARGEST_NESTED_ARGUMENTS {
            let most = LARGEST_NESTED_ARGUMENTS >> 10;
            return Err(Refusal::new(format!("the arguments of a nested field are longer than {most} KiB")));
        }
        Ok(())
    }

    /// Rows of a page; the resolver refuses what makes no sense.
    fn page_size(&self, field: &Field) -> u64 {
        let (usual, most) = PAGE;
        let asked = ["first", "last"].into_iter().filter_map(|name| match &field.get_argument(name)?.node {
            Value::Number(number) => number.as_u64(),
            Value::Variable(name) => match self.variable(name)? {
                ConstValue::Number(number) => number.as_u64(),
                _ => None,
            },
            _ => None,
        });
        asked.max().unwrap_or(usual).clamp(1, most)
    }

    fn variable(&self, name: &str) -> Option<&ConstValue> {
        self.variables.get(name).or_else(|| {
            self.document.operations.iter().find_map(|(_, operation)| {
                let definitions = operation.node.variable_definitions.iter();
                let mut named = definitions.filter(|definition| definition.node.name.node == name);
                named.next()?.node.default_value()
            })
        })
    }

    /// `__schema` or `__type`: answered by the library, from the schema alone.
    fn introspection(&mut self, field: &Field) -> Result<u64, Refusal> {
        self.introspections += 1;
        if self.introspections > MOST_INTROSPECTIONS {
            let told = format!("a document may ask for `__schema` and `__type` {MOST_INTROSPECTIONS} times");
            return Err(Refusal::new(told));
        }
        let before = self.introspected;
        self.introspected_set(&field.selection_set.node, &mut Vec::new())?;
        Ok((self.introspected - before).saturating_mul(INTROSPECTED_ROWS))
    }

    /// The schema is finite, but ways through it are not: a list of it stands only where tools ask for it.
    fn introspected_set<'b>(&mut self, set: &'b SelectionSet, lists: &mut Vec<&'b str>) -> Result<(), Refusal>
    where
        Self: 'b,
    {
        for item in &set.items {
            let below = match &item.node {
                Selection::Field(field) => {
                    self.introspected += 1;
                    let name = field.node.name.node.as_str();
                    let allowed_below: Option<&[&str]> = match name {
                        "types" | "directives" => Some(&[]),
                        "fields" | "inputFields" | "enumValues" | "interfaces" | "possibleTypes" => {
                            Some(&["types"])
                        }
                        "args" => Some(&["types", "fields", "directives"]),
                        _ => None,
                    };
                    if let Some(allowed) = allowed_below {
                        if !lists.iter().all(|above| allowed.contains(above)) {
                            let told = format!("introspection asks for `{name}` inside another list");
                            return Err(Refusal::new(told));
                        }
                        lists.push(name);
                        self.introspected_set(&field.node.selection_set.node, lists)?;
                        lists.pop();
                        continue;
                    }
                    &field.node.selection_set.node
                }
                Selection::InlineFragment(fragment) => &fragment.node.selection_set.node,
                Selection::FragmentSpread(spread) => {
                    match self.document.fragments.get(&spread.node.fragment_name.node) {
                        Some(fragment) => &fragment.node.selection_set.node,
                        None => continue,
                    }
                }
            };
            self.introspected_set(below, lists)?;
        }
        if self.introspected > MOST_INTROSPECTED {
            let told = format!("introspection may have at most {MOST_INTROSPECTED} fields");
            return Err(Refusal::new(told));
        }
        Ok(())
    }
}

fn listed(table: &[(&str, &str, u64)], of: &str, field: &str) -> Option<u64> {
    table.iter().find(|(known, name, _)| *known == of && *name == field).map(|(_, _, number)| *number)
}

#[cfg(test)]
mod tests {
    use async_graphql::{Variables, value};

    use super::super::{Rejection, weigh};
    use super::*;

    fn weight(text: &str, variables: ConstValue) -> Result<u64, String> {
        weigh(text, &Variables::from_value(variables)).map_err(|rejection| match rejection {
            Rejection::Limit(told) => told,
            other => format!("{other:?}"),
        })
    }

    #[test]
    fn pages_multiply_what_is_in_them() {
        // The connection, its edges, and a node with a name for each row.
        for (arguments, rows) in [
            ("", 100),
            ("(first: 7)", 7),
            ("(last: 7)", 7),
            ("(first: 10000)", 500),
            ("(first: 0)", 1),
            ("(first: $given)", 30),
            ("(first: $usual)", 20),
            ("(first: $absent)", 100),
        ] {
            let text = format!(
                "query ($given: Int, $usual: Int = 20, $absent: Int) {{ clusters{arguments} {{ edges {{ node {{ name }} }} }} }}"
            );
            assert_eq!(weight(&text, value!({"given": 30})), Ok(2 + rows * 2), "{arguments}");
        }
        let nested =
            "{ clusters(first: 500) { edges { node { auditLogs(first: 500) { edges { cursor } } } } } }";
        assert!(weight(nested, value!({})).unwrap_err().contains("too complex"));
    }

    /// Both read all that was found of a plan, which is megabytes.
    #[test]
    fn what_was_found_of_plans_has_a_weight() {
        let runs = |found: &str| {
            let text = format!(
                "{{ infrastructureStack(id: \"a\") {{ runs(first: 500) {{ edges {{ node {{ {found} }} }} }} }} }}"
            );
            weight(&text, value!({}))
        };
        // Stack, connection, edges and nodes besides.
        assert_eq!(runs("cost { monthly }"), Ok(3 + 500 * (1 + 100 + 1)));
        assert_eq!(runs("violations { title }"), Ok(3 + 500 * (1 + 100 + 10)));
        let all = "violations { id title description policyId policyModule policyUrl severity resolution refuses causes { resource } } cost { resources { name } }";
        assert!(runs(all).unwrap_err().contains("too complex"));
    }

    #[test]
    fn circles_end() {
        let twice = "{ group(name: \"a\") { members { groups { members { id } } } } }";
        assert!(weight(twice, value!({})).is_ok());
        for text in [
            "{ group(name: \"a\") { members { groups { members { groups { id } } } } } }",
            "{ me { groups { members { groups { members { id } } } } } }",
            "{ me { ...A } } fragment A on User { groups { ... { members { ...B } } } }
             fragment B on User { x: groups { y: members { id } } }",
            "{ users(first: 1) { edges { node { groups { members { groups { members { id } } } } } } } }",
        ] {
            assert!(weight(text, value!({})).unwrap_err().contains("levels deep"), "{text}");
        }
        let services = "{ serviceDeployment(id: 1) { dependents { dependents { dependents { id } } } } }";
        assert!(weight(services, value!({})).unwrap_err().contains("levels deep"));
    }

    #[test]
    fn a_nested_field_takes_no_large_argument() {
        let text = "query ($a: String) { clusters { edges { node { recordings(after: $a) { edges { cursor } } } } } }";
        assert!(weight(text, value!({"a": "x"})).is_ok());
        let long = ConstValue::from_json(serde_json::json!({"a": "x".repeat(5000)})).unwrap();
        assert!(weight(text, long).unwrap_err().contains("longer than 4 KiB"));
    }

    #[test]
    fn type_names_are_few() {
        let times = |n: usize| "__typename ".repeat(n);
        for text in [
            "{ a: __typename b: __typename me { __typename id } }".to_owned(),
            format!("{{ me {{ {} groups {{ {} }} }} }}", times(8), times(8)),
            "{ clusters { __typename edges { __typename node { __typename ...A ...A } } } }
             fragment A on Cluster { __typename ... { __typename } }"
                .to_owned(),
        ] {
            assert!(weight(&text, value!({})).is_ok(), "{text}");
        }
        for (text, told) in [
            ("{ me { a: __typename } }".to_owned(), "no alias"),
            ("{ ...A } fragment A on RootQueryType { me { ... { a: __typename } } }".to_owned(), "no alias"),
            ("{ __schema { types { a: __typename } } }".to_owned(), "no alias"),
            (format!("{{ me {{ {} }} }}", times(9)), "8 times"),
            (format!("{{ __schema {{ types {{ {} }} }} }}", times(9)), "8 times"),
            (
                format!("{{ me {{ ...A ...A ... {{ ...A }} }} }} fragment A on User {{ {} }}", times(3)),
                "8 times",
            ),
        ] {
            assert!(weight(&text, value!({})).unwrap_err().contains(told), "{text}");
        }
    }

    #[test]
    fn introspection_goes_through_the_schema_once() {
        for text in [
            "{ __schema { types { fields { type { fields { name } } } } } }",
            "{ __type(name: \"User\") { fields { type { fields { type { name } } } } } }",
            "{ __schema { types { fields { args { type { inputFields { name } } } } } } }",
            "{ __schema { types { possibleTypes { ...A } } } } fragment A on __Type { possibleTypes { name } }",
            "{ a: __schema { __typename } b: __schema { __typename } c: __schema { __typename } d: __schema { __typename }
               e: __schema { __typename } }",
        ] {
            assert!(weight(text, value!({})).is_err(), "{text}");
        }
        let wide = (0..401).map(|n| format!("a{n}: name")).collect::<Vec<_>>().join(" ");
        assert!(weight(&format!("{{ __schema {{ types {{ {wide} }} }} }}"), value!({})).is_err());
        assert!(
            weight("{ __type(name: \"User\") { fields { type { ofType { name } } } } }", value!({})).is_ok()
        );
    }
}
