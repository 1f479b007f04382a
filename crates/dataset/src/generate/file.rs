//! The steps of making one file, from its first byte to its line in the journal.

use std::io;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};

use crc_fast::checksum;
use stormlp_core::failure::Failure;
use stormlp_core::note::Cause;
use stormlp_core::path::PathKind;
use stormlp_core::stop::StopToken;
use stormlp_transfer::TransferError;
use stormlp_transfer::storage::{self, Access, Durability, Handle};

use super::error::GenerateError;
use super::lanes::WriteWay;
use super::plan::GeneratePlan;
use super::sink::{CHECKSUM, FileSink, FileTarget, PlainFile, Writer, Written, trim};
use crate::content::BLOCK_BYTES;
use crate::format::{EncodeError, Finish, SideFile, SidePlace, SinkError};
use crate::manifest::{Journal, ManifestFile, crc64_text};

/// Destination of the files, and the observer of the steps.
pub(super) struct FileContext<'a> {
    pub(super) plan: &'a GeneratePlan,
    pub(super) way: WriteWay,
    pub(super) journal: &'a Journal<'a>,
    /// Counts bytes written with plain calls.
    pub(super) plain_bytes: AtomicU64,
    pub(super) stop: &'a StopToken,
}

/// Why a file was not made.
pub(super) enum Trouble {
    Stopped,
    Failed(GenerateError),
}

impl<E: Into<GenerateError>> From<E> for Trouble {
    fn from(error: E) -> Self {
        Self::Failed(error.into())
    }
}

/// Makes file `index` and returns its manifest entry. On any failure, no part of it remains.
pub(super) fn make(
    context: &FileContext<'_>,
    driver: &mut Writer<'_>,
    index: u64,
) -> Result<ManifestFile, Trouble> {
    let plan = context.plan;
    let name = plan.dataset.path(index);
    let target = plan.folder.join(&name);
    if context.way.kind == PathKind::S3 {
        return make_object(context, driver, index, &target);
    }
    let temporary = storage::temporary_name(&target);
    let result = write(context, driver, index, &temporary).and_then(|(written, finish)| {
        let file = listed(plan, name, &temporary, (written, &finish))?;
        // Listed before it gets its name: a file that has its name but is not listed is not ours.
        context.journal.add(&file)?;
        write_side_files(context, &file, &finish.side_files)?;
        plan.storage.rename(&temporary, &target)?;
        let changed_ns = plan.storage.found(&target)?.changed_ns;
        Ok(ManifestFile { changed_ns, ..file })
    });
    if result.is_err() {
        context.plan.storage.discard(&temporary);
    }
    result
}

/// The same for an object, which has its name only once it is complete. It is listed afterwards, when
/// its identity is known: unlisted objects with a dataset's names were put by a run that was killed.
fn make_object(
    context: &FileContext<'_>,
    driver: &mut Writer<'_>,
    index: u64,
    target: &Path,
) -> Result<ManifestFile, Trouble> {
    let (plan, storage) = (context.plan, &context.plan.storage);
    let handle = storage.handle(target, Access::Create, false)?;
    let upload = match &handle {
        Handle::Object(object) => object.upload(),
        Handle::File(_) => None,
    };
    let upload = upload.ok_or_else(|| {
        let source = io::Error::from(io::ErrorKind::InvalidInput);
        TransferError::file("upload", target, source)
    })?;
    let attached = driver.attach(handle)?;
    let outcome = encode(context, driver, index, (FileTarget::Object(attached), target));
    let detached = driver.detach(attached);
    let (written, finish) = outcome?;
    detached?;
    upload.complete()?;
    let file = listed(plan, plan.dataset.path(index), target, (written, &finish))?;
    write_side_files(context, &file, &finish.side_files)?;
    context.journal.add(&file)?;
    Ok(file)
}

/// The manifest entry of the file `name`, which was just written at `path`.
fn listed(
    plan: &GeneratePlan,
    name: String,
    path: &Path,
    (written, finish): (Written, &Finish),
) -> Result<ManifestFile, TransferError> {
    Ok(ManifestFile {
        bytes: written.bytes,
        crc64: crc64_text(written.crc64),
        changed_ns: 0,
        identity: Some(plan.storage.found(path)?.identity),
        side_files: side_files(&name, &finish.side_files),
        name,
    })
}

fn write(
    context: &FileContext<'_>,
    driver: &mut Writer<'_>,
    index: u64,
    path: &Path,
) -> Result<(Written, Finish), Trouble> {
    if context.way.small {
        return write_small(context, driver, index, path);
    }
    let (plan, storage) = (context.plan, &context.plan.storage);
    let space = plan.dataset.expected_bytes(index).next_multiple_of(BLOCK_BYTES as u64);
    // Without a mark, since a dataset is known by its manifest and belongs to the user.
    let file = storage.open(path, Access::Create, context.way.direct())?;
    storage.preallocate(&file, path, space)?;
    let io = |source: io::Error| TransferError::file("write", path, source);
    let keep = file.try_clone().map_err(io)?;
    let attached = driver.attach(file)?;
    let outcome = encode(context, driver, index, (FileTarget::Path(attached), path));
    let detached = driver.detach(attached);
    let (written, finish) = outcome?;
    detached?;
    trim(&keep, written.bytes).map_err(io)?;
    if !context.way.direct() {
        storage.sync(&keep, path)?;
    }
    Ok((written, finish))
}

/// The same for a small file: without preallocation, engine, truncation or a separate sync.
fn write_small(
    context: &FileContext<'_>,
    driver: &mut Writer<'_>,
    index: u64,
    path: &Path,
) -> Result<(Written, Finish), Trouble> {
    let storage = &*context.plan.storage;
    let file = storage.open(path, Access::Create, false)?;
    let target = FileTarget::File(PlainFile { storage, file, path });
    let (written, finish) = encode(context, driver, index, (target, path))?;
    context.plain_bytes.fetch_add(written.bytes, Ordering::Relaxed);
    Ok((written, finish))
}

/// Generates the content of file `index` and writes all of it to `target`, the file at `path`.
fn encode(
    context: &FileContext<'_>,
    driver: &mut Writer<'_>,
    index: u64,
    (target, path): (FileTarget<'_>, &Path),
) -> Result<(Written, Finish), Trouble> {
    let dataset = &context.plan.dataset;
    let mut sink = FileSink::new(driver, target, context.stop);
    let outcome = match dataset.format().encode(&dataset.file(index), &mut sink) {
        Ok(finish) => match sink.finish(&finish.patches) {
            Ok(written) => Ok((written, finish)),
            Err(error) => Err(EncodeError::Sink(error)),
        },
        Err(error) => {
            sink.cancel();
            Err(error)
        }
    };
    outcome.map_err(|error| match error {
        EncodeError::Sink(SinkError::Stopped) => Trouble::Stopped,
        EncodeError::Sink(SinkError::Io(error)) => error.named(path).into(),
        EncodeError::Format(message) => {
            let fact = format!("{}: {message}", path.display());
            Trouble::Failed(GenerateError::Refused(Failure::saying(Cause::Plan, fact)))
        }
    })
}

/// Path of a side file of the data file `name`, relative to the dataset folder.
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

/// The manifest entries for the side files of the data file `name`.
fn side_files(name: &str, side_files: &[SideFile]) -> Vec<ManifestFile> {
    let of = |side: &SideFile| ManifestFile {
        name: side_name(name, side.place),
        bytes: side.bytes.len() as u64,
        crc64: crc64_text(checksum(CHECKSUM, &side.bytes)),
        changed_ns: 0,
        identity: None,
        side_files: Vec::new(),
    };
    side_files.iter().map(of).collect()
}

/// Side files are small: they are written through the page cache, each under a temporary name
/// first.
fn write_side_files(
    context: &FileContext<'_>,
    file: &ManifestFile,
    side_files: &[SideFile],
) -> Result<(), GenerateError> {
    for (listed, side) in file.side_files.iter().zip(side_files) {
        let target = context.plan.folder.join(&listed.name);
        let storage = &context.plan.storage;
        storage.write(&target, &side.bytes, Durability::Unsynced)?;
    }
    Ok(())
}
