//! Which commands a run runs: the console decides them, and the harness runs these and no others, besides what it asks the tool itself.
//! It gives the tool the stack's variables in the tool's own way.

use crate::error::{Error, Result};
use crate::run_call::InputStep;
use crate::stack::StackTool;
use crate::stack_exec::{ExecCommand, ExecCommands};
use crate::stack_policy_rules::PolicyEngine;
use crate::stack_pull_request::can_be_checked;
use crate::stack_run::{RunKind, RunPhase};
use crate::stack_spec::{
    AnsibleConfiguration, PulumiConfiguration, StackCommand, StackConfiguration, StackSpec, Stage,
};

/// Stands for the path of the plan file.
pub const PLAN: &str = "$PLAN";

/// The step in which Trivy looks at the plan, which the harness writes as JSON beside its file.
pub const SCAN: &str = "trivy";
/// Trivy writes its report beside the plan file, with this at the end of its name.
pub const SCAN_REPORT: &str = ".trivy.json";

/// The commands of one Job of a run, in order. Their places count over both Jobs: those of the second go on behind the first.
///
/// # Errors
/// [`Error::Invalid`] for a stack whose tool cannot do it as the stack is.
pub fn steps(tool: StackTool, spec: &StackSpec, kind: RunKind, phase: RunPhase) -> Result<Vec<InputStep>> {
    if spec.is_checked_only() {
        return checks(tool, spec, phase);
    }
    let planned = drafts(tool, spec, kind, RunPhase::Plan)?;
    let (first, drafts) = match phase {
        RunPhase::Plan => (0, planned),
        // It never comes to that.
        RunPhase::Apply if kind.only_plans() => (planned.len(), Vec::new()),
        RunPhase::Apply => (planned.len(), drafts(tool, spec, kind, RunPhase::Apply)?),
    };
    let numbered = (0_u32..).skip(first).zip(drafts);
    Ok(numbered.map(|(index, draft)| draft.at(index)).collect())
}

/// Of code that nobody vouches for: what the tool says of it without a backend, a state, or anything else of the stack.
fn checks(tool: StackTool, spec: &StackSpec, phase: RunPhase) -> Result<Vec<InputStep>> {
    if !can_be_checked(tool) {
        return Err(Error::invalid(
            "pullRequest",
            "is of a fork, and this tool runs what the code says before it checks anything: somebody who may approve the stack's \
             plans has to release the commit",
        ));
    }
    let program = if runs_tofu(&spec.configuration) { "tofu" } else { "terraform" };
    let drafts = match phase {
        RunPhase::Plan => vec![
            Draft::tool(Stage::Init, program, ["init", "-input=false", "-backend=false"]),
            Draft::tool(Stage::Verify, program, ["validate"]).named("validate"),
        ],
        RunPhase::Apply => Vec::new(),
    };
    Ok((0_u32..).zip(drafts).map(|(index, draft)| draft.at(index)).collect())
}

/// The image that the tool is in. Empty where none is known: then it is the agent's own, which has no tool.
pub fn image(tool: StackTool, configuration: &StackConfiguration) -> String {
    let StackConfiguration { image, version, tag, .. } = configuration;
    let (name, newest) = match tool {
        StackTool::Terraform if runs_tofu(configuration) => ("ghcr.io/opentofu/opentofu", "1.12"),
        StackTool::Terraform => ("docker.io/hashicorp/terraform", "1.5.7"),
        StackTool::Terragrunt => ("docker.io/alpine/terragrunt", "latest"),
        StackTool::Ansible => ("docker.io/alpine/ansible", "latest"),
        StackTool::Pulumi => ("docker.io/pulumi/pulumi", "latest"),
        StackTool::Custom => ("", ""),
    };
    let name = image.as_deref().unwrap_or(name);
    if name.is_empty() {
        return String::new();
    }
    match tag.as_deref().or(version.as_deref()) {
        Some(tag) => format!("{name}:{tag}"),
        // Whoever names an image of their own without a tag means what the registry means by that.
        None if image.is_some() => name.to_owned(),
        None => format!("{name}:{newest}"),
    }
}

/// A step without its place.
struct Draft {
    stage: Stage,
    name: String,
    cmd: String,
    args: Vec<String>,
    custom: bool,
    dir: Option<String>,
}

impl Draft {
    fn tool<'a>(stage: Stage, cmd: &str, args: impl IntoIterator<Item = &'a str>) -> Self {
        let args = args.into_iter().map(str::to_owned).collect();
        Self { stage, name: stage.as_str().to_owned(), cmd: cmd.to_owned(), args, custom: false, dir: None }
    }

    fn named(self, name: &str) -> Self {
        Self { name: name.to_owned(), ..self }
    }

    fn own(stage: Stage, command: &StackCommand) -> Self {
        let StackCommand { cmd, args, stage: _, approve: _ } = command;
        Self { stage, name: cmd.clone(), cmd: cmd.clone(), args: args.clone(), custom: true, dir: None }
    }

    fn asked(stage: Stage, command: &ExecCommand) -> Self {
        let ExecCommand { cmd, args, dir, approve: _ } = command;
        Self {
            stage,
            name: cmd.clone(),
            cmd: cmd.clone(),
            args: args.clone(),
            custom: true,
            dir: dir.clone(),
        }
    }

    fn at(self, index: u32) -> InputStep {
        let Self { stage, name, cmd, args, custom, dir } = self;
        InputStep { index, stage, name, cmd, args, custom, dir }
    }
}

fn drafts(tool: StackTool, spec: &StackSpec, kind: RunKind, phase: RunPhase) -> Result<Vec<Draft>> {
    if kind == RunKind::Commands {
        return exec(tool, spec, phase);
    }
    let configuration = &spec.configuration;
    let own = match tool {
        StackTool::Terraform => {
            let terraform = configuration.terraform.as_ref();
            let options = Options {
                parallelism: terraform.and_then(|it| it.parallelism),
                refresh: terraform.and_then(|it| it.refresh),
            };
            let program = if runs_tofu(configuration) { "tofu" } else { "terraform" };
            terraform_like(program, &options, kind, phase)
        }
        StackTool::Terragrunt => {
            let terragrunt = configuration.terragrunt.as_ref();
            let options = Options {
                parallelism: terragrunt.and_then(|it| it.parallelism),
                refresh: terragrunt.and_then(|it| it.refresh),
            };
            terraform_like("terragrunt", &options, kind, phase)
        }
        StackTool::Ansible => vec![ansible(spec, kind, phase)?],
        StackTool::Pulumi => pulumi(spec, kind, phase)?,
        StackTool::Custom => custom(spec, kind, phase)?,
    };
    let own = own.into_iter().chain(scan(spec, kind, phase)).collect();
    Ok(with_hooks(own, configuration, kind, phase))
}

/// What checks the plan inside of its Job. No policy is about what something else changed.
fn scan(spec: &StackSpec, kind: RunKind, phase: RunPhase) -> Option<Draft> {
    let scans = spec.policy.as_ref().is_some_and(|policy| policy.engine == PolicyEngine::Trivy);
    let (plan, report) = (format!("{PLAN}.json"), format!("{PLAN}{SCAN_REPORT}"));
    let args = ["config", "--format", "json", "--exit-code", "0", "--output", report.as_str(), plan.as_str()];
    (scans && phase == RunPhase::Plan && kind != RunKind::Drift)
        .then(|| Draft::tool(Stage::Verify, "trivy", args).named(SCAN))
}

/// The stages of a Job, in order.
fn stages(kind: RunKind, phase: RunPhase) -> &'static [Stage] {
    match (phase, kind) {
        (RunPhase::Plan, _) => &[Stage::Init, Stage::Plan, Stage::Verify],
        (RunPhase::Apply, RunKind::Destroy) => &[Stage::Init, Stage::Destroy],
        (RunPhase::Apply, RunKind::Apply | RunKind::DryRun | RunKind::Drift | RunKind::Commands) => {
            &[Stage::Init, Stage::Apply]
        }
    }
}

/// The stage in which a run changes something.
const fn last_stage(kind: RunKind) -> Stage {
    match kind {
        RunKind::Destroy => Stage::Destroy,
        RunKind::Apply | RunKind::DryRun | RunKind::Drift | RunKind::Commands => Stage::Apply,
    }
}

/// Each stage's commands, and then its hooks, also where the tool has no command of that stage. What is about plans that are to be applied
/// has nothing to say of drift: of that only the hooks run that prepare it.
fn with_hooks(
    own: Vec<Draft>,
    configuration: &StackConfiguration,
    kind: RunKind,
    phase: RunPhase,
) -> Vec<Draft> {
    let (mut all, mut own) = (Vec::new(), own);
    for stage in stages(kind, phase) {
        let (these, rest): (Vec<Draft>, Vec<Draft>) =
            own.into_iter().partition(|draft| draft.stage == *stage);
        own = rest;
        all.extend(these);
        let is_about_it = kind != RunKind::Drift || *stage == Stage::Init;
        let hooks = configuration.hooks.iter().filter(|hook| is_about_it && hook.after_stage == *stage);
        all.extend(hooks.map(|hook| Draft {
            stage: *stage,
            name: format!("{} hook: {}", stage.as_str(), hook.cmd),
            cmd: hook.cmd.clone(),
            args: hook.args.clone(),
            custom: true,
            dir: None,
        }));
    }
    all
}

fn runs_tofu(configuration: &StackConfiguration) -> bool {
    configuration.terraform.as_ref().and_then(|terraform| terraform.tofu) != Some(false)
}

struct Options {
    parallelism: Option<u32>,
    refresh: Option<bool>,
}

/// Terraform, OpenTofu, and Terragrunt, which hands on what it does not know.
fn terraform_like(program: &str, options: &Options, kind: RunKind, phase: RunPhase) -> Vec<Draft> {
    let Options { parallelism, refresh } = options;
    let parallelism = parallelism.map(|many| format!("-parallelism={many}"));
    let init = Draft::tool(Stage::Init, program, ["init", "-input=false"]);
    let work = match phase {
        RunPhase::Plan => {
            // A plan only reads the state: it holds nobody up.
            let file = format!("-out={PLAN}");
            let args = ["plan", "-input=false", "-lock=false", file.as_str()].into_iter();
            let is_drift = kind == RunKind::Drift;
            let args = args
                .chain((kind == RunKind::Destroy).then_some("-destroy"))
                .chain(is_drift.then_some("-refresh-only"))
                .chain((*refresh == Some(false) && !is_drift).then_some("-refresh=false"))
                .chain(parallelism.as_deref());
            Draft::tool(Stage::Plan, program, args)
        }
        RunPhase::Apply => {
            let args = ["apply", "-input=false"].into_iter().chain(parallelism.as_deref()).chain([PLAN]);
            Draft::tool(last_stage(kind), program, args)
        }
    };
    vec![init, work]
}

fn ansible(spec: &StackSpec, kind: RunKind, phase: RunPhase) -> Result<Draft> {
    let none = AnsibleConfiguration::default();
    let AnsibleConfiguration {
        playbook,
        inventory,
        additional_args,
        private_key_file,
        config_file: _,
        supports_check,
        delete_playbook,
    } = spec.configuration.ansible.as_ref().unwrap_or(&none);
    let playbook = match kind {
        RunKind::Destroy => delete_playbook.as_deref().ok_or_else(|| {
            Error::invalid(
                "attributes.configuration.ansible.deletePlaybook",
                "is needed to destroy an Ansible stack: name the playbook that undoes it, or detach the stack",
            )
        })?,
        RunKind::Drift if *supports_check == Some(false) => {
            return Err(Error::invalid(
                "attributes.configuration.ansible.supportsCheck",
                "is false: only a playbook that understands --check can be looked at for drift",
            ));
        }
        RunKind::Apply | RunKind::DryRun | RunKind::Drift | RunKind::Commands => playbook.as_deref().unwrap_or("main.yaml"),
    };
    let mut args: Vec<&str> = Vec::new();
    if let Some(inventory) = inventory {
        args.extend(["--inventory", inventory.as_str()]);
    }
    if let Some(key) = private_key_file {
        args.extend(["--private-key", key.as_str()]);
    }
    args.extend(additional_args.iter().map(String::as_str));
    let stage = match phase {
        RunPhase::Plan => {
            match supports_check {
                // It says what it would run, and not what that would change.
                Some(false) => args.push("--list-tasks"),
                Some(true) | None => args.extend(["--check", "--diff"]),
            }
            Stage::Plan
        }
        RunPhase::Apply => last_stage(kind),
    };
    args.push(playbook);
    Ok(Draft::tool(stage, "ansible-playbook", args))
}

fn pulumi(spec: &StackSpec, kind: RunKind, phase: RunPhase) -> Result<Vec<Draft>> {
    let none = PulumiConfiguration::default();
    let PulumiConfiguration { parallel, refresh, approve_empty: _, stack, backend_url } =
        spec.configuration.pulumi.as_ref().unwrap_or(&none);
    let backend = backend_url.as_deref().ok_or_else(|| {
        Error::invalid(
            "attributes.configuration.pulumi.backendUrl",
            "is needed: the console keeps no state for Pulumi",
        )
    })?;
    let stack = stack.as_deref().unwrap_or("dev");
    let planned = format!("--save-plan={PLAN}");
    let saved = format!("--plan={PLAN}");
    let parallel = parallel.map(|many| many.to_string());
    let parallel = parallel.as_deref().into_iter().flat_map(|many| ["--parallel", many]);
    let mut all = vec![
        Draft::tool(Stage::Init, "pulumi", ["login", "--non-interactive", backend]).named("login"),
        Draft::tool(Stage::Init, "pulumi", ["stack", "select", "--non-interactive", "--create", stack])
            .named("select"),
    ];
    let (stage, args) = match (phase, kind) {
        (RunPhase::Plan, RunKind::Destroy) => {
            (Stage::Plan, vec!["destroy", "--preview-only", "--non-interactive"])
        }
        (RunPhase::Plan, RunKind::Drift) => {
            (Stage::Plan, vec!["refresh", "--preview-only", "--non-interactive", "--diff"])
        }
        (RunPhase::Plan, RunKind::Apply | RunKind::DryRun | RunKind::Commands) => {
            (Stage::Plan, vec!["preview", "--non-interactive", "--diff", planned.as_str()])
        }
        (RunPhase::Apply, RunKind::Destroy) => {
            (Stage::Destroy, vec!["destroy", "--non-interactive", "--yes"])
        }
        (RunPhase::Apply, RunKind::Apply | RunKind::DryRun | RunKind::Drift | RunKind::Commands) => {
            (Stage::Apply, vec!["up", "--non-interactive", "--skip-preview", "--yes", saved.as_str()])
        }
    };
    let refreshes = *refresh == Some(true) && phase == RunPhase::Plan && kind != RunKind::Drift;
    let refresh = refreshes.then_some("--refresh");
    let args = args.into_iter().chain(["--stack", stack]).chain(parallel).chain(refresh);
    all.push(Draft::tool(stage, "pulumi", args));
    Ok(all)
}

/// The commands that somebody gave, in the Job that they are of, behind what makes the tool ready there.
fn exec(tool: StackTool, spec: &StackSpec, phase: RunPhase) -> Result<Vec<Draft>> {
    let Some(ExecCommands { phase: wanted, commands, custom: _, answers: _ }) = &spec.exec else {
        return Err(Error::invalid("commands", "are needed: give the run the commands that it is to run"));
    };
    if phase != *wanted {
        return Ok(Vec::new());
    }
    let stage = match phase {
        RunPhase::Plan => Stage::Plan,
        RunPhase::Apply => Stage::Apply,
    };
    let mut all = drafts(tool, spec, RunKind::Apply, phase)?;
    all.retain(|draft| draft.stage == Stage::Init);
    all.extend(commands.iter().map(|command| Draft::asked(stage, command)));
    Ok(all)
}

fn custom(spec: &StackSpec, kind: RunKind, phase: RunPhase) -> Result<Vec<Draft>> {
    let commands = match kind {
        RunKind::Destroy if spec.delete_commands.is_empty() => {
            return Err(Error::invalid(
                "attributes.deleteCommands",
                "are needed to destroy a CUSTOM stack: say what undoes it, or detach the stack",
            ));
        }
        RunKind::Destroy => &spec.delete_commands,
        RunKind::Drift => match &spec.drift {
            Some(drift) if !drift.commands.is_empty() => &drift.commands,
            Some(_) | None => {
                return Err(Error::invalid(
                    "attributes.drift.commands",
                    "are needed: only they can say how a CUSTOM stack is looked at for drift",
                ));
            }
        },
        RunKind::Apply | RunKind::DryRun | RunKind::Commands => &spec.commands,
    };
    let wanted = stages(kind, phase);
    let placed = commands.iter().map(|command| {
        let stage = match (command.stage, kind) {
            // What undoes it is destruction, however it is called.
            (Some(Stage::Apply) | None, RunKind::Destroy) => Stage::Destroy,
            (Some(stage), _) => stage,
            (None, RunKind::Apply | RunKind::DryRun | RunKind::Commands) => Stage::Apply,
            (None, RunKind::Drift) => Stage::Plan,
        };
        Draft::own(stage, command)
    });
    Ok(placed.filter(|draft| wanted.contains(&draft.stage)).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stack_cron::StackDriftSettings;
    use crate::stack_spec::{StackHook, TerraformConfiguration};

    /// Each as "stage: command line".
    fn lines(tool: StackTool, spec: &StackSpec, kind: RunKind, phase: RunPhase) -> Vec<String> {
        let all = steps(tool, spec, kind, phase).unwrap();
        let line = |step: &InputStep| {
            let line = [std::slice::from_ref(&step.cmd), step.args.as_slice()].concat().join(" ");
            format!("{}: {line}", step.stage.as_str())
        };
        all.iter().map(line).collect()
    }

    fn command(cmd: &str, stage: Option<Stage>) -> StackCommand {
        StackCommand { cmd: cmd.to_owned(), args: Vec::new(), stage, approve: false }
    }

    fn hook(cmd: &str, after_stage: Stage) -> StackHook {
        StackHook { cmd: cmd.to_owned(), args: Vec::new(), after_stage }
    }

    #[test]
    fn terraform_applies_the_plan_that_it_made() {
        let mut spec = StackSpec::default();
        let of = |spec: &StackSpec, kind, phase| lines(StackTool::Terraform, spec, kind, phase);
        assert_eq!(
            of(&spec, RunKind::Apply, RunPhase::Plan),
            ["init: tofu init -input=false", "plan: tofu plan -input=false -lock=false -out=$PLAN"]
        );
        assert_eq!(
            of(&spec, RunKind::Apply, RunPhase::Apply),
            ["init: tofu init -input=false", "apply: tofu apply -input=false $PLAN"]
        );
        spec.configuration.terraform = Some(TerraformConfiguration {
            parallelism: Some(3),
            refresh: Some(false),
            tofu: Some(false),
            ..TerraformConfiguration::default()
        });
        assert_eq!(
            of(&spec, RunKind::Destroy, RunPhase::Plan)[1],
            "plan: terraform plan -input=false -lock=false -out=$PLAN -destroy -refresh=false -parallelism=3"
        );
        assert_eq!(
            of(&spec, RunKind::Destroy, RunPhase::Apply)[1],
            "destroy: terraform apply -input=false -parallelism=3 $PLAN"
        );
        assert_eq!(of(&spec, RunKind::DryRun, RunPhase::Apply), [""; 0]);
        assert_eq!(
            lines(StackTool::Terragrunt, &StackSpec::default(), RunKind::Apply, RunPhase::Apply),
            ["init: terragrunt init -input=false", "apply: terragrunt apply -input=false $PLAN"]
        );
    }

    #[test]
    fn a_look_for_drift_reads_the_world_and_changes_nothing() {
        let mut spec = StackSpec::default();
        let of = |tool, spec: &StackSpec| lines(tool, spec, RunKind::Drift, RunPhase::Plan);
        spec.configuration.terraform =
            Some(TerraformConfiguration { refresh: Some(false), ..TerraformConfiguration::default() });
        spec.configuration.hooks =
            vec![hook("login", Stage::Init), hook("lint", Stage::Plan), hook("x", Stage::Verify)];
        let drift = "tofu plan -input=false -lock=false -out=$PLAN -refresh-only";
        assert_eq!(
            of(StackTool::Terraform, &spec),
            ["init: tofu init -input=false", "init: login", &format!("plan: {drift}")]
        );
        spec.configuration.hooks.clear();
        assert_eq!(
            of(StackTool::Terragrunt, &spec)[1],
            format!("plan: {}", drift.replace("tofu", "terragrunt"))
        );
        assert_eq!(of(StackTool::Ansible, &spec), ["plan: ansible-playbook --check --diff main.yaml"]);
        spec.configuration.pulumi = Some(PulumiConfiguration {
            backend_url: Some("file://~".into()),
            refresh: Some(true),
            ..Default::default()
        });
        assert_eq!(
            of(StackTool::Pulumi, &spec)[2],
            "plan: pulumi refresh --preview-only --non-interactive --diff --stack dev"
        );
        for tool in StackTool::ALL {
            let applied = steps(tool, &spec, RunKind::Drift, RunPhase::Apply);
            assert!(
                applied.is_err() == (tool == StackTool::Custom) && applied.unwrap_or_default().is_empty()
            );
        }
        // Its own commands make no plan of a CUSTOM stack: nobody knows what they would print.
        let refused =
            steps(StackTool::Custom, &spec, RunKind::Drift, RunPhase::Plan).unwrap_err().to_string();
        assert!(refused.starts_with("attributes.drift.commands"), "{refused}");
        spec.commands = vec![command("make", None)];
        let commands = vec![command("login", Some(Stage::Init)), command("look", None)];
        spec.drift = Some(StackDriftSettings { commands, ..StackDriftSettings::default() });
        assert_eq!(of(StackTool::Custom, &spec), ["init: login", "plan: look"]);
        spec.configuration.ansible =
            Some(AnsibleConfiguration { supports_check: Some(false), ..AnsibleConfiguration::default() });
        assert!(steps(StackTool::Ansible, &spec, RunKind::Drift, RunPhase::Plan).is_err());
    }

    #[test]
    fn hooks_come_after_their_stage_and_places_count_over_both_jobs() {
        let mut spec = StackSpec::default();
        spec.configuration.hooks = vec![
            hook("after-apply", Stage::Apply),
            hook("lint", Stage::Verify),
            hook("after-init", Stage::Init),
            hook("gone", Stage::Destroy),
        ];
        let all = |kind, phase| steps(StackTool::Terraform, &spec, kind, phase).unwrap();
        let told = |steps: &[InputStep]| {
            steps.iter().map(|step| (step.index, step.cmd.clone(), step.custom)).collect::<Vec<_>>()
        };
        let expected = |rows: &[(u32, &str, bool)]| {
            rows.iter().map(|(index, cmd, custom)| (*index, (*cmd).to_owned(), *custom)).collect::<Vec<_>>()
        };
        assert_eq!(
            told(&all(RunKind::Apply, RunPhase::Plan)),
            expected(&[(0, "tofu", false), (1, "after-init", true), (2, "tofu", false), (3, "lint", true)])
        );
        assert_eq!(
            told(&all(RunKind::Apply, RunPhase::Apply)),
            expected(&[
                (4, "tofu", false),
                (5, "after-init", true),
                (6, "tofu", false),
                (7, "after-apply", true)
            ])
        );
        assert_eq!(told(&all(RunKind::Destroy, RunPhase::Apply))[3].1, "gone");
    }

    #[test]
    fn ansible_checks_and_then_does() {
        let mut spec = StackSpec::default();
        let of = |spec: &StackSpec, kind, phase| lines(StackTool::Ansible, spec, kind, phase);
        assert_eq!(
            of(&spec, RunKind::Apply, RunPhase::Plan),
            ["plan: ansible-playbook --check --diff main.yaml"]
        );
        let refused =
            steps(StackTool::Ansible, &spec, RunKind::Destroy, RunPhase::Plan).unwrap_err().to_string();
        assert!(refused.contains("ansible.deletePlaybook"), "{refused}");
        spec.configuration.ansible = Some(AnsibleConfiguration {
            playbook: Some("site.yaml".to_owned()),
            inventory: Some("hosts".to_owned()),
            additional_args: vec!["-v".to_owned()],
            private_key_file: Some("key".to_owned()),
            supports_check: Some(false),
            delete_playbook: Some("undo.yaml".to_owned()),
            ..AnsibleConfiguration::default()
        });
        let given = "--inventory hosts --private-key key -v";
        assert_eq!(
            of(&spec, RunKind::Apply, RunPhase::Plan),
            [format!("plan: ansible-playbook {given} --list-tasks site.yaml")]
        );
        assert_eq!(
            of(&spec, RunKind::Destroy, RunPhase::Apply),
            [format!("destroy: ansible-playbook {given} undo.yaml")]
        );
    }

    #[test]
    fn pulumi_needs_a_place_for_its_state() {
        let mut spec = StackSpec::default();
        let refused =
            steps(StackTool::Pulumi, &spec, RunKind::Apply, RunPhase::Plan).unwrap_err().to_string();
        assert!(refused.contains("pulumi.backendUrl"), "{refused}");
        spec.configuration.pulumi = Some(PulumiConfiguration {
            backend_url: Some("s3://states".to_owned()),
            parallel: Some(2),
            ..PulumiConfiguration::default()
        });
        let of = |kind, phase| lines(StackTool::Pulumi, &spec, kind, phase);
        assert_eq!(
            of(RunKind::Apply, RunPhase::Plan),
            [
                "init: pulumi login --non-interactive s3://states",
                "init: pulumi stack select --non-interactive --create dev",
                "plan: pulumi preview --non-interactive --diff --save-plan=$PLAN --stack dev --parallel 2",
            ]
        );
        assert_eq!(
            of(RunKind::Apply, RunPhase::Apply)[2],
            "apply: pulumi up --non-interactive --skip-preview --yes --plan=$PLAN --stack dev --parallel 2"
        );
        assert_eq!(
            of(RunKind::Destroy, RunPhase::Apply)[2],
            "destroy: pulumi destroy --non-interactive --yes --stack dev --parallel 2"
        );
    }

    #[test]
    fn commands_of_a_stack_run_in_their_stages() {
        let mut spec = StackSpec {
            commands: vec![
                command("make", None),
                command("look", Some(Stage::Plan)),
                command("get", Some(Stage::Init)),
            ],
            ..StackSpec::default()
        };
        let of = |spec: &StackSpec, kind, phase| lines(StackTool::Custom, spec, kind, phase);
        assert_eq!(of(&spec, RunKind::Apply, RunPhase::Plan), ["init: get", "plan: look"]);
        assert_eq!(of(&spec, RunKind::Apply, RunPhase::Apply), ["init: get", "apply: make"]);
        let refused =
            steps(StackTool::Custom, &spec, RunKind::Destroy, RunPhase::Plan).unwrap_err().to_string();
        assert!(refused.contains("deleteCommands"), "{refused}");
        spec.delete_commands = vec![command("undo", None), command("tell", Some(Stage::Plan))];
        assert_eq!(of(&spec, RunKind::Destroy, RunPhase::Plan), ["plan: tell"]);
        assert_eq!(of(&spec, RunKind::Destroy, RunPhase::Apply), ["destroy: undo"]);
    }

    /// The tool is ready before them, and neither its own commands nor hooks of other stages run beside them.
    #[test]
    fn commands_on_demand_run_in_the_job_that_they_are_of() {
        let mut spec = StackSpec::default();
        spec.configuration.hooks =
            vec![hook("after-init", Stage::Init), hook("lint", Stage::Plan), hook("tell", Stage::Apply)];
        let asked = ExecCommand {
            cmd: "tofu".to_owned(),
            args: vec!["state".to_owned(), "list".to_owned()],
            dir: Some("a".to_owned()),
            approve: false,
        };
        for (phase, other, stage) in
            [(RunPhase::Plan, RunPhase::Apply, "plan"), (RunPhase::Apply, RunPhase::Plan, "apply")]
        {
            spec.exec = Some(ExecCommands {
                phase,
                commands: vec![asked.clone()],
                custom: None,
                answers: Vec::new(),
            });
            let expected = ["init: tofu init -input=false", "init: after-init"].map(str::to_owned);
            let expected = expected.into_iter().chain([format!("{stage}: tofu state list")]);
            let of = |phase| lines(StackTool::Terraform, &spec, RunKind::Commands, phase);
            assert_eq!(of(phase), expected.collect::<Vec<_>>());
            assert!(of(other).is_empty());
            let all = steps(StackTool::Terraform, &spec, RunKind::Commands, phase).unwrap();
            assert_eq!(all[2].dir.as_deref(), Some("a"));
            assert!(all[2].custom && all[0].dir.is_none());
            assert_eq!(all[2].index, 2);
        }
        spec.exec = None;
        let refused = steps(StackTool::Custom, &spec, RunKind::Commands, RunPhase::Plan).unwrap_err();
        assert!(refused.to_string().contains("commands"), "{refused}");
    }

    #[test]
    fn an_image_has_the_tag_that_was_asked_for() {
        let configuration = |image: Option<&str>, version: Option<&str>, tag: Option<&str>| {
            let owned = |text: Option<&str>| text.map(str::to_owned);
            StackConfiguration {
                image: owned(image),
                version: owned(version),
                tag: owned(tag),
                ..StackConfiguration::default()
            }
        };
        for (tool, configuration, expected) in [
            (StackTool::Terraform, configuration(None, None, None), "ghcr.io/opentofu/opentofu:1.12"),
            (StackTool::Terraform, configuration(None, Some("1.9"), None), "ghcr.io/opentofu/opentofu:1.9"),
            (StackTool::Ansible, configuration(Some("a.b/c"), Some("2"), Some("2-slim")), "a.b/c:2-slim"),
            (StackTool::Custom, configuration(Some("a.b/c"), None, None), "a.b/c"),
            (StackTool::Custom, configuration(None, Some("2"), None), ""),
        ] {
            assert_eq!(image(tool, &configuration), expected, "{tool:?}");
        }
    }

    #[test]
    fn trivy_looks_at_the_plan_before_the_hooks_do() {
        let policy = crate::stack_policy_rules::StackPolicy {
            engine: PolicyEngine::Trivy,
            max_severity: None,
            custom_policies: false,
            repository_id: None,
            git: None,
        };
        let mut spec = StackSpec { policy: Some(policy), ..StackSpec::default() };
        spec.configuration.hooks = vec![hook("lint", Stage::Verify)];
        let of = |phase| lines(StackTool::Terraform, &spec, RunKind::Apply, phase);
        assert_eq!(
            of(RunPhase::Plan)[2..],
            [
                "verify: trivy config --format json --exit-code 0 --output $PLAN.trivy.json $PLAN.json",
                "verify: lint"
            ]
        );
        assert_eq!(of(RunPhase::Apply).len(), 2);
        let looks = lines(StackTool::Terraform, &spec, RunKind::Drift, RunPhase::Plan);
        assert_eq!(looks.len(), 2, "{looks:?}");
    }
}
