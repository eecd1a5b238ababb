//! A browser, as far as signing in needs one: cookies, redirects, forms with their origin.

use std::collections::BTreeMap;

use plural_testkit::{
    FakeIssuer,
    fake_issuer::{CLIENT_ID, CLIENT_SECRET},
};
use reqwest::{Method, Url, header::HeaderMap, redirect::Policy};
use serde_json::{Value, json};

use crate::api_server::{Answer, TestServer};

/// A browser that follows nothing by itself.
pub(crate) struct Browser {
    http: reqwest::Client,
    /// The console's origin.
    pub(crate) home: String,
    /// Those that the console set.
    pub(crate) cookies: BTreeMap<String, String>,
}

/// What came back.
#[derive(Debug)]
pub(crate) struct Page {
    pub(crate) status: u16,
    pub(crate) headers: HeaderMap,
    pub(crate) text: String,
}

impl Page {
    /// Where it sends the browser.
    pub(crate) fn location(&self) -> &str {
        self.headers.get("location").map(|to| to.to_str().unwrap()).unwrap_or_default()
    }

    /// The lines that set cookies.
    pub(crate) fn set(&self) -> Vec<&str> {
        self.headers.get_all("set-cookie").iter().map(|line| line.to_str().unwrap()).collect()
    }
}

impl Browser {
    pub(crate) fn new(t: &TestServer) -> Self {
        let http = reqwest::Client::builder().tls_certs_only([]).redirect(Policy::none()).build().unwrap();
        Self { http, home: t.console.url.clone(), cookies: BTreeMap::new() }
    }

    fn cookie(&self) -> String {
        let pairs = self.cookies.iter().map(|(name, value)| format!("{name}={value}"));
        pairs.collect::<Vec<_>>().join("; ")
    }

    async fn send(&mut self, method: Method, url: &str, headers: &[(&str, &str)], body: String) -> Page {
        let mut request = self.http.request(method, url).body(body);
        let is_home = url.starts_with(&self.home);
        if is_home && !self.cookies.is_empty() {
            request = request.header("cookie", self.cookie());
        }
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let response = request.send().await.unwrap();
        let (status, headers) = (response.status().as_u16(), response.headers().clone());
        let page = Page { status, headers, text: response.text().await.unwrap() };
        if is_home {
            for line in page.set() {
                let (name, rest) = line.split_once('=').unwrap();
                let (value, _) = rest.split_once(';').unwrap();
                if rest.contains("Max-Age=0") {
                    self.cookies.remove(name);
                } else {
                    self.cookies.insert(name.to_owned(), value.to_owned());
                }
            }
        }
        page
    }

    /// Opens a page of the console, or of anybody.
    pub(crate) async fn get(&mut self, url: &str) -> Page {
        let url = if url.starts_with('/') { format!("{}{url}", self.home) } else { url.to_owned() };
        self.send(Method::GET, &url, &[], String::new()).await
    }

    /// Sends a form of one of the console's pages.
    pub(crate) async fn submit(&mut self, path: &str, fields: &[(&str, &str)]) -> Page {
        let home = self.home.clone();
        self.submit_from(&[("origin", &home)], path, fields).await
    }

    /// Sends a form with these headers.
    pub(crate) async fn submit_from(
        &mut self,
        headers: &[(&str, &str)],
        path: &str,
        fields: &[(&str, &str)],
    ) -> Page {
        let mut url = Url::parse("http://form/").unwrap();
        url.query_pairs_mut().extend_pairs(fields);
        let body = url.query().unwrap_or_default().to_owned();
        let mut all = vec![("content-type", "application/x-www-form-urlencoded")];
        all.extend(headers);
        let url = format!("{}{path}", self.home);
        self.send(Method::POST, &url, &all, body).await
    }

    /// Goes to a provider and comes as far as its answer: the address that the browser is sent back to.
    pub(crate) async fn go_to_provider(&mut self, name: &str) -> String {
        let sent = self.get(&format!("/auth/login/{name}")).await;
        assert_eq!(sent.status, 303, "{sent:?}");
        let answered = self.get(sent.location()).await;
        assert_eq!(answered.status, 303, "{answered:?}");
        answered.location().to_owned()
    }

    /// The same, and back.
    pub(crate) async fn sign_in(&mut self, name: &str) -> Page {
        let back = self.go_to_provider(name).await;
        self.get(&back).await
    }

    /// The session that it has.
    pub(crate) fn session(&self) -> Option<&str> {
        self.cookies.get("plural-session").map(String::as_str)
    }

    /// A request to `/gql` as one of the console's own pages makes it.
    pub(crate) async fn gql(&mut self, document: &str) -> Value {
        let home = self.home.clone();
        self.gql_from(&[("origin", &home), ("x-plural-csrf", "1")], document).await.body
    }

    /// The same with these headers.
    pub(crate) async fn gql_from(&mut self, headers: &[(&str, &str)], document: &str) -> Answer {
        let mut request = self.http.post(format!("{}/gql", self.home)).header("cookie", self.cookie());
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let request = request.header("content-type", "application/json");
        let body = json!({"query": document}).to_string();
        Answer::of(request.body(body).send().await.unwrap()).await
    }
}

/// The console learns of a provider; `changes` go over what it is told.
pub(crate) async fn add_provider(t: &TestServer, issuer: &FakeIssuer, name: &str, changes: Value) -> String {
    let mut attributes = json!({
        "name": name, "issuer": issuer.url(), "clientId": CLIENT_ID, "clientSecret": CLIENT_SECRET,
        "domains": ["example.com"], "createsUsers": true,
    });
    let Value::Object(changes) = changes else { panic!("no object") };
    attributes.as_object_mut().unwrap().extend(changes);
    let create =
        "mutation ($a: IdentityProviderAttributes!) { createIdentityProvider(attributes: $a) { id } }";
    let made = t.admin.data(create, json!({"a": attributes})).await;
    made["createIdentityProvider"]["id"].as_str().unwrap().to_owned()
}

/// A group, by its id.
pub(crate) async fn add_group(t: &TestServer, name: &str) -> String {
    let create = "mutation ($a: GroupAttributes!) { createGroup(attributes: $a) { id } }";
    let made = t.admin.data(create, json!({"a": {"name": name}})).await;
    made["createGroup"]["id"].as_str().unwrap().to_owned()
}
