// SPDX-License-Identifier: GPL-2.0-only
//! Changes of permissions in the syntax of chmod: "644", "u+rwX,go-w"; modes as letters.

use libc::{S_ISGID, S_ISUID, S_ISVTX};

const READ: u32 = 0o444;
const WRITE: u32 = 0o222;
const EXECUTE: u32 = 0o111;
const ALL: u32 = 0o7777;

/// A change of permissions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ModeChange(Vec<Step>);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Operator {
    Add,
    Remove,
    Set,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Step {
    operator: Operator,
    /// Bits of the classes that change; `None`: those of all, except the bits of the umask.
    classes: Option<u32>,
    bits: Bits,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Bits {
    /// Permissions for all classes. `search`: also execution, of directories and of files that any
    /// class may execute.
    Given { bits: u32, search: bool },
    /// The present permissions of one class, shifted by this many bits.
    Copied(u32),
    /// Exactly these. Directories keep set-user-ID and set-group-ID unless `clear`.
    Octal { bits: u32, clear: bool },
}

impl ModeChange {
    /// Parses a mode as chmod(1) takes it: numbers, or words such as "u+x".
    pub fn parse(text: &str) -> Result<Self, String> {
        let wrong = || format!("\"{text}\" is not a mode such as 644, u=rw,go=r or a+X");
        if text.starts_with(|c: char| c.is_ascii_digit()) {
            let bits = u32::from_str_radix(text, 8).map_err(|_| wrong())?;
            if bits > ALL {
                return Err(wrong());
            }
            let clear = text.len() > 4;
            return Ok(Self(vec![Step {
                operator: Operator::Set,
                classes: Some(ALL),
                bits: Bits::Octal { bits, clear },
            }]));
        }
        let mut steps = Vec::new();
        for clause in text.split(',') {
            parse_clause(clause, &mut steps).ok_or_else(wrong)?;
        }
        Ok(Self(steps))
    }

    /// Applies the change to the permissions of a file.
    pub fn apply(&self, mode: u32, directory: bool, umask: u32) -> u32 {
        self.0
            .iter()
            .fold(mode & ALL, |mode, step| step.apply(mode, directory, umask))
    }
}

/// "ug+rw-x": classes, then operators with permissions.
fn parse_clause(clause: &str, steps: &mut Vec<Step>) -> Option<()> {
    let start = clause.find(['+', '-', '='])?;
    let mut classes = None;
    for class in clause[..start].chars() {
        let bits = match class {
            'u' => S_ISUID | 0o700,
            'g' => S_ISGID | 0o070,
            'o' => S_ISVTX | 0o007,
            'a' => ALL,
            _ => return None,
        };
        classes = Some(classes.unwrap_or(0) | bits);
    }
    let mut rest = &clause[start..];
    while let Some(first) = rest.chars().next() {
        let operator = match first {
            '+' => Operator::Add,
            '-' => Operator::Remove,
            _ => Operator::Set,
        };
        rest = &rest[1..];
        let end = rest.find(['+', '-', '=']).unwrap_or(rest.len());
        steps.push(Step {
            operator,
            classes,
            bits: parse_bits(&rest[..end])?,
        });
        rest = &rest[end..];
    }
    Some(())
}

fn parse_bits(text: &str) -> Option<Bits> {
    match text {
        "u" => return Some(Bits::Copied(6)),
        "g" => return Some(Bits::Copied(3)),
        "o" => return Some(Bits::Copied(0)),
        _ => {}
    }
    let (mut bits, mut search) = (0, false);
    for letter in text.chars() {
        match letter {
            'r' => bits |= READ,
            'w' => bits |= WRITE,
            'x' => bits |= EXECUTE,
            'X' => search = true,
            's' => bits |= S_ISUID | S_ISGID,
            't' => bits |= S_ISVTX,
            _ => return None,
        }
    }
    Some(Bits::Given { bits, search })
}

impl Step {
    fn apply(&self, mode: u32, directory: bool, umask: u32) -> u32 {
        let classes = self.classes.unwrap_or(ALL & !umask);
        let mut named = 0;
        let value = match self.bits {
            Bits::Given { bits, search } => {
                named = bits;
                let search = search && (directory || mode & EXECUTE != 0);
                bits | if search { EXECUTE } else { 0 }
            }
            Bits::Copied(shift) => (mode >> shift & 7) * 0o111,
            Bits::Octal { bits, clear } => {
                named = if clear { ALL } else { bits };
                bits
            }
        };
        // Directories keep the special bits unless the mode names them.
        let kept = if directory {
            (S_ISUID | S_ISGID) & !(named & classes)
        } else {
            0
        };
        let value = value & classes & !kept;
        match self.operator {
            Operator::Add => mode | value,
            Operator::Remove => mode & !value,
            Operator::Set => mode & (!self.classes.unwrap_or(ALL) | kept) | value,
        }
    }
}

/// A mode as in "drwxr-xr-x".
pub fn mode_letters(mode: u32) -> String {
    let kind = match mode & libc::S_IFMT {
        libc::S_IFDIR => 'd',
        libc::S_IFLNK => 'l',
        libc::S_IFBLK => 'b',
        libc::S_IFCHR => 'c',
        libc::S_IFIFO => 'p',
        libc::S_IFSOCK => 's',
        libc::S_IFREG => '-',
        _ => '?',
    };
    let mut text = String::from(kind);
    for (shift, special, set, unset) in [
        (6, libc::S_ISUID, 's', 'S'),
        (3, libc::S_ISGID, 's', 'S'),
        (0, libc::S_ISVTX, 't', 'T'),
    ] {
        let bits = mode >> shift;
        text.push(if bits & 4 != 0 { 'r' } else { '-' });
        text.push(if bits & 2 != 0 { 'w' } else { '-' });
        text.push(match (mode & special != 0, bits & 1 != 0) {
            (false, false) => '-',
            (false, true) => 'x',
            (true, true) => set,
            (true, false) => unset,
        });
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn apply(change: &str, mode: u32, directory: bool) -> u32 {
        ModeChange::parse(change)
            .unwrap()
            .apply(mode, directory, 0o022)
    }

    #[test]
    fn octal() {
        assert_eq!(apply("644", 0o4755, false), 0o644);
        assert_eq!(apply("4755", 0, false), 0o4755);
        assert_eq!(apply("755", 0o2700, true), 0o2755);
        assert_eq!(apply("00755", 0o2700, true), 0o755);
        assert_eq!(apply("0", 0o1777, true), 0);
    }

    #[test]
    fn symbolic() {
        assert_eq!(apply("u+rwX,go-w", 0o666, false), 0o644);
        assert_eq!(apply("u+rwX,go-w", 0o066, true), 0o744);
        assert_eq!(apply("a=r,u+w", 0o777, false), 0o644);
        assert_eq!(apply("+w", 0o400, false), 0o600);
        assert_eq!(apply("go=u", 0o640, false), 0o666);
        assert_eq!(apply("u=g,g-x+w", 0o750, false), 0o560);
        assert_eq!(apply("u+s,+t", 0o755, false), 0o5755);
        assert_eq!(apply("g-s", 0o2755, true), 0o755);
        assert_eq!(apply("g=rx", 0o2775, true), 0o2755);
        assert_eq!(apply("g=rx", 0o2775, false), 0o755);
        assert_eq!(apply("a=", 0o777, false), 0);
    }

    #[test]
    fn nonsense() {
        for bad in ["", "8", "77777", "u", "z+r", "u+q", "u+ug", "+r,", "rw"] {
            assert!(ModeChange::parse(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn letters_of_modes() {
        assert_eq!(mode_letters(0o100644), "-rw-r--r--");
        assert_eq!(mode_letters(0o041777), "drwxrwxrwt");
        assert_eq!(mode_letters(0o104755), "-rwsr-xr-x");
        assert_eq!(mode_letters(0o102644), "-rw-r-Sr--");
        assert_eq!(mode_letters(0o120777), "lrwxrwxrwx");
    }
}
