//! Files that are made.

use serde_json::{Map, Value};

use super::{Done, Run, failed};
use crate::{
    automation::Template,
    condition::holds,
    files::{Entry, File},
};

pub(super) fn run(run: &mut Run<'_>) -> Done {
    for (at, template) in run.automation.creates.templates.clone().iter().enumerate() {
        let step = format!("creates.templates[{at}] ({})", template.source);
        create(run, &step, template)?;
    }
    Ok(())
}

fn create(run: &mut Run<'_>, step: &str, template: &Template) -> Done {
    // What a template adds is gone for the next one.
    let mut context = run.context.clone();
    context.extend(template.context.clone());
    let whole = Value::Object(context);
    let is_wanted = holds(&template.condition, &whole).map_err(|why| failed(step, why))?;
    let Value::Object(context) = whole else { return Ok(()) };
    if !is_wanted {
        run.outcome.skipped.push(template.destination.clone());
        return Ok(());
    }
    let source = folder(run, step, &template.source, &context)?;
    let destination = folder(run, step, &template.destination, &context)?;
    let from = if template.external { &run.request.external } else { &run.tree };
    if let Some(Entry::File(file)) = from.get(&source) {
        let file = file.clone();
        return render(run, step, &source, &file, &destination, &context);
    }
    let paths: Vec<String> = from.below(&source).into_iter().map(str::to_owned).collect();
    if paths.is_empty() {
        let place = if template.external { "the repository of templates" } else { "the repository" };
        return Err(failed(step, format!("{source} does not exist in {place}")));
    }
    for path in paths {
        let from = if template.external { &run.request.external } else { &run.tree };
        // Links are not followed.
        let Some(file) = from.file(&path).cloned() else { continue };
        let rest = path.strip_prefix(&source).unwrap_or(&path).trim_start_matches('/');
        let to = if destination.is_empty() { rest.to_owned() } else { format!("{destination}/{rest}") };
        render(run, step, &path, &file, &to, &context)?;
    }
    Ok(())
}

/// A path, or the root.
fn folder(run: &Run<'_>, step: &str, source: &str, context: &Map<String, Value>) -> Done<String> {
    if matches!(source.trim(), "" | "." | "./") {
        return Ok(String::new());
    }
    run.path(step, source, context)
}

fn render(
    run: &mut Run<'_>,
    step: &str,
    source: &str,
    file: &File,
    destination: &str,
    context: &Map<String, Value>,
) -> Done {
    run.pay(step, file.bytes.len())?;
    let bytes = match std::str::from_utf8(&file.bytes) {
        // What is no text is no template.
        Err(_) => file.bytes.clone(),
        Ok(text) => run.expand(step, source, text, context)?.into_bytes(),
    };
    run.pay(step, bytes.len())?;
    run.write(step, destination, Entry::File(File { bytes, executable: file.executable }))
}
