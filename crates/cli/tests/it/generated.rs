//! Files of the repository that are made from the command line.

use plural_testkit::golden_file;

#[test]
fn command_line_reference() {
    golden_file("docs/reference/cli.md", &plural_cli::reference(&plural_cli::command()));
}
