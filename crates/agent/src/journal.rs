//! What was being rendered when an agent was killed.
//!
//! A render is held to limits, and limits have gaps. If one ends the agent all the same, the next agent would render the
//! same at its start, and so on: nobody on the cluster would be synced. So each render that is not done at once leaves a note
//! in the agent's folder until it ends: filling the memory of a machine takes longer than that. Whose note is found at a start is rendered alone from then on, so that the next kill tells which it was.

use std::{
    collections::HashMap,
    fs, io,
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use parking_lot::{Mutex, MutexGuard};
use plural_core::ids::ServiceId;
use plural_tunnel::v1;
use prost::Message as _;
use sha2::{Digest as _, Sha256};
use tokio::task::AbortHandle;

/// After so many kills a service is not rendered any more as it is.
const QUARANTINED_AT: u32 = 3;
const CRASHES: &str = "crashes";
/// A render that takes longer leaves a note.
const A_MOMENT: Duration = Duration::from_millis(10);

/// What is known against a service.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Suspicion {
    None,
    /// It was being rendered when an agent was killed, maybe with others.
    Suspect,
    /// It was so again and again, alone.
    Quarantined {
        crashes: u32,
    },
}

/// What was rendered: a service as it was wanted.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Work {
    /// Of everything but what is asked about it.
    digest: String,
    /// Grows with each change, with each kick, and with each question.
    sequence: u64,
    /// The question; "-" when there is none.
    question: String,
}

impl Work {
    fn of(service: &v1::Service) -> Self {
        let plain = v1::Service {
            sequence: 0,
            plan_request_id: String::new(),
            candidates: Vec::new(),
            ..service.clone()
        };
        let question = Some(service.plan_request_id.as_str()).filter(|id| !id.is_empty()).unwrap_or("-");
        Self {
            // Maps of the contract are sorted: the same service has the same bytes in each process.
            digest: hex::encode(Sha256::digest(plain.encode_to_vec())),
            sequence: service.sequence,
            question: question.to_owned(),
        }
    }

    fn parse<'a>(mut words: impl Iterator<Item = &'a str>) -> Option<Self> {
        Some(Self {
            digest: words.next()?.to_owned(),
            sequence: words.next()?.parse().ok()?,
            question: words.next()?.to_owned(),
        })
    }

    fn text(&self) -> String {
        let Self { digest, sequence, question } = self;
        format!("{digest} {sequence} {question}")
    }

    /// Nobody changed it or kicked it meanwhile; questions, which every reader may ask, do not count.
    fn is_still(&self, now: &Self) -> bool {
        self.digest == now.digest && (self.sequence == now.sequence || self.question != now.question)
    }
}

#[derive(Debug)]
struct Crashed {
    work: Work,
    crashes: u32,
}

/// The notes of one agent, in a folder of its own.
#[derive(Debug)]
pub(crate) struct Journal {
    folder: PathBuf,
    crashed: Mutex<HashMap<ServiceId, Crashed>>,
    /// Nothing is noted any more.
    left: Arc<AtomicBool>,
}

impl Journal {
    /// Takes what an agent before this one left as what ended it.
    pub(crate) fn open(folder: PathBuf) -> io::Result<Self> {
        fs::create_dir_all(&folder)?;
        let mut crashed = HashMap::new();
        let known = fs::read_to_string(folder.join(CRASHES)).unwrap_or_default();
        for mut words in known.lines().map(|line| line.split(' ')) {
            let id = words.next().and_then(|id| id.parse().ok());
            let crashes = words.next().and_then(|crashes| crashes.parse().ok());
            if let (Some(id), Some(crashes), Some(work)) = (id, crashes, Work::parse(words)) {
                crashed.insert(id, Crashed { work, crashes });
            }
        }
        for entry in fs::read_dir(&folder)?.flatten() {
            let Some(id) = entry.file_name().to_str().and_then(|name| name.parse::<ServiceId>().ok()) else {
                continue;
            };
            let text = fs::read_to_string(entry.path()).unwrap_or_default();
            if let Some(work) = Work::parse(text.split(' ')) {
                let before = crashed.remove(&id).filter(|before: &Crashed| before.work.is_still(&work));
                let crashes = before.map_or(0, |before| before.crashes).saturating_add(1);
                tracing::warn!(
                    service.id = %id,
                    crashes,
                    "an earlier agent was killed while it rendered the service"
                );
                crashed.insert(id, Crashed { work, crashes });
            }
        }
        let journal = Self { folder, crashed: Mutex::new(crashed), left: Arc::default() };
        // First what it means, then what it came from: a kill in between counts twice, never not at all.
        journal.save(&journal.lock());
        for entry in fs::read_dir(&journal.folder)?.flatten() {
            if entry.file_name() != CRASHES {
                let _ = fs::remove_file(entry.path());
            }
        }
        Ok(journal)
    }

    pub(crate) fn suspicion(&self, id: ServiceId, service: &v1::Service) -> Suspicion {
        let mut crashed = self.lock();
        let Some(known) = crashed.get_mut(&id) else { return Suspicion::None };
        let now = Work::of(service);
        if !known.work.is_still(&now) {
            crashed.remove(&id);
            self.save(&crashed);
            return Suspicion::None;
        }
        let is_asked = known.work != now;
        known.work = now;
        let crashes = known.crashes;
        if is_asked {
            self.save(&crashed);
        }
        if crashes >= QUARANTINED_AT { Suspicion::Quarantined { crashes } } else { Suspicion::Suspect }
    }

    /// Notes that the service is being rendered, until the answer is dropped.
    pub(crate) fn note(&self, id: ServiceId, service: &v1::Service) -> Note {
        let note = self.unwritten(id);
        note.paper.write(&self.left, id, service);
        note
    }

    /// Notes it once it has been rendered for a moment. Most are done by then, and cost no file.
    pub(crate) fn note_soon(&self, id: ServiceId, service: &Arc<v1::Service>) -> Note {
        let mut note = self.unwritten(id);
        let (paper, left, service) = (Arc::clone(&note.paper), Arc::clone(&self.left), Arc::clone(service));
        let writing = tokio::spawn(async move {
            tokio::time::sleep(A_MOMENT).await;
            let _ = tokio::task::spawn_blocking(move || paper.write(&left, id, &service)).await;
        });
        note.writing = Some(writing.abort_handle());
        note
    }

    fn unwritten(&self, id: ServiceId) -> Note {
        let file = self.folder.join(id.to_string());
        Note { paper: Arc::new(Paper { file, state: Mutex::new(State::Empty) }), writing: None }
    }

    /// The service was rendered, or is gone: it ends nobody.
    pub(crate) fn survived(&self, id: ServiceId) {
        let mut crashed = self.lock();
        if crashed.remove(&id).is_some() {
            self.save(&crashed);
        }
    }

    /// The agent ends in good order: what is being rendered now says nothing.
    pub(crate) fn leave(&self) {
        self.left.store(true, Ordering::Release);
        for entry in fs::read_dir(&self.folder).into_iter().flatten().flatten() {
            if entry.file_name() != CRASHES {
                let _ = fs::remove_file(entry.path());
            }
        }
    }

    fn save(&self, crashed: &HashMap<ServiceId, Crashed>) {
        let file = self.folder.join(CRASHES);
        let saved = if crashed.is_empty() {
            fs::remove_file(&file).or_else(absent)
        } else {
            let lines = crashed
                .iter()
                .map(|(id, Crashed { work, crashes })| format!("{id} {crashes} {}\n", work.text()));
            replace(&file, &lines.collect::<String>())
        };
        if let Err(error) = saved {
            tracing::warn!(%error, "cannot remember which services were being rendered when an agent was killed");
        }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<ServiceId, Crashed>> {
        self.crashed.lock()
    }
}

fn absent(error: io::Error) -> io::Result<()> {
    if error.kind() == io::ErrorKind::NotFound { Ok(()) } else { Err(error) }
}

fn replace(file: &Path, text: &str) -> io::Result<()> {
    let new = file.with_extension("new");
    fs::write(&new, text)?;
    fs::rename(new, file)
}

/// A service is being rendered.
#[derive(Debug)]
pub(crate) struct Note {
    paper: Arc<Paper>,
    writing: Option<AbortHandle>,
}

#[derive(Debug)]
struct Paper {
    file: PathBuf,
    state: Mutex<State>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Empty,
    Written,
    /// The render ended.
    Torn,
}

impl Paper {
    fn write(&self, left: &AtomicBool, id: ServiceId, service: &v1::Service) {
        let mut state = self.state.lock();
        if *state != State::Empty || left.load(Ordering::Acquire) {
            return;
        }
        *state = State::Written;
        // Whole or not at all: half a note would accuse nobody.
        if let Err(error) = replace(&self.file, &Work::of(service).text()) {
            // On a full disk nothing is learnt from a kill.
            tracing::debug!(service.id = %id, %error, "cannot note that the service is being rendered");
        }
    }
}

impl Drop for Note {
    fn drop(&mut self) {
        if let Some(writing) = &self.writing {
            writing.abort();
        }
        let mut state = self.paper.state.lock();
        if std::mem::replace(&mut *state, State::Torn) == State::Written {
            let _ = fs::remove_file(&self.paper.file);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn service(sequence: u64, revision: &str, question: &str) -> v1::Service {
        v1::Service {
            sequence,
            revision_id: revision.to_owned(),
            plan_request_id: question.to_owned(),
            ..v1::Service::default()
        }
    }

    /// Opens the journal, begins renders, and is killed.
    fn killed(folder: &Path, rendering: &[(ServiceId, &v1::Service)]) {
        let journal = Journal::open(folder.to_owned()).unwrap();
        for (id, service) in rendering {
            std::mem::forget(journal.note(*id, service));
        }
    }

    #[test]
    fn what_was_rendered_at_three_kills_is_quarantined_until_it_changes() {
        let folder = tempfile::tempdir().unwrap();
        let (hostile, other) = (ServiceId::new(), ServiceId::new());
        let (bad, good) = (service(3, "r1", ""), service(4, "r7", ""));
        killed(folder.path(), &[(hostile, &bad), (other, &good)]);
        let journal = Journal::open(folder.path().to_owned()).unwrap();
        assert_eq!(journal.suspicion(hostile, &bad), Suspicion::Suspect);
        assert_eq!(journal.suspicion(other, &good), Suspicion::Suspect);
        drop(journal.note(other, &good));
        journal.survived(other);
        drop(journal);
        killed(folder.path(), &[(hostile, &bad)]);
        let journal = Journal::open(folder.path().to_owned()).unwrap();
        assert_eq!(journal.suspicion(hostile, &bad), Suspicion::Suspect, "two may be chance");
        drop(journal);
        killed(folder.path(), &[(hostile, &bad)]);
        // A start in between changes nothing, and neither do questions.
        killed(folder.path(), &[]);
        let journal = Journal::open(folder.path().to_owned()).unwrap();
        assert_eq!(journal.suspicion(other, &good), Suspicion::None);
        let quarantined = Suspicion::Quarantined { crashes: 3 };
        assert_eq!(journal.suspicion(hostile, &bad), quarantined);
        assert_eq!(journal.suspicion(hostile, &service(5, "r1", "q1")), quarantined);
        assert_eq!(journal.suspicion(hostile, &service(9, "r1", "q2")), quarantined);
        drop(journal);
        let reopened = || Journal::open(folder.path().to_owned()).unwrap();
        assert_eq!(reopened().suspicion(hostile, &service(9, "r1", "q2")), quarantined);
        // A kick lets it go, and so does another revision.
        assert_eq!(reopened().suspicion(hostile, &service(10, "r1", "q2")), Suspicion::None);
        assert_eq!(
            reopened().suspicion(hostile, &service(9, "r1", "q2")),
            Suspicion::None,
            "forgotten for good"
        );
        for _ in 0..3 {
            killed(folder.path(), &[(hostile, &bad)]);
        }
        assert_eq!(reopened().suspicion(hostile, &bad), quarantined);
        assert_eq!(reopened().suspicion(hostile, &service(3, "r2", "")), Suspicion::None);
    }

    #[test]
    fn an_end_in_good_order_accuses_nobody() {
        let folder = tempfile::tempdir().unwrap();
        let (id, wanted) = (ServiceId::new(), service(1, "r", ""));
        for _ in 0..3 {
            let journal = Journal::open(folder.path().to_owned()).unwrap();
            let early = journal.note(id, &wanted);
            journal.leave();
            std::mem::forget((early, journal.note(id, &wanted)));
        }
        let journal = Journal::open(folder.path().to_owned()).unwrap();
        assert_eq!(journal.suspicion(id, &wanted), Suspicion::None);
    }

    #[test]
    fn a_damaged_journal_is_no_journal() {
        let folder = tempfile::tempdir().unwrap();
        let id = ServiceId::new();
        fs::write(folder.path().join(CRASHES), format!("{id} many x\nnonsense\n\n{id} 2\n")).unwrap();
        fs::write(folder.path().join(id.to_string()), "half").unwrap();
        let journal = Journal::open(folder.path().to_owned()).unwrap();
        assert_eq!(journal.suspicion(id, &service(1, "r", "")), Suspicion::None);
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
    }

    #[test]
    fn what_has_many_values_is_known_again() {
        let folder = tempfile::tempdir().unwrap();
        let id = ServiceId::new();
        let values = (0..20).map(|at| (format!("name-{at}"), "value".to_owned()));
        let bytes = v1::Service { configuration: values.collect(), ..service(1, "r", "") }.encode_to_vec();
        // As each agent reads it anew.
        let wanted = || v1::Service::decode(&*bytes).unwrap();
        for _ in 0..3 {
            killed(folder.path(), &[(id, &wanted())]);
        }
        let journal = Journal::open(folder.path().to_owned()).unwrap();
        assert_eq!(journal.suspicion(id, &wanted()), Suspicion::Quarantined { crashes: 3 });
        let other = v1::Service { configuration: [("a".to_owned(), "b".to_owned())].into(), ..wanted() };
        assert_eq!(journal.suspicion(id, &other), Suspicion::None);
    }
}
