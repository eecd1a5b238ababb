//! A bounded run of every target: the inputs of the repository and a fixed number of mutations of them.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests")]

use std::thread;

use plural_fuzz::{Mutator, TARGETS, Target, corpus, corpus_folder};

/// Mutations of each target: always the same ones.
const RUNS: usize = 400;
/// The stack of a thread of a runtime, without optimisation: recursion has to end well before.
const STACK_BYTES: usize = 2 << 20;

fn smoke(target: &'static Target) {
    let inputs = corpus(target.name).unwrap();
    assert!(!inputs.is_empty(), "no inputs for {}", target.name);
    let worker =
        thread::Builder::new().name(target.name.to_owned()).stack_size(STACK_BYTES).spawn(move || {
            for (_, input) in &inputs {
                (target.run)(input);
            }
            let mut mutator = Mutator::new(7);
            for _ in 0..RUNS {
                (target.run)(&mutator.next(&inputs));
            }
        });
    worker.unwrap().join().unwrap();
}

macro_rules! smoke {
    ($($name:ident)*) => {
        $(#[test]
        fn $name() {
            smoke(TARGETS.iter().find(|target| target.name == stringify!($name)).unwrap());
        })*

        /// Each target has its run here, its program and its inputs.
        #[test]
        fn no_target_is_forgotten() {
            let tested = [$(stringify!($name)),*];
            let named: Vec<&str> = TARGETS.iter().map(|target| target.name).collect();
            assert_eq!(named, tested);
            let programs = corpus_folder("").join("../fuzz_targets");
            for name in named {
                assert!(programs.join(format!("{name}.rs")).is_file(), "fuzz/fuzz_targets/{name}.rs");
            }
        }
    };
}

smoke! {
    archive assertion chart_yaml envsubst frames git_address graphql graphql_body index_yaml kustomization liquid lua provenance
    proxy_target raw regular_expression set_flags tar template template_parser values values_schema yaml
}
