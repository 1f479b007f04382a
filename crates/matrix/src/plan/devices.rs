//! Checks of block devices to be written: never one in use, and never valuable data by mistake.

use super::inventory::{FileFacts, TargetInventory};
use super::request::MatrixRequest;
use stormlp_core::failure::Problems;
use stormlp_core::machine::{DeviceContent, UNKNOWN_CONTENT};
use stormlp_core::note::{Cause, Note};

/// A decision, or the problem that prevents it.
pub(super) type Decided<T> = Result<T, Note<Cause>>;

/// Something that this machine or its files lack.
pub(super) fn lacking(fact: impl Into<String>, remedy: impl Into<String>) -> Note<Cause> {
    Note::new(Cause::Machine, fact, remedy)
}

/// Checks that a block device may be overwritten.
///
/// No option overrides a device in use. Its contents must be named, so that you do not lose them if
/// you mean another device.
pub(super) fn check(request: &MatrixRequest, facts: &FileFacts) -> Decided<()> {
    let path = facts.path.display();
    let found = match &facts.device {
        Some(DeviceContent::Carries(found)) => found,
        Some(DeviceContent::InUse) => {
            return Err(lacking(
                format!(
                    "{path} is in use by the kernel: mounted, or part of a RAID or LVM; or another \
                     program has opened it exclusively"
                ),
                "no option overrides this: stop its users first, or name another device",
            ));
        }
        Some(DeviceContent::Unexamined(reason)) => {
            return Err(lacking(
                format!("cannot examine {path}, so it is not overwritten: {reason}"),
                "name another device, or run as a user who may read it",
            ));
        }
        None => return Ok(()),
    };
    let named = request.destroy_data.as_deref();
    if named.is_some_and(|named| found.iter().all(|name| named.contains(name))) {
        return Ok(());
    }
    let (fact, option) = match &found[..] {
        [] => ("is a block device; writing would destroy its data".to_string(), String::new()),
        [unknown] if unknown == UNKNOWN_CONTENT => (
            "holds data, and neither `wipefs` nor `blkid` names it here; writing would destroy it"
                .to_string(),
            format!("={UNKNOWN_CONTENT}"),
        ),
        found => (
            format!("carries {}; writing would destroy it", found.join(" and ")),
            format!("={}", found.join(",")),
        ),
    };
    let remedy = format!("add --destroy-data{option} if you want that");
    Err(Note::new(Cause::Plan, format!("{path} {fact}"), remedy))
}

/// Rejects names of contents that no device carries: the user means another device.
pub(super) fn check_named(
    request: &MatrixRequest,
    inventory: &TargetInventory,
    problems: &mut Problems,
) {
    let devices = inventory.files.iter().filter_map(|file| Some((file, file.device.as_ref()?)));
    let carries = |(file, content): (&FileFacts, &DeviceContent)| match content {
        DeviceContent::Carries(found) => Some((file.path.clone(), found.clone())),
        DeviceContent::InUse | DeviceContent::Unexamined(_) => None,
    };
    let Some(carried) = devices.map(carries).collect::<Option<Vec<_>>>() else {
        return;
    };
    // On resume, cells of the matrix may have overwritten it.
    let named = request.destroy_data.iter().flatten().filter(|_| !request.resumes);
    for name in named.filter(|name| !carried.iter().any(|(_, found)| found.contains(name))) {
        let carried: Vec<String> = (carried.iter())
            .filter(|(_, found)| !found.is_empty())
            .map(|(path, found)| format!("{} carries {}", path.display(), found.join(" and ")))
            .collect();
        let carried = match carried.is_empty() {
            true => "none of them carries anything that is known".to_string(),
            false => carried.join("; "),
        };
        problems.plan(
            format!("--destroy-data={name}: no --file is a block device that carries it"),
            format!("check that this is the right device: {carried}"),
        );
    }
}
