//! What the cluster can do, as templates see it.

use std::rc::Rc;

use plural_gotemplate::{
    objects::{self, Struct},
    value::{List, ListType, Value},
};

/// The version of Helm whose behaviour this is.
const HELM_VERSION: &str = "v3.21.1";
/// The Go version that it was built with.
const GO_VERSION: &str = "go1.27.3";

/// `.Capabilities`
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Capabilities {
    /// With a `v`: `v1.33.0`.
    pub version: String,
    /// Major number.
    pub major: String,
    /// Minor number.
    pub minor: String,
    /// `group/version`, and for some `group/version/Kind`.
    pub api_versions: Vec<String>,
}

impl Capabilities {
    /// A cluster of `kube_version`, with these API versions beside those that every cluster has.
    ///
    /// # Errors
    /// When the version cannot be read.
    pub fn new(kube_version: &str, api_versions: &[String]) -> Result<Self, String> {
        let (major, minor, version) = parse_version(kube_version)?;
        let mut all: Vec<String> = api_versions.to_vec();
        // Helm appends the given ones to those it knows; only membership can be told apart.
        all.splice(0..0, default_api_versions().iter().map(|v| (*v).to_owned()));
        Ok(Self { version, major, minor, api_versions: all })
    }

    /// A cluster of `kube_version` that serves exactly these API versions.
    ///
    /// # Errors
    /// When the version cannot be read.
    pub fn of_cluster(kube_version: &str, api_versions: &[String]) -> Result<Self, String> {
        let (major, minor, version) = parse_version(kube_version)?;
        Ok(Self { version, major, minor, api_versions: api_versions.to_vec() })
    }

    pub(super) fn value(&self) -> Value {
        let of = |ty: &'static objects::StructType, fields: Vec<Value>| {
            Value::Struct(Rc::new(Struct::new(ty, fields)))
        };
        let kube = of(
            &objects::KUBE_VERSION,
            vec![self.version.as_str().into(), self.major.as_str().into(), self.minor.as_str().into()],
        );
        let apis = self.api_versions.iter().map(|v| v.as_str().into()).collect();
        let helm =
            of(&objects::HELM_VERSION, vec![HELM_VERSION.into(), "".into(), "".into(), GO_VERSION.into()]);
        of(&objects::CAPABILITIES, vec![kube, Value::List(List::typed(ListType::Versions, apis)), helm])
    }
}

/// Reads `1.33`, `v1.33.1`, `1.33.1-eks.4+x`: major, minor, and the whole with a `v`.
fn parse_version(text: &str) -> Result<(String, String, String), String> {
    let bad = |why: &str| Err(format!("invalid kube version '{text}': {why}"));
    let rest = text.trim().strip_prefix('v').unwrap_or(text.trim());
    let end = rest.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(rest.len());
    // What follows the numbers is of no interest to Helm.
    let parts: Vec<&str> = rest[..end].trim_end_matches('.').split('.').collect();
    if parts.len() < 2 {
        return bad(&format!("illegal version string {text:?}"));
    }
    if parts.iter().any(|part| part.is_empty() || part.parse::<u32>().is_err()) {
        return bad(&format!("illegal version string {text:?}"));
    }
    let mut numbers: Vec<String> = parts
        .iter()
        .map(|part| part.trim_start_matches('0'))
        .map(|p| if p.is_empty() { "0" } else { p }.to_owned())
        .collect();
    if numbers.len() == 2 {
        numbers.push("0".to_owned());
    }
    Ok((numbers[0].clone(), numbers[1].clone(), format!("v{}", numbers.join("."))))
}

/// The API versions that Helm takes for granted.
pub fn default_api_versions() -> &'static [&'static str] {
    &[
        "v1",
        "admissionregistration.k8s.io/v1",
        "admissionregistration.k8s.io/v1alpha1",
        "admissionregistration.k8s.io/v1beta1",
        "internal.apiserver.k8s.io/v1alpha1",
        "apps/v1",
        "apps/v1beta1",
        "apps/v1beta2",
        "authentication.k8s.io/v1",
        "authentication.k8s.io/v1alpha1",
        "authentication.k8s.io/v1beta1",
        "authorization.k8s.io/v1",
        "authorization.k8s.io/v1beta1",
        "autoscaling/v1",
        "autoscaling/v2",
        "autoscaling/v2beta1",
        "autoscaling/v2beta2",
        "batch/v1",
        "batch/v1beta1",
        "certificates.k8s.io/v1",
        "certificates.k8s.io/v1beta1",
        "certificates.k8s.io/v1alpha1",
        "coordination.k8s.io/v1alpha2",
        "coordination.k8s.io/v1beta1",
        "coordination.k8s.io/v1",
        "discovery.k8s.io/v1",
        "discovery.k8s.io/v1beta1",
        "events.k8s.io/v1",
        "events.k8s.io/v1beta1",
        "extensions/v1beta1",
        "flowcontrol.apiserver.k8s.io/v1",
        "flowcontrol.apiserver.k8s.io/v1beta1",
        "flowcontrol.apiserver.k8s.io/v1beta2",
        "flowcontrol.apiserver.k8s.io/v1beta3",
        "networking.k8s.io/v1",
        "networking.k8s.io/v1beta1",
        "node.k8s.io/v1",
        "node.k8s.io/v1alpha1",
        "node.k8s.io/v1beta1",
        "policy/v1",
        "policy/v1beta1",
        "rbac.authorization.k8s.io/v1",
        "rbac.authorization.k8s.io/v1beta1",
        "rbac.authorization.k8s.io/v1alpha1",
        "resource.k8s.io/v1",
        "resource.k8s.io/v1beta2",
        "resource.k8s.io/v1beta1",
        "resource.k8s.io/v1alpha3",
        "scheduling.k8s.io/v1alpha1",
        "scheduling.k8s.io/v1beta1",
        "scheduling.k8s.io/v1",
        "storage.k8s.io/v1beta1",
        "storage.k8s.io/v1",
        "storage.k8s.io/v1alpha1",
        "storagemigration.k8s.io/v1beta1",
        "apiextensions.k8s.io/v1beta1",
        "apiextensions.k8s.io/v1",
    ]
}
