//! Findings of other programs about a plan: Trivy, if the stack's policy asks for it, and Infracost, if it is available.

use std::{
    fs,
    path::{Path, PathBuf},
    time::Duration,
};

use bytes::Bytes;
use plural_core::run_call::InputStep;
use plural_core::stack_cost::PlanCost;
use plural_core::stack_policy_rules::{MAX_FINDING, trivy_findings};
use plural_core::stack_spec::Stage;
use plural_core::stack_steps::{SCAN, SCAN_REPORT};
use serde_json::Value;

use crate::{end::End, run::Job};

/// The variable without which Infracost knows no prices.
const COST_KEY: &str = "INFRACOST_API_KEY";
/// The program.
const COST: &str = "infracost";
/// Its time limit: a run does not wait for prices.
const COST_TIME: Duration = Duration::from_mins(2);

/// Whether this step is the one in which Trivy scans the plan.
pub(crate) fn is_scan(step: &InputStep) -> bool {
    step.stage == Stage::Verify && !step.custom && step.name == SCAN
}

impl Job {
    /// Writes the plan's JSON, with secrets masked, for the next program. Only just before it: commands of the stack could change the file.
    pub(crate) fn lay_out_plan(&self, json: Option<&Bytes>) -> Result<(), End> {
        let json = json.ok_or_else(|| End::failed("there is no plan as JSON that could be looked at"))?;
        remove(&self.beside_plan(SCAN_REPORT))?;
        crate::workspace::write(&self.beside_plan(".json"), json).map_err(End::Failed)
    }

    /// Uploads Trivy's findings.
    ///
    /// # Errors
    /// If its output cannot be parsed: a plan that was not scanned must not pass.
    pub(crate) async fn hand_in_scan(&self) -> Result<(), End> {
        let path = self.beside_plan(SCAN_REPORT);
        let size = fs::metadata(&path).map_or(0, |file| file.len());
        if size > MAX_FINDING as u64 {
            return Err(End::failed(format!("the report of Trivy is larger than {} MiB", MAX_FINDING >> 20)));
        }
        let report = fs::read(&path).map_err(|_| End::failed("Trivy left no report"))?;
        trivy_findings(&report).map_err(End::Failed)?;
        let report =
            self.without_secrets(&report).ok_or_else(|| End::failed("the report of Trivy is no JSON"))?;
        self.console.finding(SCAN, &report).await
    }

    /// Estimates the cost of the plan, and uploads it. A failure is only logged.
    pub(crate) async fn hand_in_cost(&self, json: Option<&Bytes>) -> Result<(), End> {
        let has_key = |name: &str, value: &str| name == COST_KEY && !value.is_empty();
        let asks = self.input.takes_cost
            && self.input.environment.iter().any(|variable| has_key(&variable.name, &variable.value));
        if !asks || json.is_none() || !self.has_program(COST) {
            return Ok(());
        }
        self.lay_out_plan(json)?;
        let plan = self.beside_plan(".json").to_string_lossy().into_owned();
        let args = ["breakdown", "--path", plan.as_str(), "--format", "json", "--no-color"];
        let printed = match self.own_within(COST, &args, None, MAX_FINDING, COST_TIME).await {
            Ok(printed) => printed,
            Err(End::Failed(why)) => {
                self.say(&format!("the cost of the plan is not known: {why}\n")).await;
                return Ok(());
            }
            Err(end) => return Err(end),
        };
        let report = match PlanCost::parse(&printed) {
            Ok(_) => self.without_secrets(&printed),
            Err(why) => {
                self.say(&format!("the cost of the plan is not known: {why}\n")).await;
                None
            }
        };
        match report.filter(|report| report.len() <= MAX_FINDING && PlanCost::parse(report).is_ok()) {
            Some(report) => self.console.finding("cost", &report).await,
            None => Ok(()),
        }
    }

    fn without_secrets(&self, report: &[u8]) -> Option<Bytes> {
        let mut report: Value = serde_json::from_slice(report).ok()?;
        self.secrets.hide_in(&mut report);
        Some(Bytes::from(report.to_string()))
    }

    fn beside_plan(&self, ending: &str) -> PathBuf {
        let mut path = self.space.plan.clone().into_os_string();
        path.push(ending);
        path.into()
    }
}

fn remove(path: &Path) -> Result<(), End> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            Err(End::failed(format!("{} cannot be removed: {error}", path.display())))
        }
        _ => Ok(()),
    }
}
