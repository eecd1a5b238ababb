//! What a console says of who asks, and who else might say it: an agent asks its API server for nobody whom it does not believe.

use std::{
    collections::BTreeMap,
    time::{SystemTime, UNIX_EPOCH},
};

use plural_testkit::{TestCluster, each_cluster};
use plural_tunnel::{
    proxy::{Asserted, AssertionKey, AssertionTerms, Channel},
    v1::{ProxyOpen, Welcome},
};

use crate::fixture::Fixture;

each_cluster!(attack_40_assertions_that_are_forged_replayed_or_for_another_are_not_believed);

const CLUSTER: &str = "0190b8a2-7c11-7def-8000-0123456789ab";
/// Open to everybody who is signed in.
const TARGET: &str = "/version";

fn now_ms() -> i64 {
    i64::try_from(SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_millis()).unwrap()
}

/// A signed request.
fn signed(key: &AssertionKey, who: &Asserted, terms: &AssertionTerms<'_>) -> ProxyOpen {
    let mut open = ProxyOpen {
        method: terms.method.to_owned(),
        target: terms.target.to_owned(),
        end: true,
        ..ProxyOpen::default()
    };
    key.assert(who, terms, &mut open);
    open
}

/// Status and body of the answer.
async fn ask(channel: &Channel, open: ProxyOpen) -> anyhow::Result<(u32, String)> {
    let (_sending, mut receiving) = channel.open(open)?.split();
    let head = receiving.head().await?;
    let mut body = Vec::new();
    while let Some(piece) = receiving.piece().await {
        body.extend_from_slice(&piece?);
    }
    Ok((head.status, String::from_utf8_lossy(&body).into_owned()))
}

async fn attack_40_assertions_that_are_forged_replayed_or_for_another_are_not_believed(
    cluster: TestCluster,
) -> anyhow::Result<()> {
    let mut f = Fixture::without_agent(cluster).await?;
    let key = AssertionKey::new(&[7; 32], [1; 8])?;
    let stranger = AssertionKey::new(&[9; 32], [9; 8])?;
    {
        let mut memory = f.console.memory();
        memory.asks_for_channel = true;
        memory.welcome = Some(Welcome {
            cluster_id: CLUSTER.to_owned(),
            proxy_keys: vec![key.public()],
            console_time_ms: now_ms(),
            ..Welcome::default()
        });
    }
    f.start().await?;
    let channel = f.console.channel().await?;
    let ada = Asserted { user: "ada@example.com".into(), uid: "7".into(), ..Asserted::default() };
    let right = AssertionTerms { cluster_id: CLUSTER, method: "GET", target: TARGET, now_ms: now_ms() };
    let good = signed(&key, &ada, &right);
    let (status, body) = ask(&channel, good.clone()).await?;
    assert_eq!(status, 200, "{body}");

    let by_stranger = signed(&stranger, &ada, &right);
    let named = |group: &str| Asserted { groups: vec![group.to_owned()], ..ada.clone() };
    let fresh = || signed(&key, &ada, &AssertionTerms { now_ms: now_ms(), ..right });
    let cut = |bytes: Vec<u8>| bytes[..bytes.len() - 1].to_vec();
    let cases = [
        ("the same once more", good.clone()),
        (
            "nobody says who asks",
            ProxyOpen { claims: Vec::new().into(), signature: Vec::new().into(), ..fresh() },
        ),
        ("another key", by_stranger.clone()),
        ("another key under the name of ours", ProxyOpen { key_id: key.public().id, ..by_stranger.clone() }),
        ("claims of another", ProxyOpen { claims: by_stranger.claims, ..fresh() }),
        ("a signature that was cut", {
            let open = fresh();
            ProxyOpen { signature: cut(open.signature.to_vec()).into(), ..open }
        }),
        ("claims that were cut", {
            let open = fresh();
            ProxyOpen { claims: cut(open.claims.to_vec()).into(), ..open }
        }),
        ("another target", ProxyOpen { target: "/api/v1/secrets".into(), ..fresh() }),
        ("a query more", ProxyOpen { target: format!("{TARGET}?a=b"), ..fresh() }),
        ("another method", ProxyOpen { method: "DELETE".into(), ..fresh() }),
        ("another cluster", signed(&key, &ada, &AssertionTerms { cluster_id: "another", ..right })),
        ("no cluster", signed(&key, &ada, &AssertionTerms { cluster_id: "", ..right })),
        ("of an hour ago", signed(&key, &ada, &AssertionTerms { now_ms: now_ms() - 3_600_000, ..right })),
        ("of tomorrow", signed(&key, &ada, &AssertionTerms { now_ms: now_ms() + 86_400_000, ..right })),
        ("a group of Kubernetes", signed(&key, &named("system:masters"), &right)),
        ("the same in capitals", signed(&key, &named(" System:Masters"), &right)),
        (
            "a user of Kubernetes",
            signed(&key, &Asserted { user: "system:admin".into(), ..ada.clone() }, &right),
        ),
        ("nobody", signed(&key, &Asserted { user: String::new(), ..ada.clone() }, &right)),
        (
            "a header more",
            signed(&key, &Asserted { uid: "7\r\nimpersonate-group: x".into(), ..ada.clone() }, &right),
        ),
        (
            "too many groups",
            signed(&key, &Asserted { groups: vec!["g".into(); 1_001], ..ada.clone() }, &right),
        ),
        (
            "too many values",
            signed(
                &key,
                &Asserted { extra: BTreeMap::from([("a".into(), vec!["v".into(); 1_001])]), ..ada.clone() },
                &right,
            ),
        ),
    ];
    for (what, open) in cases {
        let (status, body) = ask(&channel, open).await?;
        assert_eq!(status, 403, "{what}: {body}");
        assert!(body.contains("rejected the console"), "{what}: {body}");
    }
    // Those changed nothing for who is believed.
    let (status, body) = ask(&channel, fresh()).await?;
    assert_eq!(status, 200, "{body}");
    Ok(())
}
