//! Who calls, and may they.
//!
//! Tokens name a user and groups. `system:masters` may do all; everybody else is judged by the RBAC objects of the
//! cluster: (Cluster)Roles with verbs, groups, resources, resource names, subresources and non-resource URLs, and
//! their bindings to users, groups and service accounts. Not simulated: aggregated ClusterRoles beyond the built-in
//! ones, and the rule that nobody may grant more than they hold.

use std::collections::HashMap;

use parking_lot::RwLock;
use serde_json::Value;

use crate::request::RequestInfo;
use crate::signer::{ISSUER, Signer};
use crate::status::{ApiError, Subject};
use crate::store::{Store, text};

/// Who calls.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct User {
    /// Name, e.g. `system:serviceaccount:default:agent`.
    pub name: String,
    /// Groups.
    pub groups: Vec<String>,
}

impl User {
    /// A member of `system:masters`.
    pub fn admin() -> Self {
        Self { name: "admin".into(), groups: vec!["system:masters".into(), "system:authenticated".into()] }
    }

    /// A user in these groups.
    pub fn new(name: &str, groups: &[&str]) -> Self {
        let mut groups: Vec<String> = groups.iter().map(|g| (*g).to_owned()).collect();
        if !groups.iter().any(|g| g == "system:authenticated") {
            groups.push("system:authenticated".into());
        }
        Self { name: name.to_owned(), groups }
    }

    /// A service account of a namespace.
    pub fn service_account(namespace: &str, name: &str) -> Self {
        let (all, own) = ("system:serviceaccounts", format!("system:serviceaccounts:{namespace}"));
        Self::new(&format!("system:serviceaccount:{namespace}:{name}"), &[all, &own])
    }

    fn anonymous() -> Self {
        Self { name: "system:anonymous".into(), groups: vec!["system:unauthenticated".into()] }
    }
}

/// The tokens of one cluster.
#[derive(Debug, Default)]
pub(crate) struct Tokens {
    known: RwLock<HashMap<String, User>>,
    /// Signs those of service accounts.
    pub(crate) signer: Signer,
    /// Tokens that were made for others than this API server, and for whom.
    elsewhere: RwLock<HashMap<String, (User, Vec<String>)>>,
}

impl Tokens {
    /// Accepts `token` as `user`.
    pub(crate) fn add(&self, token: &str, user: User) {
        self.known.write().insert(token.to_owned(), user);
    }

    /// Knows `token` as `user`'s, for these audiences only: the API server itself accepts it when it is one of them.
    pub(crate) fn add_for(&self, token: &str, user: User, audiences: &[String]) {
        if audiences.is_empty() || audiences.iter().any(|audience| audience == ISSUER) {
            self.add(token, user.clone());
        }
        if !audiences.is_empty() {
            self.elsewhere.write().insert(token.to_owned(), (user, audiences.to_vec()));
        }
    }

    /// Who holds `token`, and for which of these audiences; of the API server when none is named.
    pub(crate) fn review(&self, token: &str, audiences: &[String]) -> Option<(User, Vec<String>)> {
        let own = || vec![ISSUER.to_owned()];
        if let Some((user, meant)) = self.elsewhere.read().get(token) {
            let asked = if audiences.is_empty() { own() } else { audiences.to_vec() };
            let shared: Vec<String> = asked.into_iter().filter(|one| meant.contains(one)).collect();
            return (!shared.is_empty()).then(|| (user.clone(), shared));
        }
        let is_own = audiences.is_empty() || audiences.iter().any(|audience| audience == ISSUER);
        self.user(token).filter(|_| is_own).map(|user| (user, own()))
    }

    /// Accepts `token` no more; true if it was known.
    pub(crate) fn revoke(&self, token: &str) -> bool {
        let elsewhere = self.elsewhere.write().remove(token).is_some();
        self.known.write().remove(token).is_some() || elsewhere
    }

    /// Who holds `token`.
    pub(crate) fn user(&self, token: &str) -> Option<User> {
        self.known.read().get(token).cloned()
    }

    /// The user of a request.
    ///
    /// # Errors
    /// 401 if it carries a token that is not known.
    pub(crate) fn authenticate(&self, headers: &http::HeaderMap) -> Result<User, ApiError> {
        let Some(h) = headers.get(http::header::AUTHORIZATION) else { return Ok(User::anonymous()) };
        let token = h.to_str().ok().and_then(|h| h.strip_prefix("Bearer "));
        token.and_then(|t| self.user(t.trim())).ok_or_else(ApiError::unauthorized)
    }
}

/// Takes the identity of the impersonation headers, if the caller may.
///
/// # Errors
/// 403 if the caller may not impersonate that user or group; 400 for groups without a user.
pub(crate) fn impersonate(s: &Store, user: User, headers: &http::HeaderMap) -> Result<User, ApiError> {
    let get = |n: &str| headers.get(n).and_then(|v| v.to_str().ok());
    let groups: Vec<&str> =
        headers.get_all("impersonate-group").iter().filter_map(|v| v.to_str().ok()).collect();
    let Some(name) = get("impersonate-user") else {
        if groups.is_empty() {
            return Ok(user);
        }
        return Err(ApiError::bad_request(
            "requested groups [...] without impersonating a user: set Impersonate-User as well",
        ));
    };
    let may = |resource: &str, name: &str| -> Result<(), ApiError> {
        let info = RequestInfo {
            verb: "impersonate".into(),
            is_resource: true,
            resource: resource.into(),
            name: name.into(),
            version: "v1".into(),
            ..RequestInfo::default()
        };
        authorize(s, &user, &info)
    };
    if let Some(sa) = name.strip_prefix("system:serviceaccount:")
        && let Some((ns, sa)) = sa.split_once(':')
    {
        let info = RequestInfo {
            verb: "impersonate".into(),
            is_resource: true,
            resource: "serviceaccounts".into(),
            namespace: ns.into(),
            name: sa.into(),
            version: "v1".into(),
            ..RequestInfo::default()
        };
        authorize(s, &user, &info)?;
        if groups.is_empty() {
            return Ok(User::service_account(ns, sa));
        }
    } else {
        may("users", name)?;
    }
    for g in &groups {
        may("groups", g)?;
    }
    let more = |resource: &str, subresource: &str, name: &str| {
        let info = RequestInfo {
            verb: "impersonate".into(),
            is_resource: true,
            group: "authentication.k8s.io".into(),
            resource: resource.into(),
            subresource: subresource.into(),
            name: name.into(),
            version: "v1".into(),
            ..RequestInfo::default()
        };
        authorize(s, &user, &info)
    };
    if let Some(uid) = get("impersonate-uid") {
        more("uids", "", uid)?;
    }
    for (header, value) in headers {
        let Some(key) = header.as_str().strip_prefix("impersonate-extra-") else { continue };
        // Escapes are undone only where they stand for a slash, which is what keys have.
        more("userextras", &key.replace("%2f", "/"), value.to_str().unwrap_or_default())?;
    }
    if name == "system:anonymous" {
        return Ok(User::anonymous());
    }
    Ok(User::new(name, &groups))
}

fn covers(list: Option<&Value>, wanted: &str) -> bool {
    list.and_then(Value::as_array)
        .is_some_and(|l| l.iter().filter_map(Value::as_str).any(|x| x == "*" || x == wanted))
}

fn allows(rule: &Value, r: &RequestInfo) -> bool {
    if !covers(rule.get("verbs"), &r.verb) {
        return false;
    }
    if !r.is_resource {
        let urls = rule.get("nonResourceURLs").and_then(Value::as_array);
        return urls.is_some_and(|l| {
            l.iter()
                .filter_map(Value::as_str)
                .any(|u| u == r.path || u.strip_suffix('*').is_some_and(|prefix| r.path.starts_with(prefix)))
        });
    }
    let full = if r.subresource.is_empty() {
        r.resource.clone()
    } else {
        format!("{}/{}", r.resource, r.subresource)
    };
    let any_parent = format!("*/{}", r.subresource);
    let resources = rule.get("resources").and_then(Value::as_array);
    let resource = resources.is_some_and(|l| {
        l.iter()
            .filter_map(Value::as_str)
            .any(|x| x == "*" || x == full || (!r.subresource.is_empty() && x == any_parent))
    });
    let names = rule.get("resourceNames").and_then(Value::as_array).filter(|l| !l.is_empty());
    let name = names.is_none_or(|l| l.iter().any(|x| x.as_str() == Some(&r.name)));
    covers(rule.get("apiGroups"), &r.group) && resource && name
}

fn binds(binding: &Value, user: &User) -> bool {
    let subjects = binding.get("subjects").and_then(Value::as_array);
    subjects.is_some_and(|l| {
        l.iter().any(|s| {
            let name = text(s, "/name");
            match text(s, "/kind") {
                "User" => user.name == name,
                "Group" => user.groups.iter().any(|g| g == name),
                "ServiceAccount" => {
                    user.name == format!("system:serviceaccount:{}:{name}", text(s, "/namespace"))
                }
                _ => false,
            }
        })
    })
}

const RBAC: &str = "rbac.authorization.k8s.io";

/// The rules that hold for a user: cluster-wide ones first, then those of `namespace`.
pub(crate) fn rules_of(s: &Store, user: &User, namespace: &str) -> Vec<Value> {
    let mut out = Vec::new();
    let mut add = |binding: &Value, ns: &str| {
        if !binds(binding, user) {
            return;
        }
        let role = text(binding, "/roleRef/name");
        let (table, ns) = if text(binding, "/roleRef/kind") == "ClusterRole" {
            (format!("clusterroles.{RBAC}"), "")
        } else {
            (format!("roles.{RBAC}"), ns)
        };
        if let Some(r) = s.get(&table, ns, role) {
            out.extend(r.get("rules").and_then(Value::as_array).cloned().unwrap_or_default());
        }
    };
    for (_, b) in s.iter(&format!("clusterrolebindings.{RBAC}"), None) {
        add(b, "");
    }
    if !namespace.is_empty() {
        for (_, b) in s.iter(&format!("rolebindings.{RBAC}"), Some(namespace)) {
            add(b, namespace);
        }
    }
    out
}

/// Whether the user may.
pub(crate) fn allowed(s: &Store, user: &User, r: &RequestInfo) -> bool {
    user.groups.iter().any(|g| g == "system:masters")
        || rules_of(s, user, &r.namespace).iter().any(|rule| allows(rule, r))
}

/// Refuses what RBAC does not allow.
///
/// # Errors
/// 403.
pub(crate) fn authorize(s: &Store, user: &User, r: &RequestInfo) -> Result<(), ApiError> {
    if allowed(s, user, r) {
        return Ok(());
    }
    if !r.is_resource {
        let mut e = ApiError::forbidden(
            Subject { group: "", kind: "", name: "" },
            &format!("User \"{}\" cannot {} path \"{}\"", user.name, r.verb, r.path),
        );
        e.message = format!("forbidden: User \"{}\" cannot {} path \"{}\"", user.name, r.verb, r.path);
        e.details = Some(Box::default());
        return Err(e);
    }
    let what = if r.subresource.is_empty() {
        r.resource.clone()
    } else {
        format!("{}/{}", r.resource, r.subresource)
    };
    let place = if r.namespace.is_empty() || r.resource == "namespaces" && r.name.is_empty() {
        "at the cluster scope".to_owned()
    } else {
        format!("in the namespace \"{}\"", r.namespace)
    };
    let why = format!(
        "User \"{}\" cannot {} resource \"{what}\" in API group \"{}\" {place}",
        user.name, r.verb, r.group
    );
    Err(ApiError::forbidden(Subject { group: &r.group, kind: &r.resource, name: &r.name }, &why))
}
