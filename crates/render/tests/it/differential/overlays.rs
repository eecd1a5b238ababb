//! Overlays that chance writes: a base, a component and an overlay over both.

#![expect(clippy::format_push_string, clippy::format_collect, reason = "short texts of a test")]

use super::Chance;

const NAMES: &[&str] = &["web", "api", "db"];
const KINDS: &[(&str, &str)] = &[
    ("apps/v1", "Deployment"),
    ("apps/v1", "StatefulSet"),
    ("v1", "Service"),
    ("v1", "ConfigMap"),
    ("v1", "Secret"),
    ("v1", "ServiceAccount"),
    ("batch/v1", "CronJob"),
    ("networking.k8s.io/v1", "Ingress"),
    ("rbac.authorization.k8s.io/v1", "RoleBinding"),
    ("rbac.authorization.k8s.io/v1", "ClusterRoleBinding"),
    ("autoscaling/v2", "HorizontalPodAutoscaler"),
    ("admissionregistration.k8s.io/v1", "ValidatingWebhookConfiguration"),
    ("example.com/v1", "Widget"),
];

fn pod(chance: &mut Chance, indent: usize) -> String {
    let mut lines = vec![
        "serviceAccountName: web".to_owned(),
        "containers:".to_owned(),
        "- name: main".to_owned(),
        format!(
            "  image: {}",
            chance.pick(&["nginx", "nginx:1.2", "reg.example.com:5000/app:v1", "app@sha256:abc"])
        ),
        "  ports:".to_owned(),
        "  - containerPort: 80".to_owned(),
        "  envFrom:".to_owned(),
        "  - configMapRef:".to_owned(),
        format!("      name: {}", chance.pick(&["settings", "web", "none"])),
        "  env:".to_owned(),
        "  - {name: A, valueFrom: {secretKeyRef: {name: keys, key: k}}}".to_owned(),
        format!("  - {{name: B, value: \"{}\"}}", chance.pick(&["1", "$(X)", "text"])),
    ];
    if chance.once_in(2) {
        lines.push("- {name: side, image: busybox, args: [a, b]}".to_owned());
    }
    if chance.once_in(2) {
        lines.push("volumes:".to_owned());
        lines.push("- {name: v, configMap: {name: settings}}".to_owned());
    }
    lines.iter().map(|line| format!("{}{line}\n", " ".repeat(indent))).collect()
}

fn object(chance: &mut Chance, (api, kind): (&str, &str), name: &str) -> String {
    let mut out = format!("apiVersion: {api}\nkind: {kind}\nmetadata:\n  name: {name}\n");
    if chance.once_in(4) {
        out += "  namespace: given\n";
    }
    if chance.once_in(3) {
        out += "  labels: {app: web, tier: \"1\"}\n";
    }
    if chance.once_in(4) {
        out += "  annotations:\n    note: \"yes\" # kept?\n";
    }
    out += &match kind {
        "Deployment" | "StatefulSet" => format!(
            "spec:\n  replicas: 1\n  selector:\n    matchLabels: {{app: web}}\n  template:\n    metadata:\n      labels: {{app: web}}\n    spec:\n{}",
            pod(chance, 6)
        ),
        "CronJob" => format!(
            "spec:\n  schedule: \"* * * * *\"\n  jobTemplate:\n    spec:\n      template:\n        spec:\n{}",
            pod(chance, 10)
        ),
        "Service" => "spec:\n  selector: {app: web}\n  ports:\n  - {port: 80, name: http}\n  - {port: 81, protocol: UDP}\n".to_owned(),
        "ConfigMap" => "data:\n  a: \"1\"\n  b: |\n    two\n    lines\n".to_owned(),
        "Secret" => "type: Opaque\nstringData: {k: v}\n".to_owned(),
        "Ingress" => "spec:\n  tls:\n  - {secretName: keys, hosts: [h]}\n  rules:\n  - host: h\n    http:\n      paths:\n      - {path: /, pathType: Prefix, backend: {service: {name: web, port: {number: 80}}}}\n".to_owned(),
        "RoleBinding" | "ClusterRoleBinding" => format!(
            "roleRef: {{apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: view}}\nsubjects:\n- {{kind: ServiceAccount, name: {}, namespace: {}}}\n- {{kind: User, name: u}}\n",
            chance.pick(&["default", "web"]),
            chance.pick(&["given", "default"]),
        ),
        "HorizontalPodAutoscaler" => "spec:\n  scaleTargetRef: {apiVersion: apps/v1, kind: Deployment, name: web}\n  minReplicas: 1\n".to_owned(),
        "ValidatingWebhookConfiguration" => "webhooks:\n- name: a.b.c\n  clientConfig: {service: {name: web, namespace: given, path: /x}}\n".to_owned(),
        _ => "spec:\n  image: app:1\n  ref: {name: web}\n  items: [1, 2.50, 1e3, \"0x1\", null, true, 2024-01-01]\n".to_owned(),
    };
    out
}

fn target(chance: &mut Chance) -> String {
    chance
        .pick(&[
            "{kind: Deployment}",
            "{kind: Service, name: web}",
            "{labelSelector: app=web}",
            "{name: \"w.*\"}",
            "{version: v1}",
            "{group: apps}",
        ])
        .to_owned()
}

fn patch(chance: &mut Chance) -> String {
    match chance.below(8) {
        0 => format!("- target: {}\n  patch: |-\n    - {{op: add, path: /metadata/annotations, value: {{p: q}}}}\n", target(chance)),
        1 => "- target: {kind: Deployment}\n  patch: |-\n    - op: replace\n      path: /spec/replicas\n      value: 4\n".to_owned(),
        2 => "- target: {kind: Deployment, name: web}\n  patch: |-\n    apiVersion: apps/v1\n    kind: Deployment\n    metadata:\n      name: web\n    spec:\n      template:\n        spec:\n          containers:\n          - name: main\n            image: patched:2\n            env:\n            - name: B\n              $patch: delete\n            - {name: C, value: c}\n          - name: new\n            image: n\n".to_owned(),
        3 => "- target: {kind: Service}\n  patch: |-\n    apiVersion: v1\n    kind: Service\n    metadata: {name: x}\n    spec:\n      ports:\n      - {port: 80, name: web}\n      - {port: 82, $patch: delete}\n      type: null\n".to_owned(),
        4 => "- target: {kind: ConfigMap}\n  options: {allowNameChange: true}\n  patch: |-\n    apiVersion: v1\n    kind: ConfigMap\n    metadata: {name: renamed}\n    data: {a: null, z: \"9\"}\n".to_owned(),
        5 => format!("- target: {}\n  patch: |-\n    - op: remove\n      path: /metadata/labels\n", target(chance)),
        6 => "- target: {kind: Widget}\n  patch: |-\n    apiVersion: example.com/v1\n    kind: Widget\n    metadata: {name: w}\n    spec: {items: [9], extra: {deep: [1]}}\n".to_owned(),
        _ => "- target: {kind: Deployment}\n  patch: |-\n    - {op: add, path: /spec/template/spec/containers/0/args/-, value: x}\n    - {op: test, path: /spec/replicas, value: 1}\n".to_owned(),
    }
}

fn fields(chance: &mut Chance, component: bool) -> String {
    let mut out = String::new();
    let mut add = |chance: &mut Chance, times: usize, text: &str| {
        if chance.once_in(times) {
            out.push_str(text);
        }
    };
    add(chance, 3, "namePrefix: pre-\n");
    add(chance, 4, "nameSuffix: -suf\n");
    add(chance, 3, "namespace: there\n");
    add(chance, 4, "commonAnnotations: {c: \"1\", d: two}\n");
    if chance.once_in(3) {
        let pairs = chance.pick(&["{app: new}", "{team: a, app: b}"]);
        let how = chance.pick(&[
            "",
            "  includeSelectors: true\n",
            "  includeTemplates: true\n",
            "  fields:\n  - {path: spec/tags, kind: Widget, create: true}\n",
        ]);
        out += &format!("labels:\n- pairs: {pairs}\n{how}");
    }
    let mut add = |chance: &mut Chance, times: usize, text: &str| {
        if chance.once_in(times) {
            out.push_str(text);
        }
    };
    add(chance, 6, "commonLabels: {old: way}\n");
    add(
        chance,
        3,
        "images:\n- {name: nginx, newTag: \"9\"}\n- {name: app, newName: reg/app2, digest: \"sha256:def\"}\n",
    );
    add(chance, 4, "replicas:\n- {name: web, count: 5}\n");
    if chance.once_in(2) {
        let behaviour = if component {
            chance.pick(&["", "  behavior: create\n"])
        } else {
            chance.pick(&["", "  behavior: merge\n", "  behavior: replace\n", "  behavior: create\n"])
        };
        out += &format!(
            "configMapGenerator:\n- name: {}\n{behaviour}  literals: [a=1, \"b=x y\", c='q']\n",
            chance.pick(&["settings", "extra"])
        );
    }
    if chance.once_in(3) {
        out += "secretGenerator:\n- name: keys\n  literals: [k=secret]\n  type: kubernetes.io/tls\n";
        if chance.once_in(2) {
            out += "  options: {disableNameSuffixHash: true, labels: {l: m}, immutable: true}\n";
        }
    }
    if chance.once_in(4) {
        out += "generatorOptions:\n  annotations: {g: o}\n  disableNameSuffixHash: ";
        out += chance.pick(&["true\n", "false\n"]);
    }
    if chance.once_in(2) {
        out += "patches:\n";
        for _ in 0..=chance.below(2) {
            out += &patch(chance);
        }
    }
    if chance.once_in(4) {
        out += "replacements:\n- source: {kind: Service, name: web, fieldPath: ";
        out +=
            chance.pick(&["metadata.name", "spec.ports.0.port", "spec.ports.[name=http].port", "spec.none"]);
        out += "}\n  targets:\n  - select: {kind: Deployment}\n    fieldPaths: [";
        out += chance.pick(&[
            "metadata.annotations.from",
            "spec.template.spec.containers.[name=main].image",
            "spec.template.spec.containers.*.name",
            "\"metadata.annotations.[a.b/c]\"",
        ]);
        out += "]\n";
        out += chance.pick(&[
            "",
            "    options: {create: true}\n",
            "    options: {delimiter: \":\", index: 1}\n",
            "    options: {delimiter: \"/\", index: 0}\n",
        ]);
    }
    out
}

/// A tree whose folder `overlay` is built.
pub(super) fn tree(chance: &mut Chance) -> Vec<(String, String)> {
    let mut resources = Vec::new();
    for at in 0..2 + chance.below(5) {
        let kind = KINDS[chance.below(KINDS.len())];
        let name = chance.pick(NAMES);
        let known: &Vec<(String, String)> = &resources;
        if known.iter().all(|(key, _)| *key != format!("{}{name}", kind.1)) {
            let text = object(chance, kind, name);
            resources.push((format!("{}{name}", kind.1), text));
        }
        let _ = at;
    }
    let documents: Vec<&str> = resources.iter().map(|(_, text)| text.as_str()).collect();
    let base = format!("resources: [all.yaml]\n{}", fields(chance, false));
    let mut overlay = "resources: [../base]\n".to_owned();
    if chance.once_in(3) {
        overlay += "components: [../part]\n";
    }
    overlay += &fields(chance, false);
    if chance.once_in(5) {
        overlay += "buildMetadata: [originAnnotations, managedByLabel]\n";
    }
    if chance.once_in(5) {
        overlay += chance.pick(&["sortOptions: {order: fifo}\n", "sortOptions: {order: legacy}\n"]);
    }
    let part =
        format!("apiVersion: kustomize.config.k8s.io/v1alpha1\nkind: Component\n{}", fields(chance, true));
    [
        ("base/kustomization.yaml", base),
        ("base/all.yaml", documents.join("---\n")),
        ("part/kustomization.yaml", part),
        ("overlay/kustomization.yaml", overlay),
    ]
    .into_iter()
    .map(|(path, content)| (path.to_owned(), content))
    .collect()
}
