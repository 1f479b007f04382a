//! A scripted device for the tests of the machine.

use std::collections::BTreeMap;

use super::ReadRequest;
use super::drive::Device;
use super::drive_tests::{MS, one_sample, records};
use super::queue::Nanos;
use super::reads::{ReadResult, Unit};

/// A device with scripted read times that records all requests.
pub(super) struct Scripted {
    depth: usize,
    /// Service time of a read.
    service: Box<dyn FnMut(&ReadRequest) -> Nanos>,
    /// The result of a read.
    lands: fn(&ReadRequest) -> ReadResult,
    in_flight: Vec<ReadRequest>,
    pub(super) units: BTreeMap<(u32, u32), Vec<Unit>>,
    pub(super) most_in_flight: BTreeMap<u32, usize>,
    pub(super) most_on_lane: usize,
}

impl Scripted {
    pub(super) fn new(depth: usize, service: impl FnMut(&ReadRequest) -> Nanos + 'static) -> Self {
        Self {
            depth,
            service: Box::new(service),
            lands: one_sample,
            in_flight: Vec::new(),
            units: BTreeMap::new(),
            most_in_flight: BTreeMap::new(),
            most_on_lane: 0,
        }
    }

    /// Returns records of files with the length that [`records`] gives.
    pub(super) fn of_records(
        depth: usize,
        service: impl FnMut(&ReadRequest) -> Nanos + 'static,
    ) -> Self {
        Self { lands: records, ..Self::new(depth, service) }
    }
}

impl Device for Scripted {
    fn queue_depth(&self) -> usize {
        self.depth
    }

    fn start(&mut self, request: &ReadRequest, now: Nanos) -> Nanos {
        self.in_flight.push(*request);
        let units = self.units.entry((request.phase, request.accelerator));
        units.or_default().push(request.read.unit);
        let own = self.in_flight.iter().filter(|read| read.accelerator == request.accelerator);
        let lane = own.clone().filter(|read| read.read.lane == request.read.lane);
        self.most_on_lane = self.most_on_lane.max(lane.count());
        let most = self.most_in_flight.entry(request.accelerator).or_default();
        *most = (*most).max(own.count());
        now + (self.service)(request)
    }

    fn finish(&mut self, request: &ReadRequest) -> ReadResult {
        let at = self.in_flight.iter().position(|read| read == request);
        self.in_flight.swap_remove(at.unwrap());
        (self.lands)(request)
    }

    fn checkpoint(&mut self) -> Nanos {
        5 * MS
    }
}
