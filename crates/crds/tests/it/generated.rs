//! Files of the repository that are made from the definitions.

use plural_testkit::golden_file;

#[test]
fn definitions() {
    for definition in plural_crds::agent_definitions() {
        let spec = &definition["spec"];
        let (group, plural) = (spec["group"].as_str().unwrap(), spec["names"]["plural"].as_str().unwrap());
        golden_file(
            &format!("deploy/crds/{group}_{plural}.yaml"),
            &plural_render::yaml::to_string(&definition),
        );
    }
}
