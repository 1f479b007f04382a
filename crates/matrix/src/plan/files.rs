//! Which files a matrix uses, their sizes and what must be written first.
//!
//! Default sizes: existing files are used unchanged; else 1 GiB for each thread, limited to 8 GiB
//! and a quarter of the free space in total; in a preset what a cell moves in its time. Sizes of explicitly
//! named files follow gdsio: see [`SharedFile`].

use std::path::Path;

use super::choice::CellSpan;
use super::devices;
use super::inventory::{TargetFolder, TargetInventory};
use super::manifest::{ContentState, ListedFile};
use super::named_file::named_file;
use super::request::{JobRequest, JobTarget, MatrixRequest};
use crate::plan::matrix_plan::{ASSUMED_BYTES_PER_SECOND, FileAction, FilePlan, FolderPlan};
use stormlp_core::facts::{Availability, HostFacts};
use stormlp_core::failure::Problems;
use stormlp_core::location::Location;
use stormlp_core::operation::Direction;
use stormlp_core::units::{ByteSize, GIB, KIB, MIB, short_size};

#[cfg(doc)]
use super::request::SharedFile;

/// Size of each thread's file if there is room for all of them.
pub(super) const DEFAULT_FILE_BYTES: u64 = GIB;
/// Default total layout size.
pub(super) const DEFAULT_TOTAL_BYTES: u64 = 8 * GIB;

/// The files of a matrix, for the thread count of its largest cell.
#[derive(Debug, Default)]
pub(super) struct PlannedFiles {
    /// The data folders.
    pub(super) folders: Vec<FolderPlan>,
    /// The files.
    pub(super) files: Vec<FilePlan>,
    /// For each job the indices of its files: one for each thread, or a single shared one.
    pub(super) of_job: Vec<Vec<usize>>,
    /// For each job the number of bytes used of each of its files, starting at its offset.
    pub(super) used_bytes: Vec<u64>,
}

impl PlannedFiles {
    /// Bytes to write before the first cell.
    pub(super) fn layout_bytes(&self) -> u64 {
        self.files
            .iter()
            .filter(|file| file.action == FileAction::Fill)
            .fold(0, |sum, file| sum.saturating_add(file.bytes))
    }
}

/// What the operations of a request require of a file's content.
#[derive(Debug, Clone, Copy)]
pub(super) struct FileNeeds {
    /// Every block must have been written.
    pub(super) content: bool,
    /// The file must hold the pattern of this seed throughout.
    pattern: Option<u64>,
    /// It will be written to.
    pub(super) writes: bool,
}

impl FileNeeds {
    pub(super) fn of(request: &MatrixRequest) -> Self {
        let reads = request.ops.iter().any(|op| op.direction() == Direction::Read);
        let mixed = request.read_percent.is_some();
        Self {
            // Random writes on unwritten space would measure the allocation of blocks.
            // Of objects each write makes a new one.
            content: reads
                || mixed
                || (!request.uses_objects() && request.ops.iter().any(|op| op.is_random())),
            pattern: (request.verify.is_of_content() && reads).then_some(request.seed),
            writes: mixed || request.ops.iter().any(|op| op.direction() == Direction::Write),
        }
    }

    /// Whether a file with this `content` meets the requirements.
    fn met_by(self, content: ContentState) -> bool {
        match (self.pattern, content) {
            (Some(seed), content) => content == ContentState::Pattern { seed },
            (None, ContentState::Unwritten) => !self.content,
            (None, ContentState::Pattern { .. } | ContentState::Other) => true,
        }
    }
}

/// Decides on all files of a request; `threads_of` has each job's maximum thread count.
pub(super) fn decide(
    request: &MatrixRequest,
    (facts, inventory): (&HostFacts, &TargetInventory),
    threads_of: &[u32],
    problems: &mut Problems,
) -> PlannedFiles {
    let mut table = PlannedFiles::default();
    let folder_files: u64 = (request.jobs.iter().zip(threads_of))
        .filter(|(job, _)| matches!(job.target, JobTarget::Folder(_)))
        .map(|(_, threads)| u64::from(*threads))
        .sum();
    for (job, threads) in request.jobs.iter().zip(threads_of) {
        let decided = match &job.target {
            JobTarget::Folder(path) => match inventory.folder(path) {
                Some(folder) => {
                    let job = FolderJob {
                        request,
                        job,
                        facts: folder,
                        threads: *threads,
                        sharers: folder_files,
                        fit: fitted_bytes(request, facts, path),
                    };
                    job.decide(&mut table, problems)
                }
                None => not_scanned(path, problems),
            },
            JobTarget::File(path) => match inventory.file(path) {
                Some(facts) => named_file(request, job, facts, *threads, &mut table, problems),
                None => not_scanned(path, problems),
            },
        };
        let (files, used_bytes) = decided.unwrap_or_default();
        table.of_job.push(files);
        table.used_bytes.push(used_bytes);
    }
    devices::check_named(request, inventory, problems);
    table
}

/// The files of a job and the number of bytes used of each; `None` if there is a problem.
pub(super) type Decided = Option<(Vec<usize>, u64)>;

fn not_scanned(path: &Path, problems: &mut Problems) -> Decided {
    problems.machine(format!("{} was not examined", path.display()), "run the command again");
    None
}

/// A job with one file for each thread.
struct FolderJob<'a> {
    request: &'a MatrixRequest,
    job: &'a JobRequest,
    facts: &'a TargetFolder,
    threads: u32,
    /// The number of files of all folder jobs.
    sharers: u64,
    /// Their total size, if not the default.
    fit: Option<u64>,
}

impl FolderJob<'_> {
    fn decide(&self, table: &mut PlannedFiles, problems: &mut Problems) -> Decided {
        if let Some(reason) = &self.facts.manifest_problem {
            problems.machine(
                format!("{} cannot be used: {reason}", self.facts.path.display()),
                "use another --dir, or name its files with --file",
            );
            return None;
        }
        if let Availability::Unavailable { fact, remedy } = &self.facts.writable
            && (!self.all_there() || FileNeeds::of(self.request).writes)
        {
            let path = self.facts.path.display();
            problems.machine(format!("{path} cannot hold the files: {fact}"), remedy);
            return None;
        }
        let used_bytes = self.used_bytes(problems)?;
        let folder = self.folder_index(table);
        let files = (0..self.threads)
            .filter_map(|thread| self.file(thread, used_bytes, folder, table, problems))
            .collect();
        Some((files, used_bytes))
    }

    fn offset_bytes(&self) -> u64 {
        self.job.offset_bytes.unwrap_or(self.request.offset_bytes)
    }

    fn name(&self, thread: u32) -> String {
        format!("{}.{thread}", self.request.file_stem)
    }

    fn found_bytes(&self, name: &str) -> Option<u64> {
        let found = self.facts.files.iter().find(|file| file.name == name);
        found.map(|file| file.bytes)
    }

    /// The manifest's entry of a file, if it still matches the file.
    fn own(&self, name: &str) -> Option<&ListedFile> {
        let entry = self.facts.manifest.as_ref()?.file(name)?;
        (self.found_bytes(name) == Some(entry.bytes)).then_some(entry)
    }

    /// Newly created files have no holes.
    fn hole_bytes(&self, name: &str, action: FileAction) -> u64 {
        match action {
            FileAction::Use => self.facts.hole_bytes.get(name).copied().unwrap_or(0),
            FileAction::Allocate | FileAction::Fill => 0,
        }
    }

    fn all_there(&self) -> bool {
        (0..self.threads).all(|thread| self.found_bytes(&self.name(thread)).is_some())
    }

    /// The number of bytes used of each file.
    fn used_bytes(&self, problems: &mut Problems) -> Option<u64> {
        if let Some(bytes) = self.request.file_size_bytes {
            return Some(bytes);
        }
        let largest_io = largest_io_bytes(self.request, self.job);
        let there = (0..self.threads)
            .map(|thread| {
                let name = self.name(thread);
                match self.facts.manifest.as_ref().and_then(|m| m.file(&name)) {
                    Some(_) => self.own(&name).map(|entry| entry.bytes),
                    None => self.found_bytes(&name),
                }
            })
            .collect::<Option<Vec<u64>>>();
        let there = there.and_then(|sizes| sizes.into_iter().min());
        if let Some(bytes) = there.and_then(|bytes| bytes.checked_sub(self.offset_bytes()))
            && bytes >= largest_io
        {
            return Some(bytes);
        }
        let own_bytes: u64 = self
            .facts
            .manifest
            .as_ref()
            .map_or(0, |manifest| manifest.files.iter().map(|file| file.bytes).sum());
        let free = self.facts.free_bytes;
        let part = |of: u64| free.map_or(u64::MAX, |free| (free / of).saturating_add(own_bytes));
        let room = part(4);
        let sharers = self.sharers.max(1);
        let bytes = match self.fit {
            // As much as a cell moves, up to a quarter of the free space. At least the largest
            // transfer, if half of the free space can hold that.
            Some(fitting) => {
                let least = (largest_io + self.offset_bytes()).next_multiple_of(MIB);
                let most = part(2) / sharers;
                (fitting.min(room) / sharers).max(least).min(most)
            }
            None => DEFAULT_FILE_BYTES.min(DEFAULT_TOTAL_BYTES.min(room) / sharers),
        };
        let bytes = round_down(bytes);
        if bytes < largest_io + self.offset_bytes() {
            problems.machine(
                format!(
                    "{}; {} files of it are too small for a transfer of {}",
                    match free {
                        Some(free) => format!(
                            "{} has {} free, a quarter of which may be used",
                            self.facts.path.display(),
                            ByteSize(free)
                        ),
                        None => format!("by default {} are used", ByteSize(DEFAULT_TOTAL_BYTES)),
                    },
                    self.sharers,
                    ByteSize(largest_io)
                ),
                format!(
                    "free some space, or name the size: --file-size {}",
                    short_size(largest_io)
                ),
            );
            return None;
        }
        Some(bytes - self.offset_bytes())
    }

    fn folder_index(&self, table: &mut PlannedFiles) -> usize {
        let known = table.folders.iter().position(|f| f.path.folder() == self.facts.path);
        known.unwrap_or_else(|| {
            table.folders.push(FolderPlan {
                path: Location::from(&self.facts.path),
                create: !self.facts.exists,
            });
            table.folders.len() - 1
        })
    }

    fn file(
        &self,
        thread: u32,
        used_bytes: u64,
        folder: usize,
        table: &mut PlannedFiles,
        problems: &mut Problems,
    ) -> Option<usize> {
        let name = self.name(thread);
        let path = self.facts.path.join(&name);
        if let Some(known) = table.files.iter().position(|file| file.path == path) {
            return Some(known);
        }
        if let Some(other) = self.facts.others.iter().find(|other| other.name == name) {
            problems.machine(
                format!("{} is {}, which was not created by stormlp", path.display(), other.what),
                "move it away if it is yours, or remove it; or use another --dir",
            );
            return None;
        }
        let needed = used_bytes.checked_add(self.offset_bytes());
        let Some(needed) = needed else {
            problems.plan("offset and size overflow", "use a smaller --offset");
            return None;
        };
        let needs = FileNeeds::of(self.request);
        self.check_made_here(&name, &path, problems)?;
        let (action, bytes, content, made_here) = match (self.own(&name), self.found_bytes(&name)) {
            (Some(own), _) if own.bytes >= needed && needs.met_by(own.content) => {
                (FileAction::Use, own.bytes, Some(own.content), true)
            }
            // gdsio reads the given file. Laying it out anew for a read would replace the written
            // data, and `-V` would then compare the pattern with itself.
            (own, Some(bytes)) if self.is_gdsio() && !needs.writes => {
                self.check_size(&path, bytes, needed, problems)?;
                let content = own.map(|own| own.content);
                self.check_written(&path, content, needs, problems)?;
                (FileAction::Use, bytes, content, own.is_some())
            }
            (_, None) if self.is_gdsio() && !needs.writes && self.has_foreign_files() => {
                problems.machine(
                    format!(
                        "{} does not exist, and the folder has files of gdsio that stormlp did not \
                         make",
                        path.display()
                    ),
                    "use as many -w as there are files, or another -D",
                );
                return None;
            }
            _ if needs.content => {
                let seed = self.request.seed;
                (FileAction::Fill, needed, Some(ContentState::Pattern { seed }), true)
            }
            _ => (FileAction::Allocate, needed, Some(ContentState::Unwritten), true),
        };
        if needs.writes || action != FileAction::Use {
            self.check_no_copy(&name, &path, problems)?;
        }
        table.files.push(FilePlan {
            path,
            bytes,
            action,
            content,
            folder: Some(folder),
            made_here,
            block_device: false,
            file_system: self.facts.file_system.clone(),
            hole_bytes: self.hole_bytes(&name, action),
        });
        Some(table.files.len() - 1)
    }

    /// Whether the folder has files with gdsio's names that stormlp did not make: a read adds none.
    fn has_foreign_files(&self) -> bool {
        let prefix = format!("{}.", self.request.file_stem);
        let is_listed = |name: &str| {
            self.facts.manifest.as_ref().is_some_and(|manifest| manifest.file(name).is_some())
        };
        self.facts.files.iter().any(|file| {
            let worker = file.name.strip_prefix(&prefix);
            worker.is_some_and(|worker| worker.parse::<u32>().is_ok()) && !is_listed(&file.name)
        })
    }

    /// An existing file without a manifest entry is user data, whatever its name. Lines of gdsio read
    /// the files that gdsio made.
    fn check_made_here(&self, name: &str, path: &Path, problems: &mut Problems) -> Option<()> {
        let listed = self.facts.manifest.as_ref().and_then(|m| m.file(name));
        let only_read = self.is_gdsio() && !FileNeeds::of(self.request).writes;
        if self.found_bytes(name).is_none() || listed.is_some() || only_read {
            return Some(());
        }
        problems.plan(
            format!("{} exists, but was not created by stormlp (no manifest)", path.display()),
            if self.is_gdsio() {
                "use another -D, or name the file with -f"
            } else {
                "use another --dir, or name the file with --file"
            },
        );
        None
    }

    /// A possible copy of the created file may just as well be the user's own: it may be read but
    /// is never overwritten.
    fn check_no_copy(&self, name: &str, path: &Path, problems: &mut Problems) -> Option<()> {
        if !self.facts.copies.iter().any(|copy| copy == name) {
            return Some(());
        }
        let folder = if self.is_gdsio() { "-D" } else { "--dir" };
        problems.machine(
            format!(
                "{} is not the file created by stormlp, despite the same size, so it is not \
                 overwritten",
                path.display()
            ),
            format!(
                "move it away if it is yours; remove it if it is a copy, to create it again; or \
                 use another {folder}"
            ),
        );
        None
    }

    /// Whether an existing file is large enough to be read.
    fn check_size(
        &self,
        path: &Path,
        bytes: u64,
        needed: u64,
        problems: &mut Problems,
    ) -> Option<()> {
        if bytes >= needed {
            return Some(());
        }
        problems.machine(
            format!(
                "{} is too small: it has {}, {} are needed",
                path.display(),
                ByteSize(bytes),
                ByteSize(needed)
            ),
            "remove it, so that it is created again, or use a smaller size",
        );
        None
    }

    /// Whether the request comes from gdsio's command line, whose files carry its name.
    fn is_gdsio(&self) -> bool {
        self.request.is_gdsio()
    }

    /// Refuses to read unwritten space: no device is accessed, so the figure means nothing.
    fn check_written(
        &self,
        path: &Path,
        content: Option<ContentState>,
        needs: FileNeeds,
        problems: &mut Problems,
    ) -> Option<()> {
        if let Some(seed) = needs.pattern {
            let holds = content == Some(ContentState::Pattern { seed });
            if !holds {
                nothing_to_compare(path, seed, problems);
            }
            return holds.then_some(());
        }
        if content != Some(ContentState::Unwritten) {
            return Some(());
        }
        problems.machine(
            format!(
                "{} has its space but was never written by stormlp; reading it would touch no \
                 device",
                path.display()
            ),
            "write it first with -I 1, or name the file with -f if something else wrote it",
        );
        None
    }
}

/// Files with other contents: each byte would count as corrupt.
pub(super) fn nothing_to_compare(path: &Path, seed: u64, problems: &mut Problems) {
    problems.machine(
        format!(
            "{} was not written with --verify and --seed {seed}, so it cannot be verified",
            path.display()
        ),
        "write it first with --op write --verify --passes 1, or leave --verify out",
    );
}

/// The largest transfer of a job.
pub(super) fn largest_io_bytes(request: &MatrixRequest, job: &JobRequest) -> u64 {
    match job.io_size {
        Some(size) => size.max_bytes,
        None => (request.io_sizes.iter().map(|size| size.max_bytes).max()).unwrap_or(0),
    }
}

/// Rounds down to whole MiB, or to whole pages below that.
pub(super) fn round_down(bytes: u64) -> u64 {
    let unit = if bytes >= MIB { MIB } else { 4 * KIB };
    bytes - bytes % unit
}

/// Maximum time for writing the files as a share of the cells' time, at
/// [`ASSUMED_BYTES_PER_SECOND`].
const SHARE_FOR_WRITING: f64 = 0.5;

/// Total size in bytes for the files of a preset in `folder`: what a cell moves in its time, so that
/// no cache serves a second read, as far as disk link speeds allow; but writing them must not take
/// longer than the measurements. `None` without a preset or a fixed duration.
fn fitted_bytes(request: &MatrixRequest, facts: &HostFacts, folder: &Path) -> Option<u64> {
    let CellSpan::Seconds(seconds) = request.span() else {
        return None;
    };
    request.preset.as_ref()?;
    let seconds = seconds + request.warmup_seconds;
    let storage = facts.storage.iter();
    let mut of_folder = storage.filter(|storage| storage.paths.iter().any(|path| path == folder));
    let link = of_folder.find_map(|storage| storage.link_bytes_per_second());
    let rate = link.map_or(ASSUMED_BYTES_PER_SECOND, |rate| rate as f64);
    let cells: f64 = [
        request.paths().len(),
        request.ops.len(),
        request.io_sizes.len(),
        request.threads.len(),
        request.queue_depths.len(),
        request.repeat() as usize,
    ]
    .into_iter()
    .map(|count| count as f64)
    .product();
    let writable = cells * seconds * SHARE_FOR_WRITING * ASSUMED_BYTES_PER_SECOND;
    Some((rate * seconds).min(writable) as u64)
}
