//! Service accounts: machines that a project owns, assumed by those who are bound.

use plural_app::OpCtx;
use plural_app::machine_account::MachineAccountSelector;
use plural_app::policy::RoleChange;
use plural_app::records::Search;
use plural_app::token::TokenRequest;
use plural_app::user::{NewPassword, UserSelector};
use plural_core::access::Actor;
use plural_core::cluster::Cluster;
use plural_core::machine_account::{MachineAccount, MachineAccountChange, NewMachineAccount};
use plural_core::policy::{BindingSubject, Role};
use plural_core::project::Project;
use plural_core::user::{User, UserChange};
use plural_core::{Error, PageArgs};
use plural_testkit::{TestDatabase, each_database};
use secrecy::ExposeSecret;

use crate::door::{Door, by_id, subject};

each_database!(
    an_account_is_assumed_by_those_who_are_bound,
    an_account_is_no_person,
    an_account_goes_with_its_project,
    what_is_done_as_an_account_names_who_assumed_it,
);

async fn account(door: &Door, project: &Project, assume: Vec<BindingSubject>) -> MachineAccount {
    let name = "deployer".parse().unwrap();
    let email = Some("deployer@example.com".parse().unwrap());
    let new = NewMachineAccount { name, email, project_id: Some(project.id), assume };
    door.app.machine_account_create(&door.admin, new).await.unwrap()
}

/// A context of whoever holds a new token of the account.
async fn assumed(door: &Door, by: &OpCtx, account: &MachineAccount) -> OpCtx {
    let token = door.app.machine_account_token(by, account.id, TokenRequest::default()).await.unwrap();
    let actor = door.app.actor_authenticate(token.text.expose_secret()).await.unwrap();
    door.app.ctx(actor)
}

async fn an_account_is_assumed_by_those_who_are_bound(database: TestDatabase) {
    let mut door = Door::new(database).await;
    let team = door.project("team").await;
    let (ada, owner, stranger) =
        (door.user("ada").await, door.user("owner").await, door.user("stranger").await);
    let change = RoleChange { role: Role::Admin.into(), add: vec![subject(&owner)], remove: Vec::new() };
    door.app.binding_change(&door.admin, team.id, &change).await.unwrap();
    let deployer = account(&door, &team, vec![subject(&ada)]).await;
    let (as_ada, as_owner) = (door.as_user(&ada).await, door.as_user(&owner).await);
    let as_stranger = door.as_user(&stranger).await;

    let refused = door.app.machine_account_token(&as_stranger, deployer.id, TokenRequest::default()).await;
    assert!(matches!(refused, Err(Error::NotFound { .. })), "{refused:?}");
    for who in [&as_ada, &as_owner, &door.admin] {
        let as_machine = assumed(&door, who, &deployer).await;
        assert_eq!(door.app.user_me(&as_machine).await.unwrap().id, deployer.user_id());
    }
    // Clusters know people by their addresses: who administers a project alone gives its accounts none of theirs.
    for (email, is_free) in [
        ("ada.smith@example.com", false),
        ("a@service-accounts.invalid.example.com", false),
        ("ci@team.service-accounts.invalid", true),
    ] {
        let new = NewMachineAccount {
            name: "ci".parse().unwrap(),
            email: Some(email.parse().unwrap()),
            project_id: Some(team.id),
            assume: Vec::new(),
        };
        let made = door.app.machine_account_create(&as_owner, new).await;
        assert_eq!(made.is_ok(), is_free, "{email}: {made:?}");
    }
    // To assume is not to administer.
    let change =
        MachineAccountChange { assume: Some(vec![subject(&stranger)]), ..MachineAccountChange::default() };
    let refused = door.app.machine_account_update(&as_ada, deployer.id, &change).await;
    assert!(matches!(refused, Err(Error::Forbidden { .. })), "{refused:?}");
    // Who is no longer named makes no more tokens; those that there are end when that is asked for.
    let as_machine = assumed(&door, &as_ada, &deployer).await;
    door.app.machine_account_update(&as_owner, deployer.id, &change).await.unwrap();
    let refused = door.app.machine_account_token(&as_ada, deployer.id, TokenRequest::default()).await;
    assert!(matches!(refused, Err(Error::NotFound { .. })), "{refused:?}");
    door.app.machine_account_token(&as_stranger, deployer.id, TokenRequest::default()).await.unwrap();
    assert_eq!(door.app.token_list(&as_machine, &PageArgs::default()).await.unwrap().edges.len(), 5);
    assert_eq!(door.app.machine_account_end_tokens(&as_owner, deployer.id).await.unwrap(), 5);
    assert!(door.app.token_list(&as_machine, &PageArgs::default()).await.unwrap().edges.is_empty());

    // It does what it is bound for, and nothing of what those who assume it may.
    let blue = door.cluster("blue").await.cluster;
    let as_machine = assumed(&door, &door.admin, &deployer).await;
    assert!(matches!(door.app.get::<Cluster>(&as_machine, &by_id(&blue)).await, Err(Error::NotFound { .. })));
    let machine = BindingSubject::User(deployer.user_id());
    let change = RoleChange { role: Role::Read.into(), add: vec![machine], remove: Vec::new() };
    door.app.binding_change(&door.admin, blue.id, &change).await.unwrap();
    assert!(door.app.get::<Cluster>(&as_machine, &by_id(&blue)).await.is_ok());
    door.stop().await;
}

async fn an_account_is_no_person(database: TestDatabase) {
    let mut door = Door::new(database).await;
    let team = door.project("team").await;
    let deployer = account(&door, &team, Vec::new()).await;
    let id = deployer.user_id();
    // Not even by an administrator, nor by itself.
    let itself = assumed(&door, &door.admin, &deployer).await;
    let admin = UserChange { admin: Some(true), ..UserChange::default() };
    let email = UserChange { email: Some("other@example.com".parse().unwrap()), ..UserChange::default() };
    for ctx in [&door.admin, &itself] {
        for (change, password) in [
            (&admin, None),
            (&email, None),
            (&UserChange::default(), Some(NewPassword::new("a long password".into()))),
        ] {
            let refused = door.app.user_update(ctx, id, change, password).await;
            assert!(matches!(refused, Err(Error::Conflict { .. })), "{refused:?}");
        }
    }
    let signed_in = door.app.session_create(&door.nobody(), "deployer@example.com", "".into()).await;
    assert!(matches!(signed_in, Err(Error::Unauthenticated)), "{signed_in:?}");
    // People and machines have lists of their own; either is bound by its address.
    let all = PageArgs::default();
    let users = door.app.list::<User>(&door.admin, &Search::default(), &all).await.unwrap().into_nodes();
    assert!(users.iter().all(|user| user.id != id));
    let machines = door.app.list::<MachineAccount>(&door.admin, &Search::default(), &all).await.unwrap();
    assert_eq!(machines.into_nodes(), std::slice::from_ref(&deployer));
    let by = UserSelector::Email(deployer.email.clone());
    assert_eq!(door.app.get::<User>(&itself, &by).await.unwrap().machine_of, Some(team.id));
    // Deleted as a user, it is gone as an account.
    door.app.user_delete(&door.admin, id).await.unwrap();
    door.policies_match_what_they_are_of().await;
    door.stop().await;
}

async fn an_account_goes_with_its_project(database: TestDatabase) {
    let mut door = Door::new(database).await;
    let team = door.project("team").await;
    let deployer = account(&door, &team, Vec::new()).await;
    let token =
        door.app.machine_account_token(&door.admin, deployer.id, TokenRequest::default()).await.unwrap();
    door.app.project_delete(&door.admin, team.id).await.unwrap();
    let gone = door.app.actor_authenticate(token.text.expose_secret()).await;
    assert!(matches!(gone, Err(Error::Unauthenticated)), "{gone:?}");
    let by = MachineAccountSelector::Id(deployer.id);
    let gone = door.app.get::<MachineAccount>(&door.admin, &by).await;
    assert!(matches!(gone, Err(Error::NotFound { .. })), "{gone:?}");
    door.policies_match_what_they_are_of().await;
    door.stop().await;
}

async fn what_is_done_as_an_account_names_who_assumed_it(database: TestDatabase) {
    let mut door = Door::new(database).await;
    let team = door.project("team").await;
    let deployer = account(&door, &team, Vec::new()).await;
    let ada = door.user("ada").await;
    let machine = BindingSubject::User(deployer.user_id());
    for (role, to) in [(Role::Write, machine), (Role::Admin, subject(&ada))] {
        let change = RoleChange { role: role.into(), add: vec![to], remove: Vec::new() };
        door.app.binding_change(&door.admin, team.id, &change).await.unwrap();
    }
    let itself = assumed(&door, &door.as_user(&ada).await, &deployer).await;
    let Actor::User(actor) = itself.actor() else { panic!("{itself:?}") };
    assert!(!actor.admin);
    // What it makes with such a token is as much theirs.
    let wish = TokenRequest { valid_for: Some(chrono::TimeDelta::minutes(10)), ..TokenRequest::default() };
    let child = door.app.token_create_as(&itself, None, wish).await.unwrap();
    let Actor::User(child) = door.app.actor_authenticate(child.text.expose_secret()).await.unwrap() else {
        panic!("a token of nobody")
    };
    assert_eq!(child.token.unwrap().assumed_by.as_deref(), Some("ada@example.com"));
    let change = plural_core::project::ProjectChange { description: Some("d".into()), ..Default::default() };
    door.app.project_update(&itself, team.id, &change).await.unwrap();
    let audit = door.app.audit_list(&door.admin, &PageArgs::default()).await.unwrap().into_nodes();
    let line = audit.iter().find(|row| row.entry.action == "project.update").unwrap();
    assert_eq!(line.entry.actor, "deployer@example.com (assumed by ada@example.com)");
    assert_eq!(line.entry.user_id, Some(deployer.user_id()));
    let line = audit.iter().find(|row| row.entry.action == "service_account.assume").unwrap();
    assert_eq!(
        (line.entry.actor.as_str(), line.entry.target.name.as_str()),
        ("ada@example.com", "deployer@example.com")
    );
    door.stop().await;
}
