//! The buffers of a matrix: one region for each NUMA node with bound threads.

use crate::plan::MatrixPlan;
use stormlp_transfer::{Backing, Region, TransferError, thread};

/// Regions by NUMA node; `None` is the region of unbound threads.
pub(crate) struct Regions(Vec<(Option<u32>, Region)>);

impl Regions {
    /// The regions required by `plan`, each first touched by a thread on its node.
    ///
    /// # Errors
    /// If the memory cannot be mapped.
    pub(crate) fn of_plan(plan: &MatrixPlan) -> Result<Self, TransferError> {
        let mut regions = Vec::new();
        for (node, bytes) in plan.regions() {
            regions.push((node, region(plan, node, bytes)?));
        }
        Ok(Self(regions))
    }

    /// Marks all regions free; those kept by a broken cell are recreated.
    ///
    /// # Errors
    /// If the memory cannot be mapped.
    pub(crate) fn reset(&mut self, plan: &MatrixPlan) -> Result<(), TransferError> {
        for ((node, own), (_, bytes)) in self.0.iter_mut().zip(plan.regions()) {
            if !own.reset() {
                *own = region(plan, *node, bytes)?;
            }
        }
        Ok(())
    }

    /// The region of threads on `node`.
    pub(crate) fn of(&mut self, node: Option<u32>) -> &mut Region {
        let mut regions = self.0.iter_mut();
        let own = regions.find(|(other, _)| *other == node);
        &mut own.expect("the plan has a region for each of its nodes").1
    }

    /// The page type as reported; the smallest if regions differ.
    pub(crate) fn backing(&self) -> Backing {
        Backing::of_all(self.0.iter().map(|(_, region)| region.backing()))
    }
}

/// A region first touched by a thread of the plan on `node`.
fn region(plan: &MatrixPlan, node: Option<u32>, bytes: u64) -> Result<Region, TransferError> {
    let mut workers = plan.thread_groups.iter().flat_map(|thread_group| &thread_group.workers);
    let of_node = workers.find(|worker| worker.numa_node == node);
    let cpus = of_node.and_then(|worker| worker.cpus.as_ref());
    thread::bound(cpus, || Region::on(bytes as usize, plan.pages()))
}
