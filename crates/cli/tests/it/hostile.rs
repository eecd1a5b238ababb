//! attack_28: whatever a console answers, a terminal is given text. The answers are made from the schema and each command's
//! own documents, with escape sequences in every string.

use std::{
    collections::{BTreeSet, HashMap},
    sync::Arc,
};

use axum::{Json, Router, extract::State, http::StatusCode, response::IntoResponse, routing::post};
use graphql_parser::{
    query::{Definition as Part, OperationDefinition, Selection, parse_query},
    schema::{Definition, Document, Type, TypeDefinition, parse_schema},
};
use serde_json::{Map, Value, json};
use tokio::task::JoinSet;

use crate::run::{Done, Person};

/// C0 and C1 controls, OSC 8 and 52, a title, a question that the terminal would answer, marks of direction, line ends.
const HOSTILE: &str = "h\u{1b}]52;c;cm0gLXJmIC8=\u{7}\u{1b}]8;;https://evil.example\u{1b}\\\u{1b}[2J\u{9b}31m\u{9d}0;t\u{9c}\
                       \u{90}$q\u{9c}\u{1b}[6n\u{202e}\u{2066}\u{200f}\u{8}\r\u{7f}\u{2028}\u{0}\nerror: forged\t";
const ID: &str = "0190b8a2-7c11-7def-8000-0123456789ab";

type Schema = Document<'static, String>;

fn schema() -> Schema {
    let text = include_str!("../../../../docs/reference/schema.graphql");
    parse_schema::<String>(text).unwrap().into_static()
}

/// How a console answers.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Mood {
    /// As the schema says, with hostile strings.
    Hostile,
    /// Everything with this code of error and hostile words.
    Refusing(&'static str),
    /// With a status and text that are no GraphQL.
    Broken,
}

struct Console {
    url: String,
    _task: JoinSet<()>,
}

impl Console {
    async fn start(mood: Mood) -> Self {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let router = Router::new().route("/gql", post(answer)).with_state((Arc::new(schema()), mood));
        let mut task = JoinSet::new();
        task.spawn(async move { axum::serve(listener, router).await.unwrap() });
        Self { url, _task: task }
    }
}

async fn answer(
    State((schema, mood)): State<(Arc<Schema>, Mood)>,
    Json(body): Json<Value>,
) -> axum::response::Response {
    match mood {
        Mood::Broken => (StatusCode::BAD_REQUEST, HOSTILE).into_response(),
        Mood::Refusing(code) => {
            let error = json!({"message": HOSTILE, "extensions": {"code": code, "field": HOSTILE}, "path": [HOSTILE]});
            Json(json!({"data": null, "errors": [error]})).into_response()
        }
        Mood::Hostile => {
            let document = parse_query::<String>(body["query"].as_str().unwrap()).unwrap().into_static();
            let mut fragments = HashMap::new();
            let mut root = None;
            for part in document.definitions {
                match part {
                    Part::Fragment(fragment) => {
                        fragments.insert(fragment.name.clone(), fragment.selection_set.items);
                    }
                    Part::Operation(OperationDefinition::Query(query)) => {
                        root = Some(("RootQueryType", query.selection_set.items));
                    }
                    Part::Operation(OperationDefinition::Mutation(mutation)) => {
                        root = Some(("RootMutationType", mutation.selection_set.items));
                    }
                    Part::Operation(_) => {}
                }
            }
            let (name, selection) = root.unwrap();
            Json(json!({"data": object(&schema, name, &selection, &fragments)})).into_response()
        }
    }
}

type Fragments = HashMap<String, Vec<Selection<'static, String>>>;

fn object(
    schema: &Schema,
    name: &str,
    selection: &[Selection<'static, String>],
    fragments: &Fragments,
) -> Value {
    let fields = schema.definitions.iter().find_map(|definition| match definition {
        Definition::TypeDefinition(TypeDefinition::Object(object)) if object.name == name => {
            Some(&object.fields)
        }
        _ => None,
    });
    let fields = fields.unwrap_or_else(|| panic!("the schema has no object {name}"));
    let mut made = Map::new();
    for part in selection {
        match part {
            Selection::Field(field) => {
                let known = fields.iter().find(|known| known.name == field.name);
                let known = known.unwrap_or_else(|| panic!("{name} has no field {}", field.name));
                let key = field.alias.as_ref().unwrap_or(&field.name).clone();
                let inner = &field.selection_set.items;
                let value = match (name, field.name.as_str()) {
                    // What was asked for: a file of text, and not a folder.
                    ("ServiceFile", "path") => json!("a.yaml"),
                    _ => value(schema, &known.field_type, &field.name, inner, fragments),
                };
                merge(&mut made, key, value);
            }
            Selection::FragmentSpread(spread) => {
                let more = object(schema, name, &fragments[&spread.fragment_name], fragments);
                for (key, value) in more.as_object().unwrap().clone() {
                    merge(&mut made, key, value);
                }
            }
            Selection::InlineFragment(inline) => {
                let more = object(schema, name, &inline.selection_set.items, fragments);
                for (key, value) in more.as_object().unwrap().clone() {
                    merge(&mut made, key, value);
                }
            }
        }
    }
    Value::Object(made)
}

/// A field that is selected twice has what both selections ask for.
fn merge(into: &mut Map<String, Value>, key: String, value: Value) {
    match (into.get_mut(&key), value) {
        (Some(Value::Object(known)), Value::Object(more)) => {
            more.into_iter().for_each(|(key, value)| merge(known, key, value));
        }
        (Some(Value::Array(known)), Value::Array(more)) => {
            for (known, more) in known.iter_mut().zip(more) {
                if let (Value::Object(known), Value::Object(more)) = (known, more) {
                    more.into_iter().for_each(|(key, value)| merge(known, key, value));
                }
            }
        }
        (_, value) => drop(into.insert(key, value)),
    }
}

fn value(
    schema: &Schema,
    kind: &Type<'static, String>,
    field: &str,
    selection: &[Selection<'static, String>],
    fragments: &Fragments,
) -> Value {
    let name = match kind {
        Type::NonNullType(inner) => return value(schema, inner, field, selection, fragments),
        Type::ListType(inner) => return json!([value(schema, inner, field, selection, fragments)]),
        Type::NamedType(name) => name.as_str(),
    };
    match name {
        // Flows look things up by what they were given.
        "ID" => json!(ID),
        "Int" => json!(7),
        "Float" => json!(0.5),
        // No further page; nothing that waits for something else.
        "Boolean" => {
            json!(!matches!(field, "hasNextPage" | "hasPreviousPage" | "more" | "binary" | "leftOut"))
        }
        "DateTime" | "NaiveDateTime" => json!("2026-01-02T03:04:05.678901Z"),
        "Json" | "Map" if matches!(field, "labels" | "annotations" | "tags") => json!({HOSTILE: HOSTILE}),
        "Json" | "Map" => json!({HOSTILE: HOSTILE, "kind": HOSTILE, "metadata": {"name": HOSTILE}}),
        // Read as a time span: another text is an error that quotes it.
        "String" if matches!(field, "waveTimeout" | "retryWait" | "retryMaxWait") => json!("90s"),
        "String" => json!(HOSTILE),
        _ => {
            let definition = schema.definitions.iter().find_map(|definition| match definition {
                Definition::TypeDefinition(TypeDefinition::Enum(found)) if found.name == name => Some(found),
                _ => None,
            });
            let is_scalar = schema.definitions.iter().any(|definition| {
                matches!(definition, Definition::TypeDefinition(TypeDefinition::Scalar(scalar)) if scalar.name == name)
            });
            match definition {
                Some(found) => {
                    // What a command that waits waits for.
                    let done = ["READY", "DONE", "HEALTHY", "APPLIED"];
                    let names = || found.values.iter().map(|value| value.name.as_str());
                    json!(names().find(|name| done.contains(name)).or_else(|| names().next()))
                }
                None if is_scalar => json!(HOSTILE),
                None => object(schema, name, selection, fragments),
            }
        }
    }
}

/// Every command of a person that talks to a console, with words that its arguments need. `None`: it prints what the
/// person gave it, or what is a file by its nature.
const COMMANDS: &[(&str, Option<&str>)] = &[
    ("audit checkpoints", Some("")),
    ("audit export", Some("")),
    ("audit list", Some("")),
    ("audit verify", Some("")),
    ("auth can-i", Some("get cluster/blue")),
    ("auth explain", Some("get cluster/blue")),
    ("auth who-can", Some("get cluster/blue")),
    ("passkeys add", None),
    ("passkeys delete", Some("0190b8a2-7c11-7def-8000-0123456789ab --yes")),
    ("passkeys list", Some("")),
    ("passkeys rename", Some("0190b8a2-7c11-7def-8000-0123456789ab blue")),
    ("second-factor disable", Some("--yes --password-stdin")),
    ("second-factor enable", None),
    ("cd access grant", Some("read --project shop --group shop")),
    ("cd access list", Some("--project shop")),
    ("cd access revoke", Some("read --project shop --user ada@example.com")),
    ("apply", Some("-f tests/it/document.yaml")),
    ("cd clusters bootstrap", Some("blue --image example.com/plural:1 --rejoin")),
    ("cd bootstrap", Some("blue --image example.com/plural:1 --rejoin")),
    ("cd clusters create", Some("blue --tag a=b")),
    ("cd clusters credential", Some("")),
    ("cd clusters delete", Some("blue --yes")),
    ("cd clusters deprecations", Some("blue")),
    ("cd clusters describe", Some("blue")),
    ("cd clusters get-credentials", Some("blue")),
    ("cd clusters kubeconfig", Some("blue")),
    ("cd clusters list", Some("")),
    ("cd clusters recordings get", None),
    ("cd clusters recordings list", Some("blue")),
    ("cd clusters recordings play", None),
    ("cd clusters reinstall", Some("blue --image example.com/plural:1")),
    ("cd clusters rotate-token", Some("blue --yes")),
    ("cd clusters tag", Some("blue a=b")),
    ("cd clusters update", Some("blue --name Blue")),
    ("cd contexts delete", Some("shared --yes")),
    ("cd contexts get", Some("shared")),
    ("cd contexts list", Some("")),
    ("cd contexts save", Some("network --file -")),
    ("cd data-keys list", Some("shop")),
    ("cd data-keys rotate", Some("shop --yes")),
    (
        "cd federated-credentials create",
        Some("deployer@example.com --issuer https://ci.example.com --subject job"),
    ),
    ("cd federated-credentials delete", Some("0190b8a2-7c11-7def-8000-0123456789ab --yes")),
    ("cd federated-credentials list", Some("deployer@example.com")),
    ("cd global-services create", Some("monitoring --service blue/monitoring --tag stage=prod")),
    ("cd global-services delete", Some("web --yes")),
    ("cd global-services describe", Some("web")),
    ("cd global-services list", Some("")),
    ("cd global-services rollout", Some("status web")),
    ("cd global-services update", Some("web --tag a=b")),
    ("cd groups add", Some("shop ada@example.com")),
    ("cd groups create", Some("shop")),
    ("cd groups delete", Some("shop --yes")),
    ("cd groups describe", Some("shop")),
    ("cd groups list", Some("")),
    ("cd groups remove", Some("shop ada@example.com")),
    ("cd groups update", Some("shop --global true")),
    ("cd helm-repositories delete", Some("https://charts.example.com --yes")),
    ("cd helm-repositories list", Some("")),
    ("cd helm-repositories set", Some("https://charts.example.com")),
    ("cd jobs delete", Some("0190b8a2-7c11-7def-8000-0123456789ab --yes")),
    ("cd jobs list", Some("")),
    ("cd jobs retry", Some("--dead")),
    ("cd login", None),
    ("cd managed-namespaces create", Some("shop")),
    ("cd managed-namespaces delete", Some("shop --yes")),
    ("cd managed-namespaces get", Some("shop")),
    ("cd managed-namespaces list", Some("")),
    ("cd managed-namespaces update", Some("team-a --label team=a")),
    ("cd personas create", Some("developers --show sidebar.cd")),
    ("cd personas delete", Some("developers --yes")),
    ("cd personas list", Some("")),
    ("cd personas update", Some("developers --hide sidebar.cd")),
    ("cd projects create", Some("shop")),
    ("cd projects delete", Some("shop --yes")),
    ("cd projects describe", Some("shop")),
    ("cd projects limits", Some("shop --namespace shop")),
    ("cd projects list", Some("")),
    ("cd projects recordings", Some("shop")),
    ("cd projects secret-backend", Some("shop vault --yes")),
    ("cd projects secrets", Some("shop")),
    ("cd projects stack-rules", Some("shop --clear")),
    ("cd projects stack-settings", Some("shop")),
    ("cd projects update", Some("shop --default")),
    ("cd providers create", Some("acme --issuer https://id.example.com --client-id plural --stdin")),
    ("cd providers delete", Some("acme --yes")),
    ("cd providers describe", Some("acme")),
    ("cd providers list", Some("")),
    ("cd providers update", Some("acme --creates-users --stdin")),
    ("cd registration-tokens create", Some("--project shop")),
    ("cd registration-tokens delete", Some("0190b8a2-7c11-7def-8000-0123456789ab --yes")),
    ("cd registration-tokens list", Some("")),
    ("cd repositories create", Some("https://git.example.com/a")),
    ("cd repositories delete", Some("https://git.example.com/a --yes")),
    ("cd repositories get", Some("https://git.example.com/a")),
    ("cd repositories list", Some("")),
    ("cd repositories update", Some("https://git.example.com/a --to https://git.example.com/b")),
    ("cd roles create", Some("operator --action read")),
    ("cd roles delete", Some("operator --yes")),
    ("cd roles describe", Some("operator")),
    ("cd roles list", Some("")),
    ("cd roles update", Some("operator --action read")),
    ("cd saved-views create", Some("failing --page services")),
    ("cd saved-views delete", Some("0190b8a2-7c11-7def-8000-0123456789ab --yes")),
    ("cd saved-views list", Some("")),
    ("cd scm-connections create", Some("github --type github")),
    ("cd scm-connections delete", Some("github --yes")),
    ("cd scm-connections describe", Some("github")),
    ("cd scm-connections list", Some("")),
    ("cd scm-connections update", Some("github --owner acme")),
    ("cd scm-webhooks create", None),
    ("cd scm-webhooks delete", Some("0190b8a2-7c11-7def-8000-0123456789ab --yes")),
    ("cd scm-webhooks list", Some("")),
    ("cd scm-webhooks register", Some("github --repository acme/shop")),
    ("cd scm-webhooks unregister", Some("github --organization acme --yes")),
    ("cd service-accounts create", Some("deployer --project shop")),
    ("cd service-accounts delete", Some("deployer@example.com --yes")),
    ("cd service-accounts end-tokens", Some("deployer@example.com --yes")),
    ("cd service-accounts list", Some("")),
    ("cd service-accounts token", Some("deployer@example.com")),
    ("cd service-accounts update", Some("deployer@example.com --name Deployer")),
    ("cd services agent-upgrade", Some("blue/web")),
    ("cd services approve-prune", Some("blue/web --yes")),
    ("cd services canary gate", Some("blue/web")),
    ("cd services canary proceed", Some("blue/web")),
    ("cd services canary rollback", Some("blue/web")),
    ("cd services clone", Some("blue/web green/web")),
    ("cd services create", Some("blue/web --repository https://git.example.com/a --ref main --folder web")),
    ("cd services delete", Some("blue/web --yes")),
    ("cd services describe", Some("blue/web")),
    ("cd services detach", Some("blue/web --yes")),
    ("cd services diff", Some("blue/web")),
    ("cd services drift", Some("blue/web")),
    ("cd services events", Some("blue/web")),
    ("cd services failures", Some("")),
    ("cd services files", Some("blue/web")),
    ("cd services ignore", Some("blue/web Deployment.apps/shop/web --field /spec/replicas")),
    ("cd services kick", Some("blue/web")),
    ("cd services list", Some("")),
    ("cd services logs", Some("blue/web")),
    ("cd services pause", Some("blue/web")),
    ("cd services plan", Some("blue/web")),
    ("cd services release", Some("blue/web")),
    ("cd services render", Some("blue/web")),
    ("cd services resume", Some("blue/web")),
    ("cd services revisions", Some("blue/web")),
    ("cd services rollback", Some("blue/web")),
    ("cd services rotate-seed", Some("blue/web --yes")),
    ("cd services sync", Some("blue/web")),
    ("cd services take-over", Some("blue/web Deployment.apps/shop/web")),
    ("cd services tarball", None),
    ("cd services tree", Some("blue/web")),
    ("cd services update", Some("blue/web --ref main")),
    ("cd services wait", Some("blue/web --timeout 1s")),
    ("cd settings stacks", Some("")),
    ("cd stack-definitions create", Some("dns --apply-command make")),
    ("cd stack-definitions delete", Some("dns --yes")),
    ("cd stack-definitions describe", Some("dns")),
    ("cd stack-definitions list", Some("")),
    ("cd stack-definitions update", Some("dns --name names")),
    ("cd stacks approve", Some("network --yes")),
    ("cd stacks cancel", Some("network --yes")),
    ("cd stacks commands create", Some("grow --stack network -- ls")),
    ("cd stacks commands delete", Some("0190b8a2-7c11-7def-8000-0123456789ab --yes")),
    ("cd stacks commands describe", Some("0190b8a2-7c11-7def-8000-0123456789ab")),
    ("cd stacks commands list", Some("")),
    ("cd stacks commands run", Some("0190b8a2-7c11-7def-8000-0123456789ab --no-wait")),
    ("cd stacks commands update", Some("0190b8a2-7c11-7def-8000-0123456789ab --name grow")),
    ("cd stacks create", Some("network")),
    ("cd stacks delete", Some("network --yes")),
    ("cd stacks describe", Some("network")),
    ("cd stacks detach", Some("network --yes")),
    ("cd stacks drift", Some("network")),
    ("cd stacks exec", Some("network --no-wait -- ls")),
    ("cd stacks gen-backend", Some("network")),
    ("cd stacks graph", Some("")),
    ("cd stacks list", Some("")),
    ("cd stacks logs", Some("network")),
    ("cd stacks outputs", Some("network")),
    ("cd stacks plan", Some("network --timeout 1s")),
    ("cd stacks policy test", None),
    ("cd stacks reject", Some("network --reason no --yes")),
    (
        "cd stacks release",
        Some("network --pull-request https://git.example.com/acme/infra/pulls/1 --commit 00 --yes"),
    ),
    ("cd stacks restart", Some("network")),
    ("cd stacks restore", Some("network")),
    ("cd stacks run", Some("network")),
    ("cd stacks runs", Some("network")),
    ("cd stacks state diff", Some("network 1 2")),
    ("cd stacks state list", Some("network")),
    ("cd stacks state pull", Some("network")),
    ("cd stacks state restore", Some("network 1 --yes")),
    ("cd stacks state show", Some("network")),
    ("cd stacks state unlock", Some("network --yes")),
    ("cd stacks trigger", Some("network")),
    ("cd stacks update", Some("network --protect false")),
    ("cd stacks waiting", Some("")),
    ("cd sync-windows create", Some("deny --schedule @daily --duration 1h --project shop")),
    ("cd sync-windows delete", Some("--project shop 0190b8a2-7c11-7def-8000-0123456789ab --yes")),
    ("cd sync-windows list", Some("--project shop")),
    ("cd users create", Some("grace@example.com --name Grace --stdin")),
    ("cd users delete", Some("grace@example.com --yes")),
    ("cd users describe", Some("grace@example.com")),
    ("cd users identities", Some("grace@example.com")),
    ("cd users invite", Some("ada@example.com --password-stdin")),
    ("cd users invites", Some("")),
    ("cd users list", Some("")),
    ("cd users reset-password", Some("ada@example.com --password-stdin")),
    ("cd users resume", Some("ada@example.com")),
    ("cd users suspend", Some("ada@example.com --yes")),
    ("cd users uninvite", Some("0190b8a2-7c11-7def-8000-0123456789ab --yes")),
    ("cd users untie", Some("grace@example.com --provider acme --yes")),
    ("cd users update", Some("grace@example.com --admin")),
    ("completion", None),
    ("login", None),
    ("logout", None),
    ("delete", Some("-f tests/it/document.yaml --yes")),
    ("diff", Some("-f tests/it/document.yaml")),
    ("explain", None),
    ("get", Some("all")),
    ("password", Some("--stdin")),
    ("pr automations create", Some("--file tests/it/automation.yaml --connection github")),
    ("pr automations delete", Some("service --yes")),
    ("pr automations describe", Some("service")),
    ("pr automations list", Some("")),
    ("pr automations update", Some("service --name other")),
    ("pr close", Some("0190b8a2-7c11-7def-8000-0123456789ab --yes")),
    ("pr contracts", None),
    ("pr create", Some("add-service --set name=shop")),
    ("pr describe", Some("0190b8a2-7c11-7def-8000-0123456789ab")),
    ("pr governance create", Some("board --connection github --webhook-url https://board.invalid")),
    ("pr governance delete", Some("board --yes")),
    ("pr governance describe", Some("board")),
    ("pr governance list", Some("")),
    ("pr governance update", Some("board --no-secret")),
    ("pr instances describe", Some("0190b8a2-7c11-7def-8000-0123456789ab")),
    // Its differences are files.
    ("pr instances diff", Some("0190b8a2-7c11-7def-8000-0123456789ab -o json")),
    ("pr instances list", Some("")),
    ("pr list", Some("")),
    ("pr merge", Some("0190b8a2-7c11-7def-8000-0123456789ab --yes")),
    ("pr outdated", Some("")),
    ("pr plan", Some("https://git.example.com/acme/apps.git --commit main")),
    // Its patch is a file.
    ("pr preview", Some("add-service --set name=shop -o name")),
    ("pr refresh", Some("0190b8a2-7c11-7def-8000-0123456789ab")),
    ("pr release", Some("0190b8a2-7c11-7def-8000-0123456789ab --commit main --yes")),
    ("pr replan", Some("0190b8a2-7c11-7def-8000-0123456789ab")),
    ("pr template", None),
    ("pr test", None),
    ("pr uninstall", Some("0190b8a2-7c11-7def-8000-0123456789ab")),
    ("pr upgrade", Some("0190b8a2-7c11-7def-8000-0123456789ab")),
    ("pr windows", Some("0190b8a2-7c11-7def-8000-0123456789ab --none")),
    ("tokens create", Some("--valid-for 1h")),
    ("tokens list", Some("")),
    ("tokens revoke", Some("0190b8a2-7c11-7def-8000-0123456789ab --yes")),
    ("version", None),
    ("whoami", Some("")),
];

fn leaves(command: &clap::Command, path: &str, found: &mut BTreeSet<String>) {
    let children: Vec<&clap::Command> =
        command.get_subcommands().filter(|child| child.get_name() != "help").collect();
    if children.is_empty() {
        found.insert(path.to_owned());
    }
    for child in children {
        leaves(child, format!("{path} {}", child.get_name()).trim_start(), found);
    }
}

/// A command that is not in the list fails here.
#[test]
fn attack_28_no_command_is_forgotten() {
    let mut found = BTreeSet::new();
    leaves(&plural_cli::command(), "", &mut found);
    let listed: BTreeSet<String> = COMMANDS.iter().map(|(path, _)| (*path).to_owned()).collect();
    assert_eq!(listed, found);
}

fn is_plain(text: &str) -> bool {
    text.chars().all(|letter| {
        matches!(letter, '\n' | '\t')
            || !(letter.is_control()
                || matches!(letter, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' | '\u{200e}' | '\u{200f}' | '\u{2028}' | '\u{2029}'))
    })
}

fn check(line: &str, done: &Done) {
    for (stream, text) in [("stdout", &done.out), ("stderr", &done.err)] {
        assert!(is_plain(text), "{stream} of `{line}`: {text:?}");
        // Words of a console do not look like ours.
        let forged = text.lines().any(|line| line == "error: forged" || line == "error: forged\t");
        assert!(!forged || stream == "stdout", "{stream} of `{line}`: {text:?}");
    }
}

async fn run(person: &Person, line: &str) -> Done {
    let run = tokio::time::timeout(std::time::Duration::from_mins(1), person.run(line)).await;
    let done = run.unwrap_or_else(|_| panic!("`{line}` does not end"));
    check(line, &done);
    done
}

#[tokio::test]
async fn attack_28_what_a_console_answers_is_printed_as_text() {
    let console = Console::start(Mood::Hostile).await;
    let person = Person::of(&console.url).piping("a: b\n");
    let mut shown = 0;
    let mut unread = Vec::new();
    for (path, words) in COMMANDS {
        let Some(words) = words else { continue };
        let plain = format!("{path} {words}");
        let mut formats = vec![String::new()];
        let help = run(&person, &format!("{path} --help")).await.out;
        for format in ["table", "wide", "json", "yaml", "name"] {
            let is_free = !plain.contains(" -o ");
            if is_free && help.contains("--output") && help.contains(&format!("- {format}:")) {
                formats.push(format!("-o {format}"));
            }
        }
        for format in formats {
            // What is behind `--` is for another program.
            let line = match plain.split_once(" -- ") {
                Some((ours, theirs)) => format!("{ours} {format} -- {theirs}"),
                None => format!("{} {format}", plain.trim_end()),
            };
            let done = run(&person, line.trim_end()).await;
            // A command line that is not understood is answered with how it is written.
            let is_command = !done.err.contains("Usage: ");
            assert!(is_command, "`{line}` is no command: {}", done.err);
            if done.err.contains("cannot be read") {
                unread.push(done.err.clone());
            }
            // The escape is seen as an escape, so that nobody wonders where it went; spaces stand for it in tables.
            shown += usize::from(done.out.contains("evil.example") || done.err.contains("evil.example"));
            if format == "-o json" && done.code == 0 {
                let read: Value = serde_json::from_str(&done.out).unwrap();
                assert!(!read.is_null(), "{line}");
            }
        }
    }
    // What a command cannot read it does not print either, and nothing would be shown here.
    assert!(unread.is_empty(), "{}", unread.join(""));
    assert!(shown > COMMANDS.len(), "{shown} outputs hold what the console answered");
}

#[tokio::test]
async fn attack_28_errors_of_a_console_are_printed_as_text() {
    for mood in [
        Mood::Refusing("INVALID"),
        Mood::Refusing("FORBIDDEN"),
        Mood::Refusing("NOT_FOUND"),
        Mood::Refusing("CONFLICT"),
        Mood::Refusing("UNAUTHENTICATED"),
        Mood::Refusing("\u{1b}]0;code\u{7}"),
        Mood::Broken,
    ] {
        let console = Console::start(mood).await;
        let person = Person::of(&console.url);
        for (path, words) in COMMANDS {
            let Some(words) = words else { continue };
            let done = run(&person, format!("{path} {words}").trim_end()).await;
            assert!(done.code != 0 && done.err.contains("error: "), "{path}: {done:?}");
        }
    }
}

/// What goes into a file is what it was.
#[tokio::test]
async fn what_is_not_shown_on_a_screen_is_exact_where_it_is_a_file() {
    let console = Console::start(Mood::Hostile).await;
    let line = "cd services files blue/web a.yaml";
    let file = run_unchecked(&Person::of(&console.url).into_a_file(), line).await;
    assert_eq!(file.out, HOSTILE, "{file:?}");
    let screen = run(&Person::of(&console.url), line).await;
    assert!(screen.out.contains("\\u{1b}]52;"), "{}", screen.out);
}

async fn run_unchecked(person: &Person, line: &str) -> Done {
    person.run(line).await
}
