//! Logins of programs that wait: how many there may be, and of whom.

use std::net::{IpAddr, Ipv6Addr};

use chrono::Utc;
use plural_app::program_login::{LASTS, ProgramLogin, ProgramLoginCreate, ProgramLoginStore as _, WAITING};
use plural_app::secret::TokenHash;
use plural_core::ids::ProgramLoginId;
use plural_testkit::{TestDatabase, each_database};
use sea_orm::{ConnectionTrait as _, Statement, TransactionTrait as _};

use crate::door::Door;

each_database!(one_network_takes_no_place_of_others, many_networks_keep_nobody_out);

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

async fn many_networks_keep_nobody_out(database: TestDatabase) {
    let door = Door::new(database).await;
    let crowd = IpAddr::from([198, 51, 100, 7]);
    let oldest = TokenHash::of("the oldest");
    let rows = sea_orm::Database::connect(door.source.url()).await.unwrap();
    let waits = "INSERT INTO program_logins (id, device_hash, code_hash, label, address, created_at, expires_at, is_bound, network) \
                 SELECT $1, $2, $3, label, address, created_at, expires_at, is_bound, network FROM program_logins LIMIT 1";
    assert!(begins(&door, crowd).await);
    let tx = rows.begin().await.unwrap();
    for n in 1..WAITING.all {
        let device = if n == 1 { oldest } else { TokenHash::of(&format!("device {n}")) };
        let values = [
            // Of one moment: the first id is the oldest.
            ProgramLoginId::new().uuid().into(),
            device.as_bytes().to_vec().into(),
            TokenHash::of(&format!("code {n}")).as_bytes().to_vec().into(),
        ];
        let backend = rows.get_database_backend();
        tx.execute_raw(Statement::from_sql_and_values(backend, waits, values)).await.unwrap();
    }
    tx.commit().await.unwrap();
    let mine = IpAddr::from([203, 0, 113, 7]);
    let own = IpAddr::from([192, 0, 2, 7]);
    let count = async || {
        let all = "SELECT COUNT(*) AS count FROM program_logins";
        let row = rows.query_one_raw(Statement::from_string(rows.get_database_backend(), all)).await.unwrap();
        row.unwrap().try_get::<i64>("", "count").unwrap().cast_unsigned()
    };
    assert_eq!(count().await, WAITING.all);
    assert!(begins(&door, mine).await && begins(&door, own).await);
    assert_eq!(count().await, WAITING.all, "two of the crowd went");
    let found = door.database.program_login_by_device(&oldest, Utc::now()).await.unwrap();
    assert!(found.is_none(), "its oldest ones");
    assert!(!begins(&door, crowd).await, "the crowd itself has no more than before");
}
