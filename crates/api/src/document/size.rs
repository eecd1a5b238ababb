//! How large the parts of a document are once its fragments are expanded. Nothing is expanded here: each fragment is
//! measured once, and fragments that spread it add that.

use std::collections::HashMap;

use async_graphql::{
    Positioned, Variables,
    parser::types::{Directive, ExecutableDocument, FragmentDefinition, Selection, SelectionSet},
};
use async_graphql_value::{ConstValue, Value};

use super::Refusal;

/// Directives of one selection.
const MOST_DIRECTIVES_OF_ONE: usize = 8;

/// What an expanded selection set holds. Sums saturate.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Size {
    /// Fields, aliases counted, inline fragments and spreads.
    pub(crate) selections: u64,
    /// Directives.
    pub(crate) directives: u64,
    /// Values in arguments; a variable counts as much as was given for it.
    pub(crate) values: u64,
    /// Bytes of these values.
    pub(crate) bytes: u64,
    /// Nested selection sets.
    pub(crate) depth: u64,
}

impl Size {
    fn max(self, other: Self) -> Self {
        let Self { selections, directives, values, bytes, depth } = other;
        Self {
            selections: self.selections.max(selections),
            directives: self.directives.max(directives),
            values: self.values.max(values),
            bytes: self.bytes.max(bytes),
            depth: self.depth.max(depth),
        }
    }

    fn add(&mut self, other: Self) {
        let Self { selections, directives, values, bytes, depth } = other;
        self.selections = self.selections.saturating_add(selections);
        self.directives = self.directives.saturating_add(directives);
        self.values = self.values.saturating_add(values);
        self.bytes = self.bytes.saturating_add(bytes);
        self.depth = self.depth.max(depth);
    }
}

/// Values and bytes of each variable, as given or by default.
pub(crate) type VariableSizes<'a> = HashMap<&'a str, (u64, u64)>;

/// The sizes of what was given for each variable; where nothing was, of its default.
pub(crate) fn variable_sizes<'a>(
    document: &'a ExecutableDocument,
    variables: &'a Variables,
) -> VariableSizes<'a> {
    let mut sizes: VariableSizes<'a> =
        variables.iter().map(|(name, value)| (name.as_str(), const_size(value))).collect();
    for (_, operation) in document.operations.iter() {
        for definition in &operation.node.variable_definitions {
            if let Some(default) = definition.node.default_value() {
                sizes.entry(definition.node.name.node.as_str()).or_insert_with(|| const_size(default));
            }
        }
    }
    sizes
}

fn const_size(value: &ConstValue) -> (u64, u64) {
    match value {
        ConstValue::Null | ConstValue::Boolean(_) | ConstValue::Number(_) => (1, 8),
        ConstValue::String(text) => (1, text.len() as u64),
        ConstValue::Enum(name) => (1, name.len() as u64),
        ConstValue::Binary(bytes) => (1, bytes.len() as u64),
        ConstValue::List(items) => sum(items.iter().map(const_size)),
        ConstValue::Object(fields) => {
            sum(fields.iter().map(|(name, value)| with_name(name, const_size(value))))
        }
    }
}

/// Values and bytes of one value of the document.
pub(crate) fn value_size(value: &Value, variables: &VariableSizes<'_>) -> (u64, u64) {
    match value {
        Value::Variable(name) => variables.get(name.as_str()).copied().unwrap_or((1, 8)),
        Value::Null | Value::Boolean(_) | Value::Number(_) => (1, 8),
        Value::String(text) => (1, text.len() as u64),
        Value::Enum(name) => (1, name.len() as u64),
        Value::Binary(bytes) => (1, bytes.len() as u64),
        Value::List(items) => sum(items.iter().map(|value| value_size(value, variables))),
        Value::Object(fields) => {
            sum(fields.iter().map(|(name, value)| with_name(name, value_size(value, variables))))
        }
    }
}

fn with_name(name: &str, (values, bytes): (u64, u64)) -> (u64, u64) {
    (values, bytes.saturating_add(name.len() as u64))
}

fn sum(sizes: impl Iterator<Item = (u64, u64)>) -> (u64, u64) {
    sizes.fold((1, 8), |(values, bytes), (more, longer)| {
        (values.saturating_add(more), bytes.saturating_add(longer))
    })
}

/// The size of the operations' selections with all fragments expanded, or of the largest fragment: validation looks at
/// those that nothing spreads, too.
///
/// # Errors
/// [`Refusal`] for fragments that lead to themselves, and for too many directives in one place.
pub(crate) fn expanded(
    document: &ExecutableDocument,
    variables: &VariableSizes<'_>,
) -> Result<Size, Refusal> {
    let mut known: HashMap<&str, Size> = HashMap::new();
    let mut open: Vec<(&str, &FragmentDefinition)> =
        document.fragments.iter().map(|(name, fragment)| (name.as_str(), &fragment.node)).collect();
    // Each round measures at least one fragment whose own spreads are known. If none is left of that kind, those that
    // remain lead to themselves.
    while !open.is_empty() {
        let before = open.len();
        let mut rest = Vec::new();
        for (name, fragment) in open {
            let measure = Measure { document, variables, known: &known };
            match measure.selection_set(&fragment.selection_set.node)? {
                Some(mut size) => {
                    size.directives = size.directives.saturating_add(fragment.directives.len() as u64);
                    known.insert(name, size);
                }
                None => rest.push((name, fragment)),
            }
        }
        if rest.len() == before {
            return Err(Refusal::new("a fragment spreads itself, directly or through others"));
        }
        open = rest;
    }
    let measure = Measure { document, variables, known: &known };
    let mut size = Size::default();
    for (_, operation) in document.operations.iter() {
        size.add(measure.selection_set(&operation.node.selection_set.node)?.unwrap_or_default());
        size.add(measure.directives(&operation.node.directives)?);
    }
    Ok(known.values().fold(size, |size, fragment| size.max(*fragment)))
}

struct Measure<'a> {
    document: &'a ExecutableDocument,
    variables: &'a VariableSizes<'a>,
    known: &'a HashMap<&'a str, Size>,
}

impl Measure<'_> {
    /// `None` when it spreads a fragment that was not measured yet.
    fn selection_set(&self, set: &SelectionSet) -> Result<Option<Size>, Refusal> {
        let mut size = Size { depth: 1, ..Size::default() };
        for item in &set.items {
            let mut one = Size { selections: 1, ..Size::default() };
            let below = match &item.node {
                Selection::Field(field) => {
                    one.add(self.directives(&field.node.directives)?);
                    for (_, value) in &field.node.arguments {
                        one.add(self.value(&value.node));
                    }
                    if field.node.selection_set.node.items.is_empty() {
                        Some(Size::default())
                    } else {
                        self.selection_set(&field.node.selection_set.node)?
                    }
                }
                Selection::InlineFragment(fragment) => {
                    one.add(self.directives(&fragment.node.directives)?);
                    self.selection_set(&fragment.node.selection_set.node)?
                }
                Selection::FragmentSpread(spread) => {
                    one.add(self.directives(&spread.node.directives)?);
                    let name = &spread.node.fragment_name.node;
                    match self.known.get(name.as_str()) {
                        Some(size) => Some(*size),
                        // Validation refuses names that nothing has.
                        None if !self.document.fragments.contains_key(name) => Some(Size::default()),
                        None => None,
                    }
                }
            };
            let Some(below) = below else { return Ok(None) };
            one.add(Size { depth: below.depth.saturating_add(1), ..below });
            size.add(one);
        }
        Ok(Some(size))
    }

    fn directives(&self, directives: &[Positioned<Directive>]) -> Result<Size, Refusal> {
        if directives.len() > MOST_DIRECTIVES_OF_ONE {
            let told = format!("a selection may have at most {MOST_DIRECTIVES_OF_ONE} directives");
            return Err(Refusal::new(told));
        }
        let mut size = Size { directives: directives.len() as u64, ..Size::default() };
        for directive in directives {
            for (_, value) in &directive.node.arguments {
                size.add(self.value(&value.node));
            }
        }
        Ok(size)
    }

    fn value(&self, value: &Value) -> Size {
        let (values, bytes) = value_size(value, self.variables);
        Size { values, bytes, ..Size::default() }
    }
}

#[cfg(test)]
mod tests {
    use async_graphql::{Variables, parser::parse_query, value};

    use super::*;

    fn size(text: &str, variables: async_graphql::Value) -> Result<Size, String> {
        let document = parse_query(text).unwrap();
        let variables = Variables::from_value(variables);
        expanded(&document, &variable_sizes(&document, &variables)).map_err(|refusal| refusal.0)
    }

    #[test]
    fn what_doubles_is_counted_without_being_expanded() {
        use std::fmt::Write as _;
        let mut text = "{ ...a0 }".to_owned();
        for n in 0..100 {
            write!(text, " fragment a{n} on T {{ ...a{0} x {{ ...a{0} }} }}", n + 1).unwrap();
        }
        text.push_str(" fragment a100 on T { x }");
        let size = size(&text, value!({})).unwrap();
        assert_eq!(size.selections, u64::MAX);
        assert!(size.depth > 100, "{size:?}");
    }

    #[test]
    fn sizes_are_those_of_the_expanded_document() {
        let text =
            "query ($v: A) { a @x(y: 1) { b c(d: [1, {e: $v}]) } ...f ... { g } } fragment f on T { h i }";
        let size = size(text, value!({"v": ["one", "two"]})).unwrap();
        assert_eq!((size.selections, size.directives, size.depth), (8, 1, 2), "{size:?}");
        // `1` of the directive, list, `1`, object, and three of the variable.
        assert_eq!(size.values, 7);
    }

    #[test]
    fn cycles_are_refused_wherever_they_hide() {
        for text in [
            "{ ...a } fragment a on T { ...a }",
            "{ x } fragment a on T { ...b } fragment b on T { x { ... { ...a } } }",
        ] {
            assert!(size(text, value!({})).unwrap_err().contains("spreads itself"), "{text}");
        }
        assert!(size("{ ...nothing }", value!({})).is_ok(), "validation says what is wrong");
    }
}
