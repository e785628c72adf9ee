// SPDX-License-Identifier: GPL-2.0-only
//! Signals as configurations of images write them: `SIGTERM`, `TERM`, `15`, `SIGRTMIN+3`.

/// The largest number of a signal, and the first one that is free for programs.
const LAST: i32 = 64;
const FIRST_FREE: i32 = 34;

const NAMES: [(&str, i32); 20] = [
    ("HUP", libc::SIGHUP),
    ("INT", libc::SIGINT),
    ("QUIT", libc::SIGQUIT),
    ("ILL", libc::SIGILL),
    ("TRAP", libc::SIGTRAP),
    ("ABRT", libc::SIGABRT),
    ("BUS", libc::SIGBUS),
    ("FPE", libc::SIGFPE),
    ("KILL", libc::SIGKILL),
    ("USR1", libc::SIGUSR1),
    ("SEGV", libc::SIGSEGV),
    ("USR2", libc::SIGUSR2),
    ("PIPE", libc::SIGPIPE),
    ("ALRM", libc::SIGALRM),
    ("TERM", libc::SIGTERM),
    ("CONT", libc::SIGCONT),
    ("STOP", libc::SIGSTOP),
    ("TSTP", libc::SIGTSTP),
    ("WINCH", libc::SIGWINCH),
    ("PWR", libc::SIGPWR),
];

/// The number of a signal. `None`: there is no such signal.
pub(super) fn number(text: &str) -> Option<i32> {
    if let Ok(number) = text.parse() {
        return (1..=LAST).contains(&number).then_some(number);
    }
    let upper = text.to_ascii_uppercase();
    let name = upper.strip_prefix("SIG").unwrap_or(&upper);
    let free = |from: i32, more: &str| match more {
        "" => Some(from),
        more => more.parse::<i8>().ok().map(|more| from + i32::from(more)),
    };
    let number = match (name.strip_prefix("RTMIN"), name.strip_prefix("RTMAX")) {
        (Some(more), _) => free(FIRST_FREE, more),
        (_, Some(more)) => free(LAST, more),
        _ => {
            let known = NAMES.iter().find(|(known, _)| *known == name);
            known.map(|(_, number)| *number)
        }
    };
    number.filter(|number| (1..=LAST).contains(number))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn signals_have_numbers_and_names() {
        let numbers = ["SIGTERM", "term", "9", "SIGRTMIN+3", "RTMAX-1"].map(number);
        assert_eq!(numbers, [15, 15, 9, 37, 63].map(Some));
        for wrong in ["", "0", "65", "-1", "SIGNOTHING", "SIGRTMIN+60"] {
            assert_eq!(number(wrong), None, "{wrong}");
        }
    }
}
