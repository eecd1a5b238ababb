//! How a service is synced and how far that is, in the words of `describe`, lists and waiting.

use std::fmt::Write as _;

use plural_wire::{
    PendingApproval, ServiceDeployment, ServiceSync, SyncConfig, SyncHook, SyncStep, SyncWaiting,
};

use crate::output::or_dash;

/// Objects that are listed; the rest is counted.
const SHOWN: usize = 20;

/// A word of the API as people read it: `PRE_SYNC` as `pre-sync`.
pub(crate) fn words(word: &str) -> String {
    word.to_ascii_lowercase().replace('_', "-")
}

/// `pre-sync, wave 2, 1 of 5 done`; nothing for a service of one wave.
fn wave(sync: &ServiceSync) -> Option<String> {
    let (done, all) = (sync.waves_done?, sync.waves.filter(|waves| *waves > 1)?);
    let phase = sync.phase.map_or_else(|| "sync".to_owned(), |phase| words(phase.as_str()));
    Some(format!("{phase}, wave {}, {done} of {all} done", sync.wave.unwrap_or(0)))
}

/// Lines of `describe`.
pub(crate) fn lines(service: &ServiceDeployment, config: Option<&SyncConfig>) -> Vec<Vec<String>> {
    let mut lines = Vec::new();
    let mut line = |name: &str, value: String| lines.push(vec![format!("{name}:"), value]);
    if let Some(sync) = &service.sync
        && let Some(step) = sync.step
    {
        let wave = match step {
            SyncStep::Running | SyncStep::Waiting => wave(sync).map(|words| format!(" ({words})")),
            _ => None,
        };
        line("Sync", format!("{}{}", words(step.as_str()), wave.unwrap_or_default()));
    }
    let Some(config) = config else { return lines };
    let policy = &config.policy;
    let mut words = vec![if policy.manual { "manual sync" } else { "automatic sync" }.to_owned()];
    let off = [
        (policy.prune, "no prune"),
        (policy.self_heal, "no self-heal"),
        (policy.wave_wait, "waves do not wait"),
    ];
    words.extend(off.into_iter().filter(|(on, _)| !on).map(|(_, said)| said.to_owned()));
    words.extend(policy.wave_timeout.map(|time| format!("a wave may take {time}")));
    if let Some(limit) = policy.retry_limit {
        words.push(format!("tried again {limit} times"));
    }
    line("Policy", words.join(", "));
    if let Some(account) = &config.service_account {
        line("Service account", or_dash(Some(account)));
    }
    if !config.diff_normalizers.is_empty() {
        let words: Vec<String> = config
            .diff_normalizers
            .iter()
            .map(|normalizer| {
                let part = |text: &Option<String>| text.clone().unwrap_or_else(|| "*".to_owned());
                let mut what = normalizer.json_pointers.clone();
                what.extend(normalizer.managers.iter().map(|manager| format!("all of {manager}")));
                let (kind, namespace, name) =
                    (part(&normalizer.kind), part(&normalizer.namespace), part(&normalizer.name));
                format!("{} of {kind}/{namespace}/{name}", what.join(", "))
            })
            .collect();
        line("Ignored", or_dash(Some(&words.join("; "))));
    }
    lines
}

/// What of a sync `describe` lists: what waits for approval, what it waits for, its hooks.
pub(crate) fn blocks(service: &ServiceDeployment) -> String {
    let mut text = String::new();
    if let Some(PendingApproval { digest, reason, count, objects }) = &service.pending_approval {
        let _ = writeln!(text, "\nWaits for approval ({}):", or_dash(Some(reason)));
        for object in objects.iter().take(SHOWN) {
            let _ = writeln!(text, "  {}", or_dash(Some(&object.to_string())));
        }
        let listed = i64::try_from(objects.len().min(SHOWN)).unwrap_or(i64::MAX);
        if *count > listed {
            let _ = writeln!(text, "  and {} more", count - listed);
        }
        let _ =
            writeln!(text, "  digest {}; `plural cd services approve-prune` approves", or_dash(Some(digest)));
    }
    let Some(sync) = &service.sync else { return text };
    if !sync.waiting_for.is_empty() {
        text.push_str("\nWaiting for:\n");
        for SyncWaiting { object, why } in &sync.waiting_for {
            let _ = writeln!(text, "  {}: {}", or_dash(Some(&object.to_string())), or_dash(Some(why)));
        }
    }
    if !sync.hooks.is_empty() {
        text.push_str("\nHooks:\n");
        for SyncHook { object, phase, outcome, message } in &sync.hooks {
            let phase = phase.map_or_else(|| "-".to_owned(), |phase| words(phase.as_str()));
            let outcome = outcome.map_or_else(|| "-".to_owned(), |outcome| words(outcome.as_str()));
            let why = message.as_ref().map_or(String::new(), |text| format!(": {}", or_dash(Some(text))));
            let _ = writeln!(text, "  {} ({phase}): {outcome}{why}", or_dash(Some(&object.to_string())));
        }
    }
    text
}
