//! When accelerators wait for each other.

use serde::{Deserialize, Serialize};
use strum::{Display, EnumString, IntoStaticStr, VariantArray, VariantNames};

use stormlp_core::names::{Named, unknown};

/// When the accelerators of a training run wait for each other, on one host or several.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
#[derive(Display, EnumString, IntoStaticStr, VariantArray, VariantNames)]
#[strum(serialize_all = "kebab-case", parse_err_ty = String, parse_err_fn = unknown::<Self>)]
pub enum StepBarrier {
    /// After each step, as in every edition; only this is faithful.
    #[default]
    EveryStep,
    /// At the ends of epochs; within an epoch each accelerator steps independently.
    Epoch,
    /// Hosts only at the end of the run; accelerators of one host also at the ends of epochs.
    None,
}

impl Named for StepBarrier {
    const WHAT: &'static str = "a barrier of training";
}

impl StepBarrier {
    /// Whether a barrier ends each step.
    pub fn is_at_every_step(self) -> bool {
        self == Self::EveryStep
    }

    /// The remark on a result without the step barrier; `None` for a faithful one.
    pub fn remark(self) -> Option<String> {
        let option = format!("--barrier {self}");
        (!self.is_at_every_step()).then(|| format!("no barrier after steps, {option}"))
    }
}
