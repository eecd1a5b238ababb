//! Gates at which canaries of Flagger ask.

use plural_core::Error;
use plural_core::canary_gate::{GateHook, GateQuestion};
use plural_core::component::{Component, ComponentKey, ComponentState};
use plural_core::ids::ServiceId;
use plural_core::promotion::Promotion;
use plural_core::service::Service;
use plural_core::sync::ObjectRef;
use plural_testkit::{TestDatabase, each_database};

use crate::agent::{component, deployed, report, reported};
use crate::door::{Door, service_id};

each_database!(
    a_gate_is_opened_for_the_release_that_stands_before_it,
    only_whoever_knows_the_address_may_ask,
);

fn canary(name: &str) -> Component {
    let key = ComponentKey {
        group: "flagger.app".to_owned(),
        version: "v1beta1".to_owned(),
        kind: "Canary".to_owned(),
        namespace: "apps".to_owned(),
        name: name.to_owned(),
    };
    Component { key, ..component("any", ComponentState::Paused) }
}

fn question(name: &str, hook: GateHook, checksum: &str) -> GateQuestion {
    GateQuestion { namespace: "apps".to_owned(), name: name.to_owned(), hook, checksum: checksum.to_owned() }
}

/// A service with two canaries, and the token of its gates.
async fn with_canaries(door: &Door) -> (Service, String) {
    let (agent, service, told, _) = deployed(door, "blue").await;
    let said = reported(&told, |service| service.components = Some(vec![canary("web"), canary("api")]));
    door.app.agent_report(&agent, report(1, vec![said])).await.unwrap();
    let path = door.app.canary_gate_path(&door.admin, &service_id(&service)).await.unwrap();
    let prefix = format!("/ext/v1/gates/{}/", service.id);
    (service, path.strip_prefix(&prefix).unwrap().to_owned())
}

async fn a_gate_is_opened_for_the_release_that_stands_before_it(database: TestDatabase) {
    let mut door = Door::new(database).await;
    door.start();
    let (service, token) = with_canaries(&door).await;
    let asks = async |name: &str, hook, checksum: &str| {
        door.app.canary_gate_ask(service.id, &token, &question(name, hook, checksum)).await.unwrap()
    };
    let say = async |promotion, objects| {
        door.app.service_promote(&door.admin, &service_id(&service), promotion, objects).await.unwrap();
        let syncs = door.app.services_syncs(&door.admin, &[service.id]).await.unwrap();
        syncs[&service.id].ask.promotion.clone().unwrap().gates
    };
    let promotion = GateHook::ConfirmPromotion;
    assert_eq!(say(Promotion::Proceed, Vec::new()).await, 0, "nobody stands there yet");
    assert!(!asks("web", promotion, "one").await, "what was said before concerns nobody");
    assert!(!asks("web", promotion, "one").await);
    assert!(!asks("web", GateHook::Rollback, "one").await);
    assert!(!asks("api", promotion, "one").await);

    // One of them, by name.
    let web: ObjectRef = "Canary.flagger.app/apps/web".parse().unwrap();
    assert_eq!(say(Promotion::Proceed, vec![web]).await, 1);
    assert!(asks("web", promotion, "one").await);
    assert!(asks("web", promotion, "one").await, "as often as this release asks");
    assert!(!asks("api", promotion, "one").await);
    assert!(!asks("web", GateHook::Rollback, "one").await, "that is another word");

    // The next release was seen by nobody, and the one before does not get its gate back.
    assert!(!asks("web", promotion, "two").await);
    assert!(!asks("web", promotion, "one").await);

    // All that stand there; what lets one question through is shut again.
    assert!(!asks("web", GateHook::ConfirmTrafficIncrease, "one").await);
    assert_eq!(say(Promotion::Proceed, Vec::new()).await, 3);
    assert!(asks("web", GateHook::ConfirmTrafficIncrease, "one").await);
    assert!(!asks("web", GateHook::ConfirmTrafficIncrease, "one").await);
    assert!(asks("web", promotion, "one").await && asks("api", promotion, "one").await);
    assert!(!asks("api", GateHook::Rollback, "one").await);
    assert_eq!(say(Promotion::Rollback, Vec::new()).await, 1);
    assert!(asks("api", GateHook::Rollback, "one").await);
    assert!(!asks("api", GateHook::Rollback, "one").await);
    door.stop().await;
}

async fn only_whoever_knows_the_address_may_ask(database: TestDatabase) {
    let mut door = Door::new(database).await;
    door.start();
    let (service, token) = with_canaries(&door).await;
    let ask = async |service, token: &str, question: GateQuestion| {
        door.app.canary_gate_ask(service, token, &question).await
    };
    let web = || question("web", GateHook::Rollback, "one");
    let mut other = token.clone();
    other.replace_range(..1, if token.starts_with('0') { "1" } else { "0" });
    for (service, token) in [
        (service.id, other.as_str()),
        (service.id, ""),
        (service.id, "not hex"),
        (service.id, &token[..32]),
        (ServiceId::new(), token.as_str()),
    ] {
        let refused = ask(service, token, web()).await;
        assert!(matches!(refused, Err(Error::NotFound { .. })), "{refused:?}");
    }
    let none = ask(service.id, &token, question("none", GateHook::Rollback, "one")).await;
    assert!(matches!(none, Err(Error::NotFound { .. })), "the service has no such canary: {none:?}");
    let old = ask(service.id, &token, question("web", GateHook::Rollback, "")).await;
    assert!(matches!(old, Err(Error::Invalid { .. })), "{old:?}");
    assert!(!ask(service.id, &token, web()).await.unwrap());
    // With the service, its gates go.
    door.app.service_detach(&door.admin, &service_id(&service)).await.unwrap();
    let gone = ask(service.id, &token, web()).await;
    assert!(matches!(gone, Err(Error::NotFound { .. })), "{gone:?}");
    door.stop().await;
}
