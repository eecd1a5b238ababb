//! State of stacks: kept for the tool that writes it, version by version, sealed with the key of the stack's project.

use async_trait::async_trait;
use bytes::Bytes;
use plural_core::access::Actor;
use plural_core::data_key::KeyOwner;
use plural_core::ids::{StackId, StateVersionId};
use plural_core::stack::Stack;
use plural_core::stack_run::StackRun;
use plural_core::stack_state::{
    LockRequest, MAX_STATE_BYTES, StateChange, StateContent, StateHead, StateLock, StateResource,
    StateVersion, with_serial,
};
use plural_core::{Error, Result};
use tokio::task::spawn_blocking;

use crate::access::{Audited, Authorized, Read, ReadState, WriteState};
use crate::app::App;
use crate::ctx::OpCtx;
use crate::seal::Sealed;
use crate::stack::StackSelector;

/// Bytes of a piece of a state, each of which is sealed by itself: keys are replaced piece by piece.
const PIECE: usize = 256 << 10;
/// The number of a piece, before its bytes.
const NUMBER: usize = 4;
/// Bytes of a state that the console looks into: its values take many times as much memory.
const LOOKED_INTO: u64 = 16 << 20;
/// States that are looked into at once.
pub(crate) const LOOKS: usize = 2;

/// A state to be kept.
#[derive(Debug)]
pub struct StateWrite {
    /// The id of the version that it becomes.
    pub id: StateVersionId,
    /// What is known of it.
    pub head: StateHead,
    /// Bytes.
    pub size: u64,
    /// Its pieces in order, each sealed for `stack_state:ID`.
    pub pieces: Vec<Sealed>,
    /// Who brings it.
    pub from: StateSource,
    /// Versions that are kept, and as many rejected ones.
    pub kept: u32,
}

/// Where a state comes from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum StateSource {
    /// The tool wrote it, and says that it holds this lock.
    Tool(Option<String>),
    /// Somebody took an earlier or a rejected version.
    Version {
        /// Which.
        taken: StateVersionId,
        /// The state that they saw it in the place of.
        seen: Option<StateVersionId>,
    },
}

/// What became of a state.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum StateWritten {
    /// It is the stack's state now.
    Taken(StateVersion),
    /// It was so before.
    Repeated(StateVersion),
    /// It is kept beside the others, with the reason.
    Rejected(StateVersion),
    /// Somebody else holds the state; it is not kept.
    Locked(StateLock),
}

/// What became of a wish for a lock.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum StateLocked {
    /// It is given.
    Taken(StateLock),
    /// Somebody else has it.
    Held(StateLock),
}

/// What became of a lock that was given back.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum StateUnlocked {
    /// Nobody holds the state.
    Free,
    /// Somebody else holds it.
    Held(StateLock),
}

/// State of stacks.
#[async_trait]
pub trait StackStateStore: Send + Sync + 'static {
    /// The versions of a state that are kept, rejected ones too, newest first.
    async fn stack_state_versions(&self, stack: &Authorized<Stack, Read>) -> Result<Vec<StateVersion>>;
    /// One of them; [`Error::NotFound`] for one of another stack.
    async fn stack_state_version(&self, stack: StackId, id: StateVersionId) -> Result<StateVersion>;
    /// The pieces of a version, for somebody who gets all of it: that is told in the audit log.
    async fn stack_state_read(
        &self,
        by: Audited<'_, Stack, ReadState>,
        id: StateVersionId,
    ) -> Result<Vec<Sealed>>;
    /// The pieces of a version, for the console's own eyes.
    async fn stack_state_pieces(
        &self,
        stack: &Authorized<Stack, Read>,
        id: StateVersionId,
    ) -> Result<Vec<Sealed>>;
    /// Keeps a state, as [`plural_core::stack_state::judge_write`] decides. What a person took is taken or refused with
    /// [`Error::Conflict`]; what a tool brought and is not taken is kept as a rejected version.
    async fn stack_state_write(
        &self,
        by: Audited<'_, Stack, WriteState>,
        write: &StateWrite,
    ) -> Result<StateWritten>;
    /// Gives the lock of a state to who asks first.
    async fn stack_state_lock(
        &self,
        by: Audited<'_, Stack, WriteState>,
        request: &LockRequest,
    ) -> Result<StateLocked>;
    /// Ends the lock of this id; without one, whatever lock there is.
    async fn stack_state_unlock(
        &self,
        by: Audited<'_, Stack, WriteState>,
        id: Option<&str>,
    ) -> Result<StateUnlocked>;
}

impl App {
    /// The versions of a state that are kept, rejected ones too, newest first.
    pub async fn stack_state_versions(&self, ctx: &OpCtx, id: StackId) -> Result<Vec<StateVersion>> {
        let stack = self.authorized::<Stack, Read>(ctx, &StackSelector::Id(id)).await?;
        self.store.stack_state_versions(&stack).await
    }

    /// What a version holds, without values: its resources and the names of its outputs. The stack's state where no version is named.
    pub async fn stack_state_listed(
        &self,
        ctx: &OpCtx,
        id: StackId,
        version: Option<StateVersionId>,
    ) -> Result<(StateVersion, Vec<StateResource>, Vec<String>)> {
        let stack = self.authorized::<Stack, Read>(ctx, &StackSelector::Id(id)).await?;
        let version = match version {
            Some(version) => self.store.stack_state_version(id, version).await?,
            None => stack.state.clone().ok_or_else(|| Error::conflict("the stack has no state yet"))?,
        };
        let _place = self.state_looks.acquire().await;
        let body = self.stack_state_looked_into(&stack, &version).await?;
        let (resources, outputs) = on_a_thread(move || Ok(StateContent::read(&body)?.listed())).await?;
        Ok((version, resources, outputs))
    }

    /// What differs between two versions, without values.
    pub async fn stack_state_diff(
        &self,
        ctx: &OpCtx,
        id: StackId,
        (from, to): (StateVersionId, StateVersionId),
    ) -> Result<Vec<StateChange>> {
        let stack = self.authorized::<Stack, Read>(ctx, &StackSelector::Id(id)).await?;
        let from = self.store.stack_state_version(id, from).await?;
        let to = self.store.stack_state_version(id, to).await?;
        let _place = self.state_looks.acquire().await;
        let before = self.stack_state_looked_into(&stack, &from).await?;
        let after = self.stack_state_looked_into(&stack, &to).await?;
        on_a_thread(move || Ok(StateContent::read(&before)?.changes_to(&StateContent::read(&after)?))).await
    }

    /// The version that [`App::stack_state_read`] would answer, if there is a state; for whoever may read it.
    pub async fn stack_state_head(
        &self,
        ctx: &OpCtx,
        id: StackId,
        version: Option<StateVersionId>,
    ) -> Result<Option<StateVersion>> {
        let stack = self.authorized::<Stack, ReadState>(ctx, &StackSelector::Id(id)).await?;
        match version {
            Some(version) => self.store.stack_state_version(id, version).await.map(Some),
            None => Ok(stack.state.clone()),
        }
    }

    /// A version as the tool wrote it, with its values; told in the audit log.
    pub async fn stack_state_read(
        &self,
        ctx: &OpCtx,
        id: StackId,
        version: StateVersionId,
    ) -> Result<Vec<u8>> {
        let stack = self.authorized::<Stack, ReadState>(ctx, &StackSelector::Id(id)).await?;
        let version = self.store.stack_state_version(id, version).await?;
        let pieces = self.store.stack_state_read(stack.audited(ctx, "stack.state.read"), version.id).await?;
        self.stack_state_opened(&version, &pieces).await
    }

    /// Whether the caller may write, before anything of what they send is read.
    pub async fn stack_state_may_write(&self, ctx: &OpCtx, id: StackId) -> Result<()> {
        self.authorized::<Stack, WriteState>(ctx, &StackSelector::Id(id)).await.map(drop)
    }

    /// Keeps a state that a tool wrote, which says that it holds `lock`.
    pub async fn stack_state_write(
        &self,
        ctx: &OpCtx,
        id: StackId,
        lock: Option<String>,
        body: Bytes,
    ) -> Result<StateWritten> {
        let stack = self.authorized::<Stack, WriteState>(ctx, &StackSelector::Id(id)).await?;
        let write = self.stack_state_sealed(&stack, body, StateSource::Tool(lock)).await?;
        self.store.stack_state_write(stack.audited(ctx, "stack.state.write"), &write).await
    }

    /// Makes an earlier or a rejected version the stack's state, under the next serial: what the tool planned before that does not
    /// fit any more.
    pub async fn stack_state_restore(
        &self,
        ctx: &OpCtx,
        id: StackId,
        version: StateVersionId,
    ) -> Result<Stack> {
        let selector = StackSelector::Id(id);
        let writable = self.authorized::<Stack, WriteState>(ctx, &selector).await?;
        let stack = self.authorized::<Stack, Read>(ctx, &selector).await?;
        let version = self.store.stack_state_version(id, version).await?;
        let current = stack.state.as_ref();
        if current.is_some_and(|current| current.id == version.id) {
            return Err(Error::conflict("this version is the stack's state already"));
        }
        // All of it is in memory, more than once.
        let _place = self.state_looks.acquire().await;
        let pieces = self.store.stack_state_pieces(&stack, version.id).await?;
        let body = self.stack_state_opened(&version, &pieces).await?;
        drop(pieces);
        let serial = current.map_or(0, |current| current.serial).max(version.serial) + 1;
        let body = on_a_thread(move || with_serial(&body, serial)).await?;
        let from = StateSource::Version { taken: version.id, seen: current.map(|current| current.id) };
        let write = self.stack_state_sealed(&writable, body.into(), from).await?;
        match self.store.stack_state_write(writable.audited(ctx, "stack.state.restore"), &write).await? {
            StateWritten::Taken(_) | StateWritten::Repeated(_) => {}
            StateWritten::Rejected(version) => {
                let why = version.rejected.unwrap_or_default();
                return Err(Error::conflict(format!("the version cannot be restored: {why}")));
            }
            StateWritten::Locked(lock) => return Err(held(&lock)),
        }
        self.get::<Stack>(ctx, &selector).await
    }

    /// Locks a state for a tool.
    pub async fn stack_state_lock(
        &self,
        ctx: &OpCtx,
        id: StackId,
        request: &LockRequest,
    ) -> Result<StateLocked> {
        let stack = self.authorized::<Stack, WriteState>(ctx, &StackSelector::Id(id)).await?;
        let mut request = request.clone();
        if let Actor::Run(by) = ctx.actor() {
            let run = self.stack_run_again(by.run).await?;
            request.who.push_str(&of_job(&run));
        }
        self.store.stack_state_lock(stack.audited(ctx, "stack.state.lock"), &request).await
    }

    /// Takes the lock of this id back from a tool. One that names none was told by a person to end whatever lock there is:
    /// that is how the tools' `force-unlock` asks.
    pub async fn stack_state_unlock(
        &self,
        ctx: &OpCtx,
        id: StackId,
        lock: Option<&str>,
    ) -> Result<StateUnlocked> {
        let stack = self.authorized::<Stack, WriteState>(ctx, &StackSelector::Id(id)).await?;
        // The Job of a run ends its own lock and nobody else's: whoever is refused a lock is told its id.
        if let (Actor::Run(by), Some(held)) = (ctx.actor(), &stack.lock)
            && held.author != by.name()
        {
            return Ok(StateUnlocked::Held(held.clone()));
        }
        let action = if lock.is_some() { "stack.state.unlock" } else { "stack.state.force-unlock" };
        self.store.stack_state_unlock(stack.audited(ctx, action), lock).await
    }

    /// Ends somebody's lock of this id: whoever holds it can no longer write.
    pub async fn stack_state_force_unlock(&self, ctx: &OpCtx, id: StackId, lock: &str) -> Result<Stack> {
        let selector = StackSelector::Id(id);
        let stack = self.authorized::<Stack, WriteState>(ctx, &selector).await?;
        if stack.lock.is_none() {
            return Err(Error::conflict("the stack's state is not locked"));
        }
        let by = stack.audited(ctx, "stack.state.force-unlock");
        match self.store.stack_state_unlock(by, Some(lock)).await? {
            StateUnlocked::Free => self.get::<Stack>(ctx, &selector).await,
            StateUnlocked::Held(lock) => Err(held(&lock)),
        }
    }

    async fn stack_state_sealed(
        &self,
        stack: &Authorized<Stack, WriteState>,
        body: Bytes,
        from: StateSource,
    ) -> Result<StateWrite> {
        if body.len() > MAX_STATE_BYTES {
            let told = format!("must not exceed {} MiB", MAX_STATE_BYTES >> 20);
            return Err(Error::invalid("state", told));
        }
        let reading = body.clone();
        let head = on_a_thread(move || StateHead::read(&reading)).await?;
        let id = StateVersionId::new();
        let (context, sealing) =
            (context(id), self.sealer.sealing(KeyOwner::Project(stack.project_id)).await?);
        let mut pieces = Vec::with_capacity(body.len().div_ceil(PIECE));
        for (number, bytes) in (0_u32..).zip(body.chunks(PIECE)) {
            let mut piece = Vec::with_capacity(NUMBER + bytes.len());
            piece.extend_from_slice(&number.to_be_bytes());
            piece.extend_from_slice(bytes);
            pieces.push(sealing.seal(&context, &piece)?);
            // A large state does not hold up the thread.
            tokio::task::yield_now().await;
        }
        let kept = self.settings.stack_state_versions;
        Ok(StateWrite { id, head, size: body.len() as u64, pieces, from, kept })
    }

    async fn stack_state_looked_into(
        &self,
        stack: &Authorized<Stack, Read>,
        version: &StateVersion,
    ) -> Result<Vec<u8>> {
        if version.size > LOOKED_INTO {
            return Err(Error::conflict(format!(
                "the console looks into states of at most {} MiB: export it, and use the tool",
                LOOKED_INTO >> 20
            )));
        }
        let pieces = self.store.stack_state_pieces(stack, version.id).await?;
        self.stack_state_opened(version, &pieces).await
    }

    async fn stack_state_opened(&self, version: &StateVersion, pieces: &[Sealed]) -> Result<Vec<u8>> {
        let failed =
            |why: &'static str| Error::internal(format!("opening state version {}", version.id), why);
        let context = context(version.id);
        let mut body = Vec::with_capacity(usize::try_from(version.size).unwrap_or_default());
        for (number, sealed) in (0_u32..).zip(pieces) {
            let piece = self.sealer.open(&context, sealed).await?;
            let bytes =
                piece.strip_prefix(&number.to_be_bytes()).ok_or_else(|| failed("a piece is missing"))?;
            body.extend_from_slice(bytes);
            tokio::task::yield_now().await;
        }
        if body.len() as u64 == version.size { Ok(body) } else { Err(failed("its end is missing")) }
    }
}

/// What the pieces of a version are sealed for.
fn context(id: StateVersionId) -> String {
    format!("stack_state:{id}")
}

/// Which Job of a run has a lock, behind what its tool says of itself: a run has several, one after the other.
fn of_job(run: &StackRun) -> String {
    let job = run.job.as_ref().map_or_else(String::new, |job| format!(", {}/{}", job.namespace, job.name));
    format!(" ({}, Job {}{job})", run.phase.as_str(), run.attempt)
}

fn held(lock: &StateLock) -> Error {
    let StateLock { id, operation, who, author, created_at, .. } = lock;
    Error::conflict(format!(
        "the state is locked since {} by {author} ({who}, {operation}): lock id {id}",
        created_at.to_rfc3339()
    ))
}

/// What takes a processor for a while.
async fn on_a_thread<T: Send + 'static>(work: impl FnOnce() -> Result<T> + Send + 'static) -> Result<T> {
    spawn_blocking(work).await.map_err(|cause| Error::internal("reading a state", cause))?
}
