//! An exported audit log: checking it without a console, and writing it as a table.

use std::{
    collections::HashMap,
    io::{BufRead, Read as _},
};

use base64::{Engine as _, engine::general_purpose::STANDARD};
use plural_core::{
    audit_chain::{AuditBatch, AuditChain, AuditCheckpoint, AuditDigest, LineList, digest},
    audit_expiry::{AuditExpired, EXPIRED_ACTION},
    audit_verify::{AuditVerifier, FoundLines},
};
use serde_json::Value;
use uuid::Uuid;

use crate::{
    audit::{Verdict, Wrong},
    error::CliError,
};

/// Bytes of one line.
const LONGEST: u64 = 16 << 20;
/// Lines that a batch may have in a file: more were put there by somebody.
const MOST_LINES: usize = 100_000;

/// A batch as far as it was read.
struct Open {
    batch: AuditBatch,
    list: Option<LineList>,
    lines: Vec<(Uuid, AuditDigest)>,
    expired: bool,
}

/// Checks an exported log against checkpoints, its own among them.
pub(crate) fn verify(
    file: &mut dyn BufRead,
    kept: Vec<AuditCheckpoint>,
    key: Option<&str>,
) -> Result<Verdict, CliError> {
    let bad = |number: u64, why: &str| CliError::new(format!("line {number} of the file {why}"));
    let mut number = 1;
    let first = read(file)?.ok_or_else(|| CliError::new("the file is empty"))?;
    let chain = AuditChain::parse(&first).map_err(|error| {
        CliError::new(error.to_string())
            .hint("it must be what `plural audit export` wrote, from its first line on")
    })?;
    if let Some(expected) = key
        && expected.trim() != chain.key()
    {
        return Err(CliError::new(format!("the file is of the key {}, not of {expected}", chain.key())));
    }
    let outside = kept.len() as u64;
    let mut verifier: Option<AuditVerifier> = None;
    let mut begin = Some(kept);
    let mut open: Option<Open> = None;
    let mut said = Vec::new();
    // What a statement of what expired names as the end of the chain.
    let mut digests = HashMap::from([(0, chain.origin())]);
    let (mut batches, mut start) = (0, 0);
    while let Some(line) = read(file)? {
        number += 1;
        let value: Value = serde_json::from_str(&line).map_err(|_| bad(number, "is not JSON"))?;
        match value["kind"].as_str() {
            Some("batch") => {
                let batch =
                    AuditBatch::parse(&line).map_err(|_| bad(number, "is a batch that cannot be read"))?;
                let verifier = verifier.get_or_insert_with(|| {
                    // An export that begins in the middle says what it follows; that is compared with checkpoints only.
                    start = batch.sequence.saturating_sub(1);
                    let before = if start == 0 { chain.origin() } else { batch.previous };
                    AuditVerifier::after(chain.clone(), begin.take().unwrap_or_default(), (start, before))
                });
                if let Some(open) = open.take() {
                    close(verifier, &open);
                }
                batches += 1;
                digests.insert(batch.sequence, batch.digest());
                open = Some(Open { batch, list: None, lines: Vec::new(), expired: false });
            }
            Some("list") => {
                let list = value["list"].as_str().and_then(|text| STANDARD.decode(text).ok());
                let list = list.and_then(LineList::from_bytes);
                let open = open.as_mut().ok_or_else(|| bad(number, "belongs to no batch"))?;
                open.list = list;
            }
            Some("expired") => {
                open.as_mut().ok_or_else(|| bad(number, "belongs to no batch"))?.expired = true;
            }
            Some("change" | "request") => {
                let open = open.as_mut().ok_or_else(|| bad(number, "belongs to no batch"))?;
                let id = value["id"].as_str().and_then(|id| id.parse().ok());
                let id = id.ok_or_else(|| bad(number, "has no id"))?;
                if open.lines.len() >= MOST_LINES {
                    return Err(bad(number, "is one too many for its batch"));
                }
                open.lines.push((id, digest(line.as_bytes())));
                if value["action"] == EXPIRED_ACTION
                    && let Some(told) = value["targetName"].as_str().and_then(AuditExpired::in_name)
                {
                    said.push(told);
                }
            }
            Some("checkpoint") => {
                let signed = AuditCheckpoint::parse(&line);
                let signed = signed.map_err(|_| bad(number, "is a checkpoint that cannot be read"))?;
                // What comes with the file proves nothing that the file does not; a signature that is wrong is told.
                if !signed.is_of(&chain) {
                    return Err(bad(number, "is a checkpoint with a wrong signature"));
                }
            }
            _ => return Err(bad(number, "is of no kind that this release knows")),
        }
    }
    let mut verifier =
        verifier.unwrap_or_else(|| AuditVerifier::new(chain.clone(), begin.take().unwrap_or_default()));
    if let Some(open) = open.take() {
        close(&mut verifier, &open);
    }
    // What lies before the beginning of the file cannot be compared.
    said.retain(|told| match digests.get(&told.sequence) {
        Some(digest) => told.is_at(digest),
        None => told.sequence <= start,
    });
    verifier.expired_by(&said);
    verifier.end();
    let ((sequence, head), lines) = (verifier.head(), verifier.lines());
    let (problems, more_problems) = verifier.into_problems();
    let problems: Vec<Wrong> = problems
        .into_iter()
        .map(|problem| Wrong {
            kind: format!("{:?}", problem.kind).to_uppercase(),
            log: problem.log.map(|log| log.as_str().to_uppercase()),
            batch: problem.sequence,
            line: problem.line.map(|line| line.to_string()),
            message: problem.message,
        })
        .collect();
    Ok(Verdict {
        whole: problems.is_empty(),
        batches,
        lines,
        unchained: 0,
        checkpoints: outside,
        sequence,
        digest: hex::encode(head),
        problems,
        more_problems,
    })
}

fn close(verifier: &mut AuditVerifier, open: &Open) {
    let Open { batch, list, lines, expired } = open;
    let found = if *expired && lines.is_empty() { FoundLines::Expired } else { FoundLines::InOrder(lines) };
    verifier.batch(batch, list.as_ref(), &found);
}

/// The next line without its end.
fn read(file: &mut dyn BufRead) -> Result<Option<String>, CliError> {
    let mut line = Vec::new();
    let read = file
        .take(LONGEST)
        .read_until(b'\n', &mut line)
        .map_err(|error| CliError::new(format!("cannot read the file: {error}")))?;
    if read == 0 {
        return Ok(None);
    }
    if line.pop_if(|last| *last == b'\n').is_none() && read as u64 >= LONGEST {
        return Err(CliError::new("the file has a line that is too long"));
    }
    String::from_utf8(line).map(Some).map_err(|_| CliError::new("the file is not text"))
}

/// Lines as a table.
#[derive(Debug, Default)]
pub(crate) struct Csv {
    batch: String,
}

impl Csv {
    /// Its first line.
    pub(crate) const HEADINGS: &'static str =
        "batch,kind,at,actor,address,action,noun,target,name,times,response,request,id,impersonated,groups\n";

    /// The row of an exported line, if it is one about something that was done or asked.
    pub(crate) fn row(&mut self, line: &[u8]) -> Option<String> {
        let value: Value = serde_json::from_slice(line).ok()?;
        let kind = value["kind"].as_str()?;
        if kind == "batch" {
            self.batch = value["sequence"].to_string();
        }
        let text = |name: &str| match &value[name] {
            Value::Null => String::new(),
            Value::String(text) => text.clone(),
            other => other.to_string(),
        };
        let (action, noun, target, name) = match kind {
            "change" => (text("action"), text("noun"), text("targetId"), text("targetName")),
            "request" => (text("method"), "cluster".to_owned(), text("clusterId"), text("path")),
            _ => return None,
        };
        let cells = [
            self.batch.clone(),
            kind.to_owned(),
            text("at"),
            text("actor"),
            text("address"),
            action,
            noun,
            target,
            name,
            text("times"),
            text("responseCode"),
            text("requestId"),
            text("id"),
            text("impersonatedUser"),
            text("impersonatedGroups"),
        ];
        Some(format!("{}\n", cells.map(|cell| quoted(&cell)).join(",")))
    }
}

/// A cell. What a spreadsheet would take for a formula is text.
fn quoted(cell: &str) -> String {
    let formula = cell.starts_with(['=', '+', '-', '@', '\t', '\r']);
    let cell = if formula { format!("'{cell}") } else { cell.to_owned() };
    if cell.contains([',', '"', '\n', '\r']) { format!("\"{}\"", cell.replace('"', "\"\"")) } else { cell }
}

#[cfg(test)]
mod tests {
    use std::fmt::Write as _;

    use chrono::DateTime;
    use plural_core::{
        audit::{AuditEntry, AuditRow, AuditTarget},
        audit_chain::{AuditKey, AuditLog, AuditText as _},
        audit_expiry::ExpiredFloors,
        ids::{AuditBatchId, AuditId, RequestId},
    };

    use super::*;

    #[test]
    fn a_table_holds_no_formula_and_its_cells_are_whole() {
        let mut csv = Csv::default();
        assert_eq!(csv.row(br#"{"kind":"batch","sequence":7}"#), None);
        let row = csv.row(br#"{"kind":"change","id":"1","at":"t","actor":"=cmd()","action":"a","noun":"n","targetName":"b, \"c\"","requestId":"r","times":1}"#);
        assert_eq!(row.unwrap(), "7,change,t,'=cmd(),,a,n,,\"b, \"\"c\"\"\",1,,r,1,,\n");
        let row = csv.row(br#"{"kind":"request","id":"1","at":"t","clusterId":"c","actor":"ci (assumed by ada)","method":"GET","path":"/p","responseCode":200,"requestId":"r","impersonatedUser":"ci","impersonatedGroups":["ops","dev"]}"#);
        assert_eq!(
            row.unwrap(),
            "7,request,t,ci (assumed by ada),,GET,cluster,c,/p,,200,r,1,ci,\"[\"\"ops\"\",\"\"dev\"\"]\"\n"
        );
    }

    /// An export of three batches: the lines of the first have expired, and the second holds the line that says so.
    fn export(key: &AuditKey, name: &str) -> String {
        let chain = key.chain();
        let (mut text, mut head) = (format!("{}\n", chain.text()), (0, chain.origin()));
        for sequence in 1..=3 {
            // What a statement names as the end of the chain must not depend on the statement.
            let name = if sequence == 1 { "" } else { name };
            let row = AuditRow {
                id: AuditId::from_uuid(Uuid::from_u128(sequence)),
                entry: AuditEntry {
                    action: EXPIRED_ACTION.into(),
                    user_id: None,
                    actor: "system".into(),
                    token_id: None,
                    address: None,
                    target: AuditTarget { noun: "installation".into(), id: None, name: name.into() },
                    request_id: RequestId::from_uuid(Uuid::nil()),
                    at: DateTime::UNIX_EPOCH,
                    times: 1,
                    before: None,
                    after: None,
                },
            };
            let mut list = LineList::default();
            list.push(row.id.uuid(), row.audit_digest());
            let batch = AuditBatch {
                id: AuditBatchId::from_uuid(Uuid::from_u128(sequence)),
                sequence: head.0 + 1,
                log: AuditLog::Console,
                lines: 1,
                content: list.digest(),
                first_at: DateTime::UNIX_EPOCH,
                last_at: DateTime::UNIX_EPOCH,
                chained_at: DateTime::UNIX_EPOCH,
                previous: head.1,
            };
            head = (batch.sequence, batch.digest());
            text.push_str(&batch.text());
            if sequence == 1 {
                text.push_str("\n{\"kind\":\"expired\"}\n");
            } else {
                let list = STANDARD.encode(list.as_bytes());
                writeln!(text, "\n{{\"kind\":\"list\",\"list\":\"{list}\"}}\n{}", row.audit_text()).unwrap();
            }
        }
        text
    }

    #[test]
    fn a_file_whose_lines_expired_wants_a_statement_of_its_own_key_and_history() {
        let key = AuditKey::from_seed(&[7; 32]).unwrap();
        let found = |name: &str| {
            let file = export(&key, name);
            let verdict = verify(&mut file.as_bytes(), Vec::new(), Some(&key.chain().key())).unwrap();
            verdict.problems.into_iter().map(|it| (it.kind, it.batch)).collect::<Vec<_>>()
        };
        let digest = {
            let file = export(&key, "");
            AuditBatch::parse(file.lines().nth(1).unwrap()).unwrap().digest()
        };
        let floors = ExpiredFloors { console: 1, clusters: 0 };
        let say = |key: &AuditKey, at| AuditExpired::sign(key, floors, Vec::new(), at, DateTime::UNIX_EPOCH);
        assert_eq!(found(&say(&key, (1, digest)).name()), []);
        let told = vec![("EXPIRED".to_owned(), Some(1))];
        assert_eq!(found("console up to batch 1, clusters up to batch 0"), told, "words alone");
        assert_eq!(found(&say(&AuditKey::from_seed(&[8; 32]).unwrap(), (1, digest)).name()), told);
        assert_eq!(found(&say(&key, (1, [1; 32])).name()), told, "of a copy that went another way");
        assert_eq!(found(&say(&key, (9, digest)).name()), told, "of a batch that there is none of");
        let edited = AuditExpired { clusters: 1, ..say(&key, (1, digest)) };
        assert_eq!(found(&edited.name()), told);
    }
}
