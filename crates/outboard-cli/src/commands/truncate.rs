// SPDX-License-Identifier: GPL-2.0-only
//! `outboard truncate`.

use crate::commands::each::each_place;
use crate::commands::sizes::parse_size;
use clap::Args;
use outboard::Tree;
use outboard_error::{Error, Result};
use outboard_volume::address::Place;
use outboard_volume::session::Session;
use std::ffi::OsString;
use std::io;

/// Set the size of files in an image
#[derive(Args, Debug)]
#[command(after_help = "Examples:\
                        \n  outboard truncate -s 0 disk.img:/var/log/syslog\
                        \n  outboard truncate -s +1M disk.img@1:/swapfile")]
pub struct TruncateArgs {
    /// The files: IMAGE:/PATH or IMAGE@N:/PATH
    #[arg(required = true, value_name = "IMAGE:/PATH")]
    pub places: Vec<OsString>,
    /// The new size, as in 4096 or 10M (powers of 1024); +SIZE and -SIZE: more or less than now
    #[arg(
        short,
        long,
        value_name = "[+-]SIZE",
        allow_hyphen_values = true,
        value_parser = NewSize::parse
    )]
    pub size: NewSize,
    /// Do not make files
    #[arg(short = 'c', long)]
    pub no_create: bool,
}

/// A size, or a change of one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NewSize {
    Exactly(u64),
    More(u64),
    Less(u64),
}

impl NewSize {
    fn parse(text: &str) -> std::result::Result<Self, String> {
        let number = |text: &str| match text {
            "0" => Ok(0),
            text => parse_size(text),
        };
        match (text.strip_prefix('+'), text.strip_prefix('-')) {
            (Some(text), _) => number(text).map(NewSize::More),
            (_, Some(text)) => number(text).map(NewSize::Less),
            _ => number(text).map(NewSize::Exactly),
        }
    }

    fn of(self, now: u64) -> io::Result<u64> {
        let size = match self {
            NewSize::Exactly(size) => Some(size),
            NewSize::More(size) => now.checked_add(size),
            NewSize::Less(size) => Some(now.saturating_sub(size)),
        };
        let too_large = || io::Error::from_raw_os_error(libc::EFBIG);
        let possible = size.filter(|size| i64::try_from(*size).is_ok());
        possible.ok_or_else(too_large)
    }
}

pub fn run(options: &TruncateArgs, session: &mut Session) -> Result<()> {
    each_place(session, &options.places, true, |session, place, _| {
        let id = session.open(place, true)?;
        truncate(options, session.tree(id), place, session.umask())
            .map_err(|error| Error::of_file("cannot set the size of", place.operand(), &error))
    })
}

fn truncate(options: &TruncateArgs, tree: &Tree, place: &Place, umask: u32) -> io::Result<()> {
    // A FIFO is not waited for.
    let mut flags = libc::O_WRONLY | libc::O_NONBLOCK | libc::O_NOCTTY;
    if !options.no_create {
        flags |= libc::O_CREAT;
    }
    match tree.open_fd(place.path(), flags, 0o666 & !umask) {
        Ok(file) => {
            let now = file.stat()?.st_size.max(0) as u64;
            let done = file.truncate(options.size.of(now)?);
            if done.is_err() {
                // Some file systems fill what is missing, as far as there is room.
                let _ = file.truncate(now);
            }
            done.and(file.close())
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound && options.no_create => Ok(()),
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes() {
        assert_eq!(NewSize::parse("0"), Ok(NewSize::Exactly(0)));
        assert_eq!(NewSize::parse("+1K"), Ok(NewSize::More(1024)));
        assert_eq!(NewSize::parse("-5").unwrap().of(3).unwrap(), 0);
        assert!(NewSize::parse("+").is_err() && NewSize::parse("--1").is_err());
        assert!(NewSize::More(u64::MAX).of(1).is_err());
        assert!(NewSize::Exactly(1 << 63).of(1).is_err());
    }
}
