//! Which token the agent logs in with, whatever its console knows of them.

use k8s_openapi::api::core::v1::Secret;
use kube::Api;
use plural_testkit::{TestCluster, each_cluster, eventually};

use crate::{
    console::{TOKEN, Tokens},
    fixture::{Fixture, PATIENCE, map},
};

each_cluster!(a_replica_that_lags_locks_nobody_out, a_database_put_back_by_mistake_locks_nobody_out);

impl Fixture {
    /// An agent that has replaced its token once, and the token that it has since.
    async fn rotated(cluster: TestCluster) -> anyhow::Result<(Self, String)> {
        let mut f = Self::without_agent(cluster).await?;
        f.console.memory().tokens = Some(Tokens::due(TOKEN));
        f.start().await?;
        let token = f.settled(TOKEN).await;
        Ok((f, token))
    }

    /// The token in the agent's Secret, once it is another than `before` and none is to take its place.
    async fn settled(&self, before: &str) -> String {
        let secrets: Api<Secret> = Api::namespaced(self.client.clone(), &self.agent_namespace);
        eventually(PATIENCE, async || {
            let data = secrets.get_opt("plural-agent-token").await.ok()??.data?;
            let token = String::from_utf8(data.get("deploy-token")?.0.clone()).ok()?;
            (token != before && !data.contains_key("next-deploy-token")).then_some(token)
        })
        .await
    }

    /// The console starts anew, with these tokens in its database.
    async fn put_back(&self, tokens: Option<Tokens>) -> anyhow::Result<()> {
        self.console.kill().await;
        self.console.memory().tokens = tokens;
        self.console.revive().await
    }

    async fn still_works(&self) -> anyhow::Result<()> {
        let (id, service) = self.service("shop", &[("app/a.yaml", map("a", "1"))]);
        self.console.want(service);
        self.console.applied(id).await?;
        Ok(())
    }
}

/// It accepts the token before, and has the agent replace that one: which its database does not let it do.
async fn a_replica_that_lags_locks_nobody_out(cluster: TestCluster) -> anyhow::Result<()> {
    let (mut f, token) = Fixture::rotated(cluster).await?;
    f.kill();
    f.console.memory().lagging = Some(Tokens::due(TOKEN));
    f.start().await?;
    eventually(PATIENCE, async || f.console.memory().late > 0).await;
    // It hears of what was written: the token that it accepted is worth nothing any more.
    f.console.kill().await;
    f.console.memory().lagging = None;
    f.console.revive().await?;
    f.still_works().await?;
    let current = f.console.memory().tokens.as_ref().map(|tokens| tokens.current.clone());
    assert_eq!(current, Some(token));
    Ok(())
}

/// The agent goes along, its token is replaced there twice, and then the right database comes back.
async fn a_database_put_back_by_mistake_locks_nobody_out(cluster: TestCluster) -> anyhow::Result<()> {
    let (f, first) = Fixture::rotated(cluster).await?;
    let right = f.console.memory().tokens.clone();
    f.put_back(Some(Tokens::due(TOKEN))).await?;
    let second = f.settled(&first).await;
    f.put_back(Some(Tokens::due(&second))).await?;
    f.settled(&second).await;
    f.put_back(right).await?;
    f.still_works().await?;
    let current = f.console.memory().tokens.as_ref().map(|tokens| tokens.current.clone());
    assert_eq!(current, Some(first));
    Ok(())
}
