//! Every field of the schema, asked by everyone, with secrets planted wherever one can be given.
//!
//! The documents are made from the schema: one for each root field, which reaches every type that can be reached from it
//! and asks for all fields of each. `field_sweep/fields.txt` says of each field who may see secrets in it. A field
//! without a line there fails the test.

mod schema;
mod world;

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use self::{
    schema::Schema,
    world::{MUTATIONS, QUERIES, SUBSCRIPTIONS, World},
};

const FIELDS: &str = include_str!("field_sweep/fields.txt");

/// Who may see secrets in a field.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Seen {
    /// Nobody: there is none.
    Never,
    /// Who made it, in the answer that made it.
    Once,
    /// Who may change the thing.
    Writers,
    /// Administrators of the installation.
    Admins,
}

/// The table, and its lines that cannot be read.
fn table() -> BTreeMap<(String, String), Seen> {
    FIELDS
        .lines()
        .filter(|line| !line.is_empty() && !line.starts_with('#'))
        .map(|line| {
            let (field, seen) = line.split_once(' ').unwrap_or_else(|| panic!("{line}"));
            let (of, name) = field.split_once('.').unwrap_or_else(|| panic!("{line}"));
            let seen = match seen.trim() {
                "never" => Seen::Never,
                "once" => Seen::Once,
                "writers" => Seen::Writers,
                "admins" => Seen::Admins,
                other => panic!("{line}: {other}"),
            };
            ((of.to_owned(), name.to_owned()), seen)
        })
        .collect()
}

#[test]
fn every_field_has_a_line() {
    let lines: BTreeSet<_> = table().into_keys().collect();
    let fields = Schema::read().fields();
    let name = |(of, name): &(String, String)| format!("{of}.{name}");
    let missing: Vec<_> = fields.difference(&lines).map(name).collect();
    let gone: Vec<_> = lines.difference(&fields).map(name).collect();
    assert!(missing.is_empty(), "say in fields.txt who may see secrets in: {}", missing.join(" "));
    assert!(gone.is_empty(), "fields.txt has lines of fields that there are not: {}", gone.join(" "));
    assert!(fields.len() > 400, "the schema was not read: {}", fields.len());
}

#[test]
fn every_root_field_is_asked() {
    let schema = Schema::read();
    let asked: BTreeSet<String> = QUERIES.iter().map(|(name, _)| (*name).to_owned()).collect();
    let fields: BTreeSet<String> =
        schema.types["RootQueryType"].iter().map(|field| field.name.clone()).collect();
    assert_eq!(fields, asked);
    let asked: BTreeSet<&str> = SUBSCRIPTIONS.iter().map(|(name, _)| *name).collect();
    let fields: BTreeSet<&str> =
        schema.types["RootSubscriptionType"].iter().map(|field| field.name.as_str()).collect();
    assert_eq!(fields, asked);
    // What is reached from them is everything but what only mutations answer.
    let mut reached = BTreeSet::new();
    for (root, kind) in QUERIES
        .iter()
        .map(|it| (it, "RootQueryType"))
        .chain(MUTATIONS.iter().map(|it| (it, "RootMutationType")))
        .chain(SUBSCRIPTIONS.iter().map(|it| (it, "RootSubscriptionType")))
    {
        reached.extend(schema.document(kind, root.0, root.1).asked);
    }
    let roots = |of: &str| of.starts_with("Root");
    let missed: Vec<_> = schema
        .fields()
        .into_iter()
        .filter(|(of, name)| !roots(of) && !reached.contains(&(of.clone(), name.clone())))
        .collect();
    assert!(missed.is_empty(), "no document asks for: {missed:?}");
}

#[tokio::test]
async fn attack_21_nobody_sees_secrets_that_are_not_theirs() {
    let world = World::new().await;
    let (schema, table) = (Schema::read(), table());
    let mut faults = BTreeSet::new();
    let mut found: BTreeMap<(String, String), BTreeSet<&str>> = BTreeMap::new();
    let mut answered = BTreeSet::new();
    let mut requests = 0;
    let all = QUERIES
        .iter()
        .map(|it| ("RootQueryType", it))
        .chain(MUTATIONS.iter().map(|it| ("RootMutationType", it)))
        .chain(SUBSCRIPTIONS.iter().map(|it| ("RootSubscriptionType", it)));
    for (kind, (root, arguments)) in all {
        let document = schema.document(kind, root, &world.arguments(arguments));
        for (who, person) in world.people() {
            requests += 1;
            let answer = person.ask(&document.text, Value::Null).await;
            if answer.status != 200 {
                // Without a credential no more than a few lines are even read.
                // Sockets are for users.
                let is_no_user =
                    kind == "RootSubscriptionType" && who == "registration token" && answer.status == 401;
                let is_nobody = who == "nobody" && [401, 413].contains(&answer.status);
                if !is_no_user && !is_nobody {
                    faults.insert(format!("{root} as {who}: {} {}", answer.status, answer.message()));
                }
                continue;
            }
            let mut seen_here = 0;
            schema.leaves(kind, &answer.body["data"], &mut |of, field, text| {
                let key = (of.to_owned(), field.to_owned());
                if who == "admin" {
                    answered.insert(key.clone());
                }
                for (canary, _) in world
                    .canaries
                    .iter()
                    .filter(|(_, forms)| forms.iter().any(|form| text.contains(form.as_str())))
                {
                    seen_here += 1;
                    found.entry(key.clone()).or_default().insert(who);
                    let may = match table[&key] {
                        Seen::Never => false,
                        Seen::Once => kind == "RootMutationType",
                        Seen::Writers => matches!(who, "writer" | "admin"),
                        Seen::Admins => who == "admin",
                    };
                    if !may {
                        faults.insert(format!("{root} as {who}: {of}.{field} holds the {canary}"));
                    }
                }
            });
            // What is in the answer and in no field is in an error.
            let text = answer.body.to_string();
            let all = world
                .canaries
                .iter()
                .filter(|(_, forms)| forms.iter().any(|form| text.contains(form.as_str())));
            if all.count() > 0 && seen_here == 0 {
                faults.insert(format!("{root} as {who}: an error holds a secret: {text}"));
            }
        }
    }
    assert!(faults.is_empty(), "{}", faults.into_iter().collect::<Vec<_>>().join("\n"));
    // The sweep looked where the secrets are: who may see them did.
    for (field, who) in [
        ("ServiceConfiguration.value", "writer"),
        ("HelmSpec.values", "writer"),
        ("HelmValue.value", "writer"),
        ("HelmMinimal.values", "writer"),
        ("RenderedObject.content", "writer"),
        ("GitRepositoryWebhook.secret", "writer"),
        ("RootQueryType.webhookSecret", "admin"),
        ("RootQueryType.serviceGateUrl", "writer"),
    ] {
        let (of, name) = field.split_once('.').unwrap();
        let saw = found.get(&(of.to_owned(), name.to_owned())).is_some_and(|people| people.contains(who));
        assert!(saw, "{who} saw no secret in {field}, where one was planted: {found:?}");
    }
    let values = schema.values();
    println!(
        "{} fields, {values} of them values, {} with one for the administrator, {requests} requests",
        table.len(),
        answered.len()
    );
    assert!(answered.len() * 2 > values, "most fields had no value: {} of {values}", answered.len());
    world.stop().await;
}
