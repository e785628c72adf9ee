// SPDX-License-Identifier: GPL-2.0-only
//! The commands. Each has a file that holds its part of the command line and what it does.
//! All run in a session: one kernel, in which images stay mounted from one command to the next.

mod cat;
mod components;
mod cp;
mod info;
mod ls;
mod manual;
mod stat;

use crate::address::Place;
use crate::error::{Error, Result};
use crate::session::Session;
use clap::Subcommand;
use std::ffi::OsStr;

#[derive(Debug, Subcommand)]
pub enum Command {
    Info(info::Info),
    Ls(ls::Ls),
    Cat(cat::Cat),
    Stat(stat::Stat),
    Cp(cp::Cp),
    Components(components::Components),
    #[command(hide = true)]
    Manual(manual::Manual),
}

impl Command {
    /// Runs the command. What it wrote is safe after [`Session::finish`].
    pub fn run(&self, session: &mut Session) -> Result<()> {
        match self {
            Command::Info(options) => info::run(options, session),
            Command::Ls(options) => ls::run(options, session),
            Command::Cat(options) => cat::run(options, session),
            Command::Stat(options) => stat::run(options, session),
            Command::Cp(options) => cp::run(options, session),
            Command::Components(options) => components::run(options),
            Command::Manual(options) => manual::run(options),
        }
    }
}

/// An operand that must be in an image.
fn image_place(operand: &OsStr) -> Result<Place> {
    match Place::find(operand) {
        Place::Host(path) => Err(Error::Usage(format!(
            "{} is not a place in an image: write IMAGE:/PATH, as in {0}:/",
            path.display()
        ))),
        place => Ok(place),
    }
}
