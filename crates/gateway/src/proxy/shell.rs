//! Which requests open a shell.

use std::borrow::Cow;

use percent_encoding::percent_decode_str;
use plural_core::recording::{Shell, ShellKind};
use plural_core::specs::has_nul;

/// What a request opens, as far as recording is concerned.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Opens {
    /// A command in a container, or a terminal attached to one.
    Shell(Shell),
    /// A stream of an aggregated API: the console of a virtual machine, its screen, its ports, its devices. Nobody here
    /// knows its protocol, so it cannot be read.
    Stream {
        /// Its API group, `subresources.kubevirt.io`.
        group: String,
        /// Its subresource, `console`.
        subresource: String,
    },
    /// The kubelet's own API, where shells can be opened behind the API server's back.
    Kubelet,
    /// Something else.
    Nothing,
}

impl Opens {
    /// A parameter of a shell holds a NUL character. No container has such a name and no program takes such an argument;
    /// neither could be stored with the recording.
    pub(crate) fn has_nul(&self) -> bool {
        match self {
            Self::Shell(shell) => {
                let Shell { kind: _, namespace, pod, container, command, tty: _ } = shell;
                let names = [namespace, pod].into_iter().chain(container);
                names.chain(command).any(|text| has_nul(text))
            }
            Self::Stream { .. } | Self::Kubelet | Self::Nothing => false,
        }
    }
}

/// Reads method, path and query as the API server does. [`plural_tunnel::proxy::check_target`] accepted them.
pub(crate) fn opens(method: &str, target: &str, upgrade: bool) -> Opens {
    let looks = matches!(method, "GET" | "HEAD" | "OPTIONS");
    if looks && !upgrade {
        return Opens::Nothing;
    }
    let (path, query) = target.split_once('?').map_or((target, ""), |(path, query)| (path, query));
    let segments: Vec<Cow<'_, str>> = path
        .split('/')
        .filter(|segment| !segment.is_empty())
        .map(|segment| percent_decode_str(segment).decode_utf8_lossy())
        .collect();
    let segments: Vec<&str> = segments.iter().map(|segment| &**segment).collect();
    match segments.as_slice() {
        ["api", _, "namespaces", namespace, "pods", pod, kind @ ("exec" | "attach"), ..] if upgrade => {
            let kind = if *kind == "exec" { ShellKind::Exec } else { ShellKind::Attach };
            Opens::Shell(shell(kind, namespace, pod, query))
        }
        // Looking at a node's metrics and logs opens nothing.
        ["api", _, "nodes", _, "proxy", ..] => Opens::Kubelet,
        // Kubernetes' own groups have no subresource that is upgraded to: whatever has one is an aggregated API. Objects and
        // lists are upgraded to as watches.
        ["apis", group, _, "namespaces", _, _, _, subresource, ..] if upgrade => stream(group, subresource),
        ["apis", _, _, "namespaces", ..] => Opens::Nothing,
        ["apis", group, _, _, _, subresource, ..] if upgrade => stream(group, subresource),
        _ => Opens::Nothing,
    }
}

fn stream(group: &str, subresource: &str) -> Opens {
    Opens::Stream { group: group.to_owned(), subresource: subresource.to_owned() }
}

fn shell(kind: ShellKind, namespace: &str, pod: &str, query: &str) -> Shell {
    let mut shell = Shell {
        kind,
        namespace: namespace.to_owned(),
        pod: pod.to_owned(),
        container: None,
        command: Vec::new(),
        tty: false,
    };
    // Of what is told several times the first counts, but for the words of the command.
    let (mut container, mut tty) = (None, None);
    for parameter in query.split('&') {
        let (name, value) = parameter.split_once('=').unwrap_or((parameter, ""));
        // Go leaves such a pair out.
        if parameter.contains(';') || !is_escaped_well(parameter) {
            continue;
        }
        let value = decoded(value);
        match decoded(name).as_str() {
            "command" if kind == ShellKind::Exec => shell.command.push(value),
            "container" => {
                container.get_or_insert(value);
            }
            "tty" => {
                tty.get_or_insert(value != "0" && !value.eq_ignore_ascii_case("false"));
            }
            _ => {}
        }
    }
    shell.container = container.filter(|name| !name.is_empty());
    shell.tty = tty.unwrap_or_default();
    shell
}

/// Every `%` begins an escape.
fn is_escaped_well(text: &str) -> bool {
    text.split('%')
        .skip(1)
        .all(|rest| rest.as_bytes().get(..2).is_some_and(|digits| digits.iter().all(u8::is_ascii_hexdigit)))
}

/// A name or a value of a query, in which `+` is a space.
fn decoded(text: &str) -> String {
    percent_decode_str(&text.replace('+', " ")).decode_utf8_lossy().into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shells_are_known_however_they_are_written() {
        let target = "/api/v1/namespaces/shop/pods/web-0/exec?command=sh&command=-c&command=echo+%22a%20b%22&container=db&stdin=true&tty=true";
        let expected = Shell {
            kind: ShellKind::Exec,
            namespace: "shop".into(),
            pod: "web-0".into(),
            container: Some("db".into()),
            command: vec!["sh".into(), "-c".into(), "echo \"a b\"".into()],
            tty: true,
        };
        assert_eq!(opens("GET", target, true), Opens::Shell(expected.clone()));
        assert_eq!(opens("POST", target, true), Opens::Shell(expected.clone()));
        let escaped = target.replace("/exec?", "/%65xec?").replace("/pods/", "/p%6Fds/");
        assert_eq!(opens("GET", &escaped, true), Opens::Shell(expected));
        let Opens::Shell(attached) = opens("GET", "/api/v1/namespaces/a/pods/p/attach?command=x", true)
        else {
            panic!("no shell");
        };
        assert_eq!((attached.kind, attached.command.len(), attached.tty), (ShellKind::Attach, 0, false));
    }

    /// As Kubernetes reads them (`Convert_Slice_string_To_string` and `_To_bool` of apimachinery, `ParseQuery` of Go).
    #[test]
    fn what_is_told_twice_or_oddly() {
        for (query, container, tty) in [
            ("container=db&container=web", Some("db"), false),
            ("container=&container=web", None, false),
            ("container=db;x&container=web", Some("web"), false),
            ("container=%zz&container=%77eb", Some("web"), false),
            ("container=%7&tty=yes", None, true),
            ("tty=", None, true),
            ("tty", None, true),
            ("tty=0&tty=1", None, false),
            ("tty=FALSE", None, false),
            ("tty=f", None, true),
        ] {
            let target = format!("/api/v1/namespaces/a/pods/p/exec?{query}");
            let Opens::Shell(shell) = opens("GET", &target, true) else { panic!("no shell: {query}") };
            assert_eq!((shell.container.as_deref(), shell.tty), (container, tty), "{query}");
        }
    }

    #[test]
    fn nul_is_found_in_a_shells_parameters() {
        for (query, found) in [
            ("command=sh&container=a%00b", true),
            ("command=sh&command=%00", true),
            // Not read at all, or the second one of its kind.
            ("command=sh&unknown=%00", false),
            ("command=sh&container=a&container=%00", false),
            ("command=sh&container=a%2500b", false),
        ] {
            let target = format!("/api/v1/namespaces/a/pods/p/exec?{query}");
            assert_eq!(opens("GET", &target, true).has_nul(), found, "{query}");
        }
        assert!(!opens("GET", "/api/v1/pods?watch=1", true).has_nul());
    }

    #[test]
    fn streams_of_aggregated_apis_are_known_by_group_and_subresource() {
        let vm = "/apis/subresources.kubevirt.io/v1/namespaces/a/virtualmachineinstances/vm";
        for subresource in
            ["console", "vnc", "portforward/22", "portforward/22/tcp", "usbredir", "vsock?port=1"]
        {
            let kind = subresource.split(['/', '?']).next().unwrap();
            let expected =
                Opens::Stream { group: "subresources.kubevirt.io".into(), subresource: kind.into() };
            for method in ["GET", "POST"] {
                assert_eq!(opens(method, &format!("{vm}/{subresource}"), true), expected, "{subresource}");
            }
        }
        let escaped =
            "/apis//subresources.kubevirt%2Eio/v1alpha3/n%61mespaces/a/virtualmachines/vm/c%6fnsole";
        let expected =
            Opens::Stream { group: "subresources.kubevirt.io".into(), subresource: "console".into() };
        assert_eq!(opens("GET", escaped, true), expected);
        // One that is not of a namespace, and one of a group that nobody has heard of.
        for (target, group, subresource) in [
            ("/apis/hosts.example.com/v1/machines/one/shell", "hosts.example.com", "shell"),
            ("/apis/v.example.com/v1/namespaces/a/boxes/b/exec/more", "v.example.com", "exec"),
        ] {
            let expected = Opens::Stream { group: group.into(), subresource: subresource.into() };
            assert_eq!(opens("GET", target, true), expected, "{target}");
        }
    }

    #[test]
    fn what_opens_none() {
        for (method, target, upgrade) in [
            ("GET", "/api/v1/namespaces/a/pods/p/exec?command=ls", false),
            ("GET", "/api/v1/namespaces/a/pods/p/portforward", true),
            ("GET", "/api/v1/namespaces/a/pods/p/log", false),
            ("GET", "/api/v1/namespaces/a/services/exec/proxy/exec", true),
            ("GET", "/api/v1/nodes/n/proxy/metrics", false),
            ("GET", "/api/v1/pods?watch=1", true),
            ("GET", "/apis/apps/v1/deployments?watch=1", true),
            ("GET", "/apis/apps/v1/namespaces/a/deployments?watch=1", true),
            ("GET", "/apis/apps/v1/namespaces/a/deployments/web?watch=1", true),
            ("GET", "/apis/rbac.authorization.k8s.io/v1/clusterroles/view?watch=1", true),
            (
                "GET",
                "/apis/subresources.kubevirt.io/v1/namespaces/a/virtualmachineinstances/vm/guestosinfo",
                false,
            ),
            ("PUT", "/apis/subresources.kubevirt.io/v1/namespaces/a/virtualmachines/vm/start", false),
        ] {
            assert_eq!(opens(method, target, upgrade), Opens::Nothing, "{target}");
        }
        for (method, target, upgrade) in [
            ("POST", "/api/v1/nodes/n/proxy/run/a/p/c?cmd=ls", false),
            ("GET", "/api/v1/nodes/n:10250/proxy/exec/a/p/c", true),
        ] {
            assert_eq!(opens(method, target, upgrade), Opens::Kubelet, "{target}");
        }
    }
}
