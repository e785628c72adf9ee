// SPDX-License-Identifier: GPL-2.0-only
//! `outboard du`.

use crate::commands::operands::find_trees;
use crate::format;
use crate::output::{Output, Print};
use crate::record::Bytes;
use clap::Args;
use outboard_error::{Error, Failures, Result};
use outboard_sandbox::interrupt::Interrupt;
use outboard_transfer::operand::{is_directory, Named};
use outboard_transfer::walk::{Entry, EntryText, Step, Walk};
use outboard_volume::address::Place;
use outboard_volume::session::Session;
use serde::Serialize;
use std::collections::HashSet;
use std::ffi::OsString;

/// Bytes of a block of `st_blocks`.
const BLOCK: u64 = 512;

/// Show the disk usage of directories in an image
///
/// Numbers are KiB allocated on the disk. A file with several names counts once, also in several
/// operands.
#[derive(Args, Debug)]
#[command(
    disable_help_flag = true,
    after_help = "Examples:\
                  \n  outboard du -s -h disk.img:/usr disk.img:/var\
                  \n  outboard du -d 1 --json disk.img@1:/"
)]
pub struct DuArgs {
    /// The files to measure: IMAGE:/PATH or IMAGE@N:/PATH; IMAGE alone means its root
    #[arg(required = true, value_name = "IMAGE:/PATH")]
    pub places: Vec<OsString>,
    /// Print only the sum of each operand
    #[arg(short, long, conflicts_with_all = ["all", "max_depth"])]
    pub summarize: bool,
    /// Print files, too
    #[arg(short, long)]
    pub all: bool,
    /// Print only directories down to this depth below the operand
    #[arg(short = 'd', long, value_name = "N")]
    pub max_depth: Option<usize>,
    /// Add up the sizes of files, not their allocated blocks
    #[arg(long)]
    pub apparent_size: bool,
    /// As --apparent-size, in bytes
    #[arg(short, long, conflicts_with = "human_readable")]
    pub bytes: bool,
    /// Print the sum of all operands, too
    #[arg(short = 'c', long)]
    pub total: bool,
    /// Print sizes as in 1.5M (units are powers of 1024)
    #[arg(short = 'h', long)]
    pub human_readable: bool,
    /// Print help
    #[arg(long, action = clap::ArgAction::Help)]
    help: Option<bool>,
}

/// A path with the room that it takes.
#[derive(Serialize)]
struct Item<'a> {
    #[serde(flatten)]
    path: Bytes<'a>,
    bytes: u64,
    #[serde(skip)]
    options: &'a DuArgs,
}

impl Print for Item<'_> {
    fn print(&self, output: &mut Output) -> Result<()> {
        let size = match (self.options.human_readable, self.options.bytes) {
            (true, _) => format::brief_size(self.bytes),
            (_, true) => self.bytes.to_string(),
            _ => self.bytes.div_ceil(1024).to_string(),
        };
        let path = format::name(self.path.as_ref(), output.is_terminal());
        output.line([size.as_bytes(), b"\t", &path].concat())
    }
}

pub fn run(options: &DuArgs, session: &mut Session, output: &mut Output) -> Result<()> {
    let places = find_trees(session, &options.places, "du", false)?;
    let interrupt = session.catch_interrupts();
    let mut usage = Usage {
        options,
        most: if options.summarize {
            0
        } else {
            options.max_depth.unwrap_or(usize::MAX)
        },
        counted: HashSet::new(),
        total: 0,
        output,
        failures: Failures::default(),
    };
    for place in &places {
        let part = usage.measure(session, place, &interrupt);
        usage.failures.take(part)?;
        interrupt.check()?;
    }
    if options.total {
        usage.show_total()?;
    }
    usage.failures.finish()
}

struct Usage<'a> {
    options: &'a DuArgs,
    /// Deepest level that is shown.
    most: usize,
    /// Device and inode of files that were counted and may be met again.
    counted: HashSet<(u64, u64)>,
    /// Bytes of all operands until now.
    total: u64,
    output: &'a mut Output,
    failures: Failures,
}

impl Usage<'_> {
    fn measure(
        &mut self,
        session: &mut Session,
        place: &Place,
        interrupt: &Interrupt,
    ) -> Result<()> {
        let id = session.open(place, false)?;
        let top = Named::find(session.tree(id), place, false)
            .map_err(|error| Error::of_file("cannot look at", place.operand(), &error))?;
        let mut walk = Walk::new(top, place.operand(), interrupt.clone());
        // Of each directory on the way, what was counted in it until now.
        let mut sums: Vec<u64> = Vec::new();
        while let Some(step) = walk.next() {
            match step {
                Step::Found(entry) => {
                    let stat = self.stat(&entry);
                    let size = stat.map_or(0, |stat| self.size(&stat));
                    if stat.is_some_and(|stat| self.was_counted(&stat)) {
                        walk.skip();
                    } else if entry.is_directory() {
                        sums.push(size);
                    } else if stat.is_some() {
                        self.add(&mut sums, size);
                        if entry.depth == 0 || self.options.all {
                            self.show(&entry, size)?;
                        }
                    }
                }
                Step::Left(entry) => {
                    let sum = sums.pop().unwrap_or(0);
                    self.add(&mut sums, sum);
                    self.show(&entry, sum)?;
                }
                Step::Opened(_) => {}
                Step::Failed(entry, error) => {
                    self.failures.tell(entry.failure("read directory", &error));
                }
            }
        }
        Ok(())
    }

    fn stat(&mut self, entry: &Entry) -> Option<libc::stat> {
        let told = |error| self.failures.tell(entry.failure("look at", &error));
        entry.stat().map_err(told).ok()
    }

    /// Whether a file was counted under another name, or as part of another operand.
    fn was_counted(&mut self, stat: &libc::stat) -> bool {
        let several = stat.st_nlink > 1 && !is_directory(stat);
        let comes_again = several || self.options.places.len() > 1;
        comes_again && !self.counted.insert((stat.st_dev, stat.st_ino))
    }

    /// The room that a file takes.
    fn size(&self, stat: &libc::stat) -> u64 {
        if self.options.apparent_size || self.options.bytes {
            stat.st_size.max(0) as u64
        } else {
            (stat.st_blocks.max(0) as u64).saturating_mul(BLOCK)
        }
    }

    fn show(&mut self, entry: &Entry, bytes: u64) -> Result<()> {
        if entry.depth > self.most {
            return Ok(());
        }
        self.output.item(&Item {
            path: Bytes::new("path", entry.path),
            bytes,
            options: self.options,
        })
    }

    fn show_total(&mut self) -> Result<()> {
        if self.output.is_json() {
            return self.output.json_member("bytes", &self.total);
        }
        let total = Item {
            path: Bytes::new("path", b"total".as_slice()),
            bytes: self.total,
            options: self.options,
        };
        total.print(self.output)
    }

    /// Adds to the sum of the directory that the walk is in, or of the operands.
    fn add(&mut self, sums: &mut [u64], size: u64) {
        let sum = sums.last_mut().unwrap_or(&mut self.total);
        *sum = sum.saturating_add(size);
    }
}
