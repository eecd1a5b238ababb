//! Agents of the previous build: they poll as they did, miss nothing, and hear that a newer build is needed for the rest.
//!
//! One backend is enough: the shape of an answer depends on the agent alone, and what is in it is compared on each database
//! by the store's own tests.

use std::time::Duration;

use anyhow::Context as _;
use http::{HeaderMap, HeaderValue, Method};
use plural_console::RunningConsole;
use plural_testkit::{GitRemote, eventually, run_case};
use plural_tunnel::{
    Console, ConsoleOptions, TunnelError,
    v1::{AgentMessage, Cursor, Hello, Intent, PollRequest, PollResponse, Service, agent_message},
    work::CONTRACT,
};
use plural_wire::{
    ConfigAttributes, ConfigurationKeyRefAttributes, ConfigurationReferenceAttributes,
    DetachServiceDeployment, GetCluster, ServiceDeploymentAttributes,
};
use prost::Message as _;
use tokio::sync::{Mutex, mpsc};

use crate::{
    raw::{Raw, Said, Via, grpc_frame},
    world::{PATIENCE, Person, attributes, console_config, map},
};

/// An agent of one contract, as far as it polls.
struct Poller {
    raw: Raw,
    token: String,
    contract: u32,
    cursor: Option<Cursor>,
    polls: usize,
}

impl Poller {
    async fn new(console: &RunningConsole, token: &str, contract: u32) -> anyhow::Result<Self> {
        let raw = Raw::connect(console.address, Via::Http2).await?;
        Ok(Self { raw, token: token.to_owned(), contract, cursor: None, polls: 0 })
    }

    async fn poll(&mut self) -> anyhow::Result<PollResponse> {
        let mut headers = HeaderMap::new();
        headers.insert("content-type", HeaderValue::from_static("application/grpc"));
        headers.insert("te", HeaderValue::from_static("trailers"));
        headers.insert("authorization", format!("Bearer {}", self.token).parse()?);
        let request = PollRequest {
            cursor: self.cursor.clone(),
            contract: self.contract,
            want: Vec::new(),
            whole: false,
        };
        let said = Said::All(grpc_frame(&request.encode_to_vec()));
        let told = self.raw.ask(Method::POST, "/plural.agent.v1.AgentService/Poll", &headers, said).await?;
        anyhow::ensure!(told.grpc() == Some(0), "{told:?}");
        // A flag and the length come before the message.
        let answer = PollResponse::decode(told.body.slice(5..))?;
        anyhow::ensure!(answer.snapshot == (self.polls == 0), "everything comes once: {answer:?}");
        self.cursor.clone_from(&answer.cursor);
        self.polls += 1;
        Ok(answer)
    }
}

/// Polls until a service fits. On the way nothing comes in a shape that the previous build does not read, and nothing is
/// forgotten.
async fn until(agent: &Mutex<Poller>, fits: impl Fn(&Service) -> bool) -> Service {
    eventually(PATIENCE, async || {
        let answer = agent.lock().await.poll().await.map_err(|error| format!("{error:#}"))?;
        assert!(answer.work.is_empty() && answer.moved.is_empty() && answer.forgotten.is_empty());
        assert!(answer.forgotten_service_ids.is_empty());
        assert_eq!(answer.cluster.is_some(), !answer.services.is_empty());
        answer.services.iter().find(|service| fits(service)).cloned().ok_or_else(|| format!("{answer:?}"))
    })
    .await
}

#[test]
fn an_agent_of_the_previous_build_goes_on_by_polls() {
    run_case(async {
        let folder = tempfile::tempdir()?;
        let console = RunningConsole::start(console_config(folder.path()), None).await?;
        let person = Person::administrator(&console.url).await?;
        let registered = person.cluster("blue").await?;
        let remote = GitRemote::new()?;
        remote.push_files([("app/a.yaml", map("a", "1"))])?;
        let repository = person.repository(&remote.path().display().to_string()).await?;
        let app = person.service(&registered, "apps", &repository, "app").await?;
        let token = registered.token.as_str();
        let previous = Mutex::new(Poller::new(&console, token, 0).await?);
        let known = until(&previous, |service| !service.artifact_digest.is_empty()).await;
        assert_eq!((known.id.as_str(), known.intent()), (app.as_str(), Intent::Apply));
        assert!(known.sync_config.is_some() && known.sync_config_json.is_empty(), "{known:?}");

        eventually(PATIENCE, async || {
            let asked = GetCluster { id: Some(registered.id.clone()), handle: None };
            let cluster = person.client.send(&asked).await.map_err(|error| format!("{error:#}"))?;
            if cluster.agent_outdated == Some(true) { Ok(()) } else { Err(format!("{cluster:?}")) }
        })
        .await;

        // Agents of later contracts are sent work, with settings in the shape that each of them reads.
        let mut later = Vec::new();
        for contract in [1, CONTRACT] {
            let mut agent = Poller::new(&console, token, contract).await?;
            let answer = agent.poll().await?;
            assert!(answer.services.is_empty() && answer.cluster.is_none() && answer.contract == contract);
            let ids: Vec<&str> = answer.whole_services().map(|service| service.id.as_str()).collect();
            assert_eq!(ids, [app.as_str()]);
            for service in answer.whole_services() {
                let has_document = !service.sync_config_json.is_empty();
                assert_eq!((has_document, service.sync_config.is_some()), (contract > 1, contract <= 1));
                assert_eq!(service.settings()?, known.settings()?);
            }
            later.push(agent);
        }

        // A commit, for which they are sent a move: to the previous one it comes whole.
        let sha = remote.push_files([("app/a.yaml", map("a", "2"))])?;
        let moved = until(&previous, |service| service.commit_sha == sha).await;
        assert!(moved.sequence > known.sequence && moved.artifact_digest != known.artifact_digest);
        assert_eq!((&moved.sync_config, &moved.seed), (&known.sync_config, &known.seed));
        for agent in &mut later {
            let answer = agent.poll().await?;
            let moves = answer.moved.iter().map(|to| &to.commit_sha);
            let told = moves.chain(answer.whole_services().map(|service| &service.commit_sha));
            assert!(told.eq([&sha]), "{answer:?}");
        }

        // Its stream is refused with words for whoever reads its log.
        let options = ConsoleOptions {
            url: console.url.clone(),
            token: token.to_owned(),
            ca_pem: None,
            deadline: Duration::from_secs(10),
        };
        let (up, outgoing) = mpsc::channel(4);
        let hello = Hello { agent_version: "0.0.9".to_owned(), ..Hello::default() };
        up.send(AgentMessage { message: Some(agent_message::Message::Hello(hello)) }).await?;
        let refused = match Console::new(&options)?.stream(outgoing).await {
            Ok(mut stream) => TunnelError::from(stream.message().await.err().context("it was welcomed")?),
            Err(refused) => refused,
        };
        assert!(!refused.is_unauthorized(), "its token is good: {refused}");
        assert!(refused.to_string().contains("an earlier build"), "{refused}");

        person.client.send(&DetachServiceDeployment { id: app.clone() }).await?;
        eventually(PATIENCE, async || {
            let answer = previous.lock().await.poll().await.map_err(|error| format!("{error:#}"))?;
            if answer.forgotten_service_ids == [app.clone()] { Ok(()) } else { Err(format!("{answer:?}")) }
        })
        .await;
        console.stop().await?;
        anyhow::Ok(())
    });
}

/// A service with values by reference: who does not know them is told so, and renders nothing.
#[test]
fn an_agent_that_knows_no_references_hears_that_it_must_be_updated() {
    run_case(async {
        let folder = tempfile::tempdir()?;
        let console = RunningConsole::start(console_config(folder.path()), None).await?;
        let person = Person::administrator(&console.url).await?;
        let registered = person.cluster("blue").await?;
        let remote = GitRemote::new()?;
        remote.push_files([("app/a.yaml", map("a", "1"))])?;
        let repository = person.repository(&remote.path().display().to_string()).await?;
        let key =
            ConfigurationKeyRefAttributes { name: "db".into(), key: "password".into(), namespace: None };
        let from = ConfigurationReferenceAttributes { secret_key_ref: Some(key), ..Default::default() };
        let reference = ConfigAttributes { name: "password".into(), value: None, value_from: Some(from) };
        let attributes = ServiceDeploymentAttributes {
            configuration: Some(vec![reference]),
            ..attributes("app", "apps", &repository, "main", "app")
        };
        let app = person.service_of(&registered, attributes).await?;
        let token = registered.token.as_str();

        let newest = Poller::new(&console, token, CONTRACT).await?.poll().await?;
        let service = newest.whole_services().next().context("it is sent")?.clone();
        let values = service.references.as_ref().map(|references| references.values.len());
        assert_eq!((service.id.as_str(), values, service.configuration.len()), (app.as_str(), Some(1), 0));
        service.settings()?;
        // As the previous build decodes it: without the field that it does not know.
        let answer = Poller::new(&console, token, 2).await?.poll().await?;
        let service = answer.whole_services().next().context("it is sent")?.clone();
        let told = Service { references: None, ..service }.settings().unwrap_err().to_string();
        assert!(told.contains("values by reference: update the agent"), "{told}");
        // Those before cannot say it: they get nothing, and say what they are told.
        for contract in [0, 1] {
            let refused = Poller::new(&console, token, contract).await?.poll().await.unwrap_err().to_string();
            // As a header of gRPC is written.
            assert!(refused.contains("update%20the%20agent"), "{refused}");
        }
        console.stop().await?;
        Ok::<_, anyhow::Error>(())
    });
}
