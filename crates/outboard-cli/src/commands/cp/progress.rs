// SPDX-License-Identifier: GPL-2.0-only
//! Shows how far a copy is, on a terminal, once it has taken a while.

use crate::format;
use indicatif::{ProgressBar, ProgressStyle};
use std::io::IsTerminal;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::OnceLock;
use std::time::{Duration, Instant};

/// Copies that are done by then show nothing.
const PATIENCE: Duration = Duration::from_millis(100);
const INTERVAL: Duration = Duration::from_millis(100);

pub struct Progress {
    terminal: bool,
    start: Instant,
    /// Milliseconds after the start when it was last shown.
    last: AtomicU64,
    bar: OnceLock<ProgressBar>,
}

impl Default for Progress {
    fn default() -> Self {
        Self {
            terminal: std::io::stderr().is_terminal(),
            start: Instant::now(),
            last: AtomicU64::new(0),
            bar: OnceLock::new(),
        }
    }
}

fn new_bar() -> ProgressBar {
    let style = ProgressStyle::with_template("{spinner} {elapsed} {msg}");
    let bar = ProgressBar::new_spinner();
    if let Ok(style) = style {
        bar.set_style(style);
    }
    bar
}

impl Progress {
    pub fn show(&self, files: u64, bytes: u64) {
        if !self.terminal {
            return;
        }
        let elapsed = self.start.elapsed();
        let now = elapsed.as_millis() as u64;
        let last = self.last.load(Ordering::Relaxed);
        if elapsed < PATIENCE || now < last + INTERVAL.as_millis() as u64 {
            return;
        }
        if self
            .last
            .compare_exchange(last, now, Ordering::Relaxed, Ordering::Relaxed)
            .is_err()
        {
            return;
        }
        let rate = bytes as f64 / elapsed.as_secs_f64();
        let bar = self.bar.get_or_init(new_bar);
        bar.set_message(format!(
            "{files} files, {}, {}/s",
            format::size(bytes),
            format::size(rate as u64)
        ));
        bar.tick();
    }

    /// Runs something that writes to the terminal.
    pub fn suspend(&self, write: impl FnOnce()) {
        match self.bar.get() {
            Some(bar) => bar.suspend(write),
            None => write(),
        }
    }

    pub fn finish(&self) {
        if let Some(bar) = self.bar.get() {
            bar.finish_and_clear();
        }
    }
}
