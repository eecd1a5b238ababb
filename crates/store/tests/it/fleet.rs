//! A console with a global service on clusters whose agents say what a test wants.

use std::collections::BTreeMap;
use std::sync::Arc;

use plural_app::agent::{AgentHandle, AgentReport};
use plural_app::agent_poll::PollAsked;
use plural_app::global_service::{GlobalServiceSelector, Instance};
use plural_core::cluster::{Cluster, ClusterChange, TagsChange};
use plural_core::component::ComponentState;
use plural_core::global_service::{
    GlobalService, GlobalServiceChange, GlobalServiceSource, GlobalServiceSpec, GlobalServiceSpecChange,
    NewGlobalService, ServiceTemplate, TemplateSecrets,
};
use plural_core::ids::ClusterId;
use plural_core::repository::Repository;
use plural_core::rollout::{Cohort, CohortMembers, RolloutState, RolloutStrategy, Share};
use plural_core::service::{GitRef, Service};
use plural_core::target::ClusterTarget;
use plural_store::DatabaseOptions;
use plural_testkit::TestDatabase;
use secrecy::{ExposeSecret, SecretString};

use crate::agent::{component, reported};
use crate::door::{Door, eventually};

pub(crate) const URL: &str = "https://example.com/team/app";

/// A console with clusters and their agents.
pub(crate) struct Fleet {
    pub(crate) door: Door,
    pub(crate) repository: Repository,
    pub(crate) clusters: BTreeMap<String, (Cluster, AgentHandle, SecretString)>,
    pub(crate) reports: u64,
}

impl Fleet {
    pub(crate) async fn new(database: TestDatabase, names: &[&str]) -> Self {
        let mut door = Door::new(database).await;
        door.git.commit(URL, "c1", &[("web", "one"), ("other", "one")]);
        door.start();
        let repository = door.repository(URL).await;
        let mut clusters = BTreeMap::new();
        for name in names {
            let made = door.cluster(name).await;
            // On a busy server the feed may be a moment behind.
            let token = made.deploy_token.expose_secret();
            let agent =
                eventually(async || door.app.agent_authenticate(token).map_err(|error| error.to_string()))
                    .await;
            clusters.insert((*name).to_owned(), (made.cluster, agent, made.deploy_token));
        }
        Self { door, repository, clusters, reports: 0 }
    }

    /// Kills the console and starts another on its database, to which the agents connect.
    pub(crate) async fn kill(&mut self) {
        self.door.kill().await;
        let (source, git) = (Arc::clone(&self.door.source), Arc::clone(&self.door.git));
        self.door = Door::open_on(source, &DatabaseOptions::new(""), git).await;
        self.door.start();
        for (_, agent, token) in self.clusters.values_mut() {
            *agent = self.door.app.agent_authenticate(token.expose_secret()).unwrap();
        }
    }

    pub(crate) fn id(&self, name: &str) -> ClusterId {
        self.clusters[name].0.id
    }

    pub(crate) async fn tag(&self, name: &str, tags: &[(&str, &str)]) {
        let tags = tags.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        let change = ClusterChange { tags: TagsChange::All(tags), ..ClusterChange::default() };
        let selector = plural_app::cluster::ClusterSelector::Id(self.id(name));
        self.door.app.cluster_update(&self.door.admin, &selector, &change).await.unwrap();
    }

    pub(crate) fn template(&self) -> ServiceTemplate {
        ServiceTemplate {
            name: Some("web".into()),
            namespace: Some("apps".into()),
            repository_id: Some(self.repository.id),
            git: Some(GitRef::new("main", "web", &[]).unwrap()),
            ..ServiceTemplate::default()
        }
    }

    pub(crate) async fn make(&self, spec: GlobalServiceSpec) -> GlobalService {
        let source = GlobalServiceSource::Template(Box::new(self.template()), TemplateSecrets::default());
        self.make_from(spec, source).await
    }

    pub(crate) async fn make_from(
        &self,
        spec: GlobalServiceSpec,
        source: GlobalServiceSource,
    ) -> GlobalService {
        let new = NewGlobalService { name: "web".parse().unwrap(), project_id: None, spec, source };
        self.door.app.global_service_create(&self.door.admin, new).await.unwrap()
    }

    pub(crate) async fn get(&self, global: &GlobalService) -> GlobalService {
        self.door.app.get::<GlobalService>(&self.door.admin, &by(global)).await.unwrap()
    }

    pub(crate) async fn instances(&self, global: &GlobalService) -> BTreeMap<ClusterId, Instance> {
        let all = self.door.app.global_service_instances(&self.door.admin, global.id).await.unwrap();
        all.into_iter().map(|one| (one.cluster_id, one)).collect()
    }

    /// Waits until exactly these clusters have an instance.
    pub(crate) async fn until_on(
        &self,
        global: &GlobalService,
        names: &[&str],
    ) -> BTreeMap<ClusterId, Instance> {
        let mut wanted: Vec<ClusterId> = names.iter().map(|name| self.id(name)).collect();
        wanted.sort_unstable();
        eventually(async || {
            let found = self.instances(global).await;
            if found.keys().copied().collect::<Vec<_>>() == wanted {
                Ok(found)
            } else {
                Err(format!("{found:?} {:?}", self.get(global).await.error))
            }
        })
        .await
    }

    /// The clusters' generations, in the order of their names.
    pub(crate) async fn generations(&self, global: &GlobalService) -> Vec<u64> {
        let found = self.instances(global).await;
        self.clusters
            .values()
            .map(|(cluster, ..)| found.get(&cluster.id).map_or(0, |one| one.generation))
            .collect()
    }

    pub(crate) async fn until_generations(&self, global: &GlobalService, wanted: &[u64]) {
        eventually(async || {
            let found = self.generations(global).await;
            if found == wanted {
                return Ok(());
            }
            let (global, instances) = (self.get(global).await, self.instances(global).await);
            Err(format!("{found:?} {:?} {:?} {instances:?}", global.rollout, global.error))
        })
        .await;
    }

    pub(crate) async fn until_state(&self, global: &GlobalService, state: RolloutState) -> GlobalService {
        eventually(async || {
            let found = self.get(global).await;
            match &found.rollout {
                Some(rollout) if rollout.state == state => Ok(found),
                _ => Err(format!("{found:?}")),
            }
        })
        .await
    }

    /// What the agent of a cluster says once its services have come as far as the console wants them.
    pub(crate) async fn says(&mut self, name: &str, state: ComponentState) {
        let (cluster, agent, _) = &self.clusters[name];
        let specs = eventually(async || {
            let answer =
                self.door.app.agent_poll(agent, &PollAsked::at(None)).await.map_err(|e| e.log_text())?;
            let mut all = true;
            for spec in &answer.services {
                // Not before the console has found what it was given last …
                let owner = self.service(spec.id).await.owner.expect("an instance");
                let instances =
                    self.door.app.global_service_instances(&self.door.admin, owner).await.unwrap();
                let placed = instances.iter().any(|one| one.service_id == spec.id && one.placed);
                // … and has told it.
                all &= placed && self.service(spec.id).await.sequence == spec.sequence;
            }
            if all && !answer.services.is_empty() { Ok(answer.services) } else { Err(format!("{answer:?}")) }
        })
        .await;
        self.reports += 1;
        let services = specs.iter().map(|spec| {
            reported(spec, |said| said.components = Some(vec![component(cluster.handle.as_str(), state)]))
        });
        let report = AgentReport { id: self.reports, services: services.collect(), facts: None };
        self.door.app.agent_report(agent, report).await.unwrap();
    }

    pub(crate) async fn service(&self, id: plural_core::ids::ServiceId) -> Service {
        let selector = plural_app::service::ServiceSelector::Id(id);
        self.door.app.get::<Service>(&self.door.admin, &selector).await.unwrap()
    }

    pub(crate) async fn on(&self, global: &GlobalService, name: &str) -> Service {
        self.service(self.instances(global).await[&self.id(name)].service_id).await
    }
}

pub(crate) fn by(global: &GlobalService) -> GlobalServiceSelector {
    GlobalServiceSelector::Id(global.id)
}

pub(crate) fn tagged(name: &str, value: &str) -> ClusterTarget {
    ClusterTarget { tags: [(name.to_owned(), value.to_owned())].into(), ..ClusterTarget::default() }
}

/// The canary first, then two of the others at a time.
pub(crate) fn canary() -> RolloutStrategy {
    RolloutStrategy {
        cohorts: vec![Cohort {
            name: "canary".into(),
            members: CohortMembers::Tags([("tier".to_owned(), "canary".to_owned())].into()),
        }],
        max_unavailable: Share::Count(2),
        soak_seconds: 0,
        timeout_seconds: 3600,
        max_failures: 0,
        undo: false,
    }
}

pub(crate) fn with(rollout: RolloutStrategy) -> GlobalServiceSpec {
    GlobalServiceSpec { rollout: Some(rollout), ..GlobalServiceSpec::default() }
}

/// A change of the template that makes a generation.
pub(crate) fn version(fleet: &Fleet, version: &str) -> GlobalServiceChange {
    let template = ServiceTemplate { version: Some(version.into()), ..fleet.template() };
    GlobalServiceChange {
        spec: GlobalServiceSpecChange::default(),
        template: Some((Box::new(template), TemplateSecrets::default())),
    }
}
