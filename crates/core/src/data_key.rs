//! Data keys: what seals secrets at rest, one for each project. A key-encryption key outside of the database opens them.

use std::fmt;

use chrono::{DateTime, Utc};
use uuid::Uuid;

use crate::ids::{DataKeyId, ProjectId};

/// Whose values a data key seals.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum KeyOwner {
    /// What belongs to no project.
    Installation,
    /// What makes addresses that only the installation can make. It is never retired: they would change.
    Addresses,
    /// Everything of a project but its recordings. It is gone with the project.
    Project(ProjectId),
    /// Recordings of a project. They outlive it, as long as its policy keeps them.
    Recordings(ProjectId),
}

impl KeyOwner {
    /// The owner of what belongs to a project, or to none.
    pub fn of(project: Option<ProjectId>) -> Self {
        project.map_or(Self::Installation, Self::Project)
    }

    /// The project, and what the key is for; the nil id where there is no project.
    pub fn parts(self) -> (Uuid, KeyPurpose) {
        match self {
            Self::Installation => (Uuid::nil(), KeyPurpose::Secrets),
            Self::Addresses => (Uuid::nil(), KeyPurpose::Addresses),
            Self::Project(id) => (id.uuid(), KeyPurpose::Secrets),
            Self::Recordings(id) => (id.uuid(), KeyPurpose::Recordings),
        }
    }

    /// The owner of these parts, unless there is none.
    pub fn from_parts(project: Uuid, purpose: KeyPurpose) -> Option<Self> {
        match (project.is_nil(), purpose) {
            (true, KeyPurpose::Secrets) => Some(Self::Installation),
            (true, KeyPurpose::Addresses) => Some(Self::Addresses),
            (false, KeyPurpose::Secrets) => Some(Self::Project(ProjectId::from_uuid(project))),
            (false, KeyPurpose::Recordings) => Some(Self::Recordings(ProjectId::from_uuid(project))),
            (true, KeyPurpose::Recordings) | (false, KeyPurpose::Addresses) => None,
        }
    }
}

impl fmt::Display for KeyOwner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Installation => f.write_str("installation"),
            Self::Addresses => f.write_str("addresses"),
            Self::Project(id) => write!(f, "project {id}"),
            Self::Recordings(id) => write!(f, "recordings of project {id}"),
        }
    }
}

/// What a data key is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum KeyPurpose {
    /// Secret values.
    Secrets,
    /// Recordings of shells.
    Recordings,
    /// Addresses that nobody guesses.
    Addresses,
}

impl KeyPurpose {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Secrets, Self::Recordings, Self::Addresses];

    /// The word in the database.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Secrets => "secrets",
            Self::Recordings => "recordings",
            Self::Addresses => "addresses",
        }
    }
}

/// A data key, without its bytes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DataKey {
    /// Stands in everything that it seals.
    pub id: DataKeyId,
    /// Whose values it seals.
    pub owner: KeyOwner,
    /// The key-encryption key that opens it, by its name.
    pub encrypted_by: String,
    /// The version of that key, where it has versions.
    pub version: Option<String>,
    /// When it was made.
    pub created_at: DateTime<Utc>,
    /// Since when another one seals in its place.
    pub retired_at: Option<DateTime<Utc>>,
    /// Since when nothing opens what it sealed.
    pub destroyed_at: Option<DateTime<Utc>>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_owner_is_its_parts() {
        let project = ProjectId::new();
        for owner in [
            KeyOwner::Installation,
            KeyOwner::Addresses,
            KeyOwner::Project(project),
            KeyOwner::Recordings(project),
        ] {
            let (id, purpose) = owner.parts();
            assert_eq!(KeyOwner::from_parts(id, purpose), Some(owner));
        }
        assert_eq!(KeyOwner::from_parts(Uuid::nil(), KeyPurpose::Recordings), None);
        assert_eq!(KeyOwner::from_parts(project.uuid(), KeyPurpose::Addresses), None);
    }
}
