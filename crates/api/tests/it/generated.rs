//! Files of the repository that are made from the schema.

use plural_testkit::golden_file;

#[test]
fn schema() {
    golden_file("docs/reference/schema.graphql", &plural_api::sdl());
}
