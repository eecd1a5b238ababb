//! What patches do, in JSON and in GraphQL, and what checks refuse.

use proptest::prelude::{Strategy, any, prop_assert, prop_assert_eq};
use serde_json::{Value, json};

use super::*;
use crate::{Change, Document, Edit};

fn patch(json: Value) -> SyncConfigPatch {
    serde_json::from_value(json).unwrap()
}

#[test]
fn what_means_nothing_is_refused() {
    let ignore = |pointer: &str| DiffNormalizer {
        json_pointers: vec![pointer.to_owned()],
        ..DiffNormalizer::default()
    };
    for pointer in ["/spec/replicas", "/metadata/annotations/a~1b", "/spec/*/image", "/a//b"] {
        ignore(pointer).check().unwrap();
    }
    for pointer in ["", "/", "spec/replicas", "$.spec", "/a~2", "/a~"] {
        assert!(ignore(pointer).check().is_err(), "{pointer}");
    }
    assert!(DiffNormalizer::default().check().is_err());
    let managers = DiffNormalizer { managers: vec!["istiod".to_owned()], ..DiffNormalizer::default() };
    managers.check().unwrap();

    let policy = SyncPolicy::default();
    policy.check().unwrap();
    assert!(SyncPolicy { prune_percent: Some(0), ..policy.clone() }.check().is_err());
    assert!(SyncPolicy { prune_percent: Some(101), ..policy.clone() }.check().is_err());
    assert!(SyncPolicy { retry_max_wait: Some(Seconds(5)), ..policy }.check().is_err());

    for (account, good) in
        [("deployer", true), ("ci/deployer", true), ("", false), ("a/b/c", false), ("system:admin", false)]
    {
        let config = SyncConfig { service_account: Some(account.to_owned()), ..SyncConfig::default() };
        assert_eq!(config.check().is_ok(), good, "{account}");
    }
}

#[test]
fn a_fault_names_its_field_as_the_api_does() {
    let path = |json: Value| match SyncConfig::made(patch(json)).and_then(|config| config.check()) {
        Ok(()) => "none".to_owned(),
        Err(fault) => fault.within("syncConfig").path,
    };
    assert_eq!(path(json!({})), "none");
    for (given, expected) in [
        (json!({"policy": {"waveTimeout": "1x"}}), "syncConfig.policy.waveTimeout"),
        (json!({"policy": {"prunePercent": 101}}), "syncConfig.policy.prunePercent"),
        (json!({"namespaceMetadata": {"labels": [1]}}), "syncConfig.namespaceMetadata.labels"),
        (json!({"namespaceMetadata": {"annotations": {"a": 1}}}), "syncConfig.namespaceMetadata.annotations"),
        (json!({"diffNormalizers": [{}]}), "syncConfig.diffNormalizers"),
        (json!({"serviceAccount": "a/b/c"}), "syncConfig.serviceAccount"),
    ] {
        assert_eq!(path(given.clone()), expected, "{given}");
    }
}

#[test]
fn null_clears_what_can_be_absent_and_keeps_the_rest() {
    let old = SyncConfig::made(patch(json!({
        "createNamespace": false, "serviceAccount": "x", "diffNormalizers": [{"managers": ["istiod"]}],
        "policy": {"waveTimeout": "1h30m"},
    })));
    let old = old.unwrap();
    assert_eq!(old.policy.wave_timeout, Some(Seconds(5400)));
    let nulls = json!({
        "createNamespace": null, "serviceAccount": null, "diffNormalizers": null,
        "policy": {"waveTimeout": null, "prune": null}, "namespaceMetadata": {"labels": null},
    });
    let new = old.clone().patched(patch(nulls)).unwrap();
    assert_eq!((new.create_namespace, &new.service_account, new.policy.wave_timeout), (false, &None, None));
    assert_eq!((&new.diff_normalizers, new.policy.prune), (&old.diff_normalizers, true));

    // Lists and maps are replaced, not merged.
    let labels = |json| patch(json!({"namespaceMetadata": {"labels": json}}));
    let new = old.patched(labels(json!({"a": "1"}))).unwrap();
    let new = new.patched(labels(json!({"b": "2"}))).unwrap();
    assert_eq!(new.namespace_metadata.labels.keys().collect::<Vec<_>>(), ["b"]);
    let new = new.patched(patch(json!({"diffNormalizers": []}))).unwrap();
    assert!(new.diff_normalizers.is_empty());
}

#[test]
fn unknown_settings_are_refused_from_people_and_ignored_in_documents() {
    assert!(serde_json::from_value::<SyncConfigPatch>(json!({"polcy": {}})).is_err());
    assert!(serde_json::from_value::<SyncConfigPatch>(json!({"policy": {"prunePercentage": 3}})).is_err());
    let newer = json!({"policy": {"ofTomorrow": 1, "prune": false}, "createNamespace": null, "tomorrow": {}});
    let read: SyncConfig = serde_json::from_value(newer).unwrap();
    assert_eq!((read.policy.prune, read.create_namespace), (false, true));
}

#[test]
fn a_document_is_what_a_patch_that_says_all_of_it_makes() {
    assert_eq!(serde_json::from_value::<SyncConfig>(json!({})).unwrap(), SyncConfig::default());
    let all = json!({
        "createNamespace": false, "enforceNamespace": true, "deleteNamespace": true, "requireOwnership": false,
        "namespaceMetadata": {"labels": {"a": "b"}, "annotations": {"c": "d"}},
        "diffNormalizers": [{"name": "a", "kind": null, "namespace": "c", "jsonPointers": ["/d"], "backfill": true, "managers": []}],
        "policy": {
            "manual": true, "prune": false, "selfHeal": false, "waveWait": false, "waveTimeout": "90s", "retryLimit": 3,
            "retryWait": "5s", "retryMaxWait": "60s", "prunePercent": null, "pruneObjects": 5,
        },
        "serviceAccount": "ci/deployer",
    });
    let made = SyncConfig::made(patch(all.clone())).unwrap();
    assert_eq!(serde_json::to_value(&made).unwrap(), all, "one JSON is read and written");
    assert_eq!(serde_json::from_value::<SyncConfig>(all).unwrap(), made);
    made.check().unwrap();
    assert_eq!(Edit::Replace(made.clone()).over(SyncConfig::default()).unwrap(), made);
    let edit: Edit<SyncConfig> = Edit::Patch(SyncConfigPatch::default());
    assert_eq!(edit.over(made.clone()).unwrap(), made);
}

#[test]
fn a_patch_is_sent_as_it_is_given() {
    let text = r#"{"policy":{"waveTimeout":null,"prunePercent":3}}"#;
    let given: SyncConfigPatch = serde_json::from_str(text).unwrap();
    assert_eq!(given.policy.clone().unwrap().wave_timeout, Change::Clear);
    assert_eq!(serde_json::to_string(&given).unwrap(), text);
    assert!(!given.is_empty() && SyncConfigPatch::default().is_empty());
}

#[test]
fn a_patch_goes_before_another_setting_by_setting() {
    let one = patch(json!({"serviceAccount": null, "policy": {"prune": false, "waveTimeout": null}}));
    let other = patch(json!({
        "serviceAccount": "x", "policy": {"prune": true, "waveTimeout": "5m", "prunePercent": 3},
        "namespaceMetadata": {"labels": {"a": "b"}},
    }));
    let both = patch(json!({
        "serviceAccount": null, "policy": {"prune": false, "waveTimeout": null, "prunePercent": 3},
        "namespaceMetadata": {"labels": {"a": "b"}},
    }));
    assert_eq!(one.clone().or(other.clone()), both);
    assert_eq!(SyncConfigPatch::default().or(other.clone()), other);
    assert_eq!(one.clone().or(SyncConfigPatch::default()), one);
}

#[test]
fn what_is_absent_is_as_usual() {
    let policy = SyncPolicy::default();
    assert_eq!(
        (policy.wave_timeout(), policy.prune_percent(), policy.prune_objects()),
        (Seconds(600), 20, 10)
    );
    let policy = SyncPolicy { prune_percent: Some(30), wave_timeout: Some(Seconds(5)), ..policy };
    assert_eq!((policy.wave_timeout(), policy.prune_percent()), (Seconds(5), 30));
}

/// Each setting with two values that it can have.
fn settings() -> Vec<(&'static str, [Value; 2])> {
    vec![
        ("createNamespace", [json!(true), json!(false)]),
        ("enforceNamespace", [json!(true), json!(false)]),
        ("deleteNamespace", [json!(true), json!(false)]),
        ("requireOwnership", [json!(true), json!(false)]),
        ("namespaceMetadata.labels", [json!({"a": "b"}), json!({})]),
        ("namespaceMetadata.annotations", [json!({"a": "b"}), json!({"c": "d"})]),
        ("diffNormalizers", [json!([{"managers": ["istiod"]}]), json!([])]),
        ("policy.manual", [json!(true), json!(false)]),
        ("policy.prune", [json!(true), json!(false)]),
        ("policy.selfHeal", [json!(true), json!(false)]),
        ("policy.waveWait", [json!(true), json!(false)]),
        ("policy.waveTimeout", [json!("5m"), json!(null)]),
        ("policy.retryLimit", [json!(3), json!(null)]),
        ("policy.retryWait", [json!("10s"), json!(null)]),
        ("policy.retryMaxWait", [json!("1h"), json!("2h")]),
        ("policy.prunePercent", [json!(30), json!(null)]),
        ("policy.pruneObjects", [json!(1), json!(2)]),
        ("serviceAccount", [json!("deployer"), json!(null)]),
    ]
}

/// A patch of the settings that `chosen` gives a value.
fn patch_of(chosen: &[Option<usize>]) -> SyncConfigPatch {
    let mut all = json!({});
    for ((path, values), chosen) in settings().into_iter().zip(chosen) {
        let Some(chosen) = chosen else { continue };
        let mut place = &mut all;
        for key in path.split('.') {
            place = &mut place[key];
        }
        *place = values[*chosen].clone();
    }
    patch(all)
}

/// Of each setting: whether nobody, one or the other of two clients sets it, and to which value.
fn two_clients() -> impl Strategy<Value = (Vec<Option<usize>>, Vec<Option<usize>>)> {
    let each = proptest::collection::vec((0_u8..3, any::<bool>()), settings().len());
    each.prop_map(|all| {
        let of = |who: u8| -> Vec<Option<usize>> {
            let mine = |(chosen, value): &(u8, bool)| (*chosen == who).then_some(usize::from(*value));
            all.iter().map(mine).collect()
        };
        (of(1), of(2))
    })
}

proptest::proptest! {
    /// Two clients that change different settings both get what they asked for, whoever comes first.
    #[test]
    fn patches_of_different_settings_commute((one, other) in two_clients()) {
        let (one, other) = (patch_of(&one), patch_of(&other));
        let first = SyncConfig::made(one.clone()).unwrap().patched(other.clone()).unwrap();
        let second = SyncConfig::made(other.clone()).unwrap().patched(one.clone()).unwrap();
        prop_assert_eq!(&first, &second);
        let both = one.clone().or(other.clone());
        prop_assert_eq!(&SyncConfig::made(both).unwrap(), &first);
        for asked in [one, other] {
            prop_assert_eq!(&first.clone().patched(asked).unwrap(), &first);
        }
    }

    /// What is stored is read again as it was.
    #[test]
    fn documents_survive_their_json((one, _) in two_clients()) {
        let document = SyncConfig::made(patch_of(&one)).unwrap();
        let json = serde_json::to_string(&document).unwrap();
        prop_assert!(!json.contains('_'), "{json}");
        prop_assert_eq!(serde_json::from_str::<SyncConfig>(&json).unwrap(), document);
    }
}

#[cfg(feature = "graphql")]
#[test]
fn the_schema_takes_and_shows_every_setting() {
    use async_graphql::{EmptyMutation, EmptySubscription, Object, Schema};

    struct Query;

    #[Object]
    impl Query {
        async fn config(&self, attributes: Option<SyncConfigPatch>) -> Option<SyncConfigObject> {
            SyncConfig::made(attributes.unwrap_or_default()).ok().map(Into::into)
        }
    }

    let sdl = Schema::new(Query, EmptyMutation, EmptySubscription).sdl();
    for (head, fields) in [
        ("input SyncConfigAttributes", 8),
        ("type SyncConfig", 8),
        ("input SyncPolicyAttributes", 10),
        ("type SyncPolicy", 10),
        ("input DiffNormalizerAttributes", 6),
        ("type DiffNormalizer", 6),
        ("input MetadataAttributes", 2),
        ("type NamespaceMetadata", 2),
    ] {
        let body = sdl.split(&format!("{head} {{\n")).nth(1).expect(head).split("\n}").next().unwrap();
        let is_field =
            |line: &&str| line.starts_with(|c: char| c.is_ascii_lowercase()) && line.contains(": ");
        let found: Vec<&str> = body.lines().map(str::trim).filter(is_field).collect();
        assert_eq!(found.len(), fields, "{head}: {found:?}");
        // Clients know all of them as nullable.
        assert!(found.iter().all(|line| !line.ends_with('!')), "{head}: {found:?}");
    }
}
