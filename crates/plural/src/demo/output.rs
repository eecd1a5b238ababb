//! What the demo tells: lines for a person, or one JSON object a line for a program.

use std::{io::Write, time::Duration};

use serde::Serialize;

/// One cluster as the `ready` event names it.
#[derive(Debug, Clone, Serialize)]
pub(super) struct ClusterLine {
    /// The cluster's handle in the console.
    pub(super) handle: String,
    /// A kubeconfig file that reaches it.
    pub(super) kubeconfig: String,
}

/// Something that happened. The JSON shape is a promise to scripts: `{"event": …}` and these fields.
#[derive(Debug, Clone, Serialize)]
#[serde(tag = "event", rename_all = "lowercase")]
pub(super) enum Event {
    /// Console, clusters and agents are up and everything is deployed.
    Ready {
        /// Where the console answers.
        url: String,
        /// A link that opens the web console signed in: once, within ten minutes, in a browser of this machine.
        #[serde(skip_serializing_if = "Option::is_none")]
        link: Option<String>,
        /// The administrator's email.
        user: String,
        /// The administrator's password.
        password: String,
        /// An access token of the administrator.
        token: String,
        /// The clusters.
        clusters: Vec<ClusterLine>,
        /// The repository to commit to.
        git: String,
        /// The stack whose plan waits for approval; absent without the sample repository and simulated clusters.
        #[serde(skip_serializing_if = "Option::is_none")]
        stack: Option<String>,
    },
    /// A service stands in a cluster as a commit says.
    Applied {
        /// The cluster's handle.
        cluster: String,
        /// The service's name.
        service: String,
        /// The commit, 40 hex digits.
        commit: String,
        /// Milliseconds since the commit was made.
        ms: u64,
        /// A sync window held it back for a part of that time.
        #[serde(skip)]
        held: bool,
    },
    /// A service could not be brought to where its commit says.
    Failed {
        /// The cluster's handle.
        cluster: String,
        /// The service's name.
        service: String,
        /// Why, in words.
        message: String,
    },
}

/// Writes events in the form that was asked for: JSON on stdout, or text on stdout with talk on stderr.
#[derive(Debug, Clone, Copy)]
pub(super) struct Output {
    json: bool,
}

impl Output {
    /// `json`: one object a line instead of text.
    pub(super) fn new(json: bool) -> Self {
        Self { json }
    }

    /// Tells a person what is going on. Nothing in JSON form: a program waits for events.
    pub(super) fn talk(self, text: &str) {
        if !self.json {
            let _ = writeln!(std::io::stderr(), "{text}");
        }
    }

    /// Tells of one event. A closed pipe is not an error: nobody listens any more.
    pub(super) fn event(self, event: &Event) {
        let mut out = std::io::stdout().lock();
        let _ = if self.json {
            serde_json::to_string(event).map(|line| writeln!(out, "{line}"))
        } else {
            Ok(writeln!(out, "{}", text(event)))
        };
        let _ = out.flush();
    }
}

fn text(event: &Event) -> String {
    match event {
        Event::Ready { url, link, user, password, token, clusters, git, stack } => {
            let mut lines = vec![String::new()];
            if let Some(link) = link {
                lines.push(format!("  open        {link}   # once, within ten minutes"));
            }
            lines.extend([
                format!("  console     {url}"),
                format!(
                    "  log in      echo {password} | plural login --url {url} --email {user} --password-stdin"
                ),
                format!("  or          export PLURAL_CONSOLE_URL={url} PLURAL_CONSOLE_TOKEN={token}"),
            ]);
            for ClusterLine { handle, kubeconfig } in clusters {
                lines.push(format!("  {handle:<11} kubectl --kubeconfig {kubeconfig} get all -A"));
            }
            if let Some(ClusterLine { handle, .. }) = clusters.first() {
                lines.push(format!(
                    "  kubectl     plural cd clusters kubeconfig {handle} --merge   # through the console"
                ));
            }
            lines.push(format!("  commit to   {git}"));
            if let Some(stack) = stack {
                lines.push(format!(
                    "  stack       plural cd stacks approve {stack}   # shows what it would make, and asks; `logs --follow` watches it"
                ));
            }
            lines.push(String::new());
            lines.join("\n")
        }
        Event::Applied { cluster, service, commit, ms, held } => {
            let held = if *held { " (held by a sync window)" } else { "" };
            format!("{} {service} applied on {cluster} in {}{held}", short(commit), took(*ms))
        }
        Event::Failed { cluster, service, message } => format!("{service} failed on {cluster}: {message}"),
    }
}

/// A duration as a person says it: `13 ms`, `3 m 25 s`.
fn took(ms: u64) -> String {
    let seconds = ms / 1_000;
    match (seconds / 3_600, seconds / 60 % 60, seconds % 60) {
        _ if ms < 10_000 => format!("{ms} ms"),
        (0, 0, seconds) => format!("{seconds} s"),
        (0, minutes, seconds) => format!("{minutes} m {seconds} s"),
        (hours, minutes, _) => format!("{hours} h {minutes} m"),
    }
}

fn short(commit: &str) -> &str {
    commit.get(..8).unwrap_or(commit)
}

/// Whole milliseconds.
pub(super) fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_as_a_person_says_them() {
        for (ms, words) in [
            (13, "13 ms"),
            (9_999, "9999 ms"),
            (12_400, "12 s"),
            (205_181, "3 m 25 s"),
            (7_500_000, "2 h 5 m"),
        ] {
            assert_eq!(took(ms), words);
        }
    }
}
