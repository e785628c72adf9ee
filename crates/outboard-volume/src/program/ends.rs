// SPDX-License-Identifier: GPL-2.0-only
//! Lines of the kernel's log that say why a program has ended, as warnings for the user.
//!
//! | line of the log | warning |
//! |---|---|
//! | `Out of memory: Killed process N (NAME) total-vm:...` | with the reason of the next line |
//! | `Out of memory: REASON` | `NAME (process N) was killed: REASON` |
//! | `NAME (process N) TEXT` | the same |

use crate::session::without_time;
use outboard::{Level, LogRing};
use outboard_error::{warn, Hint};
use std::sync::Arc;

/// Watches the log.
pub(super) struct ProgramEnds {
    log: Arc<LogRing>,
    /// Lines before this position are done.
    position: usize,
    /// The program that was killed, until the line with the reason.
    victim: Option<String>,
}

impl ProgramEnds {
    pub(super) fn new(log: Arc<LogRing>) -> Self {
        let position = log.position();
        Self {
            log,
            position,
            victim: None,
        }
    }

    /// Warns of all that the log says since the last call.
    pub(super) fn report(&mut self) {
        for (number, line) in self.log.numbered_since(self.position, Level::Warning) {
            self.position = number + 1;
            if let Some(warning) = self.warning(without_time(&line).trim_end()) {
                warn(warning);
            }
        }
    }

    fn warning(&mut self, line: &str) -> Option<String> {
        let Some(text) = line.strip_prefix("Out of memory: ") else {
            return names_process(line).then(|| format!("warning: {line}"));
        };
        if let Some(victim) = killed(text) {
            self.victim = Some(victim);
            return None;
        }
        let victim = self.victim.take()?;
        let hint = if text.starts_with("the kernel") {
            Hint::MoreMemory.to_string()
        } else {
            String::new()
        };
        Some(format!("warning: {victim} was killed: {text}{hint}"))
    }
}

/// The program in Linux's own line. Its name may contain anything.
fn killed(text: &str) -> Option<String> {
    let (number, rest) = text.strip_prefix("Killed process ")?.split_once(" (")?;
    let (name, _) = rest.rsplit_once(") total-vm:")?;
    Some(format!("{name} (process {number})"))
}

fn names_process(line: &str) -> bool {
    let number = line.split_once(" (process ").map(|(_, rest)| rest);
    let number = number.and_then(|rest| rest.split_once(") "));
    number.is_some_and(|(number, _)| number.parse::<u32>().is_ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn warnings(lines: &[&str]) -> Vec<String> {
        let mut ends = ProgramEnds::new(Arc::new(LogRing::new(1)));
        let warnings = lines.iter().filter_map(|line| ends.warning(line));
        warnings.collect()
    }

    #[test]
    fn a_kill_for_memory_has_its_reason() {
        let killed = "Out of memory: Killed process 57 (a) total-vm:1) total-vm:4kB, anon-rss:3kB";
        let reason = "Out of memory: the host gives no more than 1 MB of the kernel's 2 MB";
        assert_eq!(
            warnings(&["a invoked oom-killer", killed, reason, reason]),
            ["warning: a) total-vm:1 (process 57) was killed: the host gives no more than 1 MB of \
              the kernel's 2 MB"]
        );
    }

    #[test]
    fn lines_about_a_process_are_shown() {
        let line = "init (process 3) wants a restart: all programs end";
        assert_eq!(warnings(&[line]), [format!("warning: {line}")]);
        let others = ["a (process x) b", "EXT4-fs (vda): mounted", "a (process 1)"];
        assert!(warnings(&others).is_empty());
    }
}
