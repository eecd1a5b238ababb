//! Settings of a service as contracts 0 and 1 carry them: a field for each, where later ones carry the document.
//!
//! A setting that is not here is not known to agents of those contracts: nothing is added. To be removed with the last of them.

use std::collections::BTreeMap;

use plural_specs::{DiffNormalizer, Seconds, SyncConfig, SyncPolicy};

use crate::v1;

/// What a service is applied by, for an agent of contract 0 or 1.
pub fn message(document: SyncConfig, limits: Option<v1::ProjectLimits>) -> v1::SyncConfig {
    v1::SyncConfig { limits, ..config_to(document) }
}

/// What a console of contract 0 or 1 said of it, or what was kept under one.
pub fn document(message: v1::SyncConfig) -> SyncConfig {
    config_from(SyncConfig::default(), message)
}

/// A value in the document and in the message.
trait Former {
    /// Its type in the message.
    type Message;

    fn into_message(self) -> Self::Message;
    fn from_message(message: Self::Message) -> Self;
}

/// The same in both.
macro_rules! same {
    ($($type:ty),+) => { $(
        impl Former for $type {
            type Message = Self;

            fn into_message(self) -> Self {
                self
            }

            fn from_message(message: Self) -> Self {
                message
            }
        }
    )+ };
}

same!(bool, Vec<String>, BTreeMap<String, String>);

impl Former for Option<String> {
    type Message = String;

    fn into_message(self) -> String {
        self.unwrap_or_default()
    }

    fn from_message(message: String) -> Self {
        Some(message).filter(|text| !text.is_empty())
    }
}

impl Former for Option<u32> {
    type Message = u32;

    fn into_message(self) -> u32 {
        self.unwrap_or_default()
    }

    fn from_message(message: u32) -> Self {
        Some(message).filter(|number| *number > 0)
    }
}

impl Former for Option<Seconds> {
    type Message = u32;

    fn into_message(self) -> u32 {
        self.map_or(0, u32::from)
    }

    fn from_message(message: u32) -> Self {
        <Option<u32> as Former>::from_message(message).map(Seconds)
    }
}

impl Former for SyncPolicy {
    type Message = Option<v1::SyncPolicy>;

    fn into_message(self) -> Option<v1::SyncPolicy> {
        Some(policy_to(self))
    }

    fn from_message(message: Option<v1::SyncPolicy>) -> Self {
        message.map_or_else(Self::default, |message| policy_from(Self::default(), message))
    }
}

impl Former for Vec<DiffNormalizer> {
    type Message = Vec<v1::DiffNormalizer>;

    fn into_message(self) -> Vec<v1::DiffNormalizer> {
        self.into_iter().map(normalizer_to).collect()
    }

    fn from_message(message: Vec<v1::DiffNormalizer>) -> Self {
        message.into_iter().map(|message| normalizer_from(DiffNormalizer::default(), message)).collect()
    }
}

/// Both ways of one message: what it has alike, what it has as the opposite, and what is not the document's.
macro_rules! former {
    (
        $document:ident, $to:ident, $from:ident,
        alike { $( $($ours:ident).+ = $theirs:ident; )+ }
        opposite { $( $positive:ident = $negative:ident; )* }
        beside { $( $beside:ident; )* }
    ) => {
        fn $to(document: $document) -> v1::$document {
            v1::$document {
                $( $theirs: Former::into_message(document.$($ours).+), )+
                $( $negative: !document.$positive, )*
                $( $beside: None, )*
            }
        }

        fn $from(mut document: $document, message: v1::$document) -> $document {
            $( document.$($ours).+ = Former::from_message(message.$theirs); )+
            $( document.$positive = !message.$negative; )*
            document
        }
    };
}

former! {
    SyncConfig, config_to, config_from,
    alike {
        create_namespace = create_namespace;
        enforce_namespace = enforce_namespace;
        delete_namespace = delete_namespace;
        require_ownership = require_ownership;
        namespace_metadata.labels = namespace_labels;
        namespace_metadata.annotations = namespace_annotations;
        diff_normalizers = diff_normalizers;
        policy = policy;
        service_account = service_account;
    }
    opposite {}
    beside { limits; }
}

former! {
    DiffNormalizer, normalizer_to, normalizer_from,
    alike {
        name = name;
        kind = kind;
        namespace = namespace;
        json_pointers = json_pointers;
        backfill = backfill;
        managers = managers;
    }
    opposite {}
    beside {}
}

former! {
    SyncPolicy, policy_to, policy_from,
    alike {
        manual = manual;
        wave_timeout = wave_timeout_seconds;
        retry_limit = retry_limit;
        retry_wait = retry_seconds;
        retry_max_wait = retry_max_seconds;
        prune_percent = prune_percent;
        prune_objects = prune_objects;
    }
    opposite {
        prune = no_prune;
        self_heal = no_self_heal;
        wave_wait = no_wave_wait;
    }
    beside {}
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn every_setting_of_contract_1_comes_back() {
        let all = json!({
            "createNamespace": false, "enforceNamespace": true, "deleteNamespace": true, "requireOwnership": false,
            "namespaceMetadata": {"labels": {"a": "b"}, "annotations": {"c": "d"}},
            "diffNormalizers": [
                {"name": "a", "kind": null, "namespace": "c", "jsonPointers": ["/d"], "backfill": true, "managers": []},
                {"managers": ["istiod"]},
            ],
            "policy": {
                "manual": true, "prune": false, "selfHeal": false, "waveWait": false, "waveTimeout": "90s",
                "retryLimit": 3, "retryWait": "5s", "retryMaxWait": "60s", "prunePercent": 30, "pruneObjects": 5,
            },
            "serviceAccount": "ci/deployer",
        });
        for given in [all, json!({})] {
            let given: SyncConfig = serde_json::from_value(given).unwrap();
            let limits = v1::ProjectLimits { project: "blue".to_owned(), ..v1::ProjectLimits::default() };
            let former = message(given.clone(), Some(limits.clone()));
            assert_eq!(former.limits, Some(limits));
            assert_eq!(document(former), given);
        }
    }

    fn one(key: &str, value: &str) -> BTreeMap<String, String> {
        [(key.to_owned(), value.to_owned())].into()
    }

    /// Fields of one type that change places are found: each has a value of its own.
    #[test]
    fn every_field_has_its_place() {
        let former = v1::SyncConfig {
            create_namespace: true,
            enforce_namespace: false,
            delete_namespace: false,
            require_ownership: true,
            namespace_labels: one("label", "1"),
            namespace_annotations: one("annotation", "2"),
            diff_normalizers: vec![v1::DiffNormalizer {
                name: "web-*".to_owned(),
                kind: "Deployment".to_owned(),
                namespace: "apps".to_owned(),
                json_pointers: vec!["/spec/replicas".to_owned()],
                backfill: true,
                managers: vec!["istiod".to_owned()],
            }],
            policy: Some(v1::SyncPolicy {
                manual: false,
                no_prune: false,
                no_self_heal: false,
                retry_limit: 3,
                retry_seconds: 5,
                retry_max_seconds: 60,
                wave_timeout_seconds: 90,
                no_wave_wait: false,
                prune_percent: 30,
                prune_objects: 7,
            }),
            service_account: "ci/deployer".to_owned(),
            limits: None,
        };
        let given: SyncConfig = serde_json::from_value(json!({
            "createNamespace": true, "enforceNamespace": false, "deleteNamespace": false, "requireOwnership": true,
            "namespaceMetadata": {"labels": {"label": "1"}, "annotations": {"annotation": "2"}},
            "diffNormalizers": [{
                "name": "web-*", "kind": "Deployment", "namespace": "apps", "jsonPointers": ["/spec/replicas"],
                "backfill": true, "managers": ["istiod"],
            }],
            "policy": {
                "manual": false, "prune": true, "selfHeal": true, "waveWait": true, "waveTimeout": "90s",
                "retryLimit": 3, "retryWait": "5s", "retryMaxWait": "60s", "prunePercent": 30, "pruneObjects": 7,
            },
            "serviceAccount": "ci/deployer",
        }))
        .unwrap();
        assert_eq!(document(former.clone()), given);
        assert_eq!(message(given, None), former);
    }

    /// Of flags, two have the same value; so each is set alone.
    #[test]
    fn every_flag_has_its_place() {
        fn policy(former: &mut v1::SyncConfig) -> &mut v1::SyncPolicy {
            former.policy.get_or_insert_default()
        }
        type Flag = fn(&mut v1::SyncConfig) -> &mut bool;
        // Where it is in the document, what it says there when it is set, and the flag.
        let flags: [(&str, bool, Flag); 8] = [
            ("/createNamespace", true, |former| &mut former.create_namespace),
            ("/enforceNamespace", true, |former| &mut former.enforce_namespace),
            ("/deleteNamespace", true, |former| &mut former.delete_namespace),
            ("/requireOwnership", true, |former| &mut former.require_ownership),
            ("/policy/manual", true, |former| &mut policy(former).manual),
            ("/policy/prune", false, |former| &mut policy(former).no_prune),
            ("/policy/selfHeal", false, |former| &mut policy(former).no_self_heal),
            ("/policy/waveWait", false, |former| &mut policy(former).no_wave_wait),
        ];
        for (set, (name, _, flag)) in flags.iter().enumerate() {
            let mut former =
                v1::SyncConfig { policy: Some(v1::SyncPolicy::default()), ..v1::SyncConfig::default() };
            *flag(&mut former) = true;
            let given = document(former.clone());
            let json = serde_json::to_value(&given).unwrap();
            for (at, (pointer, when_set, _)) in flags.iter().enumerate() {
                let expected = json!((at == set) == *when_set);
                assert_eq!(json.pointer(pointer), Some(&expected), "{name} is set: {pointer}");
            }
            assert_eq!(message(given, None), former);
        }
    }

    #[test]
    fn what_is_absent_says_what_it_said() {
        let absent = document(v1::SyncConfig::default());
        assert!(!absent.create_namespace && !absent.require_ownership);
        assert_eq!(absent.policy, SyncPolicy::default());
        let former = message(SyncConfig::default(), None);
        assert!(former.create_namespace && former.require_ownership && former.limits.is_none());
        let policy = former.policy.unwrap();
        assert_eq!(policy, v1::SyncPolicy::default(), "zeros stand for what is usual");
    }
}
