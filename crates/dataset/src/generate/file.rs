//! One file from its first byte to its line in the journal.

use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

use crc_fast::checksum;
use stormlp_model::stop::StopToken;
use stormlp_transfer::storage::{self, Access};

use super::error::GenerateError;
use super::lanes::Way;
use super::sink::{CHECKSUM, FileSink, Writer, Written, into_io, trim};
use crate::content::BLOCK_BYTES;
use crate::dataset::Dataset;
use crate::format::{EncodeError, Finish, SideFile, SidePlace, SinkError};
use crate::manifest::{ManifestFile, ManifestSideFile, crc64_text};

/// Where files go and who is told.
pub(super) struct Context<'a> {
    pub(super) folder: &'a Path,
    pub(super) dataset: &'a Dataset,
    pub(super) way: Way,
    pub(super) stop: &'a StopToken,
}

/// Why one file was not made.
pub(super) enum Trouble {
    Stopped,
    Failed(GenerateError),
}

impl From<GenerateError> for Trouble {
    fn from(error: GenerateError) -> Self {
        Self::Failed(error)
    }
}

/// Makes file `index` and says what is in it. Whatever fails, no part of it stays.
pub(super) fn make(
    context: &Context<'_>,
    driver: &mut Writer<'_>,
    index: u64,
) -> Result<ManifestFile, Trouble> {
    let name = context.dataset.path(index);
    let target = context.folder.join(&name);
    let temporary = storage::temporary_name(&target);
    let result = write(context, driver, index, &temporary).and_then(|(written, finish)| {
        let side_files = write_side_files(context, &name, &finish.side_files)?;
        rename(&name, &temporary, &target)?;
        let changed_ns = changed_ns(&target)
            .map_err(|source| GenerateError::file("read the time of", &name, source))?;
        Ok(ManifestFile {
            name: name.clone(),
            bytes: written.bytes,
            crc64: crc64_text(written.crc64),
            changed_ns,
            side_files,
        })
    });
    if result.is_err() {
        // The error that is already there matters more than a leftover that resume replaces.
        let _ = fs::remove_file(&temporary);
    }
    result
}

fn write(
    context: &Context<'_>,
    driver: &mut Writer<'_>,
    index: u64,
    path: &Path,
) -> Result<(Written, Finish), Trouble> {
    let name = context.dataset.path(index);
    let spec = context.dataset.file(index);
    let file = storage::open(path, Access::Create, context.way.direct)
        .map_err(|error| GenerateError::file("create", &name, into_io(error)))?;
    let space = context
        .dataset
        .expected_bytes(index)
        .next_multiple_of(BLOCK_BYTES as u64);
    storage::preallocate(&file, path, space)
        .map_err(|error| GenerateError::file("preallocate", &name, into_io(error)))?;
    let io = |source: io::Error| GenerateError::file("write", &name, source);
    let keep = file.try_clone().map_err(io)?;
    let attached = driver.attach(file).map_err(|error| io(into_io(error)))?;
    let mut sink = FileSink::new(driver, attached, context.stop);
    let encoded = context.dataset.format().encode(&spec, &mut sink);
    let outcome = match encoded {
        Ok(finish) => sink
            .finish(&finish.patches)
            .map(|written| (written, finish))
            .map_err(EncodeError::Sink),
        Err(error) => {
            sink.cancel();
            Err(error)
        }
    };
    let detached = driver.detach(attached);
    let (written, finish) = outcome.map_err(|error| trouble(&name, error))?;
    detached.map_err(|error| io(into_io(error)))?;
    trim(&keep, written.bytes).map_err(io)?;
    if !context.way.direct {
        keep.sync_data().map_err(io)?;
    }
    Ok((written, finish))
}

fn trouble(name: &str, error: EncodeError) -> Trouble {
    match error {
        EncodeError::Sink(SinkError::Stopped) => Trouble::Stopped,
        EncodeError::Sink(SinkError::Io(source)) => {
            Trouble::Failed(GenerateError::file("write", name, source))
        }
        EncodeError::Format(message) => {
            Trouble::Failed(GenerateError::Format(format!("{name}: {message}")))
        }
    }
}

fn rename(name: &str, from: &Path, to: &Path) -> Result<(), GenerateError> {
    fs::rename(from, to).map_err(|source| GenerateError::file("rename", name, source))
}

/// Where a side file of the data file `name` lies, relative to the dataset folder.
pub(super) fn side_name(name: &str, place: SidePlace) -> String {
    match place {
        SidePlace::Suffix(suffix) => format!("{name}{suffix}"),
        SidePlace::IndexFolder(suffix) => {
            let split = name.split('/').next().unwrap_or_default();
            let file = name.rsplit('/').next().unwrap_or(name);
            format!("index/{split}/{file}{suffix}")
        }
    }
}

/// Side files are small: they go through the page cache, each under a temporary name first.
fn write_side_files(
    context: &Context<'_>,
    name: &str,
    side_files: &[SideFile],
) -> Result<Vec<ManifestSideFile>, GenerateError> {
    let mut written = Vec::with_capacity(side_files.len());
    for side in side_files {
        let side_name = side_name(name, side.place);
        let target = context.folder.join(&side_name);
        let temporary = storage::temporary_name(&target);
        fs::write(&temporary, &side.bytes).map_err(|source| {
            let _ = fs::remove_file(&temporary);
            GenerateError::file("write", &side_name, source)
        })?;
        rename(&side_name, &temporary, &target)?;
        written.push(ManifestSideFile {
            name: side_name,
            bytes: side.bytes.len() as u64,
            crc64: crc64_text(checksum(CHECKSUM, &side.bytes)),
        });
    }
    Ok(written)
}

/// When a file was last changed in any way, in nanoseconds since 1970: unlike the time of its last
/// write, nobody can set this one back.
pub(super) fn changed_ns(path: &Path) -> io::Result<u64> {
    let metadata = fs::metadata(path)?;
    let (seconds, nanos) = (metadata.ctime().max(0), metadata.ctime_nsec().max(0));
    Ok(seconds as u64 * 1_000_000_000 + nanos as u64)
}
