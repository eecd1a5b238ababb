//! Certificates as Sprig makes them.
//!
//! Written here and not taken from rcgen: it makes keys, and signs with ECDSA, from the system's randomness.
//! A chart renders to the same bytes on every run, so keys, serial numbers and signatures come from the
//! engine's seed.

use std::rc::Rc;

use base64::{Engine as _, engine::general_purpose::STANDARD};
use sha2::Digest as _;

use super::{der, keys::Key};
use crate::{
    dates,
    exec::{Engine, Fault},
    format,
    funcs::{int, text},
    objects::{self, Struct, Time},
    random::Random,
    value::Value,
};

type Result<T = Value> = std::result::Result<T, Fault>;

/// Steps that are counted for making a key.
const KEY_STEPS: u64 = 1_000_000;

/// What a certificate is for.
struct Request {
    name: String,
    ips: Vec<Vec<u8>>,
    names: Vec<String>,
    days: i64,
    authority: bool,
}

/// Who signs: the name as it is in its certificate, its key's id, its key.
struct Issuer<'k> {
    name: Vec<u8>,
    key_id: Option<Vec<u8>>,
    key: &'k Key,
}

/// `genPrivateKey`
pub(super) fn private_key(engine: &mut Engine<'_>, kind: &str) -> Result {
    engine.burn(KEY_STEPS)?;
    let key = match kind {
        "" | "rsa" => Key::rsa::<32>(&mut engine.random),
        "ecdsa" => Ok(Key::p256(&mut engine.random)),
        "ed25519" => Ok(Key::ed25519(&mut engine.random)),
        // As for any kind that is not known: DSA keys are no longer made by anyone.
        _ => return Ok(format!("Unknown type {kind}").into()),
    };
    Ok(match key {
        Ok(key) => key.to_pem().into(),
        Err(error) => format!("failed to generate private key: {error}").into(),
    })
}

/// `buildCustomCert`
pub(super) fn custom(cert: &str, key: &str) -> Result {
    let decode = |text: &str, what: &str| {
        STANDARD
            .decode(text)
            .ok()
            .and_then(|bytes| String::from_utf8(bytes).ok())
            .ok_or_else(|| Fault::Text(format!("unable to decode base64 {what}")))
    };
    let cert = decode(cert, "certificate")?;
    let key = decode(key, "private key")?;
    let Some((_, content)) = der::from_pem(&cert) else {
        return Err("unable to decode certificate".into());
    };
    if subject(&content).is_none() {
        return Err("error parsing certificate: decodedCert.Bytes: x509: malformed certificate".into());
    }
    Key::from_pem(&key).map_err(|error| format!("error parsing private key: {error}"))?;
    Ok(pair(cert, key))
}

/// `genCA`, `genCAWithKey`
pub(super) fn authority(engine: &mut Engine<'_>, args: &[Value], key: Option<&str>) -> Result {
    let source = source(engine, key)?;
    let request = Request {
        name: text(args, 0).into_owned(),
        ips: Vec::new(),
        names: Vec::new(),
        days: int(args, 1),
        authority: true,
    };
    issue(engine, request, source, Signer::Itself)
}

/// `genSelfSignedCert`, `genSelfSignedCertWithKey`
pub(super) fn self_signed(engine: &mut Engine<'_>, args: &[Value], key: Option<&str>) -> Result {
    let source = source(engine, key)?;
    issue(engine, request(args)?, source, Signer::Itself)
}

/// `genSignedCert`, `genSignedCertWithKey`
pub(super) fn signed(engine: &mut Engine<'_>, args: &[Value], key: Option<&str>) -> Result {
    let source = source(engine, key)?;
    let Some(Value::Struct(object)) = args.get(4) else {
        return Err("unable to decode certificate".into());
    };
    let signer = Signer::Other(object.clone());
    if !object.is_deferred() {
        // It came from outside: what is wrong with it is said here, and before what is wrong with the rest.
        signer.read()?;
    }
    issue(engine, request(args)?, source, signer)
}

fn pair(cert: String, key: String) -> Value {
    Value::Struct(Rc::new(Struct::new(&objects::CERTIFICATE, vec![cert.into(), key.into()])))
}

/// Where the key of a certificate comes from.
enum Source {
    Given(Key),
    /// Made from chance when the certificate is looked at: it takes a thousand times longer than all else.
    New(Box<Random>),
}

impl Source {
    fn key(self) -> Result<Key> {
        match self {
            Self::Given(key) => Ok(key),
            Self::New(mut random) => Key::rsa::<16>(&mut random)
                .map_err(|error| Fault::Text(format!("error generating rsa key: {error}"))),
        }
    }
}

fn source(engine: &mut Engine<'_>, pem: Option<&str>) -> Result<Source> {
    engine.burn(KEY_STEPS)?;
    match pem {
        Some(pem) => Key::from_pem(pem)
            .map(Source::Given)
            .map_err(|error| Fault::Text(format!("parsing private key: {error}"))),
        None => Ok(Source::New(Box::new(engine.random.fork()))),
    }
}

/// A certificate that signs others.
struct Authority {
    name: Vec<u8>,
    key_id: Vec<u8>,
    key: Key,
}

/// Who signs a certificate.
enum Signer {
    Itself,
    Other(Rc<Struct>),
}

impl Signer {
    /// What its certificate and key say; nothing when it is the certificate itself that signs.
    fn read(&self) -> Result<Option<Authority>> {
        let Self::Other(object) = self else { return Ok(None) };
        let field = |name: &str| object.field(name).unwrap_or_default();
        let Some((_, content)) = der::from_pem(field("Cert").as_str().unwrap_or_default()) else {
            return Err("unable to decode certificate".into());
        };
        let Some((name, key_id)) = subject(&content) else {
            return Err(
                "error parsing certificate: decodedSignerCert.Bytes: x509: malformed certificate".into()
            );
        };
        let key = Key::from_pem(field("Key").as_str().unwrap_or_default())
            .map_err(|error| format!("error parsing private key: {error}"))?;
        Ok(Some(Authority { name, key_id, key }))
    }

    /// Whether reading it or signing with it can fail: only for keys that were given.
    fn may_fail(&self) -> bool {
        matches!(self, Self::Other(object) if !object.is_deferred())
    }
}

/// Makes a certificate: at once where something could be wrong with a key, else when it is looked at.
fn issue(engine: &mut Engine<'_>, request: Request, source: Source, signer: Signer) -> Result {
    let mut serial = [0; 16];
    engine.random.fill(&mut serial);
    let clock_ms = engine.clock_ms;
    let now = matches!(source, Source::Given(_)) || signer.may_fail();
    let make = move || -> Result<Vec<Value>> {
        let key = source.key()?;
        let certificate = match signer.read()? {
            None => {
                let issuer = Issuer { name: common_name(&request.name), key_id: None, key: &key };
                certificate(&request, &serial, clock_ms, &key, &issuer)?
            }
            Some(Authority { name, key_id, key: signer }) => {
                let issuer = Issuer { name, key_id: Some(key_id), key: &signer };
                certificate(&request, &serial, clock_ms, &key, &issuer)?
            }
        };
        Ok(vec![certificate.into(), key.to_pem().into()])
    };
    let ty = &objects::CERTIFICATE;
    Ok(Value::Struct(Rc::new(if now {
        Struct::new(ty, make()?)
    } else {
        // Keys that were made here can sign.
        Struct::deferred(ty, move || make().unwrap_or_default())
    })))
}

fn request(args: &[Value]) -> Result<Request> {
    let items = |at: usize| match &args[at] {
        Value::List(list) => list.items().to_vec(),
        _ => Vec::new(),
    };
    let mut ips = Vec::new();
    for ip in items(1) {
        let Some(text) = ip.as_str() else {
            return Err(format!("error parsing ip: {} is not a string", format::display(&ip)).into());
        };
        ips.push(match text.parse() {
            Ok(std::net::IpAddr::V4(ip)) => ip.octets().to_vec(),
            Ok(std::net::IpAddr::V6(ip)) => ip.octets().to_vec(),
            Err(_) => return Err(format!("error parsing ip: {text}").into()),
        });
    }
    let mut names = Vec::new();
    for name in items(2) {
        let Some(text) = name.as_str() else {
            let shown = format::display(&name);
            return Err(format!("error processing alternate dns name: {shown} is not a string").into());
        };
        names.push(text.to_owned());
    }
    Ok(Request { name: text(args, 0).into_owned(), ips, names, days: int(args, 3), authority: false })
}

fn common_name(name: &str) -> Vec<u8> {
    let tag = if name.bytes().all(|b| b.is_ascii_alphanumeric() || b" '()+,-./:=?".contains(&b)) {
        0x13
    } else {
        0x0C
    };
    let attribute = der::nest(
        der::SEQUENCE,
        &[der::value(der::OID, &[0x55, 0x04, 0x03]), der::value(tag, name.as_bytes())],
    );
    der::nest(der::SEQUENCE, &[der::nest(der::SET, &[attribute])])
}

/// The subject of a certificate, and the id of its key.
fn subject(content: &[u8]) -> Option<(Vec<u8>, Vec<u8>)> {
    let (certificate, _) = der::expect(content, der::SEQUENCE)?;
    let (mut rest, _) = der::expect(certificate, der::SEQUENCE)?;
    if rest.first() == Some(&0xA0) {
        rest = der::read(rest)?.3;
    }
    // Serial number, algorithm, issuer, validity.
    for _ in 0..4 {
        rest = der::read(rest)?.3;
    }
    let (_, _, name, rest) = der::read(rest)?;
    let (key, _) = der::expect(rest, der::SEQUENCE)?;
    let (_, _, _, rest) = der::read(key)?;
    let (bits, _) = der::expect(rest, der::BIT_STRING)?;
    Some((name.to_vec(), key_id(bits.get(1..)?)))
}

/// Go's id of a key: the first 160 bits of the SHA-256 of it.
fn key_id(public: &[u8]) -> Vec<u8> {
    sha2::Sha256::digest(public)[..20].to_vec()
}

fn extension(oid: &[u8], critical: bool, content: &[u8]) -> Vec<u8> {
    let mut parts = vec![der::value(der::OID, oid)];
    if critical {
        parts.push(vec![1, 1, 0xFF]);
    }
    parts.push(der::value(der::OCTET_STRING, content));
    der::nest(der::SEQUENCE, &parts)
}

fn time(at: &Time) -> Vec<u8> {
    if (1950..2050).contains(&at.civil().year) {
        der::value(0x17, dates::format(at, "060102150405Z").as_bytes())
    } else {
        der::value(0x18, dates::format(at, "20060102150405Z").as_bytes())
    }
}

/// The certificate as PEM.
fn certificate(
    request: &Request,
    serial: &[u8],
    clock_ms: i64,
    key: &Key,
    issuer: &Issuer<'_>,
) -> Result<String> {
    let (info, public) = key.public();
    let from = Time::utc(clock_ms.div_euclid(1000), 0);
    let until = Time::utc(from.seconds.saturating_add(request.days.saturating_mul(86_400)), 0);
    // Digital signature, key encipherment, and signing of certificates for an authority.
    let usage: &[u8] = if request.authority { &[2, 0xA4] } else { &[5, 0xA0] };
    let purposes =
        [[0x2B, 6, 1, 5, 5, 7, 3, 1], [0x2B, 6, 1, 5, 5, 7, 3, 2]].map(|oid| der::value(der::OID, &oid));
    let basic: &[u8] = if request.authority { &[1, 1, 0xFF] } else { &[] };
    let mut extensions = vec![
        extension(&[0x55, 0x1D, 0x0F], true, &der::value(der::BIT_STRING, usage)),
        extension(&[0x55, 0x1D, 0x25], false, &der::nest(der::SEQUENCE, &purposes)),
        extension(&[0x55, 0x1D, 0x13], true, &der::value(der::SEQUENCE, basic)),
    ];
    if request.authority {
        extensions.push(extension(
            &[0x55, 0x1D, 0x0E],
            false,
            &der::value(der::OCTET_STRING, &key_id(&public)),
        ));
    }
    if let Some(id) = &issuer.key_id {
        let id = der::nest(der::SEQUENCE, &[der::value(0x80, id)]);
        extensions.push(extension(&[0x55, 0x1D, 0x23], false, &id));
    }
    let mut others: Vec<Vec<u8>> =
        request.names.iter().map(|name| der::value(0x82, name.as_bytes())).collect();
    others.extend(request.ips.iter().map(|ip| der::value(0x87, ip)));
    if !others.is_empty() {
        extensions.push(extension(&[0x55, 0x1D, 0x11], false, &der::nest(der::SEQUENCE, &others)));
    }
    let body = der::nest(
        der::SEQUENCE,
        &[
            der::value(0xA0, &der::unsigned(&[2])),
            der::unsigned(serial),
            issuer.key.algorithm(),
            issuer.name.clone(),
            der::nest(der::SEQUENCE, &[time(&from), time(&until)]),
            common_name(&request.name),
            info,
            der::value(0xA3, &der::nest(der::SEQUENCE, &extensions)),
        ],
    );
    let signature = issuer
        .key
        .sign(&body)
        .map_err(|error| Fault::Text(format!("error creating certificate: {error}")))?;
    let certificate = der::nest(der::SEQUENCE, &[body, issuer.key.algorithm(), der::bits(&signature)]);
    Ok(der::pem("CERTIFICATE", &certificate))
}
