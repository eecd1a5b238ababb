//! Charts that are unpacked.

use std::io::Read as _;

use flate2::read::GzDecoder;
use plural_render::Tree;

use super::{Done, Run, failed, tree_limits};
use crate::files::{Entry, File};

/// Bytes of a chart, unpacked.
const MAX_BYTES: u64 = 64 << 20;

pub(super) fn run(run: &mut Run<'_>) -> Done {
    let Some(helm) = run.automation.vendor.helm.clone() else { return Ok(()) };
    let step = format!("vendor.helm ({})", helm.chart);
    let Some(chart) = &run.request.chart else {
        return Err(failed(step, format!("the chart {} {} was not fetched", helm.chart, helm.version)));
    };
    let destination = run.path(&step, &helm.destination, &run.context)?;
    let mut tar = Vec::new();
    GzDecoder::new(chart.bytes.as_slice())
        .take(MAX_BYTES + 1)
        .read_to_end(&mut tar)
        .map_err(|error| failed(&step, format!("the chart is no gzip: {error}")))?;
    if tar.len() as u64 > MAX_BYTES {
        return Err(failed(step, format!("the chart is larger than {} MiB", MAX_BYTES >> 20)));
    }
    let tree =
        Tree::from_tar(tar, &tree_limits()).map_err(|error| failed(&step, format!("the chart: {error}")))?;
    if !tree.walk("").any(|(path, _)| path.split_once('/').is_some_and(|(_, rest)| rest == "Chart.yaml")) {
        return Err(failed(step, "the archive holds no Chart.yaml in its folder"));
    }
    for (path, bytes) in tree.walk("") {
        // A chart lies in a folder of its name.
        let Some((_, rest)) = path.split_once('/') else { continue };
        run.pay(&step, bytes.len())?;
        let file = File { bytes: bytes.to_vec(), executable: false };
        run.write(&step, &format!("{destination}/{rest}"), Entry::File(file))?;
    }
    Ok(())
}
