//! Reports as no honest agent sends them. They are cleaned and stored: an agent sends a report until it is stored, and
//! everything else that it has to say waits behind it.

use chrono::{DateTime, Utc};
use plural_app::agent::{AgentFacts, ReportedService};
use plural_app::agent_poll::ServiceSpec;
use plural_app::cluster::ClusterSelector;
use plural_app::ports::agents::{AgentReportRow, AgentStore, ServiceReportRow};
use plural_app::project::ProjectSelector;
use plural_core::PageArgs;
use plural_core::cluster::{Cluster, ClusterChange, ClusterFacts};
use plural_core::cluster_issuer::IssuerReport;
use plural_core::component::{Component, ComponentChild, ComponentKey, ComponentState};
use plural_core::project::ProjectChange;
use plural_core::project_limits::ProjectLimits;
use plural_core::promotion::Promoted;
use plural_core::service::Service;
use plural_core::service_error::ServiceError;
use plural_core::service_metadata::ServiceMetadata;
use plural_core::sync::{
    DriftKind, FieldChange, HookOutcome, ObjectRef, PendingApproval, PlanAction, PlannedObject,
    ReportedCandidate, ReportedDrift, ReportedPlan, SyncHook, SyncPhase, SyncProgress, SyncReport, SyncStep,
    SyncWaiting,
};
use plural_testkit::{TestDatabase, each_database};
use secrecy::ExposeSecret;
use uuid::Uuid;

use crate::agent::{component, deployed, report};
use crate::door::{Door, by_id, eventually};

each_database!(
    a_report_of_any_texts_is_stored,
    a_batch_ends_as_its_last_report_says,
    writers_of_the_same_services_do_not_wait_for_each_other_crosswise,
    odd_facts_of_one_cluster_leave_the_others_alone,
);

/// No digit, so that a NUL character alone is written `\0`.
const CHARACTERS: [char; 16] = [
    'a',
    'Z',
    '\0',
    '\u{1}',
    '\u{7f}',
    '\'',
    '"',
    '\\',
    '%',
    '{',
    '\n',
    'é',
    '\u{202e}',
    '\u{fffd}',
    '😀',
    '\u{10ffff}',
];

/// Values of all kinds, the same ones for the same seed.
struct Any(u64);

impl Any {
    /// `SplitMix64`.
    fn number(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    fn one_of<T: Copy>(&mut self, choices: &[T]) -> T {
        choices[self.number() as usize % choices.len()]
    }

    fn text(&mut self) -> String {
        let length = self.one_of(&[0, 1, 2, 7, 60, 5_000]);
        (0..length).map(|_| self.one_of(&CHARACTERS)).collect()
    }

    fn perhaps(&mut self) -> Option<String> {
        self.one_of(&[true, false]).then(|| self.text())
    }

    fn time(&mut self) -> DateTime<Utc> {
        let any = DateTime::from_timestamp_millis(self.number().cast_signed()).unwrap_or_default();
        self.one_of(&[DateTime::<Utc>::MIN_UTC, DateTime::<Utc>::MAX_UTC, DateTime::UNIX_EPOCH, any])
    }

    fn count(&mut self) -> u32 {
        let any = self.number() as u32;
        self.one_of(&[0, 1, u32::MAX, any])
    }

    fn some<T>(&mut self, make: fn(&mut Self) -> T) -> Vec<T> {
        let length = self.one_of(&[0, 1, 4]);
        (0..length).map(|_| make(self)).collect()
    }

    fn object(&mut self) -> ObjectRef {
        ObjectRef { group: self.text(), kind: self.text(), namespace: self.text(), name: self.text() }
    }

    fn key(&mut self) -> ComponentKey {
        ComponentKey {
            group: self.text(),
            version: self.text(),
            kind: self.text(),
            namespace: self.text(),
            name: self.text(),
        }
    }

    fn component(&mut self) -> Component {
        Component {
            id: Uuid::nil(),
            service_id: plural_core::ids::ServiceId::new(),
            key: self.key(),
            state: Some(ComponentState::Failed),
            synced: false,
            uid: self.perhaps(),
            message: self.perhaps(),
            children: self.some(|any| ComponentChild {
                key: any.key(),
                uid: any.text(),
                parent_uid: any.perhaps(),
                state: None,
                message: any.perhaps(),
            }),
        }
    }

    fn error(&mut self) -> ServiceError {
        ServiceError {
            source: self.text(),
            message: self.text(),
            warning: false,
            terminal: false,
            location: self.perhaps(),
        }
    }

    fn field(&mut self) -> FieldChange {
        FieldChange {
            path: self.text(),
            before: self.perhaps(),
            after: self.perhaps(),
            hidden: self.one_of(&[true, false]),
            manager: self.perhaps(),
            written_at: Some(self.time()),
        }
    }

    fn plan(&mut self, spec: &ServiceSpec) -> ReportedPlan {
        ReportedPlan {
            request_id: None,
            revision_id: spec.revision_id,
            digest: self.text(),
            objects: self.some(|any| PlannedObject {
                object: any.object(),
                version: any.text(),
                action: PlanAction::Change,
                phase: Some(SyncPhase::Sync),
                wave: any.number() as i32,
                why: any.perhaps(),
                fields: any.some(Self::field),
                fields_omitted: any.count(),
                location: any.perhaps(),
            }),
            unchanged: self.count(),
            omitted: self.count(),
            error: None,
        }
    }

    fn sync(&mut self, spec: &ServiceSpec) -> SyncReport {
        SyncReport {
            progress: Some(SyncProgress {
                step: SyncStep::Waiting,
                phase: None,
                wave: self.number() as i32,
                waves: self.count(),
                waves_done: self.count(),
                waiting_for: self.some(|any| SyncWaiting { object: any.object(), why: any.text() }),
                hooks: self.some(|any| SyncHook {
                    object: any.object(),
                    phase: Some(SyncPhase::PreSync),
                    outcome: Some(HookOutcome::Failed),
                    message: any.perhaps(),
                }),
            }),
            pending: Some(PendingApproval {
                digest: self.text(),
                reason: self.text(),
                objects: self.some(Self::object),
                count: self.count(),
            }),
            plan: Some(self.plan(spec)),
            drift: self.some(|any| ReportedDrift {
                event: any.text(),
                object: any.object(),
                at: any.time(),
                kind: DriftKind::Repaired,
                fields: any.some(Self::field),
                what: any.perhaps(),
                count: any.count(),
            }),
            request_done: self.perhaps(),
            promoted: Some(Promoted { id: self.text(), problems: self.some(Self::text) }),
            candidates: vec![ReportedCandidate { plan: self.plan(spec), problems: self.some(Self::error) }],
        }
    }

    fn report(&mut self, spec: &ServiceSpec) -> ReportedService {
        ReportedService {
            id: spec.id,
            revision_id: spec.revision_id,
            sequence: spec.sequence,
            sha: self.perhaps(),
            applied: true,
            destroyed: false,
            components: Some(self.some(Self::component)),
            errors: self.some(Self::error),
            metadata: Some(ServiceMetadata { images: self.some(Self::text), fqdns: self.some(Self::text) }),
            sync: self.sync(spec),
        }
    }
}

async fn a_report_of_any_texts_is_stored(database: TestDatabase) {
    let mut door = Door::new(database).await;
    door.start();
    let (agent, service, spec, _) = deployed(&door, "blue").await;
    let (app, admin, id) = (&door.app, &door.admin, service.id);
    for seed in 1..=40 {
        let said = Any(seed).report(&spec);
        let errors = said.errors.len();
        let told = app.agent_report(&agent, report(seed, vec![said])).await;
        assert!(told.is_ok(), "seed {seed}: {}", told.unwrap_err().log_text());
        // What was stored can be read, with no NUL character in it.
        let known = app.service_errors(admin, id).await.unwrap();
        assert_eq!(known.iter().filter(|error| !error.warning).count(), errors, "seed {seed}");
        let all = format!(
            "{known:?} {:?} {:?} {:?} {:?} {:?}",
            app.service_components(admin, id).await.unwrap(),
            app.services_metadata(admin, &[id]).await.unwrap(),
            app.services_syncs(admin, &[id]).await.unwrap(),
            app.service_plans(admin, id, &PageArgs::default()).await.unwrap().edges,
            app.service_drift(admin, id, &PageArgs::default()).await.unwrap().edges,
        );
        assert!(!all.contains("\\0"), "seed {seed}: {all}");
    }
    door.stop().await;
}

/// What an agent says of services of its cluster, with these components where some are told.
fn row(door: &Door, services: &[&Service], components: Option<&[Component]>) -> AgentReportRow {
    let said = |service: &&Service| ServiceReportRow {
        id: service.id,
        revision_id: service.revision_id,
        sequence: service.sequence,
        sha: None,
        applied: true,
        destroyed: false,
        components: components.map(<[Component]>::to_vec),
        errors: Vec::new(),
        metadata: None,
        sync: SyncReport::default(),
    };
    AgentReportRow {
        cluster_id: services[0].cluster_id,
        services: services.iter().map(said).collect(),
        at: door.app.now(),
    }
}

/// Reports of one service that are stored together.
async fn a_batch_ends_as_its_last_report_says(database: TestDatabase) {
    let door = Door::new(database).await;
    let made = door.cluster("blue").await;
    let service = door.service(&made.cluster, &door.repository("https://example.com/a").await, "web").await;
    let (running, failed) = (ComponentState::Running, ComponentState::Failed);
    let batches: [&[&[(&str, ComponentState)]]; 6] = [
        // Added and gone; gone and added again; changed and gone.
        &[&[("a", running)], &[]],
        &[&[("a", running)], &[("b", running)], &[("a", failed), ("b", running)]],
        &[&[], &[("a", running)]],
        &[&[("a", failed)], &[("b", failed)]],
        &[
            &[("a", failed), ("b", running)],
            &[("a", running)],
            &[("b", failed)],
            &[("b", running), ("c", failed)],
        ],
        &[&[("b", failed), ("c", failed)], &[]],
    ];
    for batch in batches {
        let of = |named: &&[(&str, ComponentState)]| -> Vec<Component> {
            named.iter().map(|(name, state)| component(name, *state)).collect()
        };
        let reports: Vec<AgentReportRow> =
            batch.iter().map(|named| row(&door, &[&service], Some(&of(named)))).collect();
        door.database.agent_reports(&reports).await.unwrap();
        let stored = door.app.service_components(&door.admin, service.id).await.unwrap();
        let stored: Vec<_> = stored.iter().map(|one| (one.key.name.as_str(), one.state.unwrap())).collect();
        assert_eq!(stored, batch.last().unwrap().to_vec(), "{batch:?}");
    }
}

async fn writers_of_the_same_services_do_not_wait_for_each_other_crosswise(database: TestDatabase) {
    let door = Door::new(database).await;
    let made = door.cluster("blue").await;
    let repository = door.repository("https://example.com/a").await;
    let mut services = Vec::new();
    for n in 0..8 {
        services.push(door.service(&made.cluster, &repository, &format!("s-{n}")).await);
    }
    let project = door.default_project().await.id;
    let limits = ProjectLimits { no_cluster_scoped: true, ..ProjectLimits::default() };
    door.app.project_limits_set(&door.admin, &ProjectSelector::Id(project), &limits).await.unwrap();
    let forward: Vec<&Service> = services.iter().collect();
    let backward: Vec<&Service> = services.iter().rev().collect();
    let cluster = ClusterSelector::Id(made.cluster.id);
    for round in 0..50 {
        let name = ProjectChange {
            name: Some(format!("name-{round}").parse().unwrap()),
            ..ProjectChange::default()
        };
        let version = ClusterChange { version: Some(format!("1.{round}")), ..ClusterChange::default() };
        let (reports, others) = ([row(&door, &forward, None)], [row(&door, &backward, None)]);
        let (one, two, named, changed) = tokio::join!(
            door.database.agent_reports(&reports),
            door.database.agent_reports(&others),
            door.app.project_update(&door.admin, project, &name),
            door.app.cluster_update(&door.admin, &cluster, &version),
        );
        one.unwrap();
        two.unwrap();
        named.unwrap();
        changed.unwrap();
    }
}

async fn odd_facts_of_one_cluster_leave_the_others_alone(database: TestDatabase) {
    let mut door = Door::new(database).await;
    let facts = |version: String| AgentFacts {
        issuer: IssuerReport::Untold,
        facts: ClusterFacts {
            current_version: Some(version.clone()),
            agent_version: Some(version),
            ..ClusterFacts::default()
        },
        distro: None,
    };
    let odd = format!("v1\0{}", "é".repeat(10_000));
    let mut clusters = Vec::new();
    for (name, version) in [("blue", "v1.36.2"), ("red", odd.as_str()), ("green", "v1.36.2")] {
        let made = door.cluster(name).await;
        let agent = door.app.agent_authenticate(made.deploy_token.expose_secret()).unwrap();
        door.app.agent_ping(&agent, Some(facts(version.to_owned()))).unwrap();
        clusters.push(made.cluster);
    }
    // They are stored together.
    door.start();
    for cluster in &clusters {
        let cluster = eventually(async || {
            let cluster = door.app.get::<Cluster>(&door.admin, &by_id(cluster)).await.unwrap();
            cluster.pinged_at.is_some().then_some(cluster)
        })
        .await;
        let facts = cluster.facts;
        assert_eq!(facts.current_version, facts.agent_version);
        let version = facts.current_version.unwrap();
        assert!(
            version == "v1.36.2" || version.starts_with("v1\u{fffd}é") && version.len() < 5_000,
            "{version}"
        );
    }
    door.stop().await;
}
