//! What agents last saw of services' objects. Written by difference: an unchanged object costs nothing.

use std::collections::{HashMap, HashSet};

use plural_core::Result;
use plural_core::component::{Component, ComponentChild, ComponentKey, ComponentState};
use plural_core::ids::ServiceId;
use sea_orm::{ActiveValue, ColumnTrait, ConnectionTrait, EntityTrait, QueryFilter, QueryOrder};
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::convert::word;
use crate::error::db;
use crate::transaction::set;

pub(crate) mod row {
    use sea_orm::entity::prelude::*;

    #[derive(Clone, Debug, PartialEq, DeriveEntityModel)]
    #[sea_orm(table_name = "service_components")]
    pub(crate) struct Model {
        #[sea_orm(primary_key, auto_increment = false)]
        pub id: Uuid,
        pub service_id: Uuid,
        pub api_group: String,
        pub api_version: String,
        pub kind: String,
        pub namespace: String,
        pub name: String,
        pub state: Option<String>,
        pub synced: bool,
        pub uid: Option<String>,
        pub message: Option<String>,
        /// JSON; absent when it owns nothing.
        pub children: Option<String>,
    }

    #[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
    pub(crate) enum Relation {}
    impl ActiveModelBehavior for ActiveModel {}
}

impl TryFrom<row::Model> for Component {
    type Error = plural_core::Error;

    fn try_from(row: row::Model) -> Result<Self> {
        let row::Model {
            id,
            service_id,
            api_group,
            api_version,
            kind,
            namespace,
            name,
            state,
            synced,
            uid,
            message,
            children,
        } = row;
        let state = match state {
            None => None,
            Some(text) => Some(word(ComponentState::parse(&text), "a component's state")?),
        };
        Ok(Self {
            id,
            service_id: ServiceId::from_uuid(service_id),
            key: ComponentKey { group: api_group, version: api_version, kind, namespace, name },
            state,
            synced,
            uid,
            message,
            children: children.map(|text| read_children(&text)).transpose()?.unwrap_or_default(),
        })
    }
}

/// A child as it is kept. Names are short: there are many of them.
#[derive(Debug, Serialize, Deserialize)]
struct ChildRow {
    #[serde(rename = "g", default, skip_serializing_if = "String::is_empty")]
    group: String,
    #[serde(rename = "v")]
    version: String,
    #[serde(rename = "k")]
    kind: String,
    #[serde(rename = "ns", default, skip_serializing_if = "String::is_empty")]
    namespace: String,
    #[serde(rename = "n")]
    name: String,
    #[serde(rename = "u")]
    uid: String,
    #[serde(rename = "p", default, skip_serializing_if = "Option::is_none")]
    parent: Option<String>,
    #[serde(rename = "s", default, skip_serializing_if = "Option::is_none")]
    state: Option<String>,
    #[serde(rename = "m", default, skip_serializing_if = "Option::is_none")]
    message: Option<String>,
}

fn read_children(text: &str) -> Result<Vec<ComponentChild>> {
    let rows: Vec<ChildRow> = serde_json::from_str(text)
        .map_err(|error| plural_core::Error::internal("reading the children of a component", error))?;
    let child = |row: ChildRow| {
        let ChildRow { group, version, kind, namespace, name, uid, parent, state, message } = row;
        let state = state.map(|text| word(ComponentState::parse(&text), "a child's state")).transpose()?;
        let key = ComponentKey { group, version, kind, namespace, name };
        Ok(ComponentChild { key, uid, parent_uid: parent, state, message })
    };
    rows.into_iter().map(child).collect()
}

fn written_children(children: &[ComponentChild]) -> Option<String> {
    let row = |child: &ComponentChild| {
        let ComponentChild { key, uid, parent_uid, state, message } = child.clone();
        let ComponentKey { group, version, kind, namespace, name } = key;
        let state = state.map(|state| state.as_str().to_owned());
        ChildRow { group, version, kind, namespace, name, uid, parent: parent_uid, state, message }
    };
    let rows: Vec<ChildRow> = children.iter().map(row).collect();
    if rows.is_empty() { None } else { serde_json::to_string(&rows).ok() }
}

/// The components of these services, by service.
pub(crate) async fn list_on(
    connection: &impl ConnectionTrait,
    services: &[Uuid],
) -> Result<HashMap<Uuid, Vec<Component>>> {
    let mut found: HashMap<Uuid, Vec<Component>> = HashMap::new();
    for chunk in services.chunks(500) {
        let rows = row::Entity::find()
            .filter(row::Column::ServiceId.is_in(chunk.iter().copied()))
            .order_by_asc(row::Column::Kind)
            .order_by_asc(row::Column::Namespace)
            .order_by_asc(row::Column::Name)
            .all(connection)
            .await
            .map_err(db("reading components"))?;
        for row in rows {
            found.entry(row.service_id).or_default().push(row.try_into()?);
        }
    }
    Ok(found)
}

/// Differences between what is stored and what was reported, gathered over a batch of reports.
#[derive(Default)]
pub(crate) struct Difference {
    added: Vec<row::ActiveModel>,
    changed: Vec<row::ActiveModel>,
    removed: Vec<Uuid>,
}

impl Difference {
    /// Components that are added, changed or removed.
    pub(crate) fn len(&self) -> usize {
        self.added.len() + self.changed.len() + self.removed.len()
    }

    /// Compares; what is now stored is what is returned.
    pub(crate) fn compare(
        &mut self,
        service: Uuid,
        stored: &[Component],
        reported: Vec<Component>,
    ) -> Vec<Component> {
        let mut known: HashMap<&ComponentKey, &Component> = stored.iter().map(|c| (&c.key, c)).collect();
        let mut result = Vec::with_capacity(reported.len());
        let mut seen = HashSet::with_capacity(reported.len());
        for component in reported {
            // One object is one component, however often an agent names it.
            if !seen.insert(component.key.clone()) {
                continue;
            }
            let old = known.remove(&component.key);
            let component = Component { id: old.map_or_else(Uuid::now_v7, |old| old.id), ..component };
            match old {
                Some(old) if same(old, &component) => {}
                Some(_) => self.changed.push(state_of(&component)),
                None => self.added.push(row_of(service, &component)),
            }
            result.push(component);
        }
        self.removed.extend(known.into_values().map(|gone| gone.id));
        result
    }

    pub(crate) async fn write_on(self, connection: &impl ConnectionTrait) -> Result<()> {
        let Self { added, changed, removed } = self;
        let doing = "writing components";
        // An earlier report of the batch may name what a later one does not: that is neither added nor changed.
        let gone: HashSet<Uuid> = removed.iter().copied().collect();
        let stays = |row: &row::ActiveModel| !row.id.try_as_ref().is_some_and(|id| gone.contains(id));
        for chunk in removed.chunks(500) {
            row::Entity::delete_many()
                .filter(row::Column::Id.is_in(chunk.iter().copied()))
                .exec(connection)
                .await
                .map_err(db(doing))?;
        }
        let mut added = added.into_iter().filter(stays).peekable();
        while added.peek().is_some() {
            row::Entity::insert_many(added.by_ref().take(200))
                .exec_without_returning(connection)
                .await
                .map_err(db(doing))?;
        }
        for row in changed.into_iter().filter(stays) {
            row::Entity::update(row).exec(connection).await.map_err(db(doing))?;
        }
        Ok(())
    }
}

fn same(old: &Component, new: &Component) -> bool {
    old.state == new.state
        && old.synced == new.synced
        && old.uid == new.uid
        && old.message == new.message
        && old.children == new.children
}

fn state_of(component: &Component) -> row::ActiveModel {
    row::ActiveModel {
        id: ActiveValue::Unchanged(component.id),
        state: set(component.state.map(|state| state.as_str().to_owned())),
        synced: set(component.synced),
        uid: set(component.uid.clone()),
        message: set(component.message.clone()),
        children: set(written_children(&component.children)),
        ..Default::default()
    }
}

fn row_of(service: Uuid, component: &Component) -> row::ActiveModel {
    let Component { id, service_id: _, key, state, synced, uid, message, children } = component;
    let ComponentKey { group, version, kind, namespace, name } = key;
    row::ActiveModel {
        id: set(*id),
        service_id: set(service),
        api_group: set(group.clone()),
        api_version: set(version.clone()),
        kind: set(kind.clone()),
        namespace: set(namespace.clone()),
        name: set(name.clone()),
        state: set(state.map(|state| state.as_str().to_owned())),
        synced: set(*synced),
        uid: set(uid.clone()),
        message: set(message.clone()),
        children: set(written_children(children)),
    }
}
