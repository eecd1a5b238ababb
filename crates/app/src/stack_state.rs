//! State of stacks: stored for the tool that writes it, in versions, sealed with the key of the stack's project.

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

/// Size of a piece of a state, in bytes. Each piece is sealed on its own: keys are rotated piece by piece.
const PIECE: usize = 256 << 10;
/// Bytes of the number before each piece.
const NUMBER: usize = 4;
/// Limit of a state that the console parses, in bytes: its values take many times as much memory.
const LOOKED_INTO: u64 = 16 << 20;
/// Limit of states that are parsed concurrently.
pub(crate) const LOOKS: usize = 2;

/// A state to be stored.
#[derive(Debug)]
pub struct StateWrite {
    /// The id of the new version.
    pub id: StateVersionId,
    /// Its metadata.
    pub head: StateHead,
    /// Size in bytes.
    pub size: u64,
    /// Its pieces in order, each sealed for `stack_state:ID`.
    pub pieces: Vec<Sealed>,
    /// Its source.
    pub from: StateSource,
    /// Limit of stored versions, and of stored rejected ones.
    pub kept: u32,
}

/// The source of a state.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum StateSource {
    /// The tool wrote it, and claims to hold this lock.
    Tool(Option<String>),
    /// A user chose an earlier or a rejected version.
    Version {
        /// The chosen version.
        taken: StateVersionId,
        /// The current version when they chose.
        seen: Option<StateVersionId>,
    },
}

/// The result of a write.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum StateWritten {
    /// It is the stack's state now.
    Taken(StateVersion),
    /// It was the stack's state already.
    Repeated(StateVersion),
    /// It is stored as a rejected version, with the reason.
    Rejected(StateVersion),
    /// Somebody else holds the lock; it is not stored.
    Locked(StateLock),
}

/// The result of a lock request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum StateLocked {
    /// It is granted.
    Taken(StateLock),
    /// Somebody else holds it.
    Held(StateLock),
}

/// The result of an unlock request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum StateUnlocked {
    /// The state is unlocked.
    Free,
    /// Somebody else holds the lock.
    Held(StateLock),
}

/// State of stacks.
#[async_trait]
pub trait StackStateStore: Send + Sync + 'static {
    /// The stored versions of a state, including rejected ones, newest first.
    async fn stack_state_versions(&self, stack: &Authorized<Stack, Read>) -> Result<Vec<StateVersion>>;
    /// One version; [`Error::NotFound`] if it is of another stack.
    async fn stack_state_version(&self, stack: StackId, id: StateVersionId) -> Result<StateVersion>;
    /// The pieces of a version, for a caller who gets the whole content: writes an audit line.
    async fn stack_state_read(
        &self,
        by: Audited<'_, Stack, ReadState>,
        id: StateVersionId,
    ) -> Result<Vec<Sealed>>;
    /// The pieces of a version, for the console itself.
    async fn stack_state_pieces(
        &self,
        stack: &Authorized<Stack, Read>,
        id: StateVersionId,
    ) -> Result<Vec<Sealed>>;
    /// Stores a state, as [`plural_core::stack_state::judge_write`] decides. A user's choice is accepted, or refused with
    /// [`Error::Conflict`]; a tool's write that is not accepted is stored as a rejected version.
    async fn stack_state_write(
        &self,
        by: Audited<'_, Stack, WriteState>,
        write: &StateWrite,
    ) -> Result<StateWritten>;
    /// Locks a state for the first who asks.
    async fn stack_state_lock(
        &self,
        by: Audited<'_, Stack, WriteState>,
        request: &LockRequest,
    ) -> Result<StateLocked>;
    /// Releases the lock with this id; without an id, any lock.
    async fn stack_state_unlock(
        &self,
        by: Audited<'_, Stack, WriteState>,
        id: Option<&str>,
    ) -> Result<StateUnlocked>;
}

impl App {
    /// The stored versions of a state, including rejected ones, newest first.
    pub async fn stack_state_versions(&self, ctx: &OpCtx, id: StackId) -> Result<Vec<StateVersion>> {
        let stack = self.authorized::<Stack, Read>(ctx, &StackSelector::Id(id)).await?;
        self.store.stack_state_versions(&stack).await
    }

    /// The content of a version, without values: its resources and the names of its outputs. Of the current state if no version is named.
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

    /// The difference between two versions, without values.
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

    /// The version that [`App::stack_state_read`] would return, if there is a state; for callers who may read it.
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

    /// A version as the tool wrote it, with its values; writes an audit line.
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

    /// Whether the caller may write, before the console reads the body.
    pub async fn stack_state_may_write(&self, ctx: &OpCtx, id: StackId) -> Result<()> {
        self.authorized::<Stack, WriteState>(ctx, &StackSelector::Id(id)).await.map(drop)
    }

    /// Stores a state from a tool that claims to hold `lock`.
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

    /// Makes an earlier or a rejected version the stack's state, under the next serial: earlier plans of the tool become
    /// invalid.
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

    /// Releases the lock with this id for a tool. A request without an id releases any lock:
    /// the tools' `force-unlock` sends it, on the order of a user.
    pub async fn stack_state_unlock(
        &self,
        ctx: &OpCtx,
        id: StackId,
        lock: Option<&str>,
    ) -> Result<StateUnlocked> {
        let stack = self.authorized::<Stack, WriteState>(ctx, &StackSelector::Id(id)).await?;
        // The Job of a run releases its own lock only: a refused lock request reveals the id of the lock.
        if let (Actor::Run(by), Some(held)) = (ctx.actor(), &stack.lock)
            && held.author != by.name()
        {
            return Ok(StateUnlocked::Held(held.clone()));
        }
        let action = if lock.is_some() { "stack.state.unlock" } else { "stack.state.force-unlock" };
        self.store.stack_state_unlock(stack.audited(ctx, action), lock).await
    }

    /// Releases anybody's lock with this id: its holder can no longer write.
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
            // Parsing a large state must not block the thread.
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

/// The associated data of a version's sealed pieces.
fn context(id: StateVersionId) -> String {
    format!("stack_state:{id}")
}

/// Names the Job of a run that holds a lock, after the tool's own text: a run has several Jobs, one after the other.
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

/// Runs work that keeps a processor busy for a while.
async fn on_a_thread<T: Send + 'static>(work: impl FnOnce() -> Result<T> + Send + 'static) -> Result<T> {
    spawn_blocking(work).await.map_err(|cause| Error::internal("reading a state", cause))?
}
