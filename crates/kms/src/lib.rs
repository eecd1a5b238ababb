//! Key-encryption keys in key management services: of Vault and OpenBao (transit), AWS, Google Cloud and Azure. And secret values, sealed,
//! in secret backends: the KV engine of Vault and OpenBao, Secrets of a Kubernetes cluster.
//!
//! Requests are signed and authenticated here, with the HTTP client and the TLS of everything else: the clouds' own libraries would bring
//! others. No cloud runs in the tests: stand-ins were written from the public descriptions of the services.

mod aws;
mod azure;
mod endpoint;
mod google;
mod held;
mod http;
mod kubernetes;
mod vault;

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
    sync::Arc,
};

use plural_app::ports::{
    key_encryption::{KeyEncryption, KeyError},
    secret_backend::SecretKeeper,
};
use reqwest::Url;

/// The forms of places in a key management service.
pub const PLACES: &str = "vault-transit://HOST/MOUNT/KEY, aws-kms:ARN, google-kms:projects/P/locations/L/keyRings/R/cryptoKeys/K, \
                          azure-key-vault://HOST/keys/KEY";

/// The forms of places of secret backends.
pub const BACKENDS: &str = "vault-kv://HOST/MOUNT/PREFIX, kubernetes:NAMESPACE";

/// Why a place is none. The text holds no credential.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct BadPlace(pub String);

/// A variable of the environment, where there is such a one that is not empty.
pub type Variables = dyn Fn(&str) -> Option<String> + Send + Sync;

/// The key of a place (`aws-kms:ARN?OPTIONS`), with credentials of these variables. Nothing is asked of anybody here. Nothing when the
/// place is none in a key management service.
///
/// # Errors
/// When the place is none, or needs what neither its options nor the variables have.
pub fn open(place: &str, variables: &Arc<Variables>) -> Option<Result<Arc<dyn KeyEncryption>, BadPlace>> {
    let place = Place::of(place);
    let key: Result<Arc<dyn KeyEncryption>, BadPlace> = match place.scheme {
        "vault-transit" => vault::transit::Transit::open(&place, variables).map(|key| Arc::new(key) as _),
        "aws-kms" => aws::AwsKey::open(&place, variables).map(|key| Arc::new(key) as _),
        "google-kms" => google::GoogleKey::open(&place, variables).map(|key| Arc::new(key) as _),
        "azure-key-vault" => azure::AzureKey::open(&place, variables).map(|key| Arc::new(key) as _),
        _ => return None,
    };
    Some(key)
}

/// The secret backend of a place (`vault-kv://HOST/MOUNT/PREFIX?OPTIONS`), likewise.
///
/// # Errors
/// When the place is none, or needs what neither its options nor the variables have.
pub fn open_backend(
    place: &str,
    variables: &Arc<Variables>,
) -> Option<Result<Arc<dyn SecretKeeper>, BadPlace>> {
    let place = Place::of(place);
    let keeper: Result<Arc<dyn SecretKeeper>, BadPlace> = match place.scheme {
        "vault-kv" => vault::kv::Kv::open(&place, variables).map(|keeper| Arc::new(keeper) as _),
        "kubernetes" => kubernetes::Secrets::open(&place, variables).map(|keeper| Arc::new(keeper) as _),
        _ => return None,
    };
    Some(keeper)
}

/// `scheme:rest?options`.
struct Place<'a> {
    scheme: &'a str,
    rest: &'a str,
    query: &'a str,
}

impl<'a> Place<'a> {
    fn of(text: &'a str) -> Self {
        let (place, query) = text.split_once('?').unwrap_or((text, ""));
        let (scheme, rest) = place.split_once(':').unwrap_or((place, ""));
        Self { scheme, rest, query }
    }

    /// The options, each once and none that is unknown.
    fn options(&self, known: &[&str]) -> Result<Options, BadPlace> {
        let mut options = BTreeMap::new();
        // Any address will do: the query is what is read.
        let url = Url::parse(&format!("https://options.invalid/?{}", self.query))
            .map_err(|_| bad("its options are none"))?;
        for (name, value) in url.query_pairs() {
            if !known.contains(&&*name) {
                return Err(bad(&format!("it knows no option {name:?}, but {}", known.join(", "))));
            }
            if options.insert(name.clone().into_owned(), value.into_owned()).is_some() {
                return Err(bad(&format!("the option {name:?} is given twice")));
            }
        }
        Ok(Options(options))
    }
}

/// The options of a place.
struct Options(BTreeMap<String, String>);

impl Options {
    fn get(&self, name: &str) -> Option<&str> {
        self.0.get(name).map(String::as_str)
    }

    /// The option is this where nobody gave it.
    fn default(&mut self, name: &str, value: &str) {
        self.0.entry(name.to_owned()).or_insert_with(|| value.to_owned());
    }

    fn file(&self, name: &str) -> Option<PathBuf> {
        self.get(name).map(PathBuf::from)
    }

    /// An option, or else a variable.
    fn or(&self, name: &str, variable: &str, variables: &Variables) -> Result<String, BadPlace> {
        let value = self.get(name).map(str::to_owned).or_else(|| variables(variable));
        value.ok_or_else(|| bad(&format!("it needs the option {name:?}, or {variable} in the environment")))
    }

    /// Authorities that are trusted besides those of the machine.
    fn authorities(&self) -> Result<Option<Vec<u8>>, BadPlace> {
        let read =
            |file: &str| std::fs::read(file).map_err(|error| bad(&format!("cannot read {file}: {error}")));
        self.get("ca").map(read).transpose()
    }
}

fn bad(reason: &str) -> BadPlace {
    BadPlace(reason.to_owned())
}

/// Where Kubernetes puts what a Pod's ServiceAccount has.
const POD: &str = "/var/run/secrets/kubernetes.io/serviceaccount";

/// Read each time: whoever renews it writes the file anew.
async fn read(file: &Path) -> Result<String, KeyError> {
    let text = tokio::fs::read_to_string(file)
        .await
        .map_err(|error| KeyError::Refused(format!("cannot read {}: {error}", file.display())))?;
    Ok(text.trim().to_owned())
}

/// What a service says is not what its description says.
fn not_understood() -> KeyError {
    KeyError::Refused("its answer is not understood".to_owned())
}

#[cfg(test)]
mod tests;
