//! What moves the bytes and where they end: engine and accelerator, as this machine has them.

use std::sync::Arc;

use stormlp_emulator::training::prepare::Means;
use stormlp_model::facts::{Availability, HostFacts};
use stormlp_model::path::{EngineKind, MemoryKind};
use stormlp_model::training::inventory::Inventory;
use stormlp_model::training::plan::TrainPlan;
use stormlp_model::warning::{Warning, WarningKind};
use stormlp_transfer::cuda::CudaDevice;
use stormlp_transfer::storage::{self, Access};
use stormlp_transfer::{Accelerator, HostStandIn};

use super::args::ReadArgs;
use crate::commands::engine::Engine;
use crate::exit::Failure;

/// Chooses engine and accelerator for a plan.
///
/// # Errors
/// With exit code 4 when the device that was named is not there, 2 when it is no device's name.
pub(crate) fn choose(
    args: &ReadArgs,
    plan: &TrainPlan,
    facts: &HostFacts,
) -> Result<(Means, Vec<Warning>), Failure> {
    let mut warnings = Vec::new();
    if plan.path.needs_cufile()
        && let Availability::Unavailable { reason, remedy } = facts.support(plan.path)
    {
        let error = anyhow::anyhow!("path {} cannot run here: {reason}", plan.path);
        return Err(Failure::machine(error).with_help(remedy));
    }
    let engine = engine(args.engine, facts, &mut warnings);
    let accelerator = accelerator(args.device.as_deref(), plan, facts)?;
    let memory = if accelerator.is_emulated() {
        MemoryKind::Host
    } else {
        MemoryKind::Device
    };
    if plan.path.ends_in_accelerator() && accelerator.is_emulated() {
        warnings.push(Warning::new(
            WarningKind::Emulated,
            "host memory stands in for accelerator memory (emulated)",
            "run on a machine with a GPU to measure the way into its memory",
        ));
    }
    let means = Means {
        engine,
        accelerator,
        memory,
    };
    Ok((means, warnings))
}

fn engine(asked: Engine, facts: &HostFacts, warnings: &mut Vec<Warning>) -> EngineKind {
    if let Some(engine) = asked.named() {
        return engine;
    }
    match &facts.io_uring {
        Availability::Available => EngineKind::Uring,
        Availability::Unavailable { reason, remedy } => {
            warnings.push(Warning::new(
                WarningKind::EngineFellBack,
                format!("reads go through pread, io_uring is not to be had: {reason}"),
                remedy.clone(),
            ));
            EngineKind::Psync
        }
    }
}

fn accelerator(
    asked: Option<&str>,
    plan: &TrainPlan,
    facts: &HostFacts,
) -> Result<Arc<dyn Accelerator>, Failure> {
    let first = facts.accelerators.first().map(|gpu| gpu.index);
    let index = match asked {
        Some("host") => None,
        Some(name) => Some(cuda_index(name)?),
        None if plan.path.ends_in_accelerator() => first,
        None => None,
    };
    match index {
        None => Ok(Arc::new(HostStandIn)),
        Some(index) if facts.accelerators.iter().all(|gpu| gpu.index != index) => {
            Err(Failure::machine(anyhow::anyhow!(
                "there is no device cuda:{index} on this machine"
            ))
            .with_help("`stormlp doctor` lists the devices; --device host stands in"))
        }
        Some(index) => {
            let device = CudaDevice::open(index).map_err(Failure::machine)?;
            Ok(Arc::new(device))
        }
    }
}

/// Makes sure that the file system takes direct reads, where the path makes some: a run that went
/// through the page cache instead would measure something else.
///
/// # Errors
/// With exit code 4 when it does not.
pub(crate) fn check_direct(plan: &TrainPlan, inventory: &Inventory) -> Result<(), Failure> {
    let (Some(folder), Some(first)) = (&plan.data.folder, inventory.train.first()) else {
        return Ok(());
    };
    if !plan.path.wants_direct() || plan.path.needs_cufile() {
        return Ok(());
    }
    match storage::open(&folder.join(&first.name), Access::Read, true) {
        Err(error) if storage::is_direct_refused(&error) => Err(Failure::machine(anyhow::anyhow!(
            "the file system of {} refuses O_DIRECT, which path {} reads with",
            folder,
            plan.path
        ))
        .with_help("use --path buffered, or put the dataset on a file system that has it")),
        // Any other trouble is the run's to tell, with the file it is about.
        _ => Ok(()),
    }
}

fn cuda_index(name: &str) -> Result<u32, Failure> {
    name.strip_prefix("cuda:")
        .and_then(|index| index.parse().ok())
        .ok_or_else(|| Failure::usage(format!("`{name}` is no device: use host or cuda:0")))
}
