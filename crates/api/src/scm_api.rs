//! `/v1/api/scm/…`: connections, pull requests and automations as plain JSON, for scripts without a GraphQL client. What is read and who may
//! read it is what GraphQL says of the same nouns, and so are the names of what is answered.

use std::{
    collections::{BTreeMap, HashSet},
    str::FromStr,
    sync::Weak,
    time::Instant,
};

use axum::{
    Extension, Json,
    extract::{Path, Query, Request, State},
    http::{
        HeaderValue, Uri,
        header::{CACHE_CONTROL, X_CONTENT_TYPE_OPTIONS},
        request::Parts,
    },
    response::{IntoResponse as _, Response},
};
use chrono::{DateTime, Utc};
use plural_app::pr_automation::PrAutomationFilter;
use plural_app::pull_request::PullRequestFilter;
use plural_app::pull_request_open::PullRequestAsk;
use plural_app::records::{Record, Records, Search};
use plural_app::{OpCtx, Store};
use plural_core::access::Actor;
use plural_core::form::FormQuestion;
use plural_core::idempotency_key::IdempotencyKey;
use plural_core::ids::{IdError, PrAutomationId, ProjectId, RequestId};
use plural_core::pr_automation::PrAutomation;
use plural_core::pr_automation_spec::PrRole;
use plural_core::project::Project;
use plural_core::pull_request::{PrPhase, PrStatus, PullRequest};
use plural_core::scm_connection::ScmConnection;
use plural_core::specs::{HOLDS_NUL, has_nul, json_has_nul};
use plural_core::{Error, ErrorCode, Page, PageArgs, Result};
use plural_kit::Visit;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::{
    auth::{self, Caller, CallerPermits, Party},
    body,
    document::scan_json,
    http::{Api, MOST_VALUES, actor_name, is_json, recipient, refuse, written_json},
};

/// Where connections are listed.
pub(crate) const CONNECTIONS: &str = "/v1/api/scm/connections";
/// Where pull requests are listed.
pub(crate) const PULL_REQUESTS: &str = "/v1/api/scm/pullrequests";
/// Where automations are listed.
pub(crate) const AUTOMATIONS: &str = "/v1/api/scm/prautomations";
/// Where an automation is asked for a pull request.
pub(crate) const INVOKE: &str = "/v1/api/scm/prautomations/{id}/invoke";

/// Bytes of the answers to an automation.
const LARGEST: usize = 1 << 20;

/// A page of a list.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Listed<T> {
    data: Vec<T>,
    page_info: PageInfo,
}

/// Where a page is in its list.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct PageInfo {
    has_next_page: bool,
    has_previous_page: bool,
    start_cursor: Option<String>,
    end_cursor: Option<String>,
}

/// What a thing names that whoever sees it may not see.
struct Links {
    automation: Option<PrAutomationId>,
    project: Option<ProjectId>,
}

/// Those of these that whoever asks may see.
#[derive(Default)]
struct Seen {
    automations: HashSet<PrAutomationId>,
    projects: HashSet<ProjectId>,
}

impl Seen {
    async fn of(api: &Api, op: &OpCtx, links: impl IntoIterator<Item = Links>) -> Result<Self> {
        let (mut automations, mut projects) = (HashSet::new(), HashSet::new());
        for link in links {
            automations.extend(link.automation);
            projects.extend(link.project);
        }
        let (automations, projects) = (Vec::from_iter(automations), Vec::from_iter(projects));
        let automations = api.app.get_many::<PrAutomation>(op, &automations).await?;
        let projects = api.app.get_many::<Project>(op, &projects).await?;
        Ok(Self { automations: automations.into_keys().collect(), projects: projects.into_keys().collect() })
    }

    fn automation(&self, id: Option<PrAutomationId>) -> Option<String> {
        id.filter(|id| self.automations.contains(id)).map(|id| id.to_string())
    }

    fn project(&self, id: Option<ProjectId>) -> Option<String> {
        id.filter(|id| self.projects.contains(id)).map(|id| id.to_string())
    }
}

/// What is answered of a thing: like GraphQL, without what whoever asks may not see.
trait Row<N>: Serialize + Send + 'static {
    fn links(node: &N) -> Links;
    fn of(node: N, seen: &Seen) -> Self;
}

impl<T> Listed<T> {
    fn of<N>(page: Page<N>, seen: &Seen) -> Self
    where
        T: Row<N>,
    {
        let page_info = PageInfo {
            has_next_page: page.has_next_page,
            has_previous_page: page.has_previous_page,
            start_cursor: page.edges.first().map(|edge| edge.cursor.clone()),
            end_cursor: page.edges.last().map(|edge| edge.cursor.clone()),
        };
        Self { data: page.edges.into_iter().map(|edge| T::of(edge.node, seen)).collect(), page_info }
    }
}

/// A connection. No secret is in it, and none is where it is read from.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct ConnectionRow {
    id: String,
    name: String,
    #[serde(rename = "type")]
    kind: &'static str,
    default: bool,
    owner: Option<String>,
    base_url: Option<String>,
    api_url: Option<String>,
    repositories: Vec<String>,
    project_id: Option<String>,
    inserted_at: DateTime<Utc>,
    updated_at: DateTime<Utc>,
}

impl Row<ScmConnection> for ConnectionRow {
    fn links(connection: &ScmConnection) -> Links {
        Links { automation: None, project: connection.project_id }
    }

    fn of(connection: ScmConnection, seen: &Seen) -> Self {
        let spec = connection.spec;
        Self {
            id: connection.id.to_string(),
            name: connection.name.to_string(),
            kind: connection.kind.as_str(),
            default: connection.is_default,
            owner: spec.owner,
            base_url: spec.base_url,
            api_url: spec.api_url,
            repositories: spec.repositories.iter().map(|pattern| pattern.as_str().to_owned()).collect(),
            project_id: seen.project(connection.project_id),
            inserted_at: connection.created_at,
            updated_at: connection.updated_at,
        }
    }
}

/// A pull request that the console opened.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct PullRequestRow {
    id: String,
    phase: &'static str,
    status: Option<&'static str>,
    error: Option<String>,
    url: String,
    number: Option<u64>,
    title: String,
    #[serde(rename = "ref")]
    branch: String,
    repository: String,
    labels: Vec<String>,
    creator: String,
    commit: Option<String>,
    automation_id: Option<String>,
    project_id: Option<String>,
    inserted_at: DateTime<Utc>,
    updated_at: DateTime<Utc>,
}

impl Row<PullRequest> for PullRequestRow {
    fn links(opened: &PullRequest) -> Links {
        Links { automation: opened.automation_id, project: Some(opened.project_id) }
    }

    fn of(opened: PullRequest, seen: &Seen) -> Self {
        let PullRequest { progress, told, .. } = opened;
        Self {
            id: opened.id.to_string(),
            phase: progress.phase.as_str(),
            status: (progress.phase == PrPhase::Opened).then(|| told.status.as_str()),
            error: progress.error,
            number: told.number(),
            url: told.url,
            title: told.title,
            branch: told.branch,
            repository: told.repository,
            labels: told.labels,
            creator: opened.creator,
            commit: progress.commit,
            automation_id: seen.automation(opened.automation_id),
            project_id: seen.project(Some(opened.project_id)),
            inserted_at: opened.created_at,
            updated_at: opened.updated_at,
        }
    }
}

/// An automation, as one has to know it to ask it.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct AutomationRow {
    id: String,
    name: String,
    role: Option<&'static str>,
    documentation: Option<String>,
    identifier: Option<String>,
    branch: Option<String>,
    title: String,
    message: String,
    labels: Vec<String>,
    patch: bool,
    revision: i64,
    configuration: Vec<FormQuestion>,
    project_id: Option<String>,
    inserted_at: DateTime<Utc>,
    updated_at: DateTime<Utc>,
}

impl Row<PrAutomation> for AutomationRow {
    fn links(automation: &PrAutomation) -> Links {
        Links { automation: None, project: Some(automation.project_id) }
    }

    fn of(automation: PrAutomation, seen: &Seen) -> Self {
        let spec = automation.spec;
        Self {
            id: automation.id.to_string(),
            name: automation.name.to_string(),
            role: automation.role.map(PrRole::as_str),
            documentation: spec.documentation,
            identifier: spec.identifier,
            branch: spec.branch,
            title: spec.title,
            message: spec.message,
            labels: spec.labels,
            patch: spec.patch,
            revision: automation.revision,
            configuration: spec.configuration,
            project_id: seen.project(Some(automation.project_id)),
            inserted_at: automation.created_at,
            updated_at: automation.updated_at,
        }
    }
}

/// What an automation is asked.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Invocation {
    /// Another repository than the automation's.
    #[serde(default)]
    identifier: Option<String>,
    /// The branch of the pull request.
    #[serde(default)]
    branch: Option<String>,
    /// What is answered.
    #[serde(default)]
    context: Option<Map<String, Value>>,
    /// `false`: answer at once.
    #[serde(default)]
    wait: Option<bool>,
    /// Asked once more with the same, there is one pull request.
    #[serde(default)]
    idempotency_key: Option<String>,
    /// Values of the Secret that the automation asks for.
    #[serde(default)]
    secrets: Option<Map<String, Value>>,
}

/// Lists connections.
pub(crate) async fn connections(
    State(api): State<Api>,
    Extension(request_id): Extension<RequestId>,
    request: Request,
) -> Response {
    let filter = |words: &mut Words| -> Result<Search> { Ok(Search { q: words.take("q") }) };
    list::<ScmConnection, ConnectionRow>(&api, request_id, request, ("scmConnections", filter)).await
}

/// Lists pull requests.
pub(crate) async fn pull_requests(
    State(api): State<Api>,
    Extension(request_id): Extension<RequestId>,
    request: Request,
) -> Response {
    let filter = |words: &mut Words| -> Result<PullRequestFilter> {
        Ok(PullRequestFilter {
            project_id: words.id("projectId")?,
            status: words.word("status", PrStatus::parse)?,
            service_id: words.id("serviceId")?,
            stack_id: words.id("stackId")?,
            cluster_id: words.id("clusterId")?,
            phase: words.word("phase", PrPhase::parse)?,
            repository: words.take("repository"),
            automation_id: words.id("automationId")?,
            q: words.take("q"),
        })
    };
    list::<PullRequest, PullRequestRow>(&api, request_id, request, ("pullRequests", filter)).await
}

/// Lists automations.
pub(crate) async fn automations(
    State(api): State<Api>,
    Extension(request_id): Extension<RequestId>,
    request: Request,
) -> Response {
    let filter = |words: &mut Words| -> Result<PrAutomationFilter> {
        Ok(PrAutomationFilter {
            project_id: words.id("projectId")?,
            role: words.word("role", PrRole::parse)?,
            q: words.take("q"),
        })
    };
    list::<PrAutomation, AutomationRow>(&api, request_id, request, ("prAutomations", filter)).await
}

/// Asks an automation for a pull request.
pub(crate) async fn invoke(
    State(api): State<Api>,
    Extension(request_id): Extension<RequestId>,
    Path(id): Path<String>,
    request: Request,
) -> Response {
    let (parts, body) = request.into_parts();
    let Person { op, party: _, visit: _, places: _places } = match person(&api, &parts, request_id).await {
        Ok(person) => person,
        Err(response) => return *response,
    };
    let name = actor_name(op.actor());
    let mut response = match is_json(&parts.headers) {
        Err(response) => *response,
        Ok(()) => match body::read(body, LARGEST, body::PATIENCE).await {
            Err(response) => *response,
            Ok(body) => match opened(&api, &op, &id, &body).await {
                Ok(opened) => Json(opened).into_response(),
                Err(error) => {
                    if let code @ (ErrorCode::Forbidden | ErrorCode::NotFound) = error.code() {
                        api.app.audit_refused(&op, "createPullRequest", code);
                    }
                    refuse(&error, request_id)
                }
            },
        },
    };
    response.extensions_mut().insert(name);
    response
}

async fn opened(api: &Api, op: &OpCtx, id: &str, body: &[u8]) -> Result<PullRequestRow> {
    let automation: PrAutomationId = id.parse()?;
    let Invocation { identifier, branch, context, wait, idempotency_key, secrets } = invocation(body)?;
    let given = |text: Option<String>| text.filter(|text| !text.is_empty());
    let ask = PullRequestAsk {
        automation,
        identifier: given(identifier),
        branch: given(branch),
        context: context.unwrap_or_default(),
        key: idempotency_key.map(|text| text.parse::<IdempotencyKey>()).transpose()?,
        secrets: secrets.unwrap_or_default(),
    };
    let made = Box::pin(api.app.pull_request_create(op, ask, wait.unwrap_or(true)));
    let opened = in_time(api, made).await?;
    // It is there: what cannot be looked up now is left out.
    let seen = in_time(api, Seen::of(api, op, [PullRequestRow::links(&opened)])).await.unwrap_or_default();
    Ok(PullRequestRow::of(opened, &seen))
}

/// What a body asks. No error holds a text of it: answers may be secret.
fn invocation(body: &[u8]) -> Result<Invocation> {
    let refused = || {
        let told = "must be a JSON object with none but \"identifier\", \"branch\", \"context\", \"wait\", \
                    \"idempotencyKey\" and \"secrets\"";
        Error::invalid("body", told)
    };
    if scan_json(body, MOST_VALUES).is_err() {
        return Err(Error::invalid("body", format!("holds more than {MOST_VALUES} JSON values")));
    }
    let value: Value = serde_json::from_slice(body).map_err(|_| refused())?;
    if json_has_nul(&value) {
        return Err(Error::invalid("body", HOLDS_NUL));
    }
    // A list would be read as the fields in their order.
    if !value.is_object() {
        return Err(refused());
    }
    serde_json::from_value(value).map_err(|_| refused())
}

/// Who asks here: a person, by an access token or a session.
struct Person {
    op: OpCtx,
    party: Party,
    visit: Weak<Visit>,
    places: CallerPermits,
}

async fn person(
    api: &Api,
    parts: &Parts,
    request_id: RequestId,
) -> std::result::Result<Person, Box<Response>> {
    let Caller { actor, address, visit, places } = auth::caller(api, parts, request_id).await?;
    match &actor {
        Actor::User(_) => {}
        // What registers clusters does nothing else.
        Actor::Nobody | Actor::Cluster(_) | Actor::Registration(_) | Actor::Run(_) | Actor::System => {
            return Err(Box::new(refuse(&Error::Unauthenticated, request_id)));
        }
    }
    let party = Party::of(&actor, address);
    let deadline = Instant::now() + api.options.timeout;
    let op = api.app.ctx(actor).with_request_id(request_id).with_deadline(deadline).with_peer(address);
    Ok(Person { op, party, visit, places })
}

/// Answers a page of a list. `asked` is what GraphQL calls it, and which of it the address asks for.
async fn list<N, T>(
    api: &Api,
    request_id: RequestId,
    request: Request,
    asked: (&'static str, impl FnOnce(&mut Words) -> Result<N::Filter>),
) -> Response
where
    N: Record,
    T: Row<N>,
    dyn Store: Records<N>,
{
    let (parts, _) = request.into_parts();
    let Person { op, party, visit, places: _places } = match person(api, &parts, request_id).await {
        Ok(person) => person,
        Err(response) => return *response,
    };
    let name = actor_name(op.actor());
    let (field, filter) = asked;
    let asked = Words::of(&parts.uri).and_then(|mut words| {
        let asked = (filter(&mut words)?, words.page()?);
        words.end()?;
        Ok(asked)
    });
    let mut response = match recipient(api, party, visit) {
        Err(response) => *response,
        Ok(recipient) => match page::<N, T>(api, &op, asked).await {
            Ok((page, seen)) => {
                let write = move || written_json(&Listed::<T>::of(page, &seen), recipient, request_id);
                match tokio::task::spawn_blocking(write).await {
                    Ok(response) => response,
                    Err(cause) => refuse(&Error::internal("writing an answer", cause), request_id),
                }
            }
            Err(error) => {
                if let code @ ErrorCode::Forbidden = error.code() {
                    api.app.audit_refused(&op, field, code);
                }
                refuse(&error, request_id)
            }
        },
    };
    let headers = response.headers_mut();
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    headers.insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    response.extensions_mut().insert(name);
    response
}

async fn page<N, T>(api: &Api, op: &OpCtx, asked: Result<(N::Filter, PageArgs)>) -> Result<(Page<N>, Seen)>
where
    N: Record,
    T: Row<N>,
    dyn Store: Records<N>,
{
    let (filter, page) = asked?;
    let read = async {
        let page = api.app.list::<N>(op, &filter, &page).await?;
        let links: Vec<Links> = page.edges.iter().map(|edge| T::links(&edge.node)).collect();
        Ok::<_, Error>((page, Seen::of(api, op, links).await?))
    };
    in_time(api, read).await
}

async fn in_time<T>(api: &Api, asked: impl Future<Output = Result<T>>) -> Result<T> {
    let took = tokio::time::timeout(api.options.timeout, asked).await;
    took.unwrap_or_else(|_| {
        Err(Error::unavailable("the request took too long; request fewer items or retry later"))
    })
}

/// What stands behind the question mark of an address, each once.
struct Words(BTreeMap<String, String>);

impl Words {
    fn of(address: &Uri) -> Result<Self> {
        let Ok(Query(pairs)) = Query::<Vec<(String, String)>>::try_from_uri(address) else {
            return Err(Error::invalid("query", "must be names and values: NAME=VALUE&NAME=VALUE"));
        };
        let mut words = BTreeMap::new();
        for (name, value) in pairs {
            if has_nul(&name) || has_nul(&value) {
                return Err(Error::invalid("query", HOLDS_NUL));
            }
            if words.insert(name, value).is_some() {
                return Err(Error::invalid("query", "must have each name once"));
            }
        }
        Ok(Self(words))
    }

    /// An empty one is none.
    fn take(&mut self, name: &str) -> Option<String> {
        self.0.remove(name).filter(|value| !value.is_empty())
    }

    fn id<T>(&mut self, name: &'static str) -> Result<Option<T>>
    where
        T: FromStr<Err = IdError>,
    {
        let parsed = self.take(name).map(|text| text.parse::<T>()).transpose();
        parsed.map_err(|error| Error::from(error).named_in(name))
    }

    fn word<T>(&mut self, name: &'static str, parse: impl Fn(&str) -> Option<T>) -> Result<Option<T>> {
        let parse = |text: String| {
            parse(&text).ok_or_else(|| Error::invalid(name, "must be one of the words that the list answers"))
        };
        self.take(name).map(parse).transpose()
    }

    fn number(&mut self, name: &'static str) -> Result<Option<i64>> {
        let parse = |text: String| text.parse().map_err(|_| Error::invalid(name, "must be a number"));
        self.take(name).map(parse).transpose()
    }

    fn page(&mut self) -> Result<PageArgs> {
        Ok(PageArgs {
            after: self.take("after"),
            first: self.number("first")?,
            before: self.take("before"),
            last: self.number("last")?,
        })
    }

    /// Refuses what nobody asked for: a misspelt filter would list everything.
    fn end(self) -> Result<()> {
        if self.0.is_empty() {
            return Ok(());
        }
        Err(Error::invalid("query", "has a name that this list does not know"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(query: &str) -> Result<Words> {
        Words::of(&format!("{CONNECTIONS}?{query}").parse().unwrap())
    }

    #[test]
    fn an_address_says_each_thing_once() {
        let mut all = words("first=2&q=a%20b&status=OPEN&after=").unwrap();
        assert_eq!(all.take("q").as_deref(), Some("a b"));
        assert_eq!(all.word("status", PrStatus::parse).unwrap(), Some(PrStatus::Open));
        assert_eq!(all.page().unwrap(), PageArgs::first(2));
        all.end().unwrap();
        for query in ["q=a&q=b", "q=%00", "%00=a"] {
            assert!(words(query).is_err(), "{query}");
        }
        assert!(words("first=two").unwrap().page().is_err());
        assert!(words("status=open").unwrap().word("status", PrStatus::parse).is_err());
        assert!(words("projectId=1").unwrap().id::<PrAutomationId>("projectId").is_err());
        assert!(words("project=1").unwrap().end().is_err());
    }

    #[test]
    fn a_body_is_what_is_asked_and_nothing_else() {
        assert!(invocation(br#"{"context": {"name": "shop"}, "wait": false}"#).is_ok());
        for body in [
            &b""[..],
            b"[]",
            b"null",
            br#"["plural/fleet"]"#,
            br#"{"id": "1"}"#,
            br#"{"context": "{}"}"#,
            br#"{"context": {"name": "a\u0000"}}"#,
            br#"{"context": {"a\u0000": 1}}"#,
            br#"{"secrets": ["s3cret"]}"#,
        ] {
            let refused = invocation(body).map(|_| ()).unwrap_err();
            assert!(matches!(refused, Error::Invalid { .. }), "{refused}");
            assert!(!refused.to_string().contains("s3cret"), "{refused}");
        }
        let many = format!("[{}1]", "1,".repeat(MOST_VALUES));
        assert!(invocation(many.as_bytes()).is_err());
    }
}
