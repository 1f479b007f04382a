//! A thread group ends whatever its threads do, and reports the fault.

use std::sync::mpsc;

use super::*;

/// The result of `work`, which must not block forever.
fn in_time<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> T {
    let (answer, answered) = mpsc::channel();
    thread::spawn(move || answer.send(work()));
    let patience = Duration::from_secs(30);
    answered.recv_timeout(patience).expect("it hangs")
}

/// A thread group of three; its thread `at` runs `act` before or after the gate.
fn thread_group_with(
    act: fn(),
    at: usize,
    before: bool,
) -> Result<(Vec<usize>, Instant), ThreadGroupError> {
    in_time(move || {
        let failed = StopToken::new();
        let work = |index: usize, start: &mut Start<'_>| {
            if before && index == at {
                act();
            }
            start.wait();
            if index == at {
                act();
            }
            while at < 3 && !failed.is_stopped() {
                thread::yield_now();
            }
            index
        };
        let watch = |watch: &Watch<'_>| {
            let start = watch.open();
            while !watch.is_over() {
                watch.sleep(Duration::from_millis(1));
            }
            start
        };
        run("tester", 0..3, &failed, work, watch)
    })
}

#[test]
fn a_thread_group_starts_together_and_answers_in_order() {
    let (results, _) = thread_group_with(|| {}, 3, false).unwrap();
    assert_eq!(results, [0, 1, 2]);
}

#[test]
fn a_panic_before_or_after_the_gate_is_an_error_and_ends_the_others() {
    for before in [true, false] {
        for at in 0..3 {
            let error = thread_group_with(|| panic!("broken"), at, before).unwrap_err();
            let expected =
                format!("thread tester-{at} panicked: broken; this is a fault of stormlp");
            assert_eq!(error.to_string(), expected);
        }
    }
}

#[test]
fn a_panic_of_the_watching_thread_lets_the_others_go() {
    for opens in [true, false] {
        let error = in_time(move || {
            let failed = StopToken::new();
            let work = |_: usize, start: &mut Start<'_>| {
                start.wait();
                while !failed.is_stopped() {
                    thread::yield_now();
                }
            };
            let watch = |watch: &Watch<'_>| {
                if opens {
                    watch.open();
                }
                panic!("cannot watch")
            };
            run::<_, _, ()>("tester", 0..3, &failed, work, watch).unwrap_err()
        });
        assert!(error.to_string().contains("main panicked: cannot watch"));
    }
}

#[test]
fn nothing_is_released_while_others_measure() {
    let measured = in_time(|| {
        let failed = StopToken::new();
        let still = std::sync::atomic::AtomicUsize::new(3);
        let work = |index: u64, start: &mut Start<'_>| {
            start.wait();
            thread::sleep(Duration::from_millis(index));
            still.fetch_sub(1, std::sync::atomic::Ordering::SeqCst);
            if index == 2 {
                // A thread that returns early does not block the rest.
                return 0;
            }
            start.wait_for_the_others();
            still.load(std::sync::atomic::Ordering::SeqCst)
        };
        let results = run("tester", 0..3, &failed, work, |watch| watch.open());
        results.unwrap().0
    });
    assert_eq!(measured, [0, 0, 0]);
}
