//! What all hosts of a matrix must have in common. The whole request and the whole plan are
//! compared except for the fields listed here, so that no new field can be forgotten.

use std::collections::BTreeMap;
use std::path::PathBuf;

use serde::Serialize;
use serde_json::Value;

use super::request::MatrixRequest;
use crate::plan::matrix_plan::{CellPlan, MatrixPlan};
use stormlp_core::difference::{Promise, fields_but, text};
use stormlp_core::units::{ByteSize, counted};

/// Request fields that may differ between hosts: the overwrite flags do not affect what is
/// measured. Jobs are compared without the location of their files.
const ASKED_APART: [&str; 4] =
    ["jobs", "overwrite_block_devices", "overwrite_signatures", "overwrite_files"];
/// Plan fields that belong to each host: where it reads, what exists there and where its threads
/// run. The request is compared before; cells and file sizes are compared one by one.
const DECIDED_APART: [&str; 11] = [
    "request",
    "folders",
    "files",
    "layout_bytes",
    "region_bytes",
    "estimated_seconds",
    "warnings",
    "engine",
    "placement",
    "crews",
    "cells",
];
/// The same for a cell, plus the fields that its description already covers.
const OF_CELL_APART: [&str; 11] = [
    "availability",
    "estimated_seconds",
    "placement",
    "path",
    "op",
    "io_size",
    "device",
    "threads",
    "queue_depth",
    "engine",
    "direct",
];

/// The settings of `request` that must be equal on all hosts, including the location of the files
/// if the hosts share the `same_places`.
pub fn asked(request: &MatrixRequest, same_places: bool) -> Vec<Promise> {
    let mut promises = settings(request, &ASKED_APART);
    let mut jobs = request.jobs.clone();
    let places: Vec<PathBuf> =
        jobs.iter_mut().map(|job| std::mem::take(job.target.path_mut())).collect();
    promises.push(("jobs".to_string(), compact(&jobs)));
    if same_places {
        let place = |place: &PathBuf| std::path::absolute(place).unwrap_or_else(|_| place.clone());
        let places = places.iter().map(place);
        promises.extend(
            places.map(|place| ("place of the files".to_string(), place.display().to_string())),
        );
    }
    promises
}

/// The decisions of `plan` that must be equal on all hosts.
pub fn decided(plan: &MatrixPlan) -> Vec<Promise> {
    let mut promises = settings(plan, &DECIDED_APART);
    let bytes: u64 = plan.files.iter().map(|file| file.bytes).sum();
    let files = counted(plan.files.len() as u64, "file");
    promises.push((
        "test files, whose size --file-size sets".to_string(),
        format!("{files} with {}", ByteSize(bytes)),
    ));
    promises.push(("number of cells".to_string(), plan.cells.len().to_string()));
    for (number, cell) in plan.cells.iter().enumerate() {
        promises.push((format!("cell {number}"), words(plan, cell)));
    }
    promises.extend(of_cells(&plan.cells));
    promises
}

/// The settings of the cells that their descriptions omit: one value if all cells agree, else one
/// for each.
fn of_cells(cells: &[CellPlan]) -> Vec<Promise> {
    let mut settings: BTreeMap<String, Vec<Value>> = BTreeMap::new();
    for cell in cells {
        for (key, value) in fields_but(cell, &OF_CELL_APART) {
            settings.entry(key).or_default().push(value);
        }
    }
    let promise = |(key, values): (String, Vec<Value>)| {
        let same = values.iter().all(|value| *value == values[0]);
        let shared = if same { text(&values[0]) } else { compact(&values) };
        (format!("setting `{key}` of the cells"), shared)
    };
    settings.into_iter().map(promise).collect()
}

fn words(plan: &MatrixPlan, cell: &CellPlan) -> String {
    let transport = &cell.transport;
    let can = if cell.availability.is_available() { "" } else { ", which it cannot run" };
    let device = transport.device.map_or(String::new(), |device| format!(" to {device}"));
    let direct = if cell.direct { ", O_DIRECT" } else { "" };
    format!(
        "{} {} {}{device}, {} threads, depth {}, {}{direct}{can}",
        transport.path,
        cell.op.of_mix(plan.request.read_percent),
        cell.io_size,
        transport.threads,
        transport.queue_depth,
        transport.engine
    )
}

/// The fields of a value except those in `apart`, as text.
fn settings<T: Serialize>(value: &T, apart: &[&str]) -> Vec<Promise> {
    let fields = fields_but(value, apart).into_iter();
    fields.map(|(key, value)| (format!("setting `{key}`"), text(&value))).collect()
}

fn compact<T: Serialize>(value: &T) -> String {
    serde_json::to_string(value).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::choice::Fsync;
    use crate::plan::request::JobTarget;
    use stormlp_core::verify::Verify;

    fn request() -> MatrixRequest {
        MatrixRequest::plain(PathBuf::from("/data"))
    }

    #[test]
    fn every_other_setting_is_another_promise() {
        let ours = asked(&request(), true);
        let changes: [fn(&mut MatrixRequest); 6] = [
            |request| request.verify = Verify::Content,
            |request| request.fsync = Fsync::End,
            |request| request.file_size_bytes = Some(1 << 20),
            |request| request.require_direct = true,
            |request| request.jobs[0].numa_node = Some(1),
            |request| request.jobs[0].target = JobTarget::Folder(PathBuf::from("/other")),
        ];
        for change in changes {
            let mut other = request();
            change(&mut other);
            let theirs = asked(&other, true);
            let differ = ours.iter().zip(&theirs).filter(|(one, other)| one != other);
            assert_eq!(differ.count(), 1, "{theirs:?}");
        }
    }

    #[test]
    fn each_host_may_have_places_and_permissions_of_its_own() {
        let mut other = request();
        other.jobs[0].target = JobTarget::Folder(PathBuf::from("/other"));
        other.overwrite_block_devices = true;
        assert_eq!(asked(&request(), false), asked(&other, false));
    }
}
