//! Service accounts: who may do what.

use plural_app::federated_credential::IssuerChoice;
use plural_app::machine_account::MachineAccountSelector;
use plural_app::records::Search;
use plural_app::token::TokenRequest;
use plural_core::PageArgs;
use plural_core::federated_credential::FederationTerms;
use plural_core::ids::{FederatedCredentialId, MachineAccountId};
use plural_core::machine_account::{MachineAccount, MachineAccountChange, NewMachineAccount};
use plural_core::token::TokenScopes;

use super::{Case, World, found, fresh};

pub(super) fn cases() -> Vec<Case> {
    vec![
        case!("get::<MachineAccount>", "uhaaaa", w, c => async { w.door.app.get::<MachineAccount>(c, &MachineAccountSelector::Id(machine(w).await)).await }),
        case!("get_many::<MachineAccount>", "uhaaaa", w, c => async { let id = machine(w).await; found(w.door.app.get_many::<MachineAccount>(c, &[id]).await?.contains_key(&id)) }),
        case!("list::<MachineAccount>", "uaaaaa", w, c => w.door.app.list::<MachineAccount>(c, &Search::default(), &PageArgs::default())),
        case!("machine_account_create", "uhddaa", w, c => w.door.app.machine_account_create(c, new(w))),
        case!("machine_account_update", "uhddaa", w, c => async { w.door.app.machine_account_update(c, machine(w).await, &MachineAccountChange::default()).await }),
        case!("machine_account_delete", "uhddaa", w, c => async { w.door.app.machine_account_delete(c, machine(w).await).await }),
        case!("machine_account_token", "uhddaa", w, c => async { w.door.app.machine_account_token(c, machine(w).await, TokenRequest::default()).await }),
        case!("machine_account_end_tokens", "uhddaa", w, c => async { w.door.app.machine_account_end_tokens(c, machine(w).await).await }),
        case!("federated_credentials", "uhaaaa", w, c => async { w.door.app.federated_credentials(c, machine(w).await).await }),
        case!("federated_credential", "uhaaaa", w, c => async { w.door.app.federated_credential(c, credential(w).await).await }),
        case!("federated_credential_create", "uhddaa", w, c => async { w.door.app.federated_credential_create(c, machine(w).await, issuer(), terms(), None).await }),
        case!("federated_credential_update", "uhddaa", w, c => async { w.door.app.federated_credential_update(c, credential(w).await, Ok, None).await }),
        case!("federated_credential_delete", "uhddaa", w, c => async { w.door.app.federated_credential_delete(c, credential(w).await).await }),
        case!("federated_exchange", "uuuuuu", w, c => w.door.app.federated_exchange(c, &"a.b.c".to_owned().into(), None)),
    ]
}

fn issuer() -> IssuerChoice {
    IssuerChoice::Address("https://ci.invalid".parse().unwrap())
}

fn terms() -> FederationTerms {
    let claims = [("sub".to_owned(), "repo:acme/shop".to_owned())].into();
    FederationTerms { audience: "plural".to_owned(), claims, scopes: TokenScopes::all() }
}

async fn credential(w: &World<'_>) -> FederatedCredentialId {
    let account = machine(w).await;
    w.door.app.federated_credential_create(&w.door.admin, account, issuer(), terms(), None).await.unwrap().id
}

fn new(w: &World<'_>) -> NewMachineAccount {
    let name = fresh("m").parse().unwrap();
    NewMachineAccount { name, email: None, project_id: Some(w.project.id), assume: Vec::new() }
}

pub(super) async fn machine(w: &World<'_>) -> MachineAccountId {
    w.door.app.machine_account_create(&w.door.admin, new(w)).await.unwrap().id
}
