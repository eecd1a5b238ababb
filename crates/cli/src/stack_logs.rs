//! `plural cd stacks logs`: what the commands of a run print.

use std::time::Duration;

use clap::Args;
use plural_wire::{
    Client, GetStackRun, GetStackRunLogs, RunStep, StackRunDetails, StackRunLogs, StackStatus, StepStatus,
};
use tokio::time::sleep;

use crate::{
    error::CliError,
    plain::one_line,
    stack_runs::{find, is_over},
    terminal::Terminal,
    wait::is_passing,
};

/// How often we look for what comes next.
const INTERVAL: Duration = Duration::from_millis(500);
/// How often while a command prints: whoever follows sees a line when it is printed.
const PRINTING: Duration = Duration::from_millis(150);
/// So many looks in a row that find nothing, and a command prints no more.
const LOOKS: u32 = 60;

/// Print the logs of a run
///
/// Secrets are masked in it. Colours are kept where a person looks. Headings go to standard error.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  plural cd stacks logs network             # of the newest run
  plural cd stacks logs network/12 --step plan
  plural cd stacks logs network --follow    # until the run is over, or waits for approval")]
pub(crate) struct StackLogsArgs {
    /// The run: STACK/NUMBER, its id, or a stack, for its newest one
    #[arg(value_name = "RUN")]
    run: String,

    /// Only of this step: its name, or its place from 0
    #[arg(long, value_name = "STEP")]
    step: Option<String>,

    /// Go on with what is printed from now on, until the run is over or waits for approval
    #[arg(short, long)]
    follow: bool,
}

pub(crate) async fn run(
    StackLogsArgs { run, step: wanted, follow }: StackLogsArgs,
    client: &Client,
    terminal: &mut Terminal<'_>,
) -> Result<(), CliError> {
    let known = find(&run, client).await?;
    let is_wanted = |step: &RunStep| wanted.as_ref().is_none_or(|wanted| is_called(step, wanted));
    let shown = print_steps(known, is_wanted, follow, client, terminal).await?;
    match (shown, wanted) {
        (0, Some(wanted)) => Err(CliError::missing(
            format_args!("step {wanted:?}"),
            "`plural cd stacks run RUN` shows the steps of a run",
        )),
        (0, None) => {
            terminal.say("no step has begun; --follow waits for them");
            Ok(())
        }
        _ => Ok(()),
    }
}

/// Prints what these steps of a run print, with `follow` until it is over or waits for approval: how many there were.
pub(crate) async fn print_steps(
    mut known: StackRunDetails,
    is_wanted: impl Fn(&RunStep) -> bool,
    follow: bool,
    client: &Client,
    terminal: &mut Terminal<'_>,
) -> Result<u32, CliError> {
    let id = known.run.id.clone();
    let mut shown = 0;
    // Steps are added when the run is put together, and when its plan is approved.
    let mut next = 0;
    loop {
        // How the run stood before its logs are read: what it printed until then is all there.
        let stands = known.run.status;
        while let Some(step) = known.steps.iter().find(|step| step.index >= next) {
            next = step.index.saturating_add(1);
            if !is_wanted(step) {
                continue;
            }
            if step.status == StepStatus::Pending && !follow {
                continue;
            }
            shown += 1;
            print(&id, step, follow, client, terminal).await?;
        }
        if !follow || is_over(stands) || stands == StackStatus::PendingApproval {
            break;
        }
        sleep(INTERVAL).await;
        match client.send(&GetStackRun { id: id.clone() }).await {
            Ok(now) => known = now,
            Err(error) if is_passing(&error) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(shown)
}

fn is_called(step: &RunStep, wanted: &str) -> bool {
    step.name == wanted || wanted.parse::<i64>() == Ok(step.index)
}

/// Prints what a step printed; with `follow` until it is over.
async fn print(
    id: &str,
    step: &RunStep,
    follow: bool,
    client: &Client,
    terminal: &mut Terminal<'_>,
) -> Result<(), CliError> {
    let mut painter = Painter::of(terminal);
    let (mut from, mut headed, mut ends_line) = (0, false, true);
    let mut silent = 0_u32;
    loop {
        let asked = GetStackRunLogs { id: id.to_owned(), index: step.index, from };
        let StackRunLogs { status, mut steps } = match client.send(&asked).await {
            Ok(found) => found,
            Err(error) if follow && is_passing(&error) => {
                sleep(INTERVAL).await;
                continue;
            }
            Err(error) => return Err(error.into()),
        };
        let Some(now) = steps.pop() else { break };
        // Read before its log was: when it was over then, the log is complete.
        let over = matches!(now.status, StepStatus::Successful | StepStatus::Failed)
            || is_over(status)
            || status == StackStatus::PendingApproval;
        let part = now.logs.filter(|part| part.next > from);
        if let Some(part) = part {
            if !headed {
                terminal.say(format_args!("step {}: {}", step.index, one_line(&step.name)));
                headed = true;
            }
            (from, silent) = (part.next, 0);
            ends_line = part.text.ends_with('\n');
            let painted = painter.part(&part.text);
            write(&painted, terminal)?;
            terminal.out.flush()?;
            // There may be more already.
            continue;
        }
        if over || !follow {
            break;
        }
        silent = silent.saturating_add(1);
        sleep(if silent < LOOKS { PRINTING } else { INTERVAL }).await;
    }
    let rest = painter.end();
    write(&rest, terminal)?;
    if !ends_line {
        writeln!(terminal.out)?;
    }
    Ok(())
}

/// Writes text that went through a [`Painter`].
pub(crate) fn write(text: &str, terminal: &mut Terminal<'_>) -> Result<(), CliError> {
    if text.is_empty() { Ok(()) } else { terminal.paint(text) }
}

/// Keeps the colours of a text, or takes them out. Whatever else a terminal would take for a command is escaped.
pub(crate) struct Painter {
    colours: bool,
    /// The beginning of a sequence whose end is still to come.
    kept: String,
    coloured: bool,
}

/// The longest sequence that sets a colour.
const LONGEST: usize = 32;

impl Painter {
    /// With colours where a person looks at a screen that shows them.
    pub(crate) fn of(terminal: &Terminal<'_>) -> Self {
        Self { colours: terminal.has_colours(), kept: String::new(), coloured: false }
    }

    /// Without colours.
    pub(crate) fn without_colours() -> Self {
        Self { colours: false, kept: String::new(), coloured: false }
    }

    /// A whole text.
    pub(crate) fn all(&mut self, text: &str) -> String {
        let mut out = self.part(text);
        out.push_str(&self.end());
        out
    }

    /// The next part of a text.
    pub(crate) fn part(&mut self, text: &str) -> String {
        let whole = std::mem::take(&mut self.kept) + text;
        let mut out = String::with_capacity(whole.len());
        let mut rest = whole.as_str();
        while let Some(at) = rest.find('\u{1b}') {
            let (before, sequence) = rest.split_at(at);
            plain(before, &mut out);
            match colour(sequence) {
                Colour::Whole(length) => {
                    let (set, after) = sequence.split_at(length);
                    if self.colours {
                        out.push_str(set);
                        self.coloured = true;
                    }
                    rest = after;
                }
                Colour::Begun => {
                    sequence.clone_into(&mut self.kept);
                    return out;
                }
                Colour::None => {
                    plain("\u{1b}", &mut out);
                    rest = &sequence[1..];
                }
            }
        }
        // A line that ends in two parts is still one line.
        if let Some(line) = rest.strip_suffix('\r') {
            plain(line, &mut out);
            "\r".clone_into(&mut self.kept);
        } else {
            plain(rest, &mut out);
        }
        out
    }

    /// What is left, and the end of all colours.
    pub(crate) fn end(&mut self) -> String {
        let mut out = String::new();
        plain(&std::mem::take(&mut self.kept), &mut out);
        if std::mem::take(&mut self.coloured) {
            out.push_str("\u{1b}[0m");
        }
        out
    }
}

/// What a text begins with that begins with an escape.
enum Colour {
    /// A sequence that sets colours, with its length.
    Whole(usize),
    /// It may become one.
    Begun,
    /// Something else.
    None,
}

/// Only colours, weights and underlines: `ESC [ … m` with numbers between.
fn colour(text: &str) -> Colour {
    let mut letters = text.char_indices().skip(1);
    match letters.next() {
        None => return Colour::Begun,
        Some((_, '[')) => {}
        Some(_) => return Colour::None,
    }
    for (at, letter) in letters {
        match letter {
            'm' => return Colour::Whole(at + 1),
            '0'..='9' | ';' | ':' if at < LONGEST => {}
            _ => return Colour::None,
        }
    }
    Colour::Begun
}

/// Text as it is, with line ends of any kind as one, and everything that is more than text escaped.
fn plain(text: &str, out: &mut String) {
    let mut letters = text.chars().peekable();
    while let Some(letter) = letters.next() {
        match letter {
            '\r' if letters.peek() == Some(&'\n') => {}
            '\n' | '\t' => out.push(letter),
            letter if crate::plain::is_text(letter) => out.push(letter),
            letter => out.extend(letter.escape_unicode()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn painter(colours: bool) -> Painter {
        Painter { colours, kept: String::new(), coloured: false }
    }

    #[test]
    fn colours_are_kept_or_taken_out_wherever_the_text_is_cut() {
        let text = "\u{1b}[1;32m+ create\u{1b}[0m\r\nplain\n";
        for cut in 0..=text.len() {
            let (first, second) = text.split_at(cut);
            let mut shown = painter(true);
            let all = [shown.part(first), shown.part(second), shown.end()].concat();
            assert_eq!(all, "\u{1b}[1;32m+ create\u{1b}[0m\nplain\n\u{1b}[0m", "{cut}");
            let mut bare = painter(false);
            assert_eq!(
                [bare.part(first), bare.part(second), bare.end()].concat(),
                "+ create\nplain\n",
                "{cut}"
            );
        }
    }

    #[test]
    fn other_commands_of_a_terminal_are_text() {
        for hostile in
            ["\u{1b}]0;title\u{7}", "\u{1b}[2J", "\u{1b}[6n", "\u{9b}31m", "a\rb", "\u{202e}", "\u{1b}[31"]
        {
            let shown = painter(true).all(hostile);
            assert!(!shown.contains(['\u{1b}', '\u{9b}', '\r', '\u{7}', '\u{202e}']), "{shown:?}");
        }
        let long = format!("\u{1b}[{}m", "1;".repeat(40));
        assert!(!painter(true).all(&long).contains('\u{1b}'), "an endless one is none");
    }
}
