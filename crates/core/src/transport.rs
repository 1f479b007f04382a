//! How bytes move between storage and memory: path, engine, device, threads, buffers.
//!
//! Every lane decides this while planning, from the request and the facts of the host, so that a
//! dry run rejects a plan that cannot run, and no decision is left for run time.

use serde::{Deserialize, Serialize};
use strum::{EnumString, IntoStaticStr, VariantArray, VariantNames};

use crate::devices;
pub use crate::devices::{DeviceOfRun, Devices};
use crate::facts::{Availability, CuFileLimits, HostFacts};
use crate::failure::Problems;
use crate::names::{Named, unknown};
pub use crate::path::DeviceId;
use crate::path::{EngineKind, MemoryKind, PathKind, buffers_needed};
use crate::placement::{self, Placement};
pub use crate::threads::{Threading, WaitMode};
use crate::units::counted;
use crate::verify::Verify;
use crate::warning::{Warning, WarningKind};

/// The transport of a run, fully decided.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Transport {
    /// The path.
    pub path: PathKind,
    /// The engine under it, for CPU-driven paths.
    pub engine: EngineKind,
    /// The requested engine.
    pub requested_engine: EngineChoice,
    /// The accelerator, for paths that end in one; the first of several.
    pub device: Option<DeviceId>,
    /// The accelerators over which the workload's accelerators, or the ranks, are dealt in turn, if
    /// they are several. Thread `t` serves device `t % n`.
    pub devices: Vec<DeviceOfRun>,
    /// The kind of memory at the end of a transfer.
    pub memory: MemoryKind,
    /// Whether host memory emulates an accelerator's memory.
    pub emulated: bool,
    /// Threads that move bytes.
    pub threads: usize,
    /// Transfers in flight per thread, each with separate buffers.
    pub queue_depth: usize,
    /// Maximum bytes per transfer.
    pub chunk_bytes: u64,
    /// Transfers in flight per read or file.
    pub window: usize,
    /// Submissions batched before they are passed to the kernel.
    pub submit_batch: usize,
    /// The pages for the host buffers.
    pub pages: Pages,
    /// Whether buffers are registered with cuFile.
    pub register_buffers: bool,
    /// Files that each thread keeps open between transfers.
    pub streams: usize,
    /// How threads wait for CUDA and for cuFile's queues.
    pub wait: WaitMode,
    /// Placement of threads and their buffers.
    pub placement: Placement,
}

impl Transport {
    /// One transfer at a time, with the remaining parameters still to be decided.
    pub fn bare(
        path: PathKind,
        engine: EngineKind,
        requested_engine: EngineChoice,
        device: Option<DeviceId>,
    ) -> Self {
        Self {
            path,
            engine,
            requested_engine,
            device,
            devices: Vec::new(),
            memory: match device {
                Some(DeviceId::Gpu { .. }) => MemoryKind::Device,
                Some(DeviceId::Host) | None => MemoryKind::Host,
            },
            emulated: device == Some(DeviceId::Host),
            threads: 1,
            queue_depth: 1,
            chunk_bytes: 0,
            window: 1,
            submit_batch: 1,
            pages: Pages::Huge,
            register_buffers: true,
            streams: 1,
            wait: WaitMode::default(),
            placement: Placement::default(),
        }
    }

    /// Host memory used by all buffers, including those that emulate an accelerator's memory.
    pub fn buffer_bytes(&self) -> u64 {
        self.buffer_bytes_of(self.threads)
    }

    /// Host memory used by the buffers of so many of its threads.
    pub fn buffer_bytes_of(&self, threads: usize) -> u64 {
        let (host, accelerator) = buffers_needed(self.path, self.queue_depth);
        let on_device = matches!(self.device, Some(DeviceId::Gpu { .. }));
        let buffers = host + if on_device { 0 } else { accelerator };
        (threads as u64).saturating_mul(buffers as u64 * self.chunk_bytes)
    }

    /// Over how many devices the work is dealt: one, unless there are several.
    pub fn device_count(&self) -> usize {
        self.devices.len().max(1)
    }

    /// The devices in the order of the threads that serve them, each with the placement of those
    /// threads; one `None` where transfers end in no accelerator.
    pub fn each_device(&self) -> impl Iterator<Item = (Option<DeviceId>, &Placement)> {
        let only = self.devices.is_empty().then_some((self.device, &self.placement));
        let several = self.devices.iter().map(|one| (Some(one.device), &one.placement));
        only.into_iter().chain(several)
    }

    /// The accelerators that its transfers end in.
    pub fn accelerators(&self) -> impl Iterator<Item = DeviceId> + Clone {
        let only = self.device.filter(|_| self.devices.is_empty());
        only.into_iter().chain(self.devices.iter().map(|one| one.device))
    }

    /// The accelerators with the facts known of each, if they are several.
    pub fn devices_in_words(&self) -> Option<String> {
        let words = self.devices.iter().map(DeviceOfRun::to_text);
        (!self.devices.is_empty()).then(|| words.collect::<Vec<_>>().join("; "))
    }

    /// Placement and wait mode of its threads, where decided and effective.
    pub fn threads_in_words(&self) -> Option<String> {
        let wait = self.wait.name();
        let wait = self.waits_for_gpu().then(|| format!("{wait} while they wait for the GPU"));
        let words: Vec<String> =
            (self.placement.remark().map(str::to_string).into_iter()).chain(wait).collect();
        (!words.is_empty()).then(|| words.join("; "))
    }

    /// Whether its threads wait for a GPU, so that the wait mode matters.
    pub fn waits_for_gpu(&self) -> bool {
        self.path.ends_in_accelerator() && !self.emulated
    }

    /// The kind of host memory in use although path and device would allow GPU memory.
    pub fn host_memory(&self) -> Option<MemoryKind> {
        let chosen = self.waits_for_gpu() && self.memory.host_words().is_some();
        chosen.then_some(self.memory)
    }

    /// The threads and their transfers in flight, in words.
    pub fn layout_in_words(&self) -> String {
        format!(
            "{}, up to {} of {} KiB in flight in each, and one for compute",
            counted(self.threads as u64, "I/O thread"),
            counted(self.queue_depth as u64, "chunk"),
            self.chunk_bytes >> 10
        )
    }
}

/// The request of a lane with a single path for all transfers.
#[derive(Debug, Clone, Copy)]
pub struct TransportRequest<'a> {
    /// The path.
    pub path: PathKind,
    /// The engine.
    pub engine: EngineChoice,
    /// The accelerators; `None` selects the first one, otherwise emulation.
    pub devices: Option<&'a Devices>,
    /// The accelerators of the workload, or the ranks, that are dealt over them here.
    pub shares: u64,
    /// Whether a fallback of a cuFile path is an error.
    pub require_gds: bool,
    /// Wait mode of the threads.
    pub wait: Option<WaitMode>,
    /// Placement of the threads.
    pub threading: &'a Threading,
}

/// Decides path, engine and device for one transfer at a time; the lane decides threads and
/// buffers. Reports the limits of this host.
pub fn decide(asked: TransportRequest<'_>, host: &HostFacts, problems: &mut Problems) -> Transport {
    let path = asked.path;
    check_path(path, host, problems);
    let engine = engine(asked.engine, host, problems);
    let mut devices = devices::chosen(asked.devices, path, host, problems);
    // A device without a share is not opened.
    devices.truncate(usize::try_from(asked.shares.max(1)).unwrap_or(usize::MAX));
    if asked.require_gds && devices.contains(&DeviceId::Host) {
        problems.machine(
            format!("--require gds: path {path} would end in host memory, to which cuFile has no direct route"),
            "use --device cuda:0 on a machine with a GPU, or leave --require gds out",
        );
    }
    let (placement, of_each) = placement::decide_each(asked.threading, &devices, host, problems);
    let several = if devices.len() > 1 { devices.as_slice() } else { &[] };
    let several = several.iter().zip(of_each);
    Transport {
        wait: asked.wait.unwrap_or_default(),
        placement,
        devices: several
            .map(|(device, placement)| DeviceOfRun::on(host, *device, placement))
            .collect(),
        ..Transport::bare(path, engine, asked.engine, devices.first().copied())
    }
}

/// The engine that `asked` resolves to on `host`; reports a problem if a named engine cannot run
/// there.
pub fn engine(asked: EngineChoice, host: &HostFacts, problems: &mut Problems) -> EngineKind {
    let Some(named) = asked.named() else {
        let has_ring = host.engine(EngineKind::Uring).is_available();
        return if has_ring { EngineKind::Uring } else { EngineKind::Psync };
    };
    if named != EngineKind::Psync
        && let Availability::Unavailable { fact, remedy } = host.engine(named)
    {
        problems.machine(
            format!("engine {named} cannot run here: {fact}"),
            if remedy.contains("--engine psync") {
                remedy.clone()
            } else {
                format!("{remedy}; or use --engine psync")
            },
        );
    }
    named
}

/// Reports a way to verify that is for objects where `path` moves files.
pub fn check_objects_only(path: PathKind, verify: Verify, problems: &mut Problems) {
    if path != PathKind::S3 && verify.is_for_objects() {
        let what = format!("checksum `{}` is for objects, not for path {path}", verify.name());
        problems.plan(what, "leave it out, or name objects: s3://bucket/prefix");
    }
}

/// The engine for transfers on `path` with `depth` in flight per thread, where `engine` is the
/// default. A ring brings no gain for a single transfer through the page cache: a plain call makes
/// the same copy in fewer steps.
pub fn engine_at(
    asked: EngineChoice,
    engine: EngineKind,
    path: PathKind,
    depth: usize,
) -> EngineKind {
    if asked == EngineChoice::Auto && path.uses_page_cache() && depth == 1 {
        EngineKind::Psync
    } else {
        engine
    }
}

/// Whether transfers on `path` are blocking calls: a thread has one in flight, whatever its depth.
/// Path `s3` has a connection for each, beyond the first on separate threads.
pub fn blocks(path: PathKind, engine: EngineKind) -> bool {
    matches!(path, PathKind::Gds | PathKind::S3)
        || (path.has_engine() && engine == EngineKind::Psync)
}

/// The depth of each of `threads` on `path` where `wanted` is the lane's choice, and a warning if
/// cuFile accepts fewer without failing or hanging.
pub fn depth_in_cufile(
    path: PathKind,
    threads: usize,
    wanted: usize,
    host: &HostFacts,
) -> (usize, Option<Warning>) {
    let Some((most, setting)) = most_in_cufile(path, threads, host).filter(|it| it.0 < wanted)
    else {
        return (wanted, None);
    };
    let limits = host.cufile_limits.as_ref();
    let named = limits.map_or_else(String::new, |limits| limits.named(setting));
    let warning = Warning::new(
        WarningKind::KnownIssue,
        format!(
            "cuFile accepts {} of {} transfers in flight on {path} ({named}): other paths have more",
            most * threads,
            wanted * threads
        ),
        format!("raise {setting} in cufile.json for the same bytes in flight as on other paths"),
    );
    (most, Some(warning))
}

/// Maximum transfers of a thread, out of `threads`, that cuFile accepts on `path`, and the setting
/// that limits them; `None` without such a setting.
fn most_in_cufile(
    path: PathKind,
    threads: usize,
    host: &HostFacts,
) -> Option<(usize, &'static str)> {
    let limits = host.cufile_limits.as_ref()?;
    let of_each = |all: u64| (all as usize / threads.max(1)).max(1);
    match path {
        PathKind::GdsAsync => Some((of_each(limits.stream_transfers), CuFileLimits::QUEUE_DEPTH)),
        PathKind::GdsBatch | PathKind::GdsBatchStream => {
            Some((limits.batch_entries as usize, CuFileLimits::BATCH_SIZE))
        }
        _ => None,
    }
}

/// The default submission batch for `depth` transfers in flight. Through the page cache the kernel
/// works while it is handed requests, so half of them are submitted at once; a device works
/// asynchronously and idles less with smaller batches.
pub fn submit_batch(path: PathKind, depth: usize) -> usize {
    if path.uses_page_cache() { (depth / 2).max(1) } else { depth.min(4) }
}

/// Reports a problem if `path` needs a library that `host` does not have.
pub fn check_path(path: PathKind, host: &HostFacts, problems: &mut Problems) {
    if path.needs_cufile()
        && let Availability::Unavailable { fact, remedy } = host.support(path)
    {
        problems.machine(format!("path {path} cannot run here: {fact}"), remedy);
    }
}

/// The warning that psync is used because io_uring, although allowed by the request, is
/// unavailable.
pub fn engine_warning(asked: EngineChoice, host: &HostFacts) -> Option<Warning> {
    let Availability::Unavailable { fact, remedy } = &host.io_uring else {
        return None;
    };
    (asked == EngineChoice::Auto).then(|| {
        Warning::new(
            WarningKind::EngineFellBack,
            format!("the CPU's paths run on psync threads, because io_uring is refused: {fact}"),
            remedy.clone(),
        )
    })
}

/// The warning that accelerator memory is emulated.
pub fn emulated_warning() -> Warning {
    Warning::new(
        WarningKind::Emulated,
        "accelerator memory is emulated: copies to it stay in host memory",
        "measure transfers to a GPU on a machine with one",
    )
}

/// The warning about the effect of cuFile's statistics at `level` (`--tune cufile-stats`) where a
/// cuFile path runs.
pub fn statistics_warning(
    level: Option<u8>,
    any_cufile: bool,
    host: &HostFacts,
) -> Option<Warning> {
    let level = level.filter(|_| any_cufile)?;
    if host.cufile_statistics == Some(false) {
        return Some(Warning::new(
            WarningKind::NoEffect,
            "--tune cufile-stats has no effect: this libcufile keeps no statistics (1.15 or later does)",
            "leave it out",
        ));
    }
    let (fact, advice) = match level {
        0 => (
            "cuFile counts no routes (--tune cufile-stats=0), so its counters cannot prove a route"
                .to_string(),
            "leave out the option to have the routes of a few transfers counted",
        ),
        1 | 2 => (
            format!(
                "cuFile keeps level {level} statistics throughout, which may slow it down and does \
                 not record routes"
            ),
            "leave out --tune cufile-stats, or use level 3, which records routes",
        ),
        _ => (
            "cuFile counts during the measured part, which slows it down".to_string(),
            "leave out --tune cufile-stats to count only a few transfers",
        ),
    };
    Some(Warning::new(WarningKind::HarnessBound, fact, advice))
}

/// The warning that a wait mode was requested although no path waits for a GPU.
pub fn wait_warning(asked: Option<WaitMode>, any_waits: bool) -> Option<Warning> {
    let wait = asked.filter(|_| !any_waits)?;
    Some(Warning::new(
        WarningKind::NoEffect,
        format!("--tune wait={} has no effect: no GPU is used", wait.name()),
        "leave it out, or use --device cuda:0 on a machine with a GPU",
    ))
}

/// The warning that not all devices of `asked` have work: there are fewer `shares`, accelerators or
/// ranks.
pub fn idle_warning(
    asked: Option<&Devices>,
    transport: &Transport,
    shares: &str,
) -> Option<Warning> {
    let Some(Devices::Named(named)) = asked else {
        return None;
    };
    let used = transport.device_count();
    if transport.device.is_none() || named.len() <= used {
        return None;
    }
    Some(Warning::new(
        WarningKind::NoEffect,
        format!(
            "no work is assigned to {} of --device: there are more devices than {shares} here",
            Devices::Named(named[used..].to_vec())
        ),
        format!("name {}, or use more {shares}", counted(used as u64, "device")),
    ))
}

/// The pages for buffers in host memory.
///
/// A large direct transfer is one segment on a huge page and hundreds on small pages, which costs
/// CPU time and, on some devices, bandwidth. Ordinary programs use small pages.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
#[derive(EnumString, IntoStaticStr, VariantArray, VariantNames)]
#[strum(serialize_all = "kebab-case", parse_err_ty = String, parse_err_fn = unknown::<Self>)]
pub enum Pages {
    /// Huge pages where available: reserved ones, otherwise transparent ones.
    #[default]
    Huge,
    /// Small pages only.
    Small,
}

impl Named for Pages {
    const WHAT: &'static str = "a size of pages";
}

impl Pages {
    /// The name on the command line.
    #[must_use]
    pub fn name(self) -> &'static str {
        self.into()
    }

    /// The remark in a header for buffers that are not on the default pages.
    pub fn remark(self) -> Option<&'static str> {
        (self == Self::Small).then_some("on small pages, as requested")
    }
}

/// A property of transfers without which a run fails: a value of `--require`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
#[derive(EnumString, IntoStaticStr, VariantArray, VariantNames)]
#[strum(serialize_all = "kebab-case", parse_err_ty = String, parse_err_fn = unknown::<Self>)]
pub enum Requirement {
    /// Paths of cuFile do not fall back.
    Gds,
    /// Files are opened with `O_DIRECT` on the paths that want it.
    Direct,
}

impl Named for Requirement {
    const WHAT: &'static str = "a requirement";
}

impl Requirement {
    /// Parses the one requirement of a lane whose paths need not be direct.
    ///
    /// # Errors
    /// If it is another one.
    pub fn of_cufile(text: &str) -> Result<Self, String> {
        match text.parse()? {
            Self::Gds => Ok(Self::Gds),
            Self::Direct => Err("use gds; `stormlp gds` also accepts direct".into()),
        }
    }
}

/// The engine for CPU-driven paths.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
#[derive(EnumString, IntoStaticStr, VariantArray, VariantNames)]
#[strum(serialize_all = "kebab-case", parse_err_ty = String, parse_err_fn = unknown::<Self>)]
pub enum EngineChoice {
    /// io_uring if the kernel allows it, threads otherwise; the report states which.
    #[default]
    Auto,
    /// io_uring only.
    Uring,
    /// io_uring through tokio-uring.
    TokioUring,
    /// `pread` and `pwrite`.
    Psync,
}

impl Named for EngineChoice {
    const WHAT: &'static str = "an engine";
}

impl EngineChoice {
    /// The name on the command line.
    #[must_use]
    pub fn name(self) -> &'static str {
        self.into()
    }

    /// The engine, if one was named.
    pub fn named(self) -> Option<EngineKind> {
        match self {
            Self::Auto => None,
            Self::Uring => Some(EngineKind::Uring),
            Self::TokioUring => Some(EngineKind::TokioUring),
            Self::Psync => Some(EngineKind::Psync),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requested_host_memory_is_not_an_accelerators() {
        let mut transport = crate::fixtures::transport(PathKind::CpuGpu, EngineKind::Psync);
        assert_eq!(transport.host_memory(), None, "emulated");
        transport.emulated = false;
        assert_eq!(transport.host_memory(), Some(MemoryKind::Host));
        transport.memory = MemoryKind::Vmm;
        assert_eq!(transport.host_memory(), None);
    }
}
