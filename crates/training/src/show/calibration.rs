//! The costs of a client as a table.

use crate::plan::calibration::{COMPUTE_SECONDS, Calibration, FormatCost, SHORT_COMPUTE_SECONDS};
use stormlp_core::units::counted;
use stormlp_show::document::{Document, Table, number, word};

/// The document of a calibration.
pub fn document(calibration: &Calibration) -> Document {
    let count = calibration.formats.len() as u64;
    let mut document =
        Document::new(format!("DLIO's own cost on this host with {}", counted(count, "format")));
    document.facts.add("client", &calibration.client);
    let cpus = counted(u64::from(calibration.cpus), "CPU");
    document
        .facts
        .add("host", format!("{}, {cpus}, {}", calibration.hostname, calibration.cpu_model));
    document.facts.add("load before", format!("{:.2}", calibration.load_before));
    if let Some(cost) = &calibration.checkpoint {
        document.facts.add(
            "checkpoints",
            format!(
                "{:.2} s/GiB a rank to save, {:.2} to restore, without storage; stormlp itself \
                 takes {:.2} and {:.2}",
                cost.client.save_seconds_per_gib,
                cost.client.restore_seconds_per_gib,
                cost.own.save_seconds_per_gib,
                cost.own.restore_seconds_per_gib
            ),
        );
    }
    let (short, long) = (SHORT_COMPUTE_SECONDS * 1e3, COMPUTE_SECONDS * 1e3);
    document.facts.add(
        "steps",
        format!("a short one computes for {short:.0} ms, a long one for {long:.0} ms"),
    );
    document.table(table(calibration));
    document.warn(&calibration.origin("just made".to_string()).busy_warning());
    document
}

fn table(calibration: &Calibration) -> Table {
    let ms = |seconds: f64| format!("{:.3}", seconds * 1e3);
    Table::of(
        &calibration.formats,
        |cost| cost.format.name().to_string(),
        vec![
            word("format", 0, |cost: &&FormatCost| cost.format.to_string()),
            number("ms/short step", 0, |cost: &&FormatCost| ms(cost.short_step.seconds)),
            number("ms/step", 0, |cost: &&FormatCost| ms(cost.step.seconds)),
            number("+ms/sample", 0, |cost: &&FormatCost| ms(cost.step_seconds_per_sample)),
            number("late ms", 0, |cost: &&FormatCost| ms(cost.step.oversleep_seconds)),
            number("CPU ms/sample", 0, |cost: &&FormatCost| ms(cost.workers.seconds_per_sample)),
            number("CPU s/GiB", 0, |cost: &&FormatCost| {
                format!("{:.2}", cost.workers.seconds_per_gib)
            }),
            number("own s/GiB", 1, |cost: &&FormatCost| format!("{:.2}", cost.own.seconds_per_gib)),
        ],
    )
}
