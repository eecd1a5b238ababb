//! What an object's annotations ask of its sync. Three dialects are read: our own, Argo CD's, Helm's.
//!
//! | asks for | own (`deployment.plural.sh/`) | Argo CD (`argocd.argoproj.io/`) | Helm (`helm.sh/`) |
//! |---|---|---|---|
//! | a phase | `sync-hook` | `hook` | `hook` |
//! | a wave | `sync-wave` | `sync-wave` | `hook-weight` |
//! | deletion of a hook | `sync-hook-delete-policy` | `hook-delete-policy` | `hook-delete-policy` |
//! | options | `sync-options` | `sync-options` | `resource-policy` |
//!
//! Where two dialects say the same thing, the left one counts. Of Flux (`kustomize.toolkit.fluxcd.io/`) the few that say
//! something about one object are read too: `prune`, `reconcile`, `force`, `ssa`.

use std::time::Duration;

use plural_core::specs::Seconds;
use serde_json::Value;

use crate::{
    key::GroupKind,
    phase::{Phase, Phases},
    pointer::Pointer,
};

const OWN: [&str; 2] = ["deployment.plural.sh/", "deployments.plural.sh/"];
const ARGO: &str = "argocd.argoproj.io/";
const HELM: &str = "helm.sh/";
const FLUX: &str = "kustomize.toolkit.fluxcd.io/";

/// When a finished hook is deleted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct HookCleanup {
    pub(crate) succeeded: bool,
    pub(crate) failed: bool,
}

/// Whether an object may be deleted by us.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum Removal {
    /// Yes.
    #[default]
    Allowed,
    /// Only when a person approved it.
    Confirm,
    /// No; it stays and stays ours.
    Never,
}

/// How the API server deletes what belongs to a deleted object.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum Propagation {
    #[default]
    Background,
    Foreground,
    Orphan,
}

impl Propagation {
    pub(crate) const fn as_str(self) -> &'static str {
        match self {
            Self::Background => "Background",
            Self::Foreground => "Foreground",
            Self::Orphan => "Orphan",
        }
    }
}

/// Everything that the annotations of one object ask for.
#[derive(Debug, Clone, PartialEq, Eq)]
#[expect(clippy::struct_excessive_bools, reason = "each is one option that a person may write")]
pub(crate) struct Directives {
    /// Empty: it is never applied.
    pub(crate) phases: Phases,
    /// A phase was asked for: it is a hook, not only an object.
    pub(crate) hook: bool,
    pub(crate) wave: Option<i32>,
    /// Whether the next wave waits for its health.
    pub(crate) wait: bool,
    pub(crate) timeout: Option<Duration>,
    pub(crate) cleanup: HookCleanup,
    /// When it leaves the desired state.
    pub(crate) prune: Removal,
    /// When the service is destroyed.
    pub(crate) delete: Removal,
    /// Instead of being deleted it loses our marks.
    pub(crate) detach: bool,
    pub(crate) propagation: Propagation,
    /// PUT instead of server-side apply.
    pub(crate) replace: bool,
    /// Deleted and created anew where it cannot be changed.
    pub(crate) force: bool,
    /// Unknown fields are refused by the API server.
    pub(crate) validate: bool,
    /// Fields that another tool applied are taken over whole.
    pub(crate) migrate: bool,
    /// A kind that is not served yet is waited for.
    pub(crate) skip_missing: bool,
    pub(crate) ignore: Vec<Pointer>,
    pub(crate) backfill: Vec<Pointer>,
    pub(crate) ignore_managers: Vec<String>,
    /// What was written and means nothing here.
    pub(crate) misunderstood: Vec<String>,
}

impl Default for Directives {
    fn default() -> Self {
        Self {
            phases: Phases::of(Phase::Sync),
            hook: false,
            wave: None,
            wait: true,
            timeout: None,
            cleanup: HookCleanup::default(),
            prune: Removal::Allowed,
            delete: Removal::Allowed,
            detach: false,
            propagation: Propagation::Background,
            replace: false,
            force: false,
            validate: true,
            migrate: true,
            skip_missing: false,
            ignore: Vec::new(),
            backfill: Vec::new(),
            ignore_managers: Vec::new(),
            misunderstood: Vec::new(),
        }
    }
}

struct Annotations<'a>(&'a Value);

impl<'a> Annotations<'a> {
    fn own(&self, name: &str) -> Option<&'a str> {
        OWN.iter().find_map(|prefix| self.0[format!("{prefix}{name}")].as_str())
    }

    fn argo(&self, name: &str) -> Option<&'a str> {
        self.0[format!("{ARGO}{name}")].as_str()
    }

    fn helm(&self, name: &str) -> Option<&'a str> {
        self.0[format!("{HELM}{name}")].as_str()
    }

    fn flux(&self, name: &str) -> Option<&'a str> {
        self.0[format!("{FLUX}{name}")].as_str()
    }
}

fn words(text: &str) -> impl Iterator<Item = &str> {
    text.split(',').map(str::trim).filter(|word| !word.is_empty())
}

impl Directives {
    /// Reads the annotations of `object`, rendered or live.
    pub(crate) fn of(object: &Value) -> Self {
        let annotations = &object["metadata"]["annotations"];
        let mut read = Self::default();
        if annotations.as_object().is_none_or(serde_json::Map::is_empty) {
            return read;
        }
        let annotations = Annotations(annotations);
        read.read_phases(&annotations);
        read.read_wave(&annotations);
        read.read_cleanup(&annotations);
        read.read_options(&annotations);
        read.read_fields(&annotations);
        read.read_flux(&annotations);
        read
    }

    fn read_phases(&mut self, annotations: &Annotations<'_>) {
        let (text, parse): (&str, fn(&str) -> Option<Phases>) =
            if let Some(text) = annotations.own("sync-hook") {
                (text, own_phase)
            } else if let Some(text) = annotations.argo("hook") {
                (text, argo_phase)
            } else if let Some(text) = annotations.helm("hook") {
                (text, helm_phase)
            } else {
                return;
            };
        let mut phases = Phases::default();
        for word in words(text) {
            match parse(word) {
                Some(phase) => phases = phases.and(phase),
                None => self.misunderstood.push(format!("{word:?} is not a hook phase")),
            }
        }
        self.phases = phases;
        self.hook = true;
    }

    fn read_wave(&mut self, annotations: &Annotations<'_>) {
        let text = annotations
            .own("sync-wave")
            .or_else(|| annotations.argo("sync-wave"))
            .or_else(|| annotations.helm("hook-weight"));
        match text.map(|text| (text, text.trim().parse())) {
            None => {}
            Some((_, Ok(wave))) => self.wave = Some(wave),
            Some((text, Err(_))) => {
                self.misunderstood.push(format!("{text:?} is not a wave: a wave is a whole number"));
            }
        }
        // Helm orders its hooks by weight alone, and a hook without one weighs nothing.
        let helm_hook = annotations.own("sync-hook").is_none()
            && annotations.argo("hook").is_none()
            && annotations.helm("hook").is_some();
        if helm_hook && self.wave.is_none() {
            self.wave = Some(0);
        }
        self.wait = annotations.own("sync-wave-wait") != Some("false");
        if let Some(text) = annotations.own("sync-wave-timeout") {
            match text.parse::<Seconds>() {
                Ok(timeout) => self.timeout = Some(timeout.into()),
                Err(_) => {
                    self.misunderstood
                        .push(format!("{text:?} is not a duration: write it like \"90s\" or \"5m\""));
                }
            }
        }
    }

    fn read_cleanup(&mut self, annotations: &Annotations<'_>) {
        let text = annotations
            .own("sync-hook-delete-policy")
            .or_else(|| annotations.argo("hook-delete-policy"))
            .or_else(|| annotations.helm("hook-delete-policy"));
        for word in text.into_iter().flat_map(words) {
            match word {
                "hook-succeeded" | "HookSucceeded" => self.cleanup.succeeded = true,
                "hook-failed" | "HookFailed" => self.cleanup.failed = true,
                // Always so: what runs once cannot be changed, so the old one goes first.
                "before-hook-creation" | "BeforeHookCreation" => {}
                other => self.misunderstood.push(format!("{other:?} is not a policy for deleting a hook")),
            }
        }
    }

    fn read_options(&mut self, annotations: &Annotations<'_>) {
        if annotations.helm("resource-policy") == Some("keep") {
            (self.prune, self.delete) = (Removal::Never, Removal::Never);
        }
        let raw = annotations.0;
        if raw["client.lifecycle.config.k8s.io/deletion"] == "detach"
            || raw["cli-utils.sigs.k8s.io/on-remove"] == "keep"
        {
            self.detach = true;
        }
        let (text, own) = match annotations.own("sync-options") {
            Some(text) => (text, true),
            None => (annotations.argo("sync-options").unwrap_or_default(), false),
        };
        for word in words(text) {
            let (name, value) = word.split_once('=').unwrap_or((word, "true"));
            self.read_option(word, name.trim(), value.trim(), own);
        }
        if self.prune == Removal::Never && self.delete == Removal::Never && own {
            self.detach = true;
        }
    }

    fn read_flux(&mut self, annotations: &Annotations<'_>) {
        let says = |name: &str, word: &str| {
            annotations.flux(name).is_some_and(|value| value.eq_ignore_ascii_case(word))
        };
        if says("prune", "disabled") {
            (self.prune, self.delete) = (Removal::Never, Removal::Never);
        }
        if says("reconcile", "disabled") || says("ssa", "ignore") {
            self.phases = Phases::default();
        }
        self.force |= says("force", "enabled");
        if let Some(other) =
            annotations.flux("ssa").filter(|_| !says("ssa", "ignore") && !says("ssa", "override"))
        {
            self.misunderstood.push(format!(
                "{FLUX}ssa: {other}: every field in git is applied; list fields to ignore in \
                 deployments.plural.sh/ignore-fields"
            ));
        }
    }

    fn read_option(&mut self, word: &str, name: &str, value: &str, own: bool) {
        let on = value.eq_ignore_ascii_case("true");
        let off = value.eq_ignore_ascii_case("false");
        let removal = match value.to_ascii_lowercase().as_str() {
            "false" => Removal::Never,
            "confirm" => Removal::Confirm,
            _ => Removal::Allowed,
        };
        match name {
            "Replace" => self.replace = on,
            "Force" => self.force = on,
            "Prune" => self.prune = removal,
            "Delete" => self.delete = removal,
            "Detach" if own => self.detach = on,
            "Validate" => self.validate = !off,
            "ClientSideApplyMigration" => self.migrate = !off,
            "SkipDryRunOnMissingResource" => self.skip_missing = on,
            "PrunePropagationPolicy" => match value {
                "foreground" => self.propagation = Propagation::Foreground,
                "orphan" => self.propagation = Propagation::Orphan,
                "background" => self.propagation = Propagation::Background,
                _ => self.misunderstood.push(format!("sync option {word:?} has an invalid value")),
            },
            "ServerSideApply" if off => {
                self.misunderstood.push(
                    "sync option \"ServerSideApply=false\": everything is applied on the server".to_owned(),
                );
            }
            // Always so here; the last one is a setting of the service: syncConfig.createNamespace.
            "ServerSideApply"
            | "ApplyOutOfSyncOnly"
            | "RespectIgnoreDifferences"
            | "PruneLast"
            | "FailOnSharedResource"
            | "CreateNamespace" => {}
            _ => self.misunderstood.push(format!("sync option {word:?} is not known")),
        }
    }

    fn read_fields(&mut self, annotations: &Annotations<'_>) {
        for (name, into) in [("ignore-fields", &mut self.ignore), ("backfill-fields", &mut self.backfill)] {
            for word in annotations.own(name).into_iter().flat_map(words) {
                match Pointer::parse(word) {
                    Some(pointer) => into.push(pointer),
                    None => {
                        self.misunderstood
                            .push(format!("{word:?} is not a JSON pointer: it begins with \"/\""));
                    }
                }
            }
        }
        self.ignore_managers
            .extend(annotations.own("ignore-managers").into_iter().flat_map(words).map(str::to_owned));
    }
}

fn own_phase(word: &str) -> Option<Phases> {
    Some(match word {
        "pre-sync" => Phases::of(Phase::PreSync),
        "sync" => Phases::of(Phase::Sync),
        "post-sync" => Phases::of(Phase::PostSync),
        "sync-fail" => Phases::of(Phase::SyncFail),
        "skip" => Phases::default(),
        _ => return None,
    })
}

fn argo_phase(word: &str) -> Option<Phases> {
    Some(match word {
        "PreSync" => Phases::of(Phase::PreSync),
        "Sync" => Phases::of(Phase::Sync),
        "PostSync" => Phases::of(Phase::PostSync),
        "SyncFail" => Phases::of(Phase::SyncFail),
        // Nothing is rendered when a service is destroyed, so nothing can be run then.
        "Skip" | "PreDelete" | "PostDelete" => Phases::default(),
        _ => return None,
    })
}

fn helm_phase(word: &str) -> Option<Phases> {
    Some(match word {
        "pre-install" | "pre-upgrade" => Phases::of(Phase::PreSync),
        "post-install" | "post-upgrade" => Phases::of(Phase::PostSync),
        "crd-install" => Phases::of(Phase::Sync),
        "test" | "test-success" | "test-failure" => Phases::of(Phase::Test),
        "pre-delete" | "post-delete" | "pre-rollback" | "post-rollback" => Phases::default(),
        _ => return None,
    })
}

/// Whether an object of this kind runs and ends, so that it is done once and not kept as it is.
pub(crate) fn runs_once(kind: &GroupKind, object: &Value, directives: &Directives) -> bool {
    let ends = kind.is("batch", "Job") || kind.is("", "Pod") || kind.is("argoproj.io", "Workflow");
    // A Job that deletes itself would otherwise be created again and again.
    ends && (directives.hook || object["spec"]["ttlSecondsAfterFinished"].is_number())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn read(annotations: &Value) -> Directives {
        Directives::of(&json!({"metadata": {"annotations": annotations}}))
    }

    #[test]
    fn three_dialects_say_the_same() {
        let own = read(
            &json!({"deployment.plural.sh/sync-hook": "pre-sync", "deployment.plural.sh/sync-wave": "-3",
            "deployment.plural.sh/sync-hook-delete-policy": "hook-succeeded"}),
        );
        let argo = read(&json!({"argocd.argoproj.io/hook": "PreSync", "argocd.argoproj.io/sync-wave": "-3",
            "argocd.argoproj.io/hook-delete-policy": "HookSucceeded"}));
        let helm = read(&json!({"helm.sh/hook": "pre-install,pre-upgrade", "helm.sh/hook-weight": "-3",
            "helm.sh/hook-delete-policy": "before-hook-creation,hook-succeeded"}));
        assert_eq!(own, argo);
        assert_eq!(own, helm);
        assert!(own.hook && own.phases.has(Phase::PreSync) && !own.phases.has(Phase::Sync));
        assert_eq!(own.wave, Some(-3));
    }

    #[test]
    fn the_left_dialect_counts_and_phases_may_be_many() {
        let read = read(&json!({"deployment.plural.sh/sync-hook": "pre-sync, post-sync",
            "argocd.argoproj.io/hook": "SyncFail", "argocd.argoproj.io/sync-wave": "7"}));
        assert!(read.phases.has(Phase::PreSync) && read.phases.has(Phase::PostSync));
        assert!(!read.phases.has(Phase::SyncFail));
        assert_eq!(read.wave, Some(7));
    }

    #[test]
    fn hooks_that_are_not_ours_to_run_are_not_applied() {
        for text in ["pre-delete", "post-rollback", "pre-delete,post-delete"] {
            assert!(read(&json!({"helm.sh/hook": text})).phases.is_empty(), "{text}");
        }
        assert!(read(&json!({"argocd.argoproj.io/hook": "Skip"})).phases.is_empty());
        assert!(read(&json!({"helm.sh/hook": "test"})).phases.has(Phase::Test));
    }

    #[test]
    fn options_of_both_dialects() {
        let both = read(
            &json!({"argocd.argoproj.io/sync-options": "Prune=false,Replace=true, Force=true,Delete=confirm"}),
        );
        assert_eq!((both.prune, both.delete), (Removal::Never, Removal::Confirm));
        assert!(both.replace && both.force && !both.detach);
        let own = read(&json!({"deployment.plural.sh/sync-options": "Prune=False,Delete=False"}));
        assert!(own.detach);
        assert_eq!(read(&json!({"helm.sh/resource-policy": "keep"})).prune, Removal::Never);
        let odd = read(&json!({"argocd.argoproj.io/sync-options": "Frobnicate=true,ServerSideApply=false"}));
        assert_eq!(odd.misunderstood.len(), 2, "{odd:?}");
    }

    #[test]
    fn what_flux_says_of_an_object() {
        let flux =
            |name: &str, value: &str| read(&json!({format!("kustomize.toolkit.fluxcd.io/{name}"): value}));
        assert_eq!(flux("prune", "disabled").prune, Removal::Never);
        assert_eq!(flux("prune", "Disabled").delete, Removal::Never);
        assert!(flux("reconcile", "disabled").phases.is_empty());
        assert!(flux("ssa", "Ignore").phases.is_empty());
        assert!(flux("force", "enabled").force && !flux("force", "disabled").force);
        assert_eq!(flux("ssa", "Override"), Directives::default());
        assert!(flux("ssa", "IfNotPresent").misunderstood[0].contains("ignore-fields"));
    }

    #[test]
    fn what_is_misunderstood_is_told() {
        let read = read(
            &json!({"deployment.plural.sh/sync-wave": "first", "deployment.plural.sh/sync-hook": "presync",
            "deployments.plural.sh/ignore-fields": "spec.replicas", "deployment.plural.sh/sync-wave-timeout": "soon"}),
        );
        assert_eq!(read.misunderstood.len(), 4, "{read:?}");
    }

    #[test]
    fn a_time_is_written_as_in_settings() {
        let timeout = |text: &str| read(&json!({"deployment.plural.sh/sync-wave-timeout": text})).timeout;
        assert_eq!(timeout("90s"), Some(Duration::from_secs(90)));
        assert_eq!(timeout(" 5m"), Some(Duration::from_mins(5)));
        assert_eq!(timeout("1h30m"), Some(Duration::from_mins(90)));
        assert_eq!(timeout("0s"), None);
    }
}
