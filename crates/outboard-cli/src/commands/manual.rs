// SPDX-License-Identifier: GPL-2.0-only
//! `outboard manual`: the manual pages, made from the command line's own description.

use crate::commands::settings::is_shared;
use crate::output::print_all;
use clap::builder::PossibleValue;
use clap::{Arg, ArgAction, Args, Command};
use jiff::Timestamp;
use outboard::version;
use outboard_error::{Error, Result};
use outboard_transfer::moment::source_date;
use roff::{bold, roman, Roff};

/// Write the manual page to standard output
#[derive(Args, Debug)]
pub struct ManualArgs {
    /// The command [default: the page that is about all of them]
    pub command: Option<String>,
}

/// `whole`: the command line.
pub fn run(options: &ManualArgs, mut whole: Command) -> Result<()> {
    whole.build();
    let command = match &options.command {
        None => &whole,
        Some(name) => whole
            .find_subcommand(name)
            .ok_or_else(|| Error::Usage(format!("no command {name}")))?,
    };
    print_all(page(command, &date()?).render().as_bytes())
}

/// The day of SOURCE_DATE_EPOCH, or today.
fn date() -> Result<String> {
    let given = source_date().map_err(Error::Usage)?;
    let moment = given.and_then(|seconds| Timestamp::from_second(seconds).ok());
    let moment = moment.unwrap_or_else(Timestamp::now);
    Ok(moment.strftime("%F").to_string())
}

fn page(command: &Command, date: &str) -> Roff {
    let mut roff = Roff::new();
    let name = page_name(command);
    let source = format!("Outboard {}", version());
    roff.control("TH", [name.to_uppercase().as_str(), "1", date, &source]);
    roff.control("SH", ["NAME"]);
    roff.text([roman(format!("{name} - {}", about(command)))]);
    roff.control("SH", ["SYNOPSIS"]);
    synopsis(&mut roff, command);
    roff.control("SH", ["DESCRIPTION"]);
    description(&mut roff, command);

    let is_whole = command.is_subcommand_required_set() && !name.contains('-');
    let all: Vec<&Arg> = shown(command).collect();
    let (shared, own): (Vec<&Arg>, Vec<&Arg>) = all.into_iter().partition(|arg| is_shared(arg));
    if is_whole {
        arguments(&mut roff, "OPTIONS", &own);
        arguments(&mut roff, "SHARED OPTIONS", &shared);
        pages(&mut roff, command);
    } else {
        let (operands, options): (Vec<&Arg>, Vec<&Arg>) =
            own.into_iter().partition(|arg| arg.is_positional());
        arguments(&mut roff, "ARGUMENTS", &operands);
        arguments(&mut roff, "OPTIONS", &options);
        subcommands(&mut roff, command);
        arguments(&mut roff, "SHARED OPTIONS", &shared);
    }
    further(&mut roff, command);
    if !is_whole {
        roff.control("SH", ["SEE ALSO"]);
        roff.text([bold("outboard"), roman("(1)")]);
    }
    roff
}

fn page_name(command: &Command) -> String {
    let name = command.get_bin_name().unwrap_or(command.get_name());
    name.replace(' ', "-")
}

fn about(command: &Command) -> String {
    let about = command.get_about().map(ToString::to_string);
    about.unwrap_or_default()
}

/// The commands that users see; without "help", which prints these pages.
fn visible(command: &Command) -> impl Iterator<Item = &Command> {
    let all = command.get_subcommands();
    all.filter(|command| !command.is_hide_set() && command.get_name() != "help")
}

fn shown(command: &Command) -> impl Iterator<Item = &Arg> {
    command.get_arguments().filter(|arg| !arg.is_hide_set())
}

/// The usage line of `outboard help`.
fn synopsis(roff: &mut Roff, command: &Command) {
    let usage = command.clone().render_usage().to_string();
    let line = usage.trim_start_matches("Usage: ");
    let words = line.find(" [").or_else(|| line.find(" <"));
    let (words, operands) = line.split_at(words.unwrap_or(line.len()));
    roff.text([bold(words), roman(operands)]);
}

fn description(roff: &mut Roff, command: &Command) {
    let text = command.get_long_about().or(command.get_about());
    paragraphs(
        roff,
        "PP",
        &text.map(ToString::to_string).unwrap_or_default(),
    );
}

/// Text whose paragraphs have empty lines between them.
fn paragraphs(roff: &mut Roff, separator: &str, text: &str) {
    for line in text.lines() {
        match line.trim() {
            "" => roff.control(separator, []),
            line => roff.text([roman(line)]),
        };
    }
}

fn arguments(roff: &mut Roff, title: &str, arguments: &[&Arg]) {
    if !arguments.is_empty() {
        roff.control("SH", [title]);
    }
    for arg in arguments {
        argument(roff, arg);
    }
}

fn argument(roff: &mut Roff, arg: &Arg) {
    let mut head = Vec::new();
    let text = arg.to_string();
    if let (Some(letter), Some(_)) = (arg.get_short(), arg.get_long()) {
        head.extend([bold(format!("-{letter}")), roman(", ")]);
    }
    let flag = if arg.is_positional() {
        0
    } else {
        text.find([' ', '[', '=']).unwrap_or(text.len())
    };
    head.extend([bold(&text[..flag]), roman(&text[flag..])]);
    roff.control("TP", []);
    roff.text(head);
    let help = arg.get_long_help().or(arg.get_help());
    let help = help.map(ToString::to_string).unwrap_or_default();
    paragraphs(roff, "IP", &format!("{help}{}", values(arg)));
}

/// The possible values of an option, and its default.
fn values(arg: &Arg) -> String {
    let mut text = String::new();
    let takes_one = matches!(arg.get_action(), ArgAction::Set | ArgAction::Append);
    let defaults = arg.get_default_values();
    if takes_one && !defaults.is_empty() {
        let defaults = defaults.join(std::ffi::OsStr::new(", "));
        text += &format!(" [default: {}]", defaults.to_string_lossy());
    }
    let possible = arg.get_possible_values();
    let possible: Vec<String> = possible.iter().map(value).collect();
    if takes_one && !possible.is_empty() {
        text += &format!(" [possible values: {}]", possible.join(", "));
    }
    text
}

fn value(value: &PossibleValue) -> String {
    match value.get_help() {
        Some(help) => format!("{} ({})", value.get_name(), help),
        None => value.get_name().to_owned(),
    }
}

/// The commands that have pages of their own.
fn pages(roff: &mut Roff, command: &Command) {
    roff.control("SH", ["COMMANDS"]);
    for sub in visible(command) {
        roff.control("TP", []);
        roff.text([bold(page_name(sub)), roman("(1)")]);
        roff.text([roman(about(sub))]);
    }
}

/// The commands of a command, which are on its page.
fn subcommands(roff: &mut Roff, command: &Command) {
    let mut all = visible(command).peekable();
    if all.peek().is_some() {
        roff.control("SH", ["COMMANDS"]);
    }
    for sub in all {
        roff.control("SS", [sub.get_name()]);
        synopsis(roff, sub);
        roff.control("PP", []);
        description(roff, sub);
        for arg in shown(sub).filter(|arg| !arg.is_global_set() && arg.get_id() != "help") {
            argument(roff, arg);
        }
    }
}

/// The text after the options: examples as they are, tables, and notes.
fn further(roff: &mut Roff, command: &Command) {
    let text = command.get_after_help().map(ToString::to_string);
    for block in text.unwrap_or_default().split("\n\n") {
        match block.split_once(":\n") {
            Some(("Example" | "Examples", lines)) => examples(roff, lines),
            Some((title, lines)) => table(roff, title, lines),
            None if block.is_empty() => (),
            None => {
                roff.control("SH", ["NOTES"]);
                roff.text([roman(block)]);
            }
        }
    }
}

fn examples(roff: &mut Roff, lines: &str) {
    roff.control("SH", ["EXAMPLES"]);
    roff.control("EX", []);
    for line in lines.lines() {
        roff.text([roman(line.strip_prefix("  ").unwrap_or(line))]);
    }
    roff.control("EE", []);
}

/// Lines that begin with what they are about. A heading goes up to its first comma.
fn table(roff: &mut Roff, heading: &str, lines: &str) {
    let title = heading.split(',').next().unwrap_or(heading);
    roff.control("SH", []);
    roff.text([roman(title)]);
    for (word, text) in lines.lines().map(table_row) {
        roff.control("TP", []);
        roff.text([bold(word)]);
        roff.text([roman(text)]);
    }
}

/// The two columns of a table's line in the help.
pub fn table_row(line: &str) -> (&str, &str) {
    let line = line.trim();
    let columns = line.split_once("  ").or(line.split_once(' '));
    let (word, text) = columns.unwrap_or((line, ""));
    (word, text.trim())
}
