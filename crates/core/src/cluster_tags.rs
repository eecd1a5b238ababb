//! Who may set which tag of a cluster.
//!
//! Tags choose what a cluster is given: global services with their secrets, managed namespaces. So a tag counts for one of these only
//! if somebody set it who may change that, and nobody else may set, change or remove a tag by which one of them chooses.

use std::collections::BTreeMap;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::cluster::TagsChange;
use crate::error::{Error, Result};

/// For whom somebody speaks who sets a tag.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TagLevel {
    /// The cluster: write access to it and no more.
    Cluster,
    /// Its project: write access to that.
    Project,
    /// The installation: its administrators.
    Installation,
}

impl TagLevel {
    const fn who(self) -> &'static str {
        match self {
            Self::Cluster => "a user with write access to the cluster",
            Self::Project => "a user with write access to the cluster's project",
            Self::Installation => "an administrator of the installation",
        }
    }
}

/// Names of tags that only administrators of the installation set: a name, or how names begin followed by `*`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProtectedTag(String);

impl ProtectedTag {
    fn covers(&self, name: &str) -> bool {
        match self.0.strip_suffix('*') {
            Some(start) => name.starts_with(start),
            None => name == self.0,
        }
    }
}

impl FromStr for ProtectedTag {
    type Err = String;

    fn from_str(text: &str) -> std::result::Result<Self, String> {
        let text = text.trim();
        if text.is_empty() || text.trim_end_matches('*').contains('*') || text.ends_with("**") {
            return Err("must be the name of a tag, or how names begin followed by one *".to_owned());
        }
        Ok(Self(text.to_owned()))
    }
}

/// Who sets tags, and which ones that takes somebody else for.
#[derive(Debug, Clone)]
pub struct TagAuthority {
    /// For whom the caller speaks.
    pub level: TagLevel,
    /// What the operator protects.
    pub protected: Vec<ProtectedTag>,
    /// Tags by which something chooses clusters, and who may change that.
    pub selected: BTreeMap<String, TagLevel>,
}

impl TagAuthority {
    /// What comes of a cluster's tags and of who set them. A tag without a level was set for the installation, or before levels
    /// were kept.
    ///
    /// # Errors
    /// [`Error::Forbidden`] for a tag that takes somebody else, [`Error::Invalid`] for tags that cannot be.
    pub fn over(
        &self,
        change: &TagsChange,
        old: &BTreeMap<String, String>,
        mut levels: BTreeMap<String, TagLevel>,
    ) -> Result<(BTreeMap<String, String>, BTreeMap<String, TagLevel>)> {
        let tags = change.over(old.clone())?;
        for name in old.keys().chain(tags.keys()) {
            if old.get(name) != tags.get(name) {
                self.check(name)?;
                levels.insert(name.clone(), self.level);
            }
        }
        if let TagsChange::Edit { set, .. } = change {
            // Named on purpose: whoever names it stands for it. A list of all tags may only repeat what is there.
            for name in set.keys() {
                let level = levels.get(name).copied().unwrap_or(TagLevel::Installation).max(self.level);
                levels.insert(name.clone(), level);
            }
        }
        levels.retain(|name, level| tags.contains_key(name) && *level != TagLevel::Installation);
        Ok((tags, levels))
    }

    fn check(&self, name: &str) -> Result<()> {
        if self.level < TagLevel::Installation && self.protected.iter().any(|tag| tag.covers(name)) {
            return Err(Error::forbidden(format!(
                "the tag {name:?} is protected; only {} can change it",
                TagLevel::Installation.who()
            )));
        }
        match self.selected.get(name) {
            Some(needed) if self.level < *needed => Err(Error::forbidden(format!(
                "global services or managed namespaces select clusters by the tag {name:?}; only {} can \
                 change it",
                needed.who()
            ))),
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tags(tags: &[(&str, &str)]) -> BTreeMap<String, String> {
        tags.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
    }

    fn edit(set: &[(&str, &str)], remove: &[&str]) -> TagsChange {
        TagsChange::Edit { set: tags(set), remove: remove.iter().map(|name| (*name).to_owned()).collect() }
    }

    fn authority(level: TagLevel) -> TagAuthority {
        TagAuthority {
            level,
            protected: vec!["tier".parse().unwrap(), "org/*".parse().unwrap()],
            selected: [("stage".to_owned(), TagLevel::Installation), ("team".to_owned(), TagLevel::Project)]
                .into(),
        }
    }

    #[test]
    fn who_may_set_what() {
        use TagLevel::{Cluster, Installation, Project};
        let old = tags(&[("stage", "dev"), ("tier", "a"), ("team", "x"), ("free", "1")]);
        let same = || TagsChange::All(old.clone());
        let without = |name: &str| {
            let mut all = old.clone();
            all.remove(name);
            TagsChange::All(all)
        };
        for (change, needed) in [
            (edit(&[("free", "2"), ("new", "1")], &[]), Cluster),
            (edit(&[], &["free"]), Cluster),
            (edit(&[("organisation", "2")], &[]), Cluster),
            (same(), Cluster),
            (edit(&[("stage", "dev")], &[]), Cluster),
            (edit(&[("team", "y")], &[]), Project),
            (without("team"), Project),
            (edit(&[("stage", "prod")], &[]), Installation),
            (edit(&[], &["stage"]), Installation),
            (without("stage"), Installation),
            (TagsChange::All(BTreeMap::new()), Installation),
            (edit(&[("tier", "b")], &[]), Installation),
            (without("tier"), Installation),
            (edit(&[("org/unit", "b")], &[]), Installation),
        ] {
            for level in [Cluster, Project, Installation] {
                let outcome = authority(level).over(&change, &old, BTreeMap::new());
                assert_eq!(outcome.is_ok(), level >= needed, "{change:?} by {level:?}: {outcome:?}");
                if let Err(error) = outcome {
                    assert!(matches!(error, Error::Forbidden { .. }), "{error:?}");
                }
            }
        }
    }

    #[test]
    fn it_is_kept_who_set_a_tag() {
        use TagLevel::{Cluster, Installation, Project};
        let change = edit(&[("a", "1"), ("b", "1")], &[]);
        let (now, levels) =
            authority(Cluster).over(&change, &tags(&[("old", "1")]), BTreeMap::new()).unwrap();
        assert_eq!(
            levels,
            [("a".to_owned(), Cluster), ("b".to_owned(), Cluster)].into(),
            "not what was there"
        );
        // A list that repeats what is there vouches for nothing, a name does.
        let (_, same) =
            authority(Installation).over(&TagsChange::All(now.clone()), &now, levels.clone()).unwrap();
        assert_eq!(same, levels);
        let (_, named) = authority(Project).over(&edit(&[("a", "1")], &[]), &now, levels.clone()).unwrap();
        assert_eq!(named, [("a".to_owned(), Project), ("b".to_owned(), Cluster)].into());
        let (_, lower) = authority(Cluster).over(&edit(&[("a", "1")], &[]), &now, named.clone()).unwrap();
        assert_eq!(lower, named, "nobody takes a word back that is not theirs");
        let (_, changed) = authority(Cluster).over(&edit(&[("a", "2")], &[]), &now, named).unwrap();
        assert_eq!(changed["a"], Cluster);
        let (_, gone) = authority(Installation).over(&edit(&[("a", "1")], &["b"]), &now, levels).unwrap();
        assert!(gone.is_empty());
    }

    #[test]
    fn protected_names_parse() {
        for wrong in ["", " ", "a*b", "**", "a**"] {
            assert!(wrong.parse::<ProtectedTag>().is_err(), "{wrong:?}");
        }
        assert!("*".parse::<ProtectedTag>().unwrap().covers("anything"));
        assert!(!"stage".parse::<ProtectedTag>().unwrap().covers("stages"));
    }
}
