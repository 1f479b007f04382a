//! The cuFile driver: opened once per process, closed when no longer needed.
//!
//! cuFile's driver belongs to the process, and so does its owner here: everyone who opens it gets a
//! share of the same [`Driver`], and the last share closes it, after the registrations, which hold
//! further shares, are gone. Without an explicit close the library's statistics can crash at exit.

use std::collections::BTreeSet;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, Weak};

use stormlp_core::evidence::Mechanism;
use stormlp_core::facts::CuFileLimits;

use super::config::lacks_p2pdma;
use super::count::{Statistics, Switch, Tallies};
use super::error::{CuFileError, check};
use super::kernel::no_p2pdma;
use super::loader::Api;
use super::nvidia::{self, Parameter, named_bits};
use super::properties::Properties;
use super::stats::RouteCounters;
use super::version::LibraryVersion;
use crate::probe::root::Root;
use crate::watchdog::{Hang, enter};

/// Settings for opening the driver.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Settings {
    /// Whether a fallback to POSIX calls is an error; otherwise cufile.json decides.
    pub forbid_fallback: bool,
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
    no_p2pdma: Option<String>,
    /// The switches of PCI peer-to-peer DMA that cufile.json lacks, in a sentence.
    pub(crate) lacks_p2pdma: Option<String>,
    /// The mechanisms that it offers; empty if it has none or is too old (before 1.16) to report them.
    pub(crate) offered: BTreeSet<Mechanism>,
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
    /// Queries the library, with its driver open; the registry's lock prevents concurrent queries.
    fn ask(api: &Api, routes: Vec<String>) -> Self {
        // SAFETY: the function of the library, with its driver open.
        let (status, properties) = unsafe { nvidia::properties(api.get_properties) };
        Self {
            properties: check("cuFileDriverGetProperties", status).map(|()| properties),
            routes,
            parameters: Parameters::ask(api),
            posix_pool: ask_posix_pool(api),
        }
    }
}

/// Parameters that affect the route and the speed, as far as the library reports them.
#[derive(Debug, Default)]
struct Parameters {
    flags: Vec<(&'static str, bool)>,
    sizes: Vec<(&'static str, usize)>,
}

impl Parameters {
    fn ask(api: &Api) -> Self {
        let Some(functions) = api.parameters else {
            return Self::default();
        };
        let known = |parameter: &&Parameter| api.version() >= parameter.since;
        let flag = |parameter: &Parameter| {
            let mut value = 0;
            // SAFETY: `value` is a place for C's one-byte bool.
            let status = unsafe { (functions.get_bool)(parameter.number, &mut value) };
            (status.err == 0).then_some((parameter.name, value != 0))
        };
        let size = |parameter: &Parameter| {
            let mut value = 0;
            // SAFETY: `value` is a place for a size_t.
            let status = unsafe { (functions.get_size)(parameter.number, &mut value) };
            (status.err == 0).then_some((parameter.name, value))
        };
        Self {
            flags: nvidia::FLAGS.iter().filter(known).filter_map(flag).collect(),
            sizes: nvidia::SIZES.iter().filter(known).filter_map(size).collect(),
        }
    }

    fn flag(&self, name: &str) -> Option<bool> {
        self.flags.iter().find(|(known, _)| *known == name).map(|(_, value)| *value)
    }

    fn size(&self, name: &str) -> Option<usize> {
        self.sizes.iter().find(|(known, _)| *known == name).map(|(_, value)| *value)
    }

    /// As `name value`.
    fn describe(&self) -> Vec<String> {
        let flags = self.flags.iter().map(|(name, value)| format!("{name} {value}"));
        flags.chain(self.sizes.iter().map(|(name, value)| format!("{name} {value}"))).collect()
    }
}

/// Size in bytes and number of compatibility mode's buffers, smallest first; empty if the library
/// is too old (before 1.15) to report them.
fn ask_posix_pool(api: &Api) -> Vec<(u64, u64)> {
    const MOST: usize = 16;
    let Some(get) = api.get_posix_pool else {
        return Vec::new();
    };
    // The library demands the exact length of its lists, 3 by default, and logs any other as an error.
    for length in [3].into_iter().chain(1..=MOST) {
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

/// The routes for each kind of target, in words, and all that are offered; empty if the library is
/// too old (before 1.16) or has no direct route.
fn ask_routes(api: &Api) -> (Vec<String>, BTreeSet<Mechanism>) {
    let (mut words, mut offered) = (Vec::new(), BTreeSet::new());
    for (bit, target) in nvidia::TARGETS {
        if bit > nvidia::LAST_TARGET && api.version() < LibraryVersion::FALLBACK_IO {
            // It logs an unknown one as an error.
            continue;
        }
        let mut flags = 0;
        // SAFETY: `flags` is a place for the answer.
        let answered =
            api.get_p2p_flags.is_some_and(|get| unsafe { get(bit, &mut flags) }.err == 0);
        let routes = named_bits(if answered { flags } else { 0 }, &nvidia::ROUTES);
        let (names, mechanisms): (Vec<_>, Vec<_>) = routes.unzip();
        words.extend((!names.is_empty()).then(|| format!("{target}: {}", names.join(", "))));
        offered.extend(mechanisms);
    }
    (words, offered)
}

/// The process-wide state of the driver.
struct Registry {
    driver: Weak<Driver>,
    /// From opening until the last share has closed it.
    open: bool,
    /// Why the last opening failed.
    refused: Option<CuFileError>,
}

static REGISTRY: Mutex<Registry> =
    Mutex::new(Registry { driver: Weak::new(), open: false, refused: None });
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
                // Release the lock first: if this is the last share, closing needs it again.
                drop(registry);
                let same = driver.settings == *settings;
                let otherwise = "cuFile is already open in this process with other settings";
                return match same {
                    true => Ok(driver),
                    false => {
                        Err(CuFileError::unusable(otherwise, "use one configuration per process"))
                    }
                };
            }
            if !registry.open {
                break;
            }
            registry = CLOSED.wait(registry).unwrap_or_else(PoisonError::into_inner);
        }
        let opened = Self::open_now(api, settings);
        registry.refused = opened.as_ref().err().cloned();
        let driver = Arc::new(opened?);
        registry.driver = Arc::downgrade(&driver);
        registry.open = true;
        Ok(driver)
    }

    /// The open driver, if any share of it exists.
    pub fn current() -> Option<Arc<Self>> {
        registry().driver.upgrade()
    }

    /// The driver of the run, or one with default settings if the run has not opened any.
    ///
    /// # Errors
    /// As for [`open`](Self::open). If the run's opening failed, with that error: another driver
    /// would move bytes under settings that the run forbids.
    pub(crate) fn of_run() -> Result<Arc<Self>, CuFileError> {
        let registry = registry();
        match (registry.driver.upgrade(), registry.refused.clone()) {
            (Some(driver), _) => Ok(driver),
            (None, Some(refused)) => Err(refused),
            (None, None) => {
                drop(registry);
                Self::open(&Settings::default())
            }
        }
    }

    /// Applies the settings required before opening, opens, and starts counting.
    fn open_now(api: &'static Api, settings: &Settings) -> Result<Self, CuFileError> {
        if settings.forbid_fallback {
            forbid_fallback(api)?;
        }
        let opening = enter(Hang::Driver);
        let switch = Switch::before_opening(api, settings.statistics);
        // SAFETY: no arguments; the registry's lock keeps other threads from opening or closing.
        check("cuFileDriverOpen", unsafe { (api.driver_open)() })?;
        switch.opened();
        let (routes, offered) = ask_routes(api);
        let said = Said::ask(api, routes);
        drop(opening);
        // The kernel's list of symbols is read in a tenth of a second: here, where no transfer is
        // measured.
        let p2pdma = said.parameters.flag("use_pci_p2pdma");
        let driver = Self {
            api,
            settings: settings.clone(),
            switch,
            tallies: Tallies::default(),
            no_p2pdma: no_p2pdma(&Root::system(), api.version(), p2pdma),
            offered,
            lacks_p2pdma: lacks_p2pdma().filter(|_| api.version().has_p2pdma()),
            said,
        };
        // Libraries before 1.14 only read the environment, which must have been set in time.
        // Dropping the driver here would wait for the registry, which is locked.
        if settings.forbid_fallback && driver.fallback_allowed() != Some(false) {
            driver.close();
            std::mem::forget(driver);
            let version = api.version();
            return Err(CuFileError::unusable(
                format!(
                    "libcufile {version} ignored the setting that forbids its compatibility mode"
                ),
                "set properties.allow_compat_mode and force_compat_mode to false in cufile.json, and \
                 leave CUFILE_FORCE_COMPAT_MODE out; or run with CUFILE_ALLOW_COMPAT_MODE=false",
            ));
        }
        Ok(driver)
    }

    /// Closes the library's driver, which ends its counting.
    fn close(&self) {
        self.switch.before_closing();
        let _call = enter(Hang::Release);
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

    /// The counts of cuFile in this process; `None` if it has not.
    pub fn counters(&self) -> Option<RouteCounters> {
        self.switch.counters()
    }

    /// The switch for the library's counting.
    pub(super) fn switch(&self) -> &Switch {
        &self.switch
    }

    /// The transfers of the paths of this process.
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

    /// Whether the library may fall back to POSIX calls, as it reports: any of its permissions is
    /// enough.
    pub fn fallback_allowed(&self) -> Option<bool> {
        let names = nvidia::ALLOW_FALLBACK.iter();
        let mut permissions = names.map(|name| self.said.parameters.flag(name));
        let first = permissions.next().flatten();
        let first = first.or_else(|| Some(self.properties().ok()?.allows_fallback))?;
        Some(first || permissions.any(|allowed| allowed == Some(true)))
    }

    /// The library's routes for each kind of target, `nvme: p2pdma, nvfs`; empty if it has none or
    /// is too old (before 1.16) to report them.
    pub fn routes(&self) -> &[String] {
        &self.said.routes
    }

    /// The limits that a plan has to keep: the installed cufile.json's, if the library is too old
    /// to report them.
    pub(crate) fn limits(&self) -> CuFileLimits {
        let properties = self.properties().ok();
        let is_forced = self.said.parameters.flag("force_compat_mode") == Some(true);
        let may_be_direct = !self.routes().is_empty()
            || properties.is_none_or(|known| {
                known.has_direct_targets || known.kernel_driver_version.is_some()
            })
            || self.no_p2pdma().is_none();
        let has_direct_route = may_be_direct && !is_forced;
        let mut limits = CuFileLimits::defaults(has_direct_route);
        let depth = self.said.parameters.size("max_io_queue_depth").map(|depth| depth as u64);
        let registered = properties.map(|known| known.max_registered_bytes);
        let entries = properties.map(|known| known.max_batch_entries as u64);
        let numbers = [
            (depth, &mut limits.stream_transfers, CuFileLimits::QUEUE_DEPTH),
            (registered, &mut limits.registered_bytes, CuFileLimits::PINNED_MEMORY),
            (entries, &mut limits.batch_entries, CuFileLimits::BATCH_SIZE),
        ];
        for (reported, limit, setting) in numbers {
            if let Some(number) = reported.filter(|number| *number > 0) {
                *limit = number;
                limits.assumed.retain(|assumed| assumed != setting);
            }
        }
        if !self.said.posix_pool.is_empty() {
            limits.posix_pool.clone_from(&self.said.posix_pool);
            limits.assumed.retain(|assumed| assumed != CuFileLimits::POOL_COUNT);
        }
        limits
    }

    /// Settings that affect the route and the speed, as text.
    pub fn parameters(&self) -> Vec<String> {
        self.said.parameters.describe()
    }

    /// Why no transfer can have used PCI peer-to-peer DMA, if that is certain.
    pub(crate) fn no_p2pdma(&self) -> Option<&str> {
        self.no_p2pdma.as_deref()
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

/// Has a closed driver treat a fallback as an error.
fn forbid_fallback(api: &Api) -> Result<(), CuFileError> {
    let Some(functions) = api.parameters else {
        return Ok(());
    };
    let permissions =
        nvidia::FLAGS.iter().filter(|flag| nvidia::ALLOW_FALLBACK.contains(&flag.name));
    for permission in permissions.filter(|flag| api.version() >= flag.since) {
        // SAFETY: a call with plain values; the driver is closed, as it must be.
        let status = unsafe { (functions.set_bool)(permission.number, false) };
        check("cuFileSetParameterBool", status)?;
    }
    Ok(())
}
