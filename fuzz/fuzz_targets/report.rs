#![no_main]

use libfuzzer_sys::fuzz_target;
use stormlp_core::report::AnyReport;
use stormlp_show::html::{self, Sheet};
use stormlp_matrix::show::Columns;
use stormlp_show::openmetrics;

// Whatever is read as a report can be shown, and no word in it is a tag of the page. Saved reports
// are the seeds that get furthest.
fuzz_target!(|text: &str| {
    if let Ok(report) = AnyReport::from_json(text) {
        let document = stormlp_show::document(&report, Columns::Standard);
        let page = html::page(vec![Sheet::new(&report, document)]);
        assert!(!page.contains("<script") && page.ends_with("</html>\n"));
        assert!(openmetrics::render(&[report]).ends_with("# EOF\n"));
    }
});
