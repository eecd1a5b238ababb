//! `plural diff`: exit code 0 where applying would change nothing, 1 where it would, 2 and more for an error.

use plural_wire::Client;
use serde_json::Value;

use super::{
    args::DiffArgs,
    console::Console,
    plan::{self, Planned, Step},
    print::{self, Names, difference, masked},
    read, resolve,
    state::Hidden,
};
use crate::{error::CliError, terminal::Terminal};

/// The exit code of an error, which must not read as "differs".
const FAILED: u8 = 2;

pub(crate) async fn run(
    args: DiffArgs,
    client: &Client,
    terminal: &mut Terminal<'_>,
) -> Result<(), CliError> {
    let differs = compare(args, client, terminal).await.map_err(|error| error.code(FAILED))?;
    if differs { Err(CliError::silent()) } else { Ok(()) }
}

async fn compare(args: DiffArgs, client: &Client, terminal: &mut Terminal<'_>) -> Result<bool, CliError> {
    let files = read::files(&args.files.files, args.files.recursive, terminal)?;
    files.problems.check()?;
    let mut console = Console::new(client);
    let (wishes, warnings) = resolve::resolve(files, &mut console).await?;
    for warning in warnings {
        terminal.say(format_args!("warning: {warning}"));
    }
    let planned = plan::plan(wishes, args.selector.as_ref(), &mut console).await?;
    let names = plan::names(&planned);
    let mut differs = false;
    for one in planned.iter().filter(|one| one.step != Step::Skip) {
        let [before, after] = texts(one, &names, &mut console).await?;
        let text = difference(&one.wish.name(), &before, &after);
        differs |= !text.is_empty();
        write!(terminal.out, "{text}")?;
        if one.step == Step::Compare {
            terminal.say(format_args!(
                "{}: its secret values were not compared: the console does not tell them",
                one.wish.name()
            ));
        }
    }
    Ok(differs)
}

/// What the console has and what it would have, as documents.
async fn texts(one: &Planned, names: &Names, console: &mut Console<'_>) -> Result<[String; 2], CliError> {
    let document = &one.wish.document;
    let (kind, name) = (document.kind, document.name.as_str());
    let known = match &one.live {
        Some(live) => print::yaml(&print::document(kind, name, &live.state, names, console).await?, &[])?,
        None => String::new(),
    };
    let merged = super::state::normal(kind.info().fields, &one.merged);
    let wanted = print::yaml(&print::document(kind, name, &merged, names, console).await?, &[])?;
    let hidden = &one.wish.desired.hidden;
    let [before, after] = match &one.live {
        Some(live) if live.hidden.is_none() && one.step == Step::Change && live.state == one.merged => {
            // The console does not tell the values, but that others are stored: by their names, or by how it signs in.
            [String::new(), masked(Some(&Hidden::default()), hidden)[1].clone()]
        }
        Some(live) => masked(live.hidden.as_ref(), hidden),
        None => masked(Some(&Hidden::default()), &shown_new(hidden)),
    };
    Ok([known + &before, wanted + &after])
}

/// Of something new, nothing that clears.
fn shown_new(hidden: &Hidden) -> Hidden {
    Hidden(
        hidden
            .0
            .iter()
            .filter(|(_, value)| **value != Value::Null)
            .map(|(path, value)| (path.clone(), value.clone()))
            .collect(),
    )
}
