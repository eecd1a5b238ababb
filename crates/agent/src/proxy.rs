//! Requests of people to the API server, as the console sends them: believed, judged by this agent's own policy,
//! and passed on in the person's name.

mod answer;
mod policy;
pub(crate) mod question;
mod upstream;

use std::{sync::Arc, time::Instant};

use http::StatusCode;
use parking_lot::Mutex;
use plural_tunnel::{
    Console,
    proxy::{Asserted, Channel, ChannelOptions, Exchange, Receiving, Sending, Verifier, check_target},
    v1::{ProxyOpen, Welcome},
};
use tokio::task::JoinSet;

pub use policy::ProxyPolicy;

use self::{question::Question, upstream::Upstream};

/// Requests at once; the console keeps to fewer.
const STREAMS: usize = 4096;

/// What answers the console's requests. One per agent: what it remembers outlives a connection.
pub(crate) struct Proxy {
    upstream: Upstream,
    policy: ProxyPolicy,
    trust: Mutex<Option<Trust>>,
}

/// Whom to believe, and what time it is there.
struct Trust {
    verifier: Verifier,
    console_ms: i64,
    heard: Instant,
}

impl Proxy {
    /// None when the policy lets nobody through.
    pub(crate) fn new(config: &kube::Config, policy: ProxyPolicy) -> kube::Result<Option<Self>> {
        if policy.off {
            return Ok(None);
        }
        Ok(Some(Self { upstream: Upstream::new(config)?, policy, trust: Mutex::new(None) }))
    }

    /// The console says who it is. What was used before stays used.
    pub(crate) fn trust(&self, welcome: &Welcome) {
        let (cluster_id, keys) = (welcome.cluster_id.clone(), welcome.proxy_keys.clone());
        let mut trust = self.trust.lock();
        let verifier = match trust.take() {
            Some(Trust { mut verifier, .. }) => {
                verifier.renew(cluster_id, keys);
                verifier
            }
            None => Verifier::new(cluster_id, keys),
        };
        // By the console's clock, so that it does not matter how wrong ours is; ours only has to tick.
        *trust = Some(Trust { verifier, console_ms: welcome.console_time_ms, heard: Instant::now() });
    }

    /// What time it is there by now: a clock that was set leaves no request refused for its age.
    pub(crate) fn time(&self, console_ms: i64) {
        // A console that does not say has the one of its welcome.
        if console_ms != 0
            && let Some(trust) = self.trust.lock().as_mut()
        {
            trust.console_ms = console_ms;
            trust.heard = Instant::now();
        }
    }

    /// Serves one channel until it ends.
    pub(crate) async fn serve(self: Arc<Self>, console: &Console) {
        let (channel, outgoing) = Channel::new(ChannelOptions { streams: STREAMS });
        let inbound = match console.proxy(outgoing).await {
            Ok(inbound) => inbound,
            Err(error) => {
                tracing::warn!(%error, "cannot open the channel for proxied requests");
                return;
            }
        };
        // Owned here: when the channel ends, so do they.
        let mut requests = JoinSet::new();
        let mut opened = |exchange: Exchange, open: ProxyOpen| {
            while requests.try_join_next().is_some() {}
            let proxy = Arc::clone(&self);
            requests.spawn(async move { proxy.request(exchange, open).await });
        };
        channel.run(inbound, Some(&mut opened)).await;
    }

    async fn request(&self, exchange: Exchange, open: ProxyOpen) {
        let gone = exchange.gone();
        let (sending, receiving) = exchange.split();
        tokio::select! {
            // Whoever asked went away: dropping the rest ends the request at the API server.
            () = gone.cancelled() => {}
            () = self.answer(open, sending, receiving) => {}
        }
    }

    async fn answer(&self, open: ProxyOpen, sending: Sending, receiving: Receiving) {
        let (asserted, open) = match self.judge(open) {
            Ok(judged) => judged,
            Err(refusal) => return answer::refuse(sending, refusal).await,
        };
        match self.upstream.send(&open, &asserted, receiving).await {
            Ok(upstream::Answer::Response(response)) => answer::stream(sending, response).await,
            Ok(upstream::Answer::Upgraded { response, upgraded, receiving }) => {
                answer::upgraded(sending, response, upgraded, receiving).await;
            }
            Err(refusal) => answer::refuse(sending, refusal).await,
        }
    }

    /// Who asks, if it may be asked at all.
    fn judge(&self, open: ProxyOpen) -> Result<(Asserted, ProxyOpen), answer::Refusal> {
        let asserted = {
            let mut trust = self.trust.lock();
            let told = trust.as_mut().map(|trust| {
                let now_ms = trust.console_ms + trust.heard.elapsed().as_millis() as i64;
                trust.verifier.verify(&open, now_ms)
            });
            match told {
                Some(Ok(asserted)) => asserted,
                Some(Err(error)) => {
                    tracing::warn!(%error, http.method = %open.method, "an identity assertion was rejected");
                    return Err(answer::Refusal::forbidden(
                        "the agent rejected the console's identity assertion; see the agent's log",
                    ));
                }
                None => {
                    return Err(answer::Refusal::new(
                        StatusCode::SERVICE_UNAVAILABLE,
                        "this cluster's agent is not fully connected to the console yet; try again",
                    ));
                }
            }
        };
        // The console checked this already. If it did not, it stops here.
        check_target(&open.target)
            .map_err(|error| answer::Refusal::new(StatusCode::BAD_REQUEST, error.to_string()))?;
        let question = Question::parse(&open.method, &open.target, !open.upgrade.is_empty());
        let asserted = self.policy.judge(asserted, &question).map_err(answer::Refusal::forbidden)?;
        Ok((asserted, open))
    }
}
