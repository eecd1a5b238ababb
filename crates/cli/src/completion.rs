//! Completion of names in a shell: clusters, services, repositories and others, asked of the console while somebody types.
//!
//! A shell that was told so with `source <(COMPLETE=bash plural)` runs `COMPLETE=bash plural -- WORDS…` at every tab. What it
//! gets back is on standard output; nothing is ever said about a console that does not answer, or that nobody is logged in to.

use std::{
    ffi::{OsStr, OsString},
    io,
    path::PathBuf,
    sync::Arc,
    time::Duration,
};

use clap::{Arg, Command};
use clap_complete::{ArgValueCompleter, CompleteEnv, CompletionCandidate, env::Shells};
use plural_wire::{
    Client, ClientError, ListClusters, ListGitRepositories, ListGlobalServices, ListHelmRepositories,
    ListInfrastructureStacks, ListManagedNamespaces, ListPrAutomations, ListPrGovernances, ListProjects,
    ListScmConnections, ListServiceContexts, ListServiceDeployments, ListStackDefinitions, PAGE_SIZE,
    all_pages,
};

use crate::{args::ConnectionArgs, connect::connect, documents::Kind, shorthand, terminal::Terminal};

/// How long somebody who pressed tab waits for names.
const PATIENCE: Duration = Duration::from_millis(900);

/// The variable that asks for completion, with the name of the shell.
const VARIABLE: &str = "COMPLETE";

/// Environment variables, as completion sees them.
pub type Lookup = Arc<dyn Fn(&str) -> Option<String> + Send + Sync>;

/// Whether this run was for a shell's completion, which is answered then. Only the two forms that shells use are: `COMPLETE` may
/// be set for another program.
pub fn complete(command: fn() -> Command) -> bool {
    let variable: Lookup = Arc::new(|name| std::env::var(name).ok().filter(|value| !value.is_empty()));
    let args: Vec<OsString> = std::env::args_os().collect();
    let asks = variable(VARIABLE).is_some_and(|shell| Shells::builtins().names().any(|name| name == shell));
    let words = match args.get(1) {
        None => &[],
        Some(dashes) if dashes == "--" => args.get(2..).unwrap_or_default(),
        Some(_) => return false,
    };
    if !asks {
        return false;
    }
    let factory = || with_names(command(), words, &variable);
    // An error would be written into what somebody types.
    let _ = CompleteEnv::with_factory(factory).bin("plural").try_complete(args.clone(), None);
    true
}

/// What a shell is offered for the word at `place` of a command line, the program's name first.
pub fn completions(command: Command, words: &[&str], place: usize, variable: &Lookup) -> Vec<String> {
    let words: Vec<OsString> = words.iter().map(OsString::from).collect();
    let mut command = with_names(command, &words, variable);
    let found = clap_complete::engine::complete(&mut command, words, place, None).unwrap_or_default();
    found.into_iter().map(|one| one.get_value().to_string_lossy().into_owned()).collect()
}

/// The command line with the short forms as commands of their own, and with the names of what there is.
fn with_names(command: Command, words: &[OsString], variable: &Lookup) -> Command {
    let asker = Asker { words: Arc::new(words.to_vec()), variable: Arc::clone(variable) };
    named(shorthand::spelled_out(command), &asker)
}

fn named(command: Command, asker: &Asker) -> Command {
    let names: Vec<String> = command.get_subcommands().map(|child| child.get_name().to_owned()).collect();
    let noun = command.get_name().to_owned();
    let command = command.mut_args(|arg| match What::of(&noun, &arg) {
        Some(what) => {
            let asker = asker.clone();
            arg.add(ArgValueCompleter::new(move |typed: &OsStr| asker.candidates(what, typed)))
        }
        None => arg,
    });
    names.into_iter().fold(command, |command, name| {
        command.mut_subcommand(name, |child| {
            // Of `global-services describe NAME`, the noun says what is named.
            let names = child.get_positionals().any(|arg| value_name(arg) == Some("NAME"));
            let child = match What::of_noun(&noun).filter(|_| names && takes_names(child.get_name())) {
                Some(what) => {
                    let asker = asker.clone();
                    child.mut_args(|arg| {
                        if !arg.is_positional() {
                            return arg;
                        }
                        let asker = asker.clone();
                        arg.add(ArgValueCompleter::new(move |typed: &OsStr| asker.candidates(what, typed)))
                    })
                }
                None => child,
            };
            // Other words for a command are understood, and not offered beside it.
            let others: Vec<String> = child.get_all_aliases().map(str::to_owned).collect();
            let child = child.visible_alias(None::<&str>).alias(None::<&str>).aliases(others);
            named(child, asker)
        })
    })
}

/// A new thing has a name that nobody knows yet.
fn takes_names(verb: &str) -> bool {
    !matches!(verb, "create" | "save" | "list")
}

fn value_name(arg: &Arg) -> Option<&str> {
    arg.get_value_names()?.first().map(clap::builder::Str::as_str)
}

/// What is named.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum What {
    Cluster,
    Service,
    Repository,
    HelmRepository,
    Project,
    Context,
    GlobalService,
    ManagedNamespace,
    Stack,
    StackDefinition,
    PrAutomation,
    PrGovernance,
    ScmConnection,
    /// The kinds of `plural get`.
    Kind,
    /// What the kind before it says.
    OfKind,
}

impl What {
    /// What the value of an argument names.
    fn of(command: &str, arg: &Arg) -> Option<Self> {
        match (value_name(arg)?, command) {
            ("CLUSTER", _) => Some(Self::Cluster),
            ("SERVICE" | "CLUSTER/NAME", "create" | "clone") if arg.is_positional() => Some(Self::Cluster),
            ("SERVICE" | "CLUSTER/NAME", _) => Some(Self::Service),
            ("REPOSITORY", _) => Some(Self::Repository),
            ("PROJECT", _) => Some(Self::Project),
            // A stack names its newest run.
            ("STACK" | "RUN", _) => Some(Self::Stack),
            ("DEFINITION", _) => Some(Self::StackDefinition),
            ("AUTOMATION", _) => Some(Self::PrAutomation),
            ("GOVERNANCE", _) => Some(Self::PrGovernance),
            ("CONNECTION", _) => Some(Self::ScmConnection),
            // The other one is a context of kubectl's.
            ("CONTEXT", command) if command != "bootstrap" && command != "reinstall" => Some(Self::Context),
            ("KIND", "get") => Some(Self::Kind),
            ("NAME", "get") if arg.is_positional() => Some(Self::OfKind),
            _ => None,
        }
    }

    fn of_noun(noun: &str) -> Option<Self> {
        match noun {
            "global-services" => Some(Self::GlobalService),
            "managed-namespaces" => Some(Self::ManagedNamespace),
            "governance" => Some(Self::PrGovernance),
            "scm-connections" => Some(Self::ScmConnection),
            _ => None,
        }
    }

    const fn of_kind(kind: Kind) -> Option<Self> {
        match kind {
            Kind::Project => Some(Self::Project),
            Kind::Cluster => Some(Self::Cluster),
            Kind::GitRepository => Some(Self::Repository),
            Kind::HelmRepository => Some(Self::HelmRepository),
            Kind::ServiceContext => Some(Self::Context),
            Kind::ServiceDeployment => Some(Self::Service),
            Kind::GlobalService => Some(Self::GlobalService),
            Kind::ManagedNamespace => Some(Self::ManagedNamespace),
            Kind::InfrastructureStack => Some(Self::Stack),
            Kind::StackDefinition => Some(Self::StackDefinition),
            Kind::SyncWindow => None,
        }
    }
}

/// Asks the console that the words so far, the environment or a saved login name.
#[derive(Clone)]
struct Asker {
    words: Arc<Vec<OsString>>,
    variable: Lookup,
}

impl Asker {
    fn candidates(&self, what: What, typed: &OsStr) -> Vec<CompletionCandidate> {
        let Some(typed) = typed.to_str() else { return Vec::new() };
        let what = match what {
            What::Kind => return fitting(Kind::names().map(str::to_owned), "", typed),
            What::OfKind => {
                let kind = self.after("get").and_then(|word| Kind::parse(word).ok());
                match kind.and_then(What::of_kind) {
                    Some(what) => what,
                    None => return Vec::new(),
                }
            }
            what => what,
        };
        // As a person began it: `@blue`, `service/blue/…`.
        let (before, rest) = match what {
            What::Cluster | What::Service => {
                let kind = if what == What::Cluster { Kind::Cluster } else { Kind::ServiceDeployment };
                let bare = kind.bare(typed).trim_start_matches('@');
                typed.split_at(typed.len() - bare.len())
            }
            _ => ("", typed),
        };
        fitting(self.ask(what, rest).unwrap_or_default().into_iter(), before, rest)
    }

    /// The word behind this one.
    fn after(&self, word: &str) -> Option<&str> {
        let at = self.words.iter().position(|one| one == word)?;
        self.words.get(at + 1)?.to_str()
    }

    /// The value of an option that is on the command line already.
    fn option(&self, name: &str) -> Option<String> {
        self.words.iter().filter_map(|word| word.to_str()).enumerate().find_map(|(at, word)| {
            let rest = word.strip_prefix("--")?.strip_prefix(name)?;
            match rest.strip_prefix('=') {
                Some(value) => Some(value.to_owned()),
                None if rest.is_empty() => self.words.get(at + 1)?.to_str().map(str::to_owned),
                None => None,
            }
        })
    }

    /// Names, or nothing where anything is in the way.
    fn ask(&self, what: What, typed: &str) -> Option<Vec<String>> {
        let args = ConnectionArgs {
            url: self.option("url").or_else(|| (self.variable)("PLURAL_CONSOLE_URL")),
            ca_file: self
                .option("ca-file")
                .or_else(|| (self.variable)("PLURAL_CONSOLE_CA_FILE"))
                .map(PathBuf::from),
            profile: self.option("profile").or_else(|| (self.variable)("PLURAL_PROFILE")),
        };
        let variable = Arc::clone(&self.variable);
        let typed = typed.to_owned();
        // A thread of its own, which is left behind where a name server or a console does not answer.
        let (sender, receiver) = std::sync::mpsc::sync_channel(1);
        std::thread::spawn(move || {
            let (mut out, mut err, mut input) = (io::sink(), io::sink(), io::empty());
            let terminal = Terminal {
                out: &mut out,
                err: &mut err,
                input: &mut input,
                interactive: false,
                screen: None,
                variable: Box::new(move |name| variable(name)),
            };
            let Ok(runtime) = tokio::runtime::Builder::new_current_thread().enable_all().build() else {
                return;
            };
            let names = runtime.block_on(async {
                let connection = connect(&args, &terminal).ok()?;
                tokio::time::timeout(PATIENCE, names(what, &typed, &connection.client)).await.ok()?.ok()
            });
            runtime.shutdown_background();
            let _ = sender.send(names);
        });
        receiver.recv_timeout(PATIENCE).ok().flatten()
    }
}

fn fitting(names: impl Iterator<Item = String>, before: &str, typed: &str) -> Vec<CompletionCandidate> {
    let fits = |name: &String| {
        // A shell would take more than a word for something else.
        name.starts_with(typed) && name.chars().all(|letter| !letter.is_control() && !letter.is_whitespace())
    };
    names.filter(fits).map(|name| CompletionCandidate::new(format!("{before}{name}"))).collect()
}

async fn names(what: What, typed: &str, client: &Client) -> Result<Vec<String>, ClientError> {
    let first = PAGE_SIZE;
    Ok(match what {
        What::Cluster => clusters(client).await?,
        What::Service => match typed.split_once('/') {
            // One cluster after the other: a fleet has more services than somebody reads.
            None => clusters(client).await?.into_iter().map(|cluster| format!("{cluster}/")).collect(),
            Some((cluster, _)) => {
                let page = |after| ListServiceDeployments {
                    after,
                    first,
                    cluster_id: None,
                    cluster: Some(cluster.to_owned()),
                };
                let all = all_pages(client, page).await?;
                all.into_iter().map(|service| format!("{cluster}/{}", service.name)).collect()
            }
        },
        What::Repository => {
            let all = all_pages(client, |after| ListGitRepositories { after, first }).await?;
            all.into_iter().map(|one| one.url).collect()
        }
        What::HelmRepository => {
            let all = all_pages(client, |after| ListHelmRepositories { after, first }).await?;
            all.into_iter().map(|one| one.url).collect()
        }
        What::Project => {
            let all = all_pages(client, |after| ListProjects { after, first }).await?;
            all.into_iter().map(|one| one.name).collect()
        }
        What::Context => {
            let all = all_pages(client, |after| ListServiceContexts { after, first }).await?;
            all.into_iter().map(|one| one.name).collect()
        }
        What::GlobalService => {
            let all = all_pages(client, |after| ListGlobalServices { after, first }).await?;
            all.into_iter().map(|one| one.name).collect()
        }
        What::ManagedNamespace => {
            let all = all_pages(client, |after| ListManagedNamespaces { after, first }).await?;
            all.into_iter().map(|one| one.name).collect()
        }
        What::Stack => {
            let page =
                |after| ListInfrastructureStacks { after, first, project_id: None, q: None, tag_query: None };
            all_pages(client, page).await?.into_iter().map(|one| one.name).collect()
        }
        What::StackDefinition => {
            let all = all_pages(client, |after| ListStackDefinitions { after, first, q: None }).await?;
            all.into_iter().map(|one| one.name).collect()
        }
        What::PrAutomation => {
            let page = |after| ListPrAutomations { after, first, project_id: None, role: None, q: None };
            all_pages(client, page).await?.into_iter().map(|one| one.name).collect()
        }
        What::PrGovernance => {
            let all = all_pages(client, |after| ListPrGovernances { after, first }).await?;
            all.into_iter().map(|one| one.name).collect()
        }
        What::ScmConnection => {
            let all = all_pages(client, |after| ListScmConnections { after, first }).await?;
            all.into_iter().map(|one| one.name).collect()
        }
        What::Kind | What::OfKind => Vec::new(),
    })
}

async fn clusters(client: &Client) -> Result<Vec<String>, ClientError> {
    let page = |after| ListClusters { after, first: PAGE_SIZE, project_id: None, tag_query: None };
    let all = all_pages(client, page).await?;
    Ok(all.into_iter().map(|cluster| cluster.handle.unwrap_or(cluster.id)).collect())
}
