//! The suffix that makes a generated object's name change with its content.

use sha2::{Digest, Sha256};

use super::error::{Error, Res};
use super::json::{Numbers, normalize, write_json, write_text};
use super::resource::Resource;
use super::yaml::node::{Data, Node, Tag};
use super::yaml::resolve::Dialect;

/// Ten characters of the content's digest, without vowels and look-alikes.
///
/// # Errors
/// The data has no JSON form.
pub(crate) fn suffix(resource: &Resource) -> Res<String> {
    let node = resource.node();
    let mut text = String::from("{");
    match resource.text_at("kind") {
        "ConfigMap" => {
            if let Some(binary) = node.get("binaryData").filter(|b| matches!(b.data, Data::Map(_))) {
                text.push_str("\"binaryData\":");
                write_field(binary, &mut text)?;
                text.push(',');
            }
            text.push_str("\"data\":");
            optional(node.get("data"), &mut text)?;
            text.push_str(",\"kind\":\"ConfigMap\",\"name\":\"\"}");
        }
        "Secret" => {
            text.push_str("\"data\":");
            optional(node.get("data"), &mut text)?;
            text.push_str(",\"kind\":\"Secret\",\"name\":\"\"");
            if let Some(map) = node.get("stringData").filter(|b| matches!(b.data, Data::Map(_))) {
                text.push_str(",\"stringData\":");
                write_field(map, &mut text)?;
            }
            text.push_str(",\"type\":");
            optional(node.get("type"), &mut text)?;
            text.push('}');
        }
        // Only a patch that changes a generated object's kind leads here.
        _ => write_field(node, &mut text)?,
    }
    let digest = hex::encode(Sha256::digest(text.as_bytes()));
    Ok(digest
        .chars()
        .take(10)
        .map(|c| match c {
            '0' => 'g',
            '1' => 'h',
            '3' => 'k',
            'a' => 'm',
            'e' => 't',
            c => c,
        })
        .collect())
}

fn optional(node: Option<&Node>, out: &mut String) -> Res<()> {
    match node {
        None => out.push_str("\"\""),
        Some(n) if matches!(n.data, Data::Scalar(_)) => write_text(n.text(), out),
        Some(n) => write_field(n, out)?,
    }
    Ok(())
}

fn write_field(node: &Node, out: &mut String) -> Res<()> {
    let mut copy = node.clone();
    for (key, _) in copy.entries_mut() {
        key.tag = Tag::Str;
    }
    normalize(&mut copy, Dialect::New, Numbers::Floats).map_err(Error::new)?;
    write_json(&copy, out);
    Ok(())
}
