//! The evidence of a thread group, combined from its threads'.
//!
//! Threads can differ: the locked-memory limit may allow registered buffers only for some of them.
//! A thread group's evidence must hold for all of them, so the weakest counts.

use stormlp_core::evidence::{Counted, DirectIo, DirectStorage, EngineFacts, Evidence};
use stormlp_core::path::PathKind;

/// The evidence of the thread group that requested `path`; `None` without threads.
pub fn combine(path: PathKind, workers: &[&Evidence]) -> Option<Evidence> {
    let mut combined = (*fullest(workers)?).clone();
    let fell_back = workers.iter().find(|e| e.effective_path != Some(path));
    if let Some(fell_back) = fell_back.filter(|_| combined.effective_path == Some(path)) {
        combined.effective_path = fell_back.effective_path;
        combined.summary.clone_from(&fell_back.summary);
    }
    if workers.iter().any(|e| e.direct_io == DirectIo::Refused) {
        combined.direct_io = DirectIo::Refused;
    }
    let engines: Vec<&EngineFacts> = workers.iter().filter_map(|e| e.engine.as_ref()).collect();
    combined.engine = engine(&engines);
    Some(combined.with_stores_of(workers.iter().copied()))
}

/// The thread with the most complete view: cuFile counts for the whole process, so the thread that
/// looked last saw all. Ties go to one whose measured transfers were counted.
fn fullest<'a>(workers: &[&'a Evidence]) -> Option<&'a Evidence> {
    let counted = |evidence: &&&Evidence| {
        evidence.direct_storage.as_ref().map_or(0, DirectStorage::counted_operations)
    };
    let at_first = |evidence: &Evidence| {
        let storage = evidence.direct_storage.as_ref();
        storage.is_some_and(|storage| storage.counted == Counted::AtFirst)
    };
    let seen = |evidence: &&&Evidence| (counted(evidence), at_first(evidence));
    workers.iter().rev().max_by_key(seen).copied()
}

/// Facts that hold for every engine, and features that some of them lacked.
fn engine(all: &[&EngineFacts]) -> Option<EngineFacts> {
    let mut combined = (*all.first()?).clone();
    combined.registered_buffers = all.iter().all(|facts| facts.registered_buffers);
    combined.registered_files = all.iter().all(|facts| facts.registered_files);
    let flags = std::mem::take(&mut combined.ring_flags);
    let shared = |flag: &String| all.iter().all(|facts| facts.ring_flags.contains(flag));
    combined.ring_flags = flags.into_iter().filter(shared).collect();
    combined.fallbacks.clear();
    for text in all.iter().flat_map(|facts| &facts.fallbacks) {
        let threads = all.iter().filter(|facts| facts.fallbacks.contains(text)).count();
        let line = match threads == all.len() {
            true => text.clone(),
            false => format!("{threads} of {} threads: {text}", all.len()),
        };
        if !combined.fallbacks.contains(&line) {
            combined.fallbacks.push(line);
        }
    }
    Some(combined)
}

#[cfg(test)]
mod tests {
    use super::*;
    use stormlp_core::evidence::{Mechanism, ObjectStore};
    use stormlp_core::path::EngineKind;

    fn evidence(fallbacks: &[&str]) -> Evidence {
        Evidence {
            object_store: None,
            effective_path: Some(PathKind::Cpu),
            summary: "direct".to_string(),
            direct_io: DirectIo::Honoured,
            engine: Some(EngineFacts {
                engine: EngineKind::Uring,
                ring_flags: vec!["SINGLE_ISSUER".to_string()],
                registered_buffers: fallbacks.is_empty(),
                registered_files: true,
                fallbacks: fallbacks.iter().map(ToString::to_string).collect(),
            }),
            direct_storage: None,
        }
    }

    #[test]
    fn one_thread_without_registered_buffers_shows_for_all() {
        let (good, bad) = (evidence(&[]), evidence(&["no locked memory"]));
        let facts = combine(PathKind::Cpu, &[&good, &bad, &good]).unwrap().engine.unwrap();
        assert!(!facts.registered_buffers && facts.registered_files);
        assert_eq!(facts.fallbacks, ["1 of 3 threads: no locked memory"]);
    }

    #[test]
    fn the_thread_with_the_best_evidence_represents_all_that_fell_back() {
        let fell_back = |posix, summary: &str| Evidence {
            object_store: None,
            effective_path: Some(PathKind::GdsCompat),
            summary: summary.to_string(),
            direct_storage: Some(DirectStorage {
                fallback_operations: Some(posix),
                ..DirectStorage::default()
            }),
            ..evidence(&[])
        };
        let (some, all) = (fell_back(13, "some"), fell_back(16, "all"));
        let cell = combine(PathKind::Gds, &[&some, &all]).unwrap();
        assert_eq!(cell.summary, "all");
    }

    #[test]
    fn counts_of_the_measured_part_are_reported() {
        let of = |counted| Evidence {
            object_store: None,
            direct_storage: Some(DirectStorage {
                direct_operations: Some([(Mechanism::P2pdma, 16)].into()),
                counted,
                ..DirectStorage::default()
            }),
            ..evidence(&[])
        };
        let (before, first) = (of(Counted::Beforehand), of(Counted::AtFirst));
        for workers in [[&before, &first], [&first, &before]] {
            let cell = combine(PathKind::Gds, &workers).unwrap();
            assert_eq!(cell.direct_storage.unwrap().counted, Counted::AtFirst);
        }
    }

    #[test]
    fn every_endpoint_of_an_object_store_is_named() {
        let of = |endpoint: &str| Evidence {
            effective_path: Some(PathKind::S3),
            summary: "of one thread".to_string(),
            object_store: Some(ObjectStore {
                endpoint: endpoint.to_string(),
                ..ObjectStore::default()
            }),
            ..evidence(&[])
        };
        let (one, both) = (of("http://a:9000"), of("http://b:9000, http://a:9000"));
        let combined = combine(PathKind::S3, &[&one, &both, &one]).unwrap();
        let endpoints = "http://a:9000, http://b:9000";
        assert_eq!(combined.object_store.unwrap().endpoint, endpoints);
        assert!(combined.summary.contains(endpoints), "{}", combined.summary);
    }

    #[test]
    fn one_thread_that_fell_back_names_the_path_of_all() {
        let good = evidence(&[]);
        let bad = Evidence {
            object_store: None,
            effective_path: Some(PathKind::Buffered),
            direct_io: DirectIo::Refused,
            summary: "cached".to_string(),
            ..evidence(&[])
        };
        let cell = combine(PathKind::Cpu, &[&good, &bad]).unwrap();
        assert_eq!(cell.effective_path, Some(PathKind::Buffered));
        assert_eq!((cell.direct_io, cell.summary.as_str()), (DirectIo::Refused, "cached"));
    }
}
