//! For fuzzing: parsers of this crate that nothing else has to reach.
#![doc(hidden)]

use crate::proxy::{
    shell::{Opens, opens},
    websocket::{Frames, Side},
};

/// What frames hold that arrive in these pieces: channel, content and whether a message ends there. `None` when they cannot
/// be read.
pub fn frames(from_client: bool, pieces: &[&[u8]]) -> Option<Vec<(u8, Vec<u8>, bool)>> {
    let mut frames = Frames::new(if from_client { Side::Client } else { Side::Server });
    let mut parts = Vec::new();
    for piece in pieces {
        parts
            .extend(frames.feed(piece).ok()?.into_iter().map(|part| (part.channel, part.content, part.last)));
        let _ = frames.owed();
    }
    Some(parts)
}

/// Namespace and name of the Pod in which a request opens a shell, if it does.
pub fn shell(method: &str, target: &str, upgrade: bool) -> Option<(String, String)> {
    match opens(method, target, upgrade) {
        Opens::Shell(shell) => Some((shell.namespace, shell.pod)),
        Opens::Stream { .. } | Opens::Kubelet | Opens::Nothing => None,
    }
}
