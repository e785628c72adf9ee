// SPDX-License-Identifier: GPL-2.0-only
//! Shows on a terminal how far a copy is, once it has taken a while, and how far other work is.

use indicatif::{ProgressBar, ProgressStyle};
use outboard_error::format::size as size_text;
use outboard_transfer::report::{Progress, Report};
use std::io::IsTerminal;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::OnceLock;
use std::time::{Duration, Instant};

/// Copies that are done by then show nothing.
const PATIENCE: Duration = Duration::from_millis(100);
const INTERVAL: Duration = Duration::from_millis(100);
/// Interval of a bar that also moves while nothing is done.
const TICK: Duration = Duration::from_millis(200);

/// A report of a copy that shows its progress on the terminal.
pub fn report() -> Report {
    Report::new(Box::new(Spinner::default()))
}

struct Spinner {
    terminal: bool,
    start: Instant,
    /// Milliseconds after the start when it was last shown.
    last: AtomicU64,
    bar: OnceLock<ProgressBar>,
    /// How large the whole is, and how far it is; 0: nobody knows.
    total: AtomicU64,
    reached: AtomicU64,
}

impl Default for Spinner {
    fn default() -> Self {
        Self {
            terminal: std::io::stderr().is_terminal(),
            start: Instant::now(),
            last: AtomicU64::new(0),
            bar: OnceLock::new(),
            total: AtomicU64::new(0),
            reached: AtomicU64::new(0),
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

/// How far it is, and how long the rest will take at this rate.
fn outlook(elapsed: Duration, reached: u64, total: u64) -> Option<String> {
    if reached == 0 || total == 0 {
        return None;
    }
    let part = (reached as f64 / total as f64).min(1.0);
    let left = (elapsed.as_secs_f64() * (1.0 - part) / part).ceil() as u64;
    Some(format!(
        ", {:.0} %, {}:{:02} left",
        100.0 * part,
        left / 60,
        left % 60
    ))
}

impl Progress for Spinner {
    fn expect(&self, total: u64) {
        self.total.store(total, Ordering::Relaxed);
    }

    fn is_shown(&self) -> bool {
        self.terminal
    }

    fn reach(&self, position: u64) {
        self.reached.store(position, Ordering::Relaxed);
    }

    fn show(&self, files: u64, bytes: u64) {
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
            "{files} files, {}, {}/s{}",
            size_text(bytes),
            size_text(rate as u64),
            outlook(
                elapsed,
                self.reached.load(Ordering::Relaxed),
                self.total.load(Ordering::Relaxed)
            )
            .unwrap_or_default()
        ));
        bar.tick();
    }

    fn suspend(&self, write: &mut dyn FnMut()) {
        match self.bar.get() {
            Some(bar) => bar.suspend(write),
            None => write(),
        }
    }

    fn finish(&self) {
        if let Some(bar) = self.bar.get() {
            bar.finish_and_clear();
        }
    }
}

/// A bar that shows how far work on bytes is, until it is dropped.
struct ByteBar(ProgressBar);

impl ByteBar {
    fn new(work: &'static str, bytes: u64) -> Self {
        let bar = ProgressBar::new(bytes).with_message(work);
        let template = "{spinner} {msg} {bar:30} {bytes} of {total_bytes}, {eta} left";
        if let Ok(style) = ProgressStyle::with_template(template) {
            bar.set_style(style);
        }
        bar.enable_steady_tick(TICK);
        Self(bar)
    }

    fn add(&self, bytes: u64) {
        self.0.inc(bytes);
    }
}

impl Drop for ByteBar {
    fn drop(&mut self) {
        self.0.finish_and_clear();
    }
}

/// Shows how far work on bytes is. The result takes counts of bytes that were done.
pub fn byte_bar(work: &'static str, bytes: u64) -> Box<dyn Fn(u64) + Send> {
    let bar = ByteBar::new(work, bytes);
    Box::new(move |done| bar.add(done))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_outlook() {
        let minute = Duration::from_secs(60);
        assert_eq!(outlook(minute, 50, 100).unwrap(), ", 50 %, 1:00 left");
        assert_eq!(outlook(minute, 200, 100).unwrap(), ", 100 %, 0:00 left");
        assert_eq!(outlook(minute, 5, 0), None);
    }
}
