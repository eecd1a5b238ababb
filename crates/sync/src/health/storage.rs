//! Storage: snapshots and attachments. Claims and volumes are of the core group.

use super::{
    Health,
    read::{View, text, text_or},
};

pub(super) fn health(kind: &str, view: &View<'_>) -> Option<Health> {
    Some(match kind {
        "VolumeAttachment" => attachment(view),
        "VolumeSnapshot" | "VolumeSnapshotContent" => snapshot(view),
        _ => return None,
    })
}

fn attachment(view: &View<'_>) -> Health {
    for (field, fallback) in
        [("attachError", "the volume cannot be attached"), ("detachError", "the volume cannot be detached")]
    {
        let error = &view.status[field];
        if error.is_object() {
            return Health::degraded(text_or(&error["message"], fallback));
        }
    }
    if view.status["attached"] == true {
        Health::healthy()
    } else {
        Health::progressing(format!(
            "the volume is not attached to {} yet",
            text_or(&view.spec["nodeName"], "its node")
        ))
    }
}

fn snapshot(view: &View<'_>) -> Health {
    let error = &view.status["error"];
    if error.is_object() {
        return Health::degraded(text_or(&error["message"], "the snapshot cannot be taken"));
    }
    if view.status["readyToUse"] == true {
        return Health::healthy();
    }
    let content = text(&view.status["boundVolumeSnapshotContentName"]);
    Health::progressing(if content.is_empty() {
        "the snapshot has not been taken yet".to_owned()
    } else {
        format!("the snapshot {content} is not ready for use yet")
    })
}
