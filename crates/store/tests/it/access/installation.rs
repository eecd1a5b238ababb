//! The installation itself: who may do what.

use plural_core::{Error, PageArgs};

use super::Case;

pub(super) fn cases() -> Vec<Case> {
    vec![
        case!("audit_list", "udddda", w, c => w.door.app.audit_list(c, &PageArgs::default())),
        // It tells of a refusal, whoever was refused.
        case!("audit_refused", "aaaaaa", w, c => async {
            w.door.app.audit_refused(c, "nothing", plural_core::ErrorCode::Forbidden);
            Ok::<_, Error>(())
        }),
        case!("webhook_secret", "udddda", w, c => async { w.door.app.webhook_secret(c).await }),
    ]
}
