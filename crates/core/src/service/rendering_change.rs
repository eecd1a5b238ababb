//! What changes of a rendering.

use plural_specs::Change;

use super::inside;
use super::rendering::{
    HelmConfig, Kustomize, MAX_RENDERERS, MAX_SOURCES, RendererConfig, Rendering, SourceRef, relative,
};
use crate::error::{Error, Result};
use crate::managed_namespace::NamespaceContent;

/// What changes of a rendering; each part is replaced as a whole.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RenderingChange {
    /// The chart.
    pub helm: Change<HelmConfig>,
    /// The Kustomization.
    pub kustomize: Change<Kustomize>,
    /// All renderers.
    pub renderers: Change<Vec<RendererConfig>>,
    /// All further sources.
    pub sources: Change<Vec<SourceRef>>,
    /// The namespace that the service is.
    pub managed_namespace: Change<NamespaceContent>,
}

impl RenderingChange {
    /// It changes nothing.
    pub fn is_empty(&self) -> bool {
        let Self { helm, kustomize, renderers, sources, managed_namespace } = self;
        helm.keeps() && kustomize.keeps() && renderers.keeps() && sources.keeps() && managed_namespace.keeps()
    }

    /// `old` with the change.
    pub fn over(&self, old: Rendering) -> Rendering {
        let Self { helm, kustomize, renderers, sources, managed_namespace } = self;
        Rendering {
            helm: helm.map(|config| config.helm.clone()).over(old.helm),
            kustomize: kustomize.clone().over(old.kustomize),
            renderers: renderers
                .map(|all| all.iter().map(|config| config.renderer.clone()).collect())
                .over(Some(old.renderers))
                .unwrap_or_default(),
            sources: sources.clone().over(Some(old.sources)).unwrap_or_default(),
            managed_namespace: managed_namespace.clone().over(old.managed_namespace),
        }
    }

    /// Checks and normalises.
    ///
    /// # Errors
    /// [`Error::Invalid`] for what no rendering could use.
    pub fn checked(mut self) -> Result<Self> {
        if let Change::Set(config) = &mut self.helm {
            config.helm = std::mem::take(&mut config.helm).checked()?;
            config.values.check()?;
        }
        if let Change::Set(kustomize) = &mut self.kustomize {
            kustomize.path = relative("kustomize.path", &kustomize.path)?;
        }
        if let Change::Set(renderers) = &mut self.renderers {
            if renderers.len() > MAX_RENDERERS {
                let reason = format!("must not name more than {MAX_RENDERERS} renderers");
                return Err(Error::invalid("renderers", reason));
            }
            for config in renderers.iter_mut() {
                config.check()?;
            }
        }
        if let Change::Set(sources) = &mut self.sources {
            if sources.len() > MAX_SOURCES {
                return Err(Error::invalid(
                    "sources",
                    format!("must not name more than {MAX_SOURCES} sources"),
                ));
            }
            for source in sources {
                source.path = inside("sources.path", &source.path)?;
            }
        }
        Ok(self)
    }
}
