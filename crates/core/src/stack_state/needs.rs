//! What resources of a state need. The tools write it for each instance by the addresses of resources, and with all that is needed by
//! what is needed.

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

use serde::de::{Deserialize, Deserializer, SeqAccess, Visitor};

/// Steps of leaving out what is needed only by way of another: a state of thousands of resources takes a few million.
const MAX_STEPS: usize = 100_000_000;

/// Addresses in one text: a list of many short ones would take many times their bytes.
#[derive(Debug, Default)]
pub(super) struct Addresses(String);

impl Addresses {
    fn each(&self) -> impl Iterator<Item = &str> {
        self.0.split('\n').filter(|address| !address.is_empty())
    }
}

impl<'de> Deserialize<'de> for Addresses {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        struct Listed;

        impl<'de> Visitor<'de> for Listed {
            type Value = Addresses;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a list of addresses")
            }

            fn visit_unit<E>(self) -> Result<Addresses, E> {
                Ok(Addresses::default())
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Addresses, A::Error> {
                let mut all = String::new();
                while let Some(address) = list.next_element::<String>()? {
                    // No tool writes one with a control character.
                    if !address.chars().any(char::is_control) {
                        all.push_str(&address);
                        all.push('\n');
                    }
                }
                Ok(Addresses(all))
            }
        }

        from.deserialize_any(Listed)
    }
}

/// Where in an address a letter is.
#[derive(Clone, Copy)]
enum Place {
    Name,
    Key,
    Quoted,
    Escaped,
}

/// An address without the keys of instances: of `module.a["x"].t.n[0]` it is `module.a.t.n`.
pub(super) fn without_keys(address: &str) -> String {
    let mut plain = String::with_capacity(address.len());
    let mut place = Place::Name;
    for letter in address.chars() {
        place = match place {
            Place::Name if letter == '[' => Place::Key,
            Place::Name => {
                plain.push(letter);
                Place::Name
            }
            Place::Key => match letter {
                ']' => Place::Name,
                '"' => Place::Quoted,
                _ => Place::Key,
            },
            Place::Quoted => match letter {
                '"' => Place::Key,
                '\\' => Place::Escaped,
                _ => Place::Quoted,
            },
            Place::Escaped => Place::Quoted,
        };
    }
    plain
}

/// What each resource of a state needs by itself, and not only by way of another.
pub(super) struct Needs {
    numbers: HashMap<Arc<str>, usize>,
    /// Of each resource, in order; absent where finding out would take too long.
    direct: Option<Vec<Vec<usize>>>,
}

impl Needs {
    /// Of all instances: the address of their resource, and what the state says that they need. What is not in the state is left out.
    pub(super) fn of<'a>(instances: impl Iterator<Item = (&'a Arc<str>, &'a Addresses)> + Clone) -> Self {
        let mut numbers: HashMap<Arc<str>, usize> = HashMap::new();
        for (address, _) in instances.clone() {
            let next = numbers.len();
            numbers.entry(Arc::clone(address)).or_insert(next);
        }
        let mut needs: Vec<Vec<usize>> = vec![Vec::new(); numbers.len()];
        for (address, named) in instances {
            let Some(&at) = numbers.get(address) else { continue };
            let others = named.each().filter_map(|name| numbers.get(without_keys(name).as_str()).copied());
            needs[at].extend(others.filter(|&other| other != at));
        }
        for needed in &mut needs {
            needed.sort_unstable();
            needed.dedup();
        }
        Self { direct: direct(&needs), numbers }
    }

    /// Of an instance: the addresses of the resources that it needs by itself, in order. Absent where it is not known.
    pub(super) fn links(&self, address: &str, named: &Addresses) -> Option<Vec<String>> {
        let direct = &self.direct.as_ref()?[*self.numbers.get(address)?];
        let is_direct = |name: &String| {
            self.numbers.get(name.as_str()).is_some_and(|number| direct.binary_search(number).is_ok())
        };
        let mut links: Vec<String> = named.each().map(without_keys).filter(is_direct).collect();
        links.sort_unstable();
        links.dedup();
        Some(links)
    }
}

/// Leaves out what another thing that is needed needs, too. The lists are in order.
fn direct(needs: &[Vec<usize>]) -> Option<Vec<Vec<usize>>> {
    let steps = needs.iter().flatten().fold(0_usize, |steps, &via| steps.saturating_add(needs[via].len()));
    if steps > MAX_STEPS {
        return None;
    }
    // For which resource it was last found that another one needs it.
    let mut found_for = vec![usize::MAX; needs.len()];
    let of_one = |(at, own): (usize, &Vec<usize>)| {
        for &via in own {
            // No tool writes a circle; of one, nothing is left out.
            if needs[via].binary_search(&at).is_err() {
                for &far in &needs[via] {
                    found_for[far] = at;
                }
            }
        }
        own.iter().copied().filter(|&one| found_for[one] != at).collect::<Vec<_>>()
    };
    Some(needs.iter().enumerate().map(of_one).collect())
}
