//! The library's log of a probe: a temporary file; failures quote its ERROR lines, since a probe
//! leaves no folder of a run in which to read them.

use std::fs::{self, DirBuilder};
use std::io;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

use crate::cufile::log::LOG_VARIABLE;

/// How many lines are quoted: the first ones name the cause, later ones repeat the consequence.
const QUOTED: usize = 3;
/// Maximum bytes that are read of a log.
const READ_BYTES: usize = 1 << 20;

/// The log of one probe in a separate folder, removed when dropped.
#[derive(Debug)]
pub(super) struct ProbeLog {
    folder: PathBuf,
}

impl ProbeLog {
    /// A log in a new folder that only this user can enter.
    pub(super) fn new() -> io::Result<Self> {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        let name = format!("stormlp-cufile-probe-{}-{count}", std::process::id());
        let folder = std::env::temp_dir().join(name);
        // Fails if the folder exists, so it cannot be anyone else's.
        DirBuilder::new().mode(0o700).create(&folder)?;
        Ok(Self { folder })
    }

    /// The file that the library writes.
    pub(super) fn path(&self) -> PathBuf {
        self.folder.join("cufile.log")
    }
}

impl Drop for ProbeLog {
    fn drop(&mut self) {
        // There is no file if the log is empty; a leftover is in the temporary folder.
        let _ = fs::remove_file(self.path());
        let _ = fs::remove_dir(&self.folder);
    }
}

/// A place in the log of this process: later lines belong to the step that begins there.
#[derive(Debug, Clone, Copy)]
pub(super) struct LogMark(usize);

impl LogMark {
    /// The present end of the log.
    pub(super) fn now() -> Self {
        let length = own().and_then(|path| fs::metadata(path).ok()).map_or(0, |log| log.len());
        Self(length as usize)
    }

    /// `text` with the ERROR lines since this mark.
    pub(super) fn quote(self, text: &str) -> String {
        own().map_or_else(|| text.to_string(), |path| with_errors(text, &path, self.0))
    }
}

/// The log that the environment of this process names.
fn own() -> Option<PathBuf> {
    std::env::var_os(LOG_VARIABLE).map(PathBuf::from)
}

/// `said` with the ERROR lines of `log` after its first `start` bytes.
pub(super) fn with_errors(said: &str, log: &Path, start: usize) -> String {
    let text = fs::read(log).unwrap_or_default();
    let text = text.get(start..).unwrap_or_default();
    let text = String::from_utf8_lossy(&text[..text.len().min(READ_BYTES)]);
    let lines = errors(&text);
    match lines.is_empty() {
        true => said.to_string(),
        false => format!("{said}; libcufile's log says: {}", lines.join("; ")),
    }
}

/// The messages of ERROR lines, without time, process and place, each once.
fn errors(log: &str) -> Vec<&str> {
    let mut found = Vec::new();
    for line in log.lines() {
        // `23-11-2026 22:10:00:384 [pid=5 tid=5] ERROR  cufio-udev:67 udev property not found`
        let Some((_, rest)) = line.split_once(" ERROR ") else { continue };
        let message = rest.trim().split_once(' ').map_or(rest, |(_, message)| message).trim();
        if found.len() < QUOTED && !found.contains(&message) {
            found.push(message);
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    const LOG: &str = " 1-1-2026 22:10:02:50 [pid=7 tid=7] NOTICE  cufio-drv:830 compatible mode
 1-1-2026 22:10:02:447 [pid=7 tid=7] ERROR  cufio-udev:67 udev property not found: ID_FS_USAGE vda
 1-1-2026 22:10:02:447 [pid=7 tid=7] ERROR  cufio-fs:759 error getting volume attributes
 1-1-2026 22:10:02:448 [pid=7 tid=7] ERROR  cufio-udev:67 udev property not found: ID_FS_USAGE vda
 1-1-2026 22:10:02:449 [pid=7 tid=7] ERROR  cufio-obj:242 unable to get volume attributes for fd 4
 1-1-2026 22:10:02:450 [pid=7 tid=7] ERROR  cufio:339 cuFileHandleRegister error: internal error
";

    #[test]
    fn the_first_different_errors_are_quoted() {
        let expected = [
            "udev property not found: ID_FS_USAGE vda",
            "error getting volume attributes",
            "unable to get volume attributes for fd 4",
        ];
        assert_eq!(errors(LOG), expected);
        assert!(errors("ERROR\nwhatever ERROR \n").iter().all(|line| line.is_empty()));
    }

    #[test]
    fn lines_of_earlier_steps_are_not_quoted() {
        let log = ProbeLog::new().unwrap();
        fs::write(log.path(), LOG).unwrap();
        let fact = with_errors("refused", &log.path(), LOG.find("1-1-2026 22:10:02:450").unwrap());
        assert_eq!(
            fact,
            "refused; libcufile's log says: cuFileHandleRegister error: internal error"
        );
        assert_eq!(with_errors("refused", &log.path(), LOG.len()), "refused");
        assert_eq!(with_errors("refused", Path::new("/nowhere"), 0), "refused");
        let folder = log.folder.clone();
        drop(log);
        assert!(!folder.exists());
    }
}
