//! What no agent makes a Job of: said by agents when they refuse it, and by the console where it would be refused for many stacks.

use std::collections::BTreeMap;

use crate::error::{Error, Result};
use crate::stack_spec::JobSpec;

/// Labels and annotations that begin so are ours.
const OURS: [&str; 2] = ["deployments.plural.sh/", "plural.sh/"];
/// The one annotation of Kubernetes that a stack may set: some of the others loosen what confines a container.
const OF_KUBERNETES: &str = "cluster-autoscaler.kubernetes.io/safe-to-evict";
/// Prefixes of labels and annotations by which other programs in a cluster give a Pod an identity of a cloud, a network, a volume or a
/// runtime: these come from the run's account and the agent, and never from a stack.
const GRANTS: [&str; 11] = [
    "iam.amazonaws.com/",
    "aadpodidbinding",
    "k8s.v1.cni.cncf.io/",
    "v1.multus-cni.io/",
    "cni.projectcalico.org/",
    "io.katacontainers.",
    "io.kubernetes.cri-o.",
    "run.oci.",
    "sidecar.istio.io/userVolume",
    "sidecar.istio.io/proxyImage",
    "inject.istio.io/",
];
/// What a run may ask of its node.
const RESOURCES: [&str; 3] = ["cpu", "memory", "ephemeral-storage"];
/// What follows the number of a quantity of Kubernetes.
const UNITS: [&str; 16] =
    ["", "n", "u", "m", "k", "M", "G", "T", "P", "E", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei"];

/// A field of a Job, and what is wrong with it.
pub type Unfit = (&'static str, String);

impl JobSpec {
    /// What of it no agent takes.
    pub fn unfit(&self) -> Option<Unfit> {
        self.unfit_resource().or_else(|| self.unfit_name())
    }

    /// What it asks of its node, or may take, that no run may.
    fn unfit_resource(&self) -> Option<Unfit> {
        [("requests", &self.requests), ("limits", &self.limits)].into_iter().find_map(|(field, list)| {
            let name = list.keys().find(|name| !RESOURCES.contains(&name.as_str()))?;
            Some((field, format!("a run may ask for {}, not for {name}", RESOURCES.join(", "))))
        })
    }

    /// A label or an annotation that means something to Kubernetes or to us, or grants something: it is not the stack's to set.
    fn unfit_name(&self) -> Option<Unfit> {
        [("labels", &self.labels), ("annotations", &self.annotations)].into_iter().find_map(
            |(field, list)| {
                let name = list.keys().find(|name| {
                    OURS.iter().chain(&GRANTS).any(|begin| name.starts_with(begin))
                        || (field == "annotations"
                            && is_of_kubernetes(name)
                            && name.as_str() != OF_KUBERNETES)
                })?;
                Some((field, format!("{name} is not the stack's to set")))
            },
        )
    }

    /// Checks what many stacks are to have: what an agent or Kubernetes refuses for each of them.
    ///
    /// # Errors
    /// [`Error::Invalid`], which names the field.
    pub fn check_fit(&self) -> Result<()> {
        let unfit = self.unfit().or_else(|| self.unfit_text());
        unfit.map_or(Ok(()), |(field, problem)| {
            Err(Error::invalid(format!("attributes.jobSpec.{field}"), problem))
        })
    }

    /// A name, a value or a quantity that Kubernetes does not take.
    fn unfit_text(&self) -> Option<Unfit> {
        let labels = [("labels", &self.labels), ("nodeSelector", &self.node_selector)];
        let named = [labels[0], labels[1], ("annotations", &self.annotations)];
        let name = named.into_iter().find_map(|(field, list)| {
            let name = first(list, |name, _| !is_qualified_name(name))?;
            Some((
                field,
                format!("{name:?} is no name of one: use at most 63 letters, digits, \"-\", \"_\" and \".\""),
            ))
        });
        let value = || {
            labels.into_iter().find_map(|(field, list)| {
                let name = first(list, |_, value| !value.is_empty() && !is_label_text(value))?;
                Some((
                    field,
                    format!(
                        "the value of {name} must have letters, digits, \"-\", \"_\" and \".\", at most 63"
                    ),
                ))
            })
        };
        let quantity = || {
            [("requests", &self.requests), ("limits", &self.limits)].into_iter().find_map(|(field, list)| {
                let name = first(list, |_, value| !is_quantity(value))?;
                Some((field, format!("the value of {name} must be a quantity such as 500m or 2Gi")))
            })
        };
        name.or_else(value).or_else(quantity)
    }
}

/// The first name where this holds.
fn first(list: &BTreeMap<String, String>, holds: impl Fn(&str, &str) -> bool) -> Option<&str> {
    list.iter().find(|(name, value)| holds(name, value)).map(|(name, _)| name.as_str())
}

fn is_of_kubernetes(name: &str) -> bool {
    let domain = name.split_once('/').map_or("", |(domain, _)| domain);
    ["kubernetes.io", "k8s.io"]
        .into_iter()
        .any(|of| domain.strip_suffix(of).is_some_and(|rest| rest.is_empty() || rest.ends_with('.')))
}

/// Whether a text can be the value of a label, and not the empty one.
pub fn is_label_text(text: &str) -> bool {
    let is_end = |c: Option<char>| c.is_some_and(|c| c.is_ascii_alphanumeric());
    text.len() <= 63
        && is_end(text.chars().next())
        && is_end(text.chars().next_back())
        && text.chars().all(|c| c.is_ascii_alphanumeric() || "-_.".contains(c))
}

/// Whether it can be the name of a label or an annotation.
fn is_qualified_name(name: &str) -> bool {
    let (domain, name) = name.split_once('/').map_or((None, name), |(domain, name)| (Some(domain), name));
    let is_part = |part: &str| {
        let is_end = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit();
        part.starts_with(is_end) && part.ends_with(is_end) && part.chars().all(|c| is_end(c) || c == '-')
    };
    is_label_text(name) && domain.is_none_or(|domain| domain.len() <= 253 && domain.split('.').all(is_part))
}

/// Whether it is a quantity of Kubernetes that is not below zero.
fn is_quantity(text: &str) -> bool {
    let number = text.strip_prefix('+').unwrap_or(text);
    let end = number.find(|c: char| !(c.is_ascii_digit() || c == '.')).unwrap_or(number.len());
    let (number, unit) = number.split_at(end);
    let is_number = number.contains(|c: char| c.is_ascii_digit()) && number.matches('.').count() <= 1;
    let exponent = unit.strip_prefix(['e', 'E']).map(|power| power.strip_prefix(['+', '-']).unwrap_or(power));
    let is_exponent =
        exponent.is_some_and(|power| !power.is_empty() && power.chars().all(|c| c.is_ascii_digit()));
    is_number && (is_exponent || UNITS.contains(&unit))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_quantities_are_those_of_kubernetes() {
        for good in ["1", "0.5", ".5", "1.", "+1", "500m", "2Gi", "1e3", "1E-3", "3E", "100k"] {
            assert!(is_quantity(good), "{good}");
        }
        for bad in ["", "lots", "-1", "1.2.3", "1 Gi", "1gi", "1e", "m", ".", "1K", "1GiB"] {
            assert!(!is_quantity(bad), "{bad}");
        }
        for good in ["team", "app.kubernetes.io/name", "example.org/A_b.c-d"] {
            assert!(is_qualified_name(good), "{good}");
        }
        let long = "a".repeat(64);
        for bad in ["", "-a", "/a", "a/", "a/b/c", "A.org/b", "a b", "a..b/c", &long] {
            assert!(!is_qualified_name(bad), "{bad}");
        }
    }

    #[test]
    fn what_no_agent_takes_is_named() {
        let one = |name: &str, value: &str| BTreeMap::from([(name.to_owned(), value.to_owned())]);
        let fault = |job: JobSpec| match job.check_fit() {
            Ok(()) => None,
            Err(Error::Invalid { field, .. }) => Some(field.into_owned()),
            Err(other) => panic!("{other}"),
        };
        let labels = |name: &str, value: &str| JobSpec { labels: one(name, value), ..JobSpec::default() };
        let notes = |name: &str| JobSpec { annotations: one(name, "a b"), ..JobSpec::default() };
        let asks = |name: &str, value: &str| JobSpec { requests: one(name, value), ..JobSpec::default() };
        let takes = |name: &str, value: &str| JobSpec { limits: one(name, value), ..JobSpec::default() };
        let nodes = JobSpec { node_selector: one("disk", "a b"), ..JobSpec::default() };
        for (job, field) in [
            (labels("deployments.plural.sh/run", "x"), "labels"),
            (labels("team", &"a".repeat(64)), "labels"),
            (labels("a b", "x"), "labels"),
            (notes("plural.sh/x"), "annotations"),
            (notes("seccomp.security.alpha.kubernetes.io/pod"), "annotations"),
            (notes("iam.amazonaws.com/role"), "annotations"),
            (notes("k8s.v1.cni.cncf.io/networks"), "annotations"),
            (notes("io.kubernetes.cri-o.Devices"), "annotations"),
            (labels("aadpodidbinding", "admin"), "labels"),
            (nodes, "nodeSelector"),
            (asks("cpu", "lots"), "requests"),
            (asks("nvidia.com/gpu", "1"), "requests"),
            (takes("memory", "-1"), "limits"),
        ] {
            assert_eq!(fault(job.clone()), Some(format!("attributes.jobSpec.{field}")), "{job:?}");
        }
        for job in [
            JobSpec::default(),
            labels("app.kubernetes.io/name", ""),
            notes(OF_KUBERNETES),
            notes("sidecar.istio.io/inject"),
            asks("cpu", "500m"),
            takes("ephemeral-storage", "1Gi"),
        ] {
            assert_eq!(fault(job.clone()), None, "{job:?}");
        }
    }
}
