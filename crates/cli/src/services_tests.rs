use chrono::TimeDelta;
use plural_wire::{
    ClusterRef, GitRef, Revision, ServiceComponent, ServiceConfiguration, ServiceError, ServiceReason,
};

use super::*;

fn web() -> ServiceDeployment {
    ServiceDeployment {
        id: "0190b8a2-7c11-7def-8000-0123456789ab".into(),
        name: "web".into(),
        namespace: "shop".into(),
        status: ServiceDeploymentStatus::Healthy,
        sha: Some("5f3c1d0e9a7b6c5d4e3f2a1b0c9d8e7f6a5b4c3d".into()),
        protect: Some(false),
        component_status: Some("1 / 2".into()),
        message: Some("two".into()),
        inserted_at: Some(DateTime::UNIX_EPOCH),
        reason: None,
        deleted_at: None,
        updated_at: None,
        git: Some(GitRef { reference: "main".into(), folder: "web".into() }),
        repository: Some(plural_wire::GitRepository {
            id: "2".into(),
            url: "https://git.example.com/a.git".into(),
            auth_method: None,
            signed_commits: false,
            health: None,
            error: None,
            pulled_at: None,
        }),
        cluster: Some(ClusterRef { id: "1".into(), name: "Blue".into(), handle: Some("blue".into()) }),
        revision: Some(Revision { id: "3".into(), sha: None }),
        paused: None,
        pin: None,
        pending_approval: None,
        sync: None,
    }
}

fn details() -> ServiceDetails {
    let component = |kind: &str, namespace: Option<&str>, state, synced| ServiceComponent {
        id: "4".into(),
        group: Some("apps".into()),
        version: Some("v1".into()),
        kind: kind.into(),
        namespace: namespace.map(str::to_owned),
        name: "web".into(),
        state,
        synced,
    };
    ServiceDetails {
        service: web(),
        dry_run: Some(false),
        templated: Some(true),
        author: Some("Ada".into()),
        sync_config: None,
        components: vec![
            component("Deployment", Some("shop"), Some(ComponentState::Running), true),
            component("ClusterRole", None, None, false),
        ],
        errors: vec![ServiceError {
            source: "sync".into(),
            message: "the API server\nrefused it".into(),
            warning: None,
            terminal: true,
        }],
        helm: None,
        kustomize: None,
        renderers: Vec::new(),
        dependencies: Vec::new(),
        contexts: Vec::new(),
        imports: Vec::new(),
        configuration: vec![
            ServiceConfiguration { name: "replicas".into(), value_from: None },
            ServiceConfiguration { name: "host".into(), value_from: None },
        ],
    }
}

#[test]
fn tables_of_services() {
    let going = ServiceDeployment {
        name: "old".into(),
        deleted_at: Some(DateTime::UNIX_EPOCH),
        sha: None,
        git: None,
        repository: None,
        ..web()
    };
    let failing = ServiceDeployment {
        git: Some(GitRef {
            reference: "5f3c1d0e9a7b6c5d4e3f2a1b0c9d8e7f6a5b4c3d".into(),
            folder: "web".into(),
        }),
        reason: Some(reason(ServiceReasonKind::Error, &"a long story ".repeat(20), true)),
        ..web()
    };
    let all = [web(), going, failing];
    insta::assert_snapshot!("services_table", output::table(&all, false, DateTime::UNIX_EPOCH));
    insta::assert_snapshot!("services_wide", output::table(&all, true, DateTime::UNIX_EPOCH));
}

#[test]
fn description_of_a_service() {
    let now = DateTime::UNIX_EPOCH + TimeDelta::days(1);
    insta::assert_snapshot!("service_description", description(&details(), now));
}

fn reason(kind: ServiceReasonKind, message: &str, terminal: bool) -> ServiceReason {
    ServiceReason { kind, message: message.into(), terminal, until: None }
}

fn with(status: ServiceDeploymentStatus, reason: ServiceReason) -> ServiceDetails {
    let service = ServiceDeployment { status, reason: Some(reason), ..web() };
    ServiceDetails { service, ..details() }
}

#[test]
fn a_service_stands_by_its_reason_or_its_objects() {
    let why = reason(ServiceReasonKind::Error, "sync: the API server\nrefused it", true);
    let failed = with(ServiceDeploymentStatus::Failed, why);
    assert_eq!(standing(&failed), "sync: the API server refused it (1 of 2 objects ready)");
    assert_eq!(standing(&details()), "HEALTHY, 1 of 2 objects ready");
}

#[test]
fn waiting_ends_at_once_where_it_does_not_help() {
    use ServiceDeploymentStatus::{Failed, Healthy, Stale};
    let look = |details| Patience::within(Duration::from_mins(1)).look("blue/web", details);
    let never = |details| match look(details) {
        Observed::Never(error) => (error.to_string(), error.exit_code()),
        Observed::NotYet(_) | Observed::Done(_) => panic!("it is waited for"),
    };
    let (message, code) = never(with(Failed, reason(ServiceReasonKind::Error, "render: no such key", true)));
    assert_eq!(
        (message.as_str(), code),
        ("service blue/web failed: render: no such key (1 of 2 objects ready)", 1)
    );
    let (message, _) = never(with(Stale, reason(ServiceReasonKind::Paused, "paused", true)));
    assert!(message.contains("does not become healthy by waiting: paused"), "{message}");
    // What may pass by itself is waited for, but not for ever.
    let passing = || with(Failed, reason(ServiceReasonKind::Error, "sync: the API server is away", false));
    assert!(matches!(look(passing()), Observed::NotYet(_)));
    let mut patience = Patience::within(Duration::from_mins(1));
    let looks = (0..FAILED_LOOKS).map(|_| patience.look("blue/web", passing()));
    assert!(matches!(looks.last(), Some(Observed::Never(_))));
    // A window is waited for if it opens in time.
    let held = |seconds| ServiceReason {
        until: Some(Utc::now() + TimeDelta::seconds(seconds)),
        ..reason(ServiceReasonKind::Window, "held by a sync window", false)
    };
    assert!(matches!(look(with(Stale, held(30))), Observed::NotYet(_)));
    assert!(matches!(look(with(Stale, held(90))), Observed::Never(_)));
    // Healthy, as far as anybody knows.
    let away = reason(ServiceReasonKind::Agent, "the agent of blue is not connected", false);
    assert!(matches!(look(with(Healthy, away)), Observed::NotYet(state) if state.contains("not connected")));
    let pinned = reason(ServiceReasonKind::Pinned, "pinned by ada", false);
    assert!(matches!(look(with(Healthy, pinned)), Observed::Done(_)));
}

#[test]
fn numbers_have_their_plural() {
    assert_eq!(counted(1, "object"), "1 object");
    assert_eq!(counted(0, "object"), "0 objects");
    assert_eq!(counted(2, "repository"), "2 repositories");
}

#[test]
fn a_new_service_is_named_in_two_ways() {
    let blue = ClusterKey::Handle("blue".into());
    assert_eq!(target("blue/web", None).unwrap(), (blue.clone(), "web".into()));
    assert_eq!(target("@blue", Some("web")).unwrap(), (blue, "web".into()));
    assert_eq!(target("blue", None).unwrap_err().exit_code(), 2);
    assert_eq!(target("blue/web", Some("api")).unwrap_err().exit_code(), 2);
}
