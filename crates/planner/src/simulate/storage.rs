//! Simulated storage: striped devices, the network of each host, and the page cache.
//!
//! Each device has two queues, one for operations and one for bytes, plus a latency, like
//! `--throttle` on real storage. A read consists of many requests, a few of which are in flight at a
//! time. They are queued together, in as many parts as the event budget allows. A part completes once
//! the queues have processed it, but not before its requests, one after the other, would complete on
//! idle storage.

use crate::plan::{Connections, Scenario, StorageModel, Surface};
use stormlp_transfer::telemetry::DeviceCounters;

use super::cache::Cache;
use super::reads::{Calls, Reads, SimulatedRead};
use stormlp_training::run::machine::drive::Device;
use stormlp_training::run::machine::{Nanos, ReadRequest, ReadResult};

/// More devices than this are simulated in groups, each with the combined speed of its devices.
const GROUPS_AT_MOST: u32 = 64;

/// Number of simulated devices or groups. It is 1 for a share of storage: with many accelerators the
/// load evens out over devices, but only in the long run, for which a part is too short.
pub(super) fn groups(scenario: &Scenario) -> u32 {
    if scenario.shares.storage < 1.0 {
        1
    } else {
        scenario.storage.devices.clamp(1, GROUPS_AT_MOST)
    }
}

/// No run lasts longer: 30 years. Sums of times stay below the end of their type.
const LONGEST_NS: f64 = 30.0 * 365.25 * 86_400.0 * 1e9;

/// A measured surface is assumed to be flat beyond this depth.
const DEEPEST: usize = 4096;

/// Statistics of the storage.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Served {
    pub(super) bytes: u64,
    pub(super) cached_bytes: u64,
    pub(super) requests: u64,
    /// Time with anything in flight.
    pub(super) busy_ns: u64,
    /// Busy time of all devices.
    pub(super) device_ns: f64,
}

/// When one device has completed all requests so far.
#[derive(Debug, Clone, Copy, Default)]
struct Lines {
    operations: f64,
    bytes: f64,
}

/// The rate of measured storage by requests in flight.
struct Measured {
    surface: Surface,
    /// The simulated share of it.
    share: f64,
    request_bytes: u64,
    /// Nanoseconds per byte; 0 if not calculated yet.
    by_depth: Vec<f64>,
}

/// Figures of one device, or of one group of devices, in nanoseconds.
#[derive(Debug, Clone, Copy)]
struct Figures {
    operation: f64,
    byte: f64,
    latency: f64,
    /// 1 / requests served at a time.
    share_of_queue: f64,
}

/// The bottleneck of each host, which its bytes pass one after the other: its network link, or the
/// host itself.
struct Passage {
    /// Nanoseconds per byte on all of it, and on the simulated share of it; 0 without a limit.
    byte_ns: f64,
    work_ns: f64,
    /// When each host's bytes so far have passed.
    free_at: Vec<f64>,
    busy_ns: f64,
}

impl Passage {
    fn of(bytes_per_second: Option<f64>, scenario: &Scenario) -> Self {
        let byte_ns = bytes_per_second.map_or(0.0, |rate| 1e9 / rate);
        Self {
            byte_ns,
            work_ns: byte_ns / scenario.shares.link,
            free_at: vec![0.0; scenario.hosts.max(1) as usize],
            busy_ns: 0.0,
        }
    }

    /// When `bytes` that `host` requests at `at` have passed.
    fn pass(&mut self, host: usize, bytes: f64, at: f64) -> f64 {
        if self.byte_ns == 0.0 {
            return at;
        }
        self.take(host, self.work_ns * bytes, at)
    }

    /// When `work` in nanoseconds that `host` requests at `at` is done.
    fn take(&mut self, host: usize, work: f64, at: f64) -> f64 {
        self.busy_ns += work;
        let free_at = &mut self.free_at[host];
        *free_at = free_at.max(at) + work;
        *free_at
    }
}

/// The connections of each host to an object store. A request occupies one until its last byte, so
/// each request uses a share of the time of all of a host's connections.
struct Connected {
    passage: Passage,
    /// Nanoseconds of a byte on one connection, and of a request in addition to its bytes.
    byte_ns: f64,
    request_ns: f64,
    /// 1 / connections of the simulated share of a host; 0 without a limit.
    share_of_all: f64,
}

impl Connected {
    fn of(connections: Connections, scenario: &Scenario) -> Self {
        let storage = &scenario.storage;
        let round_trip = storage.link.map_or(0.0, |link| link.round_trip_seconds);
        let number = connections.number.map(f64::from);
        Self {
            passage: Passage::of(None, scenario),
            byte_ns: 1e9 / connections.bytes_per_second,
            request_ns: 1e9 * (storage.device.latency_seconds + round_trip),
            share_of_all: number.map_or(0.0, |number| 1.0 / number / scenario.shares.link),
        }
    }

    /// Time of a connection for these requests, one after the other.
    fn one_by_one_ns(&self, requests: f64, bytes: f64) -> f64 {
        requests * self.request_ns + bytes * self.byte_ns
    }

    /// When the connections of `host` are through with requests that it makes at `at`.
    fn pass(&mut self, host: usize, (requests, bytes): (f64, f64), at: f64) -> f64 {
        if self.share_of_all == 0.0 {
            return at;
        }
        let work = self.one_by_one_ns(requests, bytes) * self.share_of_all;
        self.passage.take(host, work, at)
    }
}

/// See the [module's description](self).
pub(super) struct SimulatedStorage {
    reads: Reads,
    cache: Cache,
    calls: Calls,
    figures: Figures,
    of_one: Figures,
    /// The stripe of one device, and their number.
    one_stripe_bytes: f64,
    number: f64,
    stripe_bytes: u64,
    devices: Vec<Lines>,
    measured: Option<Measured>,
    link: Passage,
    hosts: Passage,
    connected: Option<Connected>,
    round_trip_ns: f64,
    per_host: u32,
    /// 1 / requests of a read in flight at a time.
    share_of_window: f64,
    /// Maximum parts of a read.
    parts: u64,
    checkpoint: Nanos,
    in_flight: u64,
    busy_until: Nanos,
    /// Whether a read would end after [`LONGEST_NS`].
    pub(super) is_endless: bool,
    pub(super) served: Served,
}

/// Granularity of the simulation.
#[derive(Debug, Clone, Copy)]
pub(super) struct Grain {
    /// Maximum parts of a read.
    pub(super) parts: u64,
    /// Duration of a checkpoint.
    pub(super) checkpoint: Nanos,
    /// Size of a typical request.
    pub(super) request_bytes: u64,
}

impl SimulatedStorage {
    pub(super) fn new(
        scenario: &Scenario,
        accelerators: u32,
        calls: Calls,
        grain: Grain,
        (reads, cache): (Reads, Cache),
    ) -> Self {
        let storage = &scenario.storage;
        let share = scenario.shares.storage;
        let groups = groups(scenario);
        let in_group = f64::from(storage.devices.max(1)) * share / f64::from(groups);
        let link = storage.link;
        Self {
            reads,
            cache,
            calls,
            figures: Figures::of(storage, in_group),
            of_one: Figures::of(storage, 1.0),
            one_stripe_bytes: storage.stripe_bytes_or_default() as f64,
            number: f64::from(storage.devices.max(1)),
            stripe_bytes: (storage.stripe_bytes_or_default() as f64 * in_group.max(1.0)) as u64,
            devices: vec![Lines::default(); groups as usize],
            measured: storage.surface.clone().map(|surface| Measured {
                surface,
                share,
                request_bytes: grain.request_bytes,
                by_depth: vec![0.0; DEEPEST + 1],
            }),
            link: Passage::of(link.map(|link| link.bytes_per_second), scenario),
            hosts: Passage::of(scenario.host_bytes_per_second, scenario),
            connected: storage.connections.map(|all| Connected::of(all, scenario)),
            round_trip_ns: link.map_or(0.0, |link| 1e9 * link.round_trip_seconds),
            per_host: scenario.accelerators_per_host(accelerators),
            share_of_window: 1.0 / calls.window as f64,
            parts: grain.parts.max(1),
            checkpoint: grain.checkpoint,
            in_flight: 0,
            busy_until: 0,
            is_endless: false,
            served: Served::default(),
        }
    }

    /// Continues with the reads of another phase.
    pub(super) fn turn_to(&mut self, (reads, cache): (Reads, Cache)) {
        (self.reads, self.cache) = (reads, cache);
    }

    /// Busy time of all links, of all hosts with a limit, and of all connections.
    pub(super) fn link_host_and_connections_ns(&self) -> [f64; 3] {
        let connected = self.connected.as_ref().map_or(0.0, |all| all.passage.busy_ns);
        [self.link.busy_ns, self.hosts.busy_ns, connected]
    }

    /// The counters as a kernel would report them.
    pub(super) fn counters(&self) -> DeviceCounters {
        DeviceCounters {
            reads: self.served.requests,
            read_bytes: self.served.bytes,
            busy_ms: self.served.busy_ns / 1_000_000,
            ..DeviceCounters::default()
        }
    }

    fn parts_of(&self, asked: &SimulatedRead) -> u64 {
        // A part has at least as many requests as are in flight at a time.
        (asked.requests / self.calls.window).clamp(1, self.parts)
    }

    /// Serves one part of a read; returns its completion time.
    fn serve(&mut self, asked: &SimulatedRead, host: usize, part: u64, now: Nanos) -> Nanos {
        let parts = self.parts_of(asked);
        let (done, requests, bytes) = match parts {
            1 => (0, asked.requests.max(1), asked.bytes),
            _ => {
                let cut = |nth: u64| asked.requests * nth / parts;
                let of_first = |count| self.reads.bytes_of_first(count, asked);
                let (from, to) = (cut(part), cut(part + 1));
                let done = of_first(from);
                (done, to - from, of_first(to) - done)
            }
        };
        self.served.requests += requests;
        self.served.bytes += bytes;
        let at = now as f64;
        let (through, latency) = match &mut self.measured {
            Some(measured) => {
                let depth = self.in_flight * self.calls.window.min(asked.requests);
                let work = measured.byte_ns(depth) * bytes as f64;
                self.served.device_ns += work;
                let line = &mut self.devices[0].bytes;
                *line = line.max(at) + work;
                // Measured rates include latency.
                (*line, 0.0)
            }
            None => {
                let offset = asked.offset + done;
                let through = self.stripe(asked.file, offset, (requests, bytes), at);
                (through, self.figures.latency)
            }
        };
        let through = through.max(self.link.pass(host, bytes as f64, at));
        let through = through.max(self.hosts.pass(host, bytes as f64, at));
        let work = (requests as f64, bytes as f64);
        let connected = self.connected.as_mut().map_or(at, |all| all.pass(host, work, at));
        let alone = at + self.alone_ns(requests as f64, bytes as f64);
        let over = alone.max(through + latency + self.round_trip_ns).max(connected);
        self.is_endless |= over > LONGEST_NS;
        let over = rounded_up(over.min(LONGEST_NS)).max(now);
        self.served.busy_ns += over.saturating_sub(now.max(self.busy_until));
        self.busy_until = self.busy_until.max(over);
        over
    }

    /// Duration of requests on idle storage, with some of them in flight at a time.
    fn alone_ns(&self, requests: f64, bytes: f64) -> f64 {
        let of_request = bytes / requests;
        let of_device = match self.measured {
            Some(_) => 0.0,
            None => {
                let of_one = &self.of_one;
                let one_by_one = of_request * of_one.byte;
                let moved = if of_request > self.one_stripe_bytes && self.number > 1.0 {
                    one_by_one / (of_request / self.one_stripe_bytes).min(self.number)
                } else {
                    one_by_one
                };
                of_one.latency + of_one.operation + moved
            }
        };
        let one = of_device + self.round_trip_ns + of_request * self.link.byte_ns;
        let connected =
            self.connected.as_ref().map_or(0.0, |all| all.one_by_one_ns(1.0, of_request));
        one.max(connected) * (requests * self.share_of_window).max(1.0)
    }

    /// Queues a range of a file on its devices; returns when the last of them has completed it.
    fn stripe(&mut self, file: u64, offset: u64, work: (u64, u64), at: f64) -> f64 {
        let count = self.devices.len() as u64;
        if count == 1 {
            return self.device(0, work.0 as f64, work.1 as f64, at);
        }
        let (requests, bytes) = work;
        // Files are stored one after the other, so a file can start on any device.
        let first = file.wrapping_mul(0x9e37_79b9) + offset / self.stripe_bytes;
        let (rounds, rest) =
            (bytes / (self.stripe_bytes * count), bytes % (self.stripe_bytes * count));
        let touched = match rounds {
            0 => rest.div_ceil(self.stripe_bytes).max(1),
            _ => count,
        };
        // A request that crosses devices becomes one request on each.
        let stretches = bytes.div_ceil(self.stripe_bytes).max(1);
        let requests = requests.max(stretches) as f64;
        let mut over: f64 = 0.0;
        for nth in 0..touched {
            let tail = rest.saturating_sub(nth * self.stripe_bytes);
            let own = rounds * self.stripe_bytes + tail.min(self.stripe_bytes);
            let own_requests = requests * own as f64 / bytes.max(1) as f64;
            let device = ((first + nth) % count) as usize;
            over = over.max(self.device(device, own_requests, own as f64, at));
        }
        over
    }

    /// Queues requests on one device; returns when it has completed them, without latency.
    fn device(&mut self, device: usize, requests: f64, bytes: f64, at: f64) -> f64 {
        let Figures { operation, byte, latency, share_of_queue } = self.figures;
        let last = byte * bytes / requests.max(1.0);
        // With a limited queue, each request uses a share of the queue's time.
        let operation = operation.max((latency + operation + last) * share_of_queue);
        let lines = &mut self.devices[device];
        let begun = lines.operations.max(at);
        lines.operations = begun + operation * requests;
        let moved = lines.bytes.max(begun + operation.min(lines.operations - begun));
        lines.bytes = (moved + byte * bytes).max(lines.operations + last);
        self.served.device_ns += (operation * requests).max(byte * bytes);
        lines.bytes
    }

    fn host(&self, request: &ReadRequest) -> usize {
        let hosts = self.link.free_at.len();
        if hosts == 1 {
            return 0;
        }
        let host = (request.accelerator / self.per_host) as usize;
        host.min(hosts - 1)
    }
}

/// The first whole nanosecond at or after `at`. `f64::ceil` is a function call on baseline CPUs.
fn rounded_up(at: f64) -> Nanos {
    let whole = at as Nanos;
    whole.saturating_add(Nanos::from((whole as f64) < at))
}

impl Figures {
    fn of(storage: &StorageModel, in_group: f64) -> Self {
        let device = &storage.device;
        Self {
            operation: device.reads_per_second.map_or(0.0, |rate| 1e9 / rate) / in_group,
            byte: 1e9 / device.read_bytes_per_second / in_group,
            latency: 1e9 * device.latency_seconds,
            share_of_queue: device.queue_depth.map_or(0.0, |queue| 1.0 / f64::from(queue))
                / in_group,
        }
    }
}

impl Measured {
    fn byte_ns(&mut self, depth: u64) -> f64 {
        let depth = ((depth.max(1) as f64 / self.share) as usize).min(DEEPEST);
        let known = &mut self.by_depth[depth];
        if *known == 0.0 {
            let point = self.surface.at(self.request_bytes, depth as u32);
            *known = 1e9 / point.bytes_per_second / self.share;
        }
        *known
    }
}

impl Device for SimulatedStorage {
    fn queue_depth(&self) -> usize {
        self.calls.reads_at_once
    }

    fn start(&mut self, request: &ReadRequest, now: Nanos) -> Nanos {
        self.in_flight += 1;
        let asked = self.reads.asked(request);
        let host = self.host(request);
        if self.cache.has(&asked, host as u32) {
            self.served.cached_bytes += asked.bytes;
            return rounded_up(self.hosts.pass(host, asked.bytes as f64, now as f64));
        }
        self.serve(&asked, host, 0, now)
    }

    fn go_on(&mut self, request: &ReadRequest, ended: u32, now: Nanos) -> Option<Nanos> {
        if self.parts == 1 {
            // No request is left: skip the lookup.
            return None;
        }
        let asked = self.reads.asked(request);
        let host = self.host(request);
        let part = u64::from(ended);
        if part >= self.parts_of(&asked) || self.cache.has(&asked, host as u32) {
            return None;
        }
        Some(self.serve(&asked, host, part, now))
    }

    fn finish(&mut self, request: &ReadRequest) -> ReadResult {
        self.in_flight -= 1;
        self.reads.landed(request)
    }

    fn checkpoint(&mut self) -> Nanos {
        self.checkpoint
    }
}
