//! `plural explain`.

use std::fmt::Write as _;

use super::{
    args::ExplainArgs,
    kind::{API_VERSION, Info, Kind},
    schema::{Field, Support, nearest},
};
use crate::{error::CliError, terminal::Terminal};

pub(crate) fn run(args: &ExplainArgs, terminal: &mut Terminal<'_>) -> Result<(), CliError> {
    let mut parts = args.field.split('.');
    let kind = Kind::parse(parts.next().unwrap_or_default()).map_err(CliError::usage)?;
    let Info { name, short, named_by, docs, fields, .. } = kind.info();
    let mut text = format!("KIND:       {name}\nVERSION:    {API_VERSION}\n");
    if !short.is_empty() {
        let _ = writeln!(text, "ALSO:       {}", short.join(", "));
    }
    let _ = writeln!(text, "NAMED BY:   {named_by}");
    let (mut fields, mut about) = (*fields, (*docs).to_owned());
    let mut path = "spec".to_owned();
    for part in parts.filter(|part| *part != "spec") {
        let Some(field) = fields.iter().find(|field| field.name == part) else {
            let near = nearest(part, fields.iter().map(|field| field.name));
            let near = near.map(|near| format!("; did you mean {near}?")).unwrap_or_default();
            return Err(CliError::usage(format!("{path} of a {name} has no field {part}{near}")));
        };
        path = format!("{path}.{part}");
        about = words(field);
        let _ = writeln!(text, "FIELD:      {path} <{}>", field.ty.word());
        fields = field.ty.fields();
    }
    let _ = write!(text, "\n{about}\n");
    if !fields.is_empty() {
        let _ = write!(text, "\nFIELDS of {path}:\n");
        for field in fields {
            let required = if field.required { " -required-" } else { "" };
            let _ = write!(text, "  {} <{}>{required}\n    {}\n", field.name, field.ty.word(), words(field));
        }
    }
    write!(terminal.out, "{text}")?;
    Ok(())
}

fn words(field: &Field) -> String {
    let mut words = match field.support {
        Support::No(why) => format!("Not supported: {why}."),
        Support::Yes | Support::Operator => field.docs.to_owned(),
    };
    if field.on {
        words.push_str(" True where it is not named.");
    }
    if field.added {
        words.push_str(" (Only this console has it.)");
    }
    words
}
