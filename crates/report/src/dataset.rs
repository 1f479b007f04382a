//! What `stormlp datagen` says: the outline of a run, its report, what verifying found.

use std::fmt::Write;

use stormlp_model::dataset::{GenerateOutline, GenerateReport, Verification};
use stormlp_model::units::{ByteSize, counted, format_duration};

/// The outline of a run, as `--dry-run` prints it.
#[must_use]
pub fn outline_text(outline: &GenerateOutline) -> String {
    let GenerateOutline {
        train_files,
        valid_files,
        samples_per_file,
        ..
    } = outline;
    let about = if outline.bytes_are_exact {
        ""
    } else {
        "at most "
    };
    let mut text = format!(
        "{} ({}): {}, {}, {} in each\n",
        outline.workload,
        outline.format,
        counted(*train_files, "training file"),
        counted(*valid_files, "evaluation file"),
        counted(*samples_per_file, "sample")
    );
    // Writing to a string cannot fail.
    let _ = writeln!(text, "folder     {}", outline.folder.display());
    let _ = writeln!(text, "bytes      {about}{}", exact(outline.bytes));
    let _ = writeln!(text, "sizes      profile {}", outline.profile);
    if outline.subfolders > 1 {
        let _ = writeln!(text, "subfolders {}", outline.subfolders);
    }
    let _ = writeln!(
        text,
        "content    {}, seed {}",
        outline.content, outline.seed
    );
    let _ = writeln!(text, "threads    {}", outline.threads);
    let _ = match (outline.free_bytes, outline.fits) {
        (Some(free), Some(true)) => writeln!(text, "free       {}: it fits", ByteSize(free)),
        (Some(free), _) => writeln!(text, "free       {}: it does not fit", ByteSize(free)),
        (None, _) => writeln!(text, "free       unknown"),
    };
    text
}

/// What a run did.
#[must_use]
pub fn report_text(report: &GenerateReport) -> String {
    let mut text = format!(
        "{}: {}, {} in {}\n",
        report.workload,
        counted(report.files, &format!("{} file", report.format)),
        ByteSize(report.bytes),
        report.folder.display()
    );
    if report.files_kept > 0 {
        let _ = writeln!(text, "kept     {} files that were whole", report.files_kept);
    }
    if !report.remade.is_empty() {
        let _ = writeln!(text, "remade   {}", report.remade.join(", "));
    }
    if report.files_made > 0 {
        let _ = writeln!(text, "wrote    {}", wrote(report));
    }
    let cpu = report.cpu_user_seconds + report.cpu_system_seconds;
    let _ = writeln!(text, "cpu      {} of CPU time", format_duration(cpu));
    let way = if report.direct {
        "O_DIRECT"
    } else {
        "page cache"
    };
    let _ = writeln!(
        text,
        "how      {} threads, {}, {way}",
        report.threads, report.engine
    );
    for warning in &report.warnings {
        let _ = writeln!(text, "warning: {warning}");
    }
    text
}

fn wrote(report: &GenerateReport) -> String {
    let amount = format!(
        "{}, {} in {}",
        counted(report.files_made, "file"),
        ByteSize(report.bytes_written),
        format_duration(report.seconds)
    );
    if report.seconds > 0.0 {
        let rate = report.bytes_written as f64 / report.seconds / f64::from(1u32 << 20);
        format!("{amount} ({rate:.0} MiB/s)")
    } else {
        amount
    }
}

/// What verifying found.
#[must_use]
pub fn verification_text(verification: &Verification) -> String {
    let how = if verification.by_checksum {
        let read = ByteSize(verification.bytes);
        format!("against the checksums of the manifest, {read} read")
    } else {
        "by size and framing: there is no manifest with checksums".to_string()
    };
    let mut text = String::new();
    for fault in &verification.faults {
        let _ = writeln!(text, "bad: {fault}");
    }
    let bad = verification.faults.len() as u64;
    let good = verification.files - bad.min(verification.files);
    let _ = writeln!(
        text,
        "{good} of {} files are good, checked {how}",
        verification.files
    );
    text
}

/// A size in binary units and to the byte.
fn exact(bytes: u64) -> String {
    format!("{} ({bytes} bytes)", ByteSize(bytes))
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use stormlp_model::dataset::{GenerateOutline, GenerateReport, Verification};
    use stormlp_model::path::EngineKind;
    use stormlp_model::warning::{Warning, WarningKind};

    use super::{outline_text, report_text, verification_text};

    #[test]
    fn an_outline_says_whether_it_fits() {
        let outline = GenerateOutline {
            folder: PathBuf::from("./stormlp-data/unet3d"),
            workload: "unet3d".to_string(),
            profile: "v2".to_string(),
            format: "npz".to_string(),
            files: 168,
            train_files: 168,
            valid_files: 0,
            subfolders: 0,
            samples_per_file: 1,
            bytes: 25_286_065_583,
            bytes_are_exact: true,
            content: "random".to_string(),
            seed: 42,
            threads: 4,
            free_bytes: Some(10 << 30),
            fits: Some(false),
        };
        insta::assert_snapshot!(outline_text(&outline), @r"
        unet3d (npz): 168 training files, 0 evaluation files, 1 sample in each
        folder     ./stormlp-data/unet3d
        bytes      23.55 GiB (25286065583 bytes)
        sizes      profile v2
        content    random, seed 42
        threads    4
        free       10 GiB: it does not fit
        ");
    }

    #[test]
    fn a_report_says_what_was_written_and_how() {
        let report = GenerateReport {
            folder: PathBuf::from("data"),
            workload: "unet3d".to_string(),
            profile: "v2".to_string(),
            format: "npz".to_string(),
            files: 10,
            files_made: 4,
            files_kept: 6,
            remade: vec!["train/img_3_of_10.npz".to_string()],
            bytes: 10 << 20,
            bytes_written: 4 << 20,
            seconds: 2.0,
            cpu_user_seconds: 0.5,
            cpu_system_seconds: 0.25,
            threads: 4,
            engine: EngineKind::Psync,
            direct: false,
            warnings: vec![Warning::new(
                WarningKind::NotDirect,
                "no O_DIRECT",
                "beware",
            )],
        };
        insta::assert_snapshot!(report_text(&report), @r"
        unet3d: 10 npz files, 10 MiB in data
        kept     6 files that were whole
        remade   train/img_3_of_10.npz
        wrote    4 files, 4 MiB in 2.0 s (2 MiB/s)
        cpu      750 ms of CPU time
        how      4 threads, psync, page cache
        warning: no O_DIRECT; beware
        ");
    }

    #[test]
    fn bad_files_are_listed_first() {
        let verification = Verification {
            files: 3,
            bytes: 5 << 20,
            by_checksum: true,
            faults: vec!["train/a: its bytes have changed".to_string()],
        };
        insta::assert_snapshot!(verification_text(&verification), @r"
        bad: train/a: its bytes have changed
        2 of 3 files are good, checked against the checksums of the manifest, 5 MiB read
        ");
    }
}
