#![no_main]

use libfuzzer_sys::fuzz_target;
use stormlp_checkpoint::report::CheckpointReport;
use stormlp_core::report::{ReportKind, parse};
use stormlp_kvcache::report::KvcacheReport;
use stormlp_matrix::report::MatrixReport;
use stormlp_show::html::{self, Sheet};
use stormlp_show::{Shown, openmetrics};
use stormlp_training::report::TrainReport;

// Whatever is read as a report can be shown, and no word in it is a tag of the page. Saved reports
// are the seeds that get furthest.
fuzz_target!(|text: &str| {
    let Ok((kind, value, _)) = parse(text) else {
        return;
    };
    let report: Option<Box<dyn Shown>> = match kind {
        ReportKind::Gds => read::<MatrixReport>(value),
        ReportKind::Train => read::<TrainReport>(value),
        ReportKind::Checkpoint => read::<CheckpointReport>(value),
        ReportKind::Kvcache => read::<KvcacheReport>(value),
    };
    if let Some(report) = report {
        let page = html::page(vec![Sheet::new(&*report, report.document())]);
        assert!(!page.contains("<script") && page.ends_with("</html>\n"));
        assert!(openmetrics::render(&[&*report]).ends_with("# EOF\n"));
    }
});

fn read<R: Shown + serde::de::DeserializeOwned + 'static>(
    value: serde_json::Value,
) -> Option<Box<dyn Shown>> {
    serde_json::from_value::<R>(value).ok().map(|report| Box::new(report) as Box<dyn Shown>)
}
