// SPDX-License-Identifier: GPL-2.0-only
//! The part of a session that owns its kernel: how it is booted, and where its log goes.

use crate::limits::kernel_memory;
use crate::options::Options;
use outboard::{component_of, Builder, Kernel, Level, LogRing};
use outboard_error::format::{escaped, plain_line};
use outboard_error::{front, Error, Result};
use outboard_sandbox::crash::{self, Advice};
use std::ffi::{CStr, CString};
use std::mem::take;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;
use std::sync::Arc;

/// vCPUs beyond this do not make copying faster.
const USEFUL_VCPUS: u32 = 4;
/// Most lines of the kernel's log in an error message.
const LINES: usize = 4;
/// Lines of the kernel's log that are kept.
const KEPT_LINES: usize = 256;

/// Buckets of the kernel's hash tables for names and inodes. The kernel would size them for its
/// small initial memory: with ten thousand files, each lookup would walk chains of tens of entries.
const TABLES: &CStr = c"dhash_entries=16384 ihash_entries=8192";

/// The level that the environment's OUTBOARD_LOG asks for.
fn level_from_environment() -> Option<u8> {
    const NAMES: [&str; 8] = [
        "emerg", "alert", "crit", "err", "warning", "notice", "info", "debug",
    ];
    let wish = std::env::var("OUTBOARD_LOG").ok()?;
    let by_name = NAMES.iter().position(|name| *name == wish);
    by_name
        .map(|level| level as u8)
        .or_else(|| wish.parse().ok())
        .filter(|level| *level < 8)
}

/// How a kernel is booted.
pub(super) struct BootRequest<'a> {
    pub(super) options: &'a Options,
    /// The process belongs to a program that is not ours.
    pub(super) in_library: bool,
    /// The type of the file system that the kernel is booted for.
    pub(super) kind: Option<&'a str>,
    /// Other processes map its memory.
    pub(super) shares_memory: bool,
    pub(super) snapshots: Option<&'a PathBuf>,
}

pub(super) struct Machine {
    vcpus: u32,
    /// The default of --memory; 0: the library's default.
    memory: u64,
    /// Settings and prepared resources for the boot.
    builder: Builder,
    kernel: Option<Kernel>,
    log: Arc<LogRing>,
    /// The position of the log when the kernel had booted.
    booted: usize,
    advice: Arc<Advice>,
}

fn processors() -> u32 {
    std::thread::available_parallelism().map_or(1, |count| count.get() as u32)
}

impl Machine {
    /// `vcpus`: as the user wants them. Counts the host's processors now: the sandbox hides the
    /// files that list them.
    pub(super) fn new(vcpus: Option<u32>) -> Self {
        Self {
            vcpus: vcpus.unwrap_or_else(|| processors().min(USEFUL_VCPUS)),
            memory: kernel_memory(),
            builder: Kernel::builder(),
            kernel: None,
            log: Arc::new(LogRing::new(KEPT_LINES)),
            booted: 0,
            advice: Arc::default(),
        }
    }

    /// The number of threads that the kernel can serve at once.
    pub(super) fn vcpus(&self) -> u32 {
        self.vcpus
    }

    /// Gives the kernel, before its boot, the library's default memory.
    pub(super) fn remember_more(&mut self) {
        self.memory = 0;
    }

    /// Asks the host for what the sandbox refuses later.
    pub(super) fn prepare(&mut self, runs_programs: bool) {
        let builder = take(&mut self.builder);
        self.builder = if runs_programs {
            builder.prepare_programs()
        } else {
            builder.prepare()
        };
    }

    /// The kernel, if it has booted.
    pub(super) fn kernel(&self) -> Option<&Kernel> {
        self.kernel.as_ref()
    }

    /// Gives the kernel away, to be halted or forgotten.
    pub(super) fn take_kernel(&mut self) -> Option<Kernel> {
        self.kernel.take()
    }

    /// The consequence of a crash of the kernel for the images in use.
    pub(super) fn advice(&self) -> &Advice {
        &self.advice
    }

    /// The kernel's log.
    pub(super) fn log(&self) -> &Arc<LogRing> {
        &self.log
    }

    /// The position of the log now.
    pub(super) fn position(&self) -> usize {
        self.log.position()
    }

    /// The position of the log when the kernel had booted.
    pub(super) fn booted(&self) -> usize {
        self.booted
    }

    /// The kernel's messages since a position of its log, for an error.
    pub(super) fn lines_since(&self, position: usize) -> Vec<String> {
        let mut lines = messages_since(&self.log, position);
        lines.truncate(LINES);
        lines
    }

    /// A program has its front show the kernel's messages, and ends with the kernel.
    fn logging(&self, builder: Builder, options: &Options) -> Result<Builder> {
        let shown = match options.verbose {
            0 => level_from_environment(),
            1 => Some(Level::Info as u8),
            _ => Some(Level::Debug as u8),
        };
        let ring = Arc::clone(&self.log);
        let print = front()
            .at_panic()
            .map_err(|error| Error::failed("cannot use standard error", &error))?;
        let advice = Arc::clone(&self.advice);
        let log = move |level: Level, line: &[u8]| {
            ring.push(level, line);
            let (text, length) = plain_line(line);
            if level as u8 <= Level::Warning as u8 {
                front().kernel_warning(&text[..length]);
            }
            if shown.is_some_and(|most| level as u8 <= most) {
                front().kernel_line(&text[..length - 1]);
            }
        };
        let level = match shown {
            Some(most) if most >= Level::Debug as u8 => Level::Debug,
            Some(most) if most > Level::Warning as u8 => Level::Info,
            _ => Level::Warning,
        };
        Ok(builder
            .log(level, log)
            .panic(move |text| crash::end(&*print, &advice, text)))
    }

    /// A library keeps the kernel's messages for the program to ask for.
    fn logging_quietly(&self, builder: Builder, options: &Options) -> Builder {
        let ring = Arc::clone(&self.log);
        let builder = builder.log(Level::Warning, move |level, line| ring.push(level, line));
        if !options.contain_panic {
            return builder;
        }
        let ring = Arc::clone(&self.log);
        let note = move |text: &[u8]| {
            let lines = text.split(|&byte| byte == b'\n');
            lines.for_each(|line| ring.push(Level::Emergency, line));
        };
        builder.contain_panic().panic(note)
    }

    /// Boots the kernel.
    pub(super) fn boot(&mut self, request: &BootRequest) -> Result<Kernel> {
        let options = request.options;
        let builder = take(&mut self.builder)
            .vcpus(self.vcpus)
            .memory(options.memory.unwrap_or(self.memory))
            .command_line(TABLES.to_owned());
        let mut builder = if request.in_library {
            self.logging_quietly(builder, options)
        } else {
            self.logging(builder, options)?
        };
        if request.shares_memory {
            builder = builder.shared_memory();
        } else if let Some(directory) = request.snapshots {
            let directory = CString::new(directory.as_os_str().as_bytes());
            let directory = directory.map_err(|_| {
                Error::Usage("the name of the directory of snapshots has a zero byte".to_owned())
            })?;
            builder = builder.snapshots(directory);
            // A snapshot then contains the driver.
            if let Some(name) = request.kind.and_then(component_of) {
                builder = builder.components(CString::new(name).expect("a module's name"));
            }
        }
        let kernel = builder
            .boot()
            .map_err(|error| Error::failed("cannot start the kernel", &error))?;
        self.booted = self.log.position();
        self.kernel = Some(kernel.clone());
        for file in &options.components {
            let shown = file.display();
            kernel
                .load_component_file(file, "")
                .map_err(|error| Error::failed(format!("cannot load {shown}"), &error))?;
        }
        Ok(kernel)
    }
}

/// The kernel's messages since a position of its log, warnings and worse.
pub(crate) fn messages_since(log: &LogRing, position: usize) -> Vec<String> {
    let lines = log.since(position, Level::Warning);
    lines
        .iter()
        .map(|line| escaped(without_time(line).trim_end().as_bytes()))
        .collect()
}

/// A line of the kernel's log without its time stamp.
pub(crate) fn without_time(line: &str) -> &str {
    match line
        .strip_prefix('[')
        .and_then(|rest| rest.split_once("] "))
    {
        Some((time, text)) if time.trim_start().parse::<f64>().is_ok() => text,
        _ => line,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn log_lines_lose_their_time() {
        assert_eq!(without_time("[    0.022465] ufs: bad"), "ufs: bad");
        assert_eq!(without_time("[vda] x"), "[vda] x");
        assert_eq!(without_time("plain"), "plain");
    }

    #[test]
    fn an_error_has_few_lines_of_the_log() {
        let machine = Machine::new(Some(3));
        assert_eq!((machine.vcpus(), machine.booted()), (3, 0));
        assert!(machine.kernel().is_none());
        machine.log().push(Level::Warning, b"[ 1.0] before\n");
        let position = machine.position();
        for number in 0..2 * LINES {
            let line = format!("[ 2.0] line {number}\n");
            machine.log().push(Level::Warning, line.as_bytes());
        }
        let lines = machine.lines_since(position);
        assert_eq!((lines.len(), lines[0].as_str()), (LINES, "line 0"));
    }
}
