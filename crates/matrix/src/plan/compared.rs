//! Which fields count where matrices are compared: between the hosts of a run, with a saved report
//! that is resumed, and between reports. All of the request and the plan count, except those listed
//! here, so that no new field can be forgotten.

use std::path::PathBuf;

use serde::Serialize;

use super::request::MatrixRequest;
use crate::plan::matrix_plan::MatrixPlan;
use stormlp_core::difference::{ConsistencyField, fields_but, first_of, text};
use stormlp_core::facts::Availability;
use stormlp_core::placement::Placement;
use stormlp_core::units::{ByteSize, counted};

/// Fields that never count: permissions to overwrite, the treatment of files before and after the
/// cells, and estimates.
const NOWHERE: [&str; 12] = [
    "request.remove",
    "request.destroy_data",
    "folders",
    "files.action",
    "files.content",
    "files.created_by_stormlp",
    // Compared as a share under a separate name.
    "files.hole_bytes",
    "layout_bytes",
    "cells.availability",
    "cells.estimated_seconds",
    "estimated_seconds",
    "warnings",
];
/// Fields that each host has for itself: where it reads, and where its threads run.
const OF_A_HOST: [&str; 4] = ["engine", "placement", "thread_groups", "region_bytes"];
/// Fields that are not part of the work of a run: how it was requested and named, file locations,
/// repetitions, the random order drawn, and the definition of an error.
const OF_A_RUN: [&str; 36] = [
    "request.name",
    "request.preset",
    "request.runs",
    "request.find_knee",
    "request.tune.seed",
    "request.require",
    "request.tune.telemetry_seconds",
    "request.tune.wait",
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
    "request.devices",
    "request.fsync",
    "request.buffer_memory",
    "request.tune.pages",
    "request.tune.register",
    "request.engine",
    "request.tune.submit_batch",
    "request.tune.threading",
    "files.path",
    "files.folder",
    "files.file_system",
    // The host's engine only lays out the files; each cell has one.
    "engine",
    "region_bytes",
    "cells.requested_engine",
    "cells.repeat",
    "cells.thread_group",
    // Depends on the file system, as shown by the effective path; the request has `open_direct`.
    "cells.direct",
    "cells.requested_bytes",
];
/// The fields of a plan that are not part of the work of its run.
pub(crate) fn apart_from_work() -> Vec<&'static str> {
    [&NOWHERE[..], &OF_A_RUN].concat()
}

/// The settings of `request` that must be equal on all hosts, including the location of the files
/// if the hosts share the `same_places`.
pub fn asked(request: &MatrixRequest, same_places: bool) -> Vec<ConsistencyField> {
    let apart = NOWHERE.iter().filter_map(|field| field.strip_prefix("request."));
    let mut fields = settings(request, &apart.chain(["jobs"]).collect::<Vec<_>>());
    let mut jobs = request.jobs.clone();
    let places: Vec<PathBuf> =
        jobs.iter_mut().map(|job| std::mem::take(job.target.path_mut())).collect();
    fields.push(("jobs".to_string(), serde_json::to_string(&jobs).unwrap_or_default()));
    for place in places.into_iter().filter(|_| same_places) {
        let place = std::path::absolute(&place).unwrap_or(place);
        fields.push(("place of the files".to_string(), place.display().to_string()));
    }
    fields
}

/// The decisions of `plan` that must be equal on all hosts.
pub fn decided(plan: &MatrixPlan) -> Vec<ConsistencyField> {
    let can_run: Vec<bool> =
        plan.cells.iter().map(|cell| cell.availability.is_available()).collect();
    let bytes: u64 = plan.files.iter().map(|file| file.bytes).sum();
    let files = counted(plan.files.len() as u64, "file");
    let mut plan = plan.clone();
    for cell in &mut plan.cells {
        cell.transport.placement = Placement::default();
    }
    let mut fields = of_plan(plan, &OF_A_HOST);
    fields.push((
        "test files, whose size --file-size sets".to_string(),
        format!("{files} with {}", ByteSize(bytes)),
    ));
    fields.push(("cells that can run".to_string(), format!("{can_run:?}")));
    fields
}

/// How a saved plan differs from `plan`, which resumes it; `None` if they measure the same.
pub(super) fn difference(plan: &MatrixPlan, saved: &MatrixPlan) -> Option<String> {
    let paths = |plan: &MatrixPlan| plan.files.iter().map(|f| f.path.clone()).collect::<Vec<_>>();
    if paths(plan) != paths(saved) {
        return Some("it used different files".to_string());
    }
    let all = |plan: &MatrixPlan| [of_plan(plan.clone(), &[]), asked(&plan.request, true)].concat();
    let (ours, theirs) = (all(plan), all(saved));
    let ((name, is), (_, was)) = ours.iter().zip(&theirs).find(|(one, other)| one != other)?;
    let (what, is, was) = first_of(name, is, was);
    Some(format!("its {what} is {was}, but {is} with these options"))
}

/// The decisions of a plan, except the files, those that never count, and those in `apart`.
fn of_plan(mut plan: MatrixPlan, apart: &[&str]) -> Vec<ConsistencyField> {
    for cell in &mut plan.cells {
        (cell.availability, cell.estimated_seconds) = (Availability::Available, 0.0);
    }
    settings(&plan, &[&NOWHERE[..], &["request", "files"], apart].concat())
}

/// The fields of a value except those in `apart`, as text.
fn settings<T: Serialize>(value: &T, apart: &[&str]) -> Vec<ConsistencyField> {
    let fields = fields_but(value, apart).into_iter();
    fields.map(|(key, value)| (format!("setting `{key}`"), text(&value))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::choice::Fsync;
    use crate::plan::request::JobTarget;
    use stormlp_core::transport::Requirement;

    fn request() -> MatrixRequest {
        MatrixRequest::plain(PathBuf::from("/data"))
    }

    #[test]
    fn every_other_setting_is_another_promise() {
        let ours = asked(&request(), true);
        let changes: [fn(&mut MatrixRequest); 6] = [
            |request| request.verify = true,
            |request| request.fsync = Fsync::End,
            |request| request.file_size_bytes = Some(1 << 20),
            |request| request.require = vec![Requirement::Direct],
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
