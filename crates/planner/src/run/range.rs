//! The range of an answer: the same search with one assumption changed at a time.

use std::cell::Cell;
use std::collections::BTreeMap;

use super::{SizingError, Stage, Study, Whole};
use crate::plan::request::HostRate;
use crate::plan::variants::{Variant, variants};
use crate::plan::{Extent, LimitedBy, OtherAnswer, Sizing, StoragePart, search};
use stormlp_training::plan::client::Client;

/// How else the answer could be.
#[derive(Debug, Clone, PartialEq, Default)]
pub(super) struct Range {
    pub(super) accelerators: [u32; 2],
    pub(super) au_percent: [f64; 2],
    pub(super) others: Vec<OtherAnswer>,
    pub(super) storage_alone: u32,
}

impl Study<'_> {
    /// The range around `largest`, which is limited by `limit`, and around the AU of `whole`.
    pub(super) fn range(
        &self,
        largest: u32,
        whole: &Whole,
        limit: (LimitedBy, Option<StoragePart>),
    ) -> Result<Range, SizingError> {
        self.stage.set(Stage::Range);
        let asked = whole.case.whole.accelerators;
        let other = |variant: Variant| {
            let mut study = self.on(&variant.sizing);
            let guess = (f64::from(largest) * variant.expected) as u32;
            let (most, au_percent) = (study.near(guess)?, study.au_of(asked)?);
            self.done.set(study.done.get());
            Ok::<_, SizingError>(OtherAnswer {
                cause: variant.cause,
                assumption: variant.assumption,
                largest_accelerators: most,
                au_percent: au_percent * variant.au_share,
            })
        };
        let variants = variants(self.sizing, &whole.case, limit);
        let others: Vec<OtherAnswer> = variants.into_iter().map(other).collect::<Result<_, _>>()?;
        let au = whole.prediction.au_percent;
        let mut range = Range {
            accelerators: [largest; 2],
            au_percent: [au; 2],
            storage_alone: self.storage_alone(largest, limit.0)?,
            others,
        };
        for OtherAnswer { largest_accelerators: most, au_percent, .. } in &range.others {
            let [low, high] = range.accelerators;
            range.accelerators = [low.min(*most), high.max(*most)];
            let [low, high] = range.au_percent;
            range.au_percent = [low.min(*au_percent), high.max(*au_percent)];
        }
        Ok(range)
    }

    /// The number that storage feeds if hosts cost nothing.
    fn storage_alone(&self, largest: u32, limit: LimitedBy) -> Result<u32, SizingError> {
        if limit != LimitedBy::Client {
            return Ok(largest);
        }
        let mut sizing = self.sizing.clone();
        sizing.host_cost = None;
        let asked = &mut sizing.asked;
        (asked.client, asked.host_rate) = (Some(Client::None), Some(HostRate::Unlimited));
        (asked.host_cost_per_step_seconds, asked.host_cost_per_gib_seconds) = (None, None);
        let mut study = self.on(&sizing);
        let guess = study.guess(sizing.storage.model.devices)?;
        let most = study.near(guess)?;
        self.done.set(study.done.get());
        Ok(most)
    }

    /// AU of `whole` with the client's cost that is known for its format; its own where a client is given,
    /// or it misses the threshold without.
    pub(super) fn with_known_client(&self, whole: &Whole) -> Result<f64, SizingError> {
        if whole.case.whole.client.is_some() || !whole.meets() {
            return Ok(whole.prediction.au_percent);
        }
        let sizing = self.sizing.with_known_client();
        let mut study = self.on(&sizing);
        // As long a run as that of the figure: a rough one fills its buffers in a larger part of it.
        let devices = sizing.storage.model.devices;
        let known = study.whole(whole.case.whole.accelerators, devices)?;
        self.done.set(study.done.get());
        Ok(known.prediction.au_percent)
    }

    /// The same study of `sizing`.
    fn on<'a>(&'a self, sizing: &'a Sizing) -> Study<'a> {
        Study {
            sizing,
            stop: self.stop,
            look: self.look,
            trial: Extent::Rough,
            done: Cell::new(self.done.get()),
            stage: self.stage.clone(),
            known: BTreeMap::new(),
        }
    }

    /// The largest number that meets the threshold, tried from `guess`.
    fn near(&mut self, guess: u32) -> Result<u32, SizingError> {
        let (sizing, devices) = (self.sizing, self.sizing.storage.model.devices);
        search::last(guess, sizing.most_accelerators(), |count| {
            self.meets(count, sizing.hosts_of(count), devices)
        })
    }

    fn au_of(&mut self, accelerators: u32) -> Result<f64, SizingError> {
        let sizing = self.sizing;
        let (hosts, devices) = (sizing.hosts_of(accelerators), sizing.storage.model.devices);
        Ok(self.at(accelerators, hosts, devices)?.au_percent)
    }
}
