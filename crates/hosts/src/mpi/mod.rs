//! MPI libraries: Open MPI, MPICH and its derivatives, and the standard ABI.
//!
//! Only a barrier and an all-gather are used, both in their non-blocking form: the waiter polls, at
//! first continuously and then with increasingly long sleeps. A blocking barrier spins and uses the
//! CPUs of the threads that read.

mod library;

use std::ffi::{CStr, c_char, c_int, c_void};
use std::thread;
use std::time::{Duration, Instant};

use library::MpiTable;
pub(crate) use library::{MpiLibrary, find};

use crate::rounds::{Backend, LibraryView};

/// How long to poll without sleeping, only yielding the CPU to other threads.
const EAGER: Duration = Duration::from_millis(1);
/// Minimum and maximum sleep between two polls; within these bounds a sleep is a small fraction of
/// the time already waited.
const SLEEPS: [Duration; 2] = [Duration::from_micros(20), Duration::from_millis(1)];
/// The longest text `MPI_Get_library_version` writes, by the limit of the standard ABI, which is
/// the largest.
const VERSION_BYTES: usize = 8192;
/// Larger than `MPI_Status` of every flavour.
const STATUS_WORDS: usize = 16;

/// An initialised MPI library, for one type of handle.
pub(crate) struct Mpi<H> {
    table: MpiTable<H>,
    seen: LibraryView,
}

impl<H: Copy> Mpi<H> {
    /// Initialises the library on the thread that will make all calls.
    pub(crate) fn init(table: MpiTable<H>) -> Result<Self, String> {
        // SAFETY: MPI accepts null for both arguments, and this is the process's only call.
        check("MPI_Init", unsafe { (table.init)(std::ptr::null_mut(), std::ptr::null_mut()) })?;
        // A lost host must not end this process before its results are saved.
        // SAFETY: MPI is set up, and both handles are predefined ones of this flavour.
        check("MPI_Comm_set_errhandler", unsafe {
            (table.set_errhandler)(table.world, table.errors_return)
        })?;
        let (mut rank, mut size) = (0, 0);
        // SAFETY: MPI is set up; rank is an integer that lives through the call.
        check("MPI_Comm_rank", unsafe { (table.rank)(table.world, &raw mut rank) })?;
        // SAFETY: as above.
        check("MPI_Comm_size", unsafe { (table.size)(table.world, &raw mut size) })?;
        let library = version(table.version).unwrap_or_else(|| table.path.clone());
        let seen = LibraryView { rank: rank.max(0) as u32, size: size.max(1) as u32, library };
        Ok(Self { table, seen })
    }

    /// All-gather with the same number of bytes from each process.
    fn gather_equal(&mut self, bytes: &[u8]) -> Result<Vec<u8>, String> {
        let count = c_int::try_from(bytes.len()).map_err(|_| "more than 2 GiB in one message")?;
        let mut all = vec![0u8; bytes.len() * self.seen.size as usize];
        let (table, mut request) = (&self.table, self.table.world);
        // SAFETY: both buffers live, unmoved, until the request is over: `finish` is waited for
        // before either is used again, and when it fails they are leaked. `all` has room for
        // `count` bytes of each process.
        check("MPI_Iallgather", unsafe {
            (table.gather)(
                bytes.as_ptr().cast(),
                count,
                table.byte,
                all.as_mut_ptr().cast(),
                count,
                table.byte,
                table.world,
                &raw mut request,
            )
        })?;
        match self.finish(request) {
            Ok(()) => Ok(all),
            Err(why) => {
                // The library may still write to it, and read from a copy that is never freed.
                std::mem::forget(all);
                Err(why)
            }
        }
    }

    /// Polls until the request is complete.
    fn finish(&self, mut request: H) -> Result<(), String> {
        let mut status = [0u64; STATUS_WORDS];
        let begun = Instant::now();
        loop {
            let mut done: c_int = 0;
            // SAFETY: the request is one that was begun and is not over; the status is large enough
            // for every flavour.
            check("MPI_Test", unsafe {
                (self.table.test)(
                    &raw mut request,
                    &raw mut done,
                    status.as_mut_ptr().cast::<c_void>(),
                )
            })?;
            if done != 0 {
                return Ok(());
            }
            let waited = begun.elapsed();
            if waited < EAGER {
                thread::yield_now()
            } else {
                thread::sleep((waited / 64).clamp(SLEEPS[0], SLEEPS[1]))
            }
        }
    }
}

impl<H: Copy> Backend for Mpi<H> {
    fn seen(&self) -> LibraryView {
        self.seen.clone()
    }

    fn barrier(&mut self) -> Result<(), String> {
        let mut request = self.table.world;
        // SAFETY: MPI is set up; the request is written by the call and lives until it is over.
        check("MPI_Ibarrier", unsafe { (self.table.barrier)(self.table.world, &raw mut request) })?;
        self.finish(request)
    }

    fn all_gather(&mut self, bytes: &[u8]) -> Result<Vec<Vec<u8>>, String> {
        let own = (bytes.len() as u64).to_le_bytes();
        let lengths: Vec<usize> = self
            .gather_equal(&own)?
            .chunks_exact(own.len())
            .map(|bytes| u64::from_le_bytes(bytes.try_into().unwrap_or_default()) as usize)
            .collect();
        let longest = lengths.iter().copied().max().unwrap_or(0).max(1);
        let mut padded = bytes.to_vec();
        padded.resize(longest, 0);
        let all = self.gather_equal(&padded)?;
        let each = all.chunks_exact(longest).zip(lengths);
        Ok(each.map(|(bytes, length)| bytes[..length].to_vec()).collect())
    }

    fn abort(&mut self, code: u8) {
        // SAFETY: MPI is set up; the call may not return.
        unsafe { (self.table.abort)(self.table.world, c_int::from(code)) };
    }

    fn leave(&mut self) {
        // SAFETY: MPI is set up, no request is under way, and no call follows.
        unsafe { (self.table.finalize)() };
    }
}

/// The first line of the library's version text.
fn version(get: unsafe extern "C" fn(*mut c_char, *mut c_int) -> c_int) -> Option<String> {
    let mut text = vec![0u8; VERSION_BYTES + 1];
    let mut length: c_int = 0;
    // SAFETY: the text is longer than any flavour's answer, and stays terminated.
    let answer = unsafe { get(text.as_mut_ptr().cast(), &raw mut length) };
    let text = CStr::from_bytes_until_nul(&text).ok()?.to_string_lossy();
    // Open MPI adds the packager and more after a comma; MPICH writes one fact per line.
    let line = text.lines().next()?.split(',').next()?;
    let words: Vec<&str> = line.split_whitespace().collect();
    (answer == 0 && !words.is_empty()).then(|| words.join(" "))
}

fn check(call: &str, answer: c_int) -> Result<(), String> {
    match answer {
        0 => Ok(()),
        code => Err(format!("{call} failed with error {code}")),
    }
}
