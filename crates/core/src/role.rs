//! Roles that administrators of the installation make, beside the built-in ones.

use chrono::{DateTime, Utc};
use uuid::Uuid;

use crate::access::Action;
use crate::error::{Error, Result};
use crate::ids::RoleId;
use crate::name::Name;
use crate::page::Keyed;
use crate::policy::{Rights, Role};

/// A role with actions of its own.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CustomRole {
    /// Id.
    pub id: RoleId,
    /// Unique in the installation; none of the built-in roles is called like that.
    pub name: Name,
    /// For people.
    pub description: Option<String>,
    /// What it allows.
    pub rights: Rights,
    /// When it was made.
    pub created_at: DateTime<Utc>,
    /// When it was last changed.
    pub updated_at: DateTime<Utc>,
}

/// What a new role is made from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewRole {
    /// Unique in the installation.
    pub name: Name,
    /// For people.
    pub description: Option<String>,
    /// What it allows.
    pub rights: Rights,
}

/// What changes of a role; `None` leaves a field as it is.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RoleAlteration {
    /// New name.
    pub name: Option<Name>,
    /// New description.
    pub description: Option<String>,
    /// What it allows from now on, wherever it is bound.
    pub rights: Option<Rights>,
}

/// Refuses the name of a built-in role: who reads "write" must know what it means.
///
/// # Errors
/// [`Error::Invalid`].
pub fn check_role_name(name: &Name) -> Result<()> {
    match Role::parse(&name.as_str().to_ascii_lowercase()) {
        Some(_) => Err(Error::invalid("attributes.name", "is the name of a built-in role; choose another")),
        None => Ok(()),
    }
}

/// The actions of these words.
///
/// # Errors
/// [`Error::Invalid`] for none, and for a word that is no action.
pub fn role_rights<'a>(words: impl IntoIterator<Item = &'a str>) -> Result<Rights> {
    let all = || Action::ALL.map(Action::as_str).join(", ");
    let mut rights = Rights::NONE;
    for word in words {
        let action = Action::parse(word)
            .ok_or_else(|| Error::invalid("attributes.actions", format!("{word:?} is none of {}", all())))?;
        rights = rights.union(Rights::of(&[action]));
    }
    if rights == Rights::NONE {
        return Err(Error::invalid("attributes.actions", format!("must name at least one of {}", all())));
    }
    Ok(rights)
}

impl Keyed for CustomRole {
    fn key(&self) -> Uuid {
        self.id.uuid()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn actions_are_read_from_their_words() {
        assert_eq!(role_rights(["read", "prune"]).unwrap(), Rights::of(&[Action::Read, Action::Prune]));
        for words in [&[][..], &["read", "own"], &["Read"], &[""]] {
            assert!(role_rights(words.iter().copied()).is_err(), "{words:?}");
        }
    }

    #[test]
    fn no_role_is_called_like_a_built_in_one() {
        for (name, is_free) in [("read", false), ("Admin", false), ("recordings", false), ("reader", true)] {
            assert_eq!(check_role_name(&name.parse().unwrap()).is_ok(), is_free, "{name}");
        }
    }
}
