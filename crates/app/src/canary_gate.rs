//! Gates at which Flagger asks. It calls from its own cluster, as it calls any web hook: nobody connects to the cluster for it.

use async_trait::async_trait;
use chrono::{DateTime, Utc};
use plural_core::canary_gate::GateQuestion;
use plural_core::ids::ServiceId;
use plural_core::service::Service;
use plural_core::{Error, Result};

use crate::access::Write;
use crate::app::App;
use crate::ctx::OpCtx;
use crate::service::ServiceSelector;

/// What a canary is told.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GateAnswer {
    /// It may go through.
    Open,
    /// It waits.
    Shut,
    /// The service has no such canary.
    Unknown,
}

/// Gates.
#[async_trait]
pub trait CanaryGateStore: Send + Sync + 'static {
    /// Notes who stands before a gate, and answers whether it is open.
    ///
    /// # Errors
    /// `NotFound` when there is no such service any more.
    async fn gate_ask(
        &self,
        service: ServiceId,
        question: &GateQuestion,
        now: DateTime<Utc>,
    ) -> Result<GateAnswer>;
}

/// Where the token of a service's gate belongs.
fn context(service: ServiceId) -> String {
    format!("service:{service}:canary gate")
}

impl App {
    /// The path of a service's gates, to which the name of a hook is added; needs write access. Whoever knows it may ask at
    /// these gates, and nothing else.
    pub async fn canary_gate_path(&self, ctx: &OpCtx, selector: &ServiceSelector) -> Result<String> {
        let service = self.authorized::<Service, Write>(ctx, selector).await?;
        self.audit_read(ctx, &service, "service.gate.read").await?;
        let token = hex::encode(self.sealer.tag(&context(service.id)));
        Ok(format!("/ext/v1/gates/{}/{token}", service.id))
    }

    /// Whoever asks knows the path. Decided from memory, before anything that they say is read.
    ///
    /// # Errors
    /// [`Error::NotFound`]: nobody learns which services there are.
    pub fn canary_gate_check(&self, service: ServiceId, token: &str) -> Result<()> {
        let given = hex::decode(token).unwrap_or_default();
        if self.sealer.is_tag(&context(service), &given) { Ok(()) } else { Err(Error::not_found("gate")) }
    }

    /// A canary asks whether it may go on.
    ///
    /// # Errors
    /// [`Error::NotFound`] without the right token, and for a canary that the service does not have.
    pub async fn canary_gate_ask(
        &self,
        service: ServiceId,
        token: &str,
        question: &GateQuestion,
    ) -> Result<bool> {
        self.canary_gate_check(service, token)?;
        if !question.is_well_formed() {
            return Err(Error::invalid(
                "body",
                "must have the name, namespace and checksum of a canary, as Flagger sends them",
            ));
        }
        match self.store.gate_ask(service, question, self.now()).await? {
            GateAnswer::Open => Ok(true),
            GateAnswer::Shut => Ok(false),
            GateAnswer::Unknown => Err(Error::not_found("canary")),
        }
    }
}
