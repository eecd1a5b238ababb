//! Personas: what the web console shows to whom. Nothing is decided by them.

use async_trait::async_trait;
use plural_core::access::{Actor, Scope, check_scopes};
use plural_core::ids::{PersonaId, UserId};
use plural_core::persona::{NewPersona, Persona, PersonaChange, check};
use plural_core::{Error, Result};

use crate::access::{Audited, Installation, Write, authorize_installation, noun};
use crate::app::App;
use crate::ctx::OpCtx;
use crate::records::{Search, record};

/// Which persona.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PersonaSelector {
    /// By id.
    Id(PersonaId),
    /// By exact name.
    Name(String),
}

noun!(Persona, "persona", p => Some(p.id.uuid()), p.name.to_string());
record!(Persona, PersonaId, PersonaSelector, Search, under: Scope::AdminOnly);

/// Personas.
#[async_trait]
pub trait PersonaStore: Send + Sync + 'static {
    /// A new persona.
    ///
    /// # Errors
    /// [`Error::Conflict`] for a name that there is already, and for one too many.
    async fn persona_create(
        &self,
        by: Audited<'_, Installation, Write>,
        id: PersonaId,
        new: &NewPersona,
    ) -> Result<Persona>;
    /// A changed persona.
    async fn persona_update(
        &self,
        by: Audited<'_, Persona, Write>,
        change: &PersonaChange,
    ) -> Result<Persona>;
    /// Removes a persona.
    async fn persona_delete(&self, by: Audited<'_, Persona, Write>) -> Result<()>;
    /// Those of a user and of the groups that they are in, by name.
    async fn personas_of(&self, user: UserId) -> Result<Vec<Persona>>;
}

impl App {
    /// A new persona; administrators only.
    pub async fn persona_create(&self, ctx: &OpCtx, new: &NewPersona) -> Result<Persona> {
        let by = authorize_installation::<Write>(ctx, Scope::AdminOnly)?;
        check(new.description.as_deref(), &new.subjects)?;
        let id = PersonaId::new();
        let by = by.audited_new(ctx, "persona.create", "persona", id, &new.name);
        self.store.persona_create(by, id, new).await
    }

    /// A changed persona; administrators only.
    pub async fn persona_update(
        &self,
        ctx: &OpCtx,
        id: PersonaId,
        change: &PersonaChange,
    ) -> Result<Persona> {
        let persona = self.authorized::<Persona, Write>(ctx, &PersonaSelector::Id(id)).await?;
        check(change.description.as_deref(), change.subjects.as_deref().unwrap_or_default())?;
        self.store.persona_update(persona.audited(ctx, "persona.update"), change).await
    }

    /// Removes a persona; administrators only.
    pub async fn persona_delete(&self, ctx: &OpCtx, id: PersonaId) -> Result<Persona> {
        let persona = self.authorized::<Persona, Write>(ctx, &PersonaSelector::Id(id)).await?;
        self.store.persona_delete(persona.audited(ctx, "persona.delete")).await?;
        Ok(persona.into_inner())
    }

    /// The caller's own personas, by name.
    pub async fn personas_own(&self, ctx: &OpCtx) -> Result<Vec<Persona>> {
        check_scopes(ctx.actor())?;
        let Actor::User(user) = ctx.actor() else { return Err(Error::Unauthenticated) };
        self.store.personas_of(user.id).await
    }
}
