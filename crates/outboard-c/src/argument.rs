// SPDX-License-Identifier: GPL-2.0-only
//! Arguments that are pointers of the caller. Each type is one pointer of the header; NULL and
//! wrong sizes are failures. The caller promises what the header asks for: other pointers are valid
//! during the call.

use crate::memory::Memory;
use crate::result::{CallFailure, Result};
use std::ffi::{c_char, c_int, CStr, OsStr};
use std::fs::File;
use std::io;
use std::marker::PhantomData;
use std::mem::{size_of, MaybeUninit};
use std::os::fd::BorrowedFd;
use std::os::unix::ffi::OsStrExt;
use std::path::{Display, Path};
use std::ptr;
use std::slice;
use std::sync::atomic::AtomicU32;

/// A name or a path of the caller, for messages.
pub fn shown(text: &OsStr) -> Display<'_> {
    Path::new(text).display()
}

fn no_null(what: &str) -> CallFailure {
    CallFailure::usage(format!("{what} is NULL"))
}

/// A `const char *`.
#[derive(Clone, Copy)]
#[repr(transparent)]
pub struct Text<'a>(*const c_char, PhantomData<&'a CStr>);

impl<'a> Text<'a> {
    /// Its bytes. `None`: NULL.
    pub fn optional(self) -> Option<&'a OsStr> {
        if self.0.is_null() {
            return None;
        }
        // SAFETY: not NULL; the caller passes a string that ends with a byte 0 and stays as it is
        // during the call.
        let text = unsafe { CStr::from_ptr(self.0) };
        Some(OsStr::from_bytes(text.to_bytes()))
    }

    /// Its bytes; `what` names it in messages.
    pub fn required(self, what: &str) -> Result<&'a OsStr> {
        self.optional().ok_or_else(|| no_null(what))
    }
}

/// A list of strings that ends with NULL.
#[derive(Clone, Copy)]
#[repr(transparent)]
pub struct Texts<'a>(*const Text<'a>);

impl<'a> Texts<'a> {
    /// Its strings; none for NULL.
    pub fn all(self) -> Vec<&'a OsStr> {
        let mut texts = Vec::new();
        while !self.0.is_null() {
            // SAFETY: not NULL; the caller's list has an end, which this has not reached yet.
            match unsafe { *self.0.add(texts.len()) }.optional() {
                Some(text) => texts.push(text),
                None => break,
            }
        }
        texts
    }
}

/// A `const void *` to bytes, whose number comes beside it.
#[derive(Clone, Copy)]
#[repr(transparent)]
pub struct InBytes<'a>(*const u8, PhantomData<&'a [u8]>);

fn check_length(length: usize, null: bool, what: &str) -> Result<()> {
    if null && length > 0 {
        return Err(no_null(what));
    }
    if length > isize::MAX as usize {
        let text = format!("{length} bytes are more than {what} can have");
        return Err(CallFailure::usage(text));
    }
    Ok(())
}

impl<'a> InBytes<'a> {
    pub fn is_null(self) -> bool {
        self.0.is_null()
    }

    pub fn get(self, length: usize, what: &str) -> Result<&'a [u8]> {
        check_length(length, self.0.is_null(), what)?;
        if length == 0 {
            return Ok(&[]);
        }
        // SAFETY: not NULL; the caller passes this many bytes, which stay as they are during the
        // call.
        Ok(unsafe { slice::from_raw_parts(self.0, length) })
    }
}

/// A `const T *` to values without a size, whose number comes beside it.
#[derive(Clone, Copy)]
#[repr(transparent)]
pub struct InValues<'a, T>(*const T, PhantomData<&'a [T]>);

impl<'a, T: Copy> InValues<'a, T> {
    pub fn get(self, count: usize, what: &str) -> Result<&'a [T]> {
        check_length(count.saturating_mul(size_of::<T>()), self.0.is_null(), what)?;
        if count == 0 {
            return Ok(&[]);
        }
        // SAFETY: not NULL; the caller passes this many values, which stay as they are during the
        // call.
        Ok(unsafe { slice::from_raw_parts(self.0, count) })
    }
}

/// A `void *` to bytes that the call fills.
#[repr(transparent)]
pub struct OutBytes<'a>(*mut u8, PhantomData<&'a mut [u8]>);

impl<'a> OutBytes<'a> {
    pub fn get(self, length: usize, what: &str) -> Result<&'a mut [u8]> {
        check_length(length, self.0.is_null(), what)?;
        if length == 0 {
            return Ok(&mut []);
        }
        // SAFETY: not NULL; the caller passes memory for this many bytes, which nobody else uses
        // during the call. Only the kernel of the volume reads or writes them.
        Ok(unsafe { slice::from_raw_parts_mut(self.0, length) })
    }
}

/// A pointer to where one value of the result goes.
#[repr(transparent)]
pub struct Out<T>(*mut T);

impl<T> Out<T> {
    /// Checks the pointer, and stores `empty` for the case of a failure.
    pub fn checked(self, what: &str, empty: T) -> Result<OutPointer<T>> {
        if self.0.is_null() {
            return Err(no_null(what));
        }
        let place = OutPointer(self.0);
        place.store(empty);
        Ok(place)
    }
}

impl<T> Out<T> {
    /// As [`Out::checked`]. `None`: NULL, the caller does not want the value.
    pub fn optional(self, empty: T) -> Option<OutPointer<T>> {
        self.checked("", empty).ok()
    }
}

/// A checked [`Out`].
pub struct OutPointer<T>(*mut T);

impl<T> OutPointer<T> {
    pub fn set(self, value: T) {
        self.store(value);
    }

    fn store(&self, value: T) {
        // SAFETY: not NULL; the caller passes memory for a T. Its old contents need no drop.
        unsafe { self.0.write(value) }
    }
}

/// A pointer to where memory goes that the caller releases.
pub type OutMemory = Out<*mut libc::c_void>;

impl OutPointer<*mut libc::c_void> {
    pub fn give(self, memory: Memory) {
        self.set(memory.release());
    }
}

/// A struct of the header that begins with its size.
///
/// # Safety
/// `repr(C)`, begins with `size: usize`, and all bytes 0 are a value.
pub unsafe trait Versioned: Copy {
    /// The bytes of its first version.
    const LEAST: usize;
    const NAME: &'static str;
}

/// The size that a struct of the caller says it has. `None`: NULL.
fn size_of_struct<T: Versioned>(pointer: *const T) -> Option<Result<usize>> {
    if pointer.is_null() {
        return None;
    }
    // SAFETY: not NULL; the struct begins with its size.
    let size = unsafe { pointer.cast::<usize>().read() };
    if size < T::LEAST || size > MOST_SIZE {
        let text = format!("the size of struct {} is {size}: set it to sizeof", T::NAME);
        return Some(Err(CallFailure::usage(text)));
    }
    Some(Ok(size))
}

/// No struct will ever be larger.
const MOST_SIZE: usize = 4096;

/// A pointer to a struct that the caller has filled.
#[derive(Clone, Copy)]
#[repr(transparent)]
pub struct In<'a, T>(*const T, PhantomData<&'a T>);

impl<T: Versioned> In<'_, T> {
    /// Its value; members that the caller does not know are 0. `None`: NULL.
    pub fn get(self) -> Result<Option<T>> {
        let Some(size) = size_of_struct(self.0) else {
            return Ok(None);
        };
        let size = size?;
        let known = size.min(size_of::<T>());
        let mut value = MaybeUninit::<T>::zeroed();
        // SAFETY: the caller's struct has `size` bytes, and both have `known` ones. All bytes 0 are
        // a T, and the caller's bytes are those of its members.
        let value = unsafe {
            ptr::copy_nonoverlapping(self.0.cast::<u8>(), value.as_mut_ptr().cast(), known);
            value.assume_init()
        };
        // SAFETY: these bytes are inside of the caller's struct.
        let more = unsafe { slice::from_raw_parts(self.0.cast::<u8>().add(known), size - known) };
        if more.iter().any(|&byte| byte != 0) {
            let text = format!("struct {} has members of a newer library", T::NAME);
            return Err(CallFailure::usage(text));
        }
        Ok(Some(value))
    }
}

/// A pointer to a struct that the call fills, up to the size that the caller has set.
#[repr(transparent)]
pub struct Fill<T>(*mut T);

impl<T: Versioned> Fill<T> {
    /// `None`: NULL.
    pub fn optional(self) -> Result<Option<FillPointer<T>>> {
        match size_of_struct(self.0) {
            Some(size) => Ok(Some(FillPointer(self.0, size?))),
            None => Ok(None),
        }
    }

    pub fn required(self) -> Result<FillPointer<T>> {
        self.optional()?.ok_or_else(|| no_null(T::NAME))
    }

    /// The results of an earlier call, and where they are. `None`: NULL.
    pub fn stored(self) -> Result<Option<(T, FillPointer<T>)>> {
        let stored = In::<T>(self.0, PhantomData).get()?;
        Ok(stored.zip(self.optional()?))
    }
}

/// A checked [`Fill`].
pub struct FillPointer<T>(*mut T, usize);

impl<T: Versioned> FillPointer<T> {
    /// Stores all members but the size. Members that this library does not know stay as they are.
    pub fn set(&self, value: T) {
        let skip = size_of::<usize>();
        let length = self.1.min(size_of::<T>()) - skip;
        let value = ptr::from_ref(&value).cast::<u8>();
        // SAFETY: both structs have these bytes; they do not overlap, as `value` is ours.
        unsafe {
            ptr::copy_nonoverlapping(value.add(skip), self.0.cast::<u8>().add(skip), length);
        }
    }
}

/// A pointer to one struct without a size, which never changes.
#[derive(Clone, Copy)]
#[repr(transparent)]
pub struct Fixed<'a, T>(*const T, PhantomData<&'a T>);

impl<'a, T: Copy> Fixed<'a, T> {
    pub fn get(self, what: &str) -> Result<T> {
        if self.0.is_null() {
            return Err(no_null(what));
        }
        // SAFETY: not NULL; the caller passes a T.
        Ok(unsafe { *self.0 })
    }
}

/// A number that other threads and signal handlers may change. NULL: there is none.
#[derive(Clone, Copy)]
#[repr(transparent)]
pub struct CancelFlag<'a>(*const u32, PhantomData<&'a AtomicU32>);

impl<'a> CancelFlag<'a> {
    pub const NONE: Self = Self(ptr::null(), PhantomData);

    pub fn get(self) -> Option<&'a AtomicU32> {
        if self.0.is_null() {
            return None;
        }
        // SAFETY: not NULL; the caller passes a number that exists during the call. This library
        // only loads it.
        Some(unsafe { AtomicU32::from_ptr(self.0.cast_mut()) })
    }
}

/// A file descriptor of the host.
#[derive(Clone, Copy)]
#[repr(transparent)]
pub struct Descriptor(c_int);

impl Descriptor {
    /// The same open file, by a descriptor of our own.
    pub fn duplicate(self) -> Result<File> {
        let failed = |error| CallFailure::of_io(format!("cannot use descriptor {}", self.0), error);
        if self.0 < 0 {
            return Err(failed(io::Error::from_raw_os_error(libc::EBADF)));
        }
        // SAFETY: no negative number. The caller keeps the descriptor open during the call; if it
        // is not open, the host says so.
        let borrowed = unsafe { BorrowedFd::borrow_raw(self.0) };
        Ok(File::from(borrowed.try_clone_to_owned().map_err(failed)?))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Clone, Copy)]
    #[repr(C)]
    struct Pair {
        size: usize,
        first: u64,
        second: u64,
    }

    // SAFETY: all of it holds.
    unsafe impl Versioned for Pair {
        const LEAST: usize = 16;
        const NAME: &'static str = "pair";
    }

    fn input(words: &[u64]) -> Result<Option<Pair>> {
        In::<Pair>(words.as_ptr().cast(), PhantomData).get()
    }

    #[test]
    fn structs_of_other_versions() {
        let old = input(&[16, 1, 7]).ok().flatten();
        assert!(old.is_some_and(|pair| (pair.first, pair.second) == (1, 0)));
        let new = input(&[32, 1, 2, 0]).ok().flatten();
        assert!(new.is_some_and(|pair| (pair.first, pair.second) == (1, 2)));
        assert!(input(&[32, 1, 2, 3]).is_err());
        assert!(input(&[8, 1, 2]).is_err());
        assert!(In::<Pair>(ptr::null(), PhantomData)
            .get()
            .is_ok_and(|found| found.is_none()));
    }

    #[test]
    fn results_stay_inside_of_structs() {
        let mut words: [u64; 4] = [16, 0, 9, 9];
        let value = Pair {
            size: 0,
            first: 1,
            second: 2,
        };
        let place = Fill::<Pair>(words.as_mut_ptr().cast()).required();
        place.unwrap_or_else(|_| panic!("refused")).set(value);
        assert_eq!(words, [16, 1, 9, 9]);
        assert!(Fill::<Pair>(ptr::null_mut()).required().is_err());
    }

    #[test]
    fn lengths() {
        assert!(InBytes(ptr::null(), PhantomData).get(1, "data").is_err());
        assert!(InBytes(ptr::null(), PhantomData).get(0, "data").is_ok());
        let byte = [1];
        assert!(InBytes(byte.as_ptr(), PhantomData)
            .get(usize::MAX, "data")
            .is_err());
    }
}
