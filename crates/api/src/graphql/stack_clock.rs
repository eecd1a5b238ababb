//! Schedules of a stack's runs and of its drift detection, and the drift that was found.

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

/// The schedule of a stack's runs. Replaces the previous one.
#[derive(Debug, InputObject)]
pub(crate) struct StackCronAttributes {
    /// In cron's five fields. An empty text removes the schedule.
    crontab: String,
    /// IANA name of its time zone; absent: UTC.
    time_zone: Option<String>,
    /// A plan of a run of this schedule needs no approval. Only users who may approve can set it, and, while it is set, change
    /// the inputs of the stack.
    auto_approve: Option<bool>,
    /// Settings of the tool for runs of this schedule, which override the stack's own.
    overrides: Option<StackOverridesAttributes>,
    /// No effect: every run uses the newest commit.
    track_ref: Option<bool>,
}

/// Settings of a tool for some runs. For what is absent, the stack's own settings apply.
#[derive(Debug, InputObject)]
pub(crate) struct StackOverridesAttributes {
    /// For Terraform and OpenTofu.
    terraform: Option<TerraformConfigurationAttributes>,
    /// For Terragrunt.
    terragrunt: Option<TerragruntConfigurationAttributes>,
    /// For Pulumi.
    pulumi: Option<PulumiConfigurationAttributes>,
}

/// The settings of a stack's drift detection. What is absent stays as it is.
#[derive(Debug, InputObject)]
pub(crate) struct StackDriftAttributes {
    /// Its schedule, in cron's five fields. An empty text removes the schedule.
    crontab: Option<String>,
    /// IANA name of its time zone; an empty text: UTC.
    time_zone: Option<String>,
    /// The check commands of a `CUSTOM` stack. They print a line `drift: updated ADDRESS` or `drift: deleted ADDRESS` for each
    /// drifted resource. Replaces the list.
    commands: List<CustomStepAttributes>,
}

/// Both schedules of a stack in the input.
pub(crate) struct ClockAttributes {
    pub(crate) cron: Option<StackCronAttributes>,
    pub(crate) drift: Option<StackDriftAttributes>,
}

impl ClockAttributes {
    /// The document with the input merged in.
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

/// The schedule of a stack's runs.
#[derive(Debug, SimpleObject)]
pub(crate) struct StackCron {
    /// In cron's five fields.
    crontab: String,
    /// IANA name of its time zone; absent: UTC.
    time_zone: Option<String>,
    /// A plan of a run of this schedule needs no approval.
    auto_approve: bool,
    /// Settings of the tool for runs of this schedule, which override the stack's own.
    overrides: StackOverrides,
    /// When the next run starts.
    next_at: Option<DateTime<Utc>>,
    /// Why no run started when one was last due, if none did.
    error: Option<String>,
}

/// Settings of a tool for some runs.
#[derive(Debug, SimpleObject)]
pub(crate) struct StackOverrides {
    /// For Terraform and OpenTofu.
    terraform: Option<TerraformConfiguration>,
    /// For Terragrunt.
    terragrunt: Option<TerragruntConfiguration>,
    /// For Pulumi.
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

/// The settings of a stack's drift detection.
#[derive(Debug, SimpleObject)]
pub(crate) struct StackDriftSchedule {
    /// Its schedule, in cron's five fields; absent: only on request.
    crontab: Option<String>,
    /// IANA name of its time zone; absent: UTC.
    time_zone: Option<String>,
    /// The check commands of a `CUSTOM` stack.
    commands: List<CustomRunStep>,
    /// When the next check is due.
    next_at: Option<DateTime<Utc>>,
}

impl StackDriftSchedule {
    pub(crate) fn of(settings: StackDriftSettings, watch: &StackWatch) -> Self {
        let StackDriftSettings { crontab, time_zone, commands } = settings;
        let commands = list(commands.into_iter().map(CustomRunStep::from));
        Self { crontab, time_zone, commands, next_at: watch.next_drift_at }
    }
}

/// The drift status of a stack, as of the last check.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Enum)]
#[graphql(remote = "plural_core::stack_drift::DriftStatus")]
pub(crate) enum StackDriftStatus {
    /// There was no check yet.
    Unchecked,
    /// Reality matches the state.
    InSync,
    /// Something else changed resources.
    Drifted,
}

/// What happened to a drifted resource.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Enum)]
#[graphql(remote = "plural_core::stack_drift::DriftAction")]
pub(crate) enum StackDriftAction {
    /// It differs from the state.
    Updated,
    /// It was deleted.
    Deleted,
}

/// The results of a stack's drift checks. A failed one leaves the findings of the last successful one.
#[derive(Debug, SimpleObject)]
pub(crate) struct StackDriftCheck {
    /// When the last successful check ended.
    checked_at: Option<DateTime<Utc>>,
    /// The number of its run.
    run_number: Option<i32>,
    /// Number of all resources that it found.
    count: i32,
    /// Number of those that are not listed, because there are too many.
    left_out: i32,
    /// Why the newest check failed; absent if it succeeded.
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
    /// Id. It stays as long as each check finds the address.
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

    /// Its provider.
    async fn provider(&self) -> &str {
        &self.resource().provider
    }

    /// What happened to it.
    async fn action(&self) -> StackDriftAction {
        self.resource().action.into()
    }

    /// The fields that differ; empty if it was deleted, and for tools that do not report them.
    async fn fields(&self) -> List<StackDriftField> {
        list(self.resource().fields.iter().cloned().map(StackDriftField::from))
    }

    /// Number of further fields that differ, or of changes that the tool counts without naming them.
    async fn left_out(&self) -> i32 {
        counted(self.resource().left_out)
    }

    /// The number of the last run that found it.
    async fn run_number(&self) -> i32 {
        counted(self.0.run)
    }

    /// The id of that run. Old runs are deleted.
    async fn run_id(&self) -> ID {
        self.0.run_id.to_string().into()
    }

    /// When it was first found; each check since has found it.
    async fn first_seen_at(&self) -> DateTime<Utc> {
        self.0.first_seen_at
    }

    /// When it was last found.
    async fn last_seen_at(&self) -> DateTime<Utc> {
        self.0.last_seen_at
    }
}

/// A field of a drifted resource.
#[derive(SimpleObject)]
pub(crate) struct StackDriftField {
    /// Its path in the resource: `tags.team`, `rule[0].port`.
    path: String,
    /// The value in the state, as JSON; absent if there is none, and if it is sensitive.
    before: Option<String>,
    /// The actual value.
    after: Option<String>,
    /// One of the two is sensitive, so both are left out.
    sensitive: bool,
    /// One of the two was cut.
    cut: bool,
}

impl From<DriftField> for StackDriftField {
    fn from(field: DriftField) -> Self {
        let DriftField { path, before, after, sensitive, cut } = field;
        Self { path, before, after, sensitive, cut }
    }
}

/// Drift detection.
#[derive(Default)]
pub(crate) struct StackClockMutation;

/// Drift detection.
#[Object]
impl StackClockMutation {
    /// Starts a drift check of a stack: a run that changes nothing, needs no approval, and reports what something other than the
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
