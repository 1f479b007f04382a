//! What the user of a plan should know before trusting its result.

use super::datasize::{MEMORY_MULTIPLE, MIN_STEPS};
use super::inventory::Inventory;
use super::plan::TrainPlan;
use super::profile::Profile;
use super::request::StorageKind;
use super::workload::{DataLoader, Workload};
use crate::facts::HostFacts;
use crate::units::ByteSize;
use crate::warning::{Warning, WarningKind};

/// A mean file size may stray so far from the workload's before it is told.
const SIZE_TOLERANCE: f64 = 0.25;

/// The warnings of `plan`.
pub(super) fn of(
    plan: &TrainPlan,
    workload: &Workload,
    inventory: &Inventory,
    host: &HostFacts,
) -> Vec<Warning> {
    let mut warnings = Vec::new();
    if plan.storage == StorageKind::Real {
        warnings.extend(memory(plan, host));
        warnings.extend(sizes(plan));
        warnings.extend(extra_files(plan, inventory));
    }
    warnings.extend(few_steps(plan));
    warnings.extend(checkpoint_size(plan, workload));
    warnings.extend(loader(plan, workload));
    warnings.extend(no_effect(workload));
    warnings
}

fn memory(plan: &TrainPlan, host: &HostFacts) -> Option<Warning> {
    let memory = host.usable_memory_bytes();
    let data = ByteSize(plan.data.bytes);
    let advice = "`--full` makes a comparable dataset, `stormlp datasize` says how large it is";
    if plan.data.bytes <= memory {
        let cold = if plan.cold {
            "; --cold keeps the page cache out"
        } else {
            ""
        };
        return Some(Warning::new(
            WarningKind::FitsInMemory,
            format!(
                "the dataset ({data}) fits in this host's memory ({}): not comparable with \
                 published results{cold}",
                ByteSize(memory)
            ),
            advice,
        ));
    }
    (plan.data.bytes / MEMORY_MULTIPLE < memory).then(|| {
        Warning::new(
            WarningKind::NotComparable,
            format!(
                "the dataset ({data}) is less than {MEMORY_MULTIPLE} times this host's memory ({})",
                ByteSize(memory)
            ),
            advice,
        )
    })
}

fn few_steps(plan: &TrainPlan) -> Option<Warning> {
    (plan.steps_per_epoch < MIN_STEPS - 1).then(|| {
        Warning::new(
            WarningKind::NotComparable,
            format!(
                "an epoch has {} steps, MLPerf asks for {MIN_STEPS}",
                plan.steps_per_epoch
            ),
            "use more files",
        )
    })
}

fn sizes(plan: &TrainPlan) -> Option<Warning> {
    let mean = plan.data.mean_file_bytes();
    let nominal = plan.data.sample_bytes * plan.data.samples_per_file as f64;
    ((mean / nominal - 1.0).abs() > SIZE_TOLERANCE).then(|| {
        Warning::new(
            WarningKind::Dataset,
            format!(
                "the files have {} on average, the workload says {}: MiB/s by the record length \
                 are off by that much",
                ByteSize(mean as u64),
                ByteSize(nominal as u64)
            ),
            "set --params dataset.record_length_bytes, or --samples-per-file",
        )
    })
}

fn extra_files(plan: &TrainPlan, inventory: &Inventory) -> Option<Warning> {
    let found = inventory.train.len() as u64;
    if let Some(name) = inventory.foreign.first() {
        return Some(Warning::new(
            WarningKind::Dataset,
            format!(
                "{} files in the dataset folder are not of it, such as {name}",
                inventory.foreign.len()
            ),
            "they are left out",
        ));
    }
    (found > plan.data.files).then(|| {
        Warning::new(
            WarningKind::Dataset,
            format!("{} of {found} training files are used", plan.data.files),
            format!("set --files {found} for all"),
        )
    })
}

/// The shipped unet3d files set a key that DLIO does not read (dlio.md T8).
fn checkpoint_size(plan: &TrainPlan, workload: &Workload) -> Option<Warning> {
    let checkpoint = plan.checkpoint.as_ref()?;
    let meant = workload.checkpoint.ignored_model_size_bytes?;
    (plan.profile != Profile::Native).then(|| {
        Warning::new(
            WarningKind::KnownIssue,
            format!(
                "checkpoints in training have {}, as DLIO writes them: it does not read \
                 model.model_size ({})",
                ByteSize(checkpoint.bytes),
                ByteSize(meant)
            ),
            "set --params model.model_size_bytes, or --profile native",
        )
    })
}

fn loader(plan: &TrainPlan, workload: &Workload) -> Option<Warning> {
    use super::plan::LoaderPlan::{Interleave, Workers};
    match (&plan.loader, workload.reader.data_loader) {
        (Workers { .. }, DataLoader::Tensorflow) => Some(Warning::new(
            WarningKind::NoEffect,
            format!(
                "{} files are read as PyTorch's workers read them, not as TensorFlow's generators",
                plan.data.format
            ),
            "",
        )),
        (Interleave { .. }, DataLoader::Pytorch) => Some(Warning::new(
            WarningKind::NoEffect,
            "tfrecord files are read as TensorFlow's loader reads them, not as PyTorch's",
            "",
        )),
        _ => None,
    }
}

fn no_effect(workload: &Workload) -> Option<Warning> {
    // Every workload file names a framework and what to generate; that is no news.
    let keys: Vec<&str> = workload
        .without_effect
        .iter()
        .map(|note| note.key.as_str())
        .filter(|key| {
            !matches!(
                *key,
                "framework" | "model.type" | "workflow.generate_data" | "hydra" | "defaults"
            )
        })
        .collect();
    (!keys.is_empty()).then(|| {
        Warning::new(
            WarningKind::NoEffect,
            format!("keys without effect: {}", keys.join(", ")),
            "",
        )
    })
}
