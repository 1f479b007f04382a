//! Replaces a starter set that is too small by a larger one.

use crate::plan::request::TrainRequest;
use crate::plan::workload::Workload;
use stormlp_dataset::spec::{self, Making};

use super::starter;
use super::{Data, Kind, datagen_command, direct_support, place, scan, to_make};
use stormlp_core::failure::Failure;
use stormlp_hosts::session::Session;

/// A larger starter set for the accelerators of `request`, to replace the existing one; `None` if
/// that is not a starter set of this workload, if the user set its size, or if there is no space
/// for a larger one.
///
/// # Errors
/// If the folder cannot be read.
pub fn larger(
    as_asked: &Workload,
    request: &TrainRequest,
    session: &Session,
) -> Result<Option<Data>, Failure> {
    let place = place(as_asked, request);
    let may_generate = place.is_default || request.generate;
    if !may_generate || request.full || request.files.is_some() {
        return Ok(None);
    }
    let profile = request.profile.unwrap_or(as_asked.edition);
    let mut workload = as_asked.clone();
    if let Some(samples) = request.samples_per_file {
        workload.dataset.num_samples_per_file = samples;
    }
    let workload = &mut workload;
    let found = scan(&place.folder, workload, &datagen_command(&request.workload, &place))?;
    let Some(record) = found.and_then(|found| found.record) else {
        return Ok(None);
    };
    let mut there = workload.clone();
    starter::shape(&mut there, record.head.train_files);
    let is_ours = spec::recipe(&there.dataset, Making::of(profile)).text() == record.head.recipe;
    let files = starter::files(workload, request, &place.folder).unwrap_or(0);
    if !is_ours || files <= record.head.train_files {
        return Ok(None);
    }
    starter::shape(workload, files);
    let direct = direct_support(workload, request, &place.folder, None);
    let mut data = to_make(workload, files, profile, Kind::Larger, place.folder, session)?;
    data.inventory.direct = direct;
    Ok(Some(data))
}
