//! The fewest streams per rank that reach the bandwidth of saves, and of restores.

use serde::{Deserialize, Serialize};

use stormlp_core::knee::{KneeAnswer, KneeLimit, Search, Setting, WITHIN};

/// Stream counts that a search tries.
pub const STREAMS: [u32; 10] = [1, 2, 3, 4, 6, 8, 12, 16, 24, 32];
/// Saves and restores measured at each setting that an answer depends on.
const REPEAT: usize = 3;

/// Result of a search for the fewest streams.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct FindStreams {
    /// Tolerance below the best, in percent.
    pub within_percent: f64,
    /// The stream counts that can be tried here.
    pub streams: Vec<u32>,
    /// Every run, in order.
    pub tried: Vec<TriedStreams>,
    /// The knee for saves; `null` without saves.
    pub save: Option<StreamKnee>,
    /// The knee for restores; `null` without restores.
    pub restore: Option<StreamKnee>,
}

/// One run of a search.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct TriedStreams {
    /// Streams per rank.
    pub streams: u32,
    /// All ranks' bytes over the slowest rank's duration, for each save.
    pub save_gib_per_second: Vec<f64>,
    /// The same for each restore.
    pub restore_gib_per_second: Vec<f64>,
    /// What limited the saves, if known.
    pub save_limited_by: Option<KneeLimit>,
    /// What limited the restores.
    pub restore_limited_by: Option<KneeLimit>,
    /// Duration of the run.
    pub seconds: f64,
}

/// The fewest streams within `within_percent` of the best.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct StreamKnee {
    /// Streams per rank.
    pub streams: u32,
    /// Mean bandwidth with them.
    pub gib_per_second: f64,
    /// The same in percent of the best.
    pub share_of_best_percent: f64,
    /// Stream count of the best.
    pub best_streams: u32,
    /// Highest mean bandwidth.
    pub best_gib_per_second: f64,
    /// Standard deviation of repeated runs in percent of their mean.
    pub noise_percent: Option<f64>,
    /// Other stream counts that noise does not exclude from being it.
    pub alike: Vec<u32>,
    /// Whether bandwidth was still rising at the highest stream count tried.
    pub is_lower_bound: bool,
    /// What limits the best; `null` if unknown.
    pub limited_by: Option<KneeLimit>,
}

/// Saves or restores.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum SaveOrRestore {
    Save,
    Restore,
}

impl FindStreams {
    /// A search over these stream counts, with nothing tried yet.
    pub fn begun(streams: Vec<u32>) -> Self {
        Self {
            within_percent: WITHIN * 100.0,
            streams,
            tried: Vec::new(),
            save: None,
            restore: None,
        }
    }

    /// Stream count of the next run; `None` once saves and restores both have an answer.
    pub fn next(&self) -> Option<u32> {
        let of = |phase| {
            let search = self.search(phase);
            // A phase without runs needs none; before the first run all phases do.
            let asked = self.tried.is_empty() || search.found().is_some();
            search.next().filter(|_| asked)
        };
        let (_, index) = of(SaveOrRestore::Save).or_else(|| of(SaveOrRestore::Restore))?;
        self.streams.get(index).copied()
    }

    /// Adds a run to the search.
    pub fn take(&mut self, run: TriedStreams) {
        self.tried.push(run);
        [self.save, self.restore] = self.of_tried();
    }

    /// Estimated number of runs left.
    pub fn likely_left(&self) -> usize {
        if self.next().is_none() {
            return 0;
        }
        let search = Search { repeat: 1, ..self.search(SaveOrRestore::Save) };
        // The knee, the best and the next lower count are repeated.
        (search.likely_runs() + REPEAT).saturating_sub(self.tried.len()).max(1)
    }

    fn search(&self, phase: SaveOrRestore) -> Search {
        let setting = |streams: &u32| {
            let runs = self.tried.iter().filter(|run| run.streams == *streams);
            let rates: Vec<f64> = runs.clone().flat_map(|run| run.rates(phase)).copied().collect();
            Setting { cost: u64::from(*streams), runs: rates.len().max(runs.count()), rates }
        };
        Search { lines: vec![self.streams.iter().map(setting).collect()], repeat: REPEAT }
    }

    /// The knees of saves and of restores for the runs so far.
    pub(crate) fn of_tried(&self) -> [Option<StreamKnee>; 2] {
        [SaveOrRestore::Save, SaveOrRestore::Restore].map(|phase| self.knee(phase))
    }

    fn knee(&self, phase: SaveOrRestore) -> Option<StreamKnee> {
        let search = self.search(phase);
        let KneeAnswer { knee, best, noise_percent, alike, is_lower_bound } = search.found()?;
        // An unfinished search gives a lower bound only.
        let is_lower_bound = is_lower_bound || search.next().is_some();
        let streams = |place: (usize, usize)| self.streams.get(place.1).copied().unwrap_or(1);
        let of_best = self.tried.iter().rev().find(|run| run.streams == streams(best));
        let limited_by = of_best.and_then(|run| match phase {
            SaveOrRestore::Save => run.save_limited_by,
            SaveOrRestore::Restore => run.restore_limited_by,
        });
        Some(StreamKnee {
            streams: streams(knee),
            gib_per_second: search.rate(knee),
            share_of_best_percent: search.rate(knee) / search.rate(best) * 100.0,
            best_streams: streams(best),
            best_gib_per_second: search.rate(best),
            noise_percent,
            alike: alike.into_iter().map(streams).collect(),
            is_lower_bound,
            // If more streams would give more bandwidth, storage was not the limit.
            limited_by: limited_by.filter(|by| !is_lower_bound || *by != KneeLimit::Storage),
        })
    }
}

impl TriedStreams {
    fn rates(&self, phase: SaveOrRestore) -> &[f64] {
        match phase {
            SaveOrRestore::Save => &self.save_gib_per_second,
            SaveOrRestore::Restore => &self.restore_gib_per_second,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tried(streams: u32, save: f64, restores: &[f64]) -> TriedStreams {
        TriedStreams {
            streams,
            save_gib_per_second: vec![save, save],
            restore_gib_per_second: restores.to_vec(),
            save_limited_by: Some(KneeLimit::Storage),
            restore_limited_by: None,
            seconds: 1.0,
        }
    }

    /// Runs a whole search on known rates.
    fn searched(rate: impl Fn(u32) -> (f64, Vec<f64>)) -> FindStreams {
        let mut find = FindStreams::begun(STREAMS.to_vec());
        while let Some(streams) = find.next() {
            let (save, restores) = rate(streams);
            find.tried.push(tried(streams, save, &restores));
            assert!(find.tried.len() < 40, "{find:?}");
        }
        find.save = find.knee(SaveOrRestore::Save);
        find.restore = find.knee(SaveOrRestore::Restore);
        find
    }

    #[test]
    fn saves_and_restores_have_knees_of_their_own() {
        let find = searched(|streams| {
            let streams = f64::from(streams);
            (streams.min(2.0), vec![streams.min(10.0); 2])
        });
        let (save, restore) = (find.save.unwrap(), find.restore.unwrap());
        assert_eq!((save.streams, save.limited_by), (2, Some(KneeLimit::Storage)));
        assert_eq!((restore.streams, restore.is_lower_bound), (12, false));
    }

    #[test]
    fn an_unfinished_search_is_a_lower_bound() {
        let mut find = FindStreams::begun(STREAMS.to_vec());
        for (streams, rate) in [(1, 1.0), (2, 2.0)] {
            assert_eq!(find.next(), Some(streams));
            find.tried.push(tried(streams, rate, &[]));
        }
        let knee = find.knee(SaveOrRestore::Save).unwrap();
        assert_eq!((knee.streams, knee.is_lower_bound), (2, true));
        assert_eq!(knee.limited_by, None);
    }

    #[test]
    fn what_did_not_run_has_no_knee_and_is_not_waited_for() {
        let find = searched(|_| (1.0, Vec::new()));
        assert_eq!(find.save.unwrap().streams, 1);
        assert_eq!(find.restore, None);
    }
}
