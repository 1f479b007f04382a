//! Pages of small reports: as they were, whole, and without a word that could steer a browser.

use stormlp_model::histogram::LatencyHistogram;

use super::*;

const NASTY: &str =
    "</style></title><script>alert(1)</script>\"'><img src=x onerror=alert(1)>\u{202e}&amp;";

fn reports() -> [(&'static str, AnyReport); 3] {
    let mut matrix = matrix::tests::sample_report();
    let mut histogram = LatencyHistogram::new();
    (1..=2000).for_each(|us| histogram.record_ns(us * 700));
    for cell in &mut matrix.results.cells {
        if let Some(numbers) = &mut cell.measurement {
            numbers.latency_histogram = histogram.to_base64();
        }
    }
    [
        ("gds", matrix.into()),
        ("train", training::tests::sample_report().into()),
        ("checkpoint", checkpoint::tests::sample_report().into()),
    ]
}

fn sheet(report: &AnyReport) -> Sheet {
    Sheet::new(
        report,
        crate::document(report, crate::matrix::Columns::Standard),
    )
}

/// Whether tags open and close in pairs, the way a browser reads them.
fn is_balanced(page: &str) {
    const EMPTY: [&str; 8] = [
        "!DOCTYPE", "meta", "line", "rect", "circle", "polyline", "polygon", "br",
    ];
    let mut open: Vec<&str> = Vec::new();
    for tag in page.split('<').skip(1) {
        let (tag, _) = tag.split_once('>').expect("an end of the tag");
        let name = tag.split([' ', '/']).next().unwrap();
        match tag.strip_prefix('/') {
            Some(name) => assert_eq!(open.pop(), Some(name)),
            None if EMPTY.contains(&name) => {}
            None => open.push(name),
        }
    }
    assert!(open.is_empty(), "{open:?}");
}

#[test]
fn every_kind_of_report_is_a_page_as_it_was() {
    for (name, report) in reports() {
        let page = page(vec![sheet(&report)]);
        is_balanced(&page);
        assert!(page.contains("<svg role=\"img\""), "{name}");
        // The style is a file of its own.
        let page = page.replace(STYLE, "");
        insta::assert_snapshot!(format!("{name}_page"), page);
    }
}

#[test]
fn reports_stand_beside_each_other_with_titles_below_that_of_the_page() {
    let sheets = reports().iter().map(|(_, report)| sheet(report)).collect();
    let page = page(sheets);
    is_balanced(&page);
    assert_eq!(page.matches("<h1").count(), 1);
    assert_eq!(page.matches("<article>").count(), 3);
    assert!(page.contains("<h3>Machine</h3>"));
}

#[test]
fn words_of_strangers_stay_words() {
    for (name, report) in reports() {
        let mut json = serde_json::to_value(&report).unwrap();
        json["command"] = NASTY.into();
        json["host"]["hostname"] = NASTY.into();
        json["host"]["cpu_model"] = NASTY.into();
        json["tags"] = serde_json::json!({"a": NASTY});
        json["series"] = serde_json::json!([{
            "name": format!("save {NASTY}"),
            "interval_seconds": 0.5,
            "interval_bytes": [1, 2, 3, 4],
        }]);
        let report = AnyReport::from_json(&json.to_string()).unwrap();
        let page = page(vec![sheet(&report)]);
        is_balanced(&page);
        for tag in ["<script", "<img", "\u{202e}"] {
            assert!(!page.contains(tag), "{name}: {tag}");
        }
        assert!(page.contains("&lt;script&gt;"), "{name}");
    }
}

#[test]
fn a_report_without_series_says_what_is_not_drawn() {
    let mut report = training::tests::sample_report();
    report.series.clear();
    report.histograms.clear();
    report.results.epochs.clear();
    let page = page(vec![sheet(&report.into())]);
    for (what, why) in [
        ("Accelerator utilisation by epoch", NO_EPOCH),
        (
            "Reads in flight over time",
            "the report holds no numbers of them",
        ),
        (
            "Waits and reads over all",
            "no distribution that can be read",
        ),
    ] {
        let absent = page.lines().filter(|line| line.starts_with("<li>"));
        assert!(
            absent
                .clone()
                .any(|line| line.contains(what) && line.contains(why)),
            "{what}"
        );
    }
    assert!(!page.contains("<svg"));
}

const NO_EPOCH: &str = "the report holds no epoch";

#[test]
fn the_first_chart_stands_alone() {
    for (name, report) in reports() {
        let svg = lead(&report).unwrap();
        assert!(
            svg.starts_with("<svg width=") && svg.contains("<style>"),
            "{name}"
        );
        assert!(svg.contains("prefers-color-scheme:dark"));
        insta::assert_snapshot!(format!("{name}_lead"), svg);
    }
}
