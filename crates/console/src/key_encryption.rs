//! Where key-encryption keys are: in a file, the environment, or a key management service.

use std::{path::Path, sync::Arc};

use plural_app::ports::key_encryption::{KeyEncryption, LocalKey};
use plural_kms::Variables;

use crate::{StartError, keys};

/// The keys of these places; without any, those of the default file. The first wraps, all unwrap.
///
/// # Errors
/// [`StartError::KeyEncryption`] for a place that is none; [`StartError::Key`] for a file that holds no keys. Nothing is asked of a
/// key management service here.
pub(crate) fn open(
    places: &[String],
    file: Option<&Path>,
    default: &Path,
) -> Result<Vec<Arc<dyn KeyEncryption>>, StartError> {
    let mut all: Vec<Arc<dyn KeyEncryption>> = Vec::new();
    for place in places {
        for key in keys_of(place)? {
            add(&mut all, key, place)?;
        }
    }
    let file = match (file, places) {
        (Some(file), _) => Some((file, false)),
        (None, []) => Some((default, true)),
        (None, _) => None,
    };
    if let Some((file, make)) = file {
        for key in keys::file(file, make)? {
            let key = LocalKey::new(&key);
            // It may be named in both ways.
            if all.iter().all(|other| other.name() != key.name()) {
                all.push(Arc::new(key));
            }
        }
    }
    Ok(all)
}

fn add(
    all: &mut Vec<Arc<dyn KeyEncryption>>,
    key: Arc<dyn KeyEncryption>,
    place: &str,
) -> Result<(), StartError> {
    if all.iter().any(|other| other.name() == key.name()) {
        return Err(bad(place, "it is named twice"));
    }
    all.push(key);
    Ok(())
}

fn keys_of(place: &str) -> Result<Vec<Arc<dyn KeyEncryption>>, StartError> {
    let local = |keys: Vec<[u8; 32]>| -> Vec<Arc<dyn KeyEncryption>> {
        keys.iter().map(|key| Arc::new(LocalKey::new(key)) as Arc<dyn KeyEncryption>).collect()
    };
    let (scheme, rest) = place.split_once(':').unwrap_or((place, ""));
    match scheme {
        "file" if !rest.is_empty() => Ok(local(keys::file(Path::new(rest), false)?)),
        "env" if !rest.is_empty() => {
            let text = std::env::var(rest).map_err(|_| bad(place, "the environment has no such variable"))?;
            let keys = keys::parse(&text.replace(',', "\n")).map_err(|reason| bad(place, &reason))?;
            Ok(local(keys))
        }
        _ => match plural_kms::open(place, &environment()) {
            Some(key) => Ok(vec![key.map_err(|reason| bad(place, &reason.0))?]),
            None => Err(bad(place, &format!("it is none of file:PATH, env:NAME, {}", plural_kms::PLACES))),
        },
    }
}

/// The variables of this process that are not empty.
pub(crate) fn environment() -> Arc<Variables> {
    Arc::new(|name: &str| std::env::var(name).ok().filter(|value| !value.is_empty()))
}

/// A place, without what may be secret.
pub(crate) fn shown(place: &str) -> String {
    let place = place.split_once('?').map_or(place, |(before, _)| before);
    match (place.split_once(':'), place.rsplit_once('@')) {
        (Some((scheme, _)), Some((_, host))) => format!("{scheme}://…@{host}"),
        _ => place.to_owned(),
    }
}

fn bad(place: &str, reason: &str) -> StartError {
    StartError::KeyEncryption { place: shown(place), reason: reason.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_checked_before_anything_is_asked() {
        let refused = |place: &str| {
            let error = open(&[place.to_owned()], None, Path::new("/nonexistent")).err().expect(place);
            error.to_string()
        };
        for (place, reason) in [
            ("", "it is none of"),
            ("nowhere:x", "it is none of"),
            ("file:", "it is none of"),
            ("env:PLURAL_TEST_NO_SUCH_VARIABLE", "no such variable"),
            ("vault-transit://vault.example.com/transit", "MOUNT/KEY"),
            ("vault-transit+http://vault.example.com/transit/plural", "it is none of"),
            ("vault-transit:http://vault.example.com/transit/plural", "without TLS"),
            ("vault-transit://user:secret@vault.example.com/transit/plural", "a credential"),
            ("vault-transit://vault.example.com/transit/plural?color=red", "no option \"color\""),
            ("vault-transit://vault.example.com/transit/plural?role=a&role=b", "twice"),
            ("vault-transit://vault.example.com/transit/plural?auth=magic", "auth is"),
            ("vault-transit://vault.example.com/transit/plural?auth=kubernetes", "needs the option \"role\""),
            ("aws-kms:alias/plural", "aws-kms:arn:aws:kms:"),
            ("google-kms:plural", "google-kms:projects/"),
            ("azure-key-vault://user:secret@example.com/keys/plural", "vault.azure.net"),
        ] {
            let told = refused(place);
            assert!(told.contains(reason) && told.contains("--key-encryption"), "{place}: {told}");
            assert!(!told.contains("secret@"), "{told}");
        }
    }
}
