//! When the clock makes runs of a stack and looks for drift, and what it found.

use async_graphql::{Context, Enum, ID, InputObject, Object, SimpleObject};
use chrono::{DateTime, Utc};
use plural_app::stack_run::NewRun;
use plural_core::Result;
use plural_core::stack_cron::{StackCron as CoreCron, StackDriftSettings, StackOverrides as CoreOverrides};
use plural_core::stack_drift::{DriftCheck, DriftField, DriftedResource, StackDrift, StackWatch};
use plural_core::stack_run::{RunKind, RunTrigger};
use plural_core::stack_spec::StackSpec;

use super::{
    error::{IntoGraphql, List, Nullable, id, list, nullable},
    page::{connection, counted},
    request::request,
    stack_run::StackRun,
    stack_spec::{CustomRunStep, PulumiConfiguration, TerraformConfiguration, TerragruntConfiguration},
    stack_spec_input::{
        CustomStepAttributes, PulumiConfigurationAttributes, TerraformConfigurationAttributes,
        TerragruntConfigurationAttributes, steps,
    },
};

/// When the clock makes runs of a stack. Given, it takes the place of the one before.
#[derive(Debug, InputObject)]
pub(crate) struct StackCronAttributes {
    /// In cron's five fields. An empty text ends the schedule.
    crontab: String,
    /// IANA name of its time zone; absent: UTC.
    time_zone: Option<String>,
    /// A plan that a run of this schedule makes needs no approval. Only those who may approve set it, and, while it is set, change
    /// what the stack is made of.
    auto_approve: Option<bool>,
    /// Settings of the tool that runs of this schedule have in the place of the stack's own.
    overrides: Option<StackOverridesAttributes>,
    /// Makes no difference: every run is made of the newest commit.
    track_ref: Option<bool>,
}

/// Settings of a tool for some runs. What is absent is as the stack has it.
#[derive(Debug, InputObject)]
pub(crate) struct StackOverridesAttributes {
    /// Of Terraform and OpenTofu.
    terraform: Option<TerraformConfigurationAttributes>,
    /// Of Terragrunt.
    terragrunt: Option<TerragruntConfigurationAttributes>,
    /// Of Pulumi.
    pulumi: Option<PulumiConfigurationAttributes>,
}

/// How a stack is looked at for drift. What is absent stays as it is.
#[derive(Debug, InputObject)]
pub(crate) struct StackDriftAttributes {
    /// When the clock looks, in cron's five fields. An empty text ends the schedule.
    crontab: Option<String>,
    /// IANA name of its time zone; an empty text: UTC.
    time_zone: Option<String>,
    /// The commands of a `CUSTOM` stack that look. They print a line `drift: updated ADDRESS` or `drift: deleted ADDRESS` for each
    /// resource that drifted. Replaces the list.
    commands: List<CustomStepAttributes>,
}

/// Both schedules of a stack as they are given.
pub(crate) struct ClockAttributes {
    pub(crate) cron: Option<StackCronAttributes>,
    pub(crate) drift: Option<StackDriftAttributes>,
}

impl ClockAttributes {
    /// The document with what is given.
    pub(crate) fn over(self, mut spec: StackSpec) -> Result<StackSpec> {
        let Self { cron, drift } = self;
        if let Some(cron) = cron {
            let StackCronAttributes { crontab, time_zone, auto_approve, overrides, track_ref: _ } = cron;
            spec.cron = if crontab.is_empty() {
                None
            } else {
                Some(CoreCron {
                    crontab,
                    time_zone: time_zone.filter(|zone| !zone.is_empty()),
                    auto_approve: auto_approve.unwrap_or_default(),
                    overrides: overrides
                        .map(StackOverridesAttributes::parse)
                        .transpose()?
                        .unwrap_or_default(),
                })
            };
        }
        if let Some(StackDriftAttributes { crontab, time_zone, commands }) = drift {
            let mut settings = spec.drift.take().unwrap_or_default();
            if let Some(crontab) = crontab {
                settings.crontab = Some(crontab).filter(|crontab| !crontab.is_empty());
            }
            if let Some(zone) = time_zone {
                settings.time_zone = Some(zone).filter(|zone| !zone.is_empty());
            }
            if let Some(commands) = steps(commands, &settings.commands) {
                settings.commands = commands;
            }
            spec.drift = Some(settings).filter(|settings| *settings != StackDriftSettings::default());
        }
        Ok(spec)
    }
}

impl StackOverridesAttributes {
    fn parse(self) -> Result<CoreOverrides> {
        let Self { terraform, terragrunt, pulumi } = self;
        let mut parsed = CoreOverrides::default();
        if let Some(terraform) = terraform {
            terraform.over(parsed.terraform.get_or_insert_default())?;
        }
        if let Some(terragrunt) = terragrunt {
            terragrunt.over(parsed.terragrunt.get_or_insert_default())?;
        }
        if let Some(pulumi) = pulumi {
            pulumi.over(parsed.pulumi.get_or_insert_default())?;
        }
        Ok(parsed)
    }
}

/// When the clock makes runs of a stack.
#[derive(Debug, SimpleObject)]
pub(crate) struct StackCron {
    /// In cron's five fields.
    crontab: String,
    /// IANA name of its time zone; absent: UTC.
    time_zone: Option<String>,
    /// A plan that a run of this schedule makes needs no approval.
    auto_approve: bool,
    /// Settings of the tool that runs of this schedule have in the place of the stack's own.
    overrides: StackOverrides,
    /// When the next run is made.
    next_at: Option<DateTime<Utc>>,
    /// Why no run was made when it was last time for one, if none was.
    error: Option<String>,
}

/// Settings of a tool for some runs.
#[derive(Debug, SimpleObject)]
pub(crate) struct StackOverrides {
    /// Of Terraform and OpenTofu.
    terraform: Option<TerraformConfiguration>,
    /// Of Terragrunt.
    terragrunt: Option<TerragruntConfiguration>,
    /// Of Pulumi.
    pulumi: Option<PulumiConfiguration>,
}

impl StackCron {
    pub(crate) fn of(cron: CoreCron, watch: &StackWatch) -> Self {
        let CoreCron { crontab, time_zone, auto_approve, overrides } = cron;
        let CoreOverrides { terraform, terragrunt, pulumi } = overrides;
        Self {
            crontab,
            time_zone,
            auto_approve,
            overrides: StackOverrides {
                terraform: terraform.map(Into::into),
                terragrunt: terragrunt.map(Into::into),
                pulumi: pulumi.map(Into::into),
            },
            next_at: watch.next_run_at,
            error: watch.error.clone(),
        }
    }
}

/// How a stack is looked at for drift.
#[derive(Debug, SimpleObject)]
pub(crate) struct StackDriftSchedule {
    /// When the clock looks, in cron's five fields; absent: only when somebody asks.
    crontab: Option<String>,
    /// IANA name of its time zone; absent: UTC.
    time_zone: Option<String>,
    /// The commands of a `CUSTOM` stack that look.
    commands: List<CustomRunStep>,
    /// When the clock looks next.
    next_at: Option<DateTime<Utc>>,
}

impl StackDriftSchedule {
    pub(crate) fn of(settings: StackDriftSettings, watch: &StackWatch) -> Self {
        let StackDriftSettings { crontab, time_zone, commands } = settings;
        let commands = list(commands.into_iter().map(CustomRunStep::from));
        Self { crontab, time_zone, commands, next_at: watch.next_drift_at }
    }
}

/// How a stack stands by what the last look for drift found.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Enum)]
#[graphql(remote = "plural_core::stack_drift::DriftStatus")]
pub(crate) enum StackDriftStatus {
    /// Nobody has looked yet.
    Unchecked,
    /// There is what the tool knows.
    InSync,
    /// Something else changed resources.
    Drifted,
}

/// What happened to a resource that drifted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Enum)]
#[graphql(remote = "plural_core::stack_drift::DriftAction")]
pub(crate) enum StackDriftAction {
    /// It is another one than the tool knows.
    Updated,
    /// It is gone.
    Deleted,
}

/// What is told of a stack's looks for drift. One that failed leaves what the last good one found.
#[derive(Debug, SimpleObject)]
pub(crate) struct StackDriftCheck {
    /// When the last good look ended.
    checked_at: Option<DateTime<Utc>>,
    /// The number of its run.
    run_number: Option<i32>,
    /// Resources that it found, all of them.
    count: i32,
    /// Those of them that are not listed, because there are too many.
    left_out: i32,
    /// Why the newest look failed; absent where it was a good one.
    error: Option<String>,
    /// When it failed.
    failed_at: Option<DateTime<Utc>>,
}

impl From<DriftCheck> for StackDriftCheck {
    fn from(check: DriftCheck) -> Self {
        let DriftCheck { checked_at, run, count, left_out, error, failed_at } = check;
        Self {
            checked_at,
            run_number: run.map(counted),
            count: counted(count + left_out),
            left_out: counted(left_out),
            error,
            failed_at,
        }
    }
}

/// A resource of a stack that something other than its tool changed.
pub(crate) struct StackDriftedResource(StackDrift);

impl From<StackDrift> for StackDriftedResource {
    fn from(drift: StackDrift) -> Self {
        Self(drift)
    }
}

connection!(StackDriftedResourceConnection, StackDriftedResourceEdge, StackDriftedResource);

impl StackDriftedResource {
    fn resource(&self) -> &DriftedResource {
        &self.0.resource
    }
}

/// A resource of a stack that something other than its tool changed.
#[Object]
impl StackDriftedResource {
    /// Id. It stays as long as each look finds the address.
    async fn id(&self) -> ID {
        self.0.id.to_string().into()
    }

    /// Its address in the code.
    async fn address(&self) -> &str {
        &self.resource().address
    }

    /// Its type.
    #[graphql(name = "type")]
    async fn kind(&self) -> &str {
        &self.resource().kind
    }

    /// What of the tool keeps it.
    async fn provider(&self) -> &str {
        &self.resource().provider
    }

    /// What happened to it.
    async fn action(&self) -> StackDriftAction {
        self.resource().action.into()
    }

    /// What of it differs; nothing of one that is gone, and of tools that do not tell.
    async fn fields(&self) -> List<StackDriftField> {
        list(self.resource().fields.iter().cloned().map(StackDriftField::from))
    }

    /// Further fields that differ, or changes that the tool counts and does not name.
    async fn left_out(&self) -> i32 {
        counted(self.resource().left_out)
    }

    /// The number of the run that found it last.
    async fn run_number(&self) -> i32 {
        counted(self.0.run)
    }

    /// The id of that run. Old runs are forgotten.
    async fn run_id(&self) -> ID {
        self.0.run_id.to_string().into()
    }

    /// When it was found first, since when each look found it.
    async fn first_seen_at(&self) -> DateTime<Utc> {
        self.0.first_seen_at
    }

    /// When it was found last.
    async fn last_seen_at(&self) -> DateTime<Utc> {
        self.0.last_seen_at
    }
}

/// A field of a resource that drifted.
#[derive(SimpleObject)]
pub(crate) struct StackDriftField {
    /// Where in the resource: `tags.team`, `rule[0].port`.
    path: String,
    /// What the tool knows, as JSON; absent where it knows of nothing there, and where it is sensitive.
    before: Option<String>,
    /// What there is.
    after: Option<String>,
    /// One of the two is sensitive, so that neither is kept.
    sensitive: bool,
    /// One of the two is longer than what is kept of it.
    cut: bool,
}

impl From<DriftField> for StackDriftField {
    fn from(field: DriftField) -> Self {
        let DriftField { path, before, after, sensitive, cut } = field;
        Self { path, before, after, sensitive, cut }
    }
}

/// Looking for drift.
#[derive(Default)]
pub(crate) struct StackClockMutation;

/// Looking for drift.
#[Object]
impl StackClockMutation {
    /// Looks for drift of a stack now: makes a run that changes nothing, waits for nobody, and says what something other than the
    /// stack's tool changed.
    async fn check_stack_drift(
        &self,
        ctx: &Context<'_>,
        #[graphql(name = "id", desc = "The id of the stack.")] stack: ID,
    ) -> Nullable<StackRun> {
        nullable(async {
            let request = request(ctx);
            let stack = id(&stack).into_graphql(ctx)?;
            let new = NewRun { kind: RunKind::Drift, trigger: RunTrigger::Manual };
            Ok(Some(
                Box::pin(request.app.stack_run_create(&request.op, stack, new))
                    .await
                    .into_graphql(ctx)?
                    .into(),
            ))
        })
        .await
    }
}
