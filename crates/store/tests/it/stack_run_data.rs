//! What runs of stacks leave: steps, logs, plans and outputs, and the keys that these are sealed with.

use std::collections::BTreeMap;

use plural_app::data_key::DataKeyStore as _;
use plural_app::keyring::OpenKey;
use plural_app::ports::key_encryption::LocalKey;
use plural_app::seal::{SealStore as _, Sealed, SealedColumn};
use plural_app::stack::StackSelector;
use plural_app::stack_run::{
    FindingKind, LogPiece, PlanPart, PlanPartWrite, RunMove, SealedOutput, StackRunStore as _,
};
use plural_core::access::Actor;
use plural_core::data_key::KeyOwner;
use plural_core::ids::StackRunId;
use plural_core::secret_holding::SecretKind;
use plural_core::stack::{Stack, StackChange};
use plural_core::stack_run::{RunPhase, RunStatus, RunStep, StepStatus};
use plural_core::stack_spec::Stage;
use plural_core::stack_state::StateLock;
use plural_core::{Error, Result};
use plural_testkit::{TestDatabase, each_database};

use crate::data_keys::others;
use crate::door::KEY;
use crate::stack_run::{Ground, plan, step};

each_database!(
    a_step_that_is_over_stays,
    no_job_takes_the_place_of_one_that_has_begun,
    a_lock_goes_with_the_job_that_held_it,
    steps_of_a_phase_are_replaced_with_their_logs,
    a_run_that_ends_leaves_no_step_open,
    a_log_is_kept_once_and_without_gaps,
    of_two_who_write_a_log_none_loses_a_byte,
    a_log_is_read_from_any_place,
    a_part_of_a_plan_is_replaced_until_the_plan_is_stored,
    outputs_are_replaced_by_those_of_the_next_apply,
    what_was_found_of_a_plan_stays_as_people_read_it,
    a_replaced_key_seals_all_of_a_run_anew,
    the_console_says_what_it_holds_of_stacks,
);

impl Ground {
    /// A run that is under way, with two steps to plan and one to apply.
    async fn stepping(&self) -> StackRunId {
        let run = self.running().await.id;
        let steps =
            vec![step(run, RunPhase::Plan, 0), step(run, RunPhase::Plan, 1), step(run, RunPhase::Apply, 2)];
        self.moved(run, RunMove { steps: Some(steps), ..self.change() }).await.unwrap();
        run
    }

    async fn steps(&self, run: StackRunId) -> Vec<RunStep> {
        self.door.database.stack_run_steps(run).await.unwrap()
    }

    async fn stepped(&self, run: StackRunId, index: u32, status: StepStatus, exit_code: Option<i32>) {
        let (of, at) = (self.place(run).await, self.now());
        let step = self.door.database.stack_run_step(run, of, index, (status, exit_code), at);
        assert!(step.await.unwrap(), "the run is running");
    }

    async fn write(&self, run: StackRunId, offset: u64, text: &[u8]) -> Result<u64> {
        let piece = LogPiece { offset, at: self.now(), bytes: text.to_vec() };
        let of = self.place(run).await;
        let known = self.door.database.stack_run_log(run, of, 0, &piece).await?;
        Ok(known.expect("the run is running"))
    }

    /// Where a run is now.
    async fn place(&self, run: StackRunId) -> (RunPhase, u32) {
        let run = self.run(run).await;
        (run.phase, run.attempt)
    }

    /// The pieces of a log, with their places.
    async fn log(&self, run: StackRunId, from: u64, bytes: u64) -> Vec<(u64, String)> {
        let pieces = self.door.database.stack_run_logs(run, 0, from, bytes).await.unwrap();
        pieces.into_iter().map(|piece| (piece.offset, String::from_utf8(piece.bytes).unwrap())).collect()
    }

    async fn put(&self, run: StackRunId, part: PlanPart, digest: u8, pieces: &[&[u8]]) -> Result<()> {
        let pieces: Vec<Sealed> = pieces.iter().map(|piece| Sealed::from_bytes(piece.to_vec())).collect();
        let put = PlanPartWrite { part, digest: [digest; 32], size: 7, pieces };
        self.door.database.stack_plan_put(run, &put).await
    }

    /// The digest of a part and its pieces.
    async fn part(&self, run: StackRunId, part: PlanPart) -> Option<(u8, Vec<Vec<u8>>)> {
        let found = self.door.database.stack_plan_get(run, part).await.unwrap()?;
        assert_eq!(found.size, 7);
        Some((found.digest[0], found.pieces.into_iter().map(Sealed::into_bytes).collect()))
    }

    /// The key that seals what is of the stack's project.
    pub(crate) async fn key(&self) -> OpenKey {
        let owner = KeyOwner::Project(self.stack.project_id);
        let row = self.door.database.data_key_current(owner).await.unwrap().unwrap();
        OpenKey::of(&row, &*LocalKey::all(&KEY, &[])[0]).await.unwrap()
    }
}

async fn a_step_that_is_over_stays(database: TestDatabase) {
    let ground = Ground::new(database).await;
    let run = ground.stepping().await;
    ground.stepped(run, 0, StepStatus::Running, None).await;
    let running = ground.steps(run).await.remove(0);
    assert!(running.started_at.is_some() && running.finished_at.is_none());
    ground.stepped(run, 0, StepStatus::Failed, Some(2)).await;
    // An answer was lost, and the harness says it again; or says something else.
    ground.stepped(run, 0, StepStatus::Successful, Some(0)).await;
    ground.stepped(run, 0, StepStatus::Running, None).await;
    // Its beginning was not told.
    ground.stepped(run, 1, StepStatus::Successful, Some(0)).await;
    let steps = ground.steps(run).await;
    let told: Vec<_> = steps.iter().map(|step| (step.index, step.status, step.exit_code)).collect();
    let expected = [
        (0, StepStatus::Failed, Some(2)),
        (1, StepStatus::Successful, Some(0)),
        (2, StepStatus::Pending, None),
    ];
    assert_eq!(told, expected);
    assert_eq!(steps[0].started_at, running.started_at);
    assert!(steps[1].started_at.is_some() && steps[1].finished_at.is_some());
    let begins = (StepStatus::Running, None);
    let store = &ground.door.database;
    let of = ground.place(run).await;
    let unknown = store.stack_run_step(run, of, 9, begins, ground.now()).await;
    assert!(matches!(unknown, Err(Error::NotFound { .. })), "{unknown:?}");
    // Another Job has its place: nothing of it begins any more.
    let moved = store.stack_run_step(run, (of.0, of.1 + 1), 2, begins, ground.now()).await;
    assert!(!moved.unwrap());
    assert_eq!(ground.steps(run).await[2].status, StepStatus::Pending);
}

async fn no_job_takes_the_place_of_one_that_has_begun(database: TestDatabase) {
    let ground = Ground::new(database).await;
    let run = ground.running().await.id;
    let steps = || Some(vec![RunStep { stage: Stage::Apply, ..step(run, RunPhase::Apply, 0) }]);
    let (phase, to) = (Some(RunPhase::Apply), Some(RunStatus::Running));
    ground.moved(run, RunMove { phase, to, steps: steps(), ..ground.change() }).await.unwrap();
    let again = || RunMove { to: Some(RunStatus::Queued), unbegun: true, ..ground.change() };
    // Somebody saw that nothing had begun; meanwhile it did.
    ground.stepped(run, 0, StepStatus::Running, None).await;
    assert_eq!(ground.moved(run, again()).await, None);
    assert_eq!(ground.run(run).await.status, RunStatus::Running);
    ground.moved(run, RunMove { steps: steps(), ..ground.change() }).await.unwrap();
    // One that logs something has begun, too: that it did may not have been told.
    assert_eq!(ground.write(run, 0, b"").await.unwrap(), 0);
    assert_eq!(ground.steps(run).await[0].status, StepStatus::Pending);
    assert_eq!(ground.write(run, 0, b"applying").await.unwrap(), 8);
    let begun = ground.steps(run).await.remove(0);
    assert!(begun.status == StepStatus::Running && begun.started_at.is_some(), "{begun:?}");
    assert_eq!(ground.moved(run, again()).await, None);
    ground.moved(run, RunMove { steps: steps(), ..ground.change() }).await.unwrap();
    assert_eq!(ground.moved(run, again()).await.unwrap().status, RunStatus::Queued);
    // Of one that was begun anew, no earlier command begins.
    let of = ground.place(run).await;
    let begins = (StepStatus::Running, None);
    assert!(!ground.door.database.stack_run_step(run, of, 0, begins, ground.now()).await.unwrap());
}

async fn a_lock_goes_with_the_job_that_held_it(database: TestDatabase) {
    let ground = Ground::new(database).await;
    let run = ground.running().await.id;
    let locked = async |author: &str| {
        let lock = StateLock {
            id: "l1".to_owned(),
            info: "{}".to_owned(),
            operation: "OperationTypeApply".to_owned(),
            who: "job".to_owned(),
            author: author.to_owned(),
            fence: 1,
            created_at: ground.now(),
        };
        let lock = serde_json::to_string(&lock).unwrap();
        assert_eq!(ground.sql(&format!("UPDATE stacks SET state_lock = '{lock}'"), Vec::new()).await, 1);
    };
    let holder = async || {
        let (system, id) = (ground.door.app.ctx(Actor::System), StackSelector::Id(ground.stack.id));
        let stack = ground.door.app.get::<Stack>(&system, &id).await.unwrap();
        stack.lock.as_ref().map(|lock| lock.author.clone())
    };
    let own = format!("run:{run}");
    let again = |unlocks| RunMove { to: Some(RunStatus::Queued), unlocks, ..ground.change() };
    locked(&own).await;
    // Nobody knows whether its Job is at work, or it went elsewhere.
    ground.moved(run, again(false)).await.unwrap();
    let from = vec![RunStatus::Running];
    assert_eq!(ground.moved(run, RunMove { from, ..again(true) }).await, None);
    assert_eq!(holder().await.as_deref(), Some(own.as_str()));
    ground.moved(run, again(true)).await.unwrap();
    assert_eq!(holder().await, None);
    locked("ada@example.com").await;
    ground.moved(run, again(true)).await.unwrap();
    assert_eq!(holder().await.as_deref(), Some("ada@example.com"));
}

async fn steps_of_a_phase_are_replaced_with_their_logs(database: TestDatabase) {
    let ground = Ground::new(database).await;
    let run = ground.stepping().await;
    ground.stepped(run, 0, StepStatus::Failed, Some(1)).await;
    assert_eq!(ground.write(run, 0, b"before").await.unwrap(), 6);
    let apply = ground.steps(run).await.remove(2);
    let again = vec![step(run, RunPhase::Plan, 0)];
    ground.moved(run, RunMove { steps: Some(again.clone()), ..ground.change() }).await.unwrap();
    assert_eq!(ground.steps(run).await, [again[0].clone(), apply]);
    assert_eq!(ground.log(run, 0, 100).await, []);
    assert_eq!(ground.write(run, 0, b"anew").await.unwrap(), 4);
    // None at all replaces none.
    ground.moved(run, RunMove { steps: Some(Vec::new()), ..ground.change() }).await.unwrap();
    assert_eq!(ground.steps(run).await.len(), 2);
}

async fn a_run_that_ends_leaves_no_step_open(database: TestDatabase) {
    let ground = Ground::new(database).await;
    for (to, running, pending) in [
        (RunStatus::Failed, StepStatus::Failed, StepStatus::Failed),
        (RunStatus::Cancelled, StepStatus::Failed, StepStatus::Failed),
        // Its last report was lost; and a plan without changes is not applied.
        (RunStatus::Successful, StepStatus::Successful, StepStatus::Pending),
    ] {
        let run = ground.stepping().await;
        ground.stepped(run, 0, StepStatus::Successful, Some(0)).await;
        ground.stepped(run, 1, StepStatus::Running, None).await;
        ground.end(run, to).await;
        let told: Vec<StepStatus> = ground.steps(run).await.iter().map(|step| step.status).collect();
        assert_eq!(told, [StepStatus::Successful, running, pending], "{to:?}");
    }
}

async fn a_log_is_kept_once_and_without_gaps(database: TestDatabase) {
    let ground = Ground::new(database).await;
    let run = ground.stepping().await;
    assert_eq!(ground.write(run, 0, b"hello ").await.unwrap(), 6);
    assert_eq!(ground.write(run, 6, b"world\n").await.unwrap(), 12);
    // The same again, a part of it, and nothing.
    assert_eq!(ground.write(run, 6, b"world\n").await.unwrap(), 12);
    assert_eq!(ground.write(run, 2, b"llo").await.unwrap(), 12);
    assert_eq!(ground.write(run, 12, b"").await.unwrap(), 12);
    // One that laps over what is known.
    assert_eq!(ground.write(run, 6, b"world\nagain\n").await.unwrap(), 18);
    let gap = ground.write(run, 19, b"lost").await.unwrap_err();
    assert!(matches!(gap, Error::Conflict { .. }) && gap.to_string().contains("byte 18"), "{gap}");
    // Small pieces are one row.
    assert_eq!(ground.log(run, 0, 100).await, [(0, "hello world\nagain\n".to_owned())]);
    let (phase, attempt) = ground.place(run).await;
    let late = LogPiece { offset: 18, at: ground.now(), bytes: b"late".to_vec() };
    for of in [(RunPhase::Apply, attempt), (phase, attempt + 1)] {
        let answer = ground.door.database.stack_run_log(run, of, 0, &late).await.unwrap();
        assert_eq!(answer, None, "of another Job: {of:?}");
    }
    let big = "x".repeat(150_000);
    let end = 18 + big.len() as u64;
    assert_eq!(ground.write(run, 18, big.as_bytes()).await.unwrap(), end);
    let pieces = ground.log(run, 0, end).await;
    assert!(pieces.len() > 1 && pieces.iter().all(|(_, piece)| piece.len() <= 64 << 10), "{}", pieces.len());
    let read: String = pieces.into_iter().map(|(_, piece)| piece).collect();
    assert_eq!(read, format!("hello world\nagain\n{big}"));
    let elsewhere = LogPiece { offset: 0, at: ground.now(), bytes: b"x".to_vec() };
    let unknown = ground.door.database.stack_run_log(run, ground.place(run).await, 9, &elsewhere).await;
    assert!(matches!(unknown, Err(Error::NotFound { .. })), "{unknown:?}");
}

async fn of_two_who_write_a_log_none_loses_a_byte(database: TestDatabase) {
    let ground = Ground::new(database).await;
    let run = ground.stepping().await;
    let text: String =
        (0..40).flat_map(|line| ["line ".to_owned(), line.to_string(), " of the log\n".to_owned()]).collect();
    let writes = async |size: usize| {
        let mut known = 0;
        while known < text.len() {
            let end = text.len().min(known + size);
            let answer = ground.write(run, known as u64, &text.as_bytes()[known..end]).await.unwrap();
            known = usize::try_from(answer).unwrap();
        }
    };
    tokio::join!(writes(37), writes(101));
    let pieces = ground.log(run, 0, 100_000).await;
    let mut place = 0;
    for (offset, piece) in &pieces {
        assert_eq!(*offset, place);
        place += piece.len() as u64;
    }
    assert_eq!(pieces.into_iter().map(|(_, piece)| piece).collect::<String>(), text);
}

async fn a_log_is_read_from_any_place(database: TestDatabase) {
    let ground = Ground::new(database).await;
    let run = ground.stepping().await;
    let text = "0123456789abcdefghij";
    for (number, piece) in text.as_bytes().chunks(6).enumerate() {
        ground.write(run, number as u64 * 6, piece).await.unwrap();
    }
    for from in 0..=text.len() {
        for bytes in 0..=text.len() + 1 {
            let pieces = ground.log(run, from as u64, bytes as u64).await;
            let first = pieces.first().map_or(from as u64, |(offset, _)| *offset);
            assert_eq!(first, from as u64, "{from} {bytes}");
            let read: String = pieces.into_iter().map(|(_, piece)| piece).collect();
            let end = text.len().min(from + bytes);
            assert_eq!(read, text[from..end], "{from} {bytes}");
        }
    }
    assert_eq!(ground.log(run, u64::MAX, u64::MAX).await, []);
}

async fn a_part_of_a_plan_is_replaced_until_the_plan_is_stored(database: TestDatabase) {
    let ground = Ground::new(database).await;
    let run = ground.stepping().await;
    assert_eq!(ground.part(run, PlanPart::File).await, None);
    let many: Vec<Vec<u8>> = (0..20).map(|number| vec![number; 3]).collect();
    let many: Vec<&[u8]> = many.iter().map(Vec::as_slice).collect();
    ground.put(run, PlanPart::File, 1, &many).await.unwrap();
    ground.put(run, PlanPart::Text, 2, &[b"text"]).await.unwrap();
    ground.put(run, PlanPart::Json, 3, &[]).await.unwrap();
    let found = ground.part(run, PlanPart::File).await.unwrap();
    assert_eq!((found.0, found.1), (1, many.iter().map(|piece| piece.to_vec()).collect()));
    ground.put(run, PlanPart::File, 4, &[b"one", b"two"]).await.unwrap();
    let parts = async || {
        let mut parts = Vec::new();
        for part in PlanPart::ALL {
            parts.push(ground.part(run, part).await.unwrap());
        }
        parts
    };
    let stored =
        vec![(4, vec![b"one".to_vec(), b"two".to_vec()]), (3, Vec::new()), (2, vec![b"text".to_vec()])];
    assert_eq!(parts().await, stored);

    let change = RunMove { plan: Some(plan(ground.now())), ..ground.change() };
    let planned = ground.moved(run, change).await.unwrap();
    assert_eq!(planned.plan.unwrap().state_serial, Some(4));
    let late = ground.put(run, PlanPart::File, 9, &[b"another"]).await;
    assert!(matches!(late, Err(Error::Conflict { .. })), "{late:?}");
    assert_eq!(parts().await, stored);

    // Another Job of the same run plans anew.
    let change = RunMove { to: Some(RunStatus::Queued), ..ground.change() };
    assert_eq!(ground.moved(run, change).await.unwrap().plan, None);
    let change = RunMove { to: Some(RunStatus::Running), ..ground.change() };
    ground.moved(run, change).await.unwrap();
    ground.put(run, PlanPart::File, 9, &[b"another"]).await.unwrap();
    assert_eq!(ground.part(run, PlanPart::File).await, Some((9, vec![b"another".to_vec()])));

    // None is taken of a run that does not plan.
    ground.end(run, RunStatus::Failed).await;
    let other = ground.stepping().await;
    let change = RunMove { phase: Some(RunPhase::Apply), ..ground.change() };
    ground.moved(other, change).await.unwrap();
    let early = ground.put(other, PlanPart::File, 9, &[b"another"]).await;
    assert!(matches!(early, Err(Error::Conflict { .. })), "{early:?}");
    assert_eq!(ground.part(other, PlanPart::File).await, None);
}

async fn outputs_are_replaced_by_those_of_the_next_apply(database: TestDatabase) {
    let ground = Ground::new(database).await;
    let applied = async |outputs: Option<&[(&str, bool)]>| {
        let outputs = outputs.map(|outputs| {
            let output = |(name, secret): &(&str, bool)| SealedOutput {
                name: (*name).to_owned(),
                secret: *secret,
                value: Sealed::from_bytes(name.as_bytes().to_vec()),
            };
            outputs.iter().map(output).collect::<Vec<_>>()
        });
        let run = ground.running().await.id;
        let change = RunMove {
            to: Some(RunStatus::Successful),
            applied: Some(("c1".into(), outputs)),
            ..ground.change()
        };
        ground.moved(run, change).await.unwrap();
        let outputs = ground.door.database.stack_outputs(ground.stack.id).await.unwrap();
        outputs.into_iter().map(|output| (output.name, output.secret)).collect::<Vec<_>>()
    };
    let both = [("address".to_owned(), false), ("password".to_owned(), true)];
    assert_eq!(applied(Some(&[("password", true), ("address", false)])).await, both);
    assert_eq!(applied(None).await, both, "they could not be read");
    assert_eq!(applied(Some(&[("port", false)])).await, [("port".to_owned(), false)]);
    assert_eq!(applied(Some(&[])).await, []);
}

async fn a_replaced_key_seals_all_of_a_run_anew(database: TestDatabase) {
    let ground = Ground::new(database).await;
    let store = &ground.door.database;
    let run = ground.stepping().await;
    let (plan, output) = (format!("stack_plan:{run}"), format!("stack_output:{}", ground.stack.id));
    let before = ground.key().await;
    for part in PlanPart::ALL {
        let pieces = vec![
            before.seal(&plan, part.as_str().as_bytes()).unwrap(),
            before.seal(&plan, b"behind it").unwrap(),
        ];
        let put = PlanPartWrite { part, digest: [1; 32], size: 7, pieces };
        store.stack_plan_put(run, &put).await.unwrap();
    }
    let finding = format!("stack_run_finding:{run}");
    let found = before.seal(&finding, b"policy").unwrap();
    store.stack_finding_put(run, FindingKind::Policy, &found).await.unwrap();
    let value = before.seal(&output, b"[\"address\",1]").unwrap();
    let outputs = vec![SealedOutput { name: "address".into(), secret: false, value }];
    let change = RunMove { applied: Some(("c1".into(), Some(outputs))), ..ground.change() };
    ground.moved(run, change).await.unwrap();
    assert_eq!(others(&ground.door).await, 0);

    ground.door.app.project_keys_rotate(&ground.door.admin, ground.stack.project_id).await.unwrap();
    for (column, values) in [
        (SealedColumn::StackEnvironment, 1),
        (SealedColumn::StackFiles, 1),
        (SealedColumn::StackRunEnvironment, 1),
        (SealedColumn::StackRunFiles, 1),
        (SealedColumn::StackRunFinding, 1),
        (SealedColumn::StackPlan, 6),
        (SealedColumn::StackOutput, 1),
    ] {
        let found = store.sealed_otherwise(column, None, 100).await.unwrap().found;
        assert!(found.len() >= values, "{column:?}: {}", found.len());
    }
    assert_eq!(ground.door.app.reseal().await.unwrap().failed, 0);
    assert_eq!(others(&ground.door).await, 0);

    // All of it opens with the new key, for the place that it was sealed for.
    let after = ground.key().await;
    for part in PlanPart::ALL {
        let found = store.stack_plan_get(run, part).await.unwrap().unwrap();
        let pieces: Vec<_> =
            found.pieces.iter().map(|piece| after.open(&plan, piece.as_bytes()).unwrap()).collect();
        assert_eq!(pieces, [part.as_str().as_bytes().to_vec(), b"behind it".to_vec()]);
    }
    let found = store.stack_findings(run).await.unwrap();
    assert_eq!(after.open(&finding, found[0].1.as_bytes()).unwrap(), b"policy");
    let outputs = store.stack_outputs(ground.stack.id).await.unwrap();
    assert_eq!(after.open(&output, outputs[0].value.as_bytes()).unwrap(), b"[\"address\",1]");
    let of_stack = store.stack_inputs(ground.stack.id).await.unwrap();
    let of_run = store.stack_run_inputs(run).await.unwrap();
    for (context, sealed, holds) in [
        (format!("stack:{}:environment", ground.stack.id), of_stack.environment, "north"),
        (format!("stack:{}:files", ground.stack.id), of_stack.files, "backend.json"),
        (format!("stack_run:{run}:environment"), of_run.environment, "north"),
        (format!("stack_run:{run}:files"), of_run.files, "backend.json"),
    ] {
        let clear = after.open(&context, sealed.unwrap().as_bytes()).unwrap();
        assert!(String::from_utf8(clear).unwrap().contains(holds), "{context}");
    }
}

async fn the_console_says_what_it_holds_of_stacks(database: TestDatabase) {
    let ground = Ground::new(database).await;
    let (app, admin, stack) = (&ground.door.app, &ground.door.admin, &ground.stack);
    let held = async || {
        let found = app.secret_holdings(admin, stack.project_id, None).await.unwrap();
        let held = found.holdings.into_iter().map(|held| {
            assert_eq!(held.names, ["infra"]);
            (held.kind, held.values)
        });
        held.collect::<Vec<_>>()
    };
    assert_eq!(held().await, [(SecretKind::StackInputs, 2)]);
    let run = ground.stepping().await;
    ground.put(run, PlanPart::Text, 1, &[b"one", b"two"]).await.unwrap();
    let value = Sealed::from_bytes(b"sealed".to_vec());
    let outputs = vec![SealedOutput { name: "address".into(), secret: false, value }];
    let change = RunMove { applied: Some(("c1".into(), Some(outputs))), ..ground.change() };
    ground.moved(run, change).await.unwrap();
    let all = [(SecretKind::StackInputs, 4), (SecretKind::StackPlans, 1), (SecretKind::StackOutputs, 1)];
    let mut found = held().await;
    found.sort_unstable();
    assert_eq!(found, all);

    // What is empty is no secret: that of the run, which has what there was, is left.
    let change =
        StackChange { environment: Some(Vec::new()), files: Some(BTreeMap::new()), ..StackChange::default() };
    app.stack_update(admin, stack.id, &change).await.unwrap();
    assert!(held().await.contains(&(SecretKind::StackInputs, 2)));
}

async fn what_was_found_of_a_plan_stays_as_people_read_it(database: TestDatabase) {
    let ground = Ground::new(database).await;
    let store = &ground.door.database;
    let run = ground.stepping().await;
    assert!(store.stack_findings(run).await.unwrap().is_empty());
    let (key, context) = (ground.key().await, format!("stack_run_finding:{run}"));
    let (first, second) = (key.seal(&context, b"a").unwrap(), key.seal(&context, b"b").unwrap());
    for found in [&first, &second] {
        store.stack_finding_put(run, FindingKind::Policy, found).await.unwrap();
    }
    store.stack_finding_put(run, FindingKind::Cost, &first).await.unwrap();
    let found = store.stack_findings(run).await.unwrap();
    let known = [(FindingKind::Policy, second.clone()), (FindingKind::Cost, first.clone())];
    assert_eq!(found, known);
    // What a later release found beside this one is nothing that this one could read.
    let later = "INSERT INTO stack_run_findings (run_id, number, content) \
                 SELECT run_id, 9, content FROM stack_run_findings WHERE run_id = $1 AND number = 0";
    assert_eq!(ground.sql(later, vec![run.uuid().into()]).await, 1);
    assert_eq!(store.stack_findings(run).await.unwrap(), known);

    ground.moved(run, RunMove { to: Some(RunStatus::PendingApproval), ..ground.change() }).await.unwrap();
    let refused = store.stack_finding_put(run, FindingKind::Policy, &first).await.unwrap_err();
    assert!(matches!(refused, Error::Conflict { .. }), "{refused}");
    let missing = store.stack_finding_put(StackRunId::new(), FindingKind::Policy, &first).await.unwrap_err();
    assert!(matches!(missing, Error::NotFound { .. }), "{missing}");
    assert_eq!(store.stack_findings(run).await.unwrap()[0].1, second);

    // Another Job plans anew: nothing was found of that plan.
    for to in [RunStatus::Running, RunStatus::Queued] {
        ground.moved(run, RunMove { to: Some(to), ..ground.change() }).await.unwrap();
    }
    assert!(store.stack_findings(run).await.unwrap().is_empty());
}
