//! What a plan would cost, as Infracost says.

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// Resources that are kept; the totals are of all.
pub const MAX_COST_ROWS: usize = 500;
/// Bytes of a name.
const MAX_NAME: usize = 512;

/// What a plan would cost.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct PlanCost {
    /// "USD".
    pub currency: String,
    /// A month of all that there would be then, a decimal number.
    pub monthly: Option<String>,
    /// An hour of it.
    pub hourly: Option<String>,
    /// A month of what there was before.
    pub past_monthly: Option<String>,
    /// What of a month the plan changes.
    pub diff_monthly: Option<String>,
    /// Its resources, as far as they are kept.
    pub resources: Vec<ResourceCost>,
    /// Resources that are not kept.
    pub omitted: u64,
}

/// What one resource would cost.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ResourceCost {
    /// Infracost's project.
    pub project: String,
    /// Its address.
    pub name: String,
    /// Its type.
    pub kind: String,
    /// A month of it.
    pub monthly: Option<String>,
    /// An hour of it.
    pub hourly: Option<String>,
}

impl PlanCost {
    /// Reads what `infracost breakdown --format json` prints.
    ///
    /// # Errors
    /// Why it cannot be read, in words: never a part of what it says.
    pub fn parse(report: &[u8]) -> Result<Self, String> {
        let report: Value =
            serde_json::from_slice(report).map_err(|_| "the report of Infracost is no JSON".to_owned())?;
        let projects = report.get("projects").and_then(Value::as_array);
        let projects = projects.ok_or("the report is none of Infracost: it has no projects")?;
        let mut cost = Self {
            currency: name(&report["currency"]),
            monthly: amount(&report["totalMonthlyCost"])?,
            hourly: amount(&report["totalHourlyCost"])?,
            past_monthly: amount(&report["pastTotalMonthlyCost"])?,
            diff_monthly: amount(&report["diffTotalMonthlyCost"])?,
            ..Self::default()
        };
        for project in projects {
            let resources = project["breakdown"]["resources"].as_array();
            for resource in resources.into_iter().flatten() {
                if cost.resources.len() >= MAX_COST_ROWS {
                    cost.omitted += 1;
                    continue;
                }
                cost.resources.push(ResourceCost {
                    project: name(&project["name"]),
                    name: name(&resource["name"]),
                    kind: name(&resource["resourceType"]),
                    monthly: amount(&resource["monthlyCost"])?,
                    hourly: amount(&resource["hourlyCost"])?,
                });
            }
        }
        Ok(cost)
    }
}

fn name(value: &Value) -> String {
    let text = value.as_str().unwrap_or_default();
    let end = text.floor_char_boundary(MAX_NAME);
    text.get(..end).unwrap_or_default().chars().filter(|c| !c.is_control()).collect()
}

/// A decimal number in a text, as it is written: money is not rounded on its way.
fn amount(value: &Value) -> Result<Option<String>, String> {
    let text = match value {
        Value::Null => return Ok(None),
        Value::String(text) => text.clone(),
        Value::Number(number) => number.to_string(),
        Value::Bool(_) | Value::Array(_) | Value::Object(_) => String::new(),
    };
    let is_amount = text.len() <= 64 && text.parse::<f64>().is_ok_and(f64::is_finite);
    if is_amount {
        Ok(Some(text))
    } else {
        Err("the report of Infracost has a cost that is no number".to_owned())
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_report_is_read_with_all_totals_and_so_many_resources() {
        let resource = json!({"name": "aws_instance.a", "resourceType": "aws_instance", "monthlyCost": "70.08", "hourlyCost": null});
        let report = json!({
            "currency": "USD", "totalMonthlyCost": "71.5", "totalHourlyCost": "0.0979452054794521", "pastTotalMonthlyCost": "1.42",
            "diffTotalMonthlyCost": "70.08",
            "projects": [{"name": "net", "breakdown": {"resources": vec![resource; MAX_COST_ROWS + 3]}}, {"name": "empty"}],
        });
        let cost = PlanCost::parse(report.to_string().as_bytes()).unwrap();
        assert_eq!((cost.resources.len(), cost.omitted), (MAX_COST_ROWS, 3));
        assert_eq!(
            (
                cost.currency.as_str(),
                cost.monthly.as_deref(),
                cost.hourly.as_deref(),
                cost.diff_monthly.as_deref()
            ),
            ("USD", Some("71.5"), Some("0.0979452054794521"), Some("70.08"))
        );
        let first = &cost.resources[0];
        assert_eq!(
            (
                first.project.as_str(),
                first.name.as_str(),
                first.kind.as_str(),
                first.monthly.as_deref(),
                &first.hourly
            ),
            ("net", "aws_instance.a", "aws_instance", Some("70.08"), &None)
        );
        for bad in [
            json!({}),
            json!({"projects": [], "totalMonthlyCost": "much"}),
            json!({"projects": [], "totalHourlyCost": "inf"}),
        ] {
            assert!(PlanCost::parse(bad.to_string().as_bytes()).is_err(), "{bad}");
        }
        assert!(PlanCost::parse(b"{").is_err());
    }
}
