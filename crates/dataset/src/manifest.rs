//! The manifest of a dataset: the files that stormlp made, with sizes and checksums.
//!
//! While files are being made, each completed one gets a line in a journal, so that a killed run
//! can be continued. Once all are made, the journal becomes the manifest. Both are dotfiles in the
//! dataset folder.

mod journal;

use std::collections::HashMap;
use std::path::Path;

use serde::{Deserialize, Serialize};
use stormlp_core::facts::Identity;
use stormlp_transfer::TransferError;
use stormlp_transfer::storage::{Durability, Storage};

use crate::names::digits;
pub use journal::Journal;

/// The manifest's name in the dataset folder.
pub const MANIFEST_NAME: &str = ".stormlp-manifest.json";
/// The journal's name in the dataset folder.
pub const JOURNAL_NAME: &str = ".stormlp-journal.jsonl";
/// Name prefix of the journals of other processes that make files of the same dataset, in addition
/// to the first one's.
const JOURNALS_BESIDE: &str = ".stormlp-journal-";
/// `made_by` in every manifest that this module writes.
pub const MADE_BY: &str = "datagen";
const FORMAT_VERSION: u32 = 1;

/// The origin of a dataset: enough to determine whether a run would make the same one.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ManifestHead {
    /// Version of the manifest's format.
    pub format_version: u32,
    /// The command that made it.
    pub made_by: String,
    /// The workload's name.
    pub workload: String,
    /// The profile that decided sizes.
    pub profile: String,
    /// The files' format.
    pub format: String,
    /// Training files.
    pub train_files: u64,
    /// Evaluation files.
    pub valid_files: u64,
    /// Samples in each file.
    pub samples_per_file: u64,
    /// The payload of the samples.
    pub content: String,
    /// The content's seed.
    pub seed: u64,
    /// Everything that determines names, sizes and bytes, as text: equal texts mean equal datasets.
    pub recipe: String,
    /// Whether a run made it because there was none: a small one, for a first look.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub starter: bool,
}

/// A complete file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ManifestFile {
    /// Its path relative to the dataset folder.
    pub name: String,
    /// Its size in bytes.
    pub bytes: u64,
    /// CRC-64/NVME of its bytes, 16 hexadecimal digits.
    pub crc64: String,
    /// Change time in nanoseconds since 1970. As long as it and the size are unchanged, a run can
    /// continue without recomputing the checksum. 0 of side files.
    #[serde(default, alias = "modified_ns")]
    pub changed_ns: u64,
    /// Identity of the file, which distinguishes it from one put in its place.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub identity: Option<Identity>,
    /// Index files that belong to it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub side_files: Vec<Self>,
}

impl ManifestFile {
    /// It and its side files, which are known by their checksums.
    #[must_use]
    pub fn with_side_files(self) -> Vec<Self> {
        let mut all = self.side_files.clone();
        all.push(self);
        all
    }
}

/// A finished dataset's manifest.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Manifest {
    /// The origin of the dataset.
    #[serde(flatten)]
    pub head: ManifestHead,
    /// Its files, ordered by index.
    pub files: Vec<ManifestFile>,
}

/// A manifest or journal that cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum ManifestError {
    /// It cannot be read or written.
    #[error(transparent)]
    File(#[from] TransferError),
    /// This `stormlp datagen` did not write it, or it was damaged.
    #[error("{path} is not a manifest of this `stormlp datagen`: {reason}")]
    Unusable {
        /// The manifest or journal.
        path: String,
        /// The fault.
        reason: String,
    },
}

/// Known facts about the files in a dataset folder.
#[derive(Debug, Clone, PartialEq)]
pub struct Record {
    /// Their origin.
    pub head: ManifestHead,
    /// Files that were complete at some time, by name.
    pub files: HashMap<String, ManifestFile>,
    /// Whether the run that made them finished.
    pub finished: bool,
}

impl ManifestHead {
    /// The fields common to every manifest of this version.
    #[must_use]
    pub fn version() -> u32 {
        FORMAT_VERSION
    }

    /// [`Self::names`] of a path in the dataset's folder.
    #[must_use]
    pub fn is_of(&self, folder: &Path, path: &Path) -> bool {
        path.strip_prefix(folder).ok().and_then(Path::to_str).is_some_and(|name| self.names(name))
    }

    /// Whether a path relative to the dataset's folder names one of its files or their side files,
    /// whatever their prefix: `train/img_003_of_168.npz`. It does not tell who made the file.
    #[must_use]
    pub fn names(&self, path: &str) -> bool {
        let mut parts = path.strip_prefix("index/").unwrap_or(path).split('/');
        let files = match parts.next() {
            Some("train") => self.train_files,
            Some("valid") => self.valid_files,
            _ => return false,
        };
        let name = parts.next_back().unwrap_or_default();
        let Some((stem, end)) = name.rsplit_once(&format!("_of_{files}.")) else {
            return false;
        };
        let suffix = end.strip_prefix(&self.format);
        let index = stem.rsplit_once('_').filter(|(prefix, _)| !prefix.is_empty());
        let is_index = |digits_of: &str| {
            digits_of.len() == digits(files)
                && digits_of.bytes().all(|byte| byte.is_ascii_digit())
                && digits_of.parse::<u64>().is_ok_and(|index| index < files)
        };
        suffix.is_some_and(|more| more.is_empty() || more.starts_with('.'))
            && index.is_some_and(|(_, index)| is_index(index))
    }
}

/// A checksum in the text form used in manifests.
#[must_use]
pub fn crc64_text(crc: u64) -> String {
    format!("{crc:016x}")
}

/// Whether a name from a manifest stays inside its folder.
fn is_inside(name: &str) -> bool {
    !name.is_empty()
        && !name.starts_with('/')
        && !name.contains('\0')
        && name.split('/').all(|part| !matches!(part, "" | "." | ".."))
}

impl Manifest {
    /// Parses a manifest.
    ///
    /// # Errors
    /// The fault; names that lead out of the folder are rejected.
    pub fn parse(text: &str) -> Result<Self, String> {
        let manifest: Self = serde_json::from_str(text).map_err(|error| error.to_string())?;
        check_head(&manifest.head)?;
        manifest.files.iter().try_for_each(check_file)?;
        Ok(manifest)
    }

    /// Every file that the manifest covers, index files included, relative to the folder.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.files.iter().flat_map(|file| {
            let sides = file.side_files.iter().map(|side| side.name.as_str());
            std::iter::once(file.name.as_str()).chain(sides)
        })
    }
}

fn check_head(head: &ManifestHead) -> Result<(), String> {
    let ManifestHead { made_by, format_version, .. } = head;
    if made_by != MADE_BY {
        return Err(format!("`stormlp {made_by}` made it, not `stormlp datagen`"));
    }
    if *format_version > FORMAT_VERSION {
        return Err(format!(
            "it has format version {format_version}, this stormlp reads up to {FORMAT_VERSION}"
        ));
    }
    Ok(())
}

fn check_file(file: &ManifestFile) -> Result<(), String> {
    let sides = file.side_files.iter().map(|side| &side.name);
    for name in std::iter::once(&file.name).chain(sides) {
        if !is_inside(name) {
            return Err(format!("it names `{name}`, which is outside the folder"));
        }
    }
    Ok(())
}

impl Record {
    /// Reads the manifest and the journal of `folder`; `None` if it has neither.
    ///
    /// # Errors
    /// If one exists but cannot be read.
    pub fn load(storage: &dyn Storage, folder: &Path) -> Result<Option<Self>, ManifestError> {
        let manifest = storage
            .read_text(&folder.join(MANIFEST_NAME))?
            .map(|text| {
                Manifest::parse(&text).map_err(|reason| unusable(folder, MANIFEST_NAME, reason))
            })
            .transpose()?;
        let mut journal = read_journal(storage, folder, JOURNAL_NAME)?;
        if let Some((head, files)) = &mut journal {
            for name in journals_beside(storage, folder)? {
                let beside = read_journal(storage, folder, &name)?;
                let same = beside.filter(|(other, _)| other.recipe == head.recipe);
                files.extend(same.into_iter().flat_map(|(_, files)| files));
            }
        }
        let finished = journal.is_none();
        let (head, files) = match (manifest, journal) {
            (None, None) => return Ok(None),
            (Some(manifest), None) => (manifest.head, manifest.files),
            (_, Some((head, files))) => (head, files),
        };
        Ok(Some(Self {
            head,
            files: files.into_iter().map(|file| (file.name.clone(), file)).collect(),
            finished,
        }))
    }
}

/// The contents of a journal; `None` if it does not exist or its head is incomplete.
fn read_journal(
    storage: &dyn Storage,
    folder: &Path,
    name: &str,
) -> Result<Option<JournalText>, ManifestError> {
    let Some(text) = storage.read_text(&folder.join(name))? else {
        return Ok(None);
    };
    parse_journal(&text).map_err(|reason| unusable(folder, name, reason))
}

/// The names of the journals in `folder` that belong to processes other than the first.
///
/// # Errors
/// If the folder cannot be listed.
pub fn journals_beside(storage: &dyn Storage, folder: &Path) -> Result<Vec<String>, TransferError> {
    let entries = match storage.list(folder) {
        Err(error) if error.is_not_found() => return Ok(Vec::new()),
        entries => entries?,
    };
    let names = entries.iter().filter_map(|entry| entry.text().filter(|_| entry.is_file()));
    let is_one = |name: &&str| name.starts_with(JOURNALS_BESIDE) && name.ends_with(".jsonl");
    let mut names: Vec<String> = names.filter(is_one).map(ToString::to_string).collect();
    names.sort();
    Ok(names)
}

/// Removes the journals of processes other than the first.
fn remove_beside(storage: &dyn Storage, folder: &Path) -> Result<(), ManifestError> {
    for name in journals_beside(storage, folder)? {
        storage.remove(&folder.join(name))?;
    }
    Ok(())
}

fn unusable(folder: &Path, name: &str, reason: String) -> ManifestError {
    ManifestError::Unusable { path: folder.join(name).display().to_string(), reason }
}

/// The contents of a journal.
type JournalText = (ManifestHead, Vec<ManifestFile>);

/// A journal's head and files. `None` if a killed run left the head incomplete. The last line may
/// be truncated; a later line for a file replaces an earlier one.
fn parse_journal(text: &str) -> Result<Option<JournalText>, String> {
    let Some((first, rest)) = text.split_once('\n') else {
        return Ok(None);
    };
    let head: ManifestHead = serde_json::from_str(first).map_err(|error| error.to_string())?;
    check_head(&head)?;
    let whole = rest.rfind('\n').map_or("", |end| &rest[..end]);
    let mut files = Vec::new();
    for (number, line) in whole.lines().enumerate() {
        let file: ManifestFile =
            serde_json::from_str(line).map_err(|error| format!("line {}: {error}", number + 2))?;
        check_file(&file)?;
        files.push(file);
    }
    Ok(Some((head, files)))
}

/// Writes the manifest and removes the journal.
///
/// # Errors
/// If the manifest cannot be written.
pub fn finish(
    storage: &dyn Storage,
    folder: &Path,
    manifest: &Manifest,
) -> Result<(), ManifestError> {
    let text = text_of(manifest);
    let path = folder.join(MANIFEST_NAME);
    storage.write(&path, text.as_bytes(), Durability::Certain)?;
    // The manifest is valid once the journal of the first process is gone.
    storage.remove(&folder.join(JOURNAL_NAME))?;
    remove_beside(storage, folder)
}

/// One line per file, readable for people and usable with grep.
fn text_of(manifest: &Manifest) -> String {
    let head = line(&manifest.head);
    let head = head.trim_end().trim_end_matches('}');
    let files: Vec<String> =
        manifest.files.iter().map(|file| line(file).trim_end().to_string()).collect();
    format!("{head},\"files\":[\n{}\n]}}\n", files.join(",\n"))
}

fn line<T: Serialize>(value: &T) -> String {
    let mut text = serde_json::to_string(value).expect("a manifest is plain data");
    text.push('\n');
    text
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use stormlp_test_support::ObjectServer;
    use stormlp_transfer::storage::Disk;

    use super::*;

    fn head() -> ManifestHead {
        ManifestHead {
            format_version: 1,
            made_by: MADE_BY.to_string(),
            workload: "unet3d".to_string(),
            profile: "2.0".to_string(),
            format: "npz".to_string(),
            train_files: 2,
            valid_files: 0,
            samples_per_file: 1,
            content: "random".to_string(),
            seed: 1,
            recipe: "x".to_string(),
            starter: false,
        }
    }

    fn file(name: &str) -> ManifestFile {
        ManifestFile {
            name: name.to_string(),
            bytes: 7,
            crc64: crc64_text(12),
            changed_ns: 1,
            identity: None,
            side_files: Vec::new(),
        }
    }

    #[test]
    fn a_journal_becomes_the_manifest() {
        let folder = tempfile::tempdir().unwrap();
        assert_eq!(Record::load(&Disk, folder.path()).unwrap(), None);
        let journal = Journal::begin(&Disk, folder.path(), &head(), &[file("train/a")]).unwrap();
        journal.add(&file("train/b")).unwrap();
        let record = Record::load(&Disk, folder.path()).unwrap().unwrap();
        assert!(!record.finished);
        assert_eq!(record.files.len(), 2);
        let manifest = Manifest { head: head(), files: vec![file("train/a"), file("train/b")] };
        finish(&Disk, folder.path(), &manifest).unwrap();
        let record = Record::load(&Disk, folder.path()).unwrap().unwrap();
        assert!(record.finished && record.files.len() == 2);
        assert_eq!(Manifest::parse(&text_of(&manifest)).unwrap(), manifest);
        assert_eq!(Disk.list(folder.path()).unwrap().len(), 1);
    }

    #[test]
    fn a_journal_in_a_bucket_has_segments_that_are_read_with_it() {
        let server = ObjectServer::default();
        let (storage, folder) = (server.storage(), Path::new("s3://bucket/d"));
        let journal = Journal::begin(&storage, folder, &head(), &[file("train/a")]).unwrap();
        let listed = || {
            let record = Record::load(&storage, folder).unwrap().unwrap();
            assert!(!record.finished);
            record.files.len()
        };
        journal.add(&file("train/b")).unwrap();
        assert_eq!(listed(), 1, "a line waits for others");
        journal.flush().unwrap();
        journal.amend(&file("train/c"));
        journal.flush().unwrap();
        assert_eq!(listed(), 3);
        assert_eq!(server.keys().len(), 3, "{:?}", server.keys());
        // A run that continues takes all lines up, and ends with the manifest alone.
        let whole: Vec<_> = ["train/a", "train/b", "train/c"].map(file).into();
        Journal::begin(&storage, folder, &head(), &whole).unwrap();
        assert_eq!((listed(), server.keys().len()), (3, 1));
        finish(&storage, folder, &Manifest { head: head(), files: whole }).unwrap();
        assert_eq!(server.keys(), ["d/.stormlp-manifest.json"]);
    }

    #[test]
    fn a_line_that_was_cut_off_is_left_out() {
        let whole = format!("{}{}{}", line(&head()), line(&file("a")), line(&file("b")));
        for cut in 0..whole.len() {
            let Ok(parsed) = parse_journal(&whole[..cut]) else {
                panic!("a cut at {cut} is not an error");
            };
            let files = parsed.map_or(0, |(_, files)| files.len());
            assert!(files < 2);
        }
        assert_eq!(parse_journal(&whole).unwrap().unwrap().1.len(), 2);
    }

    #[test]
    fn names_cannot_lead_out_of_the_folder() {
        for name in ["../a", "/etc/passwd", "", "a//b", "a/../../b", "."] {
            let manifest = Manifest { head: head(), files: vec![file(name)] };
            assert!(Manifest::parse(&text_of(&manifest)).is_err(), "{name}");
        }
    }

    #[test]
    fn manifests_of_other_commands_are_not_datasets() {
        let mut head = head();
        head.made_by = "gds".to_string();
        let manifest = Manifest { head, files: Vec::new() };
        let reason = Manifest::parse(&text_of(&manifest)).unwrap_err();
        assert_eq!(reason, "`stormlp gds` made it, not `stormlp datagen`");
    }

    proptest! {
        #[test]
        fn reading_never_panics(text in ".{0,200}") {
            let _ = Manifest::parse(&text);
            let _ = parse_journal(&text);
        }
    }
}
