//! `plural health`: how any object is, as an agent would say it; for trying health scripts at a desk.

use std::{
    fs,
    io::{Read as _, Write as _},
    path::{Path, PathBuf},
    process::ExitCode,
};

use anyhow::Context as _;
use plural_render::yaml;
use plural_sync::{GroupKind, Health, HealthStatus, health, run_script};
use serde::Serialize;
use serde_json::Value;

const EXAMPLES: &str = "\
Exit codes: 0 when no object is Degraded, Missing or Unknown; 1 when one is; 2 when the command line cannot be understood.

Examples:
  kubectl get deployment web -o yaml | plural health -f -
  plural health -f objects.yaml
  plural health -f widget.yaml --script widget-health.lua
  plural health -f widget.yaml --script widget-health.lua -o json";

/// Flags of `plural health`.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// File with objects in YAML or JSON, as `kubectl get -o yaml` prints them; - is standard input
    #[arg(short, long = "file", value_name = "FILE", required = true)]
    file: Vec<PathBuf>,

    /// Health script in Lua instead of the built-in rules: one for Argo CD, or of a `CustomHealth`
    #[arg(long, value_name = "FILE")]
    script: Option<PathBuf>,

    /// How to print the answer
    #[arg(short, long, value_enum, default_value_t = Format::Text, value_name = "FORMAT")]
    output: Format,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Format {
    /// One line for each object
    Text,
    /// One JSON object, or a list of them
    Json,
    /// The same in YAML
    Yaml,
}

/// What is told of one object.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Answer {
    api_version: String,
    kind: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    namespace: String,
    name: String,
    /// As scripts say it.
    status: &'static str,
    /// As the API says it; absent when nobody can tell.
    #[serde(skip_serializing_if = "Option::is_none")]
    state: Option<&'static str>,
    message: String,
}

/// Prints the health of each object; the exit code says whether one is bad.
pub(crate) fn run(args: &Args) -> ExitCode {
    match told(args) {
        Ok(bad) => ExitCode::from(u8::from(bad)),
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

/// Prints, and answers whether an object is bad.
fn told(args: &Args) -> anyhow::Result<bool> {
    let Args { file, script, output } = args;
    let script = match script {
        Some(file) => Some(text_of(file)?),
        None => None,
    };
    let clock_ms = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH)?.as_millis();
    let mut answers = Vec::new();
    for file in file {
        for object in objects(&text_of(file)?).with_context(|| format!("cannot read {}", file.display()))? {
            answers.push(answer(&object, script.as_deref(), i64::try_from(clock_ms)?));
        }
    }
    anyhow::ensure!(!answers.is_empty(), "the input has no objects");
    let text = match output {
        Format::Text => answers.iter().map(line).collect(),
        Format::Json => format!("{:#}\n", value(&answers)?),
        Format::Yaml => yaml::to_string(&value(&answers)?),
    };
    match std::io::stdout().lock().write_all(text.as_bytes()) {
        // A reader that had enough (`| head`) is no failure.
        Err(error) if error.kind() == std::io::ErrorKind::BrokenPipe => {}
        written => written.context("cannot write")?,
    }
    Ok(answers.iter().any(|answer| matches!(answer.status, "Degraded" | "Missing" | "Unknown")))
}

fn value(answers: &[Answer]) -> anyhow::Result<Value> {
    Ok(match answers {
        [one] => serde_json::to_value(one)?,
        many => serde_json::to_value(many)?,
    })
}

fn text_of(file: &Path) -> anyhow::Result<String> {
    let mut text = String::new();
    if file == Path::new("-") {
        std::io::stdin().lock().read_to_string(&mut text).context("cannot read standard input")?;
    } else {
        text = fs::read_to_string(file).with_context(|| format!("cannot read {}", file.display()))?;
    }
    Ok(text)
}

/// The objects of a text: all of its documents, and what lists hold.
fn objects(text: &str) -> anyhow::Result<Vec<Value>> {
    let mut found = Vec::new();
    for document in yaml::split_documents(text) {
        let mut value = yaml::parse(document.as_bytes())?;
        if value.is_null() {
            continue;
        }
        let is_list = value["kind"].as_str().is_some_and(|kind| kind.ends_with("List"));
        match value["items"].take() {
            Value::Array(items) if is_list => found.extend(items),
            items => {
                if !items.is_null() {
                    value["items"] = items;
                }
                found.push(value);
            }
        }
    }
    for object in &found {
        anyhow::ensure!(
            object["apiVersion"].is_string() && object["kind"].is_string(),
            "not a Kubernetes object: apiVersion or kind is missing"
        );
    }
    Ok(found)
}

fn answer(object: &Value, script: Option<&str>, clock_ms: i64) -> Answer {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let (api_version, kind) = (text(&object["apiVersion"]), text(&object["kind"]));
    let Health { status, message } = match script {
        Some(script) => run_script(script, object, clock_ms)
            .unwrap_or_else(|error| Health { status: HealthStatus::Unknown, message: error.to_string() }),
        None => health(&GroupKind::parse(&api_version, &kind).0, object),
    };
    Answer {
        namespace: text(&object["metadata"]["namespace"]),
        name: text(&object["metadata"]["name"]),
        status: status.as_str(),
        state: status.state().map(plural_core::component::ComponentState::as_str),
        message,
        api_version,
        kind,
    }
}

fn line(answer: &Answer) -> String {
    let Answer { kind, namespace, name, status, message, .. } = answer;
    let place = if namespace.is_empty() { name.clone() } else { format!("{namespace}/{name}") };
    let why = if message.is_empty() { String::new() } else { format!(": {message}") };
    // What an object says must not command the terminal.
    let clean: String = format!("{status:<11} {kind} {place}{why}")
        .chars()
        .map(|c| if c.is_control() { ' ' } else { c })
        .collect();
    format!("{clean}\n")
}
