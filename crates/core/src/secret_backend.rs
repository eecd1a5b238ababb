//! Where the secret values of a project's services, templates and contexts are kept.

use std::fmt;

/// A place that keeps secret values, as the console sealed them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum SecretBackend {
    /// The console's own database.
    Database,
    /// The KV engine of Vault or OpenBao.
    Vault,
    /// Secrets of the cluster that the console runs in.
    Kubernetes,
}

impl SecretBackend {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Database, Self::Vault, Self::Kubernetes];

    /// The word in the database and on the command line.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Database => "database",
            Self::Vault => "vault",
            Self::Kubernetes => "kubernetes",
        }
    }

    /// The backend of a word, unless there is none.
    pub fn parse(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|backend| backend.as_str() == word)
    }

    /// The byte that stands in a value's row for a backend outside of the database. It never changes.
    pub const fn code(self) -> u8 {
        match self {
            Self::Database => 0,
            Self::Vault => 1,
            Self::Kubernetes => 2,
        }
    }

    /// The backend of a byte, unless there is none.
    pub fn from_code(code: u8) -> Option<Self> {
        Self::ALL.into_iter().find(|backend| backend.code() == code)
    }
}

impl fmt::Display for SecretBackend {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// How many values are in a backend.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct KeptSecrets {
    /// The backend.
    pub backend: SecretBackend,
    /// Sealed values, in all revisions that are kept.
    pub values: u64,
}

/// Where the secret values of a project are, and where they are to be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SecretStorage {
    /// Where new values go, and the others move.
    pub backend: SecretBackend,
    /// Where the values are. Backends that have none are left out.
    pub kept: Vec<KeptSecrets>,
    /// Why the move does not go on, if its last attempt failed.
    pub problem: Option<String>,
}

impl SecretStorage {
    /// Values that have yet to be moved.
    pub fn waiting(&self) -> u64 {
        self.kept.iter().filter(|kept| kept.backend != self.backend).map(|kept| kept.values).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_backend_is_its_word_and_its_byte() {
        for backend in SecretBackend::ALL {
            assert_eq!(SecretBackend::parse(backend.as_str()), Some(backend));
            assert_eq!(SecretBackend::from_code(backend.code()), Some(backend));
        }
        assert_eq!((SecretBackend::parse("Vault"), SecretBackend::from_code(3)), (None, None));
    }

    #[test]
    fn what_is_elsewhere_waits() {
        let kept = |backend, values| KeptSecrets { backend, values };
        let all = vec![kept(SecretBackend::Database, 3), kept(SecretBackend::Vault, 4)];
        let storage = SecretStorage { backend: SecretBackend::Vault, kept: all, problem: None };
        assert_eq!(storage.waiting(), 3);
        assert_eq!(SecretStorage { backend: SecretBackend::Kubernetes, ..storage }.waiting(), 7);
    }
}
