//! The route of the bytes: each version of libcufile reports it in a different way, or not at all.

use std::sync::Arc;

use stormlp_core::evidence::{Counted, DirectStorage, Evidence, Mechanism, RouteProof};
use stormlp_core::path::{MemoryKind, PathKind};
use stormlp_transfer::TransferPath;
use stormlp_transfer::cuda::CudaDevice;
use stormlp_transfer::cufile::{Driver, Settings, Statistics, forbid_compat_mode};

use crate::scene::{Library, Scenario};
use crate::transfers::{Setup, open, words, write_and_verify};

pub(crate) fn all() -> Vec<Scenario> {
    let scene = |name, library, play| Scenario { name, library, play, left_over: &["contexts"] };
    let older = Library::Older;
    vec![
        scene("proof_direct_by_counters", Library::Double("direct"), direct_by_counters),
        scene("proof_posix_by_counters", Library::Double(""), posix_by_counters),
        scene("proof_1_11_is_not_proven", older(1110, "direct"), not_proven),
        scene("proof_1_11_by_elimination", older(1110, ""), by_elimination),
        scene("proof_1_11_forbidden", older(1110, "direct"), forbidden_by_environment),
        scene("proof_1_11_fallback_fails", older(1110, ""), fallback_fails),
        scene("proof_1_11_cannot_forbid", older(1110, "deaf"), cannot_forbid),
        scene("proof_1_14_is_not_proven", older(1140, "direct"), not_proven),
        scene("proof_1_14_by_elimination", older(1140, ""), by_elimination),
        scene("proof_1_14_forbidden", older(1140, "direct"), forbidden),
        scene("proof_is_one_for_all_paths", Library::Double("direct"), one_for_all_paths),
        scene("proof_nothing_moved", older(1110, ""), nothing_moved),
        scene("proof_without_counting", Library::Double("direct"), without_counting),
    ]
}

const KINDS: [PathKind; 4] =
    [PathKind::Gds, PathKind::GdsAsync, PathKind::GdsBatch, PathKind::GdsBatchStream];

/// The evidence of a path to the double's GPU after some transfers, which are counted before the
/// rest.
fn evidence(kind: PathKind) -> Evidence {
    let setup = Setup {
        accelerator: Arc::new(CudaDevice::open(0).unwrap()),
        memory: MemoryKind::Device,
        ..Setup::on_host(kind, 2)
    };
    let mut path = setup.build().unwrap();
    let file = path.attach(open(kind, "data".as_ref())).unwrap();
    write_and_verify(path.as_mut(), file, 5);
    path.stop_counting();
    let counted = path.evidence().direct_storage.unwrap();
    assert!(counted.fallback_operations.is_none_or(|count| count <= 10), "{counted:?}");
    path.evidence()
}

/// Transfers that the library counted over peer-to-peer DMA.
pub(crate) fn by_p2pdma(storage: &DirectStorage) -> Option<u64> {
    storage.direct_operations.as_ref()?.get(&Mechanism::P2pdma).copied()
}

fn proof(evidence: &Evidence) -> (Option<PathKind>, RouteProof) {
    let cufile = evidence.direct_storage.as_ref().unwrap();
    (evidence.effective_path, cufile.proof)
}

fn direct_by_counters() {
    for kind in KINDS {
        let evidence = evidence(kind);
        assert_eq!(proof(&evidence), (Some(kind), RouteProof::Counters));
        let cufile = evidence.direct_storage.unwrap();
        assert_eq!(cufile.counted, Counted::Beforehand);
        assert_eq!(by_p2pdma(&cufile), Some(10), "{kind}");
        let counted =
            "in similar transfers just before the measured part, of two blocks per thread";
        assert!(evidence.summary.contains(counted), "{}", evidence.summary);
    }
}

fn posix_by_counters() {
    for kind in KINDS {
        let compat = Some(PathKind::GdsCompat);
        assert_eq!(proof(&evidence(kind)), (compat, RouteProof::Counters));
    }
}

fn not_proven() {
    for kind in KINDS {
        let evidence = evidence(kind);
        assert_eq!(proof(&evidence), (None, RouteProof::None));
        assert!(evidence.summary.contains("not proven"), "{}", evidence.summary);
        let cufile = evidence.direct_storage.unwrap();
        assert_eq!(cufile.counted, Counted::Never);
        assert!(cufile.to_prove.unwrap().contains("--require gds"));
    }
}

fn by_elimination() {
    let evidence = evidence(PathKind::Gds);
    let expected = (Some(PathKind::GdsCompat), RouteProof::Elimination);
    assert_eq!(proof(&evidence), expected);
    assert!(evidence.summary.contains("by elimination"), "{}", evidence.summary);
}

fn strict() -> Settings {
    Settings { forbid_fallback: true, ..Settings::default() }
}

fn forbidden() {
    let _held = Driver::open(&strict()).unwrap();
    for kind in KINDS {
        let found = evidence(kind);
        assert_eq!(proof(&found), (Some(kind), RouteProof::FallbackForbidden));
    }
}

fn forbidden_by_environment() {
    forbid_compat_mode();
    forbidden();
}

fn fallback_fails() {
    forbid_compat_mode();
    let _held = Driver::open(&strict()).unwrap();
    let setup = Setup {
        accelerator: Arc::new(CudaDevice::open(0).unwrap()),
        memory: MemoryKind::Device,
        ..Setup::on_host(PathKind::Gds, 1)
    };
    std::fs::write("data", vec![1; crate::transfers::BLOCK]).unwrap();
    let mut path = setup.build().unwrap();
    let file = path.attach(open(PathKind::Gds, "data".as_ref())).unwrap();
    let slot = path.take_slots().pop().unwrap();
    let direction = stormlp_core::operation::Direction::Read;
    let over = crate::transfers::one(path.as_mut(), direction, file, 0, slot);
    let text = over.result.unwrap_err().to_string();
    assert!(text.contains("5008 IO_NOT_SUPPORTED"), "{text}");
}

/// Paths that are there at one time are judged by the same counts, whichever was built first.
fn one_for_all_paths() {
    let setup = Setup {
        accelerator: Arc::new(CudaDevice::open(0).unwrap()),
        memory: MemoryKind::Device,
        ..Setup::on_host(PathKind::Gds, 2)
    };
    let moved_by = |name: &str| {
        let mut path = setup.build().unwrap();
        let file = path.attach(open(PathKind::Gds, name.as_ref())).unwrap();
        write_and_verify(path.as_mut(), file, 5);
        path
    };
    let counted = |path: &dyn TransferPath| by_p2pdma(&path.evidence().direct_storage.unwrap());
    let (first, second) = (moved_by("first"), moved_by("second"));
    assert_eq!(counted(first.as_ref()), Some(20));
    assert_eq!(counted(second.as_ref()), Some(20));
    drop((first, second));
    assert_eq!(counted(moved_by("later").as_ref()), Some(10));
}

/// A failed transfer took no route, and one that is forbidden to fall back proves none.
fn nothing_moved() {
    forbid_compat_mode();
    let _held = Driver::open(&strict()).unwrap();
    let setup = Setup {
        accelerator: Arc::new(CudaDevice::open(0).unwrap()),
        memory: MemoryKind::Device,
        ..Setup::on_host(PathKind::Gds, 1)
    };
    let mut path = setup.build().unwrap();
    let file = path.attach(open(PathKind::Gds, "data".as_ref())).unwrap();
    let slot = path.take_slots().pop().unwrap();
    let direction = stormlp_core::operation::Direction::Write;
    let over = crate::transfers::one(path.as_mut(), direction, file, 0, slot);
    assert!(over.result.is_err());
    let evidence = path.evidence();
    assert_eq!(proof(&evidence), (None, RouteProof::None));
    assert!(evidence.summary.ends_with("no transfer succeeded"), "{}", evidence.summary);
}

fn cannot_forbid() {
    forbid_compat_mode();
    let error = Driver::open(&strict()).unwrap_err();
    let text = words(&error.into());
    assert!(
        text.contains("ignored the setting") && text.contains("CUFILE_ALLOW_COMPAT_MODE"),
        "{text}"
    );
    assert!(Driver::current().is_none());
    // It can be opened again without the demand.
    Driver::open(&Settings::default()).unwrap();
}

fn without_counting() {
    let settings = Settings { statistics: Statistics::Throughout(0), ..Settings::default() };
    let held = Driver::open(&settings).unwrap();
    assert_eq!(proof(&evidence(PathKind::Gds)), (None, RouteProof::None));
    drop(held);
    let settings = Settings { statistics: Statistics::Throughout(3), ..Settings::default() };
    let _held = Driver::open(&settings).unwrap();
    let evidence = evidence(PathKind::Gds);
    assert_eq!(evidence.direct_storage.unwrap().counted, Counted::Throughout);
}
