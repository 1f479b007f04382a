//! The client of a prediction: its cost on the hosts, and the answer without it.

use super::case::Sizing;
use super::request::HostRate;
use stormlp_core::warning::Warning;
use stormlp_training::plan::client::{Client, ClientCost, measured_where, unknown_cost};
use stormlp_training::plan::train_plan::TrainPlan;
use stormlp_training::plan::warnings::upper_bound_warning;

impl Sizing {
    /// Whether the cost of the hosts is given, rather than the official client's on a host like
    /// those of publications.
    pub fn knows_client(&self) -> bool {
        let asked = &self.asked;
        let given = asked.host_cost_per_step_seconds.or(asked.host_cost_per_gib_seconds);
        self.host_cost.is_some() || given.is_some() || asked.client == Some(Client::None)
    }

    /// CPU cost of the client, if it has any.
    pub fn client(&self) -> Option<ClientCost> {
        let usual = match (self.host_cost, &self.asked.client) {
            (Some(measured), _) => measured,
            (None, None | Some(Client::None)) => ClientCost::NONE,
            // If no cost is known, a request without both of its parts is refused.
            (None, Some(_)) => {
                ClientCost::known(self.workload.dataset.format).unwrap_or(ClientCost::NONE)
            }
        };
        let step = self.asked.host_cost_per_step_seconds;
        let gib = self.asked.host_cost_per_gib_seconds;
        let cost = ClientCost {
            step_seconds: step.unwrap_or(usual.step_seconds),
            step_seconds_per_sample: step.map_or(usual.step_seconds_per_sample, |_| 0.0),
            cpu_seconds_per_gib: gib.unwrap_or(usual.cpu_seconds_per_gib),
            cpu_seconds_per_sample: gib.map_or(usual.cpu_seconds_per_sample, |_| 0.0),
            estimated: usual.estimated && (step.is_none() || gib.is_none()),
            ..usual
        };
        cost.takes_time().then_some(cost)
    }

    /// Where that cost was measured; `None` without a client.
    pub(crate) fn client_in_words(&self) -> Option<String> {
        self.asked.client.as_ref().filter(|client| **client != Client::None)?;
        let cost = self.client()?;
        if self.calibration.is_none() && !cost.estimated {
            return Some("the client's work is added, as given".to_string());
        }
        Some(measured_where(self.calibration.as_ref()))
    }

    /// CPUs of all `hosts` for the readers of `plan`: as given, else one for each reader.
    pub(super) fn cpus(&self, plan: &TrainPlan, hosts: u32) -> u32 {
        let readers = plan.loader.concurrent_reads().max(1) as u64;
        let readers = readers.saturating_mul(u64::from(plan.accelerators));
        match self.asked.host_cpus {
            Some(cpus) => cpus.saturating_mul(hosts),
            // No reader waits for a CPU.
            None => u32::try_from(readers).unwrap_or(u32::MAX),
        }
    }

    /// The same request with the cost that is known for the workload's format, if one is.
    pub(crate) fn with_known_client(&self) -> Option<Self> {
        ClientCost::known(self.workload.dataset.format)?;
        let mut known = self.clone();
        known.asked.client = Some(Client::Dlio);
        Some(known)
    }

    /// The same request on hosts that cost no time and read at any requested rate.
    pub(crate) fn without_client(&self) -> Self {
        let mut alone = self.clone();
        alone.host_cost = None;
        let asked = &mut alone.asked;
        (asked.client, asked.host_rate) = (Some(Client::None), Some(HostRate::Unlimited));
        (asked.host_cost_per_step_seconds, asked.host_cost_per_gib_seconds) = (None, None);
        alone
    }

    /// Why `--client dlio` cannot be used: its cost for the workload's format is neither known nor given.
    pub(super) fn unknown_client(&self) -> Option<String> {
        let asked = &self.asked;
        let step_and_gib = asked.host_cost_per_step_seconds.zip(asked.host_cost_per_gib_seconds);
        let is_asked = asked.client == Some(Client::Dlio) && step_and_gib.is_none();
        let why = unknown_cost(self.workload.dataset.format).filter(|_| is_asked)?;
        Some(format!(
            "--client dlio: {why}: leave it out, or set --host-cost-per-step and --host-cost-per-gib"
        ))
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
        bound.into_iter().chain(busy).collect()
    }
}
