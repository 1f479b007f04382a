//! The files that results are written to: replaced at once, or appended to in whole rows, so that
//! who reads them meanwhile, and a fault, finds no half of a result.

use std::fs::{self, File};
use std::io::{self, ErrorKind, Read as _, Write as _};
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};

use stormlp_core::failure::Failure;
use stormlp_core::note::Cause;
use stormlp_hosts::saver::room_help;
use stormlp_show::csv;
use stormlp_show::document::Document;
use stormlp_transfer::error::TransferError;
use stormlp_transfer::storage::{Disk, Kind, Storage as _, write_shared};

/// Links that lead to each other end after so many, as in the kernel.
const MOST_LINKS: usize = 40;

/// Checks that the folder for the file of an option exists.
///
/// # Errors
/// With exit code 4 if it does not.
pub(crate) fn check_folder(option: &str, path: &Path) -> Result<(), Failure> {
    let parent = path.parent().filter(|parent| *parent != Path::new(""));
    match parent {
        Some(parent) if !parent.is_dir() => Err(Failure::machine(anyhow::anyhow!(
            "{option} {}: folder {} does not exist",
            path.display(),
            parent.display()
        ))
        .with_help(format!("mkdir -p {}", parent.display()))),
        _ => Ok(()),
    }
}

/// Replaces the content of the file of an option by whole lines. A regular file keeps its old content
/// until the new one is complete; a pipe or a device is written to.
///
/// # Errors
/// With exit code 4 if it cannot be written.
pub(crate) fn replace(option: &str, path: &Path, text: &str) -> Result<(), Failure> {
    let text = if text.ends_with('\n') { text } else { &format!("{text}\n") };
    // A link stays one, and its target is replaced, or made.
    let followed = (0..MOST_LINKS).try_fold(path.to_path_buf(), |place, _| {
        let link = fs::read_link(&place).map_err(|_| place.clone())?;
        Ok::<PathBuf, PathBuf>(place.parent().unwrap_or(Path::new("")).join(link))
    });
    let wrote = match followed.err().filter(|_| !is_stream(path)) {
        Some(target) => write_shared(&target, text.as_bytes()).map_err(anyhow::Error::new),
        None => fs::write(path, text).map_err(anyhow::Error::new),
    };
    wrote.map_err(|error| cannot_write(option, path, error))
}

/// The records of a document as CSV.
///
/// # Errors
/// If a row has too many fields, which is a bug in stormlp.
pub(super) fn rows(document: &Document, with_header: bool) -> Result<String, Failure> {
    csv_text(csv::render(document, with_header))
}

pub(super) fn csv_text(text: Result<String, impl Into<anyhow::Error>>) -> Result<String, Failure> {
    text.map_err(|error| Failure::bug(error.into().context("rows and columns do not match")))
}

/// Appends the records to a CSV file, with a header if the file is new: under a lock, and whole or
/// not at all.
///
/// # Errors
/// If the file cannot be written, or another run has begun it with other columns.
pub(super) fn append_csv(path: &Path, document: &Document) -> Result<(), Failure> {
    let cannot = |error: io::Error| cannot_write("--output", path, error.into());
    let mut file = File::options().create(true).append(true).open(path).map_err(cannot)?;
    if is_stream(path) {
        let rows = rows(document, true)?;
        return file.write_all(rows.as_bytes()).map_err(cannot);
    }
    lock(&file).map_err(cannot)?;
    let old_bytes = file.metadata().map_err(cannot)?.len();
    if old_bytes > 0 {
        check_header(path, &document.records.columns)?;
    }
    let mut rows = rows(document, old_bytes == 0)?;
    let mut end = *b"\n";
    if old_bytes > 0 {
        File::open(path)
            .and_then(|file| file.read_exact_at(&mut end, old_bytes - 1))
            .map_err(cannot)?;
    }
    if end != *b"\n" {
        rows.insert(0, '\n');
    }
    file.write_all(rows.as_bytes()).and_then(|()| file.sync_data()).map_err(|error| {
        // Partly written rows are removed; if that fails too, the first error says more.
        let _ = file.set_len(old_bytes);
        cannot(error)
    })
}

/// Waits for exclusive access to the file. Some file systems have no locks; there the rows are one
/// write at the end of the file.
fn lock(file: &File) -> io::Result<()> {
    match file.lock() {
        Err(error) if error.kind() == ErrorKind::Unsupported => Ok(()),
        locked => locked,
    }
}

/// Records are appended to an existing CSV file, so its columns must match.
pub(super) fn check_header(path: &Path, columns: &[&str]) -> Result<(), Failure> {
    // A pipe or a device has no header, and reading it may never end.
    let found = Disk.look(path)?;
    if !found.is_some_and(|found| found.kind == Kind::File && found.bytes > 0) {
        return Ok(());
    }
    let expected = columns.join(",");
    let mut start = Vec::new();
    File::open(path)
        .and_then(|file| file.take(expected.len() as u64 + 2).read_to_end(&mut start))
        .map_err(|error| TransferError::file("read", path, error))?;
    let header = start
        .split(|byte| *byte == b'\n')
        .next()
        .map(|line| line.strip_suffix(b"\r").unwrap_or(line));
    match header {
        Some(header) if header != expected.as_bytes() => Err(Failure::machine(anyhow::anyhow!(
            "--output {}: the file has other columns, so rows cannot be appended to it",
            path.display()
        ))
        .with_help("name another file, or remove this one")),
        _ => Ok(()),
    }
}

/// Whether the name exists and is no regular file.
fn is_stream(path: &Path) -> bool {
    fs::metadata(path).is_ok_and(|found| !found.is_file())
}

/// The failure to write the file of an option.
fn cannot_write(option: &str, path: &Path, error: anyhow::Error) -> Failure {
    let error = error.context(format!("cannot write {}", path.display()));
    let help = room_help(&error, &format!("a file elsewhere: {option} FILE"))
        .unwrap_or_else(|| format!("name a file that you may write to with {option}"));
    let failed =
        error.downcast_ref::<TransferError>().is_some_and(TransferError::is_device_failure);
    let cause = if failed { Cause::Storage } else { Cause::Machine };
    Failure::new(cause, error).with_help(help)
}
