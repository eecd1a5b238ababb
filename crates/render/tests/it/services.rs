//! Services of each kind, told apart by what their folder's root holds.

use plural_render::{ClusterInput, Inputs, RenderError, Rendered, ServiceInput, Tree, render};
use serde_json::json;

fn service(folder: &str, files: &[(&str, &str)]) -> Result<Rendered, RenderError> {
    let inputs = Inputs {
        folder: folder.to_owned(),
        templated: true,
        service: ServiceInput {
            name: "web".to_owned(),
            namespace: "shop".to_owned(),
            ..ServiceInput::default()
        },
        cluster: ClusterInput {
            handle: "blue".to_owned(),
            version: "v1.36.2".to_owned(),
            ..ClusterInput::default()
        },
        configuration: [("replicas".to_owned(), "3".to_owned())].into(),
        contexts: serde_json::Map::new(),
        imports: serde_json::Map::new(),
        clock_ms: 1_700_000_000_000,
        seed: vec![7; 32],
        rendering: plural_render::RenderingInput::default(),
        api_server: None,
    };
    render(&Tree::from_files(files.iter().copied()).unwrap(), &inputs)
}

fn names(rendered: &Rendered) -> Vec<String> {
    rendered.objects.iter().map(|object| format!("{}/{}", object.kind(), object.name())).collect()
}

const CHART: &[(&str, &str)] = &[
    ("charts/web/Chart.yaml", "apiVersion: v2\nname: web\nversion: 1.0.0\n"),
    ("charts/web/values.yaml", "replicas: 1\ncluster: none\n"),
    (
        "charts/web/crds/widgets.yaml",
        "apiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\nmetadata:\n  name: widgets.example.com\n",
    ),
    (
        "charts/web/templates/deployment.yaml",
        "apiVersion: apps/v1\nkind: Deployment\nmetadata:\n  name: {{ .Release.Name }}\n  namespace: {{ .Release.Namespace }}\n  annotations:\n    cluster: {{ .Values.cluster }}\n    version: {{ .Capabilities.KubeVersion.Version }}\nspec:\n  replicas: {{ .Values.replicas }}\n",
    ),
    (
        "charts/web/templates/test.yaml",
        "apiVersion: v1\nkind: Pod\nmetadata:\n  name: test\n  annotations:\n    helm.sh/hook: test\n",
    ),
    (
        "charts/web/templates/migrate.yaml",
        "apiVersion: batch/v1\nkind: Job\nmetadata:\n  name: migrate\n  annotations:\n    helm.sh/hook: pre-upgrade\n",
    ),
];

#[test]
fn a_chart_is_rendered_with_values_from_a_template() {
    let mut files = CHART.to_vec();
    files.push((
        "charts/web/values.yaml.liquid",
        "replicas: {{ configuration.replicas }}\ncluster: {{ cluster.handle }}\n",
    ));
    let rendered = service("charts/web", &files).unwrap();
    assert_eq!(
        names(&rendered),
        ["CustomResourceDefinition/widgets.example.com", "Deployment/web", "Pod/test", "Job/migrate"]
    );
    let deployment = &rendered.objects[1];
    assert_eq!(deployment.value["spec"]["replicas"], json!(3));
    assert_eq!(deployment.value["metadata"]["annotations"]["cluster"], json!("blue"));
    assert_eq!(deployment.value["metadata"]["annotations"]["version"], json!("v1.36.2"));
    assert_eq!(deployment.namespace(), "shop");
    assert_eq!(deployment.origin.path, "web/templates/deployment.yaml");
}

#[test]
fn a_chart_that_fails_names_the_template() {
    let mut files = CHART.to_vec();
    files.push(("charts/web/templates/broken.yaml", "a: {{ .Values.no.such.thing }}\n"));
    let error = service("charts/web", &files).unwrap_err().to_string();
    assert!(error.contains("web/templates/broken.yaml:1:"), "{error}");
    assert!(error.contains("nil pointer"), "{error}");
}

#[test]
fn a_kustomization_reaches_its_base_and_its_charts() {
    let mut files = CHART
        .iter()
        .map(|&(path, text)| (path.replace("charts/web", "overlay/charts/web"), text))
        .collect::<Vec<_>>();
    files.push(("base/kustomization.yaml".to_owned(), "resources: [config.yaml]\n"));
    files.push((
        "base/config.yaml".to_owned(),
        "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: settings\ndata:\n  a: b\n",
    ));
    files.push((
        "overlay/kustomization.yaml".to_owned(),
        "resources: [../base]\nnamePrefix: blue-\nhelmCharts:\n- name: web\n  releaseName: shop\n  includeCRDs: false\n",
    ));
    let files: Vec<(&str, &str)> = files.iter().map(|(path, text)| (path.as_str(), *text)).collect();
    let rendered = service("overlay", &files).unwrap();
    let names = names(&rendered);
    assert!(names.contains(&"ConfigMap/blue-settings".to_owned()), "{names:?}");
    assert!(names.contains(&"Deployment/blue-shop".to_owned()), "{names:?}");
}

#[test]
fn a_chart_that_is_not_there_is_not_fetched() {
    let kustomization = "helmCharts:\n- name: web\n  repo: https://charts.example.com\n";
    let error = service("overlay", &[("overlay/kustomization.yaml", kustomization)]).unwrap_err().to_string();
    assert!(error.contains("helm pull --untar web"), "{error}");
}

#[test]
fn a_broken_kustomization_is_an_error() {
    let error =
        service("a", &[("a/kustomization.yaml", "resources: [gone.yaml]\n")]).unwrap_err().to_string();
    assert!(error.starts_with("a/kustomization.yaml: "), "{error}");
    assert!(error.contains("gone.yaml"), "{error}");
}
