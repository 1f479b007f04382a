//! The range of an answer: the same search with one assumption changed at a time.

use std::cell::Cell;
use std::collections::BTreeMap;

use super::{Limit, SizingError, Study, Whole};
use crate::plan::variants::{Variant, variants};
use crate::plan::{Extent, LimitedBy, OtherAnswer, Range, Sizing};

/// The number that storage feeds on hosts that cost no time, and the limit of one accelerator more.
pub(super) struct Alone {
    pub(super) largest: u32,
    pub(super) limit: Limit,
}

impl Study<'_> {
    /// The range around `largest`, which is limited by `limit`, and around the AU of `whole`.
    pub(super) fn range(
        &self,
        largest: u32,
        whole: &Whole,
        limit: Limit,
    ) -> Result<Range, SizingError> {
        let asked = whole.case.whole.accelerators;
        let other = |variant: Variant| {
            let mut study = self.on(&variant.sizing);
            let guess = (f64::from(largest) * variant.expected) as u32;
            let devices = variant.sizing.storage.model.devices;
            let most = study.largest(guess, devices)?;
            let key = (asked, variant.sizing.hosts_of(asked), devices);
            let au_percent = study.at(key)?.au_percent;
            self.done.set(study.done.get());
            Ok::<_, SizingError>(OtherAnswer {
                cause: variant.cause,
                assumption: variant.assumption,
                largest_accelerators: most,
                au_percent: au_percent * variant.au_share,
            })
        };
        let variants = variants(self.sizing, &whole.case, limit);
        let causes: Vec<OtherAnswer> = variants.into_iter().map(other).collect::<Result<_, _>>()?;
        let au = whole.prediction.au_percent;
        let mut range = Range { accelerators: [largest; 2], au_percent: [au; 2], causes };
        for OtherAnswer { largest_accelerators: most, au_percent, .. } in &range.causes {
            let [low, high] = range.accelerators;
            range.accelerators = [low.min(*most), high.max(*most)];
            let [low, high] = range.au_percent;
            range.au_percent = [low.min(*au_percent), high.max(*au_percent)];
        }
        Ok(range)
    }

    /// The number that storage feeds if hosts cost no time; `None` if the answer is that already.
    /// With a client it decides the limit, so it is confirmed as the answer is.
    pub(super) fn alone(&self, limit: LimitedBy) -> Result<Option<Alone>, SizingError> {
        let has_client = self.sizing.client().is_some();
        if !has_client && limit != LimitedBy::Client {
            return Ok(None);
        }
        let sizing = self.sizing.without_client();
        let devices = sizing.storage.model.devices;
        let mut study = self.on(&sizing);
        let largest = if has_client {
            study.largest_confirmed(devices)?
        } else {
            study.largest(study.guess(devices)?, devices)?
        };
        let limit = study.limit_above(largest, devices)?;
        self.done.set(study.done.get());
        Ok(Some(Alone { largest, limit }))
    }

    /// AU of `whole` with the client's cost that is known for its format, if one is; with the given
    /// client's if there is one, or if it misses the threshold without.
    pub(super) fn with_known_client(&self, whole: &Whole) -> Result<Option<f64>, SizingError> {
        if whole.case.whole.client.is_some() || !whole.meets() {
            return Ok(Some(whole.prediction.au_percent));
        }
        let Some(sizing) = self.sizing.with_known_client() else {
            return Ok(None);
        };
        let mut study = self.on(&sizing);
        // As long a run as the figure's: a rough one fills its buffers in a larger part of it.
        let devices = sizing.storage.model.devices;
        let known = study.whole(whole.case.whole.accelerators, devices)?;
        self.done.set(study.done.get());
        Ok(Some(known.prediction.au_percent))
    }

    /// The same study of `sizing`.
    fn on<'a>(&'a self, sizing: &'a Sizing) -> Study<'a> {
        Study {
            sizing,
            stop: self.stop,
            look: self.look,
            trial: Extent::ROUGH,
            done: Cell::new(self.done.get()),
            known: BTreeMap::new(),
        }
    }
}
