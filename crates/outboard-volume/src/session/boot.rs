// SPDX-License-Identifier: GPL-2.0-only
//! The kernel of a session: how it is booted, and where its log goes.

use super::network::Network;
use super::Session;
use crate::warnings;
use outboard::{component_of, Builder, Kernel, Level};
use outboard_error::format::plain_line;
use outboard_error::{front, Error, Result};
use outboard_sandbox::crash;
use std::ffi::{CStr, CString};
use std::os::unix::ffi::OsStrExt;
use std::sync::Arc;

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

impl Session {
    /// A program has its front show the kernel's messages, and ends with the kernel.
    fn logging(&self, builder: Builder) -> Result<Builder> {
        let shown = match self.options.verbose {
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
            warnings::note(level, &text[..length]);
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
    fn logging_quietly(&self, builder: Builder) -> Builder {
        let ring = Arc::clone(&self.log);
        let builder = builder.log(Level::Warning, move |level, line| ring.push(level, line));
        if !self.options.contain_panic {
            return builder;
        }
        let ring = Arc::clone(&self.log);
        let note = move |text: &[u8]| {
            let lines = text.split(|&byte| byte == b'\n');
            lines.for_each(|line| ring.push(Level::Emergency, line));
        };
        builder.contain_panic().panic(note)
    }

    /// Boots the kernel for a file system of this type, or finds it booted.
    pub(super) fn kernel(&mut self, kind: Option<&str>) -> Result<Kernel> {
        if let Some(kernel) = &self.kernel {
            return Ok(kernel.clone());
        }
        assert!(!self.outside, "the kernel runs in the sandbox only");
        let builder = std::mem::take(&mut self.builder)
            .vcpus(self.vcpus())
            .memory(self.options.memory.unwrap_or(self.memory))
            .command_line(TABLES.to_owned());
        let mut builder = if self.in_library {
            self.logging_quietly(builder)
        } else {
            self.logging(builder)?
        };
        if self
            .network
            .as_ref()
            .is_some_and(Network::needs_shared_memory)
        {
            builder = builder.shared_memory();
        } else if let Some(directory) = &self.snapshots {
            let directory = CString::new(directory.as_os_str().as_bytes());
            let directory = directory.map_err(|_| {
                Error::Usage("the name of the directory of snapshots has a zero byte".to_owned())
            })?;
            builder = builder.snapshots(directory);
            // A snapshot then contains the driver.
            if let Some(name) = kind.and_then(component_of) {
                builder = builder.components(CString::new(name).expect("a module's name"));
            }
        }
        let kernel = builder
            .boot()
            .map_err(|error| Error::failed("cannot start the kernel", &error))?;
        self.booted = self.log.position();
        self.kernel = Some(kernel.clone());
        for file in &self.options.components {
            let shown = file.display();
            kernel
                .load_component_file(file, "")
                .map_err(|error| Error::failed(format!("cannot load {shown}"), &error))?;
        }
        if let Some(network) = &mut self.network {
            network.start(&kernel)?;
        }
        self.sandbox.close()?;
        Ok(kernel)
    }
}
