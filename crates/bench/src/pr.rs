//! Pull requests at a git host that organisations run: from a filled in form to the difference, to the open pull request, and from its
//! merge to the services that read the repository. And plans of a commit over many simulated clusters, which need no such host.

mod by_hand;
mod plan;
mod world;

use std::time::Instant;

use plural_testkit::Gitea;

use self::{by_hand::ByHand, world::World};
use crate::{report::Figure, samples::Samples};

/// How large, and how often.
#[derive(Debug, clap::Args)]
pub(crate) struct Options {
    /// These parts alone; their figures join those of the other parts, where these were taken of the same commit
    #[arg(long, value_delimiter = ',', value_name = "PARTS")]
    only: Vec<Part>,
    /// Files of the repository
    #[arg(long, default_value_t = 10_000)]
    files: usize,
    /// Pull requests that are previewed, opened and merged, one after the other
    #[arg(long, default_value_t = 30)]
    rounds: usize,
    /// Times that the same is done without us
    #[arg(long, default_value_t = 10)]
    by_hand: usize,
    /// Services that a plan reaches
    #[arg(long, default_value_t = 500)]
    services: usize,
    /// Simulated clusters that they are on
    #[arg(long, default_value_t = 50)]
    clusters: usize,
    /// Plans that are made, one after the other
    #[arg(long, default_value_t = 10)]
    plans: usize,
}

/// A part of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Part {
    /// A form to the open pull request
    Form,
    /// A form to its difference
    Preview,
    /// A merge to its service
    Merge,
    /// A commit to what it would do to every service on every cluster
    Plan,
}

impl Options {
    fn has(&self, part: Part) -> bool {
        self.only.is_empty() || self.only.contains(&part)
    }

    /// Something is measured at the git host.
    fn needs_host(&self) -> bool {
        [Part::Form, Part::Preview, Part::Merge].into_iter().any(|part| self.has(part))
    }
}

/// Milliseconds from the form to the open pull request.
const OPEN: f64 = 1500.0;
/// To the difference.
const PREVIEW: f64 = 300.0;
/// From the merge to a service.
const MERGE: f64 = 1000.0;

#[derive(Default)]
struct Measured {
    previewed: Samples,
    opened: Samples,
    /// From the answer of the host, which has merged.
    moved: Samples,
    /// From the request to merge.
    with_merge: Samples,
}

pub(crate) async fn run(options: &Options) -> anyhow::Result<Vec<Figure>> {
    let mut figures = Vec::new();
    // Who asks for everything gets what there is; who names a part is told why it cannot be measured.
    if options.needs_host() && (!options.only.is_empty() || Gitea::is_here_or_report()) {
        figures.extend(Box::pin(at_host(options)).await?);
    }
    if options.has(Part::Plan) {
        figures.extend(Box::pin(plan::run(options.services, options.clusters, options.plans)).await?);
    }
    Ok(figures)
}

/// What is measured at the git host.
async fn at_host(options: &Options) -> anyhow::Result<Vec<Figure>> {
    let &Options { files, rounds, by_hand, .. } = options;
    anyhow::ensure!(rounds > 0 && by_hand > 0, "nothing is measured that is not done");
    let gitea = Gitea::start_as_shipped()?;
    let repository = gitea.repository()?;
    eprintln!("a repository of {files} files is made");
    let mut world = World::start(&repository, files).await?;
    eprintln!("{rounds} rounds of previewing, opening and merging a pull request");
    let mut measured = Measured::default();
    for round in 0..rounds {
        measured.round(options, &mut world, &format!("app-{round:04}")).await?;
    }
    let by_hand = if options.has(Part::Form) || options.has(Part::Preview) {
        eprintln!("the same without us, {by_hand} times");
        by_hand::run(&repository, &world.folder("by-hand")?, by_hand)?
    } else {
        ByHand::default()
    };
    let ByHand { looked, clone, cloned, asked } = by_hand;
    let Measured { previewed, opened, moved, with_merge } = measured;
    let mut figures = Vec::new();
    if options.has(Part::Form) {
        figures.push(
            figure("form to open pull request", &opened, OPEN)
                .beside("clone of one commit, push, opened by hand p50", cloned.percentile(50))
                .beside("clone of one commit, push, opened by hand, the longest", cloned.percentile(100))
                .beside("the host's part: a commit and opening p50", asked.percentile(50))
                .beside("files", files as f64),
        );
    }
    if options.has(Part::Preview) {
        figures.push(
            figure("form to difference", &previewed, PREVIEW)
                .beside("the host's list of files p50", looked.percentile(50))
                .beside("clone of one commit p50", clone.percentile(50)),
        );
    }
    if options.has(Part::Merge) {
        figures.push(
            figure("merge to its service, by webhook", &moved, MERGE)
                .beside("with the host's merge p50", with_merge.percentile(50))
                .beside("with the host's merge, the longest", with_merge.percentile(100)),
        );
    }
    Ok(figures)
}

fn figure(name: &str, samples: &Samples, limit: f64) -> Figure {
    Figure::new(format!("{name}, p50"), samples.percentile(50), "ms")
        .at_most(limit)
        .beside("p90", samples.percentile(90))
        .beside("the longest", samples.percentile(100))
}

impl Measured {
    /// One pull request from its form to the service that it changes: as far as it is asked for.
    async fn round(&mut self, options: &Options, world: &mut World<'_>, name: &str) -> anyhow::Result<()> {
        if options.has(Part::Preview) {
            let started = Instant::now();
            world.preview(name).await?;
            self.previewed.add(started.elapsed());
        }
        if !options.has(Part::Form) && !options.has(Part::Merge) {
            return Ok(());
        }
        let started = Instant::now();
        let number = world.open(name).await?;
        self.opened.add(started.elapsed());
        if !options.has(Part::Merge) {
            return Ok(());
        }
        let before = world.artifact()?;
        let (began, merged) = world.merge(number)?;
        world.until_moved(&before).await?;
        self.moved.add(merged.elapsed());
        self.with_merge.add(began.elapsed());
        Ok(())
    }
}
