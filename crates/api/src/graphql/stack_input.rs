//! What a stack is given. What is not built is refused by its name, and never ignored.

use std::collections::BTreeMap;

use async_graphql::{Enum, ID, InputObject};
use plural_core::ids::UserId;
use plural_core::run_call::InputVariable;
use plural_core::stack::{
    ChangedVariable, NewStack, Stack, StackChange, StackFollow, StackSource, StackTool,
};
use plural_core::stack_spec::StackSpec;
use plural_core::{Error, Result};
use plural_specs::{Json, Seconds};

use super::{
    error::{List, id_in, items, parse, parse_option, unsupported},
    service_input::GitRefAttributes,
    shared::{self, PolicyBindingAttributes, RbacAttributes, TagAttributes},
    stack_clock::{ClockAttributes, StackCronAttributes, StackDriftAttributes},
    stack_dependency::StackDependencyAttributes,
    stack_policy::PolicyEngineAttributes,
    stack_spec_input::{
        CustomStepAttributes, GateJobAttributes, SpecAttributes, StackConfigurationAttributes,
    },
};

/// What keeps the infrastructure of a stack.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Enum)]
#[graphql(remote = "plural_core::stack::StackTool")]
pub(crate) enum StackType {
    /// Terraform, or OpenTofu.
    Terraform,
    /// Terragrunt.
    Terragrunt,
    /// Ansible.
    Ansible,
    /// Pulumi.
    Pulumi,
    /// Other commands.
    Custom,
}

/// What a stack is given. A new one needs `name` and `type`; in an update what is absent stays as it is.
#[derive(Debug, InputObject)]
pub(crate) struct StackAttributes {
    /// Unique in the installation.
    name: Option<String>,
    /// Its tool. It cannot be changed.
    #[graphql(name = "type")]
    kind: Option<StackType>,
    /// Its project; absent: the default project. It cannot be changed.
    project_id: Option<ID>,
    /// It cannot be deleted.
    protect: Option<bool>,
    /// All tags by which it is grouped and found. Replaces the list, and starts no run.
    tags: List<TagAttributes>,
    /// Neither commits nor the schedule nor changes of the stack start runs.
    paused: Option<bool>,
    /// The repository of its code. It, `clusterId` and `git` are given together; a stack without them has a state and no runs.
    repository_id: Option<ID>,
    /// The cluster whose agent starts the Jobs of its runs.
    cluster_id: Option<ID>,
    /// Revision and folder in the repository.
    git: Option<GitRefAttributes>,
    /// The Kubernetes Job of a run.
    job_spec: Option<GateJobAttributes>,
    /// Settings of the tool.
    configuration: Option<StackConfigurationAttributes>,
    /// A plan with changes waits for approval.
    approval: Option<bool>,
    /// How many people have to approve a plan.
    required_approvals: Option<i32>,
    /// Whoever started a run, last changed the stack, or wrote, committed or merged code of the run may not approve its plan.
    forbid_self_approval: Option<bool>,
    /// A waiting plan and its approvals expire after this time: `90m`, `24h`. An empty text: never.
    approval_expiry: Option<String>,
    /// If plans wait for approval, all commands that users run on demand wait as well.
    command_approval: Option<bool>,
    /// The console holds the state of the tool, and gives its address to each run.
    manage_state: Option<bool>,
    /// Working folder of the tool, below the folder of `git`.
    workdir: Option<String>,
    /// Time limit of a run's commands: `30m`, `2h`. An empty text: one hour.
    timeout: Option<String>,
    /// Variables for the tool, passed in its own way: a JSON object. Replaces the previous ones.
    variables: Option<Json>,
    /// Commands of a `CUSTOM` stack; those of the stage `PLAN` are its plan. Replaces the list.
    commands: List<CustomStepAttributes>,
    /// The commands that undo a `CUSTOM` stack. Replaces the list.
    delete_commands: List<CustomStepAttributes>,
    /// All stacks that it depends on, and the outputs that it takes from them. You need read access to each, and to its state if an output
    /// is sensitive.
    dependencies: List<StackDependencyAttributes>,
    /// Files of its runs, all of them.
    files: List<StackFileAttributes>,
    /// Environment variables of its runs, all of them.
    environment: List<StackEnvironmentAttributes>,
    /// Who may read it, besides those of its project; replaces the list.
    read_bindings: List<PolicyBindingAttributes>,
    /// Who may change it and its state, besides those of its project; replaces the list.
    write_bindings: List<PolicyBindingAttributes>,
    /// The user or service account as whom its applies call the console: the id of whoever saves it, or of a service account that they may
    /// assume. An empty text: nobody.
    actor_id: Option<ID>,
    /// Refused: a stack is not made by a service here.
    parent_id: Option<ID>,
    /// The connection to the git host for plans of its pull requests. It must be one that may touch the repository. An empty text: each one
    /// that may.
    connection_id: Option<ID>,
    /// The definition that a `CUSTOM` stack takes its commands from, instead of `commands` and `deleteCommands`; an empty text removes it.
    definition_id: Option<ID>,
    /// Refused: agents for coding are not part of this console.
    agent_id: Option<ID>,
    /// The schedule of its runs.
    cron: Option<StackCronAttributes>,
    /// The settings of its drift detection.
    drift: Option<StackDriftAttributes>,
    /// The policy that checks its plans, besides the rules of its project.
    policy_engine: Option<PolicyEngineAttributes>,
    /// How often its code is looked at, `30s` at least: `5m`, `1h30m`. A shorter one than the console's has the repository fetched more often; with a
    /// longer one, commits make runs later, unless a webhook tells of them. An empty text: as the console's settings say.
    interval: Option<String>,
    /// Refused: runs are watched by no metrics yet.
    observable_metrics: List<ObservableMetricAttributes>,
}

/// A file of the runs of a stack.
#[derive(InputObject)]
pub(crate) struct StackFileAttributes {
    /// Where it is written: relative to the folder in which the tool runs.
    path: String,
    /// What is in it. Absent in an update: what is in it already.
    content: Option<String>,
}

/// A variable of the environment of the runs of a stack.
#[derive(InputObject)]
pub(crate) struct StackEnvironmentAttributes {
    /// Name.
    name: String,
    /// Value. Absent in an update: the one that it has already.
    value: Option<String>,
    /// The value is masked in the output of runs, and shown to nobody.
    secret: Option<bool>,
}

/// Of what holds secrets, `Debug` tells names.
macro_rules! quiet {
    ($($type:ident: $field:ident),+) => {$(
        impl std::fmt::Debug for $type {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.debug_struct(stringify!($type)).field(stringify!($field), &self.$field).finish_non_exhaustive()
            }
        }
    )+};
}

quiet!(StackFileAttributes: path, StackEnvironmentAttributes: name);

/// A metric that stops a run. Refused.
#[derive(Debug, InputObject)]
pub(crate) struct ObservableMetricAttributes {
    /// Which.
    identifier: String,
    /// Of what.
    provider_id: ID,
}

/// In whose name its applies ask the console; an empty text is nobody's.
fn actor_over(given: Option<&ID>, was: Option<UserId>) -> Result<Option<UserId>> {
    match given {
        None => Ok(was),
        Some(id) if id.is_empty() => Ok(None),
        Some(id) => id_in("attributes.actorId", Some(&id.0)),
    }
}

/// A stack's attributes, sorted by what they are for.
struct Sorted {
    name: Option<String>,
    kind: Option<StackType>,
    project_id: Option<ID>,
    protect: Option<bool>,
    tags: Option<BTreeMap<String, String>>,
    paused: Option<bool>,
    actor: Option<ID>,
    source: SourceAttributes,
    follow: FollowAttributes,
    spec: SpecAttributes,
    clock: ClockAttributes,
    files: List<StackFileAttributes>,
    environment: List<StackEnvironmentAttributes>,
    bindings: RbacAttributes,
}

impl StackAttributes {
    /// A new stack.
    pub(crate) fn new_stack(self) -> Result<NewStack> {
        let sorted = self.sorted()?;
        let Sorted {
            name,
            kind,
            project_id,
            protect,
            tags,
            paused,
            actor,
            source,
            follow,
            spec,
            clock,
            files,
            environment,
            bindings,
        } = sorted;
        unsupported(
            "attributes.paused",
            paused == Some(true),
            "a new stack is not paused: make it, and pause it with updateStack",
        )?;
        let name = name.ok_or_else(|| Error::invalid("attributes.name", "a new stack needs one"))?;
        let kind = kind.ok_or_else(|| Error::invalid("attributes.type", "a new stack needs one"))?;
        let mut given = Vec::new();
        for variable in changed_variables(environment)?.unwrap_or_default() {
            let ChangedVariable { name, value, secret } = variable;
            let Some(value) = value else {
                let reason = format!("the new variable {name:?} has no value");
                return Err(Error::invalid("attributes.environment", reason));
            };
            given.push(InputVariable { name, value, secret });
        }
        let mut contents = BTreeMap::new();
        for (path, content) in changed_files(files)?.unwrap_or_default() {
            let Some(content) = content else {
                let reason = format!("the new file {path:?} has no content");
                return Err(Error::invalid("attributes.files", reason));
            };
            contents.insert(path, content);
        }
        Ok(NewStack {
            name: parse("attributes.name", &name)?,
            tool: kind.into(),
            project_id: id_in("attributes.projectId", project_id.as_deref())?,
            protect: protect.unwrap_or_default(),
            tags: tags.unwrap_or_default(),
            source: source.over(None)?,
            follow: follow.over(StackFollow::default())?,
            spec: StackSpec {
                actor: actor_over(actor.as_ref(), None)?,
                ..clock.over(spec.over(StackSpec::default())?)?
            },
            environment: given,
            files: contents,
            bindings: bindings.change()?,
        })
    }

    /// What changes of the stack `of`.
    pub(crate) fn change(self, of: &Stack) -> Result<StackChange> {
        let sorted = self.sorted()?;
        let Sorted {
            name,
            kind,
            project_id,
            protect,
            tags,
            paused,
            actor,
            source,
            follow,
            spec,
            clock,
            files,
            environment,
            bindings,
        } = sorted;
        if kind.is_some_and(|kind| StackTool::from(kind) != of.tool) {
            let reason = format!("a stack keeps its type, which is {:?} here", of.tool);
            return Err(Error::invalid("attributes.type", reason));
        }
        let project: Option<plural_core::ids::ProjectId> =
            id_in("attributes.projectId", project_id.as_deref())?;
        if project.is_some_and(|project| project != of.project_id) {
            return Err(Error::invalid("attributes.projectId", "a stack stays in its project"));
        }
        // What is given is laid over what is there: the stack's own are replaced as a whole.
        let source = source.over(of.source.as_ref())?;
        let mut is = of.spec.clone();
        // The state is here before the code: runs that did not read it would make everything anew.
        is.manage_state |= of.source.is_none() && source.is_some() && of.state.is_some();
        let spec = clock.over(spec.over(is)?)?;
        let spec = StackSpec { actor: actor_over(actor.as_ref(), of.spec.actor)?, ..spec };
        Ok(StackChange {
            name: parse_option("attributes.name", name.as_deref())?,
            protect,
            tags: tags.filter(|tags| *tags != of.tags),
            source: source.filter(|source| of.source.as_ref() != Some(source)),
            follow: Some(follow.over(of.follow)?).filter(|follow| *follow != of.follow),
            spec: Some(spec).filter(|spec| *spec != of.spec),
            environment: changed_variables(environment)?,
            files: changed_files(files)?,
            paused,
            bindings: bindings.change()?,
        })
    }

    /// Refuses what is not built.
    fn sorted(self) -> Result<Sorted> {
        let Self {
            name,
            kind,
            project_id,
            protect,
            tags,
            paused,
            repository_id,
            cluster_id,
            git,
            job_spec,
            configuration,
            approval,
            required_approvals,
            forbid_self_approval,
            approval_expiry,
            command_approval,
            manage_state,
            workdir,
            timeout,
            variables,
            commands,
            delete_commands,
            dependencies,
            files,
            environment,
            read_bindings,
            write_bindings,
            actor_id,
            parent_id,
            connection_id,
            definition_id,
            agent_id,
            cron,
            drift,
            policy_engine,
            interval,
            observable_metrics,
        } = self;
        // Clients send empty texts and lists for what was left out.
        let named = |id: Option<ID>| id.is_some_and(|id| !id.is_empty());
        let refusals = [
            (
                "attributes.parentId",
                named(parent_id),
                "is not supported: a stack is not made by a service here. Leave it out",
            ),
            (
                "attributes.agentId",
                named(agent_id),
                "is not supported: agents for coding are not part of this console. Leave it out",
            ),
            (
                "attributes.observableMetrics",
                filled(observable_metrics),
                "is not supported yet. Leave it out, and approve plans by hand",
            ),
        ];
        for (field, given, why) in refusals {
            unsupported(field, given, why)?;
        }
        Ok(Sorted {
            name,
            kind,
            project_id,
            protect,
            tags: shared::tags("attributes.tags", tags)?,
            paused,
            actor: actor_id,
            source: SourceAttributes { repository_id, cluster_id, git },
            follow: FollowAttributes { interval, connection_id },
            spec: SpecAttributes {
                job_spec,
                configuration,
                approval,
                required_approvals,
                forbid_self_approval,
                approval_expiry,
                command_approval,
                manage_state,
                workdir,
                timeout,
                variables,
                commands,
                delete_commands,
                dependencies,
                policy_engine,
                definition_id,
            },
            clock: ClockAttributes { cron, drift },
            files,
            environment,
            bindings: RbacAttributes { read_bindings, write_bindings, admin_bindings: None },
        })
    }
}

/// Where a stack's code is.
struct SourceAttributes {
    repository_id: Option<ID>,
    cluster_id: Option<ID>,
    git: Option<GitRefAttributes>,
}

impl SourceAttributes {
    /// The source, with what is absent as it is.
    fn over(self, is: Option<&StackSource>) -> Result<Option<StackSource>> {
        let Self { repository_id, cluster_id, git } = self;
        let repository = id_in("attributes.repositoryId", repository_id.as_deref())?;
        let cluster = id_in("attributes.clusterId", cluster_id.as_deref())?;
        let git = git.map(GitRefAttributes::parse).transpose()?;
        if repository.is_none() && cluster.is_none() && git.is_none() {
            return Ok(is.cloned());
        }
        let repository_id = repository.or(is.map(|is| is.repository_id)).ok_or_else(|| {
            Error::invalid("attributes.repositoryId", "is needed together with clusterId and git")
        })?;
        let cluster_id = cluster.or(is.map(|is| is.cluster_id)).ok_or_else(|| {
            Error::invalid("attributes.clusterId", "is needed together with repositoryId and git")
        })?;
        let git = git.or(is.map(|is| is.git.clone())).ok_or_else(|| {
            Error::invalid("attributes.git", "is needed together with repositoryId and clusterId")
        })?;
        Ok(Some(StackSource { repository_id, git, cluster_id }))
    }
}

/// How that is followed.
struct FollowAttributes {
    interval: Option<String>,
    connection_id: Option<ID>,
}

impl FollowAttributes {
    /// What it becomes, with what is absent as it is; an empty text ends a part.
    fn over(self, is: StackFollow) -> Result<StackFollow> {
        let Self { interval, connection_id } = self;
        let interval_seconds = match interval.as_deref() {
            None => is.interval_seconds,
            Some("") => None,
            Some(text) => Some(parse::<Seconds>("attributes.interval", text)?.0),
        };
        let connection_id = match connection_id {
            None => is.connection_id,
            Some(id) if id.is_empty() => None,
            Some(id) => id_in("attributes.connectionId", Some(&id.0))?,
        };
        Ok(StackFollow { interval_seconds, connection_id })
    }
}

/// A list has something in it.
fn filled<T>(list: List<T>) -> bool {
    items(list).is_some_and(|items| !items.is_empty())
}

fn changed_variables(list: List<StackEnvironmentAttributes>) -> Result<Option<Vec<ChangedVariable>>> {
    let Some(list) = items(list) else { return Ok(None) };
    let mut variables: Vec<ChangedVariable> = Vec::new();
    for StackEnvironmentAttributes { name, value, secret } in list {
        if variables.iter().any(|other| other.name == name) {
            return Err(Error::invalid("attributes.environment", format!("lists {name:?} twice")));
        }
        variables.push(ChangedVariable { name, value, secret: secret.unwrap_or_default() });
    }
    Ok(Some(variables))
}

fn changed_files(list: List<StackFileAttributes>) -> Result<Option<BTreeMap<String, Option<String>>>> {
    let Some(list) = items(list) else { return Ok(None) };
    let mut files = BTreeMap::new();
    for StackFileAttributes { path, content } in list {
        if files.insert(path.clone(), content).is_some() {
            return Err(Error::invalid("attributes.files", format!("lists {path:?} twice")));
        }
    }
    Ok(Some(files))
}
