//! What a service is tied to, on the command line.

use clap::Args;

/// What a service is tied to
#[derive(Debug, Clone, Default, Args)]
pub(crate) struct LinksArgs {
    /// Service that has to be healthy first: NAME on the same cluster, CLUSTER/NAME elsewhere; may be given several
    /// times. In an update these are all that it depends on
    #[arg(long, value_name = "SERVICE")]
    pub(crate) depends_on: Vec<String>,

    /// It depends on nothing any more
    #[arg(long, conflicts_with = "depends_on")]
    pub(crate) no_dependencies: bool,

    /// Context that its templates read, by name; may be given several times. In an update these are all that it reads
    #[arg(long = "context", value_name = "CONTEXT")]
    pub(crate) contexts: Vec<String>,

    /// Its templates read no context any more
    #[arg(long, conflicts_with = "contexts")]
    pub(crate) no_contexts: bool,

    /// Stack whose outputs its templates read as imports.STACK, by name; may be given several times. In an update these are
    /// all that it imports
    #[arg(long = "import", value_name = "STACK")]
    pub(crate) imports: Vec<String>,

    /// Its templates read outputs of no stack any more
    #[arg(long, conflicts_with = "imports")]
    pub(crate) no_imports: bool,
}
