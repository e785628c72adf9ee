// SPDX-License-Identifier: GPL-2.0-only
//! The program `outboard`: open, read and write disk images with Linux's own file systems,
//! in an ordinary process.

mod colors;
mod commands;
mod host_needs;
mod mount_helper;
mod output;
mod record;
mod sfdisk;

use commands::arguments::Arguments;
use outboard::{set_name, Allocator, Inherited};
use outboard_sandbox::error::{signal_code, warn, Error, Result};
use outboard_sandbox::interrupt;
use outboard_volume::limits;
use outboard_volume::session::{with_session, Session};
use std::ffi::CStr;
use std::io::{self, Write};
use std::process::ExitCode;

#[global_allocator]
static ALLOCATOR: Allocator = Allocator;

/// What ps(1) shows.
const NAME: &CStr = c"outboard";

fn main() -> ExitCode {
    // The server of a mount is started as /proc/self/exe, and would be called "exe".
    set_name(NAME);
    match limits::adapt() {
        Ok(()) => run(),
        error => end(error),
    }
}

/// Not part of `main`: its frame needs the stack that was asked for.
#[inline(never)]
fn run() -> ExitCode {
    let arguments = match Arguments::of(&mount_helper::usual(std::env::args_os())) {
        Ok(arguments) => arguments,
        Err(other) => return end(show(&other)),
    };
    let mut options = arguments.settings.options();
    if !arguments.command.hands_files_on() {
        options.inherited = Inherited::find();
    }
    if let Err(error) = interrupt::catch() {
        return end(Err(error));
    }
    let missing = host_needs::missing();
    let access = arguments.command.host_access();
    if options.no_sandbox && !access.images.is_empty() {
        warn("warning: NO SANDBOX: an image that exploits a mistake of the kernel's code gets all your rights");
    }
    let run = |session: &mut Session| arguments.command.run(session);
    let result = with_session(options, &access, run);
    let failed = result.as_ref().is_err_and(Error::may_be_of_the_host);
    let code = end(result);
    for note in missing.iter().filter(|_| failed) {
        warn(format!("note: {note}"));
    }
    // All is written and cleaned up. A shell or a script still has to learn that it was a signal.
    signal_code().map_or(code, ExitCode::from)
}

/// Shows help, the version, or what is wrong with the command line.
fn show(other: &clap::Error) -> Result<()> {
    if other.exit_code() == 0 {
        output::check_open()?;
    }
    let shown = other.print().and_then(|()| io::stdout().flush());
    match other.exit_code() {
        0 => output::check(shown),
        code => Err(Error::Status(code as u8)),
    }
}

fn end(result: Result<()>) -> ExitCode {
    let Err(error) = result else {
        return ExitCode::SUCCESS;
    };
    if let Some(message) = error.message() {
        warn(message);
    }
    ExitCode::from(error.code())
}
