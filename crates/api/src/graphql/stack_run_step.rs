//! The steps of a run of a stack, and their logs.

use async_graphql::{Context, Enum, ID, Object, SimpleObject};
use chrono::{DateTime, Utc};
use plural_app::stack_run::LogPiece;
use plural_core::{Error, Result};

use super::{
    error::{IntoGraphql, List, Nullable, list, nullable},
    page::counted,
    request::request,
    stack_run::StackRunPhase,
    stack_spec::StepStage,
};

/// Bytes of a log in one answer, if the caller gives no number.
const LOG_BYTES: u64 = 256 << 10;
/// Limit of a log in one answer, in bytes.
const MOST_LOG_BYTES: u64 = 1 << 20;

/// The status of a step.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Enum)]
#[graphql(remote = "plural_core::stack_run::StepStatus")]
pub(crate) enum StepStatus {
    /// Not started.
    Pending,
    /// Its command runs.
    Running,
    /// Its command succeeded.
    Successful,
    /// Its command failed.
    Failed,
}

/// A command of a run.
pub(crate) struct RunStep(plural_core::stack_run::RunStep);

impl From<plural_core::stack_run::RunStep> for RunStep {
    fn from(step: plural_core::stack_run::RunStep) -> Self {
        Self(step)
    }
}

/// A command of a run.
#[Object]
impl RunStep {
    /// Id.
    async fn id(&self) -> ID {
        self.0.id.to_string().into()
    }

    /// Its position among all steps of the run, from 0.
    async fn index(&self) -> i32 {
        counted(self.0.index.into())
    }

    /// The Job that runs it.
    async fn phase(&self) -> StackRunPhase {
        self.0.phase.into()
    }

    /// Its stage.
    async fn stage(&self) -> StepStage {
        self.0.stage.into()
    }

    /// Its name: `plan`.
    async fn name(&self) -> &str {
        &self.0.name
    }

    /// Program.
    async fn cmd(&self) -> &str {
        &self.0.cmd
    }

    /// Its arguments.
    async fn args(&self) -> List<&str> {
        list(self.0.args.iter().map(String::as_str))
    }

    /// Always false: it is the run that waits.
    async fn require_approval(&self) -> Option<bool> {
        Some(false)
    }

    /// Its status.
    async fn status(&self) -> StepStatus {
        self.0.status.into()
    }

    /// Exit code of the command.
    async fn exit_code(&self) -> Option<i32> {
        self.0.exit_code
    }

    /// When it started.
    async fn started_at(&self) -> Option<DateTime<Utc>> {
        self.0.started_at
    }

    /// When it ended.
    async fn finished_at(&self) -> Option<DateTime<Utc>> {
        self.0.finished_at
    }

    /// Its log from an offset on, with secrets masked. Ask again with `next`, until the step has ended and nothing more comes.
    async fn logs(
        &self,
        ctx: &Context<'_>,
        #[graphql(desc = "The place to begin at, in bytes; 0 when absent.")] from: Option<i32>,
        #[graphql(desc = "At most so many bytes; 256 KiB when absent, 1 MiB at most.")] bytes: Option<i32>,
    ) -> Nullable<RunLogs> {
        nullable(async {
            let request = request(ctx);
            let from = place("from", from).into_graphql(ctx)?.unwrap_or_default();
            let bytes = place("bytes", bytes).into_graphql(ctx)?.unwrap_or(LOG_BYTES);
            if bytes == 0 {
                return Err(Error::invalid("bytes", "must be at least 1")).into_graphql(ctx);
            }
            let (run, index) = (self.0.run_id, self.0.index);
            let found =
                request.app.stack_run_log(&request.op, run, index, from, bytes.min(MOST_LOG_BYTES)).await;
            let (pieces, next) = found.into_graphql(ctx)?;
            Ok(Some(RunLogs::of(&pieces, from, next)))
        })
        .await
    }
}

fn place(field: &'static str, given: Option<i32>) -> Result<Option<u64>> {
    let place =
        |number: i32| u64::try_from(number).map_err(|_| Error::invalid(field, "must not be negative"));
    given.map(place).transpose()
}

/// A part of a log.
#[derive(Debug, PartialEq, Eq, SimpleObject)]
pub(crate) struct RunLogs {
    /// The text, with the colours of the command.
    text: String,
    /// The offset of the next part.
    next: i64,
    /// When its last byte was stored.
    updated_at: Option<DateTime<Utc>>,
}

impl RunLogs {
    /// The log was stored: its sender knows the text.
    pub(crate) fn kept(at: DateTime<Utc>) -> Self {
        Self { text: String::new(), next: 0, updated_at: Some(at) }
    }

    /// The text of pieces from an offset on. An incomplete character at the end is left to the next part,
    /// unless it is all there is.
    fn of(pieces: &[LogPiece], from: u64, next: u64) -> Self {
        let mut bytes: Vec<u8> = Vec::new();
        let mut at = from;
        for piece in pieces {
            if piece.offset > at {
                let left_out = piece.offset - at;
                bytes.extend_from_slice(format!("\n[{left_out} bytes are not kept]\n").as_bytes());
            }
            let known = at.saturating_sub(piece.offset) as usize;
            bytes.extend_from_slice(piece.bytes.get(known..).unwrap_or_default());
            at = at.max(piece.offset + piece.bytes.len() as u64);
        }
        let cut = cut_letter(&bytes);
        let cut = if cut < bytes.len() { cut } else { 0 };
        bytes.truncate(bytes.len() - cut);
        Self {
            text: String::from_utf8_lossy(&bytes).into_owned(),
            next: i64::try_from(next.max(at).saturating_sub(cut as u64)).unwrap_or(i64::MAX),
            updated_at: pieces.last().map(|piece| piece.at),
        }
    }
}

/// How many bytes at the end belong to an incomplete character.
fn cut_letter(bytes: &[u8]) -> usize {
    for back in 1..=bytes.len().min(3) {
        let first = bytes[bytes.len() - back];
        let long = match first {
            0xC2..=0xDF => 2,
            0xE0..=0xEF => 3,
            0xF0..=0xF4 => 4,
            // Continuation bytes of a character.
            0x80..=0xBF => continue,
            _ => return 0,
        };
        return if long > back { back } else { 0 };
    }
    0
}

#[cfg(test)]
mod tests {
    use super::*;

    fn piece(offset: u64, bytes: &[u8]) -> LogPiece {
        LogPiece { offset, at: DateTime::UNIX_EPOCH, bytes: bytes.to_vec() }
    }

    fn read(pieces: &[LogPiece], from: u64, next: u64) -> (String, i64) {
        let RunLogs { text, next, updated_at: _ } = RunLogs::of(pieces, from, next);
        (text, next)
    }

    #[test]
    fn a_letter_is_not_cut_in_two() {
        let text = "größer 日本".as_bytes();
        for cut in 1..text.len() {
            let (first, next) = read(&[piece(0, &text[..cut])], 0, cut as u64);
            let from = next as u64;
            let (rest, end) = read(&[piece(from, &text[from as usize..])], from, text.len() as u64);
            assert_eq!((format!("{first}{rest}").as_str(), end), ("größer 日本", text.len() as i64), "{cut}");
        }
        // Bytes that never become a character are shown as well.
        assert_eq!(read(&[piece(4, &[0xE6])], 4, 5), ("\u{fffd}".to_owned(), 5));
    }

    #[test]
    fn what_is_known_is_left_out_and_what_is_lost_is_told() {
        assert_eq!(read(&[piece(0, b"abc"), piece(3, b"def")], 1, 6), ("bcdef".to_owned(), 6));
        let (text, next) = read(&[piece(0, b"abc"), piece(10, b"def")], 0, 13);
        assert_eq!((text.as_str(), next), ("abc\n[7 bytes are not kept]\ndef", 13));
        assert_eq!(read(&[], 7, 7), (String::new(), 7));
    }
}
