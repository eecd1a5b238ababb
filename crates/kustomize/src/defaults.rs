//! Which fields the transformers change when nobody says otherwise.

use std::sync::LazyLock;

use super::config::{BackReference, Config, FieldSpec};
use super::id::Gvk;

static DEFAULT: LazyLock<Config> = LazyLock::new(|| {
    let mut config = Config::default();
    let mut section = "";
    let part = |w: Option<&'static str>| w.filter(|w| *w != "-").unwrap_or_default();
    for line in include_str!("defaults/fields.txt").lines().filter(|l| !l.starts_with('#')) {
        if let Some(head) = line.strip_prefix('[').and_then(|l| l.strip_suffix(']')) {
            let mut w = head.split(' ');
            section = w.next().unwrap_or_default();
            if section == "nameReference" {
                let gvk = Gvk::new(part(w.next()), part(w.next()), part(w.next()));
                config.name_reference.push(BackReference { gvk, referrers: Vec::new() });
            }
            continue;
        }
        let mut w = line.split(' ');
        let (path, create) = (part(w.next()), w.next() == Some("create"));
        let gvk = Gvk::new(part(w.next()), part(w.next()), part(w.next()));
        let spec = FieldSpec { gvk, path: path.to_owned(), create };
        if section == "nameReference" {
            if let Some(last) = config.name_reference.last_mut() {
                last.referrers.push(spec);
            }
        } else if let Some(list) = config.list_mut(section) {
            list.push(spec);
        }
    }
    config.sort();
    config
});

/// The configuration that every Kustomization starts from.
pub(crate) fn default_config() -> &'static Config {
    &DEFAULT
}
