//! The audit log as log records of OpenTelemetry: OTLP over HTTP, encoded as JSON
//! ([the protocol](https://opentelemetry.io/docs/specs/otlp/#json-protobuf-encoding)).
//!
//! The body of a record is a line of the log as an export has it, to the byte: whoever puts the bodies of a batch together in order can
//! check them as an export. What collectors search by are attributes beside it.

use async_trait::async_trait;
use chrono::{DateTime, Utc};
use plural_app::audit_stream::AuditSink;
use reqwest::{
    Url,
    header::{HeaderMap, HeaderName, HeaderValue},
};
use secrecy::{ExposeSecret as _, SecretString};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{Reached, TOLD, told};
use crate::StartError;

/// Bytes of lines in one request: collectors take 20 MiB, and a record is twice its line at most.
const OF_REQUEST: usize = 2 << 20;
/// Bytes of an answer that are read.
const ANSWERED: usize = 64 << 10;
/// `INFO`.
const SEVERITY: u8 = 9;

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct ExportRequest<'a> {
    resource_logs: [ResourceLogs<'a>; 1],
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct ResourceLogs<'a> {
    resource: Resource<'a>,
    scope_logs: [ScopeLogs<'a>; 1],
}

#[derive(Serialize)]
struct Resource<'a> {
    attributes: [Attribute<'a>; 2],
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct ScopeLogs<'a> {
    scope: Scope<'a>,
    log_records: Vec<LogRecord<'a>>,
}

#[derive(Serialize)]
struct Scope<'a> {
    name: &'a str,
    version: &'a str,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct LogRecord<'a> {
    // Numbers of 64 bits are texts.
    time_unix_nano: String,
    observed_time_unix_nano: String,
    severity_number: u8,
    severity_text: &'a str,
    event_name: String,
    body: AnyValue<'a>,
    attributes: Vec<Attribute<'a>>,
}

#[derive(Serialize)]
struct Attribute<'a> {
    key: &'a str,
    value: AnyValue<'a>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
enum AnyValue<'a> {
    StringValue(std::borrow::Cow<'a, str>),
    IntValue(String),
}

/// What a collector says of a request that it took.
#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct ExportAnswer {
    partial_success: Option<PartialSuccess>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct PartialSuccess {
    /// A number, as text or not.
    rejected_log_records: Value,
    error_message: String,
}

/// Fields of lines that are attributes, too.
const FIELDS: [(&str, &str); 12] = [
    ("id", "plural.audit.id"),
    ("actor", "plural.audit.actor"),
    ("address", "client.address"),
    ("action", "plural.audit.action"),
    ("noun", "plural.audit.noun"),
    ("targetId", "plural.audit.target.id"),
    ("targetName", "plural.audit.target.name"),
    ("requestId", "plural.audit.request.id"),
    ("method", "http.request.method"),
    ("path", "url.path"),
    ("clusterId", "plural.audit.cluster.id"),
    ("impersonatedUser", "plural.audit.impersonated.user"),
];

/// Sends to a collector.
pub(super) struct OtlpSink {
    reached: Reached,
    headers: HeaderMap,
    name: String,
}

impl OtlpSink {
    pub(super) fn new(reached: Reached, headers: &[SecretString]) -> Result<Self, StartError> {
        let mut all = HeaderMap::new();
        for header in headers {
            let (name, value) = parsed(header).ok_or_else(|| {
                super::bad("the collector", "a header must be NAME=VALUE, in --audit-stream-header, too")
            })?;
            all.insert(name, value);
        }
        let name = format!("otlp:{}", reached.name());
        Ok(Self { reached, headers: all, name })
    }

    async fn post(&self, request: &ExportRequest<'_>) -> Result<(), String> {
        let body =
            serde_json::to_vec(request).map_err(|error| format!("cannot write the records: {error}"))?;
        let Reached { url, client } = &self.reached;
        let request = client.post(Url::clone(url)).headers(self.headers.clone());
        let answer = request.header("content-type", "application/json").body(body).send().await;
        let mut answer = answer.map_err(|error| told("the collector", &error))?;
        let status = answer.status();
        if !status.is_success() {
            return Err(format!("the collector answered {status}"));
        }
        let mut bytes = Vec::new();
        while let Some(chunk) = answer.chunk().await.map_err(|error| told("the collector", &error))? {
            bytes.extend_from_slice(&chunk);
            if bytes.len() > ANSWERED {
                return Err("the collector answered with more than 64 KiB".to_owned());
            }
        }
        refused(&bytes).map_or(Ok(()), Err)
    }
}

/// Why a collector did not take all of what it was sent, if it says so. An answer that says nothing of it took all.
fn refused(answer: &[u8]) -> Option<String> {
    let answer: ExportAnswer = serde_json::from_slice(answer).ok()?;
    let PartialSuccess { rejected_log_records: rejected, error_message } = answer.partial_success?;
    let rejected = rejected.as_u64().or_else(|| rejected.as_str()?.parse().ok()).unwrap_or_default();
    let message: String = error_message.chars().filter(|c| !c.is_control()).take(TOLD).collect();
    (rejected > 0).then(|| format!("the collector refused {rejected} records: {message}"))
}

fn parsed(header: &SecretString) -> Option<(HeaderName, HeaderValue)> {
    let (name, value) = header.expose_secret().split_once('=')?;
    let mut value = HeaderValue::from_str(value.trim()).ok()?;
    value.set_sensitive(true);
    Some((name.trim().parse().ok()?, value))
}

#[async_trait]
impl AuditSink for OtlpSink {
    fn name(&self) -> &str {
        &self.name
    }

    async fn send(&self, delivery: &str, lines: &str) -> Result<(), String> {
        let mut records = Vec::new();
        let mut bytes = 0;
        for (place, line) in lines.lines().enumerate() {
            if bytes + line.len() > OF_REQUEST && !records.is_empty() {
                self.post(&request(std::mem::take(&mut records))).await?;
                bytes = 0;
            }
            bytes += line.len();
            records.push(record(delivery, place, line, Utc::now()));
        }
        self.post(&request(records)).await
    }
}

fn request(log_records: Vec<LogRecord<'_>>) -> ExportRequest<'_> {
    let version = env!("CARGO_PKG_VERSION");
    let attributes = [text("service.name", "plural-console"), text("service.version", version)];
    let scope_logs = [ScopeLogs { scope: Scope { name: "plural.audit", version }, log_records }];
    ExportRequest { resource_logs: [ResourceLogs { resource: Resource { attributes }, scope_logs }] }
}

/// The record of a line: of the `place`th one of a part of the log.
fn record<'a>(delivery: &'a str, place: usize, line: &'a str, now: DateTime<Utc>) -> LogRecord<'a> {
    let value: Value = serde_json::from_str(line).unwrap_or_default();
    let kind = value["kind"].as_str().unwrap_or("line").to_owned();
    let at = value["at"].as_str().and_then(|at| DateTime::parse_from_rfc3339(at).ok());
    let nanos = |at: DateTime<Utc>| at.timestamp_nanos_opt().unwrap_or_default().max(0).to_string();
    let mut attributes = vec![
        text("plural.audit.batch", delivery),
        Attribute { key: "plural.audit.place", value: AnyValue::IntValue(place.to_string()) },
    ];
    for (field, key) in FIELDS {
        if let Some(said) = value[field].as_str() {
            let value = AnyValue::StringValue(said.to_owned().into());
            attributes.push(Attribute { key, value });
        }
    }
    if let Some(status) = value["responseCode"].as_u64() {
        let value = AnyValue::IntValue(status.to_string());
        attributes.push(Attribute { key: "http.response.status_code", value });
    }
    LogRecord {
        time_unix_nano: nanos(at.map_or(now, |at| at.to_utc())),
        observed_time_unix_nano: nanos(now),
        severity_number: SEVERITY,
        severity_text: "INFO",
        event_name: format!("plural.audit.{kind}"),
        body: AnyValue::StringValue(line.into()),
        attributes,
    }
}

fn text<'a>(key: &'a str, value: &'a str) -> Attribute<'a> {
    Attribute { key, value: AnyValue::StringValue(value.into()) }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_line_is_a_record_as_the_protocol_has_it() {
        let now = DateTime::from_timestamp(1_800_000_000, 5).unwrap();
        let line = r#"{"kind":"request","id":"1","at":"2026-01-02T03:04:05.000006Z","actor":"ada","responseCode":200}"#;
        let sent = serde_json::to_value(request(vec![record("7", 3, line, now)])).unwrap();
        let logs = &sent["resourceLogs"][0];
        assert_eq!(
            logs["resource"]["attributes"][0],
            json!({"key": "service.name", "value": {"stringValue": "plural-console"}})
        );
        let expected = json!({
            "timeUnixNano": "1767323045000006000", "observedTimeUnixNano": "1800000000000000005",
            "severityNumber": 9, "severityText": "INFO", "eventName": "plural.audit.request",
            "body": {"stringValue": line},
            "attributes": [
                {"key": "plural.audit.batch", "value": {"stringValue": "7"}},
                {"key": "plural.audit.place", "value": {"intValue": "3"}},
                {"key": "plural.audit.id", "value": {"stringValue": "1"}},
                {"key": "plural.audit.actor", "value": {"stringValue": "ada"}},
                {"key": "http.response.status_code", "value": {"intValue": "200"}},
            ],
        });
        assert_eq!(logs["scopeLogs"][0]["logRecords"], json!([expected]));
        // What is no JSON is a record all the same.
        let odd = serde_json::to_value(record("7", 0, "odd", now)).unwrap();
        assert_eq!(odd["body"], json!({"stringValue": "odd"}));
    }

    #[test]
    fn what_a_collector_refuses_was_not_taken() {
        for taken in
            ["", "{}", "ok", r#"{"partialSuccess":{}}"#, r#"{"partialSuccess":{"rejectedLogRecords":"0"}}"#]
        {
            assert_eq!(refused(taken.as_bytes()), None, "{taken}");
        }
        for not in [r#""3""#, "3"] {
            let answer =
                format!(r#"{{"partialSuccess":{{"rejectedLogRecords":{not},"errorMessage":"too\nold"}}}}"#);
            assert_eq!(refused(answer.as_bytes()).unwrap(), "the collector refused 3 records: tooold");
        }
    }

    #[test]
    fn headers_are_names_with_values() {
        let (name, value) = parsed(&"Authorization = Bearer a=b".into()).unwrap();
        assert_eq!((name.as_str(), value.to_str().unwrap()), ("authorization", "Bearer a=b"));
        assert!(value.is_sensitive());
        for bad in ["", "authorization", "a b=c", "a=b\nc"] {
            assert!(parsed(&bad.into()).is_none(), "{bad}");
        }
    }
}
