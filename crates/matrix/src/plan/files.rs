//! The files that a matrix uses, their sizes and the data to write first.
//!
//! Default sizes: existing files are used unchanged; else 1 GiB for each thread, limited to 8 GiB
//! and a quarter of the free space in total. Sizes of explicitly named files follow gdsio: see
//! [`SharedFile`].

use std::path::Path;

use super::devices::{self, Decided, lacking};
use super::inventory::{FileFacts, FileKind, TargetFolder, TargetInventory};
use super::manifest::{ContentState, ListedFile};
use super::request::{JobRequest, JobTarget, MatrixRequest};
use crate::plan::matrix_plan::{FileAction, FilePlan, MatrixPlan};
use stormlp_core::facts::Availability;
use stormlp_core::failure::Problems;
use stormlp_core::location::Location;
use stormlp_core::note::{Cause, Note};
use stormlp_core::operation::Direction;
use stormlp_core::units::{ByteSize, GIB, KIB, MIB, short_size};
use stormlp_core::warning::{Warning, WarningKind};

#[cfg(doc)]
use super::request::SharedFile;

/// Size of each thread's file if there is room for all of them.
const DEFAULT_FILE_BYTES: u64 = GIB;
/// Default total layout size.
const DEFAULT_TOTAL_BYTES: u64 = 8 * GIB;

/// The files of a matrix, for the thread count of its largest cell.
#[derive(Debug, Default)]
pub(super) struct PlannedFiles {
    /// The data folders.
    pub(super) folders: Vec<Location>,
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

/// Requirements of a request's operations on a file's content.
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
            pattern: (request.verify && reads).then_some(request.tune.seed),
            writes: request.writes(),
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

/// The files of a job and the number of bytes used of each.
pub(super) type FilesOfJob = (Vec<usize>, u64);

/// Decides on all files of a request; `threads_of` has each job's maximum thread count.
pub(super) fn decide(
    request: &MatrixRequest,
    inventory: &TargetInventory,
    threads_of: &[u32],
    problems: &mut Problems,
) -> PlannedFiles {
    let mut table = PlannedFiles::default();
    let folder_files: u64 = (request.jobs.iter().zip(threads_of))
        .filter(|(job, _)| matches!(job.target, JobTarget::Folder(_)))
        .map(|(_, threads)| u64::from(*threads))
        .sum();
    for (job, threads) in request.jobs.iter().zip(threads_of) {
        let path = job.target.path();
        let unknown =
            || lacking(format!("{} was not examined", path.display()), "run the command again");
        let decided = match &job.target {
            JobTarget::Folder(path) => {
                inventory.folder(path).ok_or_else(unknown).and_then(|folder| {
                    let job = FolderJob {
                        request,
                        job,
                        facts: folder,
                        needs: FileNeeds::of(request),
                        threads: *threads,
                        sharers: folder_files.max(1),
                    };
                    job.decide(&mut table, problems)
                })
            }
            JobTarget::File(path) => (inventory.file(path).ok_or_else(unknown))
                .and_then(|facts| named_file(request, job, facts, *threads, &mut table)),
        };
        let (files, used_bytes) = decided.unwrap_or_else(|problem| {
            problems.push(problem);
            FilesOfJob::default()
        });
        table.of_job.push(files);
        table.used_bytes.push(used_bytes);
    }
    devices::check_named(request, inventory, problems);
    table
}

/// A job with one file for each thread.
struct FolderJob<'a> {
    request: &'a MatrixRequest,
    job: &'a JobRequest,
    facts: &'a TargetFolder,
    needs: FileNeeds,
    threads: u32,
    /// The number of files of all folder jobs.
    sharers: u64,
}

impl FolderJob<'_> {
    fn decide(&self, table: &mut PlannedFiles, problems: &mut Problems) -> Decided<FilesOfJob> {
        let path = self.facts.path.display();
        if let Some(reason) = &self.facts.manifest_problem {
            let remedy = "use another --dir, or name its files with --file";
            return Err(lacking(format!("{path} cannot be used: {reason}"), remedy));
        }
        let names = || (0..self.threads).map(|thread| self.name(thread));
        let all_there = || names().all(|name| self.facts.found_bytes(&name).is_some());
        if let Availability::Unavailable { fact, remedy } = &self.facts.place.writable
            && (self.needs.writes || !all_there())
        {
            return Err(lacking(format!("{path} cannot hold the files: {fact}"), remedy));
        }
        let used_bytes = self.used_bytes()?;
        let known = table.folders.iter().position(|folder| folder.folder() == self.facts.path);
        let folder = known.unwrap_or_else(|| {
            table.folders.push(Location::from(&self.facts.path));
            table.folders.len() - 1
        });
        let mut files = Vec::new();
        for name in names() {
            match self.file(&name, used_bytes, folder, table) {
                Ok(file) => files.push(file),
                Err(problem) => problems.push(problem),
            }
        }
        Ok((files, used_bytes))
    }

    fn name(&self, thread: u32) -> String {
        format!("{}.{thread}", self.request.file_stem)
    }

    /// The manifest's entry of a file, if it still matches the file.
    fn own(&self, name: &str) -> Option<&ListedFile> {
        let entry = self.facts.listed(name)?;
        (self.facts.found_bytes(name) == Some(entry.bytes)).then_some(entry)
    }

    /// The smallest of its files, if all are there as they are listed, or were never listed.
    fn there_bytes(&self) -> Option<u64> {
        let sizes = (0..self.threads).map(|thread| {
            let name = self.name(thread);
            match self.facts.listed(&name) {
                Some(_) => self.own(&name).map(|entry| entry.bytes),
                None => self.facts.found_bytes(&name),
            }
        });
        sizes.collect::<Option<Vec<u64>>>()?.into_iter().min()
    }

    /// The number of bytes used of each file.
    fn used_bytes(&self) -> Decided<u64> {
        if let Some(bytes) = self.request.file_size_bytes {
            return Ok(bytes);
        }
        let largest_io = largest_io_bytes(self.request, self.job);
        if let Some(there) = self.there_bytes()
            && let Some(bytes) = there.checked_sub(self.job.offset_bytes)
            && bytes >= largest_io
        {
            return Ok(bytes);
        }
        let manifest = self.facts.manifest.iter();
        let own_bytes: u64 =
            manifest.flat_map(|it| &it.files).map(|file| file.bytes).fold(0, u64::saturating_add);
        let free = self.facts.place.free_bytes;
        let room = free.map_or(u64::MAX, |free| (free / 4).saturating_add(own_bytes));
        let least = largest_io + self.job.offset_bytes;
        let all = DEFAULT_TOTAL_BYTES.min(room);
        let bytes = round_down(DEFAULT_FILE_BYTES.min(all / self.sharers));
        if bytes >= least {
            return Ok(bytes - self.job.offset_bytes);
        }
        let path = self.facts.path.display();
        let limit = match free.map(ByteSize) {
            Some(free) => format!("{path} has {free} free, a quarter of which may be used"),
            None => format!("by default {} are used", ByteSize(DEFAULT_TOTAL_BYTES)),
        };
        let (files, transfer) = (self.sharers, ByteSize(largest_io));
        Err(lacking(
            format!("{limit}; {files} files of it are too small for a transfer of {transfer}"),
            format!("free some space, or name the size: --file-size {}", short_size(largest_io)),
        ))
    }

    fn file(
        &self,
        name: &str,
        used_bytes: u64,
        folder: usize,
        table: &mut PlannedFiles,
    ) -> Decided<usize> {
        let path = self.facts.path.join(name);
        if let Some(known) = table.files.iter().position(|file| file.path == path) {
            return Ok(known);
        }
        let needed = used_bytes.checked_add(self.job.offset_bytes).ok_or_else(|| {
            Note::new(Cause::Plan, "offset and size overflow", "use a smaller offset")
        })?;
        self.check_is_ours(name, &path)?;
        let (action, bytes, content, created_by_stormlp) = self.contents(name, &path, needed)?;
        // A possible copy of the created file may just as well be user data: it may be read, but is
        // never overwritten.
        if (self.needs.writes || action != FileAction::Use)
            && self.facts.copies.iter().any(|copy| copy == name)
        {
            return Err(lacking(
                format!(
                    "{} is not the file created by stormlp, despite the same size, so it is not \
                     overwritten",
                    path.display()
                ),
                "move it away if it is yours; remove it if it is a copy, to create it again; or \
                 use another --dir",
            ));
        }
        let holes = self.facts.hole_bytes.get(name).filter(|_| action == FileAction::Use);
        table.files.push(FilePlan {
            path,
            bytes,
            action,
            content,
            folder: Some(folder),
            created_by_stormlp,
            file_system: self.facts.place.file_system.clone(),
            hole_bytes: holes.copied().unwrap_or(0),
        });
        Ok(table.files.len() - 1)
    }

    /// The action for a file that needs this many bytes, its size and contents then, and whether
    /// stormlp made it.
    fn contents(
        &self,
        name: &str,
        path: &Path,
        needed: u64,
    ) -> Decided<(FileAction, u64, Option<ContentState>, bool)> {
        let seed = self.request.tune.seed;
        let own = self.own(name);
        match (own, self.facts.found_bytes(name)) {
            (Some(own), _) if own.bytes >= needed && self.needs.met_by(own.content) => {
                Ok((FileAction::Use, own.bytes, Some(own.content), true))
            }
            // gdsio reads the given file. Laying it out anew for a read would replace the written
            // data, and `-V` would then compare the pattern with itself.
            (_, Some(bytes)) if self.only_reads() => {
                let content = own.map(|own| own.content);
                self.check_readable(path, (bytes, needed), content)?;
                Ok((FileAction::Use, bytes, content, own.is_some()))
            }
            (_, None)
                if self.only_reads()
                    && self.facts.manifest.is_none()
                    && !self.facts.files.is_empty() =>
            {
                Err(lacking(
                    format!(
                        "{} does not exist, and the folder has files that stormlp did not make",
                        path.display()
                    ),
                    "use as many -w as there are files, or another -D",
                ))
            }
            _ if self.needs.content => {
                Ok((FileAction::Fill, needed, Some(ContentState::Pattern { seed }), true))
            }
            _ => Ok((FileAction::Allocate, needed, Some(ContentState::Unwritten), true)),
        }
    }

    /// Whether a line of gdsio reads the files that are there, whoever made them.
    fn only_reads(&self) -> bool {
        self.request.is_gdsio() && !self.needs.writes
    }

    /// An existing file without a manifest entry is user data, whatever its name.
    fn check_is_ours(&self, name: &str, path: &Path) -> Decided<()> {
        let path = path.display();
        if let Some(what) = self.facts.others.get(name) {
            return Err(lacking(
                format!("{path} is {what}, which was not created by stormlp"),
                "move it away if it is yours, or remove it; or use another --dir",
            ));
        }
        let is_foreign =
            self.facts.found_bytes(name).is_some() && self.facts.listed(name).is_none();
        if is_foreign && !self.only_reads() {
            return Err(Note::new(
                Cause::Plan,
                format!("{path} exists, but was not created by stormlp (no manifest)"),
                "use another --dir, or name the file with --file",
            ));
        }
        Ok(())
    }

    /// Refuses to read a file that is too small, does not hold the pattern to compare with, or has
    /// unwritten space: no device is accessed then, so the figure is meaningless.
    fn check_readable(
        &self,
        path: &Path,
        (bytes, needed): (u64, u64),
        content: Option<ContentState>,
    ) -> Decided<()> {
        let shown = path.display();
        match (self.needs.pattern, content) {
            _ if bytes < needed => Err(lacking(
                format!(
                    "{shown} is too small: it has {}, {} are needed",
                    ByteSize(bytes),
                    ByteSize(needed)
                ),
                "remove it, so that it is created again, or use a smaller size",
            )),
            (Some(seed), content) if content != Some(ContentState::Pattern { seed }) => {
                Err(nothing_to_compare(path, seed))
            }
            (None, Some(ContentState::Unwritten)) => Err(lacking(
                format!(
                    "{shown} has its space but was never written by stormlp; reading it would \
                     touch no device"
                ),
                "write it first with -I 1, or name the file with -f if something else wrote it",
            )),
            _ => Ok(()),
        }
    }
}

/// Decides on an explicitly named file or block device.
fn named_file(
    request: &MatrixRequest,
    job: &JobRequest,
    facts: &FileFacts,
    threads: u32,
    table: &mut PlannedFiles,
) -> Decided<FilesOfJob> {
    let offset = job.offset_bytes;
    let path = facts.path.display();
    let needs = FileNeeds::of(request);
    check_access(request, facts, needs)?;
    let wanted = request.file_size_bytes;
    let (action, bytes, used) = match facts.kind {
        // gdsio reads existing files only.
        FileKind::Missing if request.is_gdsio() && !needs.writes => {
            return Err(lacking(
                format!("{path} does not exist, and a read needs it"),
                "correct the name, or write the file first: the same line with -I 1",
            ));
        }
        FileKind::Missing => {
            let default = || needs.writes.then(|| default_shared(facts, threads));
            let used = wanted.or_else(default).ok_or_else(|| {
                let remedy = "correct the name, or set --file-size to create it";
                lacking(format!("{path} does not exist"), remedy)
            })?;
            let action = if needs.content { FileAction::Fill } else { FileAction::Allocate };
            (action, used.saturating_add(offset), used)
        }
        _ => {
            let there = facts.bytes.saturating_sub(offset);
            let used = wanted.unwrap_or(there);
            if used > there || used == 0 {
                return Err(lacking(
                    format!(
                        "{path} is too small: it has {}, {} are needed",
                        ByteSize(facts.bytes),
                        ByteSize(used.max(1).saturating_add(offset))
                    ),
                    "use a smaller --file-size or offset, or a larger file",
                ));
            }
            (FileAction::Use, facts.bytes, used)
        }
    };
    let known = table.files.iter().position(|file| file.path == facts.path);
    let index = known.unwrap_or_else(|| {
        table.files.push(FilePlan {
            path: facts.path.clone(),
            bytes,
            action,
            content: match action {
                FileAction::Use => None,
                FileAction::Allocate => Some(ContentState::Unwritten),
                FileAction::Fill => Some(ContentState::Pattern { seed: request.tune.seed }),
            },
            folder: None,
            created_by_stormlp: facts.kind == FileKind::Missing,
            file_system: facts.place.file_system.clone(),
            hole_bytes: facts.hole_bytes,
        });
        table.files.len() - 1
    });
    Ok((vec![index], used))
}

/// Checks that a named file permits the access that the request needs.
fn check_access(request: &MatrixRequest, facts: &FileFacts, needs: FileNeeds) -> Decided<()> {
    let path = facts.path.display();
    let refused = |fact: String, remedy: &str| Err(Note::new(Cause::Plan, fact, remedy));
    let holds_data = facts.kind == FileKind::Regular && facts.hole_bytes < facts.bytes;
    let ours = facts.marked || facts.holds_pattern == Some(true);
    if facts.kind == FileKind::Other {
        return refused(format!("{path} is not a file or block device"), "use --dir for a folder");
    }
    if needs.writes && facts.kind == FileKind::BlockDevice {
        devices::check(request, facts)?;
    }
    // Names are those of devices' signatures.
    let may_go = request.destroy_data.as_ref().is_some_and(Vec::is_empty);
    if needs.writes && holds_data && !ours && !may_go {
        return refused(
            format!(
                "{path} holds data and is not known to be created by stormlp; writing would \
                 destroy it"
            ),
            "name a new file, or add --destroy-data, without names, if its data may go",
        );
    }
    if request.verifies_existing_data() && facts.holds_pattern == Some(false) {
        return Err(nothing_to_compare(&facts.path, request.tune.seed));
    }
    for (is_needed, access, verb) in
        [(true, &facts.readable, "read"), (needs.writes, &facts.place.writable, "written")]
    {
        if let (true, Availability::Unavailable { fact, remedy }) = (is_needed, access) {
            return Err(lacking(format!("{path} cannot be {verb}: {fact}"), remedy));
        }
    }
    Ok(())
}

/// New files that are smaller than usual, because little space is free.
pub(super) fn small_files(plan: &MatrixPlan, inventory: &TargetInventory) -> Option<Warning> {
    // The size of a file that is there was not chosen now.
    let is_new = |file: &&FilePlan| {
        let name = file.path.file_name().and_then(|name| name.to_str());
        let folder = file.path.parent().and_then(|folder| inventory.folder(folder));
        let found = folder.zip(name).map(|(folder, name)| folder.found_bytes(name));
        file.folder.is_some() && found == Some(None)
    };
    let smallest = plan.files.iter().filter(is_new).map(|file| file.bytes).min()?;
    let share = DEFAULT_TOTAL_BYTES / plan.files.len() as u64;
    let usual = round_down(DEFAULT_FILE_BYTES.min(share));
    (plan.request.file_size_bytes.is_none() && smallest < usual).then(|| {
        let [smallest, usual] = [smallest, usual].map(ByteSize);
        Warning::new(
            WarningKind::Scaled,
            format!("files of {smallest}, not {usual}: a quarter of the free space at most"),
            "free some space, or set --file-size",
        )
    })
}

/// Default size of a new file shared by several threads.
fn default_shared(facts: &FileFacts, threads: u32) -> u64 {
    let room = facts.place.free_bytes.map_or(u64::MAX, |free| free / 4).min(DEFAULT_TOTAL_BYTES);
    round_down(room.min(DEFAULT_FILE_BYTES * u64::from(threads)))
}

/// A file with other contents than those to compare with: each byte would count as corrupt.
fn nothing_to_compare(path: &Path, seed: u64) -> Note<Cause> {
    lacking(
        format!(
            "{} was not written with --verify and --tune seed={seed}, so it cannot be verified",
            path.display()
        ),
        "write it first with --op write --verify --duration 1x, or leave --verify out",
    )
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
