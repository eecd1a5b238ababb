//! Passkeys: who may do what.

use plural_core::ids::PasskeyId;
use sea_orm::{ConnectionTrait as _, Statement};

use super::{Case, World};

const ORIGIN: &str = "https://console.example.com";

pub(super) fn cases() -> Vec<Case> {
    vec![
        // Anybody may be asked for one, and nobody comes back who was not.
        case!("passkey_sign_in_begin", "aaaaaa", w, c => w.door.app.passkey_sign_in_begin(c, ORIGIN)),
        case!("passkey_sign_in_finish", "uuuuuu", w, c => w.door.app.passkey_sign_in_finish(c, ORIGIN, "x", "{}")),
        case!("passkeys", "uaaaaa", w, c => w.door.app.passkeys(c, None)),
        case!("passkeys", "udddda", w, c => w.door.app.passkeys(c, Some(w.user.id))),
        // The contexts of this table carry no token, so nothing was signed in to.
        case!("confirmation_create", "uuuuuu", w, c => w.door.app.confirmation_create(c)),
        case!("passkey_add_begin", "uuuuuu", w, c => w.door.app.passkey_add_begin(c, ORIGIN, None, None)),
        case!("passkey_add_finish", "uuuuuu", w, c => async { w.door.app.passkey_add_finish(c, ORIGIN, "x", "{}", &"key".parse().unwrap()).await }),
        case!("passkey_rename", "uhhhha", w, c => async { w.door.app.passkey_rename(c, planted(w).await, &"key".parse().unwrap()).await }),
        case!("passkey_delete", "uhhhha", w, c => async { w.door.app.passkey_delete(c, planted(w).await).await }),
    ]
}

/// A passkey of the world's user that no device holds.
async fn planted(w: &World<'_>) -> PasskeyId {
    let connection = sea_orm::Database::connect(w.door.source.url()).await.unwrap();
    let sql = "INSERT INTO passkeys (id, user_id, name, credential_id, public_key, state, created_at) \
               VALUES ($1, $2, $3, $4, $5, $6, $7)";
    let id = PasskeyId::new();
    let values = [
        id.uuid().into(),
        w.user.id.uuid().into(),
        "planted".into(),
        id.uuid().as_bytes().to_vec().into(),
        vec![0_u8].into(),
        vec![0_u8].into(),
        w.door.app.now().into(),
    ];
    let statement = Statement::from_sql_and_values(connection.get_database_backend(), sql, values);
    connection.execute_raw(statement).await.unwrap();
    connection.close().await.unwrap();
    id
}
