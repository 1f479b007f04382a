//! The commands that the project exists for, exactly as a newcomer types them: from an empty folder,
//! without options and without a GPU, each ends with its answer.

use std::fs;

use crate::at_a_terminal;

/// Runs the words in an empty folder; returns the exit code and the answer, the last line of the
/// screen. The data, up to 9 GiB, is removed before the next command.
fn answer(words: &str, files: &[(&str, &str)]) -> (Option<i32>, String) {
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    for (name, text) in files {
        fs::write(folder.path().join(name), text).unwrap();
    }
    let mut command = at_a_terminal();
    let output = command.current_dir(&folder).args(words.split(' ')).output().unwrap();
    let screen = String::from_utf8(output.stdout).unwrap();
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(!screen.is_empty(), "{words}: {stderr}");
    (output.status.code(), screen)
}

#[test]
fn the_commands_of_the_mission_end_with_their_answer() {
    let (code, screen) = answer("gds --io-size 1M --threads 8", &[]);
    assert_eq!(code, Some(0), "{screen}");
    let answer_at = screen.rfind("\ncpu-gpu ").expect(&screen);
    assert!(screen[answer_at..].contains("GiB/s (read of 1"), "{screen}");

    let (code, screen) = answer("train unet3d", &[]);
    // Whether this machine meets the target is not for a test to say.
    assert!(code == Some(0) || code == Some(6), "{code:?}: {screen}");
    let verdict = if code == Some(0) { "\nPASS: AU " } else { "\nFAIL: AU " };
    let answer_at = screen.rfind(verdict).expect(&screen);
    assert!(screen[answer_at..].contains("unet3d requires 90.0 %"), "{screen}");

    let (code, screen) = answer("checkpoint llama3-70b", &[]);
    assert_eq!(code, Some(0), "{screen}");
    assert!(!screen.contains("without effect"), "{screen}");
    let answer_at = screen.rfind("llama3-70b saves at").expect(&screen);
    assert!(screen[answer_at..].contains("restores at"), "{screen}");

    let job = "[global]\nxfer_type=1\nrw=write\nbs=1M\nsize=64M\nruntime=1\n\
               [job1]\nnum_threads=2\ndirectory=.\n";
    let (code, screen) = answer("gdsio write.gdsio", &[("write.gdsio", job)]);
    assert_eq!(code, Some(0), "{screen}");
    assert!(screen.contains("IoType: WRITE XferType: CPUONLY"), "{screen}");
}
