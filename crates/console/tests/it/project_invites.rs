//! Invitations to projects, which their administrators make.

use plural_testkit::{FakeIssuer, TestDatabase, each_database};
use serde_json::{Value, json};

use crate::{
    api_server::{Person, TestServer},
    sso_browser::{Browser, Page, add_group, add_provider},
};

each_database!(
    who_is_invited_to_a_project_gets_its_role_and_nothing_else,
    whoever_has_an_account_accepts_by_signing_in_and_nobody_is_told,
    an_invitation_gives_no_more_than_its_maker_may_give_when_it_is_accepted,
    invitations_end_with_their_project_and_leave_those_of_others_alone,
    attack_an_account_of_an_invitation_is_none_that_a_provider_gives,
);

const PASSWORD: &str = "another long password";
const NEW: &str = "quite another password";
const INVITE: &str = "mutation ($a: InviteAttributes!) { createInvite(attributes: $a) { id token role customRole { id } project { id } } }";
const DELETE: &str = "mutation ($id: ID!) { deleteInvite(id: $id) { id } }";
const LIST: &str = "query ($p: ID) { invites(projectId: $p) { edges { node { id email token } } } }";
const GIVE: &str =
    "mutation ($u: ID!, $p: ID) { changeBindings(role: ADMIN, add: [{userId: $u}], projectId: $p) }";
const TAKE: &str =
    "mutation ($u: ID!, $p: ID) { changeBindings(role: ADMIN, remove: [{userId: $u}], projectId: $p) }";

fn to(project: &str, email: &str, role: &str) -> Value {
    json!({"a": {"email": email, "projectId": project, "role": role}})
}

fn code_of(invite: &Value) -> String {
    invite["token"].as_str().unwrap().to_owned()
}

async fn invited(by: &Person, project: &str, email: &str, role: &str) -> String {
    code_of(&by.data(INVITE, to(project, email, role)).await["createInvite"])
}

/// As somebody who is not signed in.
async fn accept(t: &TestServer, code: &str) -> Page {
    let fields = [("code", code), ("name", "Grace"), ("password", NEW), ("again", NEW)];
    Browser::new(t).submit("/auth/invite/accept", &fields).await
}

async fn signed_in(t: &TestServer, email: &str) -> Browser {
    let mut browser = Browser::new(t);
    let page = browser.submit("/auth/sign-in", &[("email", email), ("password", PASSWORD)]).await;
    assert_eq!(page.status, 303, "{page:?}");
    browser
}

async fn accept_signed_in(browser: &mut Browser, code: &str) -> Page {
    browser.submit("/auth/invite/accept", &[("code", code), ("signed-in", "yes")]).await
}

async fn may(person: &Person, action: &str, project: &str) -> bool {
    let asked = json!({"v": action, "t": format!("project/{project}")});
    let decision = "query ($v: String!, $t: String!) { accessDecision(verb: $v, thing: $t) { allowed } }";
    person.data(decision, asked).await["accessDecision"]["allowed"] == true
}

async fn add_project(t: &TestServer, name: &str) -> String {
    let create = "mutation ($a: ProjectAttributes!) { createProject(attributes: $a) { id } }";
    let made = t.admin.data(create, json!({"a": {"name": name}})).await;
    made["createProject"]["id"].as_str().unwrap().to_owned()
}

async fn who_is_invited_to_a_project_gets_its_role_and_nothing_else(database: TestDatabase) {
    let t = TestServer::on(&database).await;
    let made = t.owner.data(INVITE, to(&t.project, "grace@example.com", "WRITE")).await;
    let made = &made["createInvite"];
    assert!(made["role"] == "WRITE" && made["project"]["id"] == *t.project, "{made}");
    // Seen by those who may invite there, and revoked by them.
    for (person, seen) in [(&t.owner, 1), (&t.admin, 1), (&t.reader, 0), (&t.stranger, 0)] {
        let listed = person.data(LIST, json!({"p": t.project})).await["invites"]["edges"].clone();
        assert_eq!(listed.as_array().unwrap().len(), seen, "{listed}");
        assert!(seen == 0 || listed[0]["node"]["token"].is_null(), "{listed}");
    }
    assert_eq!(t.reader.ask(DELETE, json!({"id": made["id"]})).await.outcome(), "NOT_FOUND");
    for (person, told) in [(&t.reader, "FORBIDDEN"), (&t.stranger, "NOT_FOUND")] {
        let asked = person.ask(INVITE, to(&t.project, "x@example.com", "READ")).await;
        assert_eq!(asked.outcome(), told, "{asked:?}");
    }

    let code = code_of(made);
    assert_eq!(accept(&t, &code).await.status, 200);
    assert_eq!(accept(&t, &code).await.status, 404, "twice");
    let grace = t.nobody.sign_in("grace@example.com", NEW).await;
    let me = grace.data("{ me { roles { admin } groups { name } } }", json!({})).await["me"].clone();
    assert_eq!(me, json!({"roles": {"admin": false}, "groups": []}));
    assert!(may(&grace, "write", &t.project).await && !may(&grace, "admin", &t.project).await);
    let other = add_project(&t, "other").await;
    assert!(!may(&grace, "read", &other).await);
    let revoked =
        t.owner.data(INVITE, to(&t.project, "ada@example.com", "READ")).await["createInvite"].clone();
    t.owner.data(DELETE, json!({"id": revoked["id"]})).await;
    assert_eq!(accept(&t, &code_of(&revoked)).await.status, 404);
    let lines = t.admin.data("{ audits(first: 50) { edges { node { action } } } }", json!({})).await;
    let lines = lines["audits"].to_string();
    for action in ["invite.create", "invite.accept", "user.create", "binding.change", "invite.delete"] {
        assert!(lines.contains(action), "{action}: {lines}");
    }
    t.stop().await;
}

async fn whoever_has_an_account_accepts_by_signing_in_and_nobody_is_told(database: TestDatabase) {
    let t = TestServer::on(&database).await;
    let (known, unknown) = ("stranger@example.com", "strangers@example.com");
    let code = invited(&t.owner, &t.project, known, "READ").await;
    let other = invited(&t.owner, &t.project, unknown, "READ").await;
    // What somebody with the code is shown is the same for both.
    let mut shown = Vec::new();
    for (code, email) in [(&code, known), (&other, unknown)] {
        let page = Browser::new(&t).submit("/auth/invite", &[("code", code)]).await;
        assert!(page.status == 200 && page.text.contains(email), "{page:?}");
        shown.push(page.text.replace(code.as_str(), "CODE").replace(email, "EMAIL"));
    }
    assert_eq!(shown[0], shown[1]);
    // And an attempt to make the account says what it says of a code that is none.
    let none = format!("invite-{:064x}", 7);
    let (taken, none) = (accept(&t, &code).await, accept(&t, &none).await);
    assert_eq!((taken.status, &taken.text), (404, &none.text));
    let old = Browser::new(&t).submit("/auth/sign-in", &[("email", known), ("password", NEW)]).await;
    assert_ne!(old.status, 303, "the password stays");

    // Nobody else's account takes it.
    let mut reader = signed_in(&t, "reader@example.com").await;
    let page = reader.submit("/auth/invite", &[("code", &code)]).await;
    assert!(!page.text.contains("signed-in"), "{page:?}");
    assert_eq!(accept_signed_in(&mut reader, &code).await.status, 404);
    assert_eq!(accept_signed_in(&mut Browser::new(&t), &code).await.status, 422, "nobody");
    assert!(!may(&t.stranger, "read", &t.project).await);

    let mut stranger = signed_in(&t, known).await;
    let page = stranger.submit("/auth/invite", &[("code", &code)]).await;
    assert!(page.text.contains("You are signed in as"), "{page:?}");
    let fields = [("code", code.as_str()), ("signed-in", "yes")];
    let forged =
        stranger.submit_from(&[("origin", "https://evil.test")], "/auth/invite/accept", &fields).await;
    assert_eq!(forged.status, 403, "{forged:?}");
    let page = accept_signed_in(&mut stranger, &code).await;
    assert!(page.status == 200 && page.text.contains("your role"), "{page:?}");
    assert!(may(&t.stranger, "read", &t.project).await && !may(&t.stranger, "write", &t.project).await);
    assert_eq!(accept_signed_in(&mut stranger, &code).await.status, 404, "twice");
    let users = t.admin.data("{ users(first: 50) { edges { node { email } } } }", json!({})).await;
    assert_eq!(users.to_string().matches(known).count(), 1, "{users}");

    // A suspended account stays one, and whoever invites is not told.
    let code = invited(&t.owner, &t.project, "reader@example.com", "WRITE").await;
    t.admin.data("mutation ($id: ID!) { suspendUser(id: $id) { id } }", json!({"id": t.reader.id})).await;
    let again = invited(&t.owner, &t.project, "reader@example.com", "WRITE").await;
    for code in [&code, &again] {
        assert_eq!(accept(&t, code).await.status, 404);
        let page = accept_signed_in(&mut reader, code).await;
        assert!([403, 404, 422].contains(&page.status), "{page:?}");
    }
    t.admin.data("mutation ($id: ID!) { resumeUser(id: $id) { id } }", json!({"id": t.reader.id})).await;
    let back = t.nobody.sign_in("reader@example.com", PASSWORD).await;
    assert!(!may(&back, "write", &t.project).await);
    t.stop().await;
}

async fn an_invitation_gives_no_more_than_its_maker_may_give_when_it_is_accepted(database: TestDatabase) {
    let t = TestServer::on(&database).await;
    let role = async |name: &str, actions: Value| {
        let create = "mutation ($a: RoleAttributes!) { createRole(attributes: $a) { id } }";
        let made = t.admin.data(create, json!({"a": {"name": name, "actions": actions}})).await;
        made["createRole"]["id"].clone()
    };
    let viewer = role("viewer", json!(["read"])).await;
    let keeper = role("keeper", json!(["read", "recordings"])).await;
    let with =
        |role: &Value, email: &str| json!({"a": {"email": email, "projectId": t.project, "roleId": role}});
    // What the administrator of a project does not have themselves.
    let refused = t.owner.ask(INVITE, with(&keeper, "a@example.com")).await;
    assert!(refused.outcome() == "FORBIDDEN" && refused.message().contains("recordings"), "{refused:?}");
    // Groups, another project, the whole installation, no role, two of them.
    let other = add_project(&t, "other").await;
    let group = t
        .admin
        .data("mutation { createGroup(attributes: {name: \"everyone\", global: true}) { id } }", json!({}))
        .await["createGroup"]["id"]
        .clone();
    let both = json!({"email": "b@example.com", "projectId": t.project, "role": "READ", "roleId": viewer});
    for (asked, told) in [
        (
            json!({"email": "b@example.com", "projectId": t.project, "role": "READ", "groupIds": [group]}),
            "INVALID",
        ),
        (json!({"email": "b@example.com", "projectId": other, "role": "READ"}), "NOT_FOUND"),
        (json!({"email": "b@example.com", "role": "READ"}), "INVALID"),
        (json!({"email": "b@example.com"}), "FORBIDDEN"),
        (json!({"email": "b@example.com", "projectId": t.project}), "INVALID"),
        (both, "INVALID"),
    ] {
        let answer = t.owner.ask(INVITE, json!({"a": asked})).await;
        assert_eq!(answer.outcome(), told, "{answer:?}");
    }
    let listed = t.admin.data(LIST, json!({})).await["invites"]["edges"].clone();
    assert_eq!(listed, json!([]), "nothing was made");

    // A role that grows after the invitation.
    let made = t.owner.data(INVITE, with(&viewer, "grace@example.com")).await["createInvite"].clone();
    assert_eq!(made["customRole"]["id"], viewer);
    let update = "mutation ($id: ID!, $a: RoleAttributes!) { updateRole(id: $id, attributes: $a) { id } }";
    t.admin.data(update, json!({"id": viewer, "a": {"actions": ["read", "recordings"]}})).await;
    let page = accept(&t, &code_of(&made)).await;
    assert_eq!(page.status, 403, "{page:?}");
    t.admin.data(update, json!({"id": viewer, "a": {"actions": ["read"]}})).await;
    assert_eq!(accept(&t, &code_of(&made)).await.status, 200, "and shrinks again");
    let grace = t.nobody.sign_in("grace@example.com", NEW).await;
    assert!(may(&grace, "read", &t.project).await && !may(&grace, "exec", &t.project).await);

    // Whoever invited loses the right, and has it again.
    let code = invited(&t.owner, &t.project, "late@example.com", "ADMIN").await;
    let owner = json!({"u": t.owner.id, "p": t.project});
    t.admin.data(TAKE, owner.clone()).await;
    let page = accept(&t, &code).await;
    assert!(page.status == 403 && page.text.contains("administrator"), "{page:?}");
    t.admin.data(GIVE, owner).await;
    t.admin.data("mutation ($id: ID!) { suspendUser(id: $id) { id } }", json!({"id": t.owner.id})).await;
    assert_eq!(accept(&t, &code).await.status, 403, "a suspended one");
    t.admin.data("mutation ($id: ID!) { resumeUser(id: $id) { id } }", json!({"id": t.owner.id})).await;
    assert_eq!(accept(&t, &code).await.status, 200);
    let late = t.nobody.sign_in("late@example.com", NEW).await;
    assert!(may(&late, "admin", &t.project).await);
    // A role that is gone takes its invitations with it.
    let gone = role("gone", json!(["read"])).await;
    let made = t.admin.data(INVITE, with(&gone, "last@example.com")).await["createInvite"].clone();
    t.admin.data("mutation ($id: ID!) { deleteRole(id: $id) { id } }", json!({"id": gone})).await;
    assert_eq!(accept(&t, &code_of(&made)).await.status, 404);
    t.stop().await;
}

async fn invitations_end_with_their_project_and_leave_those_of_others_alone(database: TestDatabase) {
    let t = TestServer::on(&database).await;
    let (blue, red) = (add_project(&t, "blue").await, add_project(&t, "red").await);
    for project in [&blue, &red] {
        t.admin.data(GIVE, json!({"u": t.owner.id, "p": project})).await;
    }
    let email = "grace@example.com";
    // Three for one address: none takes the place of another.
    let account = t.admin.data(INVITE, json!({"a": {"email": email}})).await["createInvite"].clone();
    let to_blue = invited(&t.owner, &blue, email, "READ").await;
    let to_red = invited(&t.owner, &red, email, "READ").await;
    assert_eq!(t.owner.ask(DELETE, json!({"id": account["id"]})).await.outcome(), "FORBIDDEN");
    // Nor does one take the place of a lost password's.
    let reset = "mutation ($u: ID!) { createPasswordReset(userId: $u) { token } }";
    let reset = t.admin.data(reset, json!({"u": t.reader.id})).await["createPasswordReset"].clone();
    invited(&t.owner, &blue, "reader@example.com", "READ").await;
    let page = Browser::new(&t).submit("/auth/invite", &[("code", &code_of(&reset))]).await;
    assert!(page.text.contains("Choose another password"), "{page:?}");

    t.admin.data("mutation ($id: ID!) { deleteProject(id: $id) { id } }", json!({"id": blue})).await;
    assert_eq!(accept(&t, &to_blue).await.status, 404);
    // Another one to the same project is the one that counts.
    let again = invited(&t.owner, &red, email, "WRITE").await;
    assert_eq!(accept(&t, &to_red).await.status, 404);
    assert_eq!(accept(&t, &again).await.status, 200);
    let grace = t.nobody.sign_in(email, NEW).await;
    assert!(may(&grace, "write", &red).await);
    // The account is there by now: what would have made it does not.
    assert_eq!(accept(&t, &code_of(&account)).await.status, 409);
    t.stop().await;
}

/// Who invites has the code, too: they make the account of somebody else, and wait until that one signs in.
async fn attack_an_account_of_an_invitation_is_none_that_a_provider_gives(database: TestDatabase) {
    let (t, issuer) = (TestServer::on(&database).await, FakeIssuer::start().unwrap());
    let code = invited(&t.owner, &t.project, "ada@example.com", "READ").await;
    assert_eq!(accept(&t, &code).await.status, 200);
    let groups = json!([{"claim": "ops", "groupId": add_group(&t, "ops").await}]);
    add_provider(&t, &issuer, "acme", json!({"groupsClaim": "roles", "groups": groups})).await;
    issuer.say(&json!({"email": "ada@example.com", "roles": ["ops"]}));
    let mut browser = Browser::new(&t);
    let refused = browser.sign_in("acme").await;
    assert!(refused.status == 403 && refused.text.contains("invitation to a project"), "{refused:?}");
    assert_eq!(browser.session(), None);
    let attacker = t.nobody.sign_in("ada@example.com", NEW).await;
    let me = attacker.data("{ me { groups { name } } }", json!({})).await["me"].clone();
    assert_eq!(me, json!({"groups": []}));

    let ada = t.admin.data("{ user(email: \"ada@example.com\") { id } }", json!({})).await["user"].clone();
    t.admin.data("mutation ($id: ID!) { deleteUser(id: $id) { id } }", json!({"id": ada["id"]})).await;
    browser.sign_in("acme").await;
    let me = browser.gql("{ me { groups { name } } }").await["data"]["me"].clone();
    assert_eq!(me, json!({"groups": [{"name": "ops"}]}));
    // An account that an invitation only gave a role to is its owner's as before.
    let code = invited(&t.owner, &t.project, "ada@example.com", "READ").await;
    assert_eq!(accept_signed_in(&mut browser, &code).await.status, 200);
    assert_eq!(Browser::new(&t).sign_in("acme").await.status, 303);
    t.stop().await;
}
