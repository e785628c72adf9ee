// SPDX-License-Identifier: GPL-2.0-only
//! The program `outboard`: open, read and write disk images with Linux's own file systems,
//! in an ordinary process.

mod address;
mod arguments;
mod cat;
mod components;
mod cp;
mod error;
mod format;
mod image;
mod info;
mod interrupt;
mod ls;
mod manual;
mod output;
mod record;
mod session;
mod snapshots;
mod stat;
mod stream;

use arguments::{Arguments, Command};
use clap::Parser;
use error::{warn, Error, Result};
use std::process::ExitCode;

fn run(arguments: Arguments) -> Result<()> {
    let settings = arguments.settings;
    match arguments.command {
        Command::Info(options) => info::run(&options, settings),
        Command::Ls(options) => ls::run(&options, settings),
        Command::Cat(options) => cat::run(&options, settings),
        Command::Stat(options) => stat::run(&options, settings),
        Command::Cp(options) => cp::run(&options, settings),
        Command::Components(options) => components::run(&options),
        Command::Manual(options) => manual::run(&options),
    }
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    match run(arguments) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            if let Some(message) = error.message() {
                warn(message);
            }
            ExitCode::from(match error {
                Error::Usage(_) => 2,
                Error::Interrupted(_) => 130,
                Error::Failed(_) | Error::Told => 1,
            })
        }
    }
}
