//! Recordings of shells: who may do what.

use plural_app::project::ProjectSelector;
use plural_app::recording::{NewRecordingPolicy, RecordingsSelector};
use plural_core::PageArgs;
use plural_core::ids::RecordingId;

use super::{Case, World, found};
use crate::door::by_id;
use crate::recording;

pub(super) fn cases() -> Vec<Case> {
    vec![
        case!("recording_policy_get", "uhaaaa", w, c => w.door.app.recording_policy_get(c, &ProjectSelector::Id(w.project.id))),
        case!("recording_policy_set", "uhddaa", w, c => w.door.app.recording_policy_set(c, &ProjectSelector::Id(w.project.id), NewRecordingPolicy::default())),
        // A right of its own: whoever administers the cluster does not have it.
        case!("recording_list", "uhddda", w, c => w.door.app.recording_list(c, &RecordingsSelector::Cluster(by_id(&w.cluster.cluster)), &PageArgs::default())),
        case!("recording_list", "uhddda", w, c => w.door.app.recording_list(c, &RecordingsSelector::Project(w.project.id), &PageArgs::default())),
        case!("recording_list", "uhddda", w, c => w.door.app.recording_list(c, &RecordingsSelector::ProjectNamed(w.project.name.to_string()), &PageArgs::default())),
        // Who may read none finds none.
        case!("recording_list", "uaaaaa", w, c => w.door.app.recording_list(c, &RecordingsSelector::Readable, &PageArgs::default())),
        case!("recorded_projects_get", "uhhhha", w, c => async { found(w.door.app.recorded_projects_get(c, &[w.project.id]).await?.contains_key(&w.project.id)) }),
        case!("recording_read", "uhddda", w, c => async { w.door.app.recording_read(c, recorded(w).await).await }),
    ]
}

async fn recorded(w: &World<'_>) -> RecordingId {
    let grant = recording::grant(w.door, &w.cluster).await;
    let (_, writer) = recording::begin(&w.door.app, &grant).await.unwrap();
    writer.id()
}
