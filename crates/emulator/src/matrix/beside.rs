//! What a cell has to do with other hosts: all begin it together, look after each other while they
//! measure, and put together what each measured.
//!
//! A host that could not measure its part of a cell goes where the others go all the same.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use stormlp_model::matrix::CellReport;
use stormlp_model::parts::count_hosts_once;
use stormlp_model::stop::StopToken;

use super::MatrixError;
use super::merge::{self, CellPart};
use crate::hosts::{Company, Hosts, Pulse, garbled};

/// How often to look after the others.
const LOOK_AT_HOSTS: Duration = Duration::from_millis(250);
/// One host may write its test files this much slower than another.
const SLOW_LAYOUT_BYTES_PER_SECOND: f64 = 20e6;

/// Those beside this host, and how far it is with them in a cell.
pub(crate) struct Side<'a> {
    pub(crate) company: Company<'a>,
    /// Time that the others may need besides, before the first cell.
    longer_ms: AtomicU64,
    met: AtomicBool,
    finished: AtomicBool,
    stopped: AtomicBool,
}

impl<'a> Side<'a> {
    /// Before the first cell, for which so many bytes of test files were to be written.
    pub(crate) fn new(company: Company<'a>, layout_bytes: u64) -> Self {
        let seconds = layout_bytes as f64 / SLOW_LAYOUT_BYTES_PER_SECOND;
        Self {
            company,
            longer_ms: AtomicU64::new((seconds * 1e3) as u64),
            met: AtomicBool::new(false),
            finished: AtomicBool::new(false),
            stopped: AtomicBool::new(false),
        }
    }

    fn hosts(&self) -> Option<&'a Hosts> {
        match self.company {
            Company::Hosts(hosts) => Some(hosts),
            Company::Alone | Company::From(_) => None,
        }
    }

    /// Whether there are others who wait for this host.
    pub(crate) fn has_hosts(&self) -> bool {
        self.hosts().is_some()
    }

    /// A cell begins.
    pub(crate) fn begin(&self) {
        self.met.store(false, Ordering::Relaxed);
        self.finished.store(false, Ordering::Relaxed);
    }

    /// Waits for the others, once in a cell.
    pub(crate) fn meet(&self, stop: &StopToken) -> Result<(), MatrixError> {
        let first = |_: &&Hosts| !self.met.swap(true, Ordering::Relaxed);
        let Some(hosts) = self.hosts().filter(first) else {
            return Ok(());
        };
        let longer = Duration::from_millis(self.longer_ms.swap(0, Ordering::Relaxed));
        let limit = hosts.group.patience().edge.saturating_add(longer);
        // Who is told to end says so where all say how they are.
        hosts.meet_within(limit, &|| !stop.is_stopped())?;
        Ok(())
    }

    /// What tells the others that this host works.
    pub(crate) fn pulse(&self, stop: &'a StopToken) -> Option<Pulse<'a>> {
        self.hosts().map(|hosts| Pulse::new(hosts, stop))
    }

    /// How long to sleep at most before the others are looked after again.
    pub(crate) fn nap(&self, until: Duration) -> Duration {
        match self.hosts() {
            Some(_) => until.min(LOOK_AT_HOSTS),
            None => until,
        }
    }

    /// Waits until the others are done, too.
    pub(crate) fn finish(&self, pulse: Option<Pulse<'_>>) -> Result<(), MatrixError> {
        self.finished.store(true, Ordering::Relaxed);
        if let Some(pulse) = pulse {
            self.stopped.store(pulse.finish()?, Ordering::Relaxed);
        }
        Ok(())
    }

    /// Goes where the others went in a cell that this host could not measure.
    fn catch_up(&self, stop: &'a StopToken) -> Result<(), MatrixError> {
        self.meet(stop)?;
        match self.finished.load(Ordering::Relaxed) {
            true => Ok(()),
            false => self.finish(self.pulse(stop)),
        }
    }

    /// What all hosts measured of a cell of which this one measured `own`; `None` where the others
    /// cannot be heard any more, since the run was told to end.
    pub(crate) fn whole(
        &self,
        own: &CellReport,
        stop: &'a StopToken,
    ) -> Result<Option<CellReport>, MatrixError> {
        let Some(hosts) = self.hosts() else {
            return Ok(Some(own.clone()));
        };
        self.catch_up(stop)?;
        let Some(cells) = hosts.exchange(own, stop)? else {
            return Ok(None);
        };
        let names = hosts.names();
        let members = hosts.members.iter();
        let boots: Vec<(&str, &str)> = members
            .map(|member| (&*member.hostname, &*member.boot_id))
            .collect();
        let counted = count_hosts_once(&boots);
        let parts: Vec<CellPart<'_>> = names
            .iter()
            .zip(counted)
            .zip(&cells)
            .map(|((host, counts_devices), cell)| CellPart {
                host,
                counts_devices,
                cell,
            })
            .collect();
        let whole = merge::cell(&parts);
        let whole = whole.ok_or_else(|| garbled(&"nobody has measured anything"))?;
        Ok(Some(whole))
    }

    /// Whether the run is to end: alone as soon as this host is told to, else once all have heard of
    /// it.
    pub(crate) fn is_stopped(&self, stop: &StopToken) -> bool {
        match self.hosts() {
            Some(_) => self.stopped.load(Ordering::Relaxed),
            None => stop.is_stopped(),
        }
    }

    /// Leaves the others, who do not hear of it.
    pub(crate) fn leave(&self) {
        if let Some(hosts) = self.hosts() {
            hosts.leave();
        }
    }
}
