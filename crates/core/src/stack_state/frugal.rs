//! Parts of a state file that are read without being kept: what a tool sends must not take many times its bytes.

use std::fmt;

use serde::de::{Deserialize, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};
use sha2::{Digest as _, Sha256};

/// How many keys an object has.
#[derive(Default)]
pub(super) struct Count(pub(super) u64);

impl<'de> Deserialize<'de> for Count {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        struct Keys;

        impl<'de> Visitor<'de> for Keys {
            type Value = Count;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Count, A::Error> {
                let mut count = 0;
                while map.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {
                    count += 1;
                }
                Ok(Count(count))
            }
        }

        from.deserialize_map(Keys)
    }
}

/// How much is in a list of resources.
#[derive(Default)]
pub(super) struct Counts {
    /// Instances, without those of data sources: these are read anew, and nobody loses them.
    pub(super) managed: u64,
    /// Resources and instances.
    pub(super) all: u64,
}

#[derive(serde::Deserialize)]
struct Counted {
    #[serde(default)]
    mode: String,
    // These take no memory, however many they are.
    #[serde(default)]
    instances: Vec<IgnoredAny>,
}

impl<'de> Deserialize<'de> for Counts {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        struct Resources;

        impl<'de> Visitor<'de> for Resources {
            type Value = Counts;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a list of resources")
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Counts, A::Error> {
                let mut counts = Counts::default();
                while let Some(Counted { mode, instances }) = list.next_element()? {
                    let instances = instances.len() as u64;
                    counts.all += 1 + instances;
                    if mode != "data" {
                        counts.managed += instances;
                    }
                }
                Ok(counts)
            }
        }

        from.deserialize_seq(Resources)
    }
}

/// Which instance of a resource it is, as the tools write it in addresses: a text is quoted, a number is not.
pub(super) struct Index(pub(super) String);

impl<'de> Deserialize<'de> for Index {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        struct Key;

        impl Visitor<'_> for Key {
            type Value = Index;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a text or a number")
            }

            fn visit_u64<E>(self, number: u64) -> Result<Index, E> {
                Ok(Index(number.to_string()))
            }

            fn visit_i64<E>(self, number: i64) -> Result<Index, E> {
                Ok(Index(number.to_string()))
            }

            fn visit_f64<E>(self, number: f64) -> Result<Index, E> {
                Ok(Index(number.to_string()))
            }

            fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<Index, E> {
                serde_json::to_string(text).map(Index).map_err(E::custom)
            }
        }

        from.deserialize_any(Key)
    }
}

/// What a value is, without the value: of two that differ, these differ.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Print([u64; 4]);

impl Print {
    fn of(kind: u8, bytes: &[u8]) -> Self {
        Self::from(Sha256::new().chain_update([kind]).chain_update(bytes))
    }

    /// Adds it to a hash.
    fn add_to(self, mut hash: Sha256) -> Sha256 {
        for lane in self.0 {
            hash.update(lane.to_be_bytes());
        }
        hash
    }
}

impl From<Sha256> for Print {
    fn from(hash: Sha256) -> Self {
        let hash: [u8; 32] = hash.finalize().into();
        let mut lanes = [0; 4];
        for (lane, bytes) in lanes.iter_mut().zip(hash.chunks_exact(8)) {
            *lane = bytes.iter().fold(0, |lane, byte| (lane << 8) | u64::from(*byte));
        }
        Self(lanes)
    }
}

impl<'de> Deserialize<'de> for Print {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        struct Value;

        impl<'de> Visitor<'de> for Value {
            type Value = Print;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a value")
            }

            fn visit_unit<E>(self) -> Result<Print, E> {
                Ok(Print::of(b'n', &[]))
            }

            fn visit_bool<E>(self, value: bool) -> Result<Print, E> {
                Ok(Print::of(b'b', &[u8::from(value)]))
            }

            fn visit_u64<E>(self, number: u64) -> Result<Print, E> {
                Ok(Print::of(b'u', &number.to_be_bytes()))
            }

            fn visit_i64<E>(self, number: i64) -> Result<Print, E> {
                Ok(Print::of(b'i', &number.to_be_bytes()))
            }

            fn visit_f64<E>(self, number: f64) -> Result<Print, E> {
                Ok(Print::of(b'f', &number.to_bits().to_be_bytes()))
            }

            fn visit_str<E>(self, text: &str) -> Result<Print, E> {
                Ok(Print::of(b't', text.as_bytes()))
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Print, A::Error> {
                let mut hash = Sha256::new().chain_update(b"l");
                while let Some(print) = list.next_element::<Print>()? {
                    hash = print.add_to(hash);
                }
                Ok(hash.into())
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Print, A::Error> {
                // The order of keys means nothing: a sum has none, either.
                let mut sum = [0_u64; 4];
                while let Some((key, value)) = map.next_entry::<Print, Print>()? {
                    let Print(entry) = value.add_to(key.add_to(Sha256::new().chain_update(b"e"))).into();
                    for (sum, lane) in sum.iter_mut().zip(entry) {
                        *sum = sum.wrapping_add(lane);
                    }
                }
                Ok(Print(sum).add_to(Sha256::new().chain_update(b"m")).into())
            }
        }

        from.deserialize_any(Value)
    }
}
