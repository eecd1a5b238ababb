//! What clients, agents and repositories send to a console or an agent, beyond what is rendered.

use std::hint::black_box;

use plural_agent::fuzzing::question;
use plural_core::repository::RepositoryUrl;
use plural_gateway::fuzzing::{frames as read_frames, shell};
use plural_registry::{PublicKey, check_provenance};
use plural_tunnel::{
    proxy::{Asserted, AssertionKey, AssertionTerms, Verifier, check_target},
    v1::ProxyOpen,
};

/// Frames of a WebSocket. The first byte says whose they are and where the bytes are cut: how they arrive changes nothing.
pub(crate) fn frames(data: &[u8]) {
    let Some((&first, data)) = data.split_first() else { return };
    let from_client = first & 1 == 1;
    let whole = read_frames(from_client, &[data]).map(join);
    let (left, right) = data.split_at(usize::from(first >> 1) % (data.len() + 1));
    let single: Vec<&[u8]> = data.chunks(1).collect();
    for pieces in [vec![left, right], single] {
        assert_eq!(read_frames(from_client, &pieces).map(join), whole, "cut {first}");
    }
    if let Some(messages) = whole {
        let content: usize = messages.iter().map(|(_, content, _)| content.len()).sum();
        assert!(content <= data.len());
    }
}

/// The parts of each message as one, so that only what they hold counts.
fn join(parts: Vec<(u8, Vec<u8>, bool)>) -> Vec<(u8, Vec<u8>, bool)> {
    let mut messages: Vec<(u8, Vec<u8>, bool)> = Vec::new();
    for (channel, content, last) in parts {
        match messages.last_mut() {
            Some((open, begun, ended @ false)) if *open == channel => {
                begun.extend(content);
                *ended = last;
            }
            _ => messages.push((channel, content, last)),
        }
    }
    // One that has no end yet, and no content either, is there or not.
    messages.retain(|(_, content, last)| *last || !content.is_empty());
    messages
}

/// A method, a space, and a path with its query. What the console takes for a shell, the agent takes for the same one.
pub(crate) fn proxy_target(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    let Some((method, target)) = text.split_once(' ') else { return };
    let fine = check_target(target).is_ok();
    for upgrade in [false, true] {
        let [group, resource, subresource, namespace, name] = question(method, target, upgrade);
        if let Some((in_namespace, pod)) = shell(method, target, upgrade)
            && fine
        {
            assert!(upgrade || !matches!(method, "GET" | "HEAD" | "OPTIONS"), "{text:?}");
            assert_eq!((group.as_str(), resource.as_str()), ("", "pods"), "{text:?}");
            assert!(matches!(subresource.as_str(), "exec" | "attach"), "{text:?}");
            assert_eq!((namespace, name), (in_namespace, pod), "{text:?}");
        }
    }
    if fine {
        assert!(target.starts_with('/') && target.is_ascii(), "{text:?}");
        let path = target.split('?').next().unwrap_or_default();
        assert!(!path.split('/').any(|segment| matches!(segment, "." | "..")), "{text:?}");
    }
}

const CLUSTER: &str = "0190b8a2-7c11-7def-8000-0123456789ab";
const NOW: i64 = 1_700_000_000_000;

/// Claims and a signature. Nothing that the key did not sign is believed, and what it signed for another request neither.
pub(crate) fn assertion(data: &[u8]) {
    let Ok(key) = AssertionKey::new(&[7; 32], [1; 8]) else { return };
    let terms = AssertionTerms { cluster_id: CLUSTER, method: "GET", target: "/api/v1/pods", now_ms: NOW };
    let who = Asserted {
        user: "ada@example.com".to_owned(),
        uid: "1".to_owned(),
        groups: vec!["ops".to_owned()],
        extra: std::collections::BTreeMap::new(),
    };
    let mut open = ProxyOpen { method: "GET".into(), target: "/api/v1/pods".into(), ..ProxyOpen::default() };
    key.assert(&who, &terms, &mut open);
    let verified = |open: &ProxyOpen| Verifier::new(CLUSTER.into(), vec![key.public()]).verify(open, NOW);
    assert_eq!(verified(&open).as_ref(), Ok(&who));

    // Claims of somebody else's, signed by nobody and by the key under another purpose.
    let forged = ProxyOpen { claims: data.to_vec().into(), ..open.clone() };
    assert!(verified(&forged).is_err() || forged.claims == open.claims);
    let cut = data.len().min(64);
    let signed = ProxyOpen { signature: data[..cut].to_vec().into(), ..open.clone() };
    assert!(verified(&signed).is_err() || signed.signature == open.signature);
    let text = String::from_utf8_lossy(data).into_owned();
    for other in [
        ProxyOpen { key_id: text.clone(), ..open.clone() },
        ProxyOpen { method: text.clone(), ..open.clone() },
        ProxyOpen { target: text, ..open.clone() },
    ] {
        assert!(verified(&other).is_err() || other == open);
    }
    // A whole message, as it is read from the line.
    if let Ok(read) = <ProxyOpen as prost::Message>::decode(data) {
        assert!(verified(&read).is_err());
    }
}

/// What a signed provenance file says, and the keys of signers.
pub(crate) fn provenance(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    let digest = "ab".repeat(32);
    if check_provenance(text, "web", "1.2.3", &digest).is_ok() {
        // It named all three.
        assert!(text.contains("web") && text.contains("1.2.3") && text.contains(&digest), "{text:?}");
    }
    let _ = black_box(PublicKey::from_pem(text));
}

/// The address of a git repository, as a person gives it.
pub(crate) fn git_address(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    let Ok(url) = text.parse::<RepositoryUrl>() else { return };
    let kept = url.as_str();
    assert!(!kept.starts_with('-') && !kept.chars().any(|c| c.is_control() || c.is_whitespace()), "{text:?}");
    // What is kept is read again as the same, and means the same repository.
    let again = kept.parse::<RepositoryUrl>();
    assert_eq!(again.as_ref(), Ok(&url), "{text:?}");
    let identity = url.identity();
    assert_eq!(again.map(|again| again.identity()), Ok(identity), "{text:?}");
    if !url.is_local() {
        let Some((scheme, rest)) = kept.split_once("://") else { return };
        assert!(matches!(scheme, "https" | "http" | "ssh"), "{text:?}");
        assert!(scheme == "ssh" || !rest.split('/').next().unwrap_or_default().contains('@'), "{text:?}");
    }
}
