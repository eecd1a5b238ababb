//! Secrets that templates generate: made once, the same at each render, others when somebody asks for that.

use k8s_openapi::api::core::v1::Secret;
use kube::Api;
use plural_testkit::{TestCluster, each_cluster, eventually};
use serde_json::json;

use crate::{
    asker::{Asker, OF_A_SERVICE, holds_none},
    world::{PATIENCE, World},
};

each_cluster!(what_templates_generate_stays_until_it_is_rotated);

const CHARTED: &str = "apiVersion: v1\nkind: Secret\nmetadata: {name: charted}\nstringData:\n  password: {{ randAlphaNum 24 }}\n";
const TEMPLATED: &str = "apiVersion: v1\nkind: Secret\nmetadata: {name: templated}\nstringData:\n  password: \"{{ 24 | randAlphaNum }}\"\n";

async fn password(secrets: &Api<Secret>, name: &str) -> Result<String, String> {
    let found = secrets.get_opt(name).await.map_err(|error| error.to_string())?;
    let found = found.and_then(|secret| secret.data).and_then(|mut data| data.remove("password"));
    let text = found.and_then(|bytes| String::from_utf8(bytes.0).ok());
    text.filter(|text| text.len() == 24).ok_or_else(|| format!("{name} has no password"))
}

async fn what_templates_generate_stays_until_it_is_rotated(cluster: TestCluster) -> anyhow::Result<()> {
    let mut w = World::new(cluster).await?;
    let admin = Asker::administrator(&w.console.url).await?;
    let reader = admin.user("rita@example.com").await?;
    let sha = w.remote.push_files([
        ("chart/Chart.yaml", "apiVersion: v2\nname: charted\nversion: 1.0.0\n".to_owned()),
        ("chart/templates/secret.yaml", CHARTED.to_owned()),
        ("raw/secret.yaml.liquid", TEMPLATED.to_owned()),
    ])?;
    let (chart, raw) = (w.service("chart").await?, w.service("raw").await?);
    for id in [&chart, &raw] {
        w.person.stands_at(id, &sha).await;
        admin.bind("serviceId", id, json!({"readBindings": [{"userId": reader.id}]})).await?;
    }
    let secrets: Api<Secret> = Api::namespaced(w.client.clone(), &w.namespace);
    let both = async || -> Result<[String; 2], String> {
        Ok([password(&secrets, "charted").await?, password(&secrets, "templated").await?])
    };
    let first = eventually(PATIENCE, async || both().await).await;
    assert_ne!(first[0], first[1]);

    // Another commit, and another agent: the same.
    let sha = w.remote.push_files([("chart/note.txt", "x".to_owned()), ("raw/note.txt", "x".to_owned())])?;
    for id in [&chart, &raw] {
        w.person.stands_at(id, &sha).await;
    }
    w.agent.take().unwrap().stop().await;
    w.start_agent().await?;
    for id in [&chart, &raw] {
        w.person.stands_at(id, &sha).await;
    }
    assert_eq!(both().await.unwrap(), first);

    // A reader may not ask for others; whoever may write does.
    let document = "mutation ($id: ID!) { rotateServiceSeed(id: $id) { id } }";
    let answer = reader.ask(document, json!({"id": chart})).await?.to_string();
    assert!(answer.contains("FORBIDDEN"), "{answer}");
    assert_eq!(both().await.unwrap(), first);
    for id in [&chart, &raw] {
        admin.data(document, json!({"id": id})).await?;
    }
    let second = eventually(PATIENCE, async || {
        let now = both().await?;
        if now.iter().zip(&first).all(|(now, before)| now != before) {
            Ok(now)
        } else {
            Err("as before".to_owned())
        }
    })
    .await;
    for id in [&chart, &raw] {
        w.person.stands_at(id, &sha).await;
    }
    assert_eq!(both().await.unwrap(), second);

    // Nobody is shown either, in what the console says.
    let canaries: Vec<(&str, String)> =
        first.into_iter().chain(second).map(|text| ("generated", text)).collect();
    for who in [&admin, &reader] {
        for id in [&chart, &raw] {
            for (what, document) in OF_A_SERVICE {
                let answer = who.ask(document, json!({"id": id})).await?.to_string();
                holds_none(what, answer.as_bytes(), &canaries);
            }
        }
    }
    w.end().await
}
