//! The audit log.
//!
//! What changes something writes its line in its own transaction. Besides, it is told who read a secret, who tried to sign in and
//! could not, and who was refused. These lines are counted: the first is stored, the same again within a while only adds to a number,
//! so that nobody fills the log by asking often.

use std::borrow::Cow;
use std::collections::hash_map::Entry;
use std::collections::{HashMap, HashSet};
use std::net::IpAddr;
use std::time::Duration;

use async_trait::async_trait;
use chrono::{DateTime, TimeDelta, Utc};
use parking_lot::Mutex;
use plural_core::access::{Actor, Scope, UserActor};
use plural_core::audit::{AuditEntry, AuditFilter, AuditRow};
use plural_core::ids::{RequestId, TokenId};
use plural_core::service::Service;
use plural_core::token::AccessToken;
use plural_core::{ErrorCode, Page, PageArgs, PageRequest, Result};
use plural_kit::{ShutdownSignal, network_of};
use uuid::Uuid;

use crate::access::{Authorized, Installation, Noun, Read, Write, authorize_installation, entry};
use crate::app::App;
use crate::ctx::OpCtx;

/// The audit log.
#[async_trait]
pub trait AuditStore: Send + Sync + 'static {
    /// Stores lines of what changed nothing.
    async fn audit_note(&self, entries: &[AuditEntry]) -> Result<()>;
    /// Lines.
    async fn audit_list(
        &self,
        by: &Authorized<Installation, Read>,
        filter: &AuditFilter,
        page: &PageRequest,
    ) -> Result<Page<AuditRow>>;
}

/// Between two looks for lines to store.
const STORE_EVERY: Duration = Duration::from_secs(2);
/// After a line was stored, the same again waits for so long; each time twice as long, while it goes on.
const FIRST_WAIT: TimeDelta = TimeDelta::minutes(1);
/// The longest wait.
const LONGEST_WAIT: TimeDelta = TimeDelta::hours(1);
/// Different lines that are counted at once.
const MOST: usize = 4096;
/// The same of callers without a credential.
const MOST_OF_NOBODY: usize = 256;
/// Different requests of one caller that are refused and told apart; others are told as one.
const MOST_OF_ONE: usize = 20;
/// Tokens whose use is remembered; with more of them some are told of twice.
const MOST_TOKENS: usize = 65_536;
/// Names in a line about several things.
const MOST_NAMES: usize = 10;

/// What makes two lines the same.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Kind {
    actor: String,
    action: Cow<'static, str>,
    target: Option<Uuid>,
    name: String,
}

/// Lines of one kind.
struct Tally {
    /// The last one.
    entry: AuditEntry,
    /// How many are not stored yet.
    times: u32,
    /// When they are.
    due: DateTime<Utc>,
    /// How long the next ones wait.
    wait: TimeDelta,
}

/// Lines that no write carries, on their way to the database.
#[derive(Default)]
pub(crate) struct AuditNotes(Mutex<HashMap<Kind, Tally>>);

impl AuditNotes {
    /// Counts a line. `true`: it is the first of its kind for a while, and whoever counts it has to store it.
    fn is_first(&self, entry: &AuditEntry) -> bool {
        let mut tallies = self.0.lock();
        let kind = kind_of(entry);
        if tallies.len() >= 2 * MOST && !tallies.contains_key(&kind) {
            // More than is counted: each is stored.
            return true;
        }
        match tallies.entry(kind) {
            Entry::Occupied(mut known) => {
                let tally = known.get_mut();
                tally.times = tally.times.saturating_add(1);
                tally.entry = entry.clone();
                false
            }
            Entry::Vacant(vacant) => {
                let due = entry.at + FIRST_WAIT;
                vacant.insert(Tally { entry: entry.clone(), times: 0, due, wait: FIRST_WAIT });
                true
            }
        }
    }

    /// Counts a line, which is stored within a moment or with others of its kind.
    fn count(&self, mut entry: AuditEntry, nobody: bool) {
        let mut tallies = self.0.lock();
        let mut kind = kind_of(&entry);
        if !tallies.contains_key(&kind) && tallies.len() >= MOST_OF_ONE {
            let own = |known: &&Kind| known.actor == kind.actor && known.action.starts_with(REFUSED);
            let of_nobody = || tallies.keys().filter(|known| known.actor.starts_with(NOBODY)).count();
            let many = tallies.len() >= MOST || (nobody && of_nobody() >= MOST_OF_NOBODY);
            let other = tallies.keys().filter(own).count() >= MOST_OF_ONE;
            if other {
                entry.action = format!("{REFUSED}others").into();
            } else if many {
                entry.actor =
                    if nobody { format!("{NOBODY} from many addresses") } else { "many".to_owned() };
                entry.user_id = None;
            }
            if other || many {
                entry.target.id = None;
                entry.target.name = String::new();
                kind = kind_of(&entry);
            }
        }
        let at = entry.at;
        let tally = tallies.entry(kind).or_insert_with(|| Tally {
            entry: entry.clone(),
            times: 0,
            due: at,
            wait: FIRST_WAIT,
        });
        tally.times = tally.times.saturating_add(1);
        tally.entry = entry;
    }

    /// A line that could not be stored is as if it had not been counted.
    fn forget(&self, entry: &AuditEntry) {
        self.0.lock().remove(&kind_of(entry));
    }

    /// The lines that are to be stored now; all of them when nobody comes back.
    fn due(&self, now: DateTime<Utc>, last: bool) -> Vec<AuditEntry> {
        let mut due = Vec::new();
        self.0.lock().retain(|_, tally| {
            if tally.due > now && !last {
                return true;
            }
            if tally.times == 0 {
                // It has not happened again.
                return false;
            }
            due.push(AuditEntry { times: tally.times, ..tally.entry.clone() });
            tally.times = 0;
            tally.due = now + tally.wait;
            tally.wait = (tally.wait * 2).min(LONGEST_WAIT);
            true
        });
        due
    }

    /// Takes back what could not be stored.
    fn take_back(&self, entries: Vec<AuditEntry>) {
        let mut tallies = self.0.lock();
        for entry in entries {
            if let Some(tally) = tallies.get_mut(&kind_of(&entry)) {
                tally.times = tally.times.saturating_add(entry.times);
                tally.due = entry.at;
            }
        }
    }
}

/// Tokens that were used within this hour.
#[derive(Default)]
pub(crate) struct TokenUses(Mutex<(i64, HashSet<TokenId>)>);

impl TokenUses {
    /// Whether it was not used before within this hour, as far as this replica remembers.
    fn is_first(&self, token: TokenId, now: DateTime<Utc>) -> bool {
        let hour = now.timestamp().div_euclid(3600);
        let mut uses = self.0.lock();
        if uses.0 != hour || uses.1.len() >= MOST_TOKENS {
            *uses = (hour, HashSet::new());
        }
        uses.1.insert(token)
    }

    fn forget(&self, token: TokenId) {
        self.0.lock().1.remove(&token);
    }
}

/// What a caller without a credential is called.
const NOBODY: &str = "nobody";
/// How the action of a line begins that tells of a refusal.
const REFUSED: &str = "refused.";

fn kind_of(entry: &AuditEntry) -> Kind {
    Kind {
        actor: entry.actor.clone(),
        action: entry.action.clone(),
        target: entry.target.id,
        name: entry.target.name.clone(),
    }
}

impl App {
    /// Who did what; administrators only.
    pub async fn audit_list(&self, ctx: &OpCtx, page: &PageArgs) -> Result<Page<AuditRow>> {
        self.audit_find(ctx, &AuditFilter::default(), page).await
    }

    /// Lines of the audit log that match; administrators only.
    pub async fn audit_find(
        &self,
        ctx: &OpCtx,
        filter: &AuditFilter,
        page: &PageArgs,
    ) -> Result<Page<AuditRow>> {
        let by = authorize_installation::<Read>(ctx, Scope::AdminOnly)?;
        self.store.audit_list(&by, filter, &page.request()?).await
    }

    /// Tells that a token is used: its first use within an hour on this replica is a line, the others are not.
    pub async fn audit_token_used(&self, actor: &Actor, request_id: RequestId, peer: Option<IpAddr>) {
        let Actor::User(UserActor { token: Some(token), .. }) = actor else { return };
        if !self.token_uses.is_first(token.id, self.now()) {
            return;
        }
        let ctx = self.ctx(actor.clone()).with_request_id(request_id).with_peer(peer);
        let line = entry(&ctx, "token.use", AccessToken::NOUN, Some(token.id.uuid()), String::new());
        if let Err(error) = self.store.audit_note(std::slice::from_ref(&line)).await {
            // Who has the token may still use it: the next request tries again.
            self.token_uses.forget(token.id);
            tracing::warn!(error = error.log_text(), "cannot store that a token was used; trying again");
        }
    }

    /// Tells that a caller was refused: what it may not do, or, for something that would change something, what it is told does not
    /// exist. `operation` is one of those that there are, never a text of the caller.
    pub fn audit_refused(&self, ctx: &OpCtx, operation: &str, code: ErrorCode) {
        let mut entry =
            entry(ctx, format!("{REFUSED}{operation}"), "request", None, code.as_str().to_owned());
        let nobody = matches!(ctx.actor(), Actor::Nobody);
        if nobody {
            entry.actor = nobody_at(ctx.peer());
        }
        self.audit_notes.count(entry, nobody);
    }

    /// Tells that somebody could not sign in. Nothing that was typed is kept: passwords are typed into the wrong field.
    pub(crate) fn audit_sign_in_refused(&self, ctx: &OpCtx, account: Option<(Uuid, String)>) {
        let (id, name) = account.unzip();
        let mut entry = entry(ctx, "session.refused", "user", id, name.unwrap_or_default());
        entry.actor = nobody_at(ctx.peer());
        entry.user_id = None;
        self.audit_notes.count(entry, true);
    }

    /// Tells of something that changed nothing and may be tried often.
    pub(crate) fn audit_counted<T: Noun, A: crate::access::Act>(
        &self,
        ctx: &OpCtx,
        thing: &Authorized<T, A>,
        action: &'static str,
    ) {
        self.audit_notes.count(thing.audited(ctx, action).entry().clone(), false);
    }

    /// Tells that a secret is read, before it is given out.
    ///
    /// # Errors
    /// When that cannot be stored: then it must not be given out.
    pub(crate) async fn audit_read<T: Noun, A: crate::access::Act>(
        &self,
        ctx: &OpCtx,
        thing: &Authorized<T, A>,
        action: &'static str,
    ) -> Result<()> {
        self.audit_first(thing.audited(ctx, action).entry().clone()).await
    }

    /// The same of secrets of several services at once: one line.
    pub(crate) async fn audit_read_many(
        &self,
        ctx: &OpCtx,
        services: &[&Authorized<Service, Write>],
        action: &'static str,
    ) -> Result<()> {
        match services {
            [] => Ok(()),
            [one] => self.audit_read(ctx, one, action).await,
            all => {
                let mut names: Vec<&str> = all.iter().map(|service| service.name.as_str()).collect();
                names.sort_unstable();
                let more = names.len().saturating_sub(MOST_NAMES);
                names.truncate(MOST_NAMES);
                let names = names.join(", ");
                let name = if more > 0 { format!("{names} and {more} more") } else { names };
                self.audit_first(entry(ctx, action, Service::NOUN, None, name)).await
            }
        }
    }

    async fn audit_first(&self, entry: AuditEntry) -> Result<()> {
        if !self.audit_notes.is_first(&entry) {
            return Ok(());
        }
        let stored = self.store.audit_note(std::slice::from_ref(&entry)).await;
        if stored.is_err() {
            self.audit_notes.forget(&entry);
        }
        stored
    }

    /// Stores counted lines until asked to stop, then what is left.
    pub(crate) async fn audit_run(&self, stop: &ShutdownSignal) -> Result<()> {
        let mut tick = tokio::time::interval(STORE_EVERY);
        tick.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        loop {
            tokio::select! {
                _ = tick.tick() => self.audit_store(false).await,
                () = stop.requested() => break,
            }
        }
        self.audit_store(true).await;
        Ok(())
    }

    async fn audit_store(&self, last: bool) {
        let due = self.audit_notes.due(self.now(), last);
        if due.is_empty() {
            return;
        }
        if let Err(error) = self.store.audit_note(&due).await {
            tracing::warn!(error = error.log_text(), "cannot store lines of the audit log; trying again");
            self.audit_notes.take_back(due);
        }
    }
}

/// A caller without a credential, by the network that it calls from.
fn nobody_at(peer: Option<IpAddr>) -> String {
    match peer.map(network_of) {
        None => NOBODY.to_owned(),
        Some(IpAddr::V4(address)) => format!("{NOBODY} at {address}"),
        Some(IpAddr::V6(network)) => format!("{NOBODY} at {network}/64"),
    }
}

#[cfg(test)]
mod tests {
    use plural_core::audit::AuditTarget;

    use super::*;

    fn line(actor: &str, action: String, second: i64) -> AuditEntry {
        AuditEntry {
            action: action.into(),
            user_id: None,
            actor: actor.to_owned(),
            target: AuditTarget { noun: "request".into(), id: None, name: String::new() },
            token_id: None,
            address: None,
            request_id: RequestId::new(),
            at: at(second),
            times: 1,
            before: None,
            after: None,
        }
    }

    fn at(second: i64) -> DateTime<Utc> {
        DateTime::UNIX_EPOCH + TimeDelta::seconds(second)
    }

    fn times(entries: &[AuditEntry]) -> Vec<u32> {
        entries.iter().map(|entry| entry.times).collect()
    }

    #[test]
    fn what_goes_on_is_told_more_and_more_seldom() {
        let notes = AuditNotes::default();
        let mut stored = Vec::new();
        let mut counted = 0;
        for second in 0..24 * 3600 {
            notes.count(line("ada", "refused.a".to_owned(), second), false);
            counted += 1;
            stored.extend(notes.due(at(second), false));
        }
        stored.extend(notes.due(at(24 * 3600), true));
        assert!((25..35).contains(&stored.len()), "{} lines of a day", stored.len());
        assert_eq!(times(&stored).iter().sum::<u32>(), counted, "none is lost");
    }

    #[test]
    fn a_read_is_told_at_once_and_then_counted() {
        let notes = AuditNotes::default();
        assert!(notes.is_first(&line("ada", "read".to_owned(), 0)));
        assert!(!notes.is_first(&line("ada", "read".to_owned(), 5)));
        assert!(!notes.is_first(&line("ada", "read".to_owned(), 6)));
        assert!(notes.is_first(&line("bob", "read".to_owned(), 6)));
        assert!(notes.due(at(30), false).is_empty());
        assert_eq!(times(&notes.due(at(61), false)), [2]);
        assert!(notes.due(at(1000), false).is_empty());
        assert!(notes.is_first(&line("ada", "read".to_owned(), 1001)), "forgotten after a quiet while");
    }

    #[test]
    fn what_cannot_be_stored_is_kept() {
        let notes = AuditNotes::default();
        notes.count(line("ada", "refused.a".to_owned(), 0), false);
        let due = notes.due(at(0), false);
        notes.count(line("ada", "refused.a".to_owned(), 1), false);
        notes.take_back(due);
        assert_eq!(times(&notes.due(at(2), false)), [2]);
    }

    #[test]
    fn nobody_fills_the_log() {
        let notes = AuditNotes::default();
        for n in 0..10_000 {
            notes.count(line("ada", format!("refused.{n}"), 0), false);
            notes.count(
                line(&format!("nobody at 10.0.{}.{}", n / 250, n % 250), "session.refused".to_owned(), 0),
                true,
            );
            notes.count(line(&format!("user-{n}"), "refused.a".to_owned(), 0), false);
        }
        let due = notes.due(at(0), false);
        assert!(due.len() <= MOST + 3, "{}", due.len());
        assert_eq!(times(&due).iter().sum::<u32>(), 30_000, "all are counted");
        let of = |actor: &str| due.iter().filter(|entry| entry.actor.starts_with(actor)).count();
        assert_eq!(of("ada"), MOST_OF_ONE + 1);
        assert_eq!(of("nobody"), MOST_OF_NOBODY + 1);
    }
}
