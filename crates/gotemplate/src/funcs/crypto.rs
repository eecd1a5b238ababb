//! Sprig's hashes, passwords, keys and certificates; chance comes from the engine's seed.

mod certs;
mod der;
mod keys;
mod primes;

use aes::cipher::{BlockCipherDecrypt as _, BlockCipherEncrypt as _, KeyInit as _};
use base64::{Engine as _, engine::general_purpose::STANDARD};
use sha2::{Digest as _, Sha256, Sha512};

use super::{Func, Ty, bytes, int, text};
use crate::{
    exec::{Engine, Fault},
    value::Value,
};

type Result = std::result::Result<Value, Fault>;

/// Most characters of one random text.
const MAX_RANDOM: i64 = 10_000_000;

const LETTERS: &[u8] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
const DIGITS: &[u8] = b"0123456789";
const WORD: &[u8] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789";

pub(super) static FUNCS: &[Func] = &[
    Func::pure("sha1sum", &[Ty::Str], |args| Ok(hex::encode(sha1::Sha1::digest(bytes(args, 0))).into())),
    Func::pure("sha256sum", &[Ty::Str], |args| Ok(hex::encode(Sha256::digest(bytes(args, 0))).into())),
    Func::pure("sha512sum", &[Ty::Str], |args| Ok(hex::encode(Sha512::digest(bytes(args, 0))).into())),
    Func::pure("adler32sum", &[Ty::Str], |args| Ok(adler32(bytes(args, 0)).to_string().into())),
    Func::engine("randAlphaNum", &[Ty::Int], |engine, args| random(engine, args, WORD)),
    Func::engine("randAlpha", &[Ty::Int], |engine, args| random(engine, args, LETTERS)),
    Func::engine("randNumeric", &[Ty::Int], |engine, args| random(engine, args, DIGITS)),
    Func::engine("randAscii", &[Ty::Int], |engine, args| {
        let printable: Vec<u8> = (b' '..=b'~').collect();
        random(engine, args, &printable)
    }),
    Func::engine("randBytes", &[Ty::Int], |engine, args| {
        let count = counted(engine, args)?;
        let mut buffer = vec![0; count];
        engine.random.fill(&mut buffer);
        Ok(STANDARD.encode(buffer).into())
    }),
    Func::engine("randInt", &[Ty::Int, Ty::Int], |engine, args| {
        let (low, high) = (int(args, 0), int(args, 1));
        match high.checked_sub(low) {
            Some(span) if span > 0 => Ok(Value::Int(low + engine.random.below(span as u64) as i64)),
            _ => Err("invalid argument to Intn".into()),
        }
    }),
    Func::engine("uuidv4", &[], |engine, _| {
        let mut id = [0; 16];
        engine.random.fill(&mut id);
        id[6] = id[6] & 0x0F | 0x40;
        id[8] = id[8] & 0x3F | 0x80;
        let id = hex::encode(id);
        Ok(format!("{}-{}-{}-{}-{}", &id[..8], &id[8..12], &id[12..16], &id[16..20], &id[20..]).into())
    }),
    Func::engine("bcrypt", &[Ty::Str], |engine, args| Ok(hash_password(engine, bytes(args, 0))?.into())),
    Func::engine("htpasswd", &[Ty::Str, Ty::Str], |engine, args| {
        let user = text(args, 0);
        if user.contains(':') {
            return Ok(format!("invalid username: {user}").into());
        }
        Ok(format!("{user}:{}", hash_password(engine, bytes(args, 1))?).into())
    }),
    Func::engine("derivePassword", &[Ty::Int, Ty::Str, Ty::Str, Ty::Str, Ty::Str], derive_password),
    Func::engine("encryptAES", &[Ty::Str, Ty::Str], encrypt),
    Func::pure("decryptAES", &[Ty::Str, Ty::Str], decrypt),
    Func::engine("genPrivateKey", &[Ty::Str], |engine, args| certs::private_key(engine, &text(args, 0))),
    Func::pure("buildCustomCert", &[Ty::Str, Ty::Str], |args| certs::custom(&text(args, 0), &text(args, 1))),
    Func::engine("genCA", &[Ty::Str, Ty::Int], |engine, args| certs::authority(engine, args, None)),
    Func::engine("genCAWithKey", &[Ty::Str, Ty::Int, Ty::Str], |engine, args| {
        let key = text(args, 2).into_owned();
        certs::authority(engine, args, Some(&key))
    }),
    Func::engine("genSelfSignedCert", &[Ty::Str, Ty::List, Ty::List, Ty::Int], |engine, args| {
        certs::self_signed(engine, args, None)
    }),
    Func::engine(
        "genSelfSignedCertWithKey",
        &[Ty::Str, Ty::List, Ty::List, Ty::Int, Ty::Str],
        |engine, args| {
            let key = text(args, 4).into_owned();
            certs::self_signed(engine, args, Some(&key))
        },
    ),
    Func::engine(
        "genSignedCert",
        &[Ty::Str, Ty::List, Ty::List, Ty::Int, Ty::Certificate],
        |engine, args| certs::signed(engine, args, None),
    ),
    Func::engine(
        "genSignedCertWithKey",
        &[Ty::Str, Ty::List, Ty::List, Ty::Int, Ty::Certificate, Ty::Str],
        |engine, args| {
            let key = text(args, 5).into_owned();
            certs::signed(engine, args, Some(&key))
        },
    ),
];

fn counted(engine: &mut Engine<'_>, args: &[Value]) -> std::result::Result<usize, Fault> {
    let count = int(args, 0).clamp(0, MAX_RANDOM) as usize;
    engine.charge(count)?;
    engine.burn(count as u64 / 16)?;
    Ok(count)
}

fn random(engine: &mut Engine<'_>, args: &[Value], set: &[u8]) -> Result {
    let count = counted(engine, args)?;
    Ok(engine.random.text(set, count).into())
}

fn adler32(bytes: &[u8]) -> u32 {
    let (mut a, mut b) = (1u32, 0u32);
    for byte in bytes {
        a = (a + u32::from(*byte)) % 65_521;
        b = (b + a) % 65_521;
    }
    b << 16 | a
}

/// Steps that are counted for work that is slow on purpose.
const SLOW: u64 = 500_000;

fn hash_password(engine: &mut Engine<'_>, password: &[u8]) -> std::result::Result<String, Fault> {
    engine.burn(SLOW)?;
    if password.len() > 72 {
        return Ok(
            "failed to encrypt string with bcrypt: bcrypt: password length exceeds 72 bytes".to_owned()
        );
    }
    let mut salt = [0; 16];
    engine.random.fill(&mut salt);
    Ok(match bcrypt::hash_with_salt(password, 10, salt) {
        Ok(parts) => parts.format_for_version(bcrypt::Version::TwoA),
        Err(error) => format!("failed to encrypt string with bcrypt: {error}"),
    })
}

fn derive_password(engine: &mut Engine<'_>, args: &mut [Value]) -> Result {
    use hmac::{Hmac, KeyInit as _, Mac as _};
    const SEED: &[u8] = b"com.lyndir.masterpassword";
    let kind = text(args, 1);
    let templates: &[&str] = match &*kind {
        "maximum" => &["anoxxxxxxxxxxxxxxxxx", "axxxxxxxxxxxxxxxxxno"],
        "long" => &[
            "CvcvnoCvcvCvcv",
            "CvcvCvcvnoCvcv",
            "CvcvCvcvCvcvno",
            "CvccnoCvcvCvcv",
            "CvccCvcvnoCvcv",
            "CvccCvcvCvcvno",
            "CvcvnoCvccCvcv",
            "CvcvCvccnoCvcv",
            "CvcvCvccCvcvno",
            "CvcvnoCvcvCvcc",
            "CvcvCvcvnoCvcc",
            "CvcvCvcvCvccno",
            "CvccnoCvccCvcv",
            "CvccCvccnoCvcv",
            "CvccCvccCvcvno",
            "CvcvnoCvccCvcc",
            "CvcvCvccnoCvcc",
            "CvcvCvccCvccno",
            "CvccnoCvcvCvcc",
            "CvccCvcvnoCvcc",
            "CvccCvcvCvccno",
        ],
        "medium" => &["CvcnoCvc", "CvcCvcno"],
        "short" => &["Cvcn"],
        "basic" => &["aaanaaan", "aannaaan", "aaannaaa"],
        "pin" => &["nnnn"],
        _ => return Ok(format!("cannot find password template {kind}").into()),
    };
    let salted = |part: &[u8]| [SEED, &(part.len() as u32).to_be_bytes(), part].concat();
    let failed = |error: String| Ok(format!("failed to derive password: {error}").into());
    engine.burn(SLOW)?;
    engine.charge(64 << 20)?;
    let mut key = [0; 64];
    let params = match scrypt::Params::new(15, 8, 2) {
        Ok(params) => params,
        Err(error) => return failed(error.to_string()),
    };
    if let Err(error) = scrypt::scrypt(bytes(args, 2), &salted(bytes(args, 3)), &params, &mut key) {
        return failed(error.to_string());
    }
    let mut mac = match Hmac::<Sha256>::new_from_slice(&key) {
        Ok(mac) => mac,
        Err(error) => return failed(error.to_string()),
    };
    mac.update(&salted(bytes(args, 4)));
    mac.update(&(int(args, 0) as u32).to_be_bytes());
    let seed = mac.finalize().into_bytes();
    let template = templates[usize::from(seed[0]) % templates.len()];
    let password: String = template
        .bytes()
        .enumerate()
        .map(|(at, class)| {
            let set: &[u8] = match class {
                b'V' => b"AEIOU",
                b'C' => b"BCDFGHJKLMNPQRSTVWXYZ",
                b'v' => b"aeiou",
                b'c' => b"bcdfghjklmnpqrstvwxyz",
                b'a' => b"AEIOUaeiouBCDFGHJKLMNPQRSTVWXYZbcdfghjklmnpqrstvwxyz",
                b'n' => DIGITS,
                b'o' => b"@&%?,=[]_:-+*$#!'^~;()/.",
                _ => b"AEIOUaeiouBCDFGHJKLMNPQRSTVWXYZbcdfghjklmnpqrstvwxyz0123456789!@#$%^&*()",
            };
            set[usize::from(seed[at + 1]) % set.len()] as char
        })
        .collect();
    Ok(password.into())
}

fn cipher(password: &[u8]) -> aes::Aes256 {
    let mut key = [0; 32];
    let used = password.len().min(32);
    key[..used].copy_from_slice(&password[..used]);
    aes::Aes256::new(&key.into())
}

fn encrypt(engine: &mut Engine<'_>, args: &mut [Value]) -> Result {
    let plain = bytes(args, 1);
    if plain.is_empty() {
        return Ok("".into());
    }
    engine.charge(plain.len() * 2)?;
    let cipher = cipher(bytes(args, 0));
    let mut previous = [0u8; 16];
    engine.random.fill(&mut previous);
    let mut out = previous.to_vec();
    let fill = 16 - plain.len() % 16;
    let padded = [plain, &vec![fill as u8; fill]].concat();
    for chunk in padded.chunks_exact(16) {
        let mut block = [0u8; 16];
        for (at, byte) in block.iter_mut().enumerate() {
            *byte = chunk[at] ^ previous[at];
        }
        let mut sealed = block.into();
        cipher.encrypt_block(&mut sealed);
        previous = sealed.into();
        out.extend_from_slice(&previous);
    }
    Ok(STANDARD.encode(out).into())
}

fn decrypt(args: &mut [Value]) -> Result {
    let sealed = text(args, 1);
    if sealed.is_empty() {
        return Ok("".into());
    }
    let Ok(sealed) = STANDARD.decode(sealed.as_bytes()) else {
        return Err("illegal base64 data at input byte 0".into());
    };
    if sealed.len() < 16 || sealed.len() % 16 != 0 {
        return Err("crypto/cipher: input not full blocks".into());
    }
    let cipher = cipher(bytes(args, 0));
    let mut out = Vec::with_capacity(sealed.len());
    for at in 1..sealed.len() / 16 {
        let mut block = [0u8; 16];
        block.copy_from_slice(&sealed[at * 16..at * 16 + 16]);
        let mut opened = block.into();
        cipher.decrypt_block(&mut opened);
        let opened: [u8; 16] = opened.into();
        out.extend(opened.iter().zip(&sealed[at * 16 - 16..]).map(|(byte, before)| byte ^ before));
    }
    let fill = out.last().map_or(0, |byte| usize::from(*byte));
    match out.len().checked_sub(fill) {
        Some(kept) => out.truncate(kept),
        None => return Err("runtime error: slice bounds out of range [:-1]".into()),
    }
    Ok(Value::string_of(out))
}
