//! Secrets of automations, in the contract's words.

use plural_app::pr_secret::{PrSecretOutcome, PrSecretTold, WantedPrSecret};
use plural_tunnel::v1::{self, secret_outcome::State};
use secrecy::ExposeSecret;
use tonic::Status;

use super::convert::{id, some};
use super::sync;

/// Secrets that an agent says something of at a time.
const MOST: usize = 100;

pub(super) fn told(outcomes: Vec<v1::SecretOutcome>) -> Result<Vec<PrSecretTold>, Status> {
    if outcomes.len() > MOST {
        return Err(Status::invalid_argument(format!("at most {MOST} Secrets are told of at a time")));
    }
    let one = |told: v1::SecretOutcome| {
        let outcome = match told.state() {
            State::Written => PrSecretOutcome::Written,
            State::Deleted => PrSecretOutcome::Deleted,
            // A newer agent may say what this console does not know: it is not done, as far as this one can tell.
            State::Waits | State::Unknown => PrSecretOutcome::Waits,
        };
        Ok(PrSecretTold { id: id(&told.id)?, outcome, message: some(told.message) })
    };
    outcomes.into_iter().map(one).collect()
}

pub(super) fn wanted(wanted: WantedPrSecret) -> v1::WantedSecret {
    let WantedPrSecret { id, namespace, name, values, limits, previous, kept } = wanted;
    let gone = values.is_none();
    let values = values.into_iter().flatten();
    v1::WantedSecret {
        id: id.to_string(),
        namespace,
        name,
        gone,
        values: values.map(|(name, value)| (name, value.expose_secret().to_owned())).collect(),
        limits: Some(sync::limits(limits, String::new())),
        previous: previous.map(|previous| previous.to_string()).unwrap_or_default(),
        kept,
    }
}
