//! The contract with the previous build. Agents are upgraded by the console that they poll, so that both builds meet: what a
//! number meant before, it means now.

use std::{collections::BTreeMap, path::Path};

use protox::{
    Compiler, Error,
    file::{File, FileResolver},
    prost_reflect::prost_types::{
        DescriptorProto, EnumDescriptorProto, FileDescriptorSet,
        field_descriptor_proto::{Label, Type},
    },
};

/// What is on the wire under a number.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Field {
    kind: Type,
    /// The message or the enum; empty for anything else.
    of: String,
    repeated: bool,
}

/// Ranges of numbers, both ends included.
type Reserved = Vec<(i32, i32)>;

#[derive(Debug, Default)]
struct Contract {
    messages: BTreeMap<String, (BTreeMap<i32, Field>, Reserved)>,
    enums: BTreeMap<String, (BTreeMap<i32, String>, Reserved)>,
    /// Question, answer, and whether there are many of each, by method.
    methods: BTreeMap<String, (String, String, bool, bool)>,
}

impl Contract {
    fn of(files: &FileDescriptorSet) -> Self {
        let mut contract = Self::default();
        for file in &files.file {
            let package = format!(".{}", file.package());
            file.message_type.iter().for_each(|message| contract.message(&package, message));
            file.enum_type.iter().for_each(|of| contract.enumeration(&package, of));
            for service in &file.service {
                for method in &service.method {
                    contract.methods.insert(
                        format!("{package}.{}/{}", service.name(), method.name()),
                        (
                            method.input_type().to_owned(),
                            method.output_type().to_owned(),
                            method.client_streaming(),
                            method.server_streaming(),
                        ),
                    );
                }
            }
        }
        contract
    }

    fn message(&mut self, above: &str, message: &DescriptorProto) {
        let name = format!("{above}.{}", message.name());
        let fields = message.field.iter().map(|field| {
            let repeated = field.label() == Label::Repeated;
            (field.number(), Field { kind: field.r#type(), of: field.type_name().to_owned(), repeated })
        });
        // The end of a message's range is not part of it.
        let reserved = message.reserved_range.iter().map(|range| (range.start(), range.end() - 1));
        self.messages.insert(name.clone(), (fields.collect(), reserved.collect()));
        message.nested_type.iter().for_each(|nested| self.message(&name, nested));
        message.enum_type.iter().for_each(|nested| self.enumeration(&name, nested));
    }

    fn enumeration(&mut self, above: &str, of: &EnumDescriptorProto) {
        let values = of.value.iter().map(|value| (value.number(), value.name().to_owned()));
        let reserved = of.reserved_range.iter().map(|range| (range.start(), range.end()));
        let name = format!("{above}.{}", of.name());
        self.enums.insert(name, (values.collect(), reserved.collect()));
    }

    /// What an agent or a console of the build `before` would misread.
    fn breaks(&self, before: &Self) -> Vec<String> {
        let mut found = Vec::new();
        for (name, (fields, reserved)) in &before.messages {
            match self.messages.get(name) {
                Some((now, reserved_now)) => {
                    numbers(name, (fields, reserved), (now, reserved_now), &mut found);
                }
                None => found.push(format!("{name} is gone")),
            }
        }
        for (name, (values, reserved)) in &before.enums {
            match self.enums.get(name) {
                Some((now, reserved_now)) => {
                    numbers(name, (values, reserved), (now, reserved_now), &mut found);
                }
                None => found.push(format!("{name} is gone")),
            }
        }
        for (name, method) in &before.methods {
            if self.methods.get(name) != Some(method) {
                found.push(format!("{name} is gone or another"));
            }
        }
        found
    }
}

fn numbers<T: PartialEq>(
    name: &str,
    (before, reserved_before): (&BTreeMap<i32, T>, &Reserved),
    (now, reserved_now): (&BTreeMap<i32, T>, &Reserved),
    found: &mut Vec<String>,
) {
    let is_reserved =
        |number: i32| reserved_now.iter().any(|(first, last)| (*first..=*last).contains(&number));
    for (number, what) in before {
        match now.get(number) {
            Some(now) if now == what => {}
            Some(_) => found.push(format!("{name} {number} is another")),
            None if is_reserved(*number) => {}
            None => found.push(format!("{name} {number} is gone and not reserved")),
        }
    }
    for (first, last) in reserved_before {
        found.extend(
            (*first..=*last)
                .filter(|number| !is_reserved(*number))
                .map(|number| format!("{name} {number} is not reserved any more")),
        );
    }
}

fn compiled(file: &str, folder: &str) -> Contract {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join(folder);
    Contract::of(&protox::compile([folder.join(file)], [&folder]).unwrap())
}

#[test]
fn every_number_means_what_it_meant_to_the_previous_build() {
    let previous = compiled("previous.proto", "tests");
    assert!(previous.messages.len() > 60 && previous.methods.len() == 7, "it was read");
    assert_eq!(compiled("agent.proto", "proto").breaks(&previous), [""; 0]);
}

/// One file, in memory.
struct Source(String);

impl FileResolver for Source {
    fn open_file(&self, name: &str) -> Result<File, Error> {
        File::from_source(name, &self.0)
    }
}

#[test]
fn what_breaks_the_contract_is_found() {
    let contract = |text: &str| {
        let text = format!("syntax = \"proto3\";\npackage p;\n{text}");
        Contract::of(
            &Compiler::with_file_resolver(Source(text)).open_file("p.proto").unwrap().file_descriptor_set(),
        )
    };
    let check = |before: &str, now: &str, expected: &[&str]| {
        assert_eq!(contract(now).breaks(&contract(before)), expected, "{before} -> {now}");
    };
    // What is new, renamed or given up in order.
    check("message M { string a = 1; }", "message M { string b = 1; int32 c = 2; } message N {}", &[]);
    check("message M { string a = 1; uint64 b = 2; }", "message M { reserved 1; uint64 b = 2; }", &[]);
    check("enum E { A = 0; B = 1; }", "enum E { A = 0; reserved 1; C = 2; }", &[]);
    check("message M { int32 a = 1; }", "message M { oneof either { int32 a = 1; string b = 2; } }", &[]);
    // What is not.
    check("message M { string a = 1; }", "message M {}", &[".p.M 1 is gone and not reserved"]);
    check("message M { string a = 1; }", "message M { bytes a = 1; }", &[".p.M 1 is another"]);
    check("message M { string a = 1; }", "message M { repeated string a = 1; }", &[".p.M 1 is another"]);
    check(
        "message M { N a = 1; } message N {} message O {}",
        "message M { O a = 1; } message N {} message O {}",
        &[".p.M 1 is another"],
    );
    check(
        "message M { reserved 3 to 4; }",
        "message M { reserved 3; }",
        &[".p.M 4 is not reserved any more"],
    );
    check(
        "message M { map<string, string> a = 1; }",
        "message M { map<string, int32> a = 1; }",
        &[".p.M.AEntry 2 is another"],
    );
    check(
        "message M { enum E { A = 0; B = 1; } }",
        "message M { enum E { A = 0; C = 1; } }",
        &[".p.M.E 1 is another"],
    );
    check("message M {} enum E { A = 0; }", "", &[".p.M is gone", ".p.E is gone"]);
    check(
        "message M {} service S { rpc Ask(M) returns (M); }",
        "message M {} service S { rpc Ask(M) returns (stream M); }",
        &[".p.S/Ask is gone or another"],
    );
}
