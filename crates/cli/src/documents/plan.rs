//! What applying documents would do.

use super::{
    console::Console,
    kind::Kind,
    print::Names,
    read::Problems,
    resolve::Wish,
    set::Selector,
    state::{State, differs, has, over},
    thing::{self, Live, Values},
};
use crate::error::CliError;

/// A document and what becomes of it.
pub(super) struct Planned {
    pub(super) wish: Wish,
    pub(super) live: Option<Live>,
    pub(super) merged: State,
    pub(super) step: Step,
}

/// What becomes of a document.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Step {
    Create,
    Change,
    /// All is as it should be, but for hidden values that only the console can compare.
    Compare,
    Nothing,
    /// It does not have the labels that were asked for.
    Skip,
}

/// Plans all wishes; what cannot be done is found now.
pub(super) async fn plan(
    wishes: Vec<Wish>,
    selector: Option<&Selector>,
    console: &mut Console<'_>,
) -> Result<Vec<Planned>, CliError> {
    let mut problems = Problems::default();
    let mut all: Vec<Planned> = Vec::new();
    for wish in wishes {
        let (kind, desired) = (wish.document.kind, &wish.desired);
        let mut live = thing::read(kind, &desired.key, console).await?;
        if selector.is_some_and(|selector| !selector.takes(&wish.document.labels)) {
            all.push(Planned { wish, live, merged: State::new(), step: Step::Skip });
            continue;
        }
        for need in wish.needs.iter().filter_map(|need| all.get(*need)) {
            if need.step == Step::Skip && need.live.is_none() {
                let words = format!(
                    "{}: needs {}, which -l leaves out and the console does not have",
                    wish.name(),
                    need.wish.name()
                );
                problems.add(&wish.document.place, words);
            }
        }
        let fields = kind.info().fields;
        let known = live.as_ref().map(|live| live.state.clone()).unwrap_or_default();
        let merged = over(fields, &known, &desired.said);
        let step = match &mut live {
            None => Step::Create,
            Some(live) => {
                if live.leaving {
                    let words = format!("{} is being deleted: wait until it is gone", wish.name());
                    problems.add(&wish.document.place, words);
                }
                if let Some(field) = differs(thing::fixed(kind), &live.state, &merged) {
                    let path = format!("spec.{field}");
                    let words =
                        format!("{}: {path}: cannot change; delete it and create it again", wish.name());
                    problems.add(&wish.document.place_of(&path), words);
                }
                let lost = |field: &&&str| has(&live.state, field) && !has(&merged, field);
                if let Some(field) = thing::lasting(kind).iter().find(lost) {
                    let path = format!("spec.{field}");
                    let words = format!("{}: {path}: cannot be taken away, only changed", wish.name());
                    problems.add(&wish.document.place_of(&path), words);
                }
                if !desired.hidden.0.is_empty() {
                    thing::unhide(kind, live, console).await?;
                }
                match (live.state == merged, thing::values(kind, live, desired)) {
                    (true, Values::Same) => Step::Nothing,
                    (true, Values::Unknown) => Step::Compare,
                    _ => Step::Change,
                }
            }
        };
        if step == Step::Create {
            complete(&wish, &mut problems);
        }
        all.push(Planned { wish, live, merged, step });
    }
    problems.check()?;
    Ok(all)
}

/// Where the code of a stack is, and who runs it: all of these, or none.
const SOURCE: [&str; 3] = ["repositoryRef", "cluster", "git"];

/// What a new thing must say that one that is there need not.
fn complete(wish: &Wish, problems: &mut Problems) {
    let said = &wish.desired.said;
    let has = |field: &str| said.get(field).is_some_and(|value| !value.is_null());
    let words = match wish.document.kind {
        Kind::ServiceDeployment if !has("repositoryRef") && !has("helm") => {
            "a new one needs repositoryRef and git, or helm"
        }
        Kind::ServiceDeployment if has("repositoryRef") && !has("git") => "repositoryRef needs git",
        Kind::GlobalService if !has("template") && !has("serviceRef") => {
            "a new one needs template or serviceRef"
        }
        Kind::InfrastructureStack if !matches!(SOURCE.iter().filter(|field| has(field)).count(), 0 | 3) => {
            "repositoryRef, cluster (or clusterRef) and git go together"
        }
        Kind::InfrastructureStack if said.get("paused").is_some_and(|paused| paused == true) => {
            "a new one is not paused: apply it without `paused`, then with it"
        }
        _ => return,
    };
    problems.add(&wish.document.place_of("spec"), format_args!("{}: {words}", wish.name()));
}

/// The names that the files give to what they describe.
pub(super) fn names(all: &[Planned]) -> Names {
    let name = |one: &Planned| {
        let document = &one.wish.document;
        ((document.kind, one.wish.desired.key.clone()), document.name.clone())
    };
    all.iter().map(name).collect()
}
