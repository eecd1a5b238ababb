//! Logins of programs that wait: how many there may be, and of whom.

use std::net::{IpAddr, Ipv6Addr};

use chrono::Utc;
use plural_app::program_login::{LASTS, ProgramLogin, ProgramLoginCreate, ProgramLoginStore as _, WAITING};
use plural_app::secret::TokenHash;
use plural_core::ids::ProgramLoginId;
use plural_testkit::{TestDatabase, each_database};

use crate::door::Door;

each_database!(one_network_takes_no_place_of_others);

async fn begins(door: &Door, address: IpAddr) -> bool {
    let (id, at) = (ProgramLoginId::new(), Utc::now());
    let login = ProgramLogin {
        id,
        label: "a program".to_owned(),
        address: Some(address),
        loopback: None,
        created_at: at,
        expires_at: at + LASTS,
        allowed: None,
    };
    let hash = |of: &str| TokenHash::of(&format!("{of} {id}"));
    let create = ProgramLoginCreate { login, device: hash("device"), code: hash("code") };
    door.database.program_login_create(&create).await.is_ok()
}

/// How many of the addresses that `nth` tells get a place.
async fn places(door: &Door, tries: u64, nth: impl Fn(u64) -> IpAddr) -> u64 {
    let mut places = 0;
    for n in 0..tries {
        places += u64::from(begins(door, nth(n)).await);
    }
    places
}

async fn one_network_takes_no_place_of_others(database: TestDatabase) {
    let door = Door::new(database).await;
    let v4 = |a: u64, b: u64| IpAddr::from([203, 0, u8::try_from(a).unwrap(), u8::try_from(b).unwrap()]);
    // An IPv6 network of a customer: 65 536 networks of the size that counts as one address.
    let v6 = |site: u64, subnet: u64| {
        let bits = 0x2001_0db8_u128 << 96 | u128::from(site) << 80 | u128::from(subnet) << 64 | 7;
        IpAddr::V6(Ipv6Addr::from_bits(bits))
    };
    assert_eq!(places(&door, WAITING.of_address + 3, |_| v4(1, 1)).await, WAITING.of_address);
    assert_eq!(places(&door, WAITING.of_network + 3, |n| v4(2, n % 256)).await, WAITING.of_network);
    assert_eq!(places(&door, WAITING.of_address + 3, |_| v6(1, 1)).await, WAITING.of_address);
    assert_eq!(places(&door, WAITING.of_network + 3, |n| v6(2, n)).await, WAITING.of_network);
    // The neighbours have theirs.
    assert!(begins(&door, v4(3, 1)).await && begins(&door, v6(3, 1)).await);
}
