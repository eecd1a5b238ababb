//! The changes of a plan in numbers, parsed from the output of the tools.

use plural_core::stack_run::PlanSummary;
use serde_json::Value;

/// From the plan of Terraform and OpenTofu, as `show -json` prints it.
pub(crate) fn of_terraform(plan: &Value) -> PlanSummary {
    let mut summary = PlanSummary::default();
    for resource in plan["resource_changes"].as_array().into_iter().flatten() {
        let change = &resource["change"];
        let actions = change["actions"].as_array().into_iter().flatten();
        let actions: Vec<&str> = actions.filter_map(Value::as_str).collect();
        for action in &actions {
            match *action {
                "create" => summary.add += 1,
                "delete" => summary.destroy += 1,
                "update" => summary.change += 1,
                "no-op" | "read" => {}
                // Forgotten, opened, or an action of a later version.
                _ => summary.other = true,
            }
        }
        // A replacement counts as both.
        summary.replace += u64::from(actions.contains(&"create") && actions.contains(&"delete"));
        // It is imported into the state, or moved to another address.
        summary.other |= !change["importing"].is_null() || !resource["previous_address"].is_null();
    }
    let mut outputs = plan["output_changes"].as_object().into_iter().flatten();
    summary.other |= outputs.any(|(_, change)| {
        change["actions"].as_array().is_some_and(|actions| actions.iter().any(|action| action != "no-op"))
    });
    // The tool itself says that there is something to apply, whatever it is.
    if summary.is_empty() && plan["applyable"] == true {
        summary.other = true;
    }
    summary
}

/// From the recap of `ansible-playbook --check`: tasks that would change something, on all hosts.
pub(crate) fn of_ansible(text: &str) -> PlanSummary {
    let mut hosts = text.lines().skip_while(|line| !line.starts_with("PLAY RECAP")).skip(1).peekable();
    // Without a recap the changes are unknown.
    let mut summary = PlanSummary { other: hosts.peek().is_none(), ..PlanSummary::default() };
    for line in hosts {
        let Some((_, counts)) = line.split_once(" : ") else { continue };
        for (name, count) in counts.split_whitespace().filter_map(|word| word.split_once('=')) {
            if name == "changed" {
                match count.parse::<u64>() {
                    Ok(count) => summary.change += count,
                    Err(_) => summary.other = true,
                }
            }
        }
    }
    summary
}

/// From the output of `pulumi preview`: lines `+ 3 to create` under `Resources:`.
pub(crate) fn of_pulumi(text: &str) -> PlanSummary {
    let mut lines = text.lines().map(str::trim).skip_while(|line| *line != "Resources:").peekable();
    let mut summary = PlanSummary { other: lines.peek().is_none(), ..PlanSummary::default() };
    for line in lines.skip(1).take_while(|line| !line.is_empty()) {
        let line = line.trim_start_matches(['+', '-', '~', ' ', '>', '<', '=']);
        let Some((count, what)) = line.split_once(' ') else { continue };
        let Ok(count) = count.parse::<u64>() else { continue };
        match what {
            // The sum: `7 changes. 4 unchanged`.
            what if what == "unchanged" || what.starts_with("change") => {}
            "to create" => summary.add += count,
            "to update" => summary.change += count,
            "to delete" => summary.destroy += count,
            "to replace" => {
                summary.add += count;
                summary.destroy += count;
                summary.replace += count;
            }
            _ => summary.other = true,
        }
    }
    // They are listed only if they change.
    summary.other |= text.lines().any(|line| line.trim() == "Outputs:");
    summary
}

/// A text without colours and other terminal escapes.
pub(crate) fn plain(text: &str) -> String {
    let mut plain = String::with_capacity(text.len());
    let mut letters = text.chars().peekable();
    while let Some(letter) = letters.next() {
        match letter {
            '\u{1b}' => match letters.next() {
                // Ends with a letter or one of a few signs.
                Some('[') => while letters.next().is_some_and(|c| !matches!(c, '@'..='~')) {},
                // Ends with a bell, or with another escape.
                Some(']') => while letters.next().is_some_and(|c| !matches!(c, '\u{7}' | '\u{1b}')) {},
                _ => {}
            },
            '\r' if letters.peek() == Some(&'\n') => {}
            letter => plain.push(letter),
        }
    }
    plain
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn summary(add: u64, change: u64, destroy: u64, other: bool) -> PlanSummary {
        PlanSummary { add, change, destroy, replace: 0, other }
    }

    #[test]
    fn actions_of_terraform_are_counted() {
        let resource = |actions: &[&str]| json!({"change": {"actions": actions}});
        let plan = json!({
            "resource_changes": [
                resource(&["create"]), resource(&["update"]), resource(&["delete"]), resource(&["no-op"]),
                resource(&["read"]), resource(&["delete", "create"]), resource(&["create", "delete"]),
            ],
            "output_changes": {"a": {"actions": ["no-op"]}},
        });
        assert_eq!(of_terraform(&plan), PlanSummary { replace: 2, ..summary(3, 1, 3, false) });
    }

    #[test]
    fn what_is_no_resource_is_a_change_all_the_same() {
        let none = json!({"change": {"actions": ["no-op"]}});
        for (plan, other) in [
            (json!({}), false),
            (json!({"resource_changes": [none.clone()], "applyable": false}), false),
            (json!({"output_changes": {"a": {"actions": ["update"]}}}), true),
            (json!({"resource_changes": [{"change": {"actions": ["forget"]}}]}), true),
            (
                json!({"resource_changes": [{"change": {"actions": ["no-op"], "importing": {"id": "a"}}}]}),
                true,
            ),
            (
                json!({"resource_changes": [{"previous_address": "a.b", "change": {"actions": ["no-op"]}}]}),
                true,
            ),
            (json!({"resource_changes": [none], "applyable": true}), true),
        ] {
            assert_eq!(of_terraform(&plan), summary(0, 0, 0, other), "{plan}");
        }
    }

    #[test]
    fn the_recap_of_ansible_is_read() {
        let text = "TASK [changed=7 : x]\nPLAY RECAP *****\nweb-1 : ok=3 changed=2 unreachable=0 failed=0\n\
                    web-2                      : ok=1    changed=1    unreachable=0\n";
        assert_eq!(of_ansible(text), summary(0, 3, 0, false));
        assert_eq!(of_ansible("PLAY RECAP ***\nweb-1 : ok=3 changed=0\n"), summary(0, 0, 0, false));
        assert_eq!(of_ansible("nothing"), summary(0, 0, 0, true));
    }

    #[test]
    fn the_resources_of_pulumi_are_read() {
        let text = "Previewing update (dev)\n\nResources:\n    + 3 to create\n    ~ 1 to update\n    - 2 to delete\n    \
                    +-1 to replace\n    7 changes. 4 unchanged\n\nResources: none\n";
        assert_eq!(of_pulumi(text), PlanSummary { replace: 1, ..summary(4, 1, 3, false) });
        assert_eq!(of_pulumi("Resources:\n    4 unchanged\n"), summary(0, 0, 0, false));
        assert_eq!(of_pulumi("Outputs:\n  + a: 1\n\nResources:\n    4 unchanged\n"), summary(0, 0, 0, true));
        assert_eq!(of_pulumi("error"), summary(0, 0, 0, true));
    }

    #[test]
    fn colours_are_taken_away() {
        let text = "\u{1b}[1m\u{1b}[32mok\u{1b}[0m\r\n\u{1b}]0;title\u{7}done\r 5%\u{1b}";
        assert_eq!(plain(text), "ok\ndone\r 5%");
    }
}
