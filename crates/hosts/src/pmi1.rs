//! PMI-1: lines of text over a connection inherited from the launcher. No library is needed; it is
//! spoken by hydra (the launcher of MPICH and Intel MPI) and `srun --mpi=pmi2`.

use std::fs::File;
use std::io::{BufRead, BufReader, Read as _, Write as _};
use std::os::fd::BorrowedFd;

use stormlp_core::printable::hex;

use crate::rounds::{Backend, LibraryView};

/// Maximum bytes of a value, unless the launcher gives another limit.
const USUAL_VALUE_BYTES: usize = 1024;

/// Maximum bytes of a whole line. Slurm reads at most 1024 at once, although it announces that
/// number as the maximum value length, and reads the rest of a longer line as another one.
const LINE_BYTES: usize = 1000;

/// Maximum bytes of a key.
const KEY_BYTES: usize = 64;

/// Maximum bytes of a launcher's answer: far more than any value that fits [`LINE_BYTES`].
const ANSWER_BYTES: u64 = 64 << 10;

/// Maximum number of processes of a job, far beyond any machine: a larger number is nonsense.
const MOST_PROCESSES: u32 = 1 << 24;

/// How much of an unexpected answer is shown.
const SHOWN_CHARACTERS: usize = 200;

/// Maximum bytes of one process in one exchange, far beyond any report.
const MOST_BYTES: usize = 64 << 20;

/// The connection to the launcher.
pub(crate) struct Pmi1 {
    write: File,
    read: BufReader<File>,
    /// The name of the job's key-value space.
    space: String,
    /// Payload bytes that fit a value, encoded as two letters each.
    piece_bytes: usize,
    rank: u32,
    size: u32,
    /// Number of all-gathers so far, so that each uses new keys.
    rounds: u64,
}

impl Pmi1 {
    /// Performs the handshake on the descriptor `fd` inherited from the launcher.
    pub(crate) fn init(fd: i32) -> Result<Self, String> {
        let number = |name: &str| -> Result<u32, String> {
            let text = std::env::var(name).map_err(|_| format!("{name} is not set"))?;
            text.trim().parse().map_err(|_| format!("{name} is not a number: {text}"))
        };
        let (rank, size) = (number("PMI_RANK")?, number("PMI_SIZE")?);
        if !(1..=MOST_PROCESSES).contains(&size) || rank >= size {
            return Err(format!("PMI_RANK is {rank} and PMI_SIZE is {size}"));
        }
        if fd < 0 {
            return Err(format!("PMI_FD is {fd}"));
        }
        // SAFETY: the descriptor is borrowed for this one call, which fails if it is not open.
        let borrowed = unsafe { BorrowedFd::borrow_raw(fd) };
        let own = rustix::io::fcntl_dupfd_cloexec(borrowed, 3)
            .map_err(|error| format!("PMI_FD={fd} is not a connection: {error}"))?;
        let write = File::from(own);
        let read = write.try_clone().map_err(|error| error.to_string())?;
        let mut pmi = Self {
            write,
            read: BufReader::new(read),
            space: String::new(),
            piece_bytes: 1,
            rank,
            size,
            rounds: 0,
        };
        pmi.call("cmd=init pmi_version=1 pmi_subversion=1", "response_to_init")?;
        let limits = pmi.call("cmd=get_maxes", "maxes")?;
        let name = pmi.call("cmd=get_my_kvsname", "my_kvsname")?;
        let space = field(&name, "kvsname").ok_or("the launcher has no key space")?;
        pmi.space = space.to_string();
        pmi.piece_bytes = piece_bytes(&limits, space);
        Ok(pmi)
    }

    fn send(&mut self, line: &str) -> Result<(), String> {
        let line = format!("{line}\n");
        self.write
            .write_all(line.as_bytes())
            .map_err(|error| format!("cannot send to the launcher: {error}"))
    }

    /// Sends a line and returns the answer, which must be `expected` and report success.
    fn call(&mut self, line: &str, expected: &str) -> Result<String, String> {
        self.send(line)?;
        answer(&mut self.read, expected)
    }

    fn put(&mut self, key: &str, value: &str) -> Result<(), String> {
        let line = format!("cmd=put kvsname={} key={key} value={value}", self.space);
        self.call(&line, "put_result").map(drop)
    }

    fn get(&mut self, key: &str) -> Result<String, String> {
        let line = format!("cmd=get kvsname={} key={key}", self.space);
        let answer = self.call(&line, "get_result")?;
        let value = field(&answer, "value").map(str::to_string);
        value.ok_or_else(|| format!("the launcher answered `{}`", answer.trim_end()))
    }
}

impl Backend for Pmi1 {
    fn seen(&self) -> LibraryView {
        LibraryView { rank: self.rank, size: self.size, library: "the launcher itself".to_string() }
    }

    fn barrier(&mut self) -> Result<(), String> {
        self.call("cmd=barrier_in", "barrier_out").map(drop)
    }

    fn all_gather(&mut self, bytes: &[u8]) -> Result<Vec<Vec<u8>>, String> {
        self.rounds += 1;
        let stem = format!("stormlp-{}", self.rounds);
        let pieces: Vec<&[u8]> = bytes.chunks(self.piece_bytes).collect();
        let rank = self.rank;
        self.put(&format!("{stem}-{rank}"), &pieces.len().to_string())?;
        for (number, piece) in pieces.iter().enumerate() {
            self.put(&format!("{stem}-{rank}-{number}"), &hex(piece))?;
        }
        self.barrier()?;
        let mut all = Vec::with_capacity(self.size as usize);
        for rank in 0..self.size {
            let count = self.get(&format!("{stem}-{rank}"))?;
            let most = MOST_BYTES / self.piece_bytes;
            let count = count.parse().ok().filter(|count| *count <= most);
            let count =
                count.ok_or_else(|| format!("process {rank} has no valid number of pieces"))?;
            let mut whole = Vec::new();
            for number in 0..count {
                let piece = self.get(&format!("{stem}-{rank}-{number}"))?;
                // Every process cuts its bytes alike, so a longer piece comes from elsewhere.
                let piece = bytes_of(&piece).filter(|piece| piece.len() <= self.piece_bytes);
                whole.extend(piece.ok_or("a piece is not encoded bytes")?);
            }
            all.push(whole);
        }
        Ok(all)
    }

    fn abort(&mut self, code: u8) {
        let _ = self.send(&format!("cmd=abort exitcode={code}"));
    }

    fn leave(&mut self) {
        let _ = self.call("cmd=finalize", "finalize_ack");
    }
}

/// Reads the launcher's next line, which must be `expected` and report success.
pub fn answer(read: &mut impl BufRead, expected: &str) -> Result<String, String> {
    let mut line = String::new();
    match read.take(ANSWER_BYTES).read_line(&mut line) {
        Ok(0) => return Err("the launcher has closed its connection".to_string()),
        Ok(_) => {}
        Err(error) => return Err(format!("no response from the launcher: {error}")),
    }
    if !line.ends_with('\n') {
        return Err(match line.len() as u64 {
            ANSWER_BYTES => format!("the launcher sent a line of more than {ANSWER_BYTES} bytes"),
            _ => "the launcher has closed its connection in the middle of a line".to_string(),
        });
    }
    let failed = field(&line, "rc").is_some_and(|code| code != "0");
    if failed || field(&line, "cmd") != Some(expected) {
        // The words that matter come first.
        let begin: String = line.trim_end().chars().take(SHOWN_CHARACTERS).collect();
        return Err(format!("the launcher answered `{begin}`"));
    }
    Ok(line)
}

/// Payload bytes that fit a value in key `space`, encoded as two letters each, within the
/// launcher's `limits`.
pub fn piece_bytes(limits: &str, space: &str) -> usize {
    let longest = field(limits, "vallen_max").and_then(|text| text.parse().ok());
    // One byte for the terminator, which some launchers count.
    let value = longest.unwrap_or(USUAL_VALUE_BYTES).saturating_sub(1);
    let around = "cmd=put kvsname= key= value=\n".len() + space.len() + KEY_BYTES;
    (value.min(LINE_BYTES.saturating_sub(around)) / 2).max(1)
}

/// The value of `key` in a line such as `cmd=get_result rc=0 value=ab`.
pub fn field<'a>(line: &'a str, key: &str) -> Option<&'a str> {
    line.split_whitespace().find_map(|word| word.strip_prefix(key)?.strip_prefix('='))
}

/// Decodes letters; `None` if they are not encoded bytes.
pub fn bytes_of(letters: &str) -> Option<Vec<u8>> {
    let digit = |letter: u8| char::from(letter).to_digit(16);
    let byte = |pair: &[u8]| match pair {
        [high, low] => u8::try_from(digit(*high)? << 4 | digit(*low)?).ok(),
        _ => None,
    };
    letters.as_bytes().chunks(2).map(byte).collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn fields_are_found_by_their_whole_name() {
        let line = "cmd=maxes kvsname_max=256 keylen_max=64 vallen_max=1024\n";
        assert_eq!(field(line, "vallen_max"), Some("1024"));
        assert_eq!(field(line, "vallen"), None);
    }

    #[test]
    fn a_piece_fits_the_launchers_line() {
        let limits = "cmd=maxes kvsname_max=256 keylen_max=64 vallen_max=1024\n";
        let piece = hex(&vec![0; piece_bytes(limits, "4.0")]);
        let key = "k".repeat(KEY_BYTES);
        assert!(format!("cmd=put kvsname=4.0 key={key} value={piece}\n").len() <= LINE_BYTES);
        assert_eq!(piece_bytes("cmd=maxes vallen_max=129\n", "4.0"), 64);
        assert_eq!(piece_bytes("cmd=maxes\n", &"s".repeat(2000)), 1);
    }

    #[test]
    fn an_answer_without_an_end_or_without_success_is_an_error() {
        let read = |text: &str| answer(&mut text.as_bytes(), "maxes");
        assert_eq!(read("cmd=maxes vallen_max=9\nmore").unwrap(), "cmd=maxes vallen_max=9\n");
        let cases = [
            ("", "closed its connection"),
            ("cmd=maxes", "in the middle of a line"),
            ("cmd=other\n", "answered `cmd=other`"),
            ("cmd=maxes rc=1\n", "answered `cmd=maxes rc=1`"),
        ];
        for (text, told) in cases {
            let error = read(text).unwrap_err();
            assert!(error.contains(told), "{text:?}: {error}");
        }
        let endless = read(&"x".repeat(1 << 20)).unwrap_err();
        assert!(endless.contains("a line of more than 65536 bytes"), "{endless}");
        let long = read(&format!("{}\n", "x".repeat(9000))).unwrap_err();
        assert!(long.len() < 300, "{long}");
    }

    proptest! {
        #[test]
        fn whatever_a_launcher_answers_is_read_without_a_panic(bytes: Vec<u8>, letters: String) {
            let _ = answer(&mut bytes.as_slice(), "maxes");
            let _ = bytes_of(&letters);
            prop_assert!(piece_bytes(&letters, &letters) > 0);
        }

        #[test]
        fn bytes_are_encoded_as_letters(bytes: Vec<u8>) {
            prop_assert_eq!(bytes_of(&hex(&bytes)), Some(bytes));
        }
    }
}
