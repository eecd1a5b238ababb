//! Commands of a `CUSTOM` stack that wait for people, though its plans do not.

use std::fmt::Write as _;

use crate::error::{Error, Result};
use crate::stack_exec::line;
use crate::stack_run::RunKind;
use crate::stack_spec::{StackCommand, StackSpec, Stage};

impl StackSpec {
    /// The commands that change something in a run of this kind.
    fn changing(&self, kind: RunKind) -> impl Iterator<Item = &StackCommand> {
        let commands: &[StackCommand] = match kind {
            RunKind::Apply => self.commands.as_slice(),
            RunKind::Destroy => self.delete_commands.as_slice(),
            // They apply nothing of the stack's own.
            RunKind::DryRun | RunKind::Drift | RunKind::Commands => &[],
        };
        commands.iter().filter(move |command| match command.stage {
            None | Some(Stage::Apply) => true,
            Some(Stage::Destroy) => kind == RunKind::Destroy,
            Some(Stage::Init | Stage::Plan | Stage::Verify) => false,
        })
    }

    /// A command of a run of this kind runs only when people agreed to the plan.
    pub fn asks_for_approval(&self, kind: RunKind) -> bool {
        self.changing(kind).any(|command| command.approve)
    }

    /// A run that waited for people under the other waits no more under this.
    pub fn asks_less_than(&self, other: &Self) -> bool {
        let waits = |spec: &Self, kind| spec.approval.required || spec.asks_for_approval(kind);
        [RunKind::Apply, RunKind::Destroy].into_iter().any(|kind| waits(other, kind) && !waits(self, kind))
    }

    /// What people agree to beside the plan, where a command asks for it: every command that changes something, on a line of its own.
    pub fn would_run(&self, kind: RunKind) -> Option<String> {
        if !self.asks_for_approval(kind) {
            return None;
        }
        let mut text = "Would run, with the rights to apply:\n".to_owned();
        for StackCommand { cmd, args, stage: _, approve } in self.changing(kind) {
            let asks = if *approve { "  # asks for approval" } else { "" };
            let _ = writeln!(text, "  {}{asks}", line(cmd, args));
        }
        Some(text)
    }
}

/// Refuses an approval where nobody could be asked before the command runs. `may_ask`: the commands of the list change something.
pub(crate) fn check_asks(field: &'static str, may_ask: bool, command: &StackCommand) -> Result<()> {
    let is_before = matches!(command.stage, Some(Stage::Init | Stage::Plan | Stage::Verify));
    if command.approve && (is_before || !may_ask) {
        return Err(Error::invalid(
            field,
            "ask for an approval before people can be asked: requireApproval is of commands of the stages APPLY and DESTROY",
        ));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stack::StackTool;
    use crate::stack_cron::{StackCron, StackDriftSettings};
    use crate::stack_run::RunTrigger;
    use crate::stack_spec::StackApproval;

    fn command(cmd: &str, stage: Option<Stage>, approve: bool) -> StackCommand {
        StackCommand { cmd: cmd.to_owned(), args: vec!["a b".to_owned()], stage, approve }
    }

    fn asking() -> StackSpec {
        StackSpec {
            commands: vec![
                command("look", Some(Stage::Plan), false),
                command("make", None, false),
                command("push", Some(Stage::Apply), true),
            ],
            delete_commands: vec![command("undo", None, false)],
            ..StackSpec::default()
        }
    }

    #[test]
    fn a_run_waits_for_its_own_commands_only() {
        let spec = asking();
        for (kind, waits) in [
            (RunKind::Apply, true),
            (RunKind::Destroy, false),
            (RunKind::DryRun, false),
            (RunKind::Drift, false),
            (RunKind::Commands, false),
        ] {
            assert_eq!(spec.asks_for_approval(kind), waits, "{kind:?}");
            assert_eq!(spec.would_run(kind).is_some(), waits, "{kind:?}");
            assert_eq!(spec.made_by(kind, RunTrigger::Manual).approval.required, waits, "{kind:?}");
        }
        let undoing =
            StackSpec { delete_commands: vec![command("undo", Some(Stage::Destroy), true)], ..asking() };
        assert!(undoing.asks_for_approval(RunKind::Destroy));
        let text = spec.would_run(RunKind::Apply).unwrap();
        assert_eq!(
            text,
            "Would run, with the rights to apply:\n  make 'a b'\n  push 'a b'  # asks for approval\n"
        );
    }

    /// A schedule lets plans through, and no command that asks by itself.
    #[test]
    fn a_schedule_does_not_agree_for_people() {
        let cron = StackCron {
            crontab: "@daily".to_owned(),
            time_zone: None,
            auto_approve: true,
            overrides: crate::stack_cron::StackOverrides::default(),
        };
        let spec = StackSpec {
            cron: Some(cron),
            approval: StackApproval { required: true, ..StackApproval::default() },
            ..asking()
        };
        assert!(spec.made_by(RunKind::Apply, RunTrigger::Cron).approval.required);
        let quiet = StackSpec { commands: vec![command("make", None, false)], ..spec };
        assert!(!quiet.made_by(RunKind::Apply, RunTrigger::Cron).approval.required);
    }

    #[test]
    fn taking_an_approval_away_is_asking_less() {
        let quiet = StackSpec { commands: vec![command("push", None, false)], ..asking() };
        assert!(quiet.asks_less_than(&asking()) && !asking().asks_less_than(&quiet));
        assert!(!asking().asks_less_than(&asking()));
        let always = StackApproval { required: true, ..StackApproval::default() };
        let asks_always = StackSpec { approval: always, ..quiet };
        assert!(!asks_always.asks_less_than(&asking()));
        assert!(asking().asks_less_than(&asks_always), "its destruction waits no more");
    }

    #[test]
    fn nobody_is_asked_before_there_is_a_plan() {
        assert!(asking().check(StackTool::Custom).is_ok());
        for stage in [Stage::Init, Stage::Plan, Stage::Verify] {
            let spec =
                StackSpec { commands: vec![command("look", Some(stage), true)], ..StackSpec::default() };
            let refused = spec.check(StackTool::Custom).unwrap_err().to_string();
            assert!(refused.contains("attributes.commands"), "{refused}");
        }
        let looks = StackDriftSettings {
            commands: vec![command("look", None, true)],
            ..StackDriftSettings::default()
        };
        let spec = StackSpec { drift: Some(looks), ..StackSpec::default() };
        let refused = spec.check(StackTool::Custom).unwrap_err().to_string();
        assert!(refused.contains("attributes.drift.commands"), "{refused}");
    }

    /// What was stored before this could be said is as it was, and so is its digest.
    #[test]
    fn commands_that_ask_nothing_are_stored_as_they_were() {
        let json = serde_json::to_string(&command("make", None, false)).unwrap();
        assert!(!json.contains("approve"), "{json}");
        let read: StackCommand = serde_json::from_str(&json).unwrap();
        assert_eq!(read, command("make", None, false));
        let json = serde_json::to_string(&command("make", None, true)).unwrap();
        assert_eq!(serde_json::from_str::<StackCommand>(&json).unwrap(), command("make", None, true));
    }
}
