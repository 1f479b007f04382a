//! The cuFile driver: opened once per process, closed when no longer needed.
//!
//! cuFile's driver belongs to the process, and so does its owner here: everyone who opens it gets
//! a share of the same [`Driver`], and the last share closes it, after the registrations, which
//! hold shares of their own, are gone. Without an explicit close the library's statistics can
//! crash at exit.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError, Weak};

use stormlp_core::facts::CuFileLimits;

use super::count::{Statistics, Switch, Tallies};
use super::error::{CuFileError, check};
use super::kernel::no_p2pdma;
use super::loader::Api;
use super::stats::RouteCounters;
use super::sys::{self, bool_parameter, size_parameter};

/// Settings for opening the driver.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Settings {
    /// Whether cuFile may fall back to POSIX calls; `None` leaves it to cufile.json.
    pub allow_compat_mode: Option<bool>,
    /// When it counts transfers by route.
    pub statistics: Statistics,
}

/// The open driver; one per process.
#[derive(Debug)]
pub struct Driver {
    api: &'static Api,
    settings: Settings,
    switch: Switch,
    tallies: Tallies,
    said: Said,
    /// Determined once: it requires reading the kernel's symbol list.
    no_p2pdma: OnceLock<Option<String>>,
}

/// The library's report on its driver, queried once when the driver was opened.
///
/// Up to 1.19 it rereads cufile.json on every query of properties or routes, into global strings
/// and without a lock: concurrent queries crash. So only the thread that opens the driver queries
/// it, under the lock of the registry.
#[derive(Debug)]
struct Said {
    properties: Result<Properties, CuFileError>,
    routes: Vec<String>,
    parameters: Parameters,
    posix_pool: Vec<(u64, u64)>,
}

impl Said {
    /// Queries the library, whose driver is open; the registry's lock prevents concurrent queries.
    fn ask(api: &Api) -> Self {
        Self {
            properties: ask_properties(api),
            routes: ask_routes(api),
            parameters: Parameters::ask(api),
            posix_pool: ask_posix_pool(api),
        }
    }
}

/// Settings that affect the route and the speed; `None` if the library does not report them.
#[derive(Debug)]
struct Parameters {
    allow_compat_mode: Option<bool>,
    gds_fallback_io: Option<bool>,
    force_compat_mode: Option<bool>,
    use_pci_p2pdma: Option<bool>,
    parallel_io: Option<bool>,
    max_io_queue_depth: Option<usize>,
    max_io_threads: Option<usize>,
    io_batchsize: Option<usize>,
}

impl Parameters {
    fn ask(api: &Api) -> Self {
        let flag = |number| {
            let mut value = 0;
            // SAFETY: `value` is a place for C's one-byte bool.
            let status = unsafe { (api.parameters?.get_bool)(number, &mut value) };
            (status.err == 0).then_some(value != 0)
        };
        let size = |number| {
            let mut value = 0;
            // SAFETY: `value` is a place for a size_t.
            let status = unsafe { (api.parameters?.get_size)(number, &mut value) };
            (status.err == 0).then_some(value)
        };
        Self {
            allow_compat_mode: flag(bool_parameter::ALLOW_COMPAT_MODE),
            gds_fallback_io: (api.version().has_fallback_io())
                .then(|| flag(bool_parameter::GDS_FALLBACK_IO))
                .flatten(),
            force_compat_mode: flag(bool_parameter::FORCE_COMPAT_MODE),
            use_pci_p2pdma: flag(bool_parameter::USE_PCI_P2PDMA),
            parallel_io: flag(bool_parameter::PARALLEL_IO),
            max_io_queue_depth: size(size_parameter::MAX_IO_QUEUE_DEPTH),
            max_io_threads: size(size_parameter::MAX_IO_THREADS),
            io_batchsize: size(size_parameter::IO_BATCH_SIZE),
        }
    }

    /// The known ones, as `name value`.
    fn describe(&self) -> Vec<String> {
        let flag = |name, value: Option<bool>| value.map(|value| format!("{name} {value}"));
        let size = |name, value: Option<usize>| value.map(|value| format!("{name} {value}"));
        [
            flag("allow_compat_mode", self.allow_compat_mode),
            flag("gds_fallback_io", self.gds_fallback_io),
            flag("force_compat_mode", self.force_compat_mode),
            flag("use_pci_p2pdma", self.use_pci_p2pdma),
            flag("parallel_io", self.parallel_io),
            size("max_io_queue_depth", self.max_io_queue_depth),
            size("max_io_threads", self.max_io_threads),
            size("io_batchsize", self.io_batchsize),
        ]
        .into_iter()
        .flatten()
        .collect()
    }
}

fn ask_properties(api: &Api) -> Result<Properties, CuFileError> {
    let mut raw = sys::CUfileDrvProps_t::default();
    // SAFETY: `raw` is a place for the structure.
    check("cuFileDriverGetProperties", unsafe { (api.get_properties)(&mut raw) })?;
    Ok(Properties { raw })
}

/// Size in bytes and number of compatibility mode's buffers, smallest first; empty if the library
/// is too old (before 1.15) to report them.
fn ask_posix_pool(api: &Api) -> Vec<(u64, u64)> {
    const MOST: usize = 16;
    let Some(get) = api.get_posix_pool else {
        return Vec::new();
    };
    // The library demands the exact length of its lists.
    for length in 1..=MOST {
        let (mut kib, mut counts) = ([0usize; MOST], [0usize; MOST]);
        // SAFETY: both arrays have room for `length` numbers.
        let status = unsafe { get(kib.as_mut_ptr(), counts.as_mut_ptr(), length as i32) };
        if status.err == 0 {
            let pairs = kib.iter().zip(&counts).take(length);
            return pairs.map(|(kib, count)| ((*kib as u64) << 10, *count as u64)).collect();
        }
    }
    Vec::new()
}

/// Empty if the library is too old (before 1.16) or has no direct route.
fn ask_routes(api: &Api) -> Vec<String> {
    let Some(get) = api.get_p2p_flags else {
        return Vec::new();
    };
    let routes = |(bit, target): (i32, &str)| {
        let mut flags = 0;
        // SAFETY: `flags` is a place for the answer.
        let status = unsafe { get(bit, &mut flags) };
        let names: Vec<_> = named_bits(flags, &ROUTES).collect();
        (status.err == 0 && !names.is_empty()).then(|| format!("{target}: {}", names.join(", ")))
    };
    TARGETS.into_iter().filter_map(routes).collect()
}

/// The process-wide state of the driver.
struct Registry {
    driver: Weak<Driver>,
    /// From opening until the last share has closed it.
    open: bool,
}

static REGISTRY: Mutex<Registry> = Mutex::new(Registry { driver: Weak::new(), open: false });
static CLOSED: Condvar = Condvar::new();

fn registry() -> MutexGuard<'static, Registry> {
    REGISTRY.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Driver {
    /// Opens the driver, or shares the open one.
    ///
    /// `cuFileDriverOpen` may never return on some machines: call this only after
    /// [`super::probe::run`] has seen it return.
    ///
    /// # Errors
    /// When there is no usable library, the driver does not open (a malformed cufile.json, no
    /// direct route although compatibility mode is forbidden), or it is open with other settings.
    pub fn open(settings: &Settings) -> Result<Arc<Self>, CuFileError> {
        let api = Api::get()?;
        let mut registry = registry();
        loop {
            if let Some(driver) = registry.driver.upgrade() {
                // Release the lock first: if this is the last share, closing takes it again.
                drop(registry);
                let same = driver.settings == *settings;
                return if same { Ok(driver) } else { Err(CuFileError::OpenOtherwise) };
            }
            if !registry.open {
                break;
            }
            registry = CLOSED.wait(registry).unwrap_or_else(PoisonError::into_inner);
        }
        let driver = Arc::new(Self::open_now(api, settings)?);
        registry.driver = Arc::downgrade(&driver);
        registry.open = true;
        Ok(driver)
    }

    /// The open driver, if any share of it exists.
    pub fn current() -> Option<Arc<Self>> {
        registry().driver.upgrade()
    }

    /// Applies the settings required before opening, opens, and starts counting.
    fn open_now(api: &'static Api, settings: &Settings) -> Result<Self, CuFileError> {
        if let (Some(allow), Some(parameters)) = (settings.allow_compat_mode, api.parameters) {
            // SAFETY: a call with plain values; the driver is closed, as it must be.
            let status = unsafe { (parameters.set_bool)(bool_parameter::ALLOW_COMPAT_MODE, allow) };
            check("cuFileSetParameterBool", status)?;
            if !allow && api.version().has_fallback_io() {
                // SAFETY: as above.
                let status =
                    unsafe { (parameters.set_bool)(bool_parameter::GDS_FALLBACK_IO, false) };
                check("cuFileSetParameterBool", status)?;
            }
        }
        let switch = Switch::before_opening(api, settings.statistics);
        // SAFETY: no arguments; the registry's lock keeps others from opening or closing.
        check("cuFileDriverOpen", unsafe { (api.driver_open)() })?;
        switch.opened();
        let driver = Self {
            api,
            settings: settings.clone(),
            switch,
            tallies: Tallies::default(),
            said: Said::ask(api),
            no_p2pdma: OnceLock::new(),
        };
        // Libraries before 1.14 only read the environment, which must have been set in time.
        // Dropping the driver here would wait for the registry, which is locked.
        if settings.allow_compat_mode == Some(false) && driver.compat_mode_allowed() != Some(false)
        {
            driver.close();
            std::mem::forget(driver);
            return Err(CuFileError::CompatNotForbidden(api.version()));
        }
        Ok(driver)
    }

    /// Closes the library's driver, which ends its counting.
    fn close(&self) {
        self.switch.before_closing();
        // SAFETY: opened once by this value; every registration held a share of it, so none is
        // left. A failure cannot be handled.
        unsafe { (self.api.driver_close)() };
    }

    /// The library behind the driver.
    pub fn api(&self) -> &'static Api {
        self.api
    }

    /// The settings it was opened with.
    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    /// What cuFile has counted in this process; `None` if it has not.
    pub fn counters(&self) -> Option<RouteCounters> {
        self.switch.counters()
    }

    /// The switch for the library's counting.
    pub(super) fn switch(&self) -> &Switch {
        &self.switch
    }

    /// What the paths of this process have moved.
    pub(super) fn tallies(&self) -> &Tallies {
        &self.tallies
    }

    /// The driver's properties, read when it was opened.
    ///
    /// # Errors
    /// When the driver did not return them.
    pub fn properties(&self) -> Result<&Properties, &CuFileError> {
        self.said.properties.as_ref()
    }

    /// Whether the library may fall back to POSIX calls, as it reports: by compatibility mode or,
    /// from 1.19, by `gds_fallback_io`.
    pub fn compat_mode_allowed(&self) -> Option<bool> {
        let allowed = (self.said.parameters.allow_compat_mode)
            .or_else(|| Some(self.properties().ok()?.allows_compat_mode()))?;
        Some(allowed || self.said.parameters.gds_fallback_io == Some(true))
    }

    /// The library's routes for each kind of target, `nvme: p2pdma, nvfs`; empty if it has none or
    /// is too old (before 1.16) to report them.
    pub fn routes(&self) -> &[String] {
        &self.said.routes
    }

    /// The limits that a plan has to keep.
    pub(crate) fn limits(&self) -> CuFileLimits {
        let properties = self.properties().ok();
        let has_direct_route = !self.routes().is_empty()
            || properties
                .is_none_or(|known| known.has_direct_targets() || known.nvfs_version().is_some())
            || self.no_p2pdma().is_none();
        let defaults = CuFileLimits::defaults(has_direct_route);
        let positive = |number: Option<u64>| number.filter(|number| *number > 0);
        let depth = self.said.parameters.max_io_queue_depth.map(|depth| depth as u64);
        let registered = properties.map(|known| u64::from(known.raw.max_pinned_kib) << 10);
        CuFileLimits {
            stream_transfers: positive(depth).unwrap_or(defaults.stream_transfers),
            registered_bytes: positive(registered).unwrap_or(defaults.registered_bytes),
            posix_pool: match self.said.posix_pool.is_empty() {
                true => defaults.posix_pool,
                false => self.said.posix_pool.clone(),
            },
            has_direct_route,
        }
    }

    /// Settings that affect the route and the speed, as text.
    pub fn parameters(&self) -> Vec<String> {
        self.said.parameters.describe()
    }

    /// Why no transfer can have used PCI peer-to-peer DMA, if that is certain.
    pub(crate) fn no_p2pdma(&self) -> Option<&str> {
        self.no_p2pdma
            .get_or_init(|| no_p2pdma(self.api.version(), self.said.parameters.use_pci_p2pdma))
            .as_deref()
    }
}

impl Drop for Driver {
    fn drop(&mut self) {
        let mut registry = registry();
        self.close();
        registry.open = false;
        CLOSED.notify_all();
    }
}

/// The driver's properties.
#[derive(Debug, Clone, Copy)]
pub struct Properties {
    raw: sys::CUfileDrvProps_t,
}

impl Properties {
    /// The nvidia-fs version; `None` when it is not loaded.
    pub fn nvfs_version(&self) -> Option<(u32, u32)> {
        let version = (self.raw.nvfs_major, self.raw.nvfs_minor);
        (version != (0, 0)).then_some(version)
    }

    /// Whether compatibility mode is allowed.
    pub fn allows_compat_mode(&self) -> bool {
        self.raw.control_flags & 0b10 != 0
    }

    /// The maximum number of entries in a batch.
    pub fn max_batch_entries(&self) -> usize {
        self.raw.max_batch_io as usize
    }

    /// Whether it lists a kind of storage with a direct route.
    pub(crate) fn has_direct_targets(&self) -> bool {
        self.raw.status_flags != 0
    }

    /// Whether it lists a kind of storage whose direct route need not be nvidia-fs: network file
    /// systems have routes of their own, which that driver does not count.
    pub(crate) fn has_targets_past_nvidia_fs(&self) -> bool {
        const THROUGH_NVIDIA_FS: [&str; 5] = ["nvme", "nvmeof", "scsi", "scaleflux", "nvmesh"];
        named_bits(self.raw.status_flags, &TARGETS).any(|name| !THROUGH_NVIDIA_FS.contains(&name))
    }

    /// Size in bytes of the buffer for transfers without a direct route.
    pub fn per_buffer_cache_bytes(&self) -> u64 {
        u64::from(self.raw.per_buffer_cache_kib) << 10
    }

    /// All properties as text, one each.
    pub fn describe(&self) -> Vec<String> {
        let list = |names: Vec<&str>| match names.len() {
            0 => "none".to_string(),
            _ => names.join(", "),
        };
        let targets: Vec<_> = named_bits(self.raw.status_flags, &TARGETS).collect();
        let features: Vec<_> = named_bits(self.raw.feature_flags, &FEATURES).collect();
        let nvfs = self.nvfs_version().map_or_else(
            || "nvidia-fs not loaded".to_string(),
            |(major, minor)| format!("nvidia-fs {major}.{minor}"),
        );
        let polls = (self.raw.control_flags & 1 != 0).then(|| POLL_MODE.to_string());
        let words = [
            nvfs,
            format!("direct targets: {}", list(targets)),
            format!("features: {}", list(features)),
            format!("max_direct_io_size {} KiB", self.raw.max_direct_io_kib),
        ];
        words.into_iter().chain(polls).collect()
    }
}

/// The property of a driver whose calls spin until completion (`properties.use_poll_mode`).
pub const POLL_MODE: &str = "poll mode";

/// Bits of the status flags, which are also the targets of route queries.
const TARGETS: [(i32, &str); 13] = [
    (0, "lustre"),
    (1, "wekafs"),
    (2, "nfs"),
    (3, "gpfs"),
    (4, "nvme"),
    (5, "nvmeof"),
    (6, "scsi"),
    (7, "scaleflux"),
    (8, "nvmesh"),
    (9, "beegfs"),
    (12, "scatefs"),
    (13, "virtiofs"),
    (14, "panfs"),
];
/// Bits of the feature flags.
const FEATURES: [(i32, &str); 5] =
    [(0, "dynamic routing"), (1, "batch"), (2, "streams"), (3, "parallel io"), (4, "p2pdma")];
/// Bits of the routes to a target.
const ROUTES: [(i32, &str); 5] =
    [(0, "p2pdma"), (1, "nvfs"), (2, "dmabuf"), (3, "c2c"), (4, "nvidia-peermem")];

/// Names of the bits that are set.
fn named_bits<'a>(flags: u32, names: &'a [(i32, &'a str)]) -> impl Iterator<Item = &'a str> {
    names.iter().filter(move |(bit, _)| flags >> bit & 1 == 1).map(|(_, name)| *name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn properties_are_described_in_words() {
        let raw = sys::CUfileDrvProps_t {
            nvfs_major: 2,
            nvfs_minor: 24,
            status_flags: 1 << 4 | 1 << 12,
            control_flags: 2,
            feature_flags: 0b1_0010,
            max_direct_io_kib: 16384,
            ..Default::default()
        };
        let properties = Properties { raw };
        assert!(properties.allows_compat_mode());
        assert!(properties.has_targets_past_nvidia_fs(), "scatefs");
        assert_eq!(
            properties.describe(),
            [
                "nvidia-fs 2.24",
                "direct targets: nvme, scatefs",
                "features: batch, p2pdma",
                "max_direct_io_size 16384 KiB"
            ]
        );
        let none = Properties { raw: sys::CUfileDrvProps_t::default() };
        assert!(!none.has_targets_past_nvidia_fs());
        assert_eq!(none.describe()[0], "nvidia-fs not loaded");
        assert_eq!(none.describe()[1], "direct targets: none");
    }
}
