//! How bytes move between storage and memory: path, engine, device, threads, buffers.
//!
//! Every lane decides it while it makes its plan, from what was asked for and what is known of the
//! host, so that a dry run refuses what cannot run, and nothing is decided while it runs.

mod device;

use serde::{Deserialize, Serialize};
use strum::{EnumString, IntoStaticStr, VariantArray, VariantNames};

pub use device::DeviceId;

use crate::facts::{Availability, HiddenGpus, HostFacts};
use crate::names::{Named, unknown};
use crate::path::{EngineKind, MemoryKind, PathKind, buffers_needed};
use crate::placement::{self, CpuList, NumaChoice, Placement};
use crate::problem::Problems;
use crate::units::counted;
use crate::warning::{Warning, WarningKind};

/// How the bytes of a run move, every number decided.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Transport {
    /// The path.
    pub path: PathKind,
    /// The engine under it, where the CPU drives the path.
    pub engine: EngineKind,
    /// The engine as it was asked for.
    pub engine_asked: EngineChoice,
    /// The accelerator, for the paths that end in one.
    pub device: Option<DeviceId>,
    /// What kind of memory transfers end in.
    pub memory: MemoryKind,
    /// Whether host memory stands in for an accelerator's.
    pub emulated: bool,
    /// Threads that move bytes.
    pub threads: usize,
    /// Transfers in flight for each thread, each with buffers of its own.
    pub queue_depth: usize,
    /// Bytes of one transfer at most.
    pub chunk_bytes: u64,
    /// Transfers of one read or one file in flight.
    pub window: usize,
    /// Submissions gathered before they go to the kernel.
    pub submit_batch: usize,
    /// What pages the host's buffers are to lie on.
    #[serde(default)]
    pub pages: Pages,
    /// Whether buffers are registered with cuFile.
    pub register_buffers: bool,
    /// Files that each thread holds open from one transfer to the next.
    pub streams: usize,
    /// How threads wait for CUDA and for cuFile's queues.
    #[serde(default)]
    pub wait: WaitMode,
    /// Where threads and their buffers are.
    #[serde(default)]
    pub placement: Placement,
}

impl Transport {
    /// One transfer at a time, with all that is not said here yet to be decided.
    pub fn bare(
        path: PathKind,
        engine: EngineKind,
        engine_asked: EngineChoice,
        device: Option<DeviceId>,
    ) -> Self {
        Self {
            path,
            engine,
            engine_asked,
            device,
            memory: match device {
                Some(DeviceId::Cuda(_)) => MemoryKind::Device,
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

    /// Host memory that all buffers take, those that stand in for an accelerator's among them.
    pub fn buffer_bytes(&self) -> u64 {
        let (host, accelerator) = buffers_needed(self.path, self.queue_depth);
        let on_device = matches!(self.device, Some(DeviceId::Cuda(_)));
        let buffers = host + if on_device { 0 } else { accelerator };
        (self.threads as u64).saturating_mul(buffers as u64 * self.chunk_bytes)
    }

    /// Where its threads are and how they wait, as far as that was decided and has an effect.
    pub fn threads_in_words(&self) -> Option<String> {
        let wait = self.wait.name();
        let wait = self.waits_for_gpu().then(|| format!("{wait} while they wait for the GPU"));
        let words: Vec<String> =
            (self.placement.remark().map(str::to_string).into_iter()).chain(wait).collect();
        (!words.is_empty()).then(|| words.join("; "))
    }

    /// Whether its threads wait for a GPU, so that how they wait has an effect.
    pub fn waits_for_gpu(&self) -> bool {
        self.path.ends_in_accelerator() && !self.emulated
    }

    /// The host memory that transfers end in although the path and its device allow a GPU's.
    pub fn host_memory(&self) -> Option<MemoryKind> {
        let chosen = self.waits_for_gpu() && self.memory.host_words().is_some();
        chosen.then_some(self.memory)
    }

    /// The threads and what each has in flight.
    pub fn layout_in_words(&self) -> String {
        format!(
            "{} I/O threads, up to {} chunks of {} KiB in flight in each, and one for compute",
            self.threads,
            self.queue_depth,
            self.chunk_bytes >> 10
        )
    }
}

/// For tests, of this crate and of others.
#[cfg(any(test, feature = "fixtures"))]
impl Transport {
    /// Two threads that move 64 KiB at a time through host memory.
    #[must_use]
    pub fn fixture(path: PathKind, engine: EngineKind) -> Self {
        Self {
            path,
            engine,
            engine_asked: EngineChoice::Auto,
            device: path.ends_in_accelerator().then_some(DeviceId::Host),
            memory: MemoryKind::Host,
            emulated: path.ends_in_accelerator(),
            threads: 2,
            queue_depth: if engine == EngineKind::Psync { 1 } else { 4 },
            chunk_bytes: 64 << 10,
            window: 1,
            submit_batch: 5,
            pages: Pages::Huge,
            register_buffers: true,
            streams: 24,
            wait: WaitMode::default(),
            placement: Placement::default(),
        }
    }
}

/// What was asked of a lane whose transfers all take one path.
#[derive(Debug, Clone, Copy)]
pub struct Asked<'a> {
    /// The path.
    pub path: PathKind,
    /// The engine.
    pub engine: EngineChoice,
    /// The accelerator; `None` takes the first, else the stand-in.
    pub device: Option<DeviceId>,
    /// Whether a path of cuFile's that falls back is an error.
    pub require_gds: bool,
    /// How threads wait, and where they are.
    pub threading: &'a Threading,
}

/// The path, engine and device that were asked for, for one transfer at a time: threads and
/// buffers are for the lane to decide. Finds what this host cannot do.
pub fn decide(asked: Asked<'_>, host: &HostFacts, problems: &mut Problems) -> Transport {
    let path = asked.path;
    check_path(path, host, problems);
    let engine = engine(asked.engine, host, problems);
    let device = device(asked.device, path, host, problems);
    if asked.require_gds && device == Some(DeviceId::Host) {
        problems.machine(
            format!("--require-gds: path {path} would end in host memory, to which cuFile has no direct route"),
            "use --device cuda:0 on a machine with a GPU, or leave --require-gds out",
        );
    }
    Transport {
        wait: asked.threading.wait.unwrap_or_default(),
        placement: placement::decide(asked.threading, device, host, problems),
        ..Transport::bare(path, engine, asked.engine, device)
    }
}

/// The engine that `asked` comes to on `host`; a problem when one was named that cannot run there.
pub fn engine(asked: EngineChoice, host: &HostFacts, problems: &mut Problems) -> EngineKind {
    let Some(named) = asked.named() else {
        let has_ring = host.engine(EngineKind::Uring).is_available();
        return if has_ring { EngineKind::Uring } else { EngineKind::Psync };
    };
    if named != EngineKind::Psync
        && let Availability::Unavailable { reason, remedy } = host.engine(named)
    {
        problems.machine(
            format!("engine {named} cannot run here: {reason}"),
            if remedy.contains("--engine psync") {
                remedy.clone()
            } else {
                format!("{remedy}; or use --engine psync")
            },
        );
    }
    named
}

/// The engine of transfers on `path` that each thread keeps `depth` of in flight, where all of them
/// might have had `engine`. A ring has nothing to gain from one transfer through the page cache: a
/// plain call is fewer steps to the same copy.
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

/// How many of `depth` transfers are gathered before they go to the kernel, when nobody says.
/// Through the page cache the kernel is busy with what it was handed, so half of them go at once;
/// a device works on what it has, and waits less for smaller batches.
pub fn submit_batch(path: PathKind, depth: usize) -> usize {
    if path.uses_page_cache() { (depth / 2).max(1) } else { depth.min(4) }
}

/// The accelerator that transfers on `path` end in, if they end in one: the one that was asked
/// for, else the host's first, else host memory that stands in. A problem when the one that was
/// asked for is not there, whatever the path.
pub fn device(
    asked: Option<DeviceId>,
    path: PathKind,
    host: &HostFacts,
    problems: &mut Problems,
) -> Option<DeviceId> {
    if let Some(device) = asked {
        check_device(device, host, problems);
    }
    let ends_there = path.ends_in_accelerator();
    ends_there.then(|| asked.unwrap_or_else(|| first_device(host, problems)))
}

/// The device that is taken when none is named. A problem where host memory would have to stand in
/// for a GPU that is there: that is nobody's choice unless it was typed.
pub fn first_device(host: &HostFacts, problems: &mut Problems) -> DeviceId {
    if let Some(hidden) = &host.hidden_gpus {
        problems.machine(
            hidden.words(),
            "`stormlp doctor` shows the driver; --device host measures with emulated memory on \
             purpose",
        );
    }
    (host.accelerators.first()).map_or(DeviceId::Host, |gpu| DeviceId::Cuda(gpu.index))
}

/// Finds a problem when `device` is not in `host`.
pub fn check_device(device: DeviceId, host: &HostFacts, problems: &mut Problems) {
    if let DeviceId::Cuda(index) = device
        && host.accelerators.iter().all(|gpu| gpu.index != index)
    {
        let there = counted(host.accelerators.len() as u64, "device");
        // What CUDA answered, where the bus shows that there is a GPU.
        let why = host.hidden_gpus.as_ref().map_or_else(
            || {
                let shows = format!("CUDA shows {there} on this machine");
                match &host.cuda_problem {
                    Some(problem) => format!("{shows}: {problem}"),
                    None => shows,
                }
            },
            HiddenGpus::words,
        );
        problems.machine(
            format!("there is no {device}: {why}"),
            "`stormlp doctor` lists them; --device host measures with emulated memory",
        );
    }
}

/// Finds a problem when `path` needs a library that `host` does not have.
pub fn check_path(path: PathKind, host: &HostFacts, problems: &mut Problems) {
    if path.needs_cufile()
        && let Availability::Unavailable { reason, remedy } = host.support(path)
    {
        problems.machine(format!("path {path} cannot run here: {reason}"), remedy);
    }
}

/// Says that psync moves the bytes because io_uring, which nobody ruled out, is refused.
pub fn engine_warning(asked: EngineChoice, host: &HostFacts) -> Option<Warning> {
    let Availability::Unavailable { reason, remedy } = &host.io_uring else {
        return None;
    };
    (asked == EngineChoice::Auto).then(|| {
        Warning::new(
            WarningKind::EngineFellBack,
            format!("the CPU's paths run on psync threads, because io_uring is refused: {reason}"),
            remedy.clone(),
        )
    })
}

/// Says that memory of an accelerator is emulated.
pub fn emulated_warning() -> Warning {
    Warning::new(
        WarningKind::Emulated,
        "accelerator memory is emulated: host memory stands in for it, and a copy to it is a copy \
         within host memory",
        "run on a machine with a GPU to measure transfers to one",
    )
}

/// Says what it means that cuFile's statistics were asked for at `level` (`--cufile-stats`), where
/// a path of cuFile's runs.
pub fn statistics_warning(
    level: Option<u8>,
    any_cufile: bool,
    host: &HostFacts,
) -> Option<Warning> {
    let level = level.filter(|_| any_cufile)?;
    if host.cufile_statistics == Some(false) {
        return Some(Warning::new(
            WarningKind::NoEffect,
            "--cufile-stats has no effect: this libcufile keeps no statistics (1.15 or later does)",
            "leave it out",
        ));
    }
    let (fact, advice) = match level {
        0 => (
            "cuFile counts no routes (--cufile-stats 0), so its own counters prove none"
                .to_string(),
            "leave out the option to have a few transfers counted by their routes",
        ),
        1 | 2 => (
            format!(
                "cuFile keeps statistics of level {level} all the time, which may cost it time and \
                 tell no routes"
            ),
            "leave out --cufile-stats, or use level 3, which tells routes",
        ),
        _ => (
            "cuFile counts through the measured part, which costs it time".to_string(),
            "leave out --cufile-stats to have a few transfers counted alone",
        ),
    };
    Some(Warning::new(WarningKind::HarnessBound, fact, advice))
}

/// Says that how to wait was asked for where nothing waits for a GPU.
pub fn wait_warning(asked: &Threading, any_waits: bool) -> Option<Warning> {
    let wait = asked.wait.filter(|_| !any_waits)?;
    Some(Warning::new(
        WarningKind::NoEffect,
        format!("--wait {} has no effect: no GPU takes part", wait.name()),
        "leave it out, or use --device cuda:0 on a machine with a GPU",
    ))
}

/// What was asked of the threads of a run: how they wait, and where they and their buffers are.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "cli", derive(clap::Args), command(next_help_heading = "Threads"))]
pub struct Threading {
    /// How threads wait for a GPU: block (sleep, so CPU time is that of actual work) or spin (some
    /// microseconds faster, but one CPU per thread) [default: block]
    #[cfg_attr(feature = "cli", arg(long, value_name = "HOW"))]
    pub wait: Option<WaitMode>,

    /// NUMA node for threads and their buffers in host memory: auto (that of the GPU, else of the
    /// drives), off, or a number [default: auto]
    #[cfg_attr(
        feature = "cli",
        arg(long, value_name = "NODE", default_value_t, hide_default_value = true)
    )]
    pub numa: NumaChoice,

    /// CPUs to bind threads to, such as 0-15,32 [default: those of the NUMA node]
    #[cfg_attr(feature = "cli", arg(long, value_name = "LIST"))]
    pub cpus: Option<CpuList>,
}

impl Threading {
    /// The options that say so, without their dashes, and their values.
    pub fn words(&self) -> Vec<(&'static str, String)> {
        let wait = self.wait.map(|wait| ("wait", wait.name().to_string()));
        let numa = (self.numa != NumaChoice::Auto).then(|| ("numa", self.numa.to_string()));
        let cpus = self.cpus.as_ref().map(|cpus| ("cpus", cpus.to_string()));
        [wait, numa, cpus].into_iter().flatten().collect()
    }
}

/// How a thread waits for a GPU: for streams, events and copies, and for cuFile's batches and
/// streams.
///
/// Spinning sees the end of a transfer some microseconds sooner, which shows in small ones, and
/// takes a whole CPU for each thread that waits. Blocking leaves the CPU seconds of a run to the
/// work that was done, which is what most programs that feed a GPU beside other work want.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
#[derive(EnumString, IntoStaticStr, VariantArray, VariantNames)]
#[strum(serialize_all = "kebab-case", parse_err_ty = String, parse_err_fn = unknown::<Self>)]
pub enum WaitMode {
    /// Looks again and again.
    Spin,
    /// Sleeps until it is woken.
    #[default]
    Block,
}

impl Named for WaitMode {
    const WHAT: &'static str = "a way to wait";
}

impl WaitMode {
    /// As it is typed.
    #[must_use]
    pub fn name(self) -> &'static str {
        self.into()
    }
}

/// What pages the buffers in host memory are to lie on.
///
/// A large direct transfer is one segment on a huge page and hundreds on small ones, which costs the
/// CPU more, and on some devices bandwidth. Ordinary programs have small pages.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
#[derive(EnumString, IntoStaticStr, VariantArray, VariantNames)]
#[strum(serialize_all = "kebab-case", parse_err_ty = String, parse_err_fn = unknown::<Self>)]
pub enum Pages {
    /// Huge pages where the kernel has them: reserved ones, else transparent ones.
    #[default]
    Huge,
    /// Small pages, never huge ones.
    Small,
}

impl Named for Pages {
    const WHAT: &'static str = "a size of pages";
}

impl Pages {
    /// As it is typed.
    #[must_use]
    pub fn name(self) -> &'static str {
        self.into()
    }

    /// What a header says of buffers that are not on the usual pages.
    pub fn remark(self) -> Option<&'static str> {
        (self == Self::Small).then_some("on small pages, as asked for")
    }
}

/// Which engine to drive the CPU's paths with.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
#[derive(EnumString, IntoStaticStr, VariantArray, VariantNames)]
#[strum(serialize_all = "kebab-case", parse_err_ty = String, parse_err_fn = unknown::<Self>)]
pub enum EngineChoice {
    /// io_uring where the kernel allows it, threads otherwise; the report says which.
    #[default]
    Auto,
    /// io_uring or nothing.
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
    /// As it is typed.
    #[must_use]
    pub fn name(self) -> &'static str {
        self.into()
    }

    /// The engine, where one was named.
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
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::problem::ProblemKind;

    #[test]
    fn devices_are_text_in_reports() {
        for (text, device) in [("host", DeviceId::Host), ("cuda:1", DeviceId::Cuda(1))] {
            assert_eq!(text.parse::<DeviceId>().unwrap(), device);
            assert_eq!(serde_json::to_string(&device).unwrap(), format!("{text:?}"));
        }
        assert!("gpu".parse::<DeviceId>().is_err());
    }

    #[test]
    fn host_memory_stands_in_for_a_gpu_that_is_there_only_when_that_was_typed() {
        let mut host = HostFacts::fixture();
        host.hidden_gpus = Some(HiddenGpus {
            pci_addresses: vec!["0000:3b:00.0".to_string()],
            reason: "listing CUDA's devices did not return within 60 s".to_string(),
        });
        let decided = |asked, path| {
            let mut problems = Problems::default();
            device(asked, path, &host, &mut problems);
            problems
        };
        let problems = decided(None, PathKind::CpuGpu);
        assert_eq!(problems.kind(), ProblemKind::Machine);
        let told = problems.to_string();
        assert!(told.contains("0000:3b:00.0") && told.contains("within 60 s"), "{told}");
        assert!(problems.help().unwrap().contains("--device host"));
        let named = decided(Some(DeviceId::Cuda(0)), PathKind::CpuGpu).to_string();
        assert!(named.contains("no cuda:0") && named.contains("within 60 s"), "{named}");
        assert!(decided(Some(DeviceId::Host), PathKind::CpuGpu).is_empty());
        assert!(decided(None, PathKind::Buffered).is_empty());
        host.hidden_gpus = None;
        host.cuda_problem = Some("802 SYSTEM_NOT_READY".to_string());
        let mut problems = Problems::default();
        check_device(DeviceId::Cuda(0), &host, &mut problems);
        let told = problems.to_string();
        assert!(
            told.contains("CUDA shows 0 devices") && told.contains("802 SYSTEM_NOT_READY"),
            "{told}"
        );
    }

    #[test]
    fn host_memory_that_was_asked_for_is_no_accelerators() {
        let mut transport = Transport::fixture(PathKind::CpuGpu, EngineKind::Psync);
        assert_eq!(transport.host_memory(), None, "emulated");
        transport.emulated = false;
        assert_eq!(transport.host_memory(), Some(MemoryKind::Host));
        transport.memory = MemoryKind::Vmm;
        assert_eq!(transport.host_memory(), None);
    }
}
