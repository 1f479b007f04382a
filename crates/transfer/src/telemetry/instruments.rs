//! All telemetry sampled around a run, in one fixed order.

use std::path::Path;

use stormlp_core::facts::is_on_network;
use stormlp_core::telemetry::{Measure, Telemetry};

use super::devices::BlockDevice;
use super::gpu::{self, Gpus};
use super::host::Host;
use super::network::Port;
use crate::probe::{self, cgroup, root::Root};

/// The metrics of a device, the host and a port, in reading order.
const OF_DEVICE: [Measure; 8] = [
    Measure::DeviceReadBytes,
    Measure::DeviceReads,
    Measure::DeviceWrittenBytes,
    Measure::DeviceWrites,
    Measure::DeviceBusyShare,
    Measure::DeviceInFlight,
    Measure::DeviceReadSeconds,
    Measure::DeviceWriteSeconds,
];
const OF_HOST: [Measure; 3] =
    [Measure::HostCpuSeconds, Measure::MemoryAvailableBytes, Measure::PageCacheBytes];
const OF_GPU: [Measure; gpu::VALUES] = [
    Measure::GpuBusyShare,
    Measure::PcieReceivedBytes,
    Measure::PcieSentBytes,
    Measure::NvlinkReceivedBytes,
    Measure::NvlinkSentBytes,
];
const OF_PORT: [Measure; 2] = [Measure::NetworkReceivedBytes, Measure::NetworkSentBytes];

/// The devices, the host, the limits of the control group, the network and the GPUs of a run, with
/// their counters.
#[derive(Debug, Default)]
pub struct Instruments {
    devices: Vec<BlockDevice>,
    host: Option<Host>,
    limits: Vec<cgroup::Limit>,
    ports: Vec<Port>,
    gpus: Option<Gpus>,
    tracks: Vec<(Measure, String)>,
}

impl Instruments {
    /// The instruments for a run on the folders, files and devices at `paths`: the block devices
    /// below them down to the members, the host, the network if a file system may depend on it,
    /// and the GPUs with these CUDA indices.
    pub fn around<'a>(
        paths: impl IntoIterator<Item = &'a Path>,
        gpus: impl IntoIterator<Item = u32>,
        telemetry: Telemetry,
    ) -> Self {
        if telemetry == Telemetry::Off {
            return Self::default();
        }
        let storage = probe::storage_of_run(paths);
        let names = storage.iter().flat_map(|one| &one.devices);
        let mut devices: Vec<BlockDevice> = Vec::new();
        for name in names.map(|device| device.name.as_str()) {
            if devices.iter().all(|known| known.name() != name) {
                devices.extend(BlockDevice::named(name));
            }
        }
        let mut kinds = storage.iter().filter_map(|one| one.file_system.as_deref());
        let root = Root::system();
        let ports = if kinds.any(is_on_network) { Port::all(&root) } else { Vec::new() };
        Self::of(devices, (Host::open(&root), cgroup::limits(&root)), ports, Gpus::open(gpus))
    }

    fn of(
        devices: Vec<BlockDevice>,
        (host, limits): (Option<Host>, Vec<cgroup::Limit>),
        ports: Vec<Port>,
        gpus: Option<Gpus>,
    ) -> Self {
        let mut tracks = Vec::new();
        let mut follow = |measures: &[Measure], of: &str| {
            tracks.extend(measures.iter().map(|measure| (*measure, of.to_string())));
        };
        for device in &devices {
            follow(&OF_DEVICE, device.name());
        }
        if host.is_some() {
            follow(&OF_HOST, "host");
        }
        for limit in &limits {
            follow(&[Measure::LimitUsedShare], &limit.name);
        }
        for port in &ports {
            follow(&OF_PORT, &port.name);
        }
        for name in gpus.iter().flat_map(Gpus::names) {
            follow(&OF_GPU, name);
        }
        Self { devices, host, limits, ports, gpus, tracks }
    }

    /// The maximum value for an interval of `seconds`: all CPUs for host time, which is counted in
    /// kernel ticks.
    pub fn most(&self, measure: Measure, seconds: f64) -> f64 {
        match (measure, &self.host) {
            (Measure::HostCpuSeconds, Some(host)) => host.cpus as f64 * seconds,
            _ => measure.most(),
        }
    }

    /// The metrics and the instances they belong to.
    pub fn tracks(&self) -> &[(Measure, String)] {
        &self.tracks
    }

    /// Reads all of them: a value for each of [`Self::tracks`], times in seconds. Unavailable
    /// values are NaN, and so are GPUs' values, which are read less often because of their cost,
    /// unless `everything` is requested.
    pub fn read(&self, everything: bool) -> Vec<f64> {
        let mut values = Vec::with_capacity(self.tracks.len());
        for device in &self.devices {
            values.extend(device.counters().map_or([f64::NAN; 8], |counters| {
                let seconds = |ms: u64| ms as f64 / 1e3;
                [
                    counters.read_bytes as f64,
                    counters.reads as f64,
                    counters.written_bytes as f64,
                    counters.writes as f64,
                    seconds(counters.busy_ms),
                    seconds(counters.queued_ms),
                    seconds(counters.reading_ms),
                    seconds(counters.writing_ms),
                ]
            }));
        }
        if let Some(host) = &self.host {
            values.extend(host.now().map_or([f64::NAN; 3], |now| {
                [now.cpu_seconds, now.available_bytes, now.page_cache_bytes]
            }));
        }
        let root = Root::system();
        let used = |limit: &cgroup::Limit| limit.used_seconds(&root).unwrap_or(f64::NAN);
        values.extend(self.limits.iter().map(used));
        for port in &self.ports {
            let (received, sent) = port.now().unwrap_or((f64::NAN, f64::NAN));
            values.extend([received, sent]);
        }
        if let Some(gpus) = &self.gpus {
            values.extend(gpus.read(everything).into_iter().flatten());
        }
        values
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_is_read_for_each_track() {
        let here = [Path::new(".")];
        let instruments = Instruments::around(here, [], Telemetry::default());
        let values = instruments.read(false);
        assert_eq!(values.len(), instruments.tracks().len());
        let host = instruments.tracks().iter().position(|(_, of)| of == "host");
        assert!(values[host.unwrap()] > 0.0, "CPU seconds of the host");
        let off = Instruments::around(here, [], Telemetry::Off);
        assert!(off.tracks().is_empty() && off.read(true).is_empty());
    }
}
