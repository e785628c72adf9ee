// SPDX-License-Identifier: GPL-2.0-only
//! Terminals: settings, window sizes, new ones of a kernel; and raw mode of this process's own
//! terminal, which ends with the process, whatever ends it but SIGKILL.

use crate::system::{pointer, pointer_mut};
use crate::Fd;
use libc::{c_int, c_ulong};
use std::io;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::sync::OnceLock;

/// `struct termios` of Linux, as TCGETS and TCSETS have it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct TerminalSettings {
    input: u32,
    output: u32,
    control: u32,
    local: u32,
    line: u8,
    characters: [u8; 19],
}

/// `struct winsize`: of a terminal's window, in characters and in pixels.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct WindowSize {
    /// Lines of text.
    pub rows: u16,
    /// Characters of a line.
    pub columns: u16,
    /// Pixels.
    pub width: u16,
    /// Pixels.
    pub height: u16,
}

impl TerminalSettings {
    /// The same, but that all bytes pass as they are, as cfmakeraw(3) has it.
    pub fn raw(mut self) -> Self {
        self.input &= !(libc::IGNBRK
            | libc::BRKINT
            | libc::PARMRK
            | libc::ISTRIP
            | libc::INLCR
            | libc::IGNCR
            | libc::ICRNL
            | libc::IXON);
        self.output &= !libc::OPOST;
        self.local &= !(libc::ECHO | libc::ECHONL | libc::ICANON | libc::ISIG | libc::IEXTEN);
        self.control &= !(libc::CSIZE | libc::PARENB);
        self.control |= libc::CS8;
        self.characters[libc::VMIN] = 1;
        self.characters[libc::VTIME] = 0;
        self
    }
}

impl Fd {
    /// # Safety
    /// `data` is what the request takes: a number, or the address of a structure that is as large
    /// as the request has it and outlives the call.
    unsafe fn terminal_call(&self, request: c_ulong, data: usize) -> io::Result<usize> {
        let arguments = [request as usize, data, 0, 0, 0];
        // SAFETY: the caller's promise.
        unsafe { self.call(libc::SYS_ioctl, arguments) }
    }

    /// ENOTTY: it is no terminal.
    pub fn terminal_settings(&self) -> io::Result<TerminalSettings> {
        let mut settings = TerminalSettings::default();
        // SAFETY: TCGETS fills in such a structure.
        unsafe { self.terminal_call(libc::TCGETS, pointer_mut(&mut settings)) }?;
        Ok(settings)
    }

    /// Does not wait for output.
    pub fn set_terminal_settings(&self, settings: &TerminalSettings) -> io::Result<()> {
        // SAFETY: TCSETS reads such a structure.
        unsafe { self.terminal_call(libc::TCSETS, pointer(settings)) }.map(drop)
    }

    /// The size of the terminal's window.
    pub fn window_size(&self) -> io::Result<WindowSize> {
        let mut size = WindowSize::default();
        // SAFETY: TIOCGWINSZ fills in such a structure.
        unsafe { self.terminal_call(libc::TIOCGWINSZ, pointer_mut(&mut size)) }?;
        Ok(size)
    }

    /// Programs at the terminal get SIGWINCH if the size is another one.
    pub fn set_window_size(&self, size: WindowSize) -> io::Result<()> {
        // SAFETY: TIOCSWINSZ reads such a structure.
        unsafe { self.terminal_call(libc::TIOCSWINSZ, pointer(&size)) }.map(drop)
    }

    /// Of a /dev/ptmx that was opened: the terminal at its other end.
    pub fn open_terminal(&self) -> io::Result<Self> {
        let locked: c_int = 0;
        // SAFETY: TIOCSPTLCK reads a number.
        unsafe { self.terminal_call(libc::TIOCSPTLCK, pointer(&locked)) }?;
        let flags = libc::O_RDWR | libc::O_NOCTTY | libc::O_CLOEXEC;
        // SAFETY: TIOCGPTPEER takes flags. The new number belongs to nobody else.
        let number = unsafe { self.terminal_call(libc::TIOCGPTPEER, flags as usize) }?;
        Ok(Self::own(self.system(), number))
    }
}

/// What the terminal at standard input had before it was made raw.
static BEFORE: OnceLock<TerminalSettings> = OnceLock::new();
static IS_RAW: AtomicBool = AtomicBool::new(false);

/// While this lives, the terminal at standard input passes all bytes as they are.
#[derive(Debug)]
pub struct RawTerminal(());

impl RawTerminal {
    /// Of the settings before, those of the first call are restored.
    pub fn new() -> io::Result<Self> {
        let terminal = Fd::standard(0)?;
        let before = *BEFORE.get_or_init(|| terminal.terminal_settings().unwrap_or_default());
        let raw = terminal.terminal_settings()?.raw();
        if before == TerminalSettings::default() {
            return Err(io::Error::from_raw_os_error(libc::ENOTTY));
        }
        IS_RAW.store(true, SeqCst);
        let guard = Self(());
        terminal.set_terminal_settings(&raw)?;
        Ok(guard)
    }
}

impl Drop for RawTerminal {
    fn drop(&mut self) {
        restore_terminal();
    }
}

/// Ends raw mode, if it has begun. Async-signal-safe: all that ends the process calls it.
pub fn restore_terminal() {
    if !IS_RAW.swap(false, SeqCst) {
        return;
    }
    if let Some(before) = BEFORE.get() {
        // SAFETY: TCSETS reads such a structure.
        unsafe { libc::ioctl(0, libc::TCSETS, pointer(before)) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn raw_settings_pass_all_bytes() {
        let cooked = TerminalSettings {
            input: libc::ICRNL | libc::IXON | libc::IUTF8,
            output: libc::OPOST,
            control: libc::CS8 | libc::CREAD,
            local: libc::ECHO | libc::ISIG | libc::ICANON,
            ..TerminalSettings::default()
        };
        let raw = cooked.raw();
        assert_eq!((raw.input, raw.output, raw.local), (libc::IUTF8, 0, 0));
        assert_eq!(raw.control, libc::CS8 | libc::CREAD);
        assert_eq!(raw.characters[libc::VMIN], 1);
    }

    #[test]
    fn a_pipe_is_no_terminal() {
        let null = Fd::working_directory(&crate::System::Host)
            .open_at(c"/dev/null", libc::O_RDWR, 0)
            .expect("there is /dev/null");
        let error = null.terminal_settings().expect_err("it is none");
        assert_eq!(error.raw_os_error(), Some(libc::ENOTTY));
        assert!(null.window_size().is_err() && null.open_terminal().is_err());
    }
}
