//! The installation itself: who may do what.

use plural_app::audit_verify::AuditVerify;
use plural_core::audit::AuditFilter;
use plural_core::stack_settings::StackSettings;
use plural_core::{Error, PageArgs};

use super::Case;

pub(super) fn cases() -> Vec<Case> {
    vec![
        case!("audit_list", "udddda", w, c => w.door.app.audit_list(c, &PageArgs::default())),
        case!("audit_find", "udddda", w, c => w.door.app.audit_find(c, &AuditFilter::default(), &PageArgs::default())),
        case!("audit_verify", "udddda", w, c => w.door.app.audit_verify(c, AuditVerify::default())),
        case!("audit_export", "udddda", w, c => w.door.app.audit_export(c, 0)),
        case!("audit_public_key", "udddda", w, c => std::future::ready(w.door.app.audit_public_key(c))),
        case!("audit_checkpoint_list", "udddda", w, c => w.door.app.audit_checkpoint_list(c, 1)),
        case!("stack_settings", "uaaaaa", w, c => w.door.app.stack_settings(c)),
        case!("stack_settings_set", "udddda", w, c => async { w.door.app.stack_settings_set(c, &StackSettings::default()).await }),
        case!("stack_settings_unchanged", "udddda", w, c => w.door.app.stack_settings_unchanged(c)),
        case!("installation_keys", "udddda", w, c => w.door.app.installation_keys(c)),
        case!("installation_keys_rotate", "udddda", w, c => w.door.app.installation_keys_rotate(c)),
        // It tells of a refusal, whoever was refused.
        case!("audit_refused", "aaaaaa", w, c => async {
            w.door.app.audit_refused(c, "nothing", plural_core::ErrorCode::Forbidden);
            Ok::<_, Error>(())
        }),
        case!("webhook_secret", "udddda", w, c => async { w.door.app.webhook_secret(c).await }),
    ]
}
