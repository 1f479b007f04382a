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
        all => format!("{} scored, after a warm-up", all - 1),
    }
}

/// Every number of the plan.
pub fn plan(plan: &TrainPlan) -> Document {
    let mut document = Document::new(format!("plan of {}", setting(plan)));
    let (brief, facts) = (&mut document.brief, &mut document.facts);
    brief.add("dataset", dataset(plan));
    brief.add(
        "run",
        format!(
            "{} epochs of {}, {} samples per step and accelerator; runs: {}",
            plan.epochs,
            counted(plan.steps_per_epoch, "step"),
            plan.batch_size,
            runs(plan)
        ),
    );
    brief.add("time", time(plan));
    brief.add("demand", demand(plan));
    client(plan, brief, facts);
    brief.add("path", path(plan));
    brief.add("memory", format!("about {} of this host", ByteSize(plan.memory_bytes)));
    facts.add("compute", format!("{} per step", plan.compute));
    if !plan.preprocess.is_zero() {
        facts.add("preprocess", format!("{} per sample", plan.preprocess));
    }
    facts.add("loader", loader(plan));
    facts.add("reads", reads(plan));
    transport(plan, facts);
    let MetricPlan { exclude_start_steps, exclude_end_steps, .. } = &plan.metric;
    facts.add(
        "AU",
        format!(
            "without the first {exclude_start_steps} and last {exclude_end_steps} steps of an \
             epoch, or of the part between two checkpoints"
        ),
    );
    between_epochs(plan, facts);
    document
}

/// The files to read.
fn dataset(plan: &TrainPlan) -> String {
    let data = &plan.data;
    let Some(folder) = &data.folder else {
        return "none: no storage is read".to_string();
    };
    format!(
        "{} in {} of {folder}, {} in each",
        ByteSize(data.bytes),
        counted(data.files, &format!("{} file", data.format)),
        counted(data.samples_per_file, "sample")
    )
}

/// The official client's overhead, if it is added.
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
    let cold = if plan.request.is_cold() {
        "; files are dropped from the page cache before each epoch"
    } else {
        ""
    };
    format!("{} ({}){cold}", plan.transport.path, plan.transport.path.route())
}

/// The minimum length of a run.
fn time(plan: &TrainPlan) -> String {
    let seconds = plan.compute_seconds();
    if seconds <= 0.0 {
        return "as long as the reads: no compute is emulated".to_string();
    }
    format!("at least {} of compute per run", format_duration(seconds))
}

/// The rate that storage must deliver to pass.
fn demand(plan: &TrainPlan) -> String {
    let demand = plan.demand_bytes_per_second() / GIB as f64;
    let threshold_percent = plan.metric.threshold_percent;
    if !demand.is_finite() {
        return "no compute: as fast as storage allows".to_string();
    }
    format!(
        "storage must deliver about {:.2} GiB/s to pass (AU {threshold_percent:.1} %); at most \
         {demand:.2} GiB/s is used (AU 100 %)",
        demand * threshold_percent / 100.0
    )
}
