//! Files that the program sops made; `tests/encrypted/make.sh` makes them anew.

use super::super::age::tests::{KEY, identities};
use super::*;

const VALUES: &[u8] = include_bytes!("../../tests/encrypted/values.enc.yaml");
const SECRET: &[u8] = include_bytes!("../../tests/encrypted/secret.enc.yaml");
const ONLY: &str = include_str!("../../tests/encrypted/only.enc.yaml");
const JSON: &[u8] = include_bytes!("../../tests/encrypted/values.enc.json");
const ENV: &[u8] = include_bytes!("../../tests/encrypted/keys.enc.env");
const BINARY: &[u8] = include_bytes!("../../tests/encrypted/licence.bin");
const TWO: &[u8] = include_bytes!("../../tests/encrypted/two.enc.yaml");
const OTHER: &[u8] = include_bytes!("../../tests/encrypted/other.enc.yaml");

fn opened(path: &str, content: &[u8]) -> Opened {
    open(path, content, &identities(KEY)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

fn refused(path: &str, content: &[u8]) -> SopsError {
    open(path, content, &identities(KEY)).map(|_| ()).unwrap_err()
}

#[test]
fn yaml_is_as_it_was_before() {
    let plain = yaml::parse(include_bytes!("../../tests/encrypted/values.yaml")).unwrap();
    for content in [VALUES, TWO] {
        let file = opened("values.enc.yaml", content);
        assert_eq!(yaml::parse(&file.content()).unwrap(), plain);
        for (place, value) in [
            ("team", "shop"),
            ("replicas", "3"),
            ("ratio", "0.25"),
            ("whole", "2"),
            ("on", "true"),
            ("text", "3"),
            ("multi", "one\ntwo\n"),
            ("list.0", "first-canary"),
            ("list.1", "7"),
            ("list.2.deep.tls.crt", "pem-canary"),
            ("open_unencrypted", "seen by all"),
        ] {
            assert_eq!(file.value(Some(place)).as_deref(), Ok(value), "{place}");
        }
        assert!(file.value(Some("list.9")).unwrap_err().contains("no value"));
        assert!(file.value(Some("list")).unwrap_err().contains("no single value"));
        assert!(file.value(None).unwrap_err().contains("FILE#KEY"));
        assert!(file.secrets.contains("pem-canary") && !file.secrets.contains("seen by all"));
    }
}

#[test]
fn other_formats_are_as_they_were() {
    let file = opened("secret.enc.yaml", SECRET);
    let plain = include_str!("../../tests/encrypted/secret.yaml");
    let parse = |text: &str| -> Vec<Value> {
        text.split("\n---\n").map(|text| yaml::parse(format!("{text}\n").as_bytes()).unwrap()).collect()
    };
    assert_eq!(parse(&String::from_utf8(file.content()).unwrap()), parse(plain));
    assert!(!file.secrets.contains("sealed"));
    assert_eq!(file.value(Some("data.note")).as_deref(), Ok("sops-canary-also"));

    let file = opened("values.json", JSON);
    let plain: Value = serde_json::from_slice(include_bytes!("../../tests/encrypted/values.json")).unwrap();
    assert_eq!(serde_json::from_slice::<Value>(&file.content()).unwrap(), plain);
    assert_eq!(file.value(Some("list.2.a.b")).as_deref(), Ok("json-canary"));

    let file = opened("keys.env", ENV);
    assert_eq!(
        String::from_utf8(file.content()).unwrap(),
        "TOKEN=age-canary-5f21\nMULTI=line one\\nline two\nEMPTY=\n"
    );
    assert_eq!(file.value(Some("MULTI")).as_deref(), Ok("line one\nline two"));

    let file = opened("licence.bin", BINARY);
    assert_eq!(file.value(None).unwrap().as_bytes(), include_bytes!("../../tests/encrypted/token.txt"));

    // Its MAC covers what is encrypted, and nothing else.
    let file = opened("only.yaml", ONLY.as_bytes());
    assert_eq!(file.value(Some("b_secret")).as_deref(), Ok("mac-canary"));
    opened("only.yaml", ONLY.replace("left alone", "changed").as_bytes());
}

#[test]
fn nothing_can_be_changed_moved_or_left_out() {
    let text = String::from_utf8(VALUES.to_vec()).unwrap();
    let changed = |from: &str, to: &str| {
        assert!(text.contains(from), "{from}");
        refused("values.yaml", text.replacen(from, to, 1).as_bytes())
    };
    // What is in clear, an item that pretends to be a comment, and a byte of what is encrypted.
    assert_eq!(changed("seen by all", "seen by few"), SopsError::Mac);
    assert_eq!(changed("seen by all", "ENC[AES256_GCM,data:AA==,iv:AA==,tag:AA==,type:str]"), SopsError::Mac);
    let item =
        text.lines().find(|line| line.starts_with("    - ENC") && line.ends_with("type:str]")).unwrap();
    assert_eq!(changed(item, &item.replace("type:str]", "type:comment]")), SopsError::Mac);
    assert_eq!(changed(item, &item.replace("data:", "data:AAAA")), SopsError::Value("list".to_owned()));
}

#[test]
fn lines_belong_to_their_places() {
    let text = String::from_utf8(VALUES.to_vec()).unwrap();
    let line = |name: &str| {
        let prefix = format!("{name}: ");
        text.lines().find_map(|line| line.strip_prefix(&prefix)).unwrap().to_owned()
    };
    let (team, text_of) = (line("team"), line("text"));
    let moved = text.replace(&team, &text_of);
    assert_eq!(refused("values.yaml", moved.as_bytes()), SopsError::Value("team".to_owned()));
    let without: String = text.split_inclusive('\n').filter(|line| !line.starts_with("team: ")).collect();
    assert_eq!(refused("values.yaml", without.as_bytes()), SopsError::Mac);
    let in_clear = text.replace(&team, "shop");
    assert_eq!(refused("values.yaml", in_clear.as_bytes()), SopsError::Value("team".to_owned()));
    let emptied = text.replace(&team, "\"\"");
    assert_eq!(refused("values.yaml", emptied.as_bytes()), SopsError::Mac);
    // The rule of what is encrypted is part of what is checked: nothing that was open becomes sealed.
    let ruled = text.replace("unencrypted_suffix: _unencrypted", "unencrypted_suffix: _open");
    assert_eq!(refused("values.yaml", ruled.as_bytes()), SopsError::Value("open_unencrypted".to_owned()));
    let of_another = text.replace("lastmodified: \"2", "lastmodified: \"1");
    assert_eq!(refused("values.yaml", of_another.as_bytes()), SopsError::Mac);
}

#[test]
fn what_is_missing_is_named() {
    assert!(matches!(refused("values.yaml", OTHER), SopsError::NoIdentity(who) if who.starts_with("age1")));
    assert_eq!(refused("values.yaml", b"a: ENC[AES256_GCM,\nsops: 1\n"), SopsError::Format);
    assert_eq!(refused("x.bin", b"ENC[AES256_GCM, sops"), SopsError::Format);
    assert_eq!(refused("values.yaml", b"sops: {}\n"), SopsError::Metadata);
    let of = |recipients: &str| {
        let text =
            format!("{{\"a\": \"\", \"sops\": {{\"mac\": \"x\", \"lastmodified\": \"y\", {recipients}}}}}");
        refused("values.json", text.as_bytes())
    };
    let told = of("\"pgp\": [{\"fp\": \"1\"}], \"kms\": [{}], \"age\": null").to_string();
    assert!(told.contains("PGP keys, AWS KMS") && told.contains("sops updatekeys"), "{told}");
    assert_eq!(of("\"key_groups\": [{}, {}]"), SopsError::Groups);
    assert_eq!(refused("x.ini", b"[a]\nb = ENC[AES256_GCM,\n[sops]\n"), SopsError::Ini);
    assert!(may_be(VALUES) && may_be(ENV) && !may_be(b"sops: everywhere"));
    assert!(holds_sealed("x ENC[AES256_GCM,data:") && holds_sealed(&STANDARD.encode("ENC[AES256_GCM,data:")));
    // Wherever it begins in what was encoded.
    for before in ["", "K", "KE", "KEY=", "password: "] {
        assert!(holds_sealed(&STANDARD.encode(format!("{before}ENC[AES256_GCM,data:x]"))), "{before:?}");
    }
}
