//! Markers in bodies.

use plural_scaffold::markers::markers;

#[test]
fn the_last_line_of_each_counts() {
    let body = "Hello\n\nPlural Service: blue/web\nplural service: blue/api\n* **Plural Stack:** `net`\n> Plural Flow: shop\r\n\
                Plural Merge Cron: `* 5 * * 1`\nPlural Attribute: size=big\nPlural Attribute: a=b=c\nPlural Cluster:\n\
                ```\nPlural Cluster: hidden\n```\nNot Plural Cluster: x\n";
    let found = markers(body);
    assert_eq!(found.service.as_deref(), Some("blue/api"));
    assert_eq!(found.stack.as_deref(), Some("net"));
    assert_eq!(found.flow.as_deref(), Some("shop"));
    assert_eq!(found.merge_cron.as_deref(), Some("* 5 * * 1"));
    assert_eq!(found.cluster, None);
    let attributes: Vec<_> =
        found.attributes.iter().map(|(key, value)| (key.as_str(), value.as_str())).collect();
    assert_eq!(attributes, [("a", "b=c"), ("size", "big")]);
}

#[test]
fn a_large_body_is_read_to_a_limit() {
    let body = format!("{}\nPlural Stack: late\n", "x".repeat(300 << 10));
    assert_eq!(markers(&body).stack, None);
}
