//! What documents of stacks and of their definitions share: tables of fields, and how settings are sent.

use serde_json::{Value, json};

use super::{
    kind::Kind,
    project::{BINDINGS, RECONCILIATION},
    rendering::GIT,
    schema::{Field, Type, field, refused},
    state::{State, below, picked},
};

const STAGE: Type = Type::Word(&["INIT", "PLAN", "VERIFY", "APPLY", "DESTROY"]);

pub(super) const STEPS: &[Field] = &[
    field("cmd", Type::Text, "Program.").required(),
    field("args", Type::Texts, "Its arguments."),
    field("stage", STAGE, "In which stage; the one that changes something when absent."),
    field(
        "requireApproval",
        Type::Bool,
        "A run with this command waits for people, whether the stack's plans do or not.",
    ),
];

pub(super) const HOOKS: &[Field] = &[
    field("cmd", Type::Text, "Program.").required(),
    field("args", Type::Texts, "Its arguments."),
    field("afterStage", STAGE, "After which stage.").required(),
];

const NO_WAIT: &str = "Kept for other clients: a plan that changes nothing never waits.";

const TERRAFORM: &[Field] = &[
    field("parallelism", Type::Int, "Operations at once."),
    field("refresh", Type::Bool, "Look at the real world before planning.").on(),
    field("approveEmpty", Type::Bool, NO_WAIT),
    field("tofu", Type::Bool, "Run tofu; false runs terraform.").on(),
    refused("tofuRegistry", "the code, or a file with the tool's settings, names its registry; leave it out"),
];

const TERRAGRUNT: &[Field] = &[
    field("parallelism", Type::Int, "Operations at once."),
    field("refresh", Type::Bool, "Look at the real world before planning.").on(),
    field("approveEmpty", Type::Bool, NO_WAIT),
];

const PULUMI: &[Field] = &[
    field("parallel", Type::Int, "Operations at once."),
    field("refresh", Type::Bool, "Look at the real world before planning."),
    field("approveEmpty", Type::Bool, NO_WAIT),
    field("stack", Type::Text, "Its stack; dev when absent."),
    field("backendUrl", Type::Text, "Where its state is; needed, because the console keeps none for Pulumi."),
];

const ANSIBLE: &[Field] = &[
    field("playbook", Type::Text, "main.yaml when absent."),
    field("inventory", Type::Text, "Ansible's own when absent."),
    field("additionalArgs", Type::Texts, "Further arguments of plan and apply."),
    field("privateKeyFile", Type::Text, "Path of a private key among the stack's files."),
    field("configFile", Type::Text, "Path of an ansible.cfg."),
    field("supportsCheck", Type::Bool, "The playbook understands --check.").on(),
    field("deletePlaybook", Type::Text, "The playbook that undoes it."),
];

const CONFIGURATION: &[Field] = &[
    field("image", Type::Text, "Image with the tool, without tag; the one of its type when absent."),
    field("version", Type::Text, "Version of the tool: the image's tag unless tag is given."),
    field("tag", Type::Text, "Tag of the image."),
    field("hooks", Type::List(HOOKS), "Commands between those of the tool; all of them."),
    field("terraform", Type::Fields(TERRAFORM), "Of Terraform and OpenTofu."),
    field("terragrunt", Type::Fields(TERRAGRUNT), "Of Terragrunt."),
    field("pulumi", Type::Fields(PULUMI), "Of Pulumi."),
    field("ansible", Type::Fields(ANSIBLE), "Of Ansible."),
    refused("aiApproval", "plans are approved by people; leave it out"),
];

const ENVIRONMENT: &[Field] = &[
    field("name", Type::Text, "Name.").required(),
    field("value", Type::Text, "Value. This or secretKeyRef is required."),
    field(
        "secretKeyRef",
        Type::SecretKey,
        "Key of a Secret among the files with the value, which is never shown.",
    )
    .hidden(),
    field("secret", Type::Bool, "Without a value: a secret one that the stack has already, and keeps.")
        .added(),
    refused("configMapRef", "`plural apply` reads no cluster; write the value in value"),
];

const FILES: &[Field] = &[
    field("mountPath", Type::Text, "Folder below the one in which the tool runs; that one when absent."),
    field(
        "secretRef",
        Type::Secret,
        "Secret among the files: each of its keys becomes a file in that folder.",
    )
    .hidden(),
    field("path", Type::Text, "In place of both: a file that the stack has already, and keeps.").added(),
];

const CRON: &[Field] = &[
    field("crontab", Type::Text, "When it runs, in cron's five fields.").required(),
    field("timeZone", Type::Text, "IANA name of its time zone; UTC when absent.").added(),
    field("autoApprove", Type::Bool, "What it plans needs no approval."),
    field(
        "overrides",
        Type::Json,
        "Settings of terraform, terragrunt or pulumi that these runs have, as in configuration.",
    ),
    refused("trackRef", "every run is made of the newest commit; leave it out"),
];

const DRIFT: &[Field] = &[
    field("crontab", Type::Text, "When the clock looks, in cron's five fields; only who asks when absent."),
    field("timeZone", Type::Text, "IANA name of its time zone; UTC when absent."),
    field("commands", Type::List(STEPS), "The commands of a CUSTOM stack that look; all of them."),
];

const TAKEN: &[Field] = &[
    field("output", Type::Text, "Name of the output.").required(),
    field("variable", Type::Text, "Name of the variable; the output's when absent."),
];

const DEPENDENCIES: &[Field] = &[
    field("stackRef", Type::Reference(Kind::InfrastructureStack), "The stack that it depends on.").required(),
    field("outputs", Type::List(TAKEN), "What it takes from it as variables."),
];

const QUANTITIES: &[Field] =
    &[field("cpu", Type::Text, "Processor: 500m."), field("memory", Type::Text, "Memory: 512Mi.")];

const RESOURCES: &[Field] = &[
    field("requests", Type::Fields(QUANTITIES), "What it asks of its node."),
    field("limits", Type::Fields(QUANTITIES), "What it may take."),
];

const TOLERATIONS: &[Field] = &[
    field("key", Type::Text, "Key; all when absent."),
    field("operator", Type::Text, "Exists or Equal."),
    field("value", Type::Text, "Value."),
    field("effect", Type::Text, "Effect; all when absent."),
    refused("tolerationSeconds", "a run ends by itself; leave it out"),
];

pub(super) const JOB: &[Field] = &[
    field("namespace", Type::Text, "Its namespace; as its project says when absent, else plural-runs."),
    field("labels", Type::TextMap, "Labels of the Job and its Pod; all of them."),
    field("annotations", Type::TextMap, "Annotations of the Job and its Pod; all of them."),
    field("nodeSelector", Type::TextMap, "Where it may run; all of it."),
    field("tolerations", Type::List(TOLERATIONS), "Taints that it stands; all of them."),
    field("serviceAccount", Type::Text, "The account of its Pod."),
    field("resources", Type::Fields(RESOURCES), "What it asks of its node, and what it may take."),
    refused(
        "containers",
        "the containers of a run are the console's; name the tool's image in configuration.image",
    ),
    refused("raw", "name what it needs in the fields beside this one"),
];

const POLICY: &[Field] = &[
    field("type", Type::Word(&["TRIVY", "REGO"]), "What checks its plans.").required(),
    field("customPolicies", Type::Bool, "Its own repository has rules in .plural/policies."),
    field(
        "maxSeverity",
        Type::Word(&["UNKNOWN", "LOW", "MEDIUM", "HIGH", "CRITICAL", "NONE"]),
        "Findings that are worse refuse a plan; all that deny do when absent.",
    ),
    field(
        "repositoryRef",
        Type::Reference(Kind::GitRepository),
        "A repository with rules; together with git.",
    ),
    field("git", Type::Fields(GIT), "Where in that repository."),
];

/// The fields of a stack.
pub(super) const STACK: &[Field] = &[
    field("name", Type::Text, "Unique name; else the document's."),
    field(
        "type",
        Type::Word(&["TERRAFORM", "TERRAGRUNT", "ANSIBLE", "PULUMI", "CUSTOM"]),
        "What keeps it. It cannot change.",
    )
    .required(),
    field(
        "projectRef",
        Type::Reference(Kind::Project),
        "Where it belongs; the default project when absent. It cannot change.",
    ),
    field("tags", Type::TextMap, "Tags by which it is grouped and found; all of them."),
    field(
        "repositoryRef",
        Type::Reference(Kind::GitRepository),
        "The repository of its code. It, its cluster and git go together; without them it has a state and no runs.",
    ),
    field(
        "clusterRef",
        Type::Reference(Kind::Cluster),
        "The cluster whose agent starts the Jobs of its runs.",
    ),
    field("cluster", Type::Text, "The same, by the cluster's handle."),
    field("git", Type::Fields(GIT), "Where in the repository."),
    field(
        "interval",
        Type::Span,
        "How often its code is looked at; as the console's settings say when absent.",
    ),
    field("workdir", Type::Text, "Folder below that of git in which the tool runs."),
    field("manageState", Type::Bool, "The console keeps the state of Terraform, OpenTofu and Terragrunt."),
    field("configuration", Type::Fields(CONFIGURATION), "Settings of the tool."),
    field("variables", Type::Json, "Given to the tool in its own way; all of them."),
    field("environment", Type::List(ENVIRONMENT), "Variables of the environment of its runs; all of them."),
    field("files", Type::List(FILES), "Files of its runs; all of them."),
    field("jobSpec", Type::Fields(JOB), "The Kubernetes Job of a run."),
    field("approval", Type::Bool, "A plan with changes waits for people."),
    field("requiredApprovals", Type::Int, "How many people have to agree; one when absent.").added(),
    field(
        "forbidSelfApproval",
        Type::Bool,
        "Whoever started a run, last changed the stack or wrote its code is none of them.",
    )
    .added(),
    field("approvalExpiry", Type::Span, "A plan that waits, and its approvals, end after this time.").added(),
    field("commandApproval", Type::Bool, "Where plans wait, all commands that somebody runs wait, too.")
        .added(),
    field("timeout", Type::Span, "Commands of a run that take longer are ended; one hour when absent.")
        .added(),
    field("cron", Type::Fields(CRON), "When the clock makes runs."),
    field("drift", Type::Fields(DRIFT), "How it is looked at for drift.").added(),
    field("policyEngine", Type::Fields(POLICY), "What checks its plans, besides the rules of its project."),
    field("dependencies", Type::List(DEPENDENCIES), "The stacks that it depends on; all of them.").added(),
    field(
        "stackDefinitionRef",
        Type::Reference(Kind::StackDefinition),
        "What gives a CUSTOM stack its commands.",
    ),
    field("commands", Type::List(STEPS), "Commands of a CUSTOM stack; those of the stage PLAN are its plan.")
        .added(),
    field("deleteCommands", Type::List(STEPS), "The commands that undo a CUSTOM stack.").added(),
    field(
        "actor",
        Type::Text,
        "E-mail address of the user or service account in whose name its applies ask the console.",
    ),
    field("protect", Type::Bool, "Refuse its deletion.").added(),
    field(
        "paused",
        Type::Bool,
        "Neither commits nor the clock nor changes make runs. A new one is not paused.",
    )
    .added(),
    field(
        "bindings",
        Type::Fields(BINDINGS),
        "Who may read and write; stays as it is where it is not named.",
    ),
    field("detach", Type::Bool, "`plural delete` destroys nothing. The console does not keep this.").hidden(),
    refused(
        "scmConnectionRef",
        "files hold no connections to git hosts; `plural cd stacks update NAME --connection CONNECTION` names the one of a stack",
    ),
    refused("observableMetrics", "runs are watched by no metrics; leave it out, and approve plans by hand"),
    refused("agentId", "agents of AI are not supported; leave it out"),
    RECONCILIATION,
];

/// Leaves out the stage of commands that is the usual one: whoever names it says nothing by that.
pub(super) fn neat_steps(state: &mut State, name: &str) {
    let undoes = name.starts_with("delete");
    for step in state.get_mut(name).and_then(Value::as_array_mut).into_iter().flatten() {
        let Some(step) = step.as_object_mut() else { continue };
        let is_usual = match super::state::text(step, "stage") {
            Some("APPLY") => true,
            Some("DESTROY") => undoes,
            _ => false,
        };
        if is_usual {
            step.remove("stage");
        }
    }
}

/// Commands as the API takes them. Each says whether it waits for people: one that says nothing does as it did before.
pub(super) fn steps(state: &State, name: &str) -> Value {
    let all = state.get(name).and_then(Value::as_array).into_iter().flatten();
    let told = all.map(|step| {
        let mut step = step.clone();
        if step.get("requireApproval").is_none() {
            step["requireApproval"] = Value::Bool(false);
        }
        step
    });
    told.collect()
}

/// Settings of tools as the API takes them: what differs, with what is taken away as the value that ends it.
pub(super) fn configuration(before: Option<&State>, after: Option<&State>) -> Value {
    let none = State::new();
    let (before, after) = (before.unwrap_or(&none), after.unwrap_or(&none));
    let mut attributes = State::new();
    for (name, nothing) in
        [("image", json!("")), ("version", json!("")), ("tag", json!("")), ("hooks", json!([]))]
    {
        put(&mut attributes, name, [before, after], nothing);
    }
    for (name, fields) in
        [("terraform", TERRAFORM), ("terragrunt", TERRAGRUNT), ("pulumi", PULUMI), ("ansible", ANSIBLE)]
    {
        if before.get(name) != after.get(name) {
            let settings = tool(fields, below(before, name), below(after, name));
            attributes.insert(name.to_owned(), settings.into());
        }
    }
    attributes.into()
}

/// The settings of one tool.
fn tool(fields: &'static [Field], before: Option<&State>, after: Option<&State>) -> State {
    let has = |state: Option<&State>, name: &str| state.and_then(|state| state.get(name)).cloned();
    let setting = |field: &Field| {
        let value = match (has(after, field.name), field.ty) {
            (Some(value), _) => value,
            (None, _) if has(before, field.name).is_none() => return None,
            (None, Type::Bool) => Value::Bool(field.on),
            (None, Type::Texts) => json!([]),
            (None, Type::Text) => json!(""),
            // A number cannot be taken away.
            (None, _) => return None,
        };
        Some((field.name.to_owned(), value))
    };
    fields.iter().filter_map(setting).collect()
}

/// The Job that the API tells, in the fields of a document.
pub(super) fn told_job(job: &Value) -> State {
    let simple = ["namespace", "labels", "annotations", "nodeSelector", "tolerations", "serviceAccount"];
    let mut fields = picked(job, &simple);
    fields.extend(job.get("requests").map(|resources| ("resources".to_owned(), resources.clone())));
    fields
}

/// The Job of a run as the API takes it, in the same way.
pub(super) fn job(before: Option<&State>, after: Option<&State>) -> Value {
    let none = State::new();
    let (before, after) = (before.unwrap_or(&none), after.unwrap_or(&none));
    let mut attributes = State::new();
    for (name, nothing) in [
        ("namespace", json!("")),
        ("serviceAccount", json!("")),
        ("labels", json!({})),
        ("annotations", json!({})),
        ("nodeSelector", json!({})),
        ("tolerations", json!([])),
    ] {
        put(&mut attributes, name, [before, after], nothing);
    }
    let mut resources = State::new();
    for of in ["requests", "limits"] {
        let quantities = |state: &State| {
            below(state, "resources").and_then(|resources| below(resources, of)).cloned().unwrap_or_default()
        };
        let (before, after) = (quantities(before), quantities(after));
        let mut differing = State::new();
        for name in ["cpu", "memory"] {
            put(&mut differing, name, [&before, &after], json!(""));
        }
        if !differing.is_empty() {
            resources.insert(of.to_owned(), differing.into());
        }
    }
    if !resources.is_empty() {
        attributes.insert("resources".to_owned(), resources.into());
    }
    attributes.into()
}

/// What a field becomes, where that is something else; `nothing` ends it.
fn put(attributes: &mut State, name: &str, [before, after]: [&State; 2], nothing: Value) {
    if before.get(name) != after.get(name) {
        attributes.insert(name.to_owned(), after.get(name).cloned().unwrap_or(nothing));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn state(value: Value) -> State {
        serde_json::from_value(value).unwrap()
    }

    #[test]
    fn only_what_differs_is_sent_and_what_is_gone_is_ended() {
        let before = state(json!({
            "image": "a", "version": "1", "hooks": [{"cmd": "lint", "afterStage": "PLAN"}],
            "terraform": {"tofu": false, "parallelism": 3}, "ansible": {"playbook": "a.yaml", "additionalArgs": ["-v"]},
        }));
        let after = state(json!({"image": "a", "tag": "2", "terraform": {"parallelism": 4}}));
        assert_eq!(
            configuration(Some(&before), Some(&after)),
            json!({
                "version": "", "tag": "2", "hooks": [], "terraform": {"tofu": true, "parallelism": 4},
                "ansible": {"playbook": "", "additionalArgs": []},
            })
        );
        assert_eq!(configuration(Some(&after), Some(&after)), json!({}));
        // Of something new, what is not said is not sent either.
        assert_eq!(configuration(None, Some(&after)), Value::Object(after.clone()));
    }

    #[test]
    fn quantities_of_a_job_end_one_by_one() {
        let before = state(json!({
            "namespace": "runs", "labels": {"a": "b"}, "resources": {"requests": {"cpu": "1", "memory": "1Gi"}},
        }));
        let after = state(
            json!({"namespace": "runs", "resources": {"requests": {"cpu": "1"}, "limits": {"memory": "2Gi"}}}),
        );
        assert_eq!(
            job(Some(&before), Some(&after)),
            json!({"labels": {}, "resources": {"requests": {"memory": ""}, "limits": {"memory": "2Gi"}}})
        );
    }

    #[test]
    fn the_usual_stage_is_not_said() {
        let steps = json!([{"cmd": "a", "stage": "APPLY"}, {"cmd": "b", "stage": "PLAN"}, {"cmd": "c", "stage": "DESTROY"}]);
        let mut all = state(json!({"commands": steps, "deleteCommands": steps}));
        neat_steps(&mut all, "commands");
        neat_steps(&mut all, "deleteCommands");
        assert_eq!(
            all["commands"],
            json!([{"cmd": "a"}, {"cmd": "b", "stage": "PLAN"}, {"cmd": "c", "stage": "DESTROY"}])
        );
        assert_eq!(all["deleteCommands"], json!([{"cmd": "a"}, {"cmd": "b", "stage": "PLAN"}, {"cmd": "c"}]));
    }

    #[test]
    fn every_command_says_whether_it_waits() {
        let all = state(json!({"steps": [{"cmd": "a"}, {"cmd": "b", "requireApproval": true}]}));
        assert_eq!(
            steps(&all, "steps"),
            json!([{"cmd": "a", "requireApproval": false}, {"cmd": "b", "requireApproval": true}])
        );
        assert_eq!(steps(&all, "deleteSteps"), json!([]));
    }
}
