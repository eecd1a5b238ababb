//! A large state, stored and read as the `http` backend of a tool does it.

use std::{
    fmt::Write as _,
    fs,
    io::Write as _,
    time::{Duration, Instant},
};

use anyhow::Context as _;
use serde_json::json;
use sha2::{Digest as _, Sha256};

use super::world::{World, create};
use crate::{report::Figure, samples::Samples};

/// Milliseconds that it may take.
const LONGEST: f64 = 1000.0;
/// How long one request may take.
const WITHIN: Duration = Duration::from_mins(1);
/// Bytes of the attributes of a resource.
const RESOURCE: usize = 10 << 10;

pub(super) async fn run(world: &mut World, mebibytes: usize, times: usize) -> anyhow::Result<Vec<Figure>> {
    eprintln!("a state of {mebibytes} MiB, {times} times");
    let attributes = json!({"name": "large", "type": "TERRAFORM"});
    let stack = create(&world.api, attributes).await?;
    let url = format!("{}/v1/stacks/{stack}/state", world.url);
    let http = reqwest::Client::builder().tls_certs_only([]).no_proxy().timeout(WITHIN).build()?;
    let folder = world.folder("state")?;
    let rest = resources(mebibytes << 20)?;
    let (mut stored, mut read, mut written) = (Samples::default(), Samples::default(), Samples::default());
    for serial in 1..=times {
        let state = format!(
            "{{\"version\":4,\"terraform_version\":\"1.12.6\",\"serial\":{serial},\
             \"lineage\":\"0191f3a0-0000-7000-8000-000000000001\",\"outputs\":{{}},\"resources\":[{rest}]}}"
        );
        // The tool's own way without a backend: a file, which is on the disk when it goes on.
        let started = Instant::now();
        let mut file = fs::File::create(folder.join("terraform.tfstate"))?;
        file.write_all(state.as_bytes())?;
        file.sync_all()?;
        written.add(started.elapsed());

        let post = http.post(&url).basic_auth("plural", Some(&world.token)).body(state.clone());
        let started = Instant::now();
        let answer = post.send().await.context("cannot store the state")?;
        stored.add(started.elapsed());
        let status = answer.status();
        anyhow::ensure!(status.is_success(), "the state is not taken: {status}: {}", answer.text().await?);

        let get = http.get(&url).basic_auth("plural", Some(&world.token));
        let started = Instant::now();
        let found = get.send().await.context("cannot read the state")?.bytes().await?;
        read.add(started.elapsed());
        anyhow::ensure!(found == state.as_bytes(), "another state is read than was stored");
        world.check()?;
    }
    let figure = |name: &str, samples: &Samples| {
        Figure::new(format!("state of {mebibytes} MiB, {name}, p50"), samples.percentile(50), "ms")
            .at_most(LONGEST)
            .beside("the longest", samples.percentile(100))
            .beside("written to a file and flushed", written.percentile(50))
    };
    Ok(vec![figure("stored", &stored), figure("read", &read)])
}

/// Resources whose attributes do not repeat, so many bytes of them.
fn resources(bytes: usize) -> anyhow::Result<String> {
    let mut text = String::with_capacity(bytes + 2 * RESOURCE);
    let mut hash: [u8; 32] = Sha256::digest(b"a state").into();
    let mut number = 0;
    while text.len() < bytes {
        if number > 0 {
            text.push(',');
        }
        let id = hex::encode(hash);
        write!(
            text,
            "{{\"mode\":\"managed\",\"type\":\"example_thing\",\"name\":\"thing_{number}\",\
             \"provider\":\"provider[\\\"example.org/example/example\\\"]\",\
             \"instances\":[{{\"schema_version\":0,\"attributes\":{{\"id\":\"{id}\",\"content\":\""
        )?;
        let end = text.len() + RESOURCE;
        while text.len() < end {
            hash = Sha256::digest(hash).into();
            text.push_str(&hex::encode(hash));
        }
        text.push_str("\"}}]}");
        number += 1;
    }
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn resources_are_so_many_bytes_of_json() {
        let text = resources(1 << 20).unwrap();
        assert!((1 << 20..(1 << 20) + 2 * RESOURCE).contains(&text.len()), "{}", text.len());
        let list: Vec<serde_json::Value> = serde_json::from_str(&format!("[{text}]")).unwrap();
        assert!(list.len() > 90, "{}", list.len());
    }
}
