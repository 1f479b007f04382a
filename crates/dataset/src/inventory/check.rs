//! Checks the files found against a workload's requirements.

use std::collections::HashSet;
use std::fmt::Display;
use std::path::Path;

use stormlp_core::facts::FoundFile;
use stormlp_core::note::{Cause, Note};
use stormlp_core::units::counted;
use stormlp_core::warning::{Warning, WarningKind};

use super::scan::{FoundDataset, FoundSplit, base_name};
use stormlp_transfer::storage::Storage;

use crate::dataset::Dataset;
use crate::format::indexed_binary::{OFFSETS_SUFFIX, SIZES_SUFFIX, read_index};
use crate::format::{FileLayout, FormatError, OpenFile};
use crate::names::Split;
use crate::section::DataFormat;

/// Maximum number of names in a finding, before it counts the rest.
const MAX_NAMES: u64 = 3;
/// A larger relative deviation of the mean sample size from the workload's causes a warning.
const MAX_MEAN_STRAY: f64 = 0.25;

/// A difference of a dataset from its workload: a warning, or why it cannot be used.
pub type Finding = Result<Warning, Note<Cause>>;

fn refuse(cause: Cause, fact: String, remedy: impl Into<String>) -> Finding {
    Err(Note::new(cause, fact, remedy))
}

fn warn(fact: String, remedy: impl Into<String>) -> Finding {
    Ok(Warning::new(WarningKind::Dataset, fact, remedy))
}

/// All problems of the folder for a run of `dataset`; an empty list means a good dataset. Opens the
/// first, the middle and the last training file to read their framing. `datagen` is the command
/// that makes the dataset, for the advice.
#[must_use]
pub fn check(
    storage: &dyn Storage,
    inventory: &FoundDataset,
    dataset: &Dataset,
    datagen: &str,
) -> Vec<Finding> {
    let remedy = &recovery(inventory, datagen);
    let mut findings = Vec::new();
    if inventory.train.files.is_empty() && dataset.recipe().train_files > 0 {
        findings.push(refuse(
            Cause::Machine,
            format!(
                "{} contains no {} files in train/",
                inventory.folder.display(),
                dataset.recipe().format.name()
            ),
            format!("generate the dataset with `{datagen}`, or set --dir to its folder"),
        ));
        return findings;
    }
    findings.extend(unfinished(inventory, datagen));
    for split in [Split::Train, Split::Valid] {
        findings.extend(count(inventory, dataset, split, remedy));
        findings.extend(gone(inventory, dataset, split, remedy));
        findings.extend(subfolders(inventory, dataset, split));
        findings.extend(links(inventory.split(split)));
        findings.extend(holes(inventory.split(split), split, datagen));
    }
    findings.extend(wrong_sizes(inventory, remedy));
    if findings.iter().all(Result::is_ok) {
        findings.extend(framing(storage, inventory, dataset, remedy));
    }
    findings
}

fn unfinished(inventory: &FoundDataset, datagen: &str) -> Option<Finding> {
    let record = inventory.record.as_ref().filter(|record| !record.finished)?;
    Some(refuse(
        Cause::Machine,
        format!(
            "the dataset is unfinished: {} of {} files were made",
            record.files.len(),
            record.head.train_files + record.head.valid_files
        ),
        format!("continue it with `{datagen} --resume` and its original options"),
    ))
}

/// How to recover missing or damaged files: only files that stormlp made can be remade individually.
fn recovery(inventory: &FoundDataset, datagen: &str) -> String {
    match inventory.record {
        Some(_) => format!("regenerate them with `{datagen} --resume` and the original options"),
        None => format!("restore them, or regenerate everything with `{datagen} --overwrite`"),
    }
}

/// Files of a finished dataset that are no longer among the first that the workload uses: other
/// files replace them, if there are enough.
fn gone(
    inventory: &FoundDataset,
    dataset: &Dataset,
    split: Split,
    remedy: &str,
) -> Option<Finding> {
    let record = inventory.record.as_ref().filter(|record| record.finished)?;
    let found = &inventory.split(split).files;
    let wanted = dataset.naming(split).files;
    if (found.len() as u64) < wanted {
        // That is already an error.
        return None;
    }
    let names: HashSet<&str> = found.iter().map(|file| file.name.as_str()).collect();
    let folder = format!("{}/", split.folder());
    let mut made: Vec<&String> =
        record.files.keys().filter(|name| name.starts_with(&folder)).collect();
    made.sort_by_key(|name| (base_name(name), name.as_str()));
    made.truncate(usize::try_from(wanted).unwrap_or(usize::MAX));
    made.retain(|name| !names.contains(name.as_str()));
    (!made.is_empty()).then(|| {
        warn(
            format!(
                "files of this dataset are missing, and other files are read in their place: {}",
                list(made.iter(), made.len() as u64)
            ),
            remedy.to_string(),
        )
    })
}

fn count(
    inventory: &FoundDataset,
    dataset: &Dataset,
    split: Split,
    remedy: &str,
) -> Option<Finding> {
    let found = inventory.split(split);
    let naming = dataset.naming(split);
    let (wanted, there) = (naming.files, found.files.len() as u64);
    let folder = split.folder();
    let option = match split {
        Split::Train => "--files",
        Split::Valid => "--params dataset.num_files_eval",
    };
    if there < wanted {
        let names: HashSet<&str> = found.files.iter().map(|file| file.name.as_str()).collect();
        let missing = (0..wanted)
            .map(|index| naming.path(index))
            .filter(|name| !names.contains(name.as_str()));
        return Some(refuse(
            Cause::Machine,
            format!(
                "{folder}/ contains {there} files, but the workload has {wanted}: missing {}",
                list(missing, wanted - there)
            ),
            format!("{remedy}, or run with {option}={there}"),
        ));
    }
    (there > wanted && wanted > 0).then(|| {
        warn(
            format!("{folder}/ contains {there} files, but the workload has {wanted}"),
            format!("the first {wanted} are used; use all with {option}={there}"),
        )
    })
}

/// Files are found wherever they are, but DLIO only looks where the workload says.
fn subfolders(inventory: &FoundDataset, dataset: &Dataset, split: Split) -> Option<Finding> {
    let found = inventory.split(split);
    // DLIO treats one subfolder like none.
    let of_workload = match dataset.naming(split).subfolders {
        0 | 1 => 0,
        more => more,
    };
    let key = match split {
        Split::Train => "num_subfolders_train",
        Split::Valid => "num_subfolders_eval",
    };
    let folder = split.folder();
    let advice = match (found.subfolders, of_workload) {
        (1, 0) => format!("move the files up into {folder}/"),
        (1, _) => format!("move the files up into {folder}/ and set --params dataset.{key}=0"),
        (there, _) => format!("set --params dataset.{key}={there}"),
    };
    (!found.files.is_empty() && found.subfolders != of_workload).then(|| {
        warn(
            format!(
                "{folder}/ has {}, but the workload says {of_workload}: the files are read where \
                 they are, but DLIO would not find them",
                counted(found.subfolders, "subfolder")
            ),
            advice,
        )
    })
}

/// Links to other locations.
fn links(found: &FoundSplit) -> Option<Finding> {
    let name = found.a_link.as_ref()?;
    Some(warn(
        format!("{name} is a link and is followed"),
        "the storage that links point to is measured; `stormlp datagen` never writes through a link",
    ))
}

/// Files with holes.
fn holes(found: &FoundSplit, split: Split, datagen: &str) -> Option<Finding> {
    let share = 100.0 * found.hole_bytes as f64 / found.bytes().max(1) as f64;
    (share >= 1.0).then(|| {
        Ok(Warning::new(
            WarningKind::Holes,
            format!(
                "{share:.0} % of the data in {}/ is sparse: holes are not read from any device, \
                 so reads look faster than the storage is",
                split.folder()
            ),
            format!("regenerate the dataset: `{datagen} --overwrite`"),
        ))
    })
}

/// The first of `count` names, and the number of further ones. Those are never generated: a
/// mistyped number of files would mean millions.
fn list(names: impl Iterator<Item = impl Display>, count: u64) -> String {
    let shown = count.min(MAX_NAMES);
    let names = names.take(shown as usize).map(|name| name.to_string());
    let text = names.collect::<Vec<_>>().join(", ");
    match count - shown {
        0 => text,
        more => format!("{text} and {more} more"),
    }
}

/// Files with another size than in the manifest.
fn wrong_sizes(inventory: &FoundDataset, remedy: &str) -> Option<Finding> {
    let record = inventory.record.as_ref()?;
    let all = inventory.train.files.iter().chain(&inventory.valid.files);
    let wrong: Vec<_> = all
        .filter_map(|file| Some((file, record.files.get(&file.name)?)))
        .filter(|(file, made)| made.bytes != file.bytes)
        .collect();
    let told = wrong.iter().map(|(file, made)| {
        format!("{} has {} bytes, but was made with {}", file.name, file.bytes, made.bytes)
    });
    (!wrong.is_empty())
        .then(|| refuse(Cause::Storage, list(told, wrong.len() as u64), remedy.to_string()))
}

/// Checks the framing of some files and the mean sample size of all.
fn framing(
    storage: &dyn Storage,
    inventory: &FoundDataset,
    dataset: &Dataset,
    remedy: &str,
) -> Vec<Finding> {
    let files = &inventory.train.files;
    // Files beyond the workload's number are not read.
    let wanted = usize::try_from(dataset.recipe().train_files).unwrap_or(usize::MAX);
    let Some(last) = files.len().min(wanted).checked_sub(1) else {
        return Vec::new();
    };
    let mut places = vec![0, last / 2, last];
    places.dedup();
    let mut payload_shares = Vec::new();
    for place in places {
        let file = &files[place];
        let layout = match inspect(storage, &inventory.folder, dataset, file) {
            Ok(layout) => layout,
            Err(error) => return vec![unusable(&error, remedy)],
        };
        let wanted = dataset.recipe().samples_per_file;
        if layout.samples != wanted {
            return vec![refuse(
                Cause::Plan,
                format!(
                    "{} contains {}, but the workload has {wanted} per file",
                    file.name,
                    counted(layout.samples, "sample")
                ),
                format!("run with --params dataset.num_samples_per_file={}", layout.samples),
            )];
        }
        payload_shares.push(layout.payload_bytes() as f64 / file.bytes as f64);
    }
    let share = payload_shares.iter().sum::<f64>() / payload_shares.len() as f64;
    mean_size(inventory, dataset, share).into_iter().collect()
}

/// A file with wrong framing, or one that could not be read.
fn unusable(error: &FormatError, remedy: &str) -> Finding {
    error.unread().map_or_else(|| refuse(Cause::Storage, error.to_string(), remedy), Err)
}

/// Compares the mean sample size with the workload's: all bytes, minus the share of framing found.
fn mean_size(inventory: &FoundDataset, dataset: &Dataset, share: f64) -> Option<Finding> {
    let files = &inventory.train.files;
    let samples = files.len() as f64 * dataset.recipe().samples_per_file as f64;
    let found = inventory.train.bytes() as f64 * share / samples;
    let wanted = dataset.mean_sample_bytes();
    let stray = found / wanted - 1.0;
    // The text of a table is several times as large as the samples.
    let is_text = dataset.recipe().format == DataFormat::Csv;
    (!is_text && stray.abs() > MAX_MEAN_STRAY).then(|| {
        warn(
            format!(
                "samples have {found:.0} bytes on average, but the workload's have {wanted:.0} \
                 ({:+.0} %)",
                100.0 * stray
            ),
            "throughput in MiB/s is computed from the workload's size; set \
             --params dataset.record_length_bytes to the actual size",
        )
    })
}

/// Reads the framing of one file of the dataset in `folder`, with its index if the format has one.
///
/// # Errors
/// If a file cannot be opened or violates its format.
pub fn inspect(
    storage: &dyn Storage,
    folder: &Path,
    dataset: &Dataset,
    file: &FoundFile,
) -> Result<FileLayout, FormatError> {
    let open = |name: &str| {
        OpenFile::open(storage, &folder.join(name)).map_err(|error| FormatError::Read {
            file: name.to_string(),
            offset: 0,
            source: error.into_io(),
        })
    };
    if dataset.recipe().format == DataFormat::IndexedBinary {
        let mut offsets = open(&format!("{}{OFFSETS_SUFFIX}", file.name))?;
        let mut sizes = open(&format!("{}{SIZES_SUFFIX}", file.name))?;
        return read_index(&file.name, file.bytes, &mut offsets, &mut sizes);
    }
    let path = folder.join(&file.name);
    let was_cold =
        storage.residency(&path).ok().flatten().is_some_and(|found| found.cached_bytes == 0);
    let layout = dataset.format().inspect(&file.name, &mut open(&file.name)?);
    if was_cold {
        // Pages left in the cache would change the kernel's readahead for the rest of this file. If
        // storage cannot drop them, this is reported where cold data is required.
        let _ = storage.drop_cached(&path);
    }
    let mut layout = layout?;
    if dataset.recipe().format == DataFormat::Csv {
        // The number of rows is unknown without reading all of the text: trust the workload.
        layout.samples = dataset.recipe().samples_per_file;
    }
    Ok(layout)
}
