//! One file from its first byte to its line in the journal.

use std::io;
use std::path::Path;

use crc_fast::checksum;
use stormlp_model::stop::StopToken;
use stormlp_transfer::TransferError;
use stormlp_transfer::storage::{self, Durability};

use super::GeneratePlan;
use super::error::GenerateError;
use super::lanes::Way;
use super::sink::{CHECKSUM, FileSink, Writer, Written, trim};
use crate::content::BLOCK_BYTES;
use crate::format::{EncodeError, Finish, SideFile, SidePlace, SinkError};
use crate::manifest::{ManifestFile, ManifestSideFile, crc64_text};

/// Where files go and who is told.
pub(super) struct Context<'a> {
    pub(super) plan: &'a GeneratePlan,
    pub(super) way: Way,
    pub(super) stop: &'a StopToken,
}

/// Why one file was not made.
pub(super) enum Trouble {
    Stopped,
    Failed(GenerateError),
}

impl<E: Into<GenerateError>> From<E> for Trouble {
    fn from(error: E) -> Self {
        Self::Failed(error.into())
    }
}

/// Makes file `index` and says what is in it. Whatever fails, no part of it stays.
pub(super) fn make(
    context: &Context<'_>,
    driver: &mut Writer<'_>,
    index: u64,
) -> Result<ManifestFile, Trouble> {
    let plan = context.plan;
    let name = plan.dataset.path(index);
    let target = plan.folder.join(&name);
    let temporary = storage::temporary_name(&target);
    let result = write(context, driver, index, &temporary).and_then(|(written, finish)| {
        let side_files = write_side_files(context, &name, &finish.side_files)?;
        plan.storage.rename(&temporary, &target)?;
        let changed_ns = plan.storage.found(&target)?.changed_ns;
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
        let _ = context.plan.storage.remove(&temporary);
    }
    result
}

fn write(
    context: &Context<'_>,
    driver: &mut Writer<'_>,
    index: u64,
    path: &Path,
) -> Result<(Written, Finish), Trouble> {
    let (plan, storage) = (context.plan, &context.plan.storage);
    let spec = plan.dataset.file(index);
    let space = plan
        .dataset
        .expected_bytes(index)
        .next_multiple_of(BLOCK_BYTES as u64);
    let file = storage.create(path, space, context.way.direct)?;
    let io = |source: io::Error| TransferError::file("write", path, source);
    let keep = file.try_clone().map_err(io)?;
    let attached = driver.attach(file)?;
    let mut sink = FileSink::new(driver, attached, context.stop);
    let encoded = plan.dataset.format().encode(&spec, &mut sink);
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
    let (written, finish) = outcome.map_err(|error| trouble(path, error))?;
    detached?;
    trim(&keep, written.bytes).map_err(io)?;
    if !context.way.direct {
        storage.sync(&keep, path)?;
    }
    Ok((written, finish))
}

fn trouble(path: &Path, error: EncodeError) -> Trouble {
    match error {
        EncodeError::Sink(SinkError::Stopped) => Trouble::Stopped,
        EncodeError::Sink(SinkError::Io(source)) => {
            TransferError::file("write", path, source).into()
        }
        EncodeError::Format(message) => Trouble::Failed(GenerateError::Format(format!(
            "{}: {message}",
            path.display()
        ))),
    }
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
        let target = context.plan.folder.join(&side_name);
        let storage = &context.plan.storage;
        storage.write(&target, &side.bytes, Durability::Unsynced)?;
        written.push(ManifestSideFile {
            name: side_name,
            bytes: side.bytes.len() as u64,
            crc64: crc64_text(checksum(CHECKSUM, &side.bytes)),
        });
    }
    Ok(written)
}
