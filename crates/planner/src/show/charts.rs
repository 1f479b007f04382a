//! The charts of an answer: AU and throughput over accelerators, and accelerators over drives.

use super::words::unit;
use crate::plan::{AtCount, SizingAnswer};

use stormlp_show::chart::{Axis, Chart, Group, Line, Scale};

/// All charts of an answer.
pub(super) fn charts(answer: &SizingAnswer) -> Vec<Group> {
    let mut drawn = Group::new("Predictions");
    let over = |of: fn(&AtCount) -> f64| {
        let rows = answer.over_accelerators.iter();
        rows.map(move |at| (f64::from(at.accelerators), of(at)))
    };
    let mark = match answer.largest_accelerators {
        0 => Vec::new(),
        largest => vec![(f64::from(largest), format!("{largest}, the maximum"))],
    };
    let few = "fewer than two numbers of accelerators were simulated";

    let what = "AU over accelerators";
    let ends = over(|_| 0.0).map(|(count, _)| (count, answer.threshold_percent));
    let lines = vec![Line::new("AU", over(|at| at.au_percent)), Line::new("threshold", ends)];
    let chart = Chart::lines(what, count("accelerators"), amount("%"), lines);
    drawn.add(what, chart.map(|chart| chart.marks(mark.clone())), few);

    let what = "Throughput over accelerators";
    let lines = vec![Line::new("", over(|at| at.mib_per_second))];
    let chart = Chart::lines(what, count("accelerators"), amount("MiB/s"), lines);
    drawn.add(what, chart.map(|chart| chart.marks(mark)), few);

    let unit = unit(answer);
    let what = format!("Most accelerators over {unit}s");
    let rows = answer.over_devices.iter();
    let points = rows.map(|at| (f64::from(at.devices), f64::from(at.accelerators)));
    let lines = vec![Line::new("", points)];
    let chart = Chart::lines(&what, count(&format!("{unit}s")), amount("accelerators"), lines);
    let few =
        format!("fewer than two numbers of {unit}s were simulated, or none feeds an accelerator");
    drawn.add(&what, chart, &few);
    vec![drawn]
}

fn count(name: &str) -> Axis {
    Axis::new(name, Scale::Counts)
}

fn amount(name: &str) -> Axis {
    Axis::new(name, Scale::Linear)
}
