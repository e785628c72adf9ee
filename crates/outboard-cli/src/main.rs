// SPDX-License-Identifier: GPL-2.0-only
//! The program `outboard`: open, read and write disk images with Linux's own file systems,
//! in an ordinary process.

mod accounts;
mod acl;
mod address;
mod apart;
mod arguments;
mod colors;
mod commands;
mod containers;
mod error;
mod export;
mod format;
mod glob;
mod held;
mod image;
mod interrupt;
mod labels;
mod layers;
mod line;
mod loop_devices;
mod mode;
mod moment;
mod mount_helper;
mod new_image;
mod octal;
mod operand;
mod other_forms;
mod output;
mod owner;
mod record;
mod sandbox;
mod scratch;
mod session;
mod sfdisk;
mod snapshots;
mod stream;
mod tool;
mod uuid;
mod volume;
mod walk;

use arguments::Arguments;
use clap::Parser;
use error::warn;
use outboard::Inherited;
use session::{with_session, Session};
use std::process::ExitCode;

fn main() -> ExitCode {
    let mut arguments = Arguments::parse_from(mount_helper::usual(std::env::args_os()));
    if !arguments.command.hands_files_on() {
        arguments.settings.inherited = Inherited::find();
    }
    let access = arguments.command.host_access();
    if arguments.settings.no_sandbox && !access.images.is_empty() {
        warn("warning: NO SANDBOX: an image that exploits a mistake of the kernel's code gets all your rights");
    }
    let run = |session: &mut Session| arguments.command.run(session);
    match with_session(arguments.settings, &access, run) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            if let Some(message) = error.message() {
                warn(message);
            }
            ExitCode::from(error.code())
        }
    }
}
