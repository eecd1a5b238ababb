//! The rules of `core::access` and the conditions that filter lists say the same: compared on random policies.
//!
//! A world has as many policies as [`cases`] says: projects, clusters in them and services on those. Users, groups and roles of
//! administrators are bound at random. For each user and each action, all rows that a list would show are compared with what
//! the pure function decides about each of them, from bindings that the test knows without a database.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

use plural_core::access::{Decision, UserActor, allows, rights, visibility};
use plural_core::ids::{ClusterId, ServiceId};
use plural_testkit::{TestDatabase, each_database, exclusive};
use sea_orm::{DatabaseConnection, EntityTrait, QuerySelect, QueryTrait};

use super::*;
use crate::DatabaseOptions;

each_database!(lists_show_what_the_rules_allow);

/// Random policies. `PLURAL_POLICY_CASES` asks for more of them, `PLURAL_POLICY_SEED` for others.
const CASES: usize = 20_000;
const USERS: usize = 16;
const GROUPS: usize = 8;
const ROLES: usize = 8;

fn number(variable: &str, default: usize) -> usize {
    std::env::var(variable).ok().map_or(default, |text| text.parse().unwrap())
}

/// A small generator: the same numbers in every run.
struct Random(u64);

impl Random {
    fn below(&mut self, end: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        usize::try_from((self.0 >> 33) % end as u64).unwrap()
    }
}

/// A policy, and where in the list of policies the one above it stands.
#[derive(Debug, Clone, Copy)]
struct Thing {
    policy: Policy,
    parent: Option<usize>,
}

struct World {
    things: Vec<Thing>,
    users: Vec<UserActor>,
    roles: Vec<(RoleId, Rights)>,
    /// On what of `things`.
    bindings: Vec<(usize, Binding)>,
}

impl World {
    fn random(seed: u64, cases: usize) -> Self {
        let mut random = Random(seed);
        let (projects, clusters) = (cases / 50 + 1, cases / 8 + 1);
        let mut things: Vec<Thing> = Vec::with_capacity(cases);
        for place in 0..cases {
            things.push(if place < projects {
                Thing { policy: ProjectId::new().into(), parent: None }
            } else if place < projects + clusters {
                Thing { policy: ClusterId::new().into(), parent: Some(random.below(projects)) }
            } else {
                Thing { policy: ServiceId::new().into(), parent: Some(projects + random.below(clusters)) }
            });
        }
        let groups: Vec<GroupId> = (0..GROUPS).map(|_| GroupId::new()).collect();
        let users: Vec<UserActor> = (0..USERS)
            .map(|number| UserActor {
                id: UserId::new(),
                email: format!("user-{number}@example.com"),
                admin: number == 0,
                // The second user is in no group, the others in some.
                groups: groups.iter().copied().filter(|_| number != 1 && random.below(4) == 0).collect(),
                token: None,
            })
            .collect();
        // Whatever an action is: one role has none of them, one has all, the others some.
        let roles: Vec<(RoleId, Rights)> = (0..ROLES)
            .map(|number| {
                let some = Action::ALL.into_iter().filter(|_| match number {
                    0 => false,
                    1 => true,
                    _ => random.below(3) == 0,
                });
                (RoleId::new(), some.collect())
            })
            .collect();
        let bindings = (0..cases)
            .map(|_| {
                // Half of them where much inherits them.
                let on = if random.below(2) == 0 {
                    random.below(projects + clusters)
                } else {
                    random.below(cases)
                };
                let subject = if random.below(2) == 0 {
                    BindingSubject::User(users[random.below(USERS)].id)
                } else {
                    BindingSubject::Group(groups[random.below(GROUPS)])
                };
                let role = if random.below(2) == 0 {
                    BoundRole::BuiltIn(Role::ALL[random.below(Role::ALL.len())])
                } else {
                    let (id, rights) = roles[random.below(ROLES)];
                    BoundRole::Custom(id, rights)
                };
                (on, Binding { id: BindingId::new(), policy: things[on].policy.id(), subject, role })
            })
            .collect();
        Self { things, users, roles, bindings }
    }

    async fn store(&self, connection: &DatabaseConnection) {
        use sea_orm::TransactionTrait;
        let tx = connection.begin().await.unwrap();
        let at = chrono::Utc::now();
        let rows = self
            .things
            .iter()
            .map(|thing| row_of(thing.policy, thing.parent.map(|parent| self.things[parent].policy.id())));
        insert::<row::Entity, _>(&tx, rows).await;
        let groups: BTreeSet<GroupId> =
            self.users.iter().flat_map(|user| user.groups.iter().copied()).collect();
        let bound = self.bindings.iter().filter_map(|(_, binding)| match binding.subject {
            BindingSubject::Group(id) => Some(id),
            BindingSubject::User(_) => None,
        });
        let groups: BTreeSet<GroupId> = groups.into_iter().chain(bound).collect();
        let rows = groups.iter().map(|id| crate::group::row::ActiveModel {
            id: set(id.uuid()),
            name: set(id.to_string()),
            description: set(None),
            global: set(false),
            created_at: set(at),
            updated_at: set(at),
        });
        insert::<crate::group::row::Entity, _>(&tx, rows).await;
        let rows = self.users.iter().map(|user| crate::user::row::ActiveModel {
            id: set(user.id.uuid()),
            email: set(user.email.clone()),
            name: set(user.email.clone()),
            admin: set(user.admin),
            created_at: set(at),
            updated_at: set(at),
            ..Default::default()
        });
        insert::<crate::user::row::Entity, _>(&tx, rows).await;
        let rows = self.roles.iter().map(|(id, _)| role::row::ActiveModel {
            id: set(id.uuid()),
            name: set(id.to_string()),
            description: set(None),
            created_at: set(at),
            updated_at: set(at),
        });
        insert::<role::row::Entity, _>(&tx, rows).await;
        let rows = self.roles.iter().flat_map(|(id, rights)| {
            rights.iter().map(|action| role::action::ActiveModel {
                role_id: set(id.uuid()),
                action: set(action.as_str().to_owned()),
            })
        });
        insert::<role::action::Entity, _>(&tx, rows).await;
        let (mut built_in, mut custom) = (Vec::new(), Vec::new());
        for (_, Binding { id, policy, subject, role }) in &self.bindings {
            let (user, group) = columns_of(*subject);
            match role {
                BoundRole::BuiltIn(role) => built_in.push(bound::ActiveModel {
                    id: set(id.uuid()),
                    policy_id: set(policy.uuid()),
                    user_id: set(user),
                    group_id: set(group),
                    role: set(role.as_str().to_owned()),
                }),
                BoundRole::Custom(role, _) => custom.push(bound_role::ActiveModel {
                    id: set(id.uuid()),
                    policy_id: set(policy.uuid()),
                    user_id: set(user),
                    group_id: set(group),
                    role_id: set(role.uuid()),
                }),
            }
        }
        insert::<bound::Entity, _>(&tx, built_in).await;
        insert::<bound_role::Entity, _>(&tx, custom).await;
        tx.commit().await.unwrap();
        if connection.get_database_backend() == sea_orm::DbBackend::Postgres {
            connection.execute_unprepared("ANALYZE").await.unwrap();
        }
    }

    /// The bindings of each thing and of all that it is in.
    fn chains(&self) -> Vec<Scope> {
        let mut own: HashMap<usize, Vec<Binding>> = HashMap::new();
        for (on, binding) in &self.bindings {
            own.entry(*on).or_default().push(*binding);
        }
        let chain = |thing: usize| {
            let above = std::iter::successors(Some(thing), |thing| self.things[*thing].parent);
            above.filter_map(|thing| own.get(&thing)).flatten().copied().collect()
        };
        (0..self.things.len()).map(|thing| Scope::Chain(chain(thing))).collect()
    }
}

async fn insert<E, A>(connection: &impl ConnectionTrait, rows: impl IntoIterator<Item = A>)
where
    E: EntityTrait,
    A: sea_orm::ActiveModelTrait<Entity = E> + Send,
{
    let rows: Vec<A> = rows.into_iter().collect();
    for chunk in rows.chunks(AT_ONCE) {
        E::insert_many(chunk.iter().cloned()).exec_without_returning(connection).await.unwrap();
    }
}

/// Rows of a noun that a list with this condition shows.
async fn listed(database: &Database, noun: PolicyNoun, visible: Condition) -> BTreeSet<Uuid> {
    let query = row::Entity::find()
        .select_only()
        .column(row::Column::Id)
        .filter(row::Column::Noun.eq(noun.as_str()))
        .filter(visible);
    let statement = query.build(database.reader.get_database_backend());
    let rows = database.reader.query_all_raw(statement).await.unwrap();
    rows.into_iter().map(|row| row.try_get::<Uuid>("", "id").unwrap()).collect()
}

async fn lists_show_what_the_rules_allow(source: TestDatabase) {
    let _alone = exclusive().await;
    let cases = number("PLURAL_POLICY_CASES", CASES);
    let seed = number("PLURAL_POLICY_SEED", 1);
    let database = Database::open(&DatabaseOptions::new(source.url())).await.unwrap();
    let world = World::random(seed as u64, cases);
    let connection = sea_orm::Database::connect(source.url()).await.unwrap();
    world.store(&connection).await;
    connection.close().await.unwrap();

    let scopes = world.chains();
    // The columns that a project, a cluster and a service are listed by, as their tables have them.
    let nouns = [
        (PolicyNoun::Project, &[row::Column::Id][..], PolicyNoun::Project),
        (PolicyNoun::Cluster, &[row::Column::Id, row::Column::ParentId], PolicyNoun::Project),
        (PolicyNoun::Service, &[row::Column::Id, row::Column::ParentId], PolicyNoun::Cluster),
    ];
    let mut counted: BTreeMap<&str, usize> = BTreeMap::new();
    for user in &world.users {
        let actor = Actor::User(user.clone());
        let visible = visibility(&actor).unwrap();
        for action in Action::ALL {
            for (noun, columns, last) in nouns {
                let expected: BTreeSet<Uuid> = (world.things.iter().zip(&scopes))
                    .filter(|(thing, _)| thing.policy.noun() == noun)
                    .filter(|(_, scope)| {
                        let decision = allows(&actor, action, scope);
                        let word = match decision {
                            Decision::Allow => "allowed",
                            Decision::Deny => "denied",
                            Decision::Hide => "hidden",
                            Decision::Unauthenticated => "nobody",
                        };
                        *counted.entry(word).or_default() += 1;
                        decision == Decision::Allow
                    })
                    .map(|(thing, _)| thing.policy.id().uuid())
                    .collect();
                let found = listed(&database, noun, visible_for(&visible, action, columns, last)).await;
                if found != expected {
                    let (more, less) =
                        (found.difference(&expected).next(), expected.difference(&found).next());
                    panic!("seed {seed}, {} {action:?} {noun:?}: shows {more:?}, lacks {less:?}", user.email);
                }
            }
        }
        // What a single look-up finds gives the same rights.
        let step = cases / 500 + 1;
        let some: Vec<usize> = (0..cases).step_by(step).collect();
        let of: Vec<Vec<PolicyId>> =
            some.iter().map(|thing| vec![world.things[*thing].policy.id()]).collect();
        let found = super::scopes(&database.reader, &actor, &of).await.unwrap();
        for (thing, found) in some.iter().zip(found) {
            assert_eq!(rights(&actor, &found), rights(&actor, &scopes[*thing]), "{:?}", world.things[*thing]);
            let Scope::Chain(found) = found else { panic!("{found:?}") };
            let mine: HashSet<BindingId> = found.iter().map(|binding| binding.id).collect();
            assert_eq!(mine.len(), found.len(), "a binding counts once");
        }
    }
    let count = |word| counted.get(word).copied().unwrap_or_default();
    let decisions: usize = counted.values().sum();
    println!("{cases} policies, {decisions} decisions, seed {seed}: {counted:?}");
    assert_eq!(decisions, cases * USERS * Action::ALL.len());
    assert!(
        ["allowed", "denied", "hidden"].into_iter().all(|word| count(word) > decisions / 200),
        "{counted:?}"
    );
}
