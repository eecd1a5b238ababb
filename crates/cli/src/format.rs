//! `-o FORMAT`, and what else is said about the form of a list.

use clap::{
    Args,
    builder::{PossibleValue, TypedValueParser},
};

use crate::{
    error::CliError,
    jsonpath::{Path, Template},
};

/// How to print an answer.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Format {
    /// Columns for a person.
    Table,
    /// More columns.
    Wide,
    /// JSON: a list is one array.
    Json,
    /// YAML.
    Yaml,
    /// One kind/name a line.
    Name,
    /// What a template makes of the JSON; a list is below `.items`.
    JsonPath(Template),
    /// A table of these columns.
    Columns(Vec<Column>),
}

/// A column of `-o custom-columns`.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Column {
    pub(crate) heading: String,
    pub(crate) path: Path,
}

impl Format {
    /// The words, and what they mean.
    const ALL: [(&'static str, &'static str); 7] = [
        ("table", "Columns for a person"),
        ("wide", "More columns"),
        ("json", "JSON: a list is one array"),
        ("yaml", "YAML"),
        ("name", "One kind/name a line"),
        ("jsonpath=", "A template of kubectl's: jsonpath='{.items[*].name}'"),
        ("custom-columns=", "A table of these columns: custom-columns=NAME:.name,ID:.id"),
    ];

    fn parse(text: &str) -> Result<Self, String> {
        if let Some(template) = text.strip_prefix("jsonpath=") {
            if template.is_empty() {
                return Err("the template is empty, for example jsonpath='{.items[*].name}'".into());
            }
            return Template::parse(template)
                .map(Self::JsonPath)
                .map_err(|error| format!("in the template, {error}"));
        }
        if let Some(columns) = text.strip_prefix("custom-columns=") {
            return columns_of(columns).map(Self::Columns);
        }
        Ok(match text {
            "table" => Self::Table,
            "wide" => Self::Wide,
            "json" => Self::Json,
            "yaml" => Self::Yaml,
            "name" => Self::Name,
            "jsonpath" => return Err("a template follows: jsonpath='{.items[*].name}'".into()),
            "custom-columns" => return Err("columns follow: custom-columns=NAME:.name,ID:.id".into()),
            _ => {
                let all: Vec<&str> = Self::ALL.iter().map(|(word, _)| *word).collect();
                return Err(format!("the formats are {}", all.join(", ")));
            }
        })
    }
}

fn columns_of(text: &str) -> Result<Vec<Column>, String> {
    let mut columns = Vec::new();
    for part in split(text) {
        let column = part.split_once(':').filter(|(heading, path)| !heading.is_empty() && !path.is_empty());
        let Some((heading, path)) = column else {
            return Err(format!("the column {part:?} has not the form NAME:.path"));
        };
        let path = Path::parse(path).map_err(|error| format!("in the column {heading}, {error}"))?;
        columns.push(Column { heading: heading.to_owned(), path });
    }
    Ok(columns)
}

/// At the commas that are not in brackets.
fn split(text: &str) -> Vec<&str> {
    let mut depth = 0_usize;
    text.split(|letter| {
        match letter {
            '[' | '(' => depth += 1,
            ']' | ')' => depth = depth.saturating_sub(1),
            _ => {}
        }
        letter == ',' && depth == 0
    })
    .collect()
}

/// Reads a [`Format`] and tells help and completion of all of them.
#[derive(Debug, Clone, Copy)]
struct FormatParser;

impl TypedValueParser for FormatParser {
    type Value = Format;

    fn parse_ref(
        &self,
        command: &clap::Command,
        arg: Option<&clap::Arg>,
        value: &std::ffi::OsStr,
    ) -> Result<Format, clap::Error> {
        let parse: fn(&str) -> Result<Format, String> = Format::parse;
        TypedValueParser::parse_ref(&parse, command, arg, value)
    }

    fn possible_values(&self) -> Option<Box<dyn Iterator<Item = PossibleValue> + '_>> {
        Some(Box::new(Format::ALL.iter().map(|(word, help)| PossibleValue::new(*word).help(*help))))
    }
}

/// How to print
#[derive(Debug, Clone, Args)]
pub(crate) struct OutputArgs {
    /// How to print the answer
    #[arg(short, long, value_parser = FormatParser, default_value = "table", value_name = "FORMAT")]
    pub(crate) output: Format,
}

impl OutputArgs {
    /// The format, for an answer that is shown only once: a name alone would lose it.
    ///
    /// # Errors
    /// `-o name` is asked for.
    pub(crate) fn shown_once(self) -> Result<Format, CliError> {
        match self.output {
            Format::Name => Err(CliError::new("-o name leaves out what is shown only once")
                .hint("`-o json` has the name and the rest")),
            other => Ok(other),
        }
    }
}

/// How to print a list
#[derive(Debug, Clone, Args)]
pub(crate) struct ListOutputArgs {
    /// How to print the answer
    #[arg(short, long, value_parser = FormatParser, default_value = "table", value_name = "FORMAT")]
    pub(crate) output: Format,

    /// Tables without their headings
    #[arg(long)]
    pub(crate) no_headers: bool,

    /// Sort by a column (its heading), or by a field of the JSON (.name)
    #[arg(long, value_name = "COLUMN")]
    pub(crate) sort_by: Option<SortBy>,
}

/// What a list is sorted by.
#[derive(Debug, Clone)]
pub(crate) enum SortBy {
    /// A column, named by its heading.
    Heading(String),
    /// A field, and how it was written.
    Field(Path, String),
}

impl std::str::FromStr for SortBy {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        if text.starts_with(['.', '{', '[', '$', '@']) {
            let path = Path::parse(text).map_err(|error| format!("in the path, {error}"))?;
            return Ok(Self::Field(path, text.to_owned()));
        }
        Ok(Self::Heading(text.to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_format_that_is_none_is_told() {
        for (text, part) in [
            ("xml", "the formats are table, wide, json"),
            ("jsonpath", "a template follows"),
            ("jsonpath=", "the template is empty"),
            ("jsonpath={.a", "in the template, the expression has no } at position 4"),
            ("custom-columns=NAME", "the column \"NAME\" has not the form"),
            ("custom-columns=NAME:.a[", "in the column NAME, expected"),
        ] {
            let error = Format::parse(text).unwrap_err();
            assert!(error.contains(part), "{text}: {error}");
        }
        let Ok(Format::Columns(columns)) = Format::parse("custom-columns=A:.a[0,1],B:b") else {
            panic!("columns");
        };
        assert_eq!(columns.iter().map(|column| column.heading.as_str()).collect::<Vec<_>>(), ["A", "B"]);
    }
}
