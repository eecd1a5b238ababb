//! What a failed TLS handshake means, in words.

use std::borrow::Cow;

/// What is wrong, in the words of rustls (`Display`), as a person would say it. What is not known here stays as it is.
pub fn tls_words(rustls: &str) -> Cow<'_, str> {
    const KNOWN: &[(&str, &str)] = &[
        (
            "CaUsedAsEndEntity",
            "its certificate is that of a certificate authority (basicConstraints CA:TRUE), which no server may use. \
             Make one with CA:FALSE and the server's names, and name it or its authority as the trusted one",
        ),
        // An authority of the same name, with another key.
        ("BadSignature", "its certificate is not signed with the key of the authority that is trusted here"),
        ("InvalidContentType", "it does not speak TLS: is it an address of plain HTTP?"),
        ("UnknownIssuer", "its certificate is signed by an authority that is not trusted here"),
    ];
    KNOWN
        .iter()
        .find(|(code, _)| rustls.contains(code))
        .map_or(Cow::Borrowed(rustls), |(_, words)| Cow::Borrowed(*words))
}
