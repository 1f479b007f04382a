//! Coordination of a cell with other hosts: all start it together, monitor each other during the
//! measurement, and merge their results.
//!
//! A host that could not measure its part of a cell still goes through all barriers.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};

use crate::plan::{CellReport, MatrixPlan};
use stormlp_core::stop::StopToken;
use stormlp_hosts::GroupError;
use stormlp_hosts::parts::count_members_once;

use super::error::MatrixError;
use super::merge::{self, CellPart};
use stormlp_hosts::multi_host::{Hosts, garbled};

/// The connection to the other hosts, and this host's state in a cell.
pub(crate) struct Side<'a> {
    hosts: Option<&'a Hosts>,
    met: AtomicBool,
    finished: AtomicBool,
    stopped: AtomicBool,
    /// Why the other hosts are unreachable.
    lost: Mutex<Option<GroupError>>,
}

impl<'a> Side<'a> {
    /// The state before the first cell.
    pub(crate) fn new(hosts: Option<&'a Hosts>) -> Self {
        Self {
            hosts,
            met: AtomicBool::new(false),
            finished: AtomicBool::new(false),
            stopped: AtomicBool::new(false),
            lost: Mutex::default(),
        }
    }

    /// The rank of this host.
    pub(crate) fn rank(&self) -> u32 {
        self.hosts.map_or(0, |hosts| hosts.group.rank())
    }

    /// Whether other hosts wait for this one.
    pub(crate) fn has_hosts(&self) -> bool {
        self.hosts.is_some()
    }

    /// Sends heartbeats to the other hosts until all reach the next barrier.
    pub(crate) fn works(&self, stop: &StopToken) -> Result<(), MatrixError> {
        let works = self.hosts.map_or(Ok(()), |hosts| hosts.works(stop));
        works.map_err(MatrixError::from)
    }

    /// Waits at this barrier; returns whether all hosts know that the run ends.
    pub(crate) fn edge(&self) -> Result<bool, MatrixError> {
        let stopped = self.hosts.map_or(Ok(false), Hosts::edge)?;
        self.stopped.fetch_or(stopped, Ordering::Relaxed);
        Ok(self.stopped.load(Ordering::Relaxed))
    }

    /// Starts a cell.
    pub(crate) fn begin(&self, stop: &StopToken) -> Result<(), MatrixError> {
        self.met.store(false, Ordering::Relaxed);
        self.finished.store(false, Ordering::Relaxed);
        self.works(stop)
    }

    /// Waits for the other hosts, once per cell.
    pub(crate) fn meet(&self, stop: &StopToken) -> Result<(), MatrixError> {
        let first = |_: &&Hosts| !self.met.swap(true, Ordering::Relaxed);
        let Some(hosts) = self.hosts.filter(first) else {
            return Ok(());
        };
        if !self.edge()? {
            // A stopped host reports that when all exchange their state.
            let met = hosts.meet(&|| !stop.is_stopped());
            met.map_err(|error| error.during("between two cells"))?;
        }
        Ok(())
    }

    /// Reports to the other hosts that this host measures, unless all know that the run ends.
    pub(crate) fn measures(&self, stop: &StopToken) -> Result<(), MatrixError> {
        if self.is_stopped(stop) { Ok(()) } else { self.works(stop) }
    }

    /// Waits until the other hosts are done too. Losing them does not discard the results:
    /// [`Self::lost`] returns the error.
    pub(crate) fn finish(&self, stop: &StopToken) {
        self.finished.store(true, Ordering::Relaxed);
        let Some(hosts) = self.hosts else {
            return;
        };
        let went = match hosts.edge() {
            Ok(false) if !self.is_stopped(stop) => hosts.works(stop),
            Ok(stopped) => {
                self.stopped.fetch_or(stopped, Ordering::Relaxed);
                Ok(())
            }
            Err(error) => Err(error.during("in a cell")),
        };
        if let Err(error) = went {
            let mut lost = self.lost.lock().unwrap_or_else(PoisonError::into_inner);
            lost.get_or_insert(error);
        }
    }

    /// Returns the error of lost hosts, once.
    pub(crate) fn lost(&self) -> Result<(), MatrixError> {
        let mut lost = self.lost.lock().unwrap_or_else(PoisonError::into_inner);
        lost.take().map_or(Ok(()), |error| Err(error.into()))
    }

    /// Passes the remaining barriers of a cell that this host could not measure.
    fn catch_up(&self, stop: &'a StopToken) -> Result<(), MatrixError> {
        self.meet(stop)?;
        if !self.finished.load(Ordering::Relaxed) {
            self.measures(stop)?;
            self.finish(stop);
            self.lost()?;
        }
        self.edge().map(drop)
    }

    /// The merged results of a cell of which this host measured `own`; `None` if other hosts are
    /// unreachable after the run was stopped.
    pub(crate) fn whole(
        &self,
        plan: &MatrixPlan,
        own: &CellReport,
        stop: &'a StopToken,
    ) -> Result<Option<CellReport>, MatrixError> {
        let Some(hosts) = self.hosts else {
            return Ok(Some(merge::with_storage(plan, own.clone())));
        };
        self.catch_up(stop)?;
        let Some(cells) = hosts.exchange(own, stop)? else {
            return Ok(None);
        };
        let names = hosts.names();
        // They end together, and the merge of their saved parts uses the first, too.
        let counted = count_members_once(&hosts.members, |_| 0);
        let parts: Vec<CellPart<'_>> = names
            .iter()
            .zip(counted)
            .zip(&cells)
            .map(|((host, counts_devices), cell)| CellPart { host, counts_devices, cell })
            .collect();
        let whole =
            merge::together(&parts).ok_or_else(|| garbled(&"no host has measured anything"))?;
        Ok(Some(merge::with_storage(plan, whole)))
    }

    /// Whether the run must end: immediately for a single host, else once all hosts know.
    pub(crate) fn is_stopped(&self, stop: &StopToken) -> bool {
        match self.hosts {
            Some(_) => self.stopped.load(Ordering::Relaxed),
            None => stop.is_stopped(),
        }
    }
}
