//! Where projects may keep secret values besides the console's database.

use std::sync::Arc;

use plural_app::ports::secret_backend::SecretKeeper;

use crate::{
    StartError,
    key_encryption::{environment, shown},
};

/// The secret backends of these places, each kind once. Nothing is asked of any of them here: while one is away, only the projects that
/// keep something there miss it.
///
/// # Errors
/// [`StartError::SecretBackend`] for a place that is none, and for a second one of its kind.
pub(crate) fn open(places: &[String]) -> Result<Vec<Arc<dyn SecretKeeper>>, StartError> {
    let mut all: Vec<Arc<dyn SecretKeeper>> = Vec::new();
    for place in places {
        let bad = |reason: String| StartError::SecretBackend { place: shown(place), reason };
        let keeper = plural_kms::open_backend(place, &environment())
            .ok_or_else(|| bad(format!("it is none of {}", plural_kms::BACKENDS)))?
            .map_err(|reason| bad(reason.0))?;
        if all.iter().any(|other| other.backend() == keeper.backend()) {
            return Err(bad(format!("another place is the secret backend {}", keeper.backend())));
        }
        all.push(keeper);
    }
    Ok(all)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_checked_before_anything_is_asked() {
        const VAULT: &str = "vault-kv://vault.example.com/secret/plural";
        for (places, reason) in [
            (&[""][..], "it is none of"),
            (&["vault://vault.example.com/secret/plural"], "it is none of"),
            (&["vault-kv://vault.example.com/secret"], "MOUNT/PREFIX"),
            (&["vault-kv:http://vault.example.com/secret/plural"], "without TLS"),
            (&["vault-kv://user:secret@vault.example.com/secret/plural"], "a credential"),
            (&["vault-kv://vault.example.com/secret/plural?auth=kubernetes"], "needs the option \"role\""),
            (&["kubernetes:Not_A_Namespace"], "kubernetes:NAMESPACE"),
            (&[VAULT, "vault-kv://other.example.com/secret/plural"], "another place"),
        ] {
            let places: Vec<String> = places.iter().map(|place| (*place).to_owned()).collect();
            let told = open(&places).err().expect(reason).to_string();
            assert!(told.contains(reason) && told.contains("--secret-backend"), "{places:?}: {told}");
            assert!(!told.contains("secret@"), "{told}");
        }
        let all = open(&[VAULT.to_owned()]).unwrap();
        assert_eq!(all[0].backend().as_str(), "vault");
    }
}
