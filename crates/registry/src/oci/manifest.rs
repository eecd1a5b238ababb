//! Manifests: what an artifact is made of.

use std::collections::BTreeMap;

use serde_json::Value;

use super::is_digest;
use crate::error::{Error, Result};

/// A chart's configuration and content, by Helm.
const CHART_CONFIG: &str = "application/vnd.cncf.helm.config.v1+json";
const CHART_LAYER: &str = "application/vnd.cncf.helm.chart.content.v1.tar+gzip";
/// Its provenance file, where it was pushed along.
const PROVENANCE_LAYER: &str = "application/vnd.cncf.helm.chart.provenance.v1.prov";
/// What `flux push artifact` makes.
const FLUX_LAYER: &str = "application/vnd.cncf.flux.content.v1.tar+gzip";
/// Layers of a manifest that are looked at.
const MAX_LAYERS: usize = 256;

/// A manifest of one artifact.
#[derive(Debug, Clone)]
pub(crate) struct Manifest {
    /// `sha256:…` of its bytes.
    pub(crate) digest: String,
    config_type: String,
    pub(crate) layers: Vec<Layer>,
    pub(crate) annotations: BTreeMap<String, String>,
}

/// One blob of it.
#[derive(Debug, Clone)]
pub(crate) struct Layer {
    pub(crate) media_type: String,
    /// `sha256:…`.
    pub(crate) digest: String,
    pub(crate) size: u64,
    pub(crate) annotations: BTreeMap<String, String>,
}

impl Manifest {
    /// Reads one; nothing when it cannot be read, or is a list of manifests.
    pub(crate) fn parse(content: &[u8], digest: String) -> Option<Self> {
        let value: Value = serde_json::from_slice(content).ok()?;
        let layers = value.get("layers")?.as_array()?;
        if layers.len() > MAX_LAYERS {
            return None;
        }
        let config_type =
            value.pointer("/config/mediaType").and_then(Value::as_str).unwrap_or_default().to_owned();
        let layers = layers.iter().map(layer).collect::<Option<_>>()?;
        Some(Self { digest, config_type, layers, annotations: annotations(&value) })
    }

    /// Made by `helm push`.
    pub(crate) fn is_chart(&self) -> bool {
        self.config_type == CHART_CONFIG || self.layers.iter().any(|layer| layer.media_type == CHART_LAYER)
    }

    /// The layer with the chart's provenance file.
    pub(crate) fn provenance(&self) -> Option<&Layer> {
        self.layers.iter().find(|layer| layer.media_type == PROVENANCE_LAYER)
    }

    /// The one layer with the content: the chart's archive, or a tar of manifests.
    ///
    /// # Errors
    /// When there is none, or it is not clear which.
    pub(crate) fn content(&self) -> Result<&Layer> {
        let of = |media_type: &str| self.layers.iter().find(|layer| layer.media_type == media_type);
        if self.is_chart() {
            return of(CHART_LAYER)
                .ok_or_else(|| Error::malformed("the artifact is a chart without its content"));
        }
        if let Some(layer) = of(FLUX_LAYER) {
            return Ok(layer);
        }
        let mut tars = self.layers.iter().filter(|layer| {
            [".tar", "tar+gzip", "tar.gzip", "tar.gz"].iter().any(|end| layer.media_type.ends_with(end))
        });
        match (tars.next(), tars.next()) {
            (Some(layer), None) => Ok(layer),
            (None, _) => Err(Error::malformed("the artifact has no layer that is a tar or tar.gz")),
            (Some(_), Some(_)) => Err(Error::malformed(
                "the artifact has more than one layer that is a tar: push the manifests as one",
            )),
        }
    }
}

fn layer(value: &Value) -> Option<Layer> {
    let digest = value.get("digest")?.as_str().filter(|digest| is_digest(digest))?.to_owned();
    Some(Layer {
        media_type: value.get("mediaType")?.as_str()?.to_owned(),
        digest,
        size: value.get("size")?.as_u64()?,
        annotations: annotations(value),
    })
}

fn annotations(value: &Value) -> BTreeMap<String, String> {
    let map = value.get("annotations").and_then(Value::as_object);
    map.into_iter()
        .flatten()
        .filter_map(|(key, value)| Some((key.clone(), value.as_str()?.to_owned())))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn null_and_nonsense_are_no_manifest() {
        for bad in [
            "",
            "null",
            "{}",
            "{\"layers\":null}",
            "{\"layers\":[null]}",
            "{\"layers\":[{\"mediaType\":\"a\",\"digest\":\"sha256:../x\",\"size\":1}]}",
            "{\"manifests\":[]}",
        ] {
            assert!(Manifest::parse(bad.as_bytes(), String::new()).is_none(), "{bad}");
        }
    }

    #[test]
    fn the_layer_with_the_content() {
        let of = |types: &[&str]| {
            let layers: Vec<String> = types
                .iter()
                .map(|kind| {
                    format!("{{\"mediaType\":{kind:?},\"digest\":\"sha256:{}\",\"size\":1}}", "0".repeat(64))
                })
                .collect();
            let text = format!("{{\"config\":null,\"annotations\":null,\"layers\":[{}]}}", layers.join(","));
            let manifest = Manifest::parse(text.as_bytes(), String::new()).unwrap();
            manifest.content().map(|layer| layer.media_type.clone()).map_err(|error| error.message)
        };
        assert_eq!(of(&[FLUX_LAYER]).unwrap(), FLUX_LAYER);
        assert_eq!(of(&["x/y", "application/vnd.oci.image.layer.v1.tar+gzip"]).unwrap().len(), 43);
        assert!(of(&["a/b.tar", "a/b.tar"]).unwrap_err().contains("more than one"));
        assert!(of(&["text/plain"]).unwrap_err().contains("no layer"));
    }
}
