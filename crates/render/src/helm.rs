//! Helm charts: loaded from files, rendered as `helm template` renders them.
//!
//! # Guarantees
//! - The same chart, values and options give the same bytes on every run: random functions draw
//!   from [`RenderOptions::seed`], dates from [`RenderOptions::clock_ms`].
//! - Archives, templates and values are limited in size, steps and nesting.

mod capabilities;
mod chart;
mod dependencies;
mod ignore;
mod load;
mod manifest;
mod render;
pub(crate) mod schema;
mod strvals;
mod template;
mod values;

pub(crate) use self::template::{merge_values, set_value};
pub use self::{
    capabilities::{Capabilities, default_api_versions},
    chart::{Chart, Dependency, Maintainer, Metadata},
    load::ArchiveLimits,
    manifest::{Hook, Manifest},
    render::{Crd, HelmError, LookupPort, Release, RenderOptions, Stage, render},
    template::{TemplateFlags, ValueSource, template},
};
pub use plural_gotemplate::exec::Limits;
