//! The plan of a training run, as `--dry-run` prints it.

use crate::plan::client::measured_where;
use crate::plan::train_plan::{LoaderPlan, MetricPlan, ReadPattern, TrainPlan};
use stormlp_core::units::{ByteSize, GIB, counted, format_duration};

use super::run::setting;
use stormlp_show::document::{Document, Facts};

/// The number of runs, and which of them is not scored.
fn runs(plan: &TrainPlan) -> String {
    match plan.runs {
        0 | 1 => "1".to_string(),
        all => format!("a warm-up and {} that are scored", all - 1),
    }
}

/// Every number of the plan.
pub fn plan(plan: &TrainPlan) -> Document {
    let mut document = Document::new(format!("plan of {}", setting(plan)));
    let (brief, facts) = (&mut document.brief, &mut document.facts);
    let folder = match &plan.data.folder {
        Some(folder) => folder.to_string(),
        None => "null storage: nothing is read".to_string(),
    };
    brief.add("folder", folder);
    brief.add("data", data(plan));
    brief.add(
        "steps",
        format!(
            "{} an epoch, each {} samples on {}; epochs: {}, runs: {}",
            plan.steps_per_epoch,
            plan.batch_size,
            counted(u64::from(plan.accelerators), "accelerator"),
            plan.epochs,
            runs(plan)
        ),
    );
    brief.add("compute", format!("{} a step", plan.compute));
    if !plan.preprocess.is_zero() {
        facts.add("preprocess", format!("{} a sample", plan.preprocess));
    }
    client(plan, brief, facts);
    facts.add("loader", loader(plan));
    facts.add("reads", reads(plan));
    brief.add("path", path(plan));
    transport(plan, facts);
    let MetricPlan { threshold_percent, exclude_start_steps, exclude_end_steps } = &plan.metric;
    brief.add(
        "AU",
        format!(
            "threshold {threshold_percent:.1} %; the first {exclude_start_steps} and last \
             {exclude_end_steps} steps of a block are left out"
        ),
    );
    between_epochs(plan, facts);
    brief.add("demand", demand(plan));
    brief.add("memory", format!("about {}", ByteSize(plan.memory_bytes)));
    document
}

/// The official client's own work, if it is added.
pub(super) fn client(plan: &TrainPlan, brief: &mut Facts, facts: &mut Facts) {
    if let Some(cost) = &plan.client {
        brief.add("client", measured_where(plan.request.calibration.as_ref()));
        facts.add("its work", cost.to_string());
    }
}

/// Buffers, devices and threads, where they are not the usual ones.
pub(super) fn transport(plan: &TrainPlan, facts: &mut Facts) {
    let transport = &plan.transport;
    let known = [
        ("buffers", transport.pages.remark().map(str::to_string)),
        ("devices", transport.devices_in_words()),
        ("threads", transport.threads_in_words()),
    ];
    for (name, words) in known {
        if let Some(words) = words {
            facts.add(name, words);
        }
    }
}

fn between_epochs(plan: &TrainPlan, facts: &mut Facts) {
    if let Some(checkpoint) = &plan.checkpoint {
        let when = match (checkpoint.steps_between, checkpoint.after_epoch) {
            (Some(steps), _) => format!("every {steps} steps"),
            (None, Some(epoch)) => {
                format!("after epoch {epoch} and every {} epochs", checkpoint.epochs_between)
            }
            (None, None) => "never".to_string(),
        };
        let bytes = ByteSize(checkpoint.bytes);
        let folder = &checkpoint.folder;
        facts.add("checkpoint", format!("{bytes} {when}, in {folder}"));
    }
}

pub(crate) fn data(plan: &TrainPlan) -> String {
    let data = &plan.data;
    format!(
        "{} {} files, samples in each: {}; {}; {} a sample by the workload",
        data.files,
        data.format,
        data.samples_per_file,
        ByteSize(data.bytes),
        ByteSize(data.sample_bytes.round() as u64)
    )
}

pub(crate) fn loader(plan: &TrainPlan) -> String {
    match &plan.loader {
        LoaderPlan::Workers { read_threads, batches_outstanding, .. } => format!(
            "PyTorch's: {read_threads} workers, {batches_outstanding} batches outstanding for \
             each accelerator"
        ),
        LoaderPlan::Interleave {
            read_threads,
            shuffle_records,
            prefetch_batches,
            computation_threads,
            ..
        } => format!(
            "TensorFlow's: {read_threads} files interleaved, shuffle buffer {shuffle_records} \
             records, {computation_threads} parse calls, {prefetch_batches} batches ahead"
        ),
    }
}

fn reads(plan: &TrainPlan) -> String {
    let how = match &plan.reads {
        ReadPattern::WholeFile | ReadPattern::Pieces => "whole files",
        ReadPattern::NumpyLoad => "as np.load reads a zip",
        ReadPattern::NumpyArray => "as np.load reads an array",
        ReadPattern::PillowJpeg | ReadPattern::PillowPng => "as Pillow reads an image",
        ReadPattern::H5py => "as h5py reads a sample",
        ReadPattern::PandasCsv => "as pandas reads a table",
        ReadPattern::IndexedSample => "one sample at its offset",
        ReadPattern::Records { transfer_size } => {
            return format!("record files start to end, {} a read", ByteSize(*transfer_size));
        }
        ReadPattern::RowGroups => {
            let read = plan.data.columns.iter().filter(|column| column.read).count();
            let all = plan.data.columns.len();
            let rows = plan.data.row_group_rows;
            return format!("row groups of {rows} rows, {read} of {all} columns");
        }
    };
    format!("{how}, up to {} a read", ByteSize(plan.transport.chunk_bytes))
}

fn path(plan: &TrainPlan) -> String {
    let cold = if plan.request.cold {
        "; files are dropped from the page cache before each epoch"
    } else {
        ""
    };
    format!("{} ({}){cold}", plan.transport.path, plan.transport.path.route())
}

fn demand(plan: &TrainPlan) -> String {
    let demand = plan.demand_bytes_per_second();
    if !demand.is_finite() {
        return "no compute: as fast as storage allows".to_string();
    }
    format!(
        "{:.2} GiB/s at an AU of 100 %; at least {} of compute in a run",
        demand / GIB as f64,
        format_duration(plan.compute_seconds())
    )
}
