//! What a service's objects say of themselves, read from what was rendered: nothing is asked of the cluster for it.

use plural_core::service_metadata::ServiceMetadata;
use plural_render::Object;
use plural_tunnel::v1;
use serde_json::Value;

/// Annotations by which external-dns is told names.
const NAMES: [&str; 2] =
    ["external-dns.alpha.kubernetes.io/hostname", "external-dns.alpha.kubernetes.io/internal-hostname"];

/// Images and host names of a service's objects.
pub(crate) fn of(objects: &[Object]) -> v1::ServiceMetadata {
    let (mut images, mut names) = (Vec::new(), Vec::new());
    for object in objects {
        images_of(&object.value, &mut images);
        names_of(object, &mut names);
    }
    let ServiceMetadata { images, fqdns } = ServiceMetadata::of(images, names);
    v1::ServiceMetadata { images, fqdns }
}

/// Whatever has the shape of a Pod, or of a template for Pods, runs them: kinds of others, too.
fn images_of(object: &Value, images: &mut Vec<String>) {
    let spec = &object["spec"];
    for pod in [spec, &spec["template"]["spec"], &spec["jobTemplate"]["spec"]["template"]["spec"]] {
        for part in ["initContainers", "containers", "ephemeralContainers"] {
            images.extend(each(&pod[part]).filter_map(|container| text(&container["image"])));
        }
        images.extend(each(&pod["volumes"]).filter_map(|volume| text(&volume["image"]["reference"])));
    }
}

fn names_of(object: &Object, names: &mut Vec<String>) {
    let value = &object.value;
    let spec = &value["spec"];
    for key in NAMES {
        let told = value["metadata"]["annotations"][key].as_str().unwrap_or_default();
        names.extend(told.split(',').map(|name| name.trim().to_owned()));
    }
    let group = object.api_version().split_once('/').map_or("", |(group, _)| group);
    match (group, object.kind()) {
        ("networking.k8s.io" | "extensions", "Ingress") => {
            names.extend(each(&spec["rules"]).filter_map(|rule| text(&rule["host"])));
            names.extend(each(&spec["tls"]).flat_map(|tls| texts(&tls["hosts"])));
        }
        ("gateway.networking.k8s.io", "HTTPRoute" | "GRPCRoute" | "TLSRoute") => {
            names.extend(texts(&spec["hostnames"]));
        }
        ("gateway.networking.k8s.io", "Gateway" | "ListenerSet") => {
            names.extend(each(&spec["listeners"]).filter_map(|listener| text(&listener["hostname"])));
        }
        ("networking.istio.io", "VirtualService") => {
            names.extend(texts(&spec["hosts"]).filter(|host| is_outside(host)));
        }
        ("networking.istio.io", "Gateway") => {
            // `namespace/host`, where a server is for one namespace only.
            let hosts = each(&spec["servers"]).flat_map(|server| texts(&server["hosts"]));
            names.extend(hosts.map(|host| host.rsplit('/').next().unwrap_or_default().to_owned()));
        }
        ("route.openshift.io", "Route") => names.extend(text(&spec["host"])),
        ("projectcontour.io", "HTTPProxy") => names.extend(text(&spec["virtualhost"]["fqdn"])),
        ("externaldns.k8s.io", "DNSEndpoint") => {
            names.extend(each(&spec["endpoints"]).filter_map(|endpoint| text(&endpoint["dnsName"])));
        }
        ("serving.knative.dev", "DomainMapping") => names.push(object.name().to_owned()),
        _ => {}
    }
}

/// A mesh names Services of the cluster the same way.
fn is_outside(host: &str) -> bool {
    host.split('.').all(|label| label != "svc") && host.rsplit('.').next() != Some("local")
}

fn each(list: &Value) -> impl Iterator<Item = &Value> {
    list.as_array().into_iter().flatten()
}

fn text(value: &Value) -> Option<String> {
    value.as_str().map(str::to_owned)
}

fn texts(list: &Value) -> impl Iterator<Item = String> {
    each(list).filter_map(text)
}

#[cfg(test)]
mod tests {
    use plural_render::Origin;
    use serde_json::json;

    use super::*;

    fn told(values: impl IntoIterator<Item = Value>) -> (Vec<String>, Vec<String>) {
        let objects: Vec<Object> =
            values.into_iter().map(|value| Object { value, origin: Origin::default() }).collect();
        let v1::ServiceMetadata { images, fqdns } = of(&objects);
        (images, fqdns)
    }

    #[test]
    fn images_of_everything_that_runs_pods() {
        let pod = |image: &str| json!({"containers": [{"image": image}]});
        let (images, _) = told([
            json!({"apiVersion": "v1", "kind": "Pod", "spec": pod("example.com/pod")}),
            json!({"apiVersion": "apps/v1", "kind": "Deployment", "spec": {"template": {"spec": {
                "initContainers": [{"image": "example.com/init"}],
                "containers": [{"image": "example.com/web:1"}, {"image": "example.com/web:1"}, {"name": "none"}],
                "volumes": [{"image": {"reference": "example.com/data"}}]}}}}),
            json!({"apiVersion": "batch/v1", "kind": "CronJob",
                "spec": {"jobTemplate": {"spec": {"template": {"spec": pod("example.com/cron")}}}}}),
            json!({"apiVersion": "argoproj.io/v1alpha1", "kind": "Rollout",
                "spec": {"template": {"spec": pod("example.com/canary")}}}),
            json!({"apiVersion": "v1", "kind": "ConfigMap", "data": {"image": "example.com/none"}}),
        ]);
        let short = ["canary", "cron", "data", "init", "pod", "web:1"];
        assert_eq!(images, short.map(|name| format!("example.com/{name}")));
    }

    #[test]
    fn names_of_everything_that_answers_to_them() {
        let (_, names) = told([
            json!({"apiVersion": "networking.k8s.io/v1", "kind": "Ingress",
                "spec": {"rules": [{"host": "a.example.com"}, {}], "tls": [{"hosts": ["b.example.com"]}]}}),
            json!({"apiVersion": "gateway.networking.k8s.io/v1", "kind": "HTTPRoute", "spec": {"hostnames": ["c.example.com"]}}),
            json!({"apiVersion": "gateway.networking.k8s.io/v1", "kind": "Gateway",
                "spec": {"listeners": [{"hostname": "*.d.example.com"}, {"name": "any"}]}}),
            json!({"apiVersion": "v1", "kind": "Service",
                "metadata": {"annotations": {"external-dns.alpha.kubernetes.io/hostname": "e.example.com, f.example.com."}}}),
            json!({"apiVersion": "networking.istio.io/v1", "kind": "VirtualService",
                "spec": {"hosts": ["g.example.com", "reviews", "reviews.shop.svc.cluster.local"]}}),
            json!({"apiVersion": "networking.istio.io/v1", "kind": "Gateway", "spec": {"servers": [{"hosts": ["shop/h.example.com", "*"]}]}}),
            json!({"apiVersion": "route.openshift.io/v1", "kind": "Route", "spec": {"host": "i.example.com"}}),
            json!({"apiVersion": "example.com/v1", "kind": "Ingress", "spec": {"rules": [{"host": "none.example.com"}]}}),
        ]);
        let short = ["*.d", "a", "b", "c", "e", "f", "g", "h", "i"];
        assert_eq!(names, short.map(|name| format!("{name}.example.com")));
    }

    #[test]
    fn odd_shapes_are_no_trouble() {
        let odd = [
            json!({"spec": {"containers": "none", "template": 7, "volumes": [null, 3]}}),
            json!({"apiVersion": "networking.k8s.io/v1", "kind": "Ingress", "spec": {"rules": {"host": 1}, "tls": [null]}}),
            json!(null),
        ];
        assert_eq!(told(odd), (Vec::new(), Vec::new()));
    }
}
