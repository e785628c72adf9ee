// SPDX-License-Identifier: GPL-2.0-only
//! Lines of the kernel's log that say why a program has ended, as warnings for the user.
//!
//! | line of the log | warning |
//! |---|---|
//! | `Out of memory: Killed process N (NAME) total-vm:...` | with the reason of a later line |
//! | `Out of memory: REASON` | for each of these: `NAME (process N) was killed: REASON` |
//! | `NAME (process N) TEXT` | the same |
//!
//! Where a control group has reached its limit, the first lines begin with `Memory cgroup out of
//! memory: `. With memory.oom.group, all programs of the group are killed for one reason.

use crate::session::without_time;
use outboard::{Level, LogRing};
use outboard_error::{warn, Hint};
use std::sync::Arc;

/// How lines about memory begin: where the kernel has no more, and where a control group has.
const KERNEL: &str = "Out of memory: ";
const GROUP: &str = "Memory cgroup out of memory: ";

/// Watches the log.
pub(super) struct ProgramEnds {
    log: Arc<LogRing>,
    /// Lines before this position are done.
    position: usize,
    /// The programs that were killed, until the line with the reason.
    victims: Vec<String>,
}

impl ProgramEnds {
    pub(super) fn new(log: Arc<LogRing>) -> Self {
        let position = log.position();
        Self {
            log,
            position,
            victims: Vec::new(),
        }
    }

    /// Warns of all that the log says since the last call.
    pub(super) fn report(&mut self) {
        for (number, line) in self.log.numbered_since(self.position, Level::Warning) {
            self.position = number + 1;
            for warning in self.warnings(without_time(&line).trim_end()) {
                warn(warning);
            }
        }
    }

    fn warnings(&mut self, line: &str) -> Vec<String> {
        let of_kernel = line.strip_prefix(KERNEL);
        let Some(text) = of_kernel.or_else(|| line.strip_prefix(GROUP)) else {
            let shown = names_process(line).then(|| format!("warning: {line}"));
            return shown.into_iter().collect();
        };
        if let Some(victim) = killed(text) {
            // Linux also kills the first one of a group again.
            if !self.victims.contains(&victim) {
                self.victims.push(victim);
            }
            return Vec::new();
        }
        let hint = if text.starts_with("the kernel") {
            Hint::MoreMemory.to_string()
        } else {
            String::new()
        };
        let ends = self.victims.drain(..);
        ends.map(|victim| format!("warning: {victim} was killed: {text}{hint}"))
            .collect()
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
        let warnings = lines.iter().flat_map(|line| ends.warnings(line));
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
    fn all_of_a_group_are_killed_for_its_limit() {
        let lines = [
            "Memory cgroup out of memory: Killed process 5 (a) total-vm:4kB, anon-rss:3kB",
            "Tasks in /box are going to be killed due to memory.oom.group set",
            "Memory cgroup out of memory: Killed process 5 (a) total-vm:4kB, anon-rss:0kB",
            "Memory cgroup out of memory: Killed process 6 (b) total-vm:4kB, anon-rss:3kB",
            "Memory cgroup out of memory: memory.max of /box is 8 KB",
            "Memory cgroup out of memory: memory.max of /box is 8 KB",
        ];
        assert_eq!(
            warnings(&lines),
            [
                "warning: a (process 5) was killed: memory.max of /box is 8 KB",
                "warning: b (process 6) was killed: memory.max of /box is 8 KB"
            ]
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
