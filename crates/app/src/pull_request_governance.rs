//! Governance of pull requests: the console reports each head to the governance, polls it until it confirms the head, approves at the host,
//! and reports the end of the pull request. Each step is recorded before the next one begins, with the follow-up job: a console that
//! stops at any point repeats at most one call, with the same delivery id.

use std::sync::Arc;
use std::time::Duration;

use plural_core::data_key::KeyOwner;
use plural_core::ids::PullRequestId;
use plural_core::pr_automation::target_allowed;
use plural_core::pr_governance::{PrGovernance, PrGoverned, PrReview, PrReviewPhase};
use plural_core::pull_request::{PrStatus, PullRequest};
use plural_core::specs::Change;
use plural_core::stack_pull_comment::PullState;
use plural_core::{Error, Result};
use plural_kit::Backoff;
use secrecy::SecretString;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use crate::app::App;
use crate::job::NewJob;
use crate::jobs::{GovernPullRequest, KnownPullRequest, ReadPullRequest};
use crate::ports::git_host_pulls::HostCheck;
use crate::ports::git_hosts::{Host, HostCause, HostError, HostPull};
use crate::ports::governances::{GovernanceAnswer, GovernanceCall, GovernanceVerb};
use crate::pr_governance::{PrGovernanceRow, PrGovernanceSelector, PrReviewStep};
use crate::records::there;
use crate::seal::Sealed;

/// The name of the commit's check at the host.
const CHECK: &str = "plural/governance";
/// Upper bound of the first pause between two attempts; each later bound doubles.
const FIRST_PAUSE: Duration = Duration::from_secs(4);
/// The longest such bound.
const LONGEST_PAUSE: Duration = Duration::from_mins(10);
/// Limit of steps per run of the job: from a new head to an approved one, and again if the head moves meanwhile.
const STEPS: usize = 8;
/// Limit of attempts to report the end of a pull request: about a day, at the longest pauses.
const MOST_CLOSES: u32 = 290;
/// Limit of the state of a governance, in bytes.
const MAX_STATE: usize = 32 << 10;

/// The result of a step.
enum Step {
    /// The next phase, perhaps with a new state.
    On(PrReview, Change<Value>),
    /// A retry after a pause, perhaps with a new state.
    Again(PrReview, Change<Value>),
    /// The record differs from the host: it has to be read back first.
    Stale,
}

/// The answer of a governance.
#[derive(Debug, PartialEq)]
enum Answer {
    /// It did what was asked, with its new state.
    Done(Option<Value>),
    /// Not yet.
    Later(Option<Value>, Option<String>),
    /// It refused, for now.
    No(String),
    /// The call failed.
    Failed(String),
}

/// The sealed state, for one URL. Another URL starts without a state.
#[derive(Serialize, Deserialize)]
struct KeptState {
    url: String,
    state: Value,
}

/// The context of a step.
struct Governing<'a> {
    pull: &'a PullRequest,
    review: &'a PrReview,
    /// The commit.
    head: &'a str,
    row: PrGovernanceRow,
    secret: Option<SecretString>,
    state: Value,
}

impl App {
    /// Carries out the due steps of a pull request and its governance.
    pub(crate) async fn pull_request_govern(&self, id: PullRequestId) -> Result<()> {
        for _ in 0..STEPS {
            let Some(pull) = there(self.get::<PullRequest>(&self.system_ctx(), &id).await)? else {
                return Ok(());
            };
            let Some(PrGoverned { governance_id, review }) = &pull.governed else { return Ok(()) };
            let Some(head) = review.head.as_deref() else { return Ok(()) };
            if matches!(review.phase, PrReviewPhase::Approved | PrReviewPhase::Closed) {
                return Ok(());
            }
            let Some(row) = self.store.pr_governance_row(*governance_id).await? else { return Ok(()) };
            let secret = self.governance_secret(&row).await?;
            let state = self.governance_state(id, &row.governance).await?;
            let it = Governing { pull: &pull, review, head, row, secret, state };
            let step = match review.phase {
                PrReviewPhase::Open => Box::pin(self.governance_open(&it)).await,
                PrReviewPhase::Confirm => Box::pin(self.governance_confirm(&it)).await,
                PrReviewPhase::Approve => Box::pin(self.governance_approve(&it)).await,
                PrReviewPhase::Close => Box::pin(self.governance_close(&it)).await,
                PrReviewPhase::Approved | PrReviewPhase::Closed => return Ok(()),
            };
            let (after, state, pause) = match step {
                Step::On(after, state) => (after, state, None),
                Step::Again(after, state) => (after, state, Some(pause_after(review.attempts))),
                Step::Stale => {
                    // The read resets the review, at once; if it does not come, this job retries.
                    let job = NewJob::of::<ReadPullRequest>(&KnownPullRequest { id })?;
                    self.store.jobs_enqueue(&[job], self.now()).await?;
                    let after = review.again(
                        review.refused,
                        Some("its host tells of another head, or of another branch that it goes to"),
                    );
                    (after, Change::Keep, Some(pause_after(review.attempts)))
                }
            };
            let jobs = match pause {
                Some(pause) => vec![govern_job(id)?.after(pause)],
                None => Vec::new(),
            };
            let state = match state {
                Change::Keep => Change::Keep,
                Change::Clear => Change::Clear,
                Change::Set(state) => Change::Set(self.governance_state_sealed(&it, state).await?),
            };
            let step = PrReviewStep { before: review.clone(), after, state };
            let is_written = self.store.pull_request_review_step(id, &step, &jobs, self.now()).await?;
            // Another head by now, or the end: the loop continues with that.
            if is_written && pause.is_some() {
                return Ok(());
            }
        }
        self.store.jobs_enqueue(&[govern_job(id)?], self.now()).await
    }

    /// Refuses to merge a commit that the governance of a pull request did not confirm.
    ///
    /// # Errors
    /// [`Error::Conflict`], which says what the merge waits for.
    pub(crate) async fn pull_request_governed(&self, pull: &PullRequest, head: &str) -> Result<()> {
        let Some(PrGoverned { governance_id, review }) = &pull.governed else { return Ok(()) };
        let Some(waits_for) = review.waits_for(head) else { return Ok(()) };
        let by = PrGovernanceSelector::Id(*governance_id);
        let governance = there(self.get::<PrGovernance>(&self.system_ctx(), &by).await)?;
        let name = governance.map(|governance| governance.name.to_string()).unwrap_or_default();
        let short = head.get(..12).unwrap_or(head);
        Err(Error::conflict(format!(
            "the pull request waits for its governance {name} to confirm the commit {short}: {waits_for}"
        )))
    }

    /// Reports the head to the governance, and a pending check to the host.
    async fn governance_open(&self, it: &Governing<'_>) -> Step {
        let (host, read) = match self.governance_host(it).await {
            Ok(Some(found)) => found,
            Ok(None) => return Step::Stale,
            Err(why) => return again(it, &why),
        };
        if let Err(why) =
            self.governance_told(it, &host, PullState::Pending, "is to confirm this commit").await
        {
            return again(it, &why);
        }
        let answer = self.governance_called(it, GovernanceVerb::Open, Some(&read)).await;
        match answer {
            Answer::Done(state) | Answer::Later(state, _) => {
                Step::On(it.review.next(PrReviewPhase::Confirm), set(state))
            }
            Answer::No(why) | Answer::Failed(why) => again(it, &why),
        }
    }

    /// Asks whether the governance confirms the head.
    async fn governance_confirm(&self, it: &Governing<'_>) -> Step {
        let (host, read) = match self.governance_host(it).await {
            Ok(Some(found)) => found,
            Ok(None) => return Step::Stale,
            Err(why) => return again(it, &why),
        };
        let review = it.review;
        match self.governance_called(it, GovernanceVerb::Confirm, Some(&read)).await {
            Answer::Done(state) => {
                let mut after = review.next(PrReviewPhase::Approve);
                after.confirmed = Some(it.head.to_owned());
                Step::On(after, set(state))
            }
            Answer::Later(state, said) => {
                if review.refused {
                    let told =
                        self.governance_told(it, &host, PullState::Pending, "is to confirm this commit");
                    if let Err(why) = told.await {
                        return again(it, &why);
                    }
                }
                Step::Again(review.again(false, said.as_deref()), set(state))
            }
            Answer::No(why) => {
                let after = review.again(true, Some(&why));
                if !review.refused || review.said != after.said {
                    let said = after.said.clone().unwrap_or_default();
                    let text = format!("does not confirm this commit: {said}");
                    if let Err(why) = self.governance_told(it, &host, PullState::Failure, &text).await {
                        return again(it, &why);
                    }
                }
                Step::Again(after, Change::Keep)
            }
            Answer::Failed(why) => again(it, &why),
        }
    }

    /// Approves the confirmed head at its host, with the account of the governance's connection.
    async fn governance_approve(&self, it: &Governing<'_>) -> Step {
        let (host, _) = match self.governance_host(it).await {
            Ok(Some(found)) => found,
            Ok(None) => return Step::Stale,
            Err(why) => return again(it, &why),
        };
        if let Err(why) = self.governance_told(it, &host, PullState::Success, "confirmed this commit").await {
            return again(it, &why);
        }
        let told = &it.pull.told;
        let approved = async {
            let (connection, host) = self.scm_host(it.row.governance.connection_id).await.map_err(words)?;
            target_allowed(it.pull.project_id, &connection, Some(&told.repository)).map_err(words)?;
            let number = it.pull.number().map_err(words)?;
            let text = format!("Confirmed by the governance {} at {}.", it.row.governance.name, it.head);
            host.approve(&told.repository, number, it.head, &text).await.map_err(|error| error.message)
        };
        match approved.await {
            Ok(()) => Step::On(it.review.next(PrReviewPhase::Approved), Change::Keep),
            Err(why) => again(it, &format!("it is confirmed, and not approved at the host: {why}")),
        }
    }

    /// Reports the end of the pull request to the governance.
    async fn governance_close(&self, it: &Governing<'_>) -> Step {
        // Without its text if the host no longer has it.
        let read = match (self.pull_request_host(it.pull).await, it.pull.number()) {
            (Ok(host), Ok(number)) => host.pull_request(&it.pull.told.repository, number).await.ok(),
            (Err(_), _) | (_, Err(_)) => None,
        };
        let closed = Step::On(it.review.next(PrReviewPhase::Closed), Change::Clear);
        match self.governance_called(it, GovernanceVerb::Close, read.as_ref()).await {
            Answer::Done(_) | Answer::Later(..) => closed,
            Answer::No(why) | Answer::Failed(why) if it.review.attempts < MOST_CLOSES => again(it, &why),
            Answer::No(why) | Answer::Failed(why) => {
                let pull = it.pull.id;
                tracing::warn!(pull_request.id = %pull, why, "a governance is not told any longer that a pull request is over");
                closed
            }
        }
    }

    /// The host, and its current pull request; `None` if that has ended, or has another head or target branch.
    async fn governance_host(&self, it: &Governing<'_>) -> Result<Option<(Arc<dyn Host>, HostPull)>, String> {
        let host = self.pull_request_host(it.pull).await.map_err(words)?;
        let number = it.pull.number().map_err(words)?;
        let read = host.pull_request(&it.pull.told.repository, number).await;
        let read = read.map_err(|HostError { cause: _, message }| message)?;
        let base = Some(read.base.as_str()).filter(|base| !base.is_empty());
        let is_so = read.status == PrStatus::Open
            && read.head.eq_ignore_ascii_case(it.head)
            && it.review.is_for(base);
        Ok(is_so.then_some((host, read)))
    }

    /// Publishes the check of the head at the host. A host without checks is skipped.
    async fn governance_told(
        &self,
        it: &Governing<'_>,
        host: &Arc<dyn Host>,
        state: PullState,
        what: &str,
    ) -> Result<(), String> {
        let description = format!("{} {what}", it.row.governance.name);
        let check = HostCheck { context: CHECK.to_owned(), state, description, url: None };
        match host.check_tell(&it.pull.told.repository, it.head, &check).await {
            Ok(()) => Ok(()),
            Err(error) if error.cause == HostCause::Later => Err(error.message),
            Err(error) => {
                tracing::warn!(pull_request.id = %it.pull.id, %error, "a git host does not take the check of a governance");
                Ok(())
            }
        }
    }

    /// Calls the governance.
    async fn governance_called(
        &self,
        it: &Governing<'_>,
        verb: GovernanceVerb,
        read: Option<&HostPull>,
    ) -> Answer {
        let told = &it.pull.told;
        let body = json!({
            // The signature covers it together with the body, so that no call can be replayed as another one.
            "verb": verb.as_str(),
            "state": it.state,
            "pr": {
                "id": it.pull.id.to_string(),
                "title": told.title,
                "body": read.map_or("", |read| read.body.as_str()),
                "ref": told.branch,
                "base": it.review.base,
                "url": told.url,
                "status": told.status.as_str().to_ascii_lowercase(),
                "labels": told.labels,
                "sha": it.head,
            },
        });
        let base = hex::encode(it.review.base.as_deref().unwrap_or_default());
        let call = GovernanceCall {
            url: it.row.governance.url.clone(),
            secret: it.secret.clone(),
            verb,
            // The same head with another target branch is a new question. A header cannot contain every name of a branch.
            delivery: format!("{}:{}:{}:{base}", it.pull.id, verb.as_str(), it.head),
            body: body.to_string().into_bytes(),
        };
        match self.governances.call(call).await {
            Ok(answer) => heard(verb, &answer),
            Err(why) => Answer::Failed(why),
        }
    }

    /// The stored state of the governance.
    async fn governance_state(&self, id: PullRequestId, governance: &PrGovernance) -> Result<Value> {
        let Some(sealed) = self.store.pull_request_review_state(id).await? else { return Ok(Value::Null) };
        let json = self.sealer.open(&state_context(id), &sealed).await?;
        let kept: KeptState = serde_json::from_slice(&json)
            .map_err(|_| Error::internal("reading the state of a governance", "it is not what was sealed"))?;
        Ok(if kept.url == governance.url { kept.state } else { Value::Null })
    }

    async fn governance_state_sealed(&self, it: &Governing<'_>, state: Value) -> Result<Sealed> {
        let kept = KeptState { url: it.row.governance.url.clone(), state };
        let json = serde_json::to_vec(&kept)
            .map_err(|_| Error::internal("writing the state of a governance", "it has no JSON"))?;
        let owner = KeyOwner::of(Some(it.pull.project_id));
        self.sealer.seal(owner, &state_context(it.pull.id), &json).await
    }
}

/// The pause after this many failed attempts: it grows, with jitter.
fn pause_after(attempts: u32) -> Duration {
    Backoff::new(FIRST_PAUSE, LONGEST_PAUSE).after(attempts).next_wait()
}

/// The job that carries out the steps of a pull request.
pub(crate) fn govern_job(id: PullRequestId) -> Result<NewJob> {
    NewJob::of::<GovernPullRequest>(&KnownPullRequest { id })
}

/// A retry of the same step, for this reason.
fn again(it: &Governing<'_>, why: &str) -> Step {
    // A refusal stays until the governance says otherwise.
    Step::Again(it.review.again(it.review.refused, Some(why)), Change::Keep)
}

fn set(state: Option<Value>) -> Change<Value> {
    state.map_or(Change::Keep, Change::Set)
}

/// An error in words for readers of the pull request.
fn words(error: Error) -> String {
    match error {
        Error::Internal { .. } => {
            tracing::error!(error = error.log_text(), "a governance cannot go on");
            "the console could not go on: its log says why".to_owned()
        }
        error => error.to_string(),
    }
}

/// The meaning of an answer.
fn heard(verb: GovernanceVerb, answer: &GovernanceAnswer) -> Answer {
    let GovernanceAnswer { status, body } = answer;
    let read = object(body);
    let message = |object: Option<&Map<String, Value>>| {
        object.and_then(|object| object.get("message")).and_then(Value::as_str).map(str::to_owned)
    };
    match status {
        200..=299 => {
            let Ok(object) = read else {
                return Answer::Failed(format!(
                    "it answered {status} with what is no JSON object of at most {} KiB",
                    MAX_STATE >> 10
                ));
            };
            let said = message(object.as_ref());
            let state = object.map(Value::Object);
            let is_done = *status == 200 || verb != GovernanceVerb::Confirm;
            if is_done { Answer::Done(state) } else { Answer::Later(state, said) }
        }
        // It has ended there already.
        404 | 410 if verb == GovernanceVerb::Close => Answer::Done(None),
        408 | 425 | 429 => Answer::Failed(format!("it answered {status}")),
        400..=499 => {
            let said = read.ok().flatten().and_then(|object| message(Some(&object)));
            Answer::No(said.unwrap_or_else(|| format!("it answered {status}")))
        }
        _ => Answer::Failed(format!("it answered {status}")),
    }
}

/// The JSON object in a body; `None` if the body is empty.
fn object(body: &[u8]) -> Result<Option<Map<String, Value>>, ()> {
    if body.iter().all(u8::is_ascii_whitespace) {
        return Ok(None);
    }
    if body.len() > MAX_STATE {
        return Err(());
    }
    serde_json::from_slice(body).map(Some).map_err(|_| ())
}

/// The associated data of the sealed state of a pull request at its governance.
fn state_context(id: PullRequestId) -> String {
    format!("pull_request:{id}:governance")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(verb: GovernanceVerb, status: u16, body: &str) -> Answer {
        heard(verb, &GovernanceAnswer { status, body: body.as_bytes().to_vec() })
    }

    #[test]
    fn only_200_confirms() {
        use GovernanceVerb::{Close, Confirm, Open};
        assert_eq!(of(Confirm, 200, ""), Answer::Done(None));
        assert_eq!(of(Confirm, 200, r#"{"a":1}"#), Answer::Done(Some(json!({"a": 1}))));
        assert_eq!(of(Open, 201, ""), Answer::Done(None));
        assert_eq!(of(Confirm, 202, ""), Answer::Later(None, None));
        let waits = json!({"message": "waits for the board"});
        let said = Some("waits for the board".to_owned());
        assert_eq!(of(Confirm, 202, &waits.to_string()), Answer::Later(Some(waits.clone()), said));
        assert_eq!(of(Confirm, 403, &waits.to_string()), Answer::No("waits for the board".to_owned()));
        assert_eq!(of(Confirm, 404, "<html>"), Answer::No("it answered 404".to_owned()));
        assert_eq!(of(Close, 404, "<html>"), Answer::Done(None));
        for status in [302, 408, 429, 500, 503] {
            assert!(matches!(of(Confirm, status, ""), Answer::Failed(_)), "{status}");
        }
        // An error page of a proxy in between confirms nothing.
        for body in ["<html>", "OK", "[]", "1", &format!("{{\"a\":\"{}\"}}", "x".repeat(MAX_STATE))] {
            assert!(matches!(of(Confirm, 200, body), Answer::Failed(_)), "{body}");
        }
    }
}
