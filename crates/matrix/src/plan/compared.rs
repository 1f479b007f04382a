//! Which fields count where matrices are compared: between the hosts of a run, with a saved report
//! that is resumed, and between reports. All of the request and the plan count, except those listed
//! here, so that no new field can be forgotten.

use std::collections::BTreeMap;
use std::path::PathBuf;

use serde::Serialize;
use serde_json::Value;

use super::request::MatrixRequest;
use crate::plan::matrix_plan::{CellPlan, MatrixPlan};
use stormlp_core::difference::{ConsistencyField, fields_but, text};
use stormlp_core::units::{ByteSize, counted};

/// Fields that never count: what may be overwritten, what is done with the files before and after
/// the cells, and estimates.
const NOWHERE: [&str; 13] = [
    "request.remove",
    "request.destroy_data",
    "request.overwrite_files",
    "folders",
    "files.action",
    "files.content",
    "files.created_by_stormlp",
    // Compared as a share under its own name.
    "files.hole_bytes",
    "layout_bytes",
    "cells.availability",
    "cells.estimated_seconds",
    "estimated_seconds",
    "warnings",
];
/// Fields that each host has for itself: where it reads, and where its threads run.
const OF_A_HOST: [&str; 5] =
    ["engine", "placement", "thread_groups", "cells.placement", "region_bytes"];
/// Fields that are not part of the work of a run: how it was requested and named, file locations,
/// repetitions, the random order drawn, and what counts as an error.
const OF_A_RUN: [&str; 37] = [
    "request.name",
    "request.preset",
    "request.repeat",
    "request.find_knee",
    "request.seed",
    "request.require_gds",
    "request.require_direct",
    "request.telemetry_seconds",
    // The cells, thread groups and files have them.
    "request.paths",
    "request.optional_paths",
    "request.ops",
    "request.io_sizes",
    "request.threads",
    "request.queue_depths",
    "request.jobs",
    "request.file_stem",
    "request.file_size_bytes",
    "request.shared_file",
    "request.offset_bytes",
    "request.devices",
    "request.memory",
    "request.pages",
    "request.no_register",
    "request.engine",
    "request.submit_batch",
    "request.threading",
    "files.path",
    "files.folder",
    "files.block_device",
    "files.file_system",
    // The host's engine only lays out the files; the cells have their own.
    "engine",
    "region_bytes",
    "cells.requested_engine",
    "cells.repeat",
    "cells.thread_group",
    // Depends on the file system, as shown by the effective path; the request has `open_direct`.
    "cells.direct",
    "cells.requested_bytes",
];
/// Fields of a cell that its description has.
const DESCRIBED: [&str; 8] =
    ["path", "op", "io_size", "device", "threads", "queue_depth", "engine", "direct"];

/// The fields of a plan that are not part of the work of its run.
pub(crate) fn apart_from_work() -> Vec<&'static str> {
    [&NOWHERE[..], &OF_A_RUN].concat()
}

/// The settings of `request` that must be equal on all hosts, including the location of the files
/// if the hosts share the `same_places`.
pub fn asked(request: &MatrixRequest, same_places: bool) -> Vec<ConsistencyField> {
    let mut consistency_fields =
        settings(request, &[below("request.", &NOWHERE), vec!["jobs"]].concat());
    let mut jobs = request.jobs.clone();
    let places: Vec<PathBuf> =
        jobs.iter_mut().map(|job| std::mem::take(job.target.path_mut())).collect();
    consistency_fields.push(("jobs".to_string(), compact(&jobs)));
    for place in places.into_iter().filter(|_| same_places) {
        let place = std::path::absolute(&place).unwrap_or(place);
        consistency_fields.push(("place of the files".to_string(), place.display().to_string()));
    }
    consistency_fields
}

/// The decisions of `plan` that must be equal on all hosts.
pub fn decided(plan: &MatrixPlan) -> Vec<ConsistencyField> {
    let bytes: u64 = plan.files.iter().map(|file| file.bytes).sum();
    let files = counted(plan.files.len() as u64, "file");
    let mut consistency_fields = of_plan(plan, &[&NOWHERE[..], &OF_A_HOST].concat());
    consistency_fields.push((
        "test files, whose size --file-size sets".to_string(),
        format!("{files} with {}", ByteSize(bytes)),
    ));
    for (number, cell) in plan.cells.iter().enumerate() {
        let can = if cell.availability.is_available() { "can" } else { "cannot" };
        consistency_fields
            .push((format!("availability of cell {number}"), format!("it {can} run")));
    }
    consistency_fields
}

/// How a saved plan differs from `plan`, which resumes it; `None` if they measure the same.
pub(super) fn difference(plan: &MatrixPlan, saved: &MatrixPlan) -> Option<String> {
    let paths = |plan: &MatrixPlan| plan.files.iter().map(|f| f.path.clone()).collect::<Vec<_>>();
    if paths(plan) != paths(saved) {
        return Some("it used different files".to_string());
    }
    let all = |plan: &MatrixPlan| {
        let mut consistency_fields = of_plan(plan, &NOWHERE);
        consistency_fields.extend(settings(&plan.request, &below("request.", &NOWHERE)));
        consistency_fields
    };
    let (ours, theirs) = (all(plan), all(saved));
    let ((name, is), (_, was)) = ours.iter().zip(&theirs).find(|(one, other)| one != other)?;
    Some(match is.len().max(was.len()) {
        ..=LONGEST_TOLD => format!("its {name} is {was}, but {is} with these options"),
        _ => format!("its {name} differs"),
    })
}

/// Longer values are not told.
const LONGEST_TOLD: usize = 100;

/// The decisions of a plan, except the files and those in `apart`.
fn of_plan(plan: &MatrixPlan, apart: &[&'static str]) -> Vec<ConsistencyField> {
    let mut consistency_fields =
        vec![("number of cells".to_string(), plan.cells.len().to_string())];
    for (number, cell) in plan.cells.iter().enumerate() {
        consistency_fields.push((format!("cell {number}"), words(plan, cell)));
    }
    consistency_fields
        .extend(of_cells(&plan.cells, &[below("cells.", apart), DESCRIBED.to_vec()].concat()));
    consistency_fields.extend(settings(plan, &[apart, &["request", "cells", "files"]].concat()));
    consistency_fields
}

/// The settings of the cells except those in `apart`: one value if all cells agree, else one for
/// each.
fn of_cells(cells: &[CellPlan], apart: &[&str]) -> Vec<ConsistencyField> {
    let mut settings: BTreeMap<String, Vec<Value>> = BTreeMap::new();
    for cell in cells {
        for (key, value) in fields_but(cell, apart) {
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
    let device = transport.device.map_or(String::new(), |device| format!(" to {device}"));
    let direct = if cell.direct { ", O_DIRECT" } else { "" };
    format!(
        "{} {} {}{device}, {} threads, depth {}, {}{direct}",
        transport.path,
        cell.op.of_mix(plan.request.read_percent),
        cell.io_size,
        transport.threads,
        transport.queue_depth,
        transport.engine
    )
}

/// The fields in `apart` that are those of a part of the plan.
fn below(part: &str, apart: &[&'static str]) -> Vec<&'static str> {
    apart.iter().filter_map(|field| field.strip_prefix(part)).collect()
}

/// The fields of a value except those in `apart`, as text.
fn settings<T: Serialize>(value: &T, apart: &[&str]) -> Vec<ConsistencyField> {
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
        other.destroy_data = Some(Vec::new());
        assert_eq!(asked(&request(), false), asked(&other, false));
    }
}
