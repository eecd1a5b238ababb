//! Helm's provenance files, as `helm package --sign` writes them: a clear-signed text that promises a chart's digest.
//!
//! Whose signature it carries is judged elsewhere; here is what the signed text says.

use bytes::Bytes;
use serde_json::Value;

use crate::{
    access::{Access, printable, shown},
    chart::text,
    client::{Client, Place, Resolved},
    error::{Cause, Error, Result},
    index::options,
    oci::{Layer, Repository},
};

/// Bytes of one: it holds the chart's `Chart.yaml`.
const MAX_BYTES: u64 = 2 << 20;
/// Between the two documents of the signed text.
const BETWEEN: &str = "\n...\n";

impl Client {
    /// The provenance file of a chart: beside its archive, or among the layers of its manifest.
    ///
    /// # Errors
    /// [`Cause::Untrusted`] when there is none.
    pub async fn provenance(&self, access: &Access, resolved: &Resolved) -> Result<Bytes> {
        let none = |at: String| {
            Error::untrusted(format!(
                "{at} has no provenance file, and the service requires one: make it with `helm package --sign`, and push it \
                 beside the chart"
            ))
        };
        let layer = |layer: &Option<Layer>, repository: &Repository<'_>| {
            layer.clone().ok_or_else(|| none(repository.shown()))
        };
        match &resolved.place {
            Place::Web { url } => {
                let mut beside = url.clone();
                beside.set_path(&format!("{}.prov", url.path()));
                let read = self.charts().archive(self.http(), access, &beside, MAX_BYTES).await;
                read.map_err(|error| if error.cause == Cause::NotFound { none(shown(url)) } else { error })
            }
            Place::Registry { chart, provenance, .. } => {
                let repository = Repository::new(self.http(), self.tokens(), access, chart.as_deref())?;
                repository.blob(&layer(provenance, &repository)?, MAX_BYTES).await
            }
            Place::Elsewhere { access, provenance, .. } => {
                let repository = Repository::new(self.http(), self.tokens(), access, None)?;
                repository.blob(&layer(provenance, &repository)?, MAX_BYTES).await
            }
        }
    }
}

/// Checks that a signed text is about this chart, this version and this archive (lower-case hex SHA-256).
///
/// The digest alone would do for the bytes; name and version keep an older chart that was signed as well from standing in for
/// a newer one.
///
/// # Errors
/// [`Cause::Untrusted`] when it is about something else, [`Cause::Malformed`] when it is no such text.
pub fn check_provenance(signed: &str, chart: &str, version: &str, digest: &str) -> Result<()> {
    let signed = signed.replace("\r\n", "\n");
    let malformed =
        |what: &str| Error::malformed(format!("the provenance file of {} {what}", printable(chart)));
    let (about, sums) =
        signed.split_once(BETWEEN).ok_or_else(|| malformed("has no list of files after its Chart.yaml"))?;
    let read = |text: &str, what: &str| {
        serde_saphyr::from_str_with_options::<Value>(text, options())
            .map_err(|_| malformed(&format!("has {what} that cannot be read")))
    };
    let about = read(about, "a Chart.yaml")?;
    let sums = read(sums, "a list of files")?;
    let (name, of) = (text(&about, "name"), text(&about, "version"));
    if name != chart || of != version {
        return Err(Error::untrusted(format!(
            "the provenance file is about {} {}, and not about {} {}",
            printable(&name),
            printable(&of),
            printable(chart),
            printable(version)
        )));
    }
    let promised = format!("sha256:{digest}");
    let files = sums.get("files").and_then(Value::as_object);
    if files.is_some_and(|files| files.values().any(|sum| sum.as_str() == Some(&promised))) {
        return Ok(());
    }
    Err(Error::untrusted(format!(
        "the archive of {} {} has the digest {promised}, which its provenance file does not promise",
        printable(chart),
        printable(version)
    )))
}

#[cfg(test)]
mod tests {
    use super::*;

    const SIGNED: &str =
        "apiVersion: v2\nname: web\nversion: 1.2.3\n\n...\nfiles:\n  web-1.2.3.tgz: sha256:ab12\n";

    #[test]
    fn it_is_about_one_archive_of_one_version() {
        check_provenance(SIGNED, "web", "1.2.3", "ab12").unwrap();
        check_provenance(&SIGNED.replace('\n', "\r\n"), "web", "1.2.3", "ab12").unwrap();
        for (chart, version, digest) in
            [("api", "1.2.3", "ab12"), ("web", "1.2.4", "ab12"), ("web", "1.2.3", "ab13")]
        {
            let error = check_provenance(SIGNED, chart, version, digest).unwrap_err();
            assert_eq!(error.cause, Cause::Untrusted, "{error}");
        }
    }

    #[test]
    fn nonsense_promises_nothing() {
        for text in ["", "name: web", "a: [\n...\nfiles: {}", "name: web\nversion: 1.2.3\n...\nfiles: [x]"] {
            assert!(check_provenance(text, "web", "1.2.3", "ab12").is_err(), "{text:?}");
        }
    }
}
