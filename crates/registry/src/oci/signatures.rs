//! Signatures that lie beside an artifact: under the tag that cosign uses, and in bundles that refer to it.

use reqwest::Url;
use serde_json::Value;

use super::{MANIFEST_BYTES, Repository, is_digest, next_page};
use crate::{
    access::Origin,
    cosign::{self, PublicKey},
    error::{Cause, Error, Result},
    http::refusal,
};

/// Signatures that are tried, of each of the two sorts.
const SIGNATURES: usize = 64;
/// Pages of a list of referrers that are read.
const PAGES: usize = 16;
const INDEX: &str = "application/vnd.oci.image.index.v1+json";
const BUNDLE: &str = "application/vnd.dev.sigstore.bundle.v0.3+json";
/// On a referrer: what its bundle says of the artifact.
const PREDICATE: &str = "dev.sigstore.bundle.predicateType";
const SIGNATURE_LAYER: &str = "application/vnd.dev.cosign.simplesigning.v1+json";
const SIGNATURE_ANNOTATION: &str = "dev.cosignproject.cosign/signature";

/// What was found in one of the two places.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Found {
    Nothing,
    /// Signatures, none of them by the key.
    Others,
    Good,
}

impl Repository<'_> {
    /// Fails unless the manifest of this digest is signed with the key: under the tag that cosign uses, or by a bundle that
    /// refers to it.
    pub(crate) async fn verify(&self, digest: &str, key: &PublicKey) -> Result<()> {
        let tag = format!("{}.sig", digest.replace(':', "-"));
        let by_tag = self.signed_by_tag(&tag, digest, key).await?;
        if by_tag == Found::Good {
            return Ok(());
        }
        match self.signed_by_bundle(digest, key).await? {
            Found::Good => Ok(()),
            Found::Nothing if by_tag == Found::Nothing => Err(Error::untrusted(format!(
                "{}@{digest} is not signed, and the service requires a signature: sign it with \
                 `cosign sign --key`, whose signature is kept beside it, as a bundle or under the tag {tag}",
                self.shown()
            ))),
            Found::Nothing | Found::Others => Err(Error::untrusted(format!(
                "no signature of {}@{digest} was made with the key that the service requires",
                self.shown()
            ))),
        }
    }

    async fn signed_by_tag(&self, tag: &str, digest: &str, key: &PublicKey) -> Result<Found> {
        let signatures = match self.manifest(tag).await {
            Ok(manifest) => manifest.layers,
            Err(error) if error.cause == Cause::NotFound => return Ok(Found::Nothing),
            Err(error) => return Err(error),
        };
        let mut found = Found::Nothing;
        for layer in signatures.iter().filter(|layer| layer.media_type == SIGNATURE_LAYER).take(SIGNATURES) {
            found = Found::Others;
            let Some(signature) = layer.annotations.get(SIGNATURE_ANNOTATION) else { continue };
            let Some(payload) = readable(self.blob(layer, MANIFEST_BYTES).await)? else { continue };
            if key.verifies(&payload, signature, digest) {
                return Ok(Found::Good);
            }
        }
        Ok(found)
    }

    async fn signed_by_bundle(&self, digest: &str, key: &PublicKey) -> Result<Found> {
        let mut found = Found::Nothing;
        for reference in self.bundles(digest).await? {
            found = Found::Others;
            // Anybody who may push adds a referrer, and a registry may have removed what one names.
            let Some(manifest) = readable(self.manifest(&reference).await)? else { continue };
            for layer in manifest.layers.iter().filter(|layer| layer.media_type == BUNDLE) {
                let Some(bundle) = readable(self.blob(layer, MANIFEST_BYTES).await)? else { continue };
                if key.verifies_bundle(&bundle, digest) {
                    return Ok(Found::Good);
                }
            }
        }
        Ok(found)
    }

    /// Digests of the manifests with bundles that refer to `digest`: by the registry's list of referrers, or by the tag
    /// that stands in for it where a registry has no such list (distribution specification 1.1).
    async fn bundles(&self, digest: &str) -> Result<Vec<String>> {
        let home = Origin::of(&self.access.url);
        let stand_in = self.url(&format!("manifests/{}", digest.replace(':', "-")))?;
        let mut next = Some(self.url(&format!("referrers/{digest}"))?);
        let mut bundles = Vec::new();
        for page in 0..PAGES {
            let Some(url) = next.take() else { break };
            let mut asked = url;
            let mut reply = self.get(&asked, Some(INDEX), MANIFEST_BYTES).await?;
            // What else goes wrong says nothing of signatures.
            if page == 0 && matches!(reply.status.as_u16(), 400 | 404 | 405 | 501) {
                asked = stand_in.clone();
                reply = self.get(&asked, Some(INDEX), MANIFEST_BYTES).await?;
                if reply.status.as_u16() == 404 {
                    break;
                }
            }
            if !reply.status.is_success() {
                return Err(refusal(&asked, &reply, "list of what refers to it"));
            }
            let index: Value =
                serde_json::from_slice(&reply.body).map_err(|_| self.malformed("a list of referrers"))?;
            bundles.extend(signatures_of(&index));
            if bundles.len() >= SIGNATURES {
                break;
            }
            next = next_page(&reply, &asked).filter(|next: &Url| Origin::of(next) == home);
        }
        bundles.truncate(SIGNATURES);
        Ok(bundles)
    }
}

/// Bundles of an index, without those that say to hold something else than a signature.
fn signatures_of(index: &Value) -> impl Iterator<Item = String> {
    let text = |manifest: &Value, pointer: &str| manifest.pointer(pointer)?.as_str().map(str::to_owned);
    let predicate = |manifest: &Value| {
        manifest.get("annotations")?.get(PREDICATE)?.as_str().map(|predicate| predicate == cosign::PREDICATE)
    };
    let manifests = index.get("manifests").and_then(Value::as_array).into_iter().flatten();
    manifests
        .filter(move |manifest| text(manifest, "/artifactType").as_deref() == Some(BUNDLE))
        .filter(move |manifest| predicate(manifest).unwrap_or(true))
        .filter_map(move |manifest| text(manifest, "/digest").filter(|digest| is_digest(digest)))
}

/// What was read; nothing where it is missing or no signature, which hides no other one.
fn readable<T>(read: Result<T>) -> Result<Option<T>> {
    match read {
        Ok(read) => Ok(Some(read)),
        Err(error) if matches!(error.cause, Cause::Unavailable | Cause::Unauthorized) => Err(error),
        Err(_) => Ok(None),
    }
}
