//! Documents that cost too much are refused before anything runs.

#[tokio::test]
async fn deep_wide_and_recursive_documents_are_refused() {
    let deep = format!("{{ me {} }}", "{ groups { members ".repeat(30) + "{ id }" + &"} }".repeat(30));
    let wide =
        format!("{{ me {{ {} }} }}", (0..2_100).map(|n| format!("f{n}: id")).collect::<Vec<_>>().join(" "));
    let cyclic = "{ me { ...A } } fragment A on User { groups { members { ...A } } }".to_owned();
    for document in [deep, wide, cyclic] {
        assert!(plural_api::validate(&document).await.is_err(), "{}", &document[..60]);
    }
}

/// What is refused says why, and which way to go instead.
#[tokio::test]
async fn refusals_name_their_limit() {
    let nested =
        "{ clusters(first: 500) { edges { node { auditLogs(first: 500) { edges { node { id } } } } } } }";
    let operations = "query A { me { id } } query B { me { id } }";
    for (document, reason) in [
        (nested, "Ask for smaller pages (`first`)"),
        (operations, "one operation"),
        ("{ me { groups { members { groups { members { groups { id } } } } } } }", "levels deep"),
        ("{ me { ...A } } fragment A on User { ...A }", "spreads itself"),
        ("{ me { a: __typename } }", "`__typename` has no alias below the root"),
        ("{ me(a: [[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[", "deeper than 64"),
    ] {
        let faults = plural_api::validate(document).await.expect_err(document);
        assert!(faults[0].contains(reason), "{document}: {faults:?}");
    }
}

#[tokio::test]
async fn the_introspection_query_of_common_tools_is_within_the_limits() {
    let type_ref = |depth: usize| {
        let mut text = "kind name".to_owned();
        for _ in 0..depth {
            text = format!("kind name ofType {{ {text} }}");
        }
        text
    };
    let document = format!(
        "query IntrospectionQuery {{ __schema {{
          queryType {{ name }} mutationType {{ name }} subscriptionType {{ name }}
          types {{ ...FullType }}
          directives {{ name description locations args {{ ...InputValue }} }}
        }} }}
        fragment FullType on __Type {{
          kind name description
          fields(includeDeprecated: true) {{
            name description args {{ ...InputValue }} type {{ ...TypeRef }} isDeprecated deprecationReason
          }}
          inputFields {{ ...InputValue }}
          interfaces {{ ...TypeRef }}
          enumValues(includeDeprecated: true) {{ name description isDeprecated deprecationReason }}
          possibleTypes {{ ...TypeRef }}
        }}
        fragment InputValue on __InputValue {{ name description type {{ ...TypeRef }} defaultValue }}
        fragment TypeRef on __Type {{ {} }}",
        type_ref(9)
    );
    plural_api::validate(&document).await.unwrap();
}
