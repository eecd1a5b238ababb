use chrono::TimeDelta;
use plural_wire::{ClusterRef, GitRef, Revision, ServiceComponent, ServiceConfiguration, ServiceError};

use super::*;

fn web() -> ServiceDeployment {
    ServiceDeployment {
        id: "0190b8a2-7c11-7def-8000-0123456789ab".into(),
        name: "web".into(),
        namespace: "shop".into(),
        status: ServiceDeploymentStatus::Healthy,
        sha: Some("5f3c1d0e9a7b6c5d4e3f2a1b0c9d8e7f6a5b4c3d".into()),
        protect: Some(false),
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
        sync_config: None,
        components: vec![
            component("Deployment", Some("shop"), Some(ComponentState::Running), true),
            component("ClusterRole", None, None, false),
        ],
        errors: vec![ServiceError {
            source: "sync".into(),
            message: "the API server\nrefused it".into(),
            warning: None,
        }],
        helm: None,
        kustomize: None,
        renderers: Vec::new(),
        dependencies: Vec::new(),
        contexts: Vec::new(),
        configuration: vec![
            ServiceConfiguration { name: "replicas".into() },
            ServiceConfiguration { name: "host".into() },
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
    let all = [web(), going];
    insta::assert_snapshot!("services_table", output::table(&all, false, DateTime::UNIX_EPOCH));
    insta::assert_snapshot!("services_wide", output::table(&all, true, DateTime::UNIX_EPOCH));
}

#[test]
fn description_of_a_service() {
    let now = DateTime::UNIX_EPOCH + TimeDelta::days(1);
    insta::assert_snapshot!("service_description", description(&details(), now));
}

#[test]
fn a_service_stands_by_its_first_error_or_its_objects() {
    assert_eq!(standing(&details()), "sync: the API server refused it");
    let fine = ServiceDetails { errors: Vec::new(), ..details() };
    assert_eq!(standing(&fine), "HEALTHY, 1 of 2 objects ready");
}

#[test]
fn a_new_service_is_named_in_two_ways() {
    let blue = ClusterKey::Handle("blue".into());
    assert_eq!(target("blue/web", None).unwrap(), (blue.clone(), "web".into()));
    assert_eq!(target("@blue", Some("web")).unwrap(), (blue, "web".into()));
    assert_eq!(target("blue", None).unwrap_err().exit_code(), 2);
    assert_eq!(target("blue/web", Some("api")).unwrap_err().exit_code(), 2);
}
