//! Background jobs: who may do what.

use plural_core::job::BackgroundJob;
use std::time::Duration;

use plural_app::job::{JobClaimer, JobEnd, JobFilter, JobStore as _, NewJob};
use plural_core::PageArgs;
use plural_core::ids::{JobId, ReplicaId};

use super::{Case, World, found, fresh};

pub(super) fn cases() -> Vec<Case> {
    vec![
        case!("list::<BackgroundJob>", "udddda", w, c => w.door.app.list::<BackgroundJob>(c, &JobFilter::default(), &PageArgs::default())),
        case!("get::<BackgroundJob>", "udddda", w, c => async { w.door.app.get::<BackgroundJob>(c, &dead_job(w).await).await }),
        case!("get_many::<BackgroundJob>", "udddda", w, c => async { let id = dead_job(w).await; found(w.door.app.get_many::<BackgroundJob>(c, &[id]).await?.contains_key(&id)) }),
        case!("background_job_retry", "udddda", w, c => async { w.door.app.background_job_retry(c, dead_job(w).await).await }),
        case!("background_job_delete", "udddda", w, c => async { w.door.app.background_job_delete(c, dead_job(w).await).await }),
    ]
}

async fn dead_job(w: &World<'_>) -> JobId {
    let (database, at) = (&w.door.database, w.door.app.now());
    let job =
        NewJob { kind: "nothing", key: fresh("j"), payload: serde_json::Value::Null, after: Duration::ZERO };
    database.jobs_enqueue(&[job], at).await.unwrap();
    let by = JobClaimer { replica: ReplicaId::new(), kinds: &["nothing"], running: &[] };
    let claimed = database.jobs_claim(&by, 1).await.unwrap();
    let end = JobEnd::Dead { error: "of a test".into() };
    assert!(database.job_end(&claimed[0].claim, &end, at).await.unwrap());
    claimed[0].claim.id
}
