//! A smaller run of the same shape: layers are reduced first, then the number of participating
//! ranks. Ranks are kept in whole tensor-parallel groups: a partial group would hold a part of
//! every tensor, which matches no real job.

use serde::{Deserialize, Serialize};
use stormlp_core::largest::last_that;

use super::layout::Layout;

/// Result of scaling a checkpoint.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Scaling {
    /// Bytes of the scaled checkpoint relative to the full one; 1 for the full size.
    pub factor: f64,
    /// Remaining layers.
    pub layers: u64,
    /// Layers of the full model.
    pub full_layers: u64,
    /// Participating ranks.
    pub ranks: u64,
    /// Ranks of the full run.
    pub full_ranks: u64,
    /// Bytes of one checkpoint of the full run.
    pub full_bytes: u64,
}

impl Scaling {
    /// `ranks` ranks of `layout`, unscaled.
    pub fn none(layout: &Layout, ranks: u64) -> Self {
        Self {
            factor: 1.0,
            layers: layout.architecture.num_layers,
            full_layers: layout.architecture.num_layers,
            ranks,
            full_ranks: ranks,
            full_bytes: layout.first_ranks_bytes(ranks),
        }
    }

    /// Whether anything was reduced.
    pub fn is_scaled(&self) -> bool {
        self.layers != self.full_layers || self.ranks != self.full_ranks
    }

    /// The largest part of `ranks` ranks of `layout` that `fits` accepts, given its layout and
    /// ranks, with at most `most_ranks` ranks once a single layer is left. If no part fits, the
    /// smallest one: one layer on one group. `fits` must be monotonic: anything smaller than a part
    /// that fits must fit too.
    pub fn largest_that(
        layout: &Layout,
        ranks: u64,
        most_ranks: u64,
        fits: impl Fn(&Layout, u64) -> bool,
    ) -> Self {
        let all_layers = layout.architecture.num_layers;
        let fits = |layers: u64, ranks: u64| fits(&cut(layout, layers), ranks);
        let (layers, left) = if ranks <= most_ranks && fits(1, ranks) {
            (last_that(1, all_layers, |l| fits(l, ranks)), ranks)
        } else {
            let group = group(layout, ranks);
            let most = ranks.min(most_ranks) / group;
            let left = group * last_that(1, most, |groups| fits(1, groups * group));
            // If something else limits the number of ranks, more layers may fit again.
            (last_that(1, all_layers, |l| fits(l, left)), left)
        };
        Self::part(layout, ranks, layers, left)
    }

    /// The largest part of `ranks` ranks of `layout` with at most `most_bytes`, found as in
    /// [`Self::largest_that`].
    pub fn largest_within(layout: &Layout, ranks: u64, most_bytes: u64, most_ranks: u64) -> Self {
        Self::largest_that(layout, ranks, most_ranks, |part, ranks| {
            part.first_ranks_bytes(ranks) <= most_bytes
        })
    }

    /// All `ranks` ranks of `layout` with as many layers as `fits` accepts; one layer if it accepts
    /// none.
    pub fn with_all_ranks(
        layout: &Layout,
        ranks: u64,
        fits: impl Fn(&Layout, u64) -> bool,
    ) -> Self {
        let all_layers = layout.architecture.num_layers;
        let layers = last_that(1, all_layers, |l| fits(&cut(layout, l), ranks));
        Self::part(layout, ranks, layers, ranks)
    }

    /// `layers` layers on the first `left` of `ranks` ranks of `layout`.
    pub(super) fn part(layout: &Layout, ranks: u64, layers: u64, left: u64) -> Self {
        let full = Self::none(layout, ranks);
        let bytes = cut(layout, layers).first_ranks_bytes(left);
        Self { factor: bytes as f64 / full.full_bytes.max(1) as f64, layers, ranks: left, ..full }
    }

    /// The largest part of `ranks` ranks of `layout` with at most `factor` of their bytes, or the
    /// smallest part there is.
    pub fn by_factor(layout: &Layout, ranks: u64, factor: f64) -> Self {
        let full_bytes = layout.first_ranks_bytes(ranks);
        Self::largest_within(layout, ranks, share(full_bytes, factor), u64::MAX)
    }

    /// The factor for display: four decimals, or enough that a small one is not shown as zero.
    pub fn shown(&self) -> String {
        let decimals = if self.factor < 0.001 { 7 } else { 4 };
        format!("{:.decimals$}", self.factor)
    }

    /// The factor in percent, for display.
    pub fn percent(&self) -> String {
        let decimals = if self.factor < 0.001 { 5 } else { 2 };
        format!("{:.decimals$} %", self.factor * 100.0)
    }

    /// Bytes of one checkpoint of this part.
    pub fn bytes(&self) -> u64 {
        share(self.full_bytes, self.factor)
    }

    /// Whether it has more than `factor` of the bytes: no part is that small.
    pub fn is_beyond(&self, factor: f64) -> bool {
        self.bytes() > share(self.full_bytes, factor)
    }

    /// The shortest factor that yields this part of `layout` when requested; `None` if there is
    /// none.
    pub fn typed_factor(&self, layout: &Layout) -> Option<f64> {
        (2..=15)
            .map(|decimals| 10f64.powi(decimals))
            .map(|steps| ((self.factor * steps).ceil() / steps).min(1.0))
            .find(|factor| {
                let again = Self::by_factor(layout, self.full_ranks, *factor);
                (again.layers, again.ranks) == (self.layers, self.ranks)
            })
    }
}

/// Ranks that stay together when `ranks` ranks of `layout` are reduced: those that share tensors,
/// unless the run has partial groups already.
pub(super) fn group(layout: &Layout, ranks: u64) -> u64 {
    let tensor = layout.parallelism.tensor.max(1);
    if ranks.is_multiple_of(tensor) { tensor } else { 1 }
}

/// `factor` of `bytes`, to the byte.
fn share(bytes: u64, factor: f64) -> u64 {
    (factor * bytes as f64).round() as u64
}

/// The layout with fewer layers.
pub(super) fn cut(layout: &Layout, layers: u64) -> Layout {
    Layout { architecture: layout.architecture.with_layers(layers), ..*layout }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::builtin;
    use proptest::prelude::*;

    fn layout(name: &str) -> Layout {
        let workload = builtin::load(name).unwrap();
        workload.layout(workload.parallelism_of_all_ranks())
    }

    #[test]
    fn a_run_that_fits_is_not_scaled() {
        let scaling = Scaling::largest_within(&layout("llama3-8b"), 8, u64::MAX, u64::MAX);
        assert!(!scaling.is_scaled());
        assert_eq!(scaling.factor, 1.0);
    }

    #[test]
    fn layers_are_cut_before_ranks() {
        let scaling = Scaling::largest_within(&layout("llama3-70b"), 64, 200_000_000_000, 64);
        assert_eq!(scaling.ranks, 64);
        assert!(scaling.layers > 1 && scaling.layers < 80, "{scaling:?}");
        let smaller = Scaling::largest_within(&layout("llama3-70b"), 64, 10_000_000_000, 64);
        // Eight ranks share each tensor, so they stay together.
        assert_eq!(smaller.ranks, 8);
        let more = Scaling::largest_within(&layout("llama3-70b"), 64, 20_000_000_000, 37);
        assert!(more.ranks > 8 && more.ranks < 37, "{more:?}");
        assert_eq!(more.ranks % 8, 0);
        // A partial group was requested.
        let part = Scaling::largest_within(&layout("llama3-405b"), 5, 1, 5);
        assert_eq!(part.ranks, 1);
    }

    #[test]
    fn two_hundredths_of_the_8b_are_one_layer_on_one_rank() {
        let layout = layout("llama3-8b");
        let most = (0.02 * layout.total_bytes() as f64) as u64;
        let scaling = Scaling::largest_within(&layout, 8, most, 8);
        assert_eq!((scaling.layers, scaling.ranks), (1, 1));
        assert!(scaling.factor > 0.019 && scaling.factor <= 0.02, "{scaling:?}");
    }

    #[test]
    fn all_ranks_stay_whatever_they_take() {
        let layout = layout("llama3-70b");
        let some = Scaling::with_all_ranks(&layout, 64, |part, ranks| {
            part.first_ranks_bytes(ranks) <= 200_000_000_000
        });
        assert_eq!(some.ranks, 64);
        assert!(some.layers > 1 && some.layers < 80, "{some:?}");
        let least = Scaling::with_all_ranks(&layout, 64, |_, _| false);
        assert_eq!((least.layers, least.ranks), (1, 64));
    }

    proptest! {
        #[test]
        fn a_typed_factor_gives_the_same_part_again(
            model in 0usize..4, most_bytes in 0u64..20_000_000_000_000
        ) {
            let name = builtin::names().nth(model).unwrap();
            let layout = layout(name);
            let ranks = layout.parallelism.ranks();
            let scaling = Scaling::largest_within(&layout, ranks, most_bytes, u64::MAX);
            let typed = scaling.typed_factor(&layout).unwrap();
            let again = Scaling::by_factor(&layout, ranks, typed.to_string().parse().unwrap());
            prop_assert_eq!((again.layers, again.ranks), (scaling.layers, scaling.ranks));
            prop_assert!(!again.is_beyond(typed));
        }

        #[test]
        fn a_scaled_run_is_within_its_bounds_unless_it_is_the_smallest(
            most_bytes in 0u64..2_000_000_000_000, most_ranks in 1u64..600
        ) {
            let layout = layout("llama3-405b");
            let scaling = Scaling::largest_within(&layout, 512, most_bytes, most_ranks);
            let bytes = cut(&layout, scaling.layers).first_ranks_bytes(scaling.ranks);
            prop_assert_eq!(scaling.ranks % 8, 0);
            prop_assert!(scaling.ranks <= most_ranks.max(8));
            prop_assert!(
                bytes <= most_bytes || (scaling.layers, scaling.ranks) == (1, 8),
                "{:?} {}", scaling, bytes
            );
            let whole = scaling.full_bytes as f64;
            prop_assert!((scaling.factor - bytes as f64 / whole).abs() < 1e-12);
        }
    }
}
