//! The queues of block devices: the share of the requests by depth.

use std::collections::BTreeMap;

use stormlp_core::report::Series;
use stormlp_core::telemetry::DeviceQueue;

use crate::series::{by_class, depth_class};

/// How the shares were found.
pub(super) const HOW: &str = "The block layer's requests in flight, sampled every 10 ms and \
     weighted by the requests completed since the sample before.";

/// The share of the requests of each device by depth, 0 to 1 each, over all parts of a run.
pub(super) fn of_all<'s>(
    series: impl Iterator<Item = &'s Series>,
) -> Vec<(String, Vec<(u32, f64)>)> {
    let mut devices: Vec<DeviceQueue> = Vec::new();
    for queue in series.flat_map(|one| &one.device_queues) {
        match devices.iter_mut().find(|known| known.of == queue.of) {
            Some(known) => known.depths.extend(&queue.depths),
            None => devices.push(queue.clone()),
        }
    }
    let shares = |queue: DeviceQueue| {
        let mut sums: BTreeMap<u32, f64> = BTreeMap::new();
        for (depth, share) in queue.shares()? {
            *sums.entry(depth).or_default() += share;
        }
        Some((queue.of, sums.into_iter().collect()))
    };
    devices.into_iter().filter_map(shares).collect()
}

/// The largest shares first, in a sentence.
pub(super) fn to_text(shares: &[(u32, f64)]) -> String {
    let shares = shares.iter().map(|(depth, share)| (u64::from(*depth), *share));
    let mut classes = by_class(shares, depth_class);
    classes.retain(|(_, share)| *share >= 0.005);
    classes.sort_by(|a, b| b.1.total_cmp(&a.1));
    let words: Vec<String> = (classes.iter().take(5))
        .map(|(name, share)| format!("{:.0} % at {name}", share * 100.0))
        .collect();
    format!("{} of the device's I/Os (in flight, sampled every 10 ms)", words.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;
    use stormlp_core::telemetry::DeviceDepth;

    fn series(depths: &[(u32, u64)]) -> Series {
        let depth = |(depth, requests): &(u32, u64)| DeviceDepth {
            depth: *depth,
            samples: 1,
            requests: *requests,
        };
        let of = "nvme0n1".to_string();
        let queue = DeviceQueue { of, depths: depths.iter().map(depth).collect() };
        Series { device_queues: vec![queue], ..Series::default() }
    }

    #[test]
    fn requests_of_all_parts_are_shared_out_by_depth() {
        let parts = [series(&[(0, 10), (1, 40)]), series(&[(1, 10), (7, 40)])];
        let all = of_all(parts.iter());
        assert_eq!(all, [("nvme0n1".to_string(), vec![(0, 0.1), (1, 0.5), (7, 0.4)])]);
        let shares = all[0].1.iter().map(|(depth, share)| (u64::from(*depth), *share));
        let classes = by_class(shares, depth_class);
        let expected = [("0", 0.1), ("1", 0.5), ("5 to 8", 0.4)];
        assert_eq!(classes, expected.map(|(name, share)| (name.to_string(), share)));
        let words = to_text(&all[0].1);
        assert!(words.starts_with("50 % at 1, 40 % at 5 to 8, 10 % at 0 of"), "{words}");
        assert!(of_all([series(&[(3, 0)])].iter()).is_empty(), "no request was completed");
    }
}
