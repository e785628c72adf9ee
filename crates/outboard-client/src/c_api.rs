// SPDX-License-Identifier: MIT
//! The functions of `outboard/client.h`, which documents them.

use crate::client::{Client, Reconnect};
use crate::error::ClientError;
use crate::process::ForkSide;
use std::cell::RefCell;
use std::ffi::{c_char, c_int, c_long, c_uint, c_void, CStr, CString, OsStr};
use std::os::unix::ffi::OsStrExt;
use std::panic::{catch_unwind, AssertUnwindSafe};
use std::ptr::null_mut;
use std::sync::atomic::{AtomicPtr, Ordering};
use std::sync::Once;
use std::time::Duration;

/// The one client of a C program. Clients are never freed, since another thread may be about to use
/// one; a child of fork(2) needs no lock for it.
static CLIENT: AtomicPtr<Client> = AtomicPtr::new(null_mut());

thread_local! {
    static LAST: RefCell<CString> = RefCell::default();
}

/// The text of a panic would be on standard error already.
const MISTAKE: c_int = -libc::ENOTRECOVERABLE;

fn current() -> Option<&'static Client> {
    // SAFETY: clients are never freed.
    unsafe { CLIENT.load(Ordering::Acquire).as_ref() }
}

fn set_current(client: Client) {
    let mut client = client;
    if let Some(old) = current() {
        match old.take_over(client) {
            Ok(()) => return,
            Err(other) => client = other,
        }
        // Its connection was lost: descriptors and slots of it are of no use any more.
        old.disconnect();
    }
    CLIENT.store(Box::leak(Box::new(client)), Ordering::Release);
}

/// Does the work of a function that returns an error number. No panic reaches the program.
fn caught(work: impl FnOnce() -> c_int) -> c_int {
    catch_unwind(AssertUnwindSafe(work)).unwrap_or(MISTAKE)
}

/// Keeps the text for the thread. Returns the number.
fn report(error: &ClientError) -> c_int {
    let text = CString::new(error.to_string().replace('\0', "?")).unwrap_or_default();
    // A thread that ends may have no variables any more.
    let _ = LAST.try_with(|last| last.replace(text));
    -error.errno()
}

fn no_connection() -> c_int {
    report(&ClientError::not_connected("call ob_client_connect first"))
}

/// The strings of a list that ends with NULL; none for NULL.
///
/// # Safety
///
/// The list and its strings outlive the result.
unsafe fn texts<'a>(list: *const *const c_char) -> Vec<&'a CStr> {
    let mut all = Vec::new();
    while !list.is_null() {
        // SAFETY: the list has an end, which this has not reached yet.
        let text = unsafe { *list.add(all.len()) };
        if text.is_null() {
            break;
        }
        // SAFETY: a string of the list.
        all.push(unsafe { CStr::from_ptr(text) });
    }
    all
}

extern "C" {
    fn on_exit(handler: extern "C" fn(c_int, *mut c_void), context: *mut c_void) -> c_int;
}

/// At exit(3), the process of the kernel ends with the status of this one.
fn pass_status_on() {
    extern "C" fn exit_inside(status: c_int, _context: *mut c_void) {
        caught(|| {
            if let Some(client) = current() {
                // Without a connection there is no process.
                let _ = client.exit(status);
            }
            0
        });
    }
    static REGISTERED: Once = Once::new();
    REGISTERED.call_once(|| {
        // SAFETY: the function is there as long as the process: the library is never unloaded.
        unsafe { on_exit(exit_inside, null_mut()) };
    });
}

fn connect(url: Option<&CStr>) -> c_int {
    if current().is_some_and(|client| client.process().is_some()) {
        let message = "this process is connected: call ob_client_disconnect first";
        return report(&ClientError::new(libc::EISCONN, message));
    }
    let opened = match url {
        Some(url) => Client::connect(OsStr::from_bytes(url.to_bytes())),
        None => Client::from_environment(),
    };
    match opened {
        Ok(client) => {
            set_current(client);
            pass_status_on();
            0
        }
        Err(error) => report(&error),
    }
}

/// # Safety
///
/// `url` is NULL or a string.
#[no_mangle]
pub unsafe extern "C" fn ob_client_connect(url: *const c_char) -> c_int {
    // SAFETY: not NULL; the caller passes a string.
    let url = (!url.is_null()).then(|| unsafe { CStr::from_ptr(url) });
    caught(|| connect(url))
}

#[no_mangle]
pub extern "C" fn ob_client_disconnect() {
    caught(|| {
        if let Some(client) = current() {
            client.disconnect();
        }
        0
    });
}

#[no_mangle]
pub extern "C" fn ob_client_error() -> *const c_char {
    LAST.try_with(|last| last.borrow().as_ptr())
        .unwrap_or(c"".as_ptr())
}

#[no_mangle]
pub extern "C" fn ob_client_set_reconnect(policy: c_int, seconds: c_uint) -> c_int {
    let reconnect = match policy {
        0 => Reconnect::Never,
        1 => Reconnect::For(Duration::from_secs(seconds.into())),
        2 => Reconnect::Forever,
        3 => Reconnect::Die,
        _ => return -libc::EINVAL,
    };
    caught(|| match current() {
        Some(client) => {
            client.set_reconnect(reconnect);
            0
        }
        None => no_connection(),
    })
}

/// Variadic in the header: on x86-64, a caller passes numbers and pointers of a variadic function
/// where this one finds them. Arguments that it does not pass have any value, and go nowhere.
///
/// # Safety
///
/// Pointers are as the system call needs them.
#[no_mangle]
pub unsafe extern "C" fn ob_client_syscall(
    number: c_long,
    a: c_long,
    b: c_long,
    c: c_long,
    d: c_long,
    e: c_long,
    f: c_long,
) -> c_long {
    let arguments = [a, b, c, d, e, f].map(|argument| argument as u64);
    let Some(client) = current() else {
        return caught(no_connection).into();
    };
    // SAFETY: the caller's pointers are good.
    let call = || unsafe { client.call(number as u64, arguments) };
    catch_unwind(AssertUnwindSafe(call)).unwrap_or(MISTAKE.into())
}

fn fork(host: *mut libc::pid_t) -> c_int {
    let Some(client) = current() else {
        return no_connection();
    };
    let reconnect = client.reconnect();
    // SAFETY: the caller keeps to the rules of fork(2).
    let side = unsafe { client.fork() };
    match side {
        Ok(ForkSide::Parent {
            process,
            host: number,
        }) => {
            if !host.is_null() {
                // SAFETY: not NULL; the caller passes memory for it.
                unsafe { host.write(number) };
            }
            process
        }
        Ok(ForkSide::Child {
            client: child,
            error,
        }) => {
            child.set_reconnect(reconnect);
            set_current(child);
            if let Some(error) = error {
                report(&error);
            }
            0
        }
        Err(errno) => {
            let reason = std::io::Error::from_raw_os_error(errno);
            report(&ClientError::of_io("cannot fork", &reason))
        }
    }
}

/// # Safety
///
/// `host` is NULL or leads to memory for a number. The rules of fork(2).
#[no_mangle]
pub unsafe extern "C" fn ob_client_fork(host: *mut libc::pid_t) -> c_int {
    caught(|| fork(host))
}

/// # Safety
///
/// As execve(2).
#[no_mangle]
pub unsafe extern "C" fn ob_client_execve(
    path: *const c_char,
    words: *const *const c_char,
    environment: *const *const c_char,
) -> c_int {
    if path.is_null() {
        return -libc::EFAULT;
    }
    caught(|| {
        let Some(client) = current() else {
            return no_connection();
        };
        // SAFETY: the caller passes a string and two lists of strings.
        let (path, words, environment) =
            unsafe { (CStr::from_ptr(path), texts(words), texts(environment)) };
        report(&client.exec(path, &words, &environment))
    })
}
