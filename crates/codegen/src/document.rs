//! The documents: fragments and operations of all nouns, in one namespace.

use std::collections::{BTreeMap, BTreeSet};

use graphql_parser::{
    Pos,
    query::{
        Definition, OperationDefinition, Selection, SelectionSet, TypeCondition, VariableDefinition,
        parse_query,
    },
};

use crate::fault::Fault;

/// A fragment. It becomes a struct of its name, and one called `Name_more` adds to the struct `Name`.
pub(crate) struct Fragment {
    pub(crate) noun: String,
    pub(crate) place: String,
    pub(crate) name: String,
    /// The comment above it.
    pub(crate) docs: Option<String>,
    /// The type that it is on.
    pub(crate) on: String,
    pub(crate) selections: SelectionSet<'static, String>,
    /// Its text, on one line.
    text: String,
}

impl Fragment {
    /// The struct that this fragment is, or adds to.
    pub(crate) fn base(&self) -> &str {
        base(&self.name)
    }
}

/// The struct that a fragment of this name is, or adds to.
pub(crate) fn base(fragment: &str) -> &str {
    fragment.split('_').next().unwrap_or(fragment)
}

impl Fragment {
    /// Its fields as text, if none of them has fields of its own.
    fn flat(&self) -> Option<&str> {
        let is_flat = self.selections.items.iter().all(
            |selection| matches!(selection, Selection::Field(field) if field.selection_set.items.is_empty()),
        );
        let fields = self.text.split_once('{')?.1.rsplit_once('}')?.0.trim();
        is_flat.then_some(fields)
    }
}

/// An operation: one root field.
pub(crate) struct Operation {
    pub(crate) noun: String,
    pub(crate) place: String,
    pub(crate) name: String,
    /// The comment above it.
    pub(crate) docs: Option<String>,
    pub(crate) mutation: bool,
    pub(crate) variables: Vec<VariableDefinition<'static, String>>,
    pub(crate) selections: SelectionSet<'static, String>,
    text: String,
}

/// All documents.
#[derive(Default)]
pub(crate) struct Documents {
    /// Nouns, each with the comment at the beginning of its file.
    pub(crate) nouns: BTreeMap<String, Option<String>>,
    /// By name, which all files share.
    pub(crate) fragments: BTreeMap<String, Fragment>,
    /// As they stand in the files.
    pub(crate) operations: Vec<Operation>,
}

impl Documents {
    pub(crate) fn parse(files: &BTreeMap<String, String>) -> Result<Self, Fault> {
        let mut documents = Self::default();
        for (noun, text) in files {
            documents.read(noun, text)?;
        }
        let mut names = BTreeSet::new();
        for operation in &documents.operations {
            if !names.insert(&operation.name) || documents.fragments.contains_key(&operation.name) {
                return Err(Fault::new(
                    &operation.place,
                    format!("there are two of the name {}", operation.name),
                ));
            }
        }
        Ok(documents)
    }

    fn read(&mut self, noun: &str, text: &str) -> Result<(), Fault> {
        let file = format!("documents/{noun}.graphql");
        let parsed =
            parse_query::<String>(text).map_err(|error| Fault::new(&file, error.to_string()))?.into_static();
        let lines: Vec<&str> = text.lines().collect();
        self.nouns.insert(noun.to_owned(), head(&lines));
        for definition in parsed.definitions {
            match definition {
                Definition::Fragment(it) => {
                    let TypeCondition::On(on) = it.type_condition;
                    let place = format!("{file}:{}", it.position.line);
                    let source = source(&lines, it.position, it.selection_set.span.1);
                    let fragment = Fragment {
                        noun: noun.to_owned(),
                        place: place.clone(),
                        docs: comment(&lines, it.position),
                        on,
                        selections: it.selection_set,
                        text: source.split_whitespace().collect::<Vec<_>>().join(" "),
                        name: it.name.clone(),
                    };
                    if self.fragments.insert(it.name.clone(), fragment).is_some() {
                        return Err(Fault::new(place, format!("there are two of the name {}", it.name)));
                    }
                }
                Definition::Operation(it) => {
                    let (position, name, variables, selections, mutation) = match it {
                        OperationDefinition::Query(it) => {
                            (it.position, it.name, it.variable_definitions, it.selection_set, false)
                        }
                        OperationDefinition::Mutation(it) => {
                            (it.position, it.name, it.variable_definitions, it.selection_set, true)
                        }
                        OperationDefinition::SelectionSet(it) => (it.span.0, None, Vec::new(), it, false),
                        OperationDefinition::Subscription(it) => {
                            let place = format!("{file}:{}", it.position.line);
                            return Err(Fault::new(place, "the client has no subscriptions"));
                        }
                    };
                    let place = format!("{file}:{}", position.line);
                    let Some(name) = name else {
                        return Err(Fault::new(place, "an operation needs a name"));
                    };
                    let text = source(&lines, position, selections.span.1);
                    self.operations.push(Operation {
                        noun: noun.to_owned(),
                        place,
                        name,
                        docs: comment(&lines, position),
                        mutation,
                        variables,
                        selections,
                        text,
                    });
                }
            }
        }
        Ok(())
    }

    /// What is sent: the operation with the fragments that it reaches.
    pub(crate) fn text_of(&self, operation: &Operation) -> Result<String, Fault> {
        let mut reached = BTreeSet::new();
        let mut open = vec![&operation.selections];
        while let Some(set) = open.pop() {
            for selection in &set.items {
                match selection {
                    Selection::Field(field) => open.push(&field.selection_set),
                    Selection::InlineFragment(inline) => open.push(&inline.selection_set),
                    Selection::FragmentSpread(spread) => {
                        let fragment = self.fragment(&spread.fragment_name, &operation.place)?;
                        if reached.insert(fragment.name.as_str()) {
                            open.push(&fragment.selections);
                        }
                    }
                }
            }
        }
        let mut text = operation.text.clone();
        // Written in place: the API takes no fragments from a user without a credential, who signs in.
        if reached.len() == 1
            && let Some(only) = reached.first().and_then(|name| self.fragments.get(*name))
            && let Some(fields) = only.flat()
            && text.matches("...").count() == 1
        {
            return Ok(text.replace(&format!("...{}", only.name), fields));
        }
        for fragment in reached {
            text.push('\n');
            text.push_str(&self.fragments[fragment].text);
        }
        Ok(text)
    }

    pub(crate) fn fragment(&self, name: &str, place: &str) -> Result<&Fragment, Fault> {
        self.fragments.get(name).ok_or_else(|| Fault::new(place, format!("there is no fragment {name}")))
    }
}

/// The text of a definition, without the lines that are comments.
fn source(lines: &[&str], from: Pos, to: Pos) -> String {
    let lines = lines.get(from.line.saturating_sub(1)..to.line).unwrap_or_default();
    let kept: Vec<&str> = lines
        .iter()
        .copied()
        .filter(|line| !line.trim_start().starts_with('#') && !line.trim().is_empty())
        .collect();
    kept.join("\n")
}

/// The comment right above a definition.
fn comment(lines: &[&str], definition: Pos) -> Option<String> {
    let above = lines.get(..definition.line.saturating_sub(1))?;
    let begin = above.iter().rposition(|line| !line.starts_with('#')).map_or(0, |last| last + 1);
    words(&above[begin..])
}

/// The comment at the beginning of a file, if an empty line ends it.
fn head(lines: &[&str]) -> Option<String> {
    let end = lines.iter().position(|line| !line.starts_with('#'))?;
    lines[end].trim().is_empty().then(|| words(&lines[..end])).flatten()
}

fn words(comment: &[&str]) -> Option<String> {
    let lines: Vec<&str> = comment.iter().map(|line| line.trim_start_matches('#').trim()).collect();
    (!lines.is_empty()).then(|| lines.join("\n"))
}
