// SPDX-License-Identifier: GPL-2.0-only
//! The program `outboard`: open, read and write disk images with Linux's own file systems,
//! in an ordinary process.

mod colors;
mod commands;
mod exit_code;
mod format;
mod front;
mod hints;
mod host_needs;
mod kernel_warnings;
mod mount_helper;
mod output;
mod process_state;
mod record;
mod reports;

use commands::line::usage;
use commands::{Arguments, Command};
use exit_code::{code_of_result, exit_code, may_be_of_the_host, set_failure_code, CommandStatus};
use front::Program;
use outboard::{restore_terminal, set_name, Allocator, Fd, Inherited};
use outboard_error::{install, warn, Error, Result};
use outboard_sandbox::interrupt;
use outboard_volume::limits;
use output::{JsonLayout, Output};
use std::ffi::{CStr, OsString};
use std::io::{self, Write};
use std::panic;
use std::process::{self, ExitCode};

#[global_allocator]
static ALLOCATOR: Allocator = Allocator;

/// The name that ps(1) shows.
const NAME: &CStr = c"outboard";

fn main() -> ExitCode {
    end_at_a_panic();
    install(&Program);
    // The server of a mount is started as /proc/self/exe, and would be called "exe".
    set_name(NAME);
    ExitCode::from(match limits::adapt() {
        Ok(()) => run(),
        Err(error) => end(Err(error)),
    })
}

/// The program ends at a panic, whatever thread it is on: no other thread goes on with half of a
/// change.
fn end_at_a_panic() {
    let report = panic::take_hook();
    panic::set_hook(Box::new(move |information| {
        restore_terminal();
        report(information);
        process::abort();
    }));
}

/// Returns the exit code. Not part of `main`: its frame needs the stack that was asked for.
#[inline(never)]
fn run() -> u8 {
    let words = mount_helper::usual(std::env::args_os());
    let arguments = match Arguments::of(&words) {
        Ok(arguments) => arguments,
        Err(other) => return end(show(&other, &words)),
    };
    set_failure_code(arguments.command.failure_code());
    let mut options = arguments.settings.options();
    if !arguments.command.hands_files_on() {
        options.inherited = Inherited::find();
    }
    if let Err(error) = interrupt::catch() {
        return end(Err(error));
    }
    let mut output = match arguments.command.output() {
        Ok(output) => output,
        Err(error) => return end(Err(error)),
    };
    let missing = host_needs::missing();
    let access = arguments.command.host_access();
    if options.no_sandbox && access.needs_kernel() {
        warn(
            "warning: NO SANDBOX: an image that exploits a mistake of the kernel's code gets all \
             your rights",
        );
    }
    kernel_warnings::open();
    let result = arguments.command.run_alone(options, &access, &mut output);
    let result = output.end(result);
    let failed = may_be_of_the_host(&result);
    let is_of_a_program = result.is_ok() && arguments.command.passes_signals_on();
    let code = end(result);
    for note in missing.iter().filter(|_| failed) {
        warn(format!("note: {note}"));
    }
    if is_of_a_program {
        return code;
    }
    exit_code(code)
}

/// Shows help, the version, or what is wrong with the command line.
fn show(other: &clap::Error, words: &[OsString]) -> Result<CommandStatus> {
    if other.exit_code() == 0 {
        output::check_open()?;
    }
    let shown = other.print().and_then(|()| io::stdout().flush());
    let shown = shown.and_then(|()| Fd::standard(1)?.flush());
    match other.exit_code() {
        0 => output::check(shown).map(CommandStatus::from),
        code => {
            refuse_as_json(other, words);
            Ok(CommandStatus(code as u8))
        }
    }
}

/// Prints what is wrong with the command line as JSON, if one of its words asks for JSON.
fn refuse_as_json(other: &clap::Error, words: &[OsString]) {
    if words.iter().any(|word| word == "--json") {
        let mut names = words.iter().skip(1).filter_map(|word| word.to_str());
        let output = Output::json(names.find_map(Command::name_of), JsonLayout::Document);
        // The error is on standard error already, and has its exit code.
        let _ = output.and_then(|output| output.end(Err(usage(other))));
    }
}

/// Prints the error, if there is one. Returns the exit code.
fn end(result: Result<CommandStatus>) -> u8 {
    reports::print_rest();
    let error = result.as_ref().err();
    if let Some(message) = error.and_then(Error::message) {
        warn(message);
    }
    code_of_result(&result)
}
