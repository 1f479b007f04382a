//! Saves the results of a run: the whole report by the leading process, and next to it the results
//! of each of several processes.
//!
//! Each process keeps its own part in the folder of the run, on its own host if the folder is not
//! shared: the results survive on whichever host outlives the others.

use std::cell::LazyCell;
use std::path::{Path, PathBuf};

use serde::Serialize;
use stormlp_core::facts::HostFacts;
use stormlp_core::failure::Failure;
use stormlp_core::report::{PartOf, Report, ReportKind};
use stormlp_core::transport::DeviceId;
use stormlp_transfer::{cuda, cufile};

use crate::party::Party;
use crate::saver::Saver;
use crate::session::Session;

/// See the [module's description](self).
#[derive(Debug)]
pub struct Savers {
    /// It is inside the folder of the whole report, so it is removed first if nothing was measured.
    part: Option<Part>,
    /// `None` unless this is the leading process.
    whole: Option<Saver>,
}

/// The part saved by one of several processes.
#[derive(Debug)]
struct Part {
    saver: Saver,
    of: PartOf,
}

/// The path of a finished report, or why it could not be saved.
pub type Finished = Result<PathBuf, Failure>;

impl Savers {
    /// Creates the folder of the run called `name` in `results`, by default
    /// [`results_folder`](crate::saver::results_folder), and in it that of each process.
    ///
    /// # Errors
    /// With exit code 4 if one cannot be created; all processes fail alike then.
    pub fn create(
        results: Option<&Path>,
        named: (ReportKind, &str),
        party: &Party,
        session: &Session,
    ) -> Result<Self, Failure> {
        let kind = named.0;
        let create = || Saver::create(results, named, session);
        if party.is_alone() {
            return Ok(Self { whole: Some(create()?), part: None });
        }
        let whole = session.group.leads().then(create).transpose();
        let whole = party.agree(whole)?;
        let folder = whole.as_ref().and_then(|saver| saver.path().parent());
        let own = folder.and_then(Path::file_name).map(|name| name.to_string_lossy().into_owned());
        let answers = party.exchange(&own)?;
        let run_id = answers.into_iter().next().flatten().unwrap_or_default();
        let of = party.part_of(&run_id);
        let of = of.ok_or_else(|| Failure::bug(anyhow::anyhow!("no process has this rank")))?;
        let saver = party.agree(Saver::of_part(results, &of, kind))?;
        Ok(Self { whole, part: Some(Part { saver, of }) })
    }

    /// For a run of one process that resumes the report of `kind` at `path`.
    pub fn resume_alone(path: &Path, kind: ReportKind) -> Self {
        Self { whole: Some(Saver::resume(path, kind)), part: None }
    }

    /// For a run that resumes the report of `kind` at `path`, and the part of this process in it if
    /// it is one of several, as `read` returns it.
    ///
    /// # Errors
    /// With exit code 4 if a part cannot be saved; all processes fail alike then.
    pub fn resume<P, R>(
        (path, kind): (&Path, ReportKind),
        party: &Party,
        session: &Session,
        read: impl FnOnce(&Path) -> Option<Report<P, R>>,
    ) -> Result<(Self, Option<Report<P, R>>), Failure> {
        let whole = session.group.leads().then(|| Saver::resume(path, kind));
        let path = std::path::absolute(path).unwrap_or_else(|_| path.to_path_buf());
        let run = path.parent().unwrap_or(Path::new(""));
        let run_id = run.file_name().unwrap_or_default().to_string_lossy();
        let Some(of) = party.part_of(&run_id) else {
            return Ok((Self { whole, part: None }, None));
        };
        let found = Saver::place_of_part(run, &of).join("report.json");
        let own = read(&found).filter(|report| {
            let part = report.head.part.as_ref();
            part.is_some_and(|part| (part.rank, &part.host) == (of.rank, &of.host))
        });
        let saver = match own {
            Some(_) => Ok(Saver::resume(&found, kind)),
            None => Saver::of_part(run.parent(), &of, kind),
        };
        let saver = party.agree(saver)?;
        let part = Some(Part { saver, of });
        Ok((Self { whole, part }, own))
    }

    fn each(&self) -> impl Iterator<Item = &Saver> {
        let part = self.part.as_ref().map(|part| &part.saver);
        self.whole.iter().chain(part)
    }

    /// The path of the report known to this process.
    pub fn path(&self) -> PathBuf {
        let first = self.each().next();
        first.map_or_else(PathBuf::new, |saver| saver.path().to_path_buf())
    }

    /// The folder that contains the parts of several processes.
    pub fn parts_folder(&self) -> Option<&Path> {
        let own = self.part.as_ref()?.saver.path();
        own.parent()?.parent()
    }

    /// Sets the environment variables that cuFile and CUDA read when they are opened: cuFile's log
    /// goes next to the report, a fallback is disabled if it is an error, and of the GPUs of `host`
    /// only `devices` are visible. Then has cuFile's calls watched: one
    /// that hangs ends the run. Must be called before the first thread starts. An error is ignored:
    /// the log then goes where the user chose, or to the current directory.
    pub fn prepare_cufile(
        &self,
        require_gds: bool,
        devices: impl IntoIterator<Item = DeviceId>,
        host: &HostFacts,
    ) {
        cuda::show_only(devices.into_iter().filter_map(DeviceId::gpu_index), host);
        // cuFile's log is per process, next to the part of that process.
        let Some(saver) = self.each().last() else {
            return;
        };
        let _ = cufile::send_log_to(&saver.path().with_file_name("cufile.log"));
        if require_gds {
            cufile::forbid_compat_mode();
        }
        // Without another thread the run goes on unwatched.
        let _ = cufile::watch_calls(saver.path());
    }

    /// Saves a completed cell of a matrix.
    pub fn cell<C: Serialize>(&mut self, own: &C, whole: &C) {
        if let Some(saver) = &mut self.whole {
            saver.cell(whole);
        }
        if let Some(part) = &mut self.part {
            part.saver.cell(own);
        }
    }

    /// Saves a completed epoch of all hosts: as a line, or with the whole report so far.
    pub fn epoch<P, R>(&mut self, epoch: &impl Serialize, report: impl FnOnce() -> Report<P, R>)
    where
        P: Serialize + Clone,
        R: Serialize + Clone,
    {
        let report = LazyCell::new(report);
        if let Some(saver) = &mut self.whole {
            saver.epoch(epoch, || &*report);
        }
        if let Some(part) = &mut self.part {
            part.saver.epoch(epoch, || copy_of(&report, part.of.clone()));
        }
    }

    /// Saves the results of all hosts so far, unless that takes too much of the run:
    /// each host has all of them.
    pub fn unit<P, R>(&mut self, report: impl FnOnce() -> Report<P, R>)
    where
        P: Serialize + Clone,
        R: Serialize + Clone,
    {
        let report = LazyCell::new(report);
        if let Some(saver) = &mut self.whole {
            saver.unit(|| &*report);
        }
        if let Some(part) = &mut self.part {
            part.saver.unit(|| copy_of(&report, part.of.clone()));
        }
    }

    /// Saves the report of a starting run; `own` is that of this process alone.
    ///
    /// # Errors
    /// With exit code 4 if it cannot be written.
    pub fn begin<R: Serialize>(
        &mut self,
        whole: &R,
        own: impl FnOnce(PartOf) -> R,
    ) -> Result<(), Failure> {
        if let Some(saver) = &mut self.whole {
            saver.begin(whole)?;
        }
        match &mut self.part {
            Some(part) => part.saver.begin(&own(part.of.clone())),
            None => Ok(()),
        }
    }

    /// Saves the finished reports: the whole one, in the leading process, and the part of this
    /// process, if it is one of several.
    pub fn finish<R: Serialize>(
        self,
        whole: &R,
        own: impl FnOnce(PartOf) -> R,
    ) -> (Option<Finished>, Option<Finished>) {
        let part = self.part.map(|part| part.saver.finish(&own(part.of)));
        (self.whole.map(|saver| saver.finish(whole)), part)
    }
}

/// The copy of the whole report that one host keeps.
pub fn copy_of<P: Clone, R: Clone>(whole: &Report<P, R>, of: PartOf) -> Report<P, R> {
    let mut copy = whole.clone();
    copy.head.part = Some(of);
    copy
}
