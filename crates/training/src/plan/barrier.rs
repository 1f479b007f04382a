//! When accelerators wait for each other.

use serde::{Deserialize, Serialize};
use strum::{Display, EnumString, IntoStaticStr, VariantArray, VariantNames};

use stormlp_core::names::{Named, unknown};

/// When the accelerators of a training wait for each other, on one host as on several.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
#[derive(Display, EnumString, IntoStaticStr, VariantArray, VariantNames)]
#[strum(serialize_all = "kebab-case", parse_err_ty = String, parse_err_fn = unknown::<Self>)]
pub enum StepBarrier {
    /// After each step, as in every edition: nothing else is faithful.
    #[default]
    EveryStep,
    /// At the ends of epochs: each accelerator goes through its steps on its own.
    Epoch,
    /// Hosts at the end of the run alone; accelerators of one host at the ends of epochs, too.
    None,
}

impl Named for StepBarrier {
    const WHAT: &'static str = "a barrier of training";
}

impl StepBarrier {
    /// Whether all wait for each other after each step.
    pub fn is_at_every_step(self) -> bool {
        self == Self::EveryStep
    }

    /// What a result without the barrier of steps says of itself; `None` of a faithful one.
    pub fn remark(self) -> Option<String> {
        let option = format!("--barrier {self}");
        (!self.is_at_every_step()).then(|| format!("no barrier after steps, {option}"))
    }
}
