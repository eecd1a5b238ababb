//! Federated credentials: which of many a token is held against, and who may make them.

use plural_app::federated_credential::{ClaimedToken, FederatedCredentialStore as _, IssuerChoice};
use plural_app::question::Question;
use plural_core::Error;
use plural_core::access::Action;
use plural_core::federated_credential::FederationTerms;
use plural_core::ids::MachineAccountId;
use plural_core::machine_account::NewMachineAccount;
use plural_core::policy::{NamedRole, Role};
use plural_core::project::Project;
use plural_core::token::TokenScopes;
use plural_testkit::{TestDatabase, each_database};
use sea_orm::{ConnectionTrait, Statement};
use uuid::Uuid;

use crate::door::{Door, subject};
use crate::role::{give, role};

each_database!(a_credential_is_found_among_very_many, who_may_federate_is_asked_as_it_is_decided,);

const ISSUER: &str = "https://ci.example.com";

async fn account(door: &Door, project: &Project, name: &str) -> MachineAccountId {
    let name = name.parse().unwrap();
    let new = NewMachineAccount { name, email: None, project_id: Some(project.id), assume: Vec::new() };
    door.app.machine_account_create(&door.admin, new).await.unwrap().id
}

fn terms(subject: &str) -> FederationTerms {
    FederationTerms {
        audience: "plural".to_owned(),
        claims: [("sub".to_owned(), subject.to_owned())].into(),
        scopes: TokenScopes::all(),
    }
}

async fn a_credential_is_found_among_very_many(database: TestDatabase) {
    let door = Door::new(database).await;
    let team = door.project("team").await;
    let deployer = account(&door, &team, "deployer").await;
    let other = sea_orm::Database::connect(door.source.url()).await.unwrap();
    // More than one look-up reads, older than those that are meant; some of the patterns fit everything that is asked for below.
    for chunk in 0..12 {
        let rows: Vec<String> = (0..500)
            .map(|n| {
                let id = Uuid::now_v7().simple().to_string();
                let user = deployer.uuid().simple().to_string();
                let (id, user) = if door.database.is_postgres() {
                    (format!("'{id}'::uuid"), format!("'{user}'::uuid"))
                } else {
                    (format!("X'{id}'"), format!("X'{user}'"))
                };
                let subject = match (chunk, n % 3) {
                    (0, _) => "repo:*".to_owned(),
                    (_, 0) => format!("repo:acme/other-{chunk}-{n}:*"),
                    _ => format!("repo:acme/other-{chunk}-{n}:ref"),
                };
                format!(
                    "({id}, {user}, '{ISSUER}', 'plural', '{{\"sub\":\"{subject}\"}}', '*', \
                     '2026-01-01 00:00:00+00:00', '2026-01-01 00:00:00+00:00')"
                )
            })
            .collect();
        let insert = format!(
            "INSERT INTO federated_credentials (id, user_id, issuer, audience, claims, scopes, created_at, updated_at) VALUES {}",
            rows.join(", ")
        );
        let statement = Statement::from_string(other.get_database_backend(), insert);
        assert_eq!(other.execute_raw(statement).await.unwrap().rows_affected(), 500);
    }
    let made = async |name: &str, subject: &str| {
        let account = account(&door, &team, name).await;
        let issuer = IssuerChoice::Address(ISSUER.parse().unwrap());
        let terms = terms(subject);
        door.app.federated_credential_create(&door.admin, account, issuer, terms, None).await.unwrap().id
    };
    let exact = made("exact", "repo:acme/shop:ref:refs/heads/main").await;
    let pattern = made("pattern", "repo:acme/shop:*").await;
    let middle = made("middle", "repo:acme/*:ref:refs/heads/main").await;
    let looked_up = async |audience: &str, subject: &str| {
        let claimed = ClaimedToken {
            issuer: ISSUER.to_owned(),
            audience: audience.to_owned(),
            subject: subject.to_owned(),
            key: None,
        };
        door.database.federated_credentials_for(&claimed, 100).await.unwrap()
    };
    let found = looked_up("plural", "repo:acme/shop:ref:refs/heads/main").await;
    for (id, what) in [(exact, "exactly this"), (pattern, "a pattern"), (middle, "one that goes on")] {
        assert!(found.iter().any(|one| one.id == id), "{what}: {found:?}");
    }
    assert!(found.len() <= 200, "{}", found.len());
    let other = looked_up("plural", "repo:acme/shop:tag").await;
    assert!(other.iter().any(|one| one.id == pattern) && !other.iter().any(|one| one.id == exact));
    for (audience, subject) in [("plural", ""), ("plural", "other"), ("another", "repo:acme/shop:tag")] {
        assert_eq!(looked_up(audience, subject).await, [], "{audience} {subject}");
    }
    // One of letters that take several bytes, longer than any pattern.
    assert_eq!(looked_up("plural", &"é".repeat(700)).await, []);
}

async fn who_may_federate_is_asked_as_it_is_decided(database: TestDatabase) {
    let door = Door::new(database).await;
    let team = door.project("team").await;
    let deployer = account(&door, &team, "deployer").await;
    let (keeper, owner) = (door.user("keeper").await, door.user("owner").await);
    let keeps = role(&door, "keeper", &[Action::Read, Action::Admin]).await;
    give(&door.app, &door.admin, team.id, NamedRole::Custom(keeps), subject(&keeper)).await.unwrap();
    give(&door.app, &door.admin, team.id, Role::Admin, subject(&owner)).await.unwrap();
    let question = || Question {
        verb: "federate".to_owned(),
        thing: format!("service-account/{deployer}").parse().unwrap(),
        within: None,
        user: None,
    };
    let may = async |user| {
        let ctx = door.as_user(user).await;
        let answer = door.app.access_check(&ctx, &question()).await.unwrap();
        let issuer = IssuerChoice::Address(ISSUER.parse().unwrap());
        let done = door.app.federated_credential_create(&ctx, deployer, issuer, terms("job"), None).await;
        match (answer.allowed, &done) {
            (true, Ok(_)) | (false, Err(Error::Forbidden { .. })) => {}
            other => panic!("what is answered is not what happens: {other:?}"),
        }
        answer
    };
    assert!(may(&owner).await.allowed);
    let refused = may(&keeper).await;
    assert_eq!((refused.allowed, refused.action), (false, Action::Assume), "{refused:?}");
    assert!(refused.needed.as_ref().is_some_and(|needed| needed.contains("assume")), "{refused:?}");
    let holders = async || {
        let holders = door.app.access_holders(&door.admin, &question()).await.unwrap();
        holders.iter().map(|holder| holder.bound.binding.subject).collect::<Vec<_>>()
    };
    assert_eq!(holders().await, [subject(&owner)]);
    give(&door.app, &door.admin, team.id, Role::Assume, subject(&keeper)).await.unwrap();
    assert!(may(&keeper).await.allowed);
    assert!(holders().await.contains(&subject(&keeper)));
}
