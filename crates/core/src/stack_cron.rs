//! Runs that the clock makes, and when it looks for drift.

use std::str::FromStr as _;

use chrono::{DateTime, Utc};
use chrono_tz::Tz;
use serde::{Deserialize, Serialize};

use crate::cron::Cron;
use crate::error::{Error, Result};
use crate::stack::StackTool;
use crate::stack_run::{RunKind, RunTrigger};
use crate::stack_spec::{
    PulumiConfiguration, StackCommand, StackConfiguration, StackSpec, Stage, TerraformConfiguration,
    TerragruntConfiguration,
};

/// Days within which each schedule has a time: a 29th of February may be eight years away.
const YEARS: i64 = 9 * 366;

/// When the clock makes runs of a stack, and how these differ from others.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct StackCron {
    /// Minute, hour, day of the month, month, day of the week.
    pub crontab: String,
    /// IANA name of its time zone; absent: UTC.
    #[serde(default)]
    pub time_zone: Option<String>,
    /// A plan that a run of this schedule makes needs no approval. Plans of all other runs need what the stack asks for.
    #[serde(default)]
    pub auto_approve: bool,
    /// Settings of the tool that runs of this schedule have in the place of the stack's own.
    #[serde(default)]
    pub overrides: StackOverrides,
}

/// Settings of a tool, laid over those of the stack: what is absent is as the stack has it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct StackOverrides {
    /// Of Terraform and OpenTofu.
    pub terraform: Option<TerraformConfiguration>,
    /// Of Terragrunt.
    pub terragrunt: Option<TerragruntConfiguration>,
    /// Of Pulumi.
    pub pulumi: Option<PulumiConfiguration>,
}

/// How a stack is looked at for drift: changes that something other than its tool made.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct StackDriftSettings {
    /// When the clock looks, in five fields; absent: only when somebody asks.
    pub crontab: Option<String>,
    /// IANA name of its time zone; absent: UTC.
    pub time_zone: Option<String>,
    /// The commands of a `CUSTOM` stack that look, and print what they find.
    pub commands: Vec<StackCommand>,
}

/// What the clock is to make.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Clockwork {
    /// An ordinary run.
    Run,
    /// A look for drift.
    Drift,
}

impl Clockwork {
    /// Both.
    pub const ALL: [Self; 2] = [Self::Run, Self::Drift];

    /// What the runs that it makes are to do.
    pub const fn kind(self) -> RunKind {
        match self {
            Self::Run => RunKind::Apply,
            Self::Drift => RunKind::Drift,
        }
    }
}

impl StackSpec {
    /// What decides plans: the same without what only says when runs are made.
    #[must_use]
    pub fn planned(&self) -> Self {
        Self { cron: None, drift: None, ..self.clone() }
    }

    /// What a run of this kind and origin is made of.
    #[must_use]
    pub fn made_by(&self, kind: RunKind, trigger: RunTrigger) -> Self {
        let cron = self.cron.as_ref().filter(|_| (kind, trigger) == (RunKind::Apply, RunTrigger::Cron));
        let mut spec = self.clone();
        if let Some(cron) = cron {
            spec.configuration = cron.overrides.over(spec.configuration);
            spec.approval.required &= !cron.auto_approve;
        }
        spec.approval.required |= self.asks_for_approval(kind);
        if kind == RunKind::Commands || trigger == RunTrigger::PullRequest {
            // Whoever gives commands, or writes a pull request, does not act as the stack's actor.
            spec.actor = None;
        }
        spec
    }

    /// When the clock makes the next one after `now`; none without a schedule, and for one of another release that cannot be read.
    pub fn next(&self, what: Clockwork, now: DateTime<Utc>) -> Option<DateTime<Utc>> {
        let (crontab, time_zone) = match what {
            Clockwork::Run => self.cron.as_ref().map(|it| (it.crontab.as_str(), it.time_zone.as_deref()))?,
            Clockwork::Drift => {
                let drift = self.drift.as_ref()?;
                (drift.crontab.as_deref()?, drift.time_zone.as_deref())
            }
        };
        let (cron, zone) = schedule("crontab", crontab, time_zone).ok()?;
        cron.next_after(now, zone, YEARS)
    }

    /// The schedules of these two are the same.
    pub fn ticks_as(&self, other: &Self, what: Clockwork) -> bool {
        let of = |spec: &Self| match what {
            Clockwork::Run => spec.cron.as_ref().map(|it| (Some(it.crontab.clone()), it.time_zone.clone())),
            Clockwork::Drift => spec.drift.as_ref().map(|it| (it.crontab.clone(), it.time_zone.clone())),
        };
        of(self) == of(other)
    }

    /// Plans of the schedule are applied that nobody looks at, whether the stack asks for approval by now or will do so later.
    pub fn skips_approval(&self) -> bool {
        self.cron.as_ref().is_some_and(|cron| cron.auto_approve)
    }
}

impl StackOverrides {
    /// Laid over the settings of a stack.
    fn over(&self, mut base: StackConfiguration) -> StackConfiguration {
        let Self { terraform, terragrunt, pulumi } = self;
        if let Some(over) = terraform {
            let TerraformConfiguration { parallelism, refresh, approve_empty, tofu, tofu_registry } = over;
            let is = base.terraform.take().unwrap_or_default();
            base.terraform = Some(TerraformConfiguration {
                parallelism: parallelism.or(is.parallelism),
                refresh: refresh.or(is.refresh),
                approve_empty: approve_empty.or(is.approve_empty),
                tofu: tofu.or(is.tofu),
                tofu_registry: tofu_registry.or(is.tofu_registry),
            });
        }
        if let Some(over) = terragrunt {
            let TerragruntConfiguration { parallelism, refresh, approve_empty } = over;
            let is = base.terragrunt.take().unwrap_or_default();
            base.terragrunt = Some(TerragruntConfiguration {
                parallelism: parallelism.or(is.parallelism),
                refresh: refresh.or(is.refresh),
                approve_empty: approve_empty.or(is.approve_empty),
            });
        }
        if let Some(over) = pulumi {
            let PulumiConfiguration { parallel, refresh, approve_empty, stack, backend_url } = over.clone();
            let is = base.pulumi.take().unwrap_or_default();
            base.pulumi = Some(PulumiConfiguration {
                parallel: parallel.or(is.parallel),
                refresh: refresh.or(is.refresh),
                approve_empty: approve_empty.or(is.approve_empty),
                stack: stack.or(is.stack),
                backend_url: backend_url.or(is.backend_url),
            });
        }
        base
    }
}

/// Checks both schedules of a stack.
///
/// # Errors
/// [`Error::Invalid`], which names the field.
pub fn check_schedules(tool: StackTool, spec: &StackSpec) -> Result<()> {
    if let Some(StackCron { crontab, time_zone, auto_approve: _, overrides }) = &spec.cron {
        schedule("attributes.cron", crontab, time_zone.as_deref())?;
        let StackOverrides { terraform, terragrunt, pulumi } = overrides;
        for (field, is_given, of) in [
            ("attributes.cron.overrides.terraform", terraform.is_some(), StackTool::Terraform),
            ("attributes.cron.overrides.terragrunt", terragrunt.is_some(), StackTool::Terragrunt),
            ("attributes.cron.overrides.pulumi", pulumi.is_some(), StackTool::Pulumi),
        ] {
            if is_given && of != tool {
                return Err(Error::invalid(field, "is of another tool than the stack's"));
            }
        }
        let another = pulumi.as_ref().is_some_and(|it| it.stack.is_some() || it.backend_url.is_some());
        if another {
            return Err(Error::invalid(
                "attributes.cron.overrides.pulumi",
                "cannot name another stack or backend: that would be other infrastructure",
            ));
        }
    }
    let Some(StackDriftSettings { crontab, time_zone, commands }) = &spec.drift else { return Ok(()) };
    if let Some(crontab) = crontab {
        schedule("attributes.drift", crontab, time_zone.as_deref())?;
        if tool == StackTool::Custom && commands.is_empty() {
            return Err(Error::invalid(
                "attributes.drift.commands",
                "are needed: only they can say how a CUSTOM stack is looked at for drift",
            ));
        }
    }
    if tool != StackTool::Custom && !commands.is_empty() {
        return Err(Error::invalid("attributes.drift.commands", "are of CUSTOM stacks only"));
    }
    let changes = |command: &StackCommand| matches!(command.stage, Some(Stage::Apply | Stage::Destroy));
    if commands.iter().any(changes) {
        return Err(Error::invalid(
            "attributes.drift.commands",
            "only look: their stage is INIT, PLAN or VERIFY, or not given",
        ));
    }
    Ok(())
}

fn schedule(field: &'static str, crontab: &str, time_zone: Option<&str>) -> Result<(Cron, Tz)> {
    if crontab.len() > 256 {
        return Err(Error::invalid(field, "the schedule must have at most 256 bytes"));
    }
    let cron: Cron = crontab.parse().map_err(|error| match error {
        Error::Invalid { field: _, reason } => Error::invalid(field, format!("crontab: {reason}")),
        error => error,
    })?;
    let zone = time_zone.filter(|zone| !zone.is_empty()).unwrap_or("UTC");
    let zone = Tz::from_str(zone).map_err(|_| {
        let told: String = zone.chars().take(64).collect();
        Error::invalid(field, format!("timeZone: {told:?} must be a name such as Europe/Berlin or UTC"))
    })?;
    Ok((cron, zone))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stack_spec::StackApproval;

    fn at(text: &str) -> DateTime<Utc> {
        text.parse().unwrap()
    }

    fn cron(crontab: &str, time_zone: Option<&str>) -> StackSpec {
        let cron = StackCron {
            crontab: crontab.to_owned(),
            time_zone: time_zone.map(str::to_owned),
            auto_approve: false,
            overrides: StackOverrides::default(),
        };
        StackSpec { cron: Some(cron), ..StackSpec::default() }
    }

    #[test]
    fn the_next_time_is_behind_now_and_in_its_zone() {
        let next = |crontab, zone, now| cron(crontab, zone).next(Clockwork::Run, at(now));
        assert_eq!(
            next("*/10 * * * *", None, "2026-11-27T02:10:00Z"),
            Some(at("2026-11-27T02:20:00Z")),
            "the one of now has been"
        );
        assert_eq!(
            next("0 3 * * mon", Some("Europe/Berlin"), "2026-11-27T02:10:00Z"),
            Some(at("2026-11-30T02:00:00Z"))
        );
        // 02:30 does not exist on that day: it is the moment after.
        assert_eq!(
            next("30 2 * * *", Some("Europe/Berlin"), "2027-03-27T12:00:00Z"),
            Some(at("2027-03-28T01:00:00Z"))
        );
        assert_eq!(next("0 0 29 feb *", None, "2026-11-27T00:00:00Z"), Some(at("2028-02-29T00:00:00Z")));
        assert_eq!(StackSpec::default().next(Clockwork::Run, at("2026-11-27T00:00:00Z")), None);
        assert_eq!(cron("* * * * *", None).next(Clockwork::Drift, at("2026-11-27T00:00:00Z")), None);
    }

    #[test]
    fn only_runs_of_the_schedule_are_made_as_it_says() {
        let mut spec = cron("@daily", None);
        spec.approval = StackApproval { required: true, approvers: 2, ..StackApproval::default() };
        spec.configuration.terraform =
            Some(TerraformConfiguration { parallelism: Some(2), ..TerraformConfiguration::default() });
        let over = TerraformConfiguration { refresh: Some(false), ..TerraformConfiguration::default() };
        let cron = spec.cron.as_mut().unwrap();
        cron.auto_approve = true;
        cron.overrides.terraform = Some(over);
        assert!(spec.skips_approval());
        for (kind, trigger) in [
            (RunKind::Apply, RunTrigger::Manual),
            (RunKind::Apply, RunTrigger::Commit),
            (RunKind::Drift, RunTrigger::Cron),
            (RunKind::Destroy, RunTrigger::Cron),
        ] {
            assert_eq!(spec.made_by(kind, trigger), spec, "{kind:?} {trigger:?}");
        }
        let made = spec.made_by(RunKind::Apply, RunTrigger::Cron);
        assert!(!made.approval.required);
        let terraform = made.configuration.terraform.unwrap();
        assert_eq!((terraform.parallelism, terraform.refresh), (Some(2), Some(false)));
    }

    #[test]
    fn when_runs_are_made_decides_no_plan() {
        let mut spec = cron("@daily", None);
        spec.drift = Some(StackDriftSettings { crontab: Some("@hourly".into()), ..Default::default() });
        assert_eq!(spec.planned(), StackSpec::default());
        // Stacks and runs of before are read, and written as they were.
        let json = serde_json::to_string(&StackSpec::default()).unwrap();
        assert!(!json.contains("cron") && !json.contains("drift"), "{json}");
        let read: StackSpec = serde_json::from_str(&serde_json::to_string(&spec).unwrap()).unwrap();
        assert_eq!(read, spec);
        assert!(spec.ticks_as(&read, Clockwork::Run) && spec.ticks_as(&read, Clockwork::Drift));
        assert!(!spec.ticks_as(&StackSpec::default(), Clockwork::Drift));
    }

    #[test]
    fn nonsense_is_refused_by_its_name() {
        let command = |stage| StackCommand { cmd: "look".into(), args: Vec::new(), stage, approve: false };
        let drift = |crontab: Option<&str>, commands| StackSpec {
            drift: Some(StackDriftSettings {
                crontab: crontab.map(str::to_owned),
                time_zone: None,
                commands,
            }),
            ..StackSpec::default()
        };
        let mut other = cron("@daily", None);
        other.cron.as_mut().unwrap().overrides.pulumi = Some(PulumiConfiguration::default());
        for (spec, tool, field) in [
            (cron("* * *", None), StackTool::Terraform, "attributes.cron"),
            (cron("@daily", Some("Mars/Olympus")), StackTool::Terraform, "attributes.cron"),
            (other, StackTool::Terraform, "attributes.cron.overrides.pulumi"),
            (drift(Some("nightly"), Vec::new()), StackTool::Terraform, "attributes.drift"),
            (drift(Some("@daily"), Vec::new()), StackTool::Custom, "attributes.drift.commands"),
            (drift(None, vec![command(None)]), StackTool::Terraform, "attributes.drift.commands"),
            (drift(None, vec![command(Some(Stage::Apply))]), StackTool::Custom, "attributes.drift.commands"),
        ] {
            let error = check_schedules(tool, &spec).unwrap_err();
            assert!(matches!(&error, Error::Invalid { field: named, .. } if *named == field), "{error}");
        }
        check_schedules(StackTool::Custom, &drift(Some("@daily"), vec![command(None)])).unwrap();
        check_schedules(StackTool::Ansible, &drift(Some("@daily"), Vec::new())).unwrap();
    }
}
