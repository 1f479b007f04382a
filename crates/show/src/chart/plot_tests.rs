//! Charts of extreme data.

use proptest::prelude::*;

use super::super::draw::{Form, svg};
use super::super::ruler::Ruler;
use super::*;

fn linear(name: &str) -> Axis {
    Axis::new(name, Scale::Linear)
}

fn lines(points: Vec<(f64, f64)>) -> Option<Chart> {
    Chart::lines("", linear("seconds"), linear("GiB/s"), vec![Line::new("", points)])
}

/// The numbers of a chart, row by row.
fn rows(chart: &Chart) -> Vec<Vec<String>> {
    let table = chart.table();
    let cells = table.rows.iter().map(|row| row.cells.iter().map(|cell| cell.text()).collect());
    cells.collect()
}

#[test]
fn axes_have_round_names_and_hold_all_values() {
    let names = |axis: Axis, values: &[f64]| {
        let ruler = Ruler::new(&axis, values.iter().copied());
        let names: Vec<String> = ruler.ticks.into_iter().map(|(_, name)| name).collect();
        names.join(" ")
    };
    assert_eq!(names(linear("s"), &[0.0, 9.3]), "0 2 4 6 8 10");
    assert_eq!(names(linear("s"), &[0.013]), "0.000 0.005 0.010 0.015");
    assert_eq!(names(linear("s"), &[12_000.0]), "0 5,000 10,000 15,000");
    for nothing in [0.0, 1e-12] {
        let names = names(linear("s"), &[nothing]);
        assert_eq!(names, "0.0 0.2 0.4 0.6 0.8 1.0");
    }
    let tiny = Axis::new("µs", Scale::Log);
    assert_eq!(names(tiny, &[0.001, 0.1]), "1 ns 2 ns 5 ns 10 ns 20 ns 50 ns 100 ns");
    let log = |name| Axis::new(name, Scale::Log);
    assert_eq!(names(log("µs"), &[80.0, 2e6]), "100 µs 1 ms 10 ms 100 ms 1 s");
    assert_eq!(names(log("IOPS"), &[13_000.0, 70_000.0]), "10,000 20,000 50,000 100,000");
    assert_eq!(names(log("GiB/s"), &[0.15, 0.4]), "0.1 0.2 0.5");
    assert_eq!(names(log("µs"), &[120.0, 900.0]), "100 µs 200 µs 500 µs 1 ms");
    let sizes = Axis::new("I/O size", Scale::Sizes);
    assert_eq!(names(sizes.clone(), &[1_048_576.0, 4096.0, 4096.0]), "4K 16K 64K 256K 1M");
    assert_eq!(names(sizes, &[4096.0, 8192.0]), "4K 8K");
    let quantiles = Axis::new("percentile", Scale::Quantiles);
    assert_eq!(names(quantiles, &[0.0, 0.9995]), "p0 p90 p99 p99.9");
}

#[test]
fn undrawable_data_makes_no_chart() {
    assert_eq!(lines(vec![(0.0, 1.0)]), None);
    assert_eq!(lines(vec![(0.0, 0.0), (1.0, 0.0)]), None);
    assert_eq!(lines(vec![(0.0, f64::NAN), (1.0, f64::INFINITY), (2.0, 3.0)]), None);
    assert_eq!(Chart::bars("", "s", vec![Bar::one("a", f64::NAN)]), None);
    let zeros = vec![Line::new("", [(0.0, 0.0), (0.5, 0.0)])];
    let log = Axis::new("µs", Scale::Log);
    assert_eq!(Chart::lines("", Axis::new("percentile", Scale::Quantiles), log, zeros), None);
}

#[test]
fn the_table_has_every_drawn_number() {
    let line = |name: &str, points: &[(f64, f64)]| Line::new(name, points.to_vec());
    let both = vec![
        line("gds", &[(4096.0, 1.0), (8192.0, 2.0)]),
        line("cpu", &[(8192.0, 3.0), (1_048_576.0, 4.0)]),
    ];
    let axis = Axis::new("I/O size", Scale::Sizes);
    let chart = Chart::lines("", axis, linear("GiB/s"), both).unwrap();
    assert_eq!(rows(&chart), [["4K", "1.00", "-"], ["8K", "2.00", "3.00"], ["1M", "-", "4.00"]]);
    let svg = svg(&chart, Form::Page).unwrap();
    for colour in ["#0B62A4", "#C2410C"] {
        let line = format!("<polyline fill=\"none\" stroke=\"{colour}\"");
        assert_eq!(svg.matches(&line).count(), 1, "{colour}: {svg}");
    }
    assert!(svg.contains(">\ngds\n<") && svg.contains(">\n1M\n<"), "{svg}");
}

#[test]
fn the_knee_stands_out_with_its_setting_and_the_table_has_all() {
    let setting = |depth: u32, at| Setting { name: depth.to_string(), at };
    let settings =
        vec![setting(1, (0.5, 80.0)), setting(4, (1.9, 90.0)), setting(16, (1.8, 400.0))];
    let line = Line::through("cpu", settings, Some(1));
    let (x, y) = (Axis::new("GiB/s", Scale::Log), Axis::new("µs", Scale::Log));
    let chart = Chart::lines("", x, y, vec![line]).unwrap();
    assert_eq!(rows(&chart)[1], ["cpu", "4, the knee", "1.90", "90.0"]);
    let svg = svg(&chart, Form::Page).unwrap();
    assert!(svg.contains(">\nknee: 4\n<"), "{svg}");
}

/// How far from the top of a drawing a text is.
fn height_of(svg: &str, text: &str) -> i32 {
    let (before, _) = svg.split_once(&format!(">\n{text}\n<")).unwrap();
    let (_, place) = before.rsplit_once(" y=\"").unwrap();
    place.split('"').next().unwrap().parse().unwrap()
}

#[test]
fn names_stay_within_the_chart() {
    let settings = vec![
        Setting { name: "1×1".to_string(), at: (1.0, 10.0) },
        Setting { name: "32×48".to_string(), at: (10.0, 1000.0) },
    ];
    let line = Line::through("cpu", settings, Some(1));
    let (x, y) = (Axis::new("GiB/s", Scale::Log), Axis::new("µs", Scale::Log));
    let chart = Chart::lines("", x, y, vec![line]).unwrap();
    let drawn = svg(&chart, Form::Page).unwrap();
    // The point is at the top of its axis.
    assert!(height_of(&drawn, "knee: 32×48") >= height_of(&drawn, "1 ms"), "{drawn}");
    let counts = Axis::new("accelerators", Scale::Counts);
    let ends = vec![Line::new("", [(1.0, 1.0), (4890.0, 2.0)])];
    let chart = Chart::lines("", counts, linear("%"), ends).unwrap();
    let chart = chart.marks(vec![(4890.0, "4890, the maximum".to_string())]);
    assert!(svg(&chart, Form::Page).unwrap().contains(">\n4890, the maximum\n<"));
}

#[test]
fn bars_have_one_unit_below_and_beside_them() {
    let bars = vec![Bar::one("cpu", 1500.0), Bar::one("gds", 900.0)];
    let chart = Chart::bars("p99 latency", "µs", bars).unwrap();
    let svg = svg(&chart, Form::Page).unwrap();
    assert!(svg.contains(">\n1,500\n<") && !svg.contains(" ms\n<"), "{svg}");
}

#[test]
fn one_bar_or_one_point_is_no_chart() {
    assert_eq!(Chart::bars("", "s", vec![Bar::one("a", 1.0)]), None);
    let line = |points: &[(f64, f64)]| Line::new("", points.to_vec());
    let alone = vec![line(&[(0.0, 1.0)]), line(&[(2.0, 1.0)])];
    assert_eq!(Chart::lines("", linear("seconds"), linear("GiB/s"), alone), None);
    let beside = vec![line(&[(0.0, 1.0)]), line(&[(0.0, 2.0), (1.0, 1.0)])];
    let chart = Chart::lines("", linear("seconds"), linear("GiB/s"), beside).unwrap();
    assert_eq!(rows(&chart)[0], ["0.00", "1.00", "2.00"]);
}

#[test]
fn many_bars_and_points_are_reduced_to_their_extremes() {
    let bars = (0..1000).map(|nth| Bar::one(format!("rank {nth}"), f64::from(500 - nth).abs()));
    let chart = Chart::bars("", "s", bars.collect()).unwrap();
    let rows = rows(&chart);
    assert!(rows.len() <= MOST_ROWS);
    for extreme in ["rank 0", "rank 500"] {
        assert!(rows.iter().any(|row| row[0] == extreme), "{extreme}");
    }
    assert!(chart.notes[0].contains("32 of 1000"), "{:?}", chart.notes);
    let peak = |nth: u32| if nth == 77_777 { 9.0 } else { 1.0 };
    let points = (0..100_000).map(|nth| (f64::from(nth), peak(nth)));
    let line = Line::new("", points);
    assert!(line.points().count() <= MOST_POINTS);
    assert!(line.points().any(|point| point == (77_777.0, 9.0)));
}

#[test]
fn a_line_ends_where_nothing_is_known_and_steps_have_no_slopes() {
    let gap = Line::new("", [(0.0, 1.0), (1.0, f64::NAN), (2.0, 3.0), (3.0, 4.0)]);
    assert_eq!(gap.pieces, [vec![(0.0, 1.0)], vec![(2.0, 3.0), (3.0, 4.0)]]);
    let chart = Chart::lines("", linear("seconds"), linear("KiB"), vec![gap]).unwrap();
    let drawn = svg(&chart, Form::Page).unwrap();
    assert_eq!(drawn.matches("<polyline fill=\"none\" stroke=\"#0B62A4\"").count(), 1);
    assert_eq!(rows(&chart).len(), 3);
    let steps = |count: u32| {
        let steps = (0..count).map(f64::from);
        Line::steps("", steps.map(|n| ((n, n + 0.5), n)))
    };
    assert_eq!(steps(2).pieces, [[(0.0, 0.0), (0.5, 0.0)], [(1.0, 1.0), (1.5, 1.0)]]);
    // This many points are drawn as a single line.
    assert_eq!(steps(100_000).pieces.len(), 1);
    assert!(steps(100_000).points().count() <= MOST_POINTS);
}

#[test]
fn names_that_do_not_fit_are_omitted() {
    let seconds = Ruler::new(&linear("s"), [0.0, 9.3]).with_room_for(3);
    let names: Vec<&str> = seconds.ticks.iter().map(|(_, name)| name.as_str()).collect();
    assert_eq!(names, ["0", "4", "8"]);
}

#[test]
fn names_in_a_chart_are_escaped() {
    let bars = ["<script>\u{202e}", "&"].map(|name| Bar::one(name, 1.0));
    let chart = Chart::bars("<b>", "</svg>", bars.into()).unwrap();
    for form in [Form::Page, Form::Alone] {
        let svg = svg(&chart, form).unwrap();
        assert_eq!(svg.matches("</svg>").count(), 1, "{svg}");
        assert!(!svg.contains("<script") && !svg.contains('\u{202e}'), "{svg}");
    }
}

proptest! {
    #[test]
    fn any_numbers_can_be_drawn(
        points in prop::collection::vec((any::<f64>(), any::<f64>()), 0..40),
        values in prop::collection::vec(-1e20..1e20f64, 0..40),
        scale in prop::sample::select(vec![Scale::Linear, Scale::Log]),
        across in prop::sample::select(vec![
            Scale::Linear, Scale::Sizes, Scale::Counts, Scale::Quantiles,
        ]),
    ) {
        let line = vec![Line::new("a", points.clone())];
        let (x, y) = (Axis::new("x", across), Axis::new("y", scale));
        if let Some(chart) = Chart::lines("", x, y, line) {
            prop_assert!(svg(&chart, Form::Alone).is_ok());
            chart.table();
        }
        let settings = points.iter().map(|at| Setting { name: "1×8".to_string(), at: *at });
        let line = vec![Line::through("a", settings.collect(), Some(1))];
        let (x, y) = (Axis::new("x", scale), Axis::new("µs", scale));
        if let Some(chart) = Chart::lines("", x, y, line) {
            prop_assert!(svg(&chart, Form::Page).is_ok());
            chart.table();
        }
        let bars = values.iter().map(|value| Bar { name: String::new(), values: vec![*value; 2], interval: None });
        if let Some(chart) = Chart::stacked("", "s", &["a", "b"], bars.collect()) {
            prop_assert!(svg(&chart.limit(1e20, "limit"), Form::Page).is_ok());
        }
    }
}
