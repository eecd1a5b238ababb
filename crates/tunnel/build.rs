//! Generates the gRPC code from `proto/agent.proto` and what it imports, without `protoc`, and tables of its messages and
//! methods.
use std::{collections::BTreeMap, env, fmt::Write as _, fs, path::PathBuf};

/// Numbers of `FieldDescriptorProto.Type` and `.Label`.
const STRING: i32 = 9;
const MESSAGE: i32 = 11;
const BYTES: i32 = 12;
const REPEATED: i32 = 3;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    println!("cargo::rerun-if-changed=proto");
    let files = protox::compile(["proto/agent.proto"], ["proto"])?;

    // Every message with its full name; map entries are messages inside others and have no type in Rust.
    let mut messages = Vec::new();
    let mut methods = Vec::new();
    for file in &files.file {
        let package = file.package();
        for message in &file.message_type {
            let name = format!(".{package}.{}", message.name());
            for nested in &message.nested_type {
                messages.push((format!("{name}.{}", nested.name()), None, nested));
            }
            messages.push((name, Some(message.name().to_owned()), message));
        }
        for service in &file.service {
            for method in &service.method {
                let path = format!("/{package}.{}/{}", service.name(), method.name());
                methods.push((path, method.input_type().to_owned(), method.client_streaming()));
            }
        }
    }
    let places: BTreeMap<&str, usize> =
        messages.iter().enumerate().map(|(place, (name, ..))| (name.as_str(), place)).collect();

    let mut tables = String::new();
    writeln!(tables, "pub(crate) static SHAPES: &[Shape] = &[")?;
    for (_, rust, message) in &messages {
        let size = rust.as_ref().map_or("ENTRY".to_owned(), |name| format!("size_of::<crate::v1::{name}>()"));
        write!(tables, "    Shape {{ size: {size}, fields: &[")?;
        for field in &message.field {
            let (number, repeated) = (field.number(), field.label == Some(REPEATED));
            let shape = match field.r#type {
                Some(MESSAGE) => {
                    let of = places.get(field.type_name()).ok_or("a field of a message that is nowhere")?;
                    format!("Field::Message {{ shape: {of}, repeated: {repeated} }}")
                }
                Some(STRING | BYTES) if repeated => "Field::Texts".to_owned(),
                _ if repeated => "Field::Numbers".to_owned(),
                // Held in the message itself, or as long as on the wire.
                _ => continue,
            };
            write!(tables, "({number}, {shape}), ")?;
        }
        writeln!(tables, "] }},")?;
    }
    writeln!(tables, "];")?;
    for (place, (name, rust, _)) in messages.iter().enumerate() {
        if let Some(rust) = rust {
            let asked = methods.iter().any(|(_, input, _)| input == name);
            writeln!(
                tables,
                "impl Weighed for crate::v1::{rust} {{ const SHAPE: usize = {place}; const ASKED: bool = {asked}; }}"
            )?;
        }
    }
    writeln!(tables, "/// Every method of the contract.\npub const METHODS: &[Method] = &[")?;
    for (path, _, streaming) in &methods {
        writeln!(tables, "    Method {{ path: {path:?}, client_streams: {streaming} }},")?;
    }
    writeln!(tables, "];")?;
    fs::write(PathBuf::from(env::var("OUT_DIR")?).join("tables.rs"), tables)?;

    // A piece of a proxied body, or of an artifact, is passed on without being copied.
    tonic_prost_build::configure()
        // Sorted, so that the same message has the same bytes: agents know a service again by them.
        .btree_map(".plural.agent.v1")
        .bytes(".plural.agent.v1.ArtifactChunk")
        .bytes(".plural.agent.v1.ProxyFrame")
        .bytes(".plural.agent.v1.ProxyHead")
        .bytes(".plural.agent.v1.ProxyOpen")
        // Far larger than the other kinds of work.
        .boxed(".plural.agent.v1.Work.item.service")
        .codec_path("crate::codec::BoundedCodec")
        .compile_fds(files)?;
    Ok(())
}
