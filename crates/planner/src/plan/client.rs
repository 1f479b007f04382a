//! The client of a prediction: its cost on the hosts, and the answer without it.

use super::case::Sizing;
use super::overhead::Overhead;
use stormlp_core::failure::Failure;
use stormlp_core::warning::Warning;
use stormlp_training::plan::client::{Client, ClientCost, measured_where, unknown_cost};
use stormlp_training::plan::train_plan::TrainPlan;
use stormlp_training::plan::warnings::upper_bound_warning;

impl Sizing {
    /// Whether the cost of the hosts is given, rather than the official client's on a host like
    /// those of publications.
    pub fn knows_client(&self) -> bool {
        let asked = self.asked.client_overhead.as_ref();
        matches!(asked, Some(Overhead::Typed(_) | Overhead::Of(Client::None)))
    }

    /// CPU cost of the client, if it has any.
    pub fn client(&self) -> Option<ClientCost> {
        let cost = match &self.asked.client_overhead {
            Some(Overhead::Typed(cost)) => *cost,
            // If no cost is known, the request is refused.
            Some(Overhead::Of(Client::Dlio)) => ClientCost::known(self.workload.dataset.format)?,
            None | Some(Overhead::Of(_)) => return None,
        };
        cost.takes_time().then_some(cost)
    }

    /// Where that cost was measured; `None` without a client.
    pub(crate) fn client_in_words(&self) -> Option<String> {
        let cost = self.client()?;
        if self.calibration.is_none() && !cost.estimated {
            return Some("its overhead is added, as given".to_string());
        }
        Some(measured_where(self.calibration.as_ref()))
    }

    /// CPUs of all `hosts` for the readers of `plan`: as given, else one for each reader.
    pub(super) fn cpus(&self, plan: &TrainPlan, hosts: u32) -> u32 {
        let readers = plan.loader.concurrent_reads().max(1) as u64;
        let readers = readers.saturating_mul(u64::from(plan.accelerators));
        match self.asked.host_spec().cpus {
            Some(cpus) => cpus.saturating_mul(hosts),
            // No reader waits for a CPU.
            None => u32::try_from(readers).unwrap_or(u32::MAX),
        }
    }

    /// The same request with the cost that is known for the workload's format, if one is.
    pub(crate) fn with_known_client(&self) -> Option<Self> {
        ClientCost::known(self.workload.dataset.format)?;
        let mut known = self.clone();
        known.asked.client_overhead = Some(Overhead::Of(Client::Dlio));
        Some(known)
    }

    /// The same request on hosts that cost no time and read at any requested rate.
    pub(crate) fn without_client(&self) -> Self {
        let mut alone = self.clone();
        alone.asked.client_overhead = Some(Overhead::Of(Client::None));
        alone.asked.set_host_rate(None);
        alone
    }

    /// Why `--client-overhead dlio` cannot be used: its cost for the workload's format is not known.
    pub(super) fn unknown_client(&self) -> Option<Failure> {
        let is_asked = self.asked.client_overhead == Some(Overhead::Of(Client::Dlio));
        let why = unknown_cost(self.workload.dataset.format).filter(|_| is_asked)?;
        let help = "leave it out, or type the cost: --client-overhead step=0.7ms,gib=0.9s";
        Some(Failure::usage(format!("--client-overhead dlio: {why}")).with_help(help))
    }

    /// Warnings about the client of a run that reached `au_percent`, and would reach `official_percent`
    /// with the cost that is known for its format, if one is.
    pub(crate) fn client_warnings(
        &self,
        plan: &TrainPlan,
        au_percent: f64,
        official_percent: Option<f64>,
    ) -> Vec<Warning> {
        let known = ClientCost::known(plan.data.format).zip(official_percent);
        let bound = upper_bound_warning(plan, au_percent, known);
        let busy = self.calibration.as_ref().and_then(|origin| origin.busy_warning());
        bound.into_iter().chain(busy).chain(self.storage.warnings.iter().cloned()).collect()
    }
}
