//! Roles that administrators make, and what is told about who may do what.

use plural_app::cluster::ClusterFilter;
use plural_app::policy::RoleChange;
use plural_app::project::ProjectSelector;
use plural_app::question::{AccessAnswer, Question};
use plural_app::role::RoleSelector;
use plural_app::service::ServiceFilter;
use plural_app::{App, OpCtx};
use plural_core::access::Action;
use plural_core::cluster::Cluster;
use plural_core::group::NewGroup;
use plural_core::ids::RoleId;
use plural_core::policy::{BindingSubject, BindingsChange, NamedRole, Policy, Rights, Role};
use plural_core::project::Project;
use plural_core::role::{CustomRole, NewRole, RoleAlteration};
use plural_core::service::{PinUntil, Service};
use plural_core::{Error, PageArgs, Result};
use plural_testkit::{TestDatabase, each_database};
use secrecy::ExposeSecret;

use crate::door::{Door, by_id, service_id, subject};

each_database!(
    a_custom_role_allows_its_actions_and_nothing_else,
    nobody_gives_more_than_they_have,
    a_role_in_use_stays_and_says_where,
    an_explanation_names_what_decided_and_who_could_help,
    what_may_not_be_read_is_not_told,
    administrators_ask_for_others,
    a_custom_role_withholds_shells_and_groups,
    a_project_that_goes_takes_its_roles_along,
);

pub(crate) async fn role(door: &Door, name: &str, actions: &[Action]) -> RoleId {
    let new = NewRole { name: name.parse().unwrap(), description: None, rights: Rights::of(actions) };
    door.app.role_create(&door.admin, &new).await.unwrap().id
}

pub(crate) async fn give(
    app: &App,
    by: &OpCtx,
    on: impl Into<Policy>,
    role: impl Into<NamedRole>,
    to: BindingSubject,
) -> Result<()> {
    let change = RoleChange { role: role.into(), add: vec![to], remove: Vec::new() };
    app.binding_change(by, on, &change).await.map(drop)
}

async fn take(
    app: &App,
    by: &OpCtx,
    on: impl Into<Policy>,
    role: impl Into<NamedRole>,
    from: BindingSubject,
) {
    let change = RoleChange { role: role.into(), add: Vec::new(), remove: vec![from] };
    app.binding_change(by, on, &change).await.unwrap();
}

fn question(verb: &str, thing: &str) -> Question {
    Question { verb: verb.into(), thing: thing.parse().unwrap(), within: None, user: None }
}

async fn asked(door: &Door, ctx: &OpCtx, verb: &str, thing: &str) -> AccessAnswer {
    door.app.access_check(ctx, &question(verb, thing)).await.unwrap()
}

async fn a_custom_role_allows_its_actions_and_nothing_else(database: TestDatabase) {
    let mut door = Door::new(database).await;
    let blue = door.cluster("blue").await.cluster;
    let repository = door.repository("https://example.com/a").await;
    let web = door.service(&blue, &repository, "web").await;
    let ada = door.user("ada").await;
    let operator = role(&door, "operator", &[Action::Read, Action::Rollback]).await;
    let blind = role(&door, "blind", &[Action::Rollback, Action::Write]).await;
    let as_ada = door.as_user(&ada).await;
    let all = PageArgs::default();
    let lists = async || {
        let clusters = door.app.list::<Cluster>(&as_ada, &ClusterFilter::default(), &all).await.unwrap();
        let services = door.app.list::<Service>(&as_ada, &ServiceFilter::default(), &all).await.unwrap();
        (clusters.edges.len(), services.edges.len())
    };

    // Without the right to read nothing is visible, in lists as by name.
    give(&door.app, &door.admin, blue.id, NamedRole::Custom(blind), subject(&ada)).await.unwrap();
    assert_eq!(lists().await, (0, 0));
    assert!(matches!(door.app.get::<Service>(&as_ada, &service_id(&web)).await, Err(Error::NotFound { .. })));

    give(&door.app, &door.admin, blue.id, NamedRole::Custom(operator), subject(&ada)).await.unwrap();
    take(&door.app, &door.admin, blue.id, NamedRole::Custom(blind), subject(&ada)).await;
    assert_eq!(lists().await, (1, 1));
    let until = PinUntil::Release;
    door.app.service_rollback(&as_ada, &service_id(&web), web.revision_id, until).await.unwrap();
    for refused in [
        door.app.service_release(&as_ada, &service_id(&web)).await,
        door.app.service_prune_approve(&as_ada, &service_id(&web), "none").await,
        door.app.service_delete(&as_ada, &service_id(&web)).await,
    ] {
        assert!(matches!(refused, Err(Error::Forbidden { .. })), "{refused:?}");
    }
    // What it allows changes wherever it is bound.
    let change = RoleAlteration { rights: Some(Rights::of(&[Action::Read])), ..RoleAlteration::default() };
    door.app.role_update(&door.admin, operator, &change).await.unwrap();
    let refused = door.app.service_rollback(&as_ada, &service_id(&web), web.revision_id, until).await;
    assert!(matches!(refused, Err(Error::Forbidden { .. })), "{refused:?}");
    assert_eq!(lists().await, (1, 1));
    // Twice is once, and what is taken is gone.
    give(&door.app, &door.admin, blue.id, NamedRole::Custom(operator), subject(&ada)).await.unwrap();
    assert_eq!(door.app.binding_list(&door.admin, blue.id).await.unwrap().len(), 1);
    // A replacement of the built-in roles leaves the others.
    let change = BindingsChange { read: Some(Vec::new()), ..BindingsChange::default() };
    door.app.binding_replace(&door.admin, blue.id, change).await.unwrap();
    assert_eq!(lists().await, (1, 1));
    take(&door.app, &door.admin, blue.id, NamedRole::Custom(operator), subject(&ada)).await;
    assert_eq!(lists().await, (0, 0));
    door.stop().await;
}

async fn nobody_gives_more_than_they_have(database: TestDatabase) {
    let mut door = Door::new(database).await;
    let blue = door.cluster("blue").await.cluster;
    let (ada, bob, owner) = (door.user("ada").await, door.user("bob").await, door.user("owner").await);
    let keeper = role(&door, "keeper", &[Action::Read, Action::Admin]).await;
    let auditor = role(&door, "auditor", &[Action::Read, Action::ReadRecordings]).await;
    give(&door.app, &door.admin, blue.project_id, NamedRole::Custom(keeper), subject(&ada)).await.unwrap();
    give(&door.app, &door.admin, blue.project_id, Role::Admin, subject(&owner)).await.unwrap();
    let (as_ada, as_owner) = (door.as_user(&ada).await, door.as_user(&owner).await);

    // Who may only read and administer gives neither writing nor shells: not to others, not to themselves.
    for to in [subject(&bob), subject(&ada)] {
        for given in [
            NamedRole::BuiltIn(Role::Write),
            Role::Read.into(),
            Role::Admin.into(),
            NamedRole::Custom(auditor),
        ] {
            let refused = give(&door.app, &as_ada, blue.id, given, to).await;
            assert!(matches!(refused, Err(Error::Forbidden { .. })), "{given:?} {refused:?}");
        }
    }
    let write = BindingsChange { write: Some(vec![subject(&ada)]), ..BindingsChange::default() };
    let refused = door.app.binding_replace(&as_ada, blue.id, write.clone()).await;
    assert!(matches!(refused, Err(Error::Forbidden { .. })), "{refused:?}");
    let change = plural_core::cluster::ClusterChange { bindings: write, ..Default::default() };
    let refused = door.app.cluster_update(&as_ada, &by_id(&blue), &change).await;
    assert!(matches!(refused, Err(Error::Forbidden { .. })), "{refused:?}");
    // What they have, they give; and they take what they could not give.
    give(&door.app, &as_ada, blue.id, NamedRole::Custom(keeper), subject(&bob)).await.unwrap();
    take(&door.app, &as_ada, blue.project_id, Role::Admin, subject(&bob)).await;
    // Administrators of the project give all built-in roles as before, and nothing that lets read recordings.
    for given in [Role::Read, Role::Write, Role::Admin] {
        give(&door.app, &as_owner, blue.id, given, subject(&bob)).await.unwrap();
    }
    let refused = give(&door.app, &as_owner, blue.id, NamedRole::Custom(auditor), subject(&owner)).await;
    let told = refused.unwrap_err().to_string();
    assert!(told.contains("you lack recordings"), "{told}");
    give(&door.app, &door.admin, blue.id, NamedRole::Custom(auditor), subject(&owner)).await.unwrap();
    // Roles are made by administrators of the installation only.
    let new =
        NewRole { name: "own".parse().unwrap(), description: None, rights: Rights::of(&[Action::Admin]) };
    assert!(matches!(door.app.role_create(&as_owner, &new).await, Err(Error::Forbidden { .. })));
    let gone = give(&door.app, &door.admin, blue.id, NamedRole::Custom(RoleId::new()), subject(&bob)).await;
    assert!(matches!(gone, Err(Error::NotFound { .. })), "{gone:?}");
    door.stop().await;
}

async fn a_role_in_use_stays_and_says_where(database: TestDatabase) {
    let mut door = Door::new(database).await;
    let blue = door.cluster("blue").await.cluster;
    let ada = door.user("ada").await;
    let id = role(&door, "operator", &[Action::Read]).await;
    let twin =
        NewRole { name: "operator".parse().unwrap(), description: None, rights: Rights::of(&[Action::Read]) };
    assert!(matches!(door.app.role_create(&door.admin, &twin).await, Err(Error::Conflict { .. })));
    let named = NewRole { name: "Write".parse().unwrap(), ..twin };
    assert!(matches!(door.app.role_create(&door.admin, &named).await, Err(Error::Invalid { .. })));

    give(&door.app, &door.admin, blue.id, NamedRole::Custom(id), subject(&ada)).await.unwrap();
    let refused = door.app.role_delete(&door.admin, id).await.unwrap_err();
    assert!(matches!(refused, Error::Conflict { .. }), "{refused:?}");
    assert!(refused.to_string().contains("on cluster blue for ada@example.com"), "{refused}");
    // A user who goes takes their bindings along.
    door.app.user_delete(&door.admin, ada.id).await.unwrap();
    assert_eq!(door.app.role_delete(&door.admin, id).await.unwrap().id, id);
    let gone = door.app.get::<CustomRole>(&door.admin, &RoleSelector::Name("operator".into())).await;
    assert!(matches!(gone, Err(Error::NotFound { .. })), "{gone:?}");
    door.stop().await;
}

async fn an_explanation_names_what_decided_and_who_could_help(database: TestDatabase) {
    let mut door = Door::new(database).await;
    let blue = door.cluster("blue").await.cluster;
    let repository = door.repository("https://example.com/a").await;
    door.service(&blue, &repository, "web").await;
    let project = door.default_project().await;
    let (ada, owner) = (door.user("ada").await, door.user("owner").await);
    let new = NewGroup { name: "devs".parse().unwrap(), description: None, global: false };
    let devs = door.app.group_create(&door.admin, &new).await.unwrap();
    door.app.group_member_create(&door.admin, devs.id, ada.id).await.unwrap();
    give(&door.app, &door.admin, project.id, Role::Read, BindingSubject::Group(devs.id)).await.unwrap();
    give(&door.app, &door.admin, blue.id, Role::Admin, subject(&owner)).await.unwrap();
    let fixer = role(&door, "fixer", &[Action::Rollback]).await;
    let as_ada = door.as_user(&ada).await;

    let yes = asked(&door, &as_ada, "get", "service/blue/web").await;
    let holder = yes.holder.unwrap();
    assert!(yes.allowed && yes.needed.is_none() && yes.givers.is_empty());
    assert_eq!((holder.role.as_str(), holder.on.unwrap().name.as_str()), ("read", "default"));
    assert_eq!(holder.bound.binding.subject, BindingSubject::Group(devs.id));

    let no = asked(&door, &as_ada, "rollback", "service/blue/web").await;
    assert!(!no.allowed && no.holder.is_none());
    let needed = no.needed.unwrap();
    assert!(needed.contains("write, admin, fixer"), "{needed}");
    let givers: Vec<_> = no.givers.iter().map(|giver| giver.bound.binding.subject).collect();
    assert_eq!(givers, [subject(&owner)]);
    assert_eq!(no.givers[0].on.as_ref().unwrap().name, "blue");

    give(&door.app, &door.admin, blue.id, NamedRole::Custom(fixer), subject(&ada)).await.unwrap();
    let yes = asked(&door, &as_ada, "rollback", "service/blue/web").await;
    assert!(yes.allowed && yes.holder.unwrap().role == "fixer");
    // Who may: those whose bindings say so, for those who administer it.
    let as_owner = door.as_user(&owner).await;
    let holders = async |ctx: &OpCtx, verb: &str, thing: &str| {
        let holders = door.app.access_holders(ctx, &question(verb, thing)).await?;
        Ok::<_, Error>(
            holders.into_iter().map(|holder| (holder.bound.binding.subject, holder.role)).collect::<Vec<_>>(),
        )
    };
    let expected = [(subject(&owner), "admin".to_owned()), (subject(&ada), "fixer".to_owned())];
    assert_eq!(holders(&as_owner, "rollback", "service/blue/web").await.unwrap(), expected);
    let readers = holders(&as_owner, "get", "cluster/blue").await.unwrap();
    assert!(readers.contains(&(BindingSubject::Group(devs.id), "read".to_owned())), "{readers:?}");
    let refused = holders(&as_ada, "get", "cluster/blue").await;
    assert!(matches!(refused, Err(Error::Forbidden { .. })), "{refused:?}");
    assert_eq!(holders(&door.admin, "create", "users").await.unwrap(), []);
    // The upgrade of the agent belongs to administrators of the installation.
    let web = door
        .app
        .get::<Service>(
            &door.admin,
            &"web"
                .parse()
                .map(|name| plural_app::service::ServiceSelector::Handle("blue".parse().unwrap(), name))
                .unwrap(),
        )
        .await
        .unwrap();
    door.app.service_agent_upgrade(&door.admin, &service_id(&web), true).await.unwrap();
    let no = asked(&door, &as_owner, "write", "service/blue/web").await;
    assert!(!no.allowed && no.givers.is_empty() && no.reason.contains("upgrade"), "{no:?}");
    assert_eq!(holders(&door.admin, "write", "service/blue/web").await.unwrap(), []);
    door.stop().await;
}

/// Whoever may not read a thing hears the same of it as of nothing.
async fn what_may_not_be_read_is_not_told(database: TestDatabase) {
    let mut door = Door::new(database).await;
    let blue = door.cluster("blue").await.cluster;
    let repository = door.repository("https://example.com/a").await;
    let web = door.service(&blue, &repository, "web").await;
    let (ada, owner) = (door.user("ada").await, door.user("owner").await);
    let project = door.default_project().await;
    give(&door.app, &door.admin, project.id, Role::Admin, subject(&owner)).await.unwrap();
    let as_ada = door.as_user(&ada).await;
    for (there, not) in [
        ("cluster/blue", "cluster/red"),
        ("service/blue/web", "service/blue/mail"),
        ("project/default", "project/shop"),
        ("repository/https://example.com/a", "repository/https://example.com/b"),
    ] {
        for verb in ["get", "delete", "admin", "exec"] {
            let [there, not] =
                [asked(&door, &as_ada, verb, there).await, asked(&door, &as_ada, verb, not).await];
            assert_eq!(there, not);
            assert!(!there.allowed && there.givers.is_empty() && there.needed.is_none());
        }
        let refused = door.app.access_holders(&as_ada, &question("get", there)).await;
        assert!(matches!(refused, Err(Error::NotFound { .. })), "{refused:?}");
    }
    // Who may read a service hears nothing of who administers the project, which they may not read.
    give(&door.app, &door.admin, web.id, Role::Read, subject(&ada)).await.unwrap();
    let no = asked(&door, &as_ada, "write", "service/blue/web").await;
    assert!(no.needed.is_some() && no.givers.is_empty(), "{no:?}");
    // A role that gives something and not to read: that it does is told, and on what is not.
    let fixer = role(&door, "fixer", &[Action::Rollback]).await;
    give(&door.app, &door.admin, project.id, NamedRole::Custom(fixer), subject(&ada)).await.unwrap();
    let yes = asked(&door, &as_ada, "rollback", "service/blue/web").await;
    assert!(yes.allowed && yes.holder.unwrap().on.is_none());
    door.stop().await;
}

async fn administrators_ask_for_others(database: TestDatabase) {
    let mut door = Door::new(database).await;
    door.cluster("blue").await;
    let (ada, bob) = (door.user("ada").await, door.user("bob").await);
    let new = NewGroup { name: "all".parse().unwrap(), description: None, global: true };
    let all = door.app.group_create(&door.admin, &new).await.unwrap();
    let project = door.app.get::<Project>(&door.admin, &ProjectSelector::Default).await.unwrap();
    let about = |thing: &str| Question { user: Some(ada.email.clone()), ..question("get", thing) };
    let no = door.app.access_check(&door.admin, &about("cluster/blue")).await.unwrap();
    assert!(!no.allowed && no.needed.is_some(), "{no:?}");
    // Everybody is in a global group.
    give(&door.app, &door.admin, project.id, Role::Read, BindingSubject::Group(all.id)).await.unwrap();
    assert!(door.app.access_check(&door.admin, &about("cluster/blue")).await.unwrap().allowed);
    let gone = door.app.access_check(&door.admin, &about("cluster/red")).await;
    assert!(matches!(gone, Err(Error::NotFound { .. })), "{gone:?}");
    let refused = door.app.access_check(&door.as_user(&bob).await, &about("cluster/blue")).await;
    assert!(matches!(refused, Err(Error::Forbidden { .. })), "{refused:?}");
    let refused = door.app.access_check(&door.admin, &question("fly", "cluster/blue")).await;
    assert!(matches!(refused, Err(Error::Invalid { .. })), "{refused:?}");
    door.stop().await;
}

/// Both are part of reading a cluster, unless a role of the installation's own says otherwise.
async fn a_custom_role_withholds_shells_and_groups(database: TestDatabase) {
    let mut door = Door::new(database).await;
    let blue = door.cluster("blue").await.cluster;
    let ada = door.user("ada").await;
    let new = NewGroup { name: "ops".parse().unwrap(), description: None, global: false };
    let ops = door.app.group_create(&door.admin, &new).await.unwrap();
    door.app.group_member_create(&door.admin, ops.id, ada.id).await.unwrap();
    let token = door.app.token_create(&door.admin, Some(ada.id), None).await.unwrap().text;
    let grant = async || door.app.proxy_grant(token.expose_secret(), &by_id(&blue)).await;
    assert!(matches!(grant().await, Err(Error::NotFound { .. })));

    let viewer = role(&door, "viewer", &[Action::Read]).await;
    give(&door.app, &door.admin, blue.id, NamedRole::Custom(viewer), subject(&ada)).await.unwrap();
    let narrow = grant().await.unwrap();
    assert!(!narrow.shells && narrow.groups.is_empty(), "{narrow:?}");
    // Roles add up.
    let exec = role(&door, "exec", &[Action::Exec]).await;
    give(&door.app, &door.admin, blue.project_id, NamedRole::Custom(exec), subject(&ada)).await.unwrap();
    let wider = grant().await.unwrap();
    assert!(wider.shells && wider.groups.is_empty(), "{wider:?}");
    give(&door.app, &door.admin, blue.id, Role::Read, subject(&ada)).await.unwrap();
    let built_in = grant().await.unwrap();
    assert!(built_in.shells && built_in.groups == ["ops"], "{built_in:?}");
    assert!(narrow.revoked().is_cancelled() && wider.revoked().is_cancelled());
    door.stop().await;
}

async fn a_project_that_goes_takes_its_roles_along(database: TestDatabase) {
    let mut door = Door::new(database).await;
    let team = door.project("team").await;
    let ada = door.user("ada").await;
    let id = role(&door, "viewer", &[Action::Read]).await;
    give(&door.app, &door.admin, team.id, NamedRole::Custom(id), subject(&ada)).await.unwrap();
    door.app.project_delete(&door.admin, team.id).await.unwrap();
    door.app.role_delete(&door.admin, id).await.unwrap();
    door.stop().await;
}
