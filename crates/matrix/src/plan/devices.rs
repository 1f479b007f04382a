//! Checks of block devices to be written: never one in use, and never valuable data by mistake.

use super::inventory::{FileFacts, FileKind, TargetInventory};
use super::request::MatrixRequest;
use stormlp_core::failure::Problems;
use stormlp_core::machine::DeviceClaims;

/// Checks that a block device may be overwritten.
///
/// No option overrides a device in use. Unused contents must be named, so that nobody who means
/// another device loses them.
pub(super) fn check(request: &MatrixRequest, facts: &FileFacts, problems: &mut Problems) {
    let path = facts.path.display();
    if in_use(facts, problems) {
        return;
    }
    let (claims, reason) = match &facts.claims {
        None => (None, Some("it was not examined")),
        Some(claims) => (Some(claims), claims.unexamined.as_deref()),
    };
    if let Some(reason) = reason {
        problems.machine(
            format!(
                "cannot determine whether {path} is in use, so it is not overwritten: \
                     {reason}"
            ),
            "name another device, or run as a user who may read it, where /sys and /proc are \
             mounted",
        );
        return;
    }
    let Some(claims) = claims else {
        return;
    };
    let missing: Vec<&str> = (claims.names().into_iter())
        .filter(|name| !request.overwrite_signatures.iter().any(|named| named == name))
        .collect();
    if request.overwrite_block_devices && missing.is_empty() {
        return;
    }
    let flags: Vec<String> = [
        (!request.overwrite_block_devices).then(|| "--destroy-data-on-block-devices".to_string()),
        (!missing.is_empty())
            .then(|| format!("--overwrite-signature {}", claims.names().join(","))),
    ]
    .into_iter()
    .flatten()
    .collect();
    let carries = if claims.signatures.is_empty() {
        "is a block device; writing would destroy its data".to_string()
    } else {
        format!("carries {}; writing would destroy it", claims.words())
    };
    problems.plan(
        format!("{path} {carries}"),
        format!("add {} if that is what you want", flags.join(" ")),
    );
}

/// Whether a device, or a file used as one, is in use; if so, reports a problem.
pub(super) fn in_use(facts: &FileFacts, problems: &mut Problems) -> bool {
    let claims = facts.claims.as_ref();
    let Some(claims) = claims.filter(|claims| !claims.users.is_empty()) else {
        return false;
    };
    let kind = match facts.kind {
        FileKind::BlockDevice => "device",
        _ => "file",
    };
    problems.machine(
        format!(
            "{} is in use, so it is not overwritten: {}",
            facts.path.display(),
            claims.users.join("; ")
        ),
        format!("no option overrides this: stop what uses it first, or name another {kind}"),
    );
    true
}

/// Rejects named signatures that no device carries: the user means another device.
pub(super) fn check_named(
    request: &MatrixRequest,
    inventory: &TargetInventory,
    problems: &mut Problems,
) {
    // Devices in use or unreadable were rejected above. On resume, the matrix's own cells may have
    // overwritten the named signatures.
    let refused = |claims: &DeviceClaims| !claims.users.is_empty() || claims.unexamined.is_some();
    let claims: Vec<&DeviceClaims> =
        inventory.files.iter().filter_map(|f| f.claims.as_ref()).collect();
    if request.resumes || claims.iter().any(|claims| refused(claims)) {
        return;
    }
    let has = |named: &String| claims.iter().any(|claims| claims.names().contains(&named.as_str()));
    for named in request.overwrite_signatures.iter().filter(|named| !has(named)) {
        let carried: Vec<String> = (inventory.files.iter())
            .filter_map(|file| {
                let claims = file.claims.as_ref().filter(|c| !c.signatures.is_empty())?;
                Some(format!("{} carries {}", file.path.display(), claims.words()))
            })
            .collect();
        let carried = if carried.is_empty() {
            "none of them carries anything that is known".to_string()
        } else {
            carried.join("; ")
        };
        problems.plan(
            format!("--overwrite-signature {named}: no --file is a block device that carries it"),
            format!("check that this is the right device: {carried}"),
        );
    }
}
