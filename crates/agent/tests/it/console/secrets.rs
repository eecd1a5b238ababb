//! Secrets of automations as the console of these tests has them.

use plural_tunnel::v1::{self, secret_outcome::State};
use tonic::Status;

use super::Console;
use crate::fixture::PATIENCE;

impl Console {
    /// Wants a Secret written or gone, and hints.
    pub(crate) fn want_secret(&self, wanted: v1::WantedSecret) {
        let sequence = {
            let mut memory = self.memory();
            memory.sequence += 1;
            memory.secrets_at = memory.sequence;
            memory.secrets.insert(wanted.id.clone(), wanted);
            memory.sequence
        };
        self.moved.send_replace(sequence);
    }

    /// What an agent said last of a Secret, once that `fits`.
    pub(crate) async fn secret_told(
        &self,
        id: &str,
        what: &str,
        fits: impl Fn(&v1::SecretOutcome) -> bool,
    ) -> anyhow::Result<v1::SecretOutcome> {
        let mut reported = self.reported.subscribe();
        let wait = async {
            loop {
                reported.borrow_and_update();
                let last = self.memory().secret_outcomes.iter().rev().find(|told| told.id == id).cloned();
                if let Some(last) = last.filter(&fits) {
                    return last;
                }
                if reported.changed().await.is_err() {
                    std::future::pending::<()>().await;
                }
            }
        };
        tokio::time::timeout(PATIENCE, wait)
            .await
            .map_err(|_| anyhow::anyhow!("nobody says that {what}: {:#?}", self.memory().secret_outcomes))
    }

    /// Takes what came of Secrets, and answers those that are left.
    pub(super) fn secrets_asked(&self, asked: v1::SecretsRequest) -> Result<v1::SecretsResponse, Status> {
        let left = {
            let mut memory = self.memory();
            if !asked.outcomes.is_empty() && memory.lost_secrets > 0 {
                memory.lost_secrets -= 1;
                return Err(Status::unavailable("what it says is lost"));
            }
            for told in asked.outcomes {
                let is_done = memory.secrets.get(&told.id).is_some_and(|wanted| {
                    told.state() == if wanted.gone { State::Deleted } else { State::Written }
                });
                if is_done {
                    memory.secrets.remove(&told.id);
                }
                memory.secret_outcomes.push(told);
            }
            memory.secrets.values().cloned().collect()
        };
        self.reported.send_modify(|count| *count += 1);
        Ok(v1::SecretsResponse { secrets: left })
    }
}
