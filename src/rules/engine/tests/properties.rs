//! Properties of every sequence of looks.

use proptest::prelude::*;

use super::*;

fn any_step() -> impl Strategy<Value = String> {
    let state = prop_oneof![
        Just("running"),
        Just("running : Go? [y/n]"),
        Just("running bells=1"),
        Just("running bells=2 : Password:"),
        Just("unknown"),
        Just("dead 0"),
        Just("dead SIGHUP bells=3"),
    ];
    let window = proptest::option::of((1..4_u32, state));
    let look = proptest::collection::vec(window, 3).prop_map(|windows| {
        let tasks = windows
            .into_iter()
            .enumerate()
            .filter_map(|(index, window)| {
                let (run, state) = window?;
                Some(format!("@{}#{run} a {state}", index + 1))
            });
        tasks.collect::<Vec<_>>().join("; ")
    });
    prop_oneof![
        8 => (0..300_u32, look).prop_map(|(ms, look)| format!("+{ms} {look}")),
        1 => Just("missing".to_owned()),
        2 => (0..100_u32).prop_map(|ms| format!("+{ms}")),
    ]
}

proptest! {
    #[test]
    fn every_event_is_delivered_once_at_most_and_in_order(
        steps in proptest::collection::vec(any_step(), 1..20),
    ) {
        let mut driver = Driver::new(Settings::LIVE, RestoredState::default());
        let mut undelivered = Vec::new();
        let mut next = 1;
        for step in steps.iter().map(String::as_str).chain(["deliver"]) {
            for effect in driver.step(step) {
                for record in effect.split(" & ") {
                    let (seq, what) = record.split_once(' ').unwrap();
                    let Ok(seq) = seq.parse::<Seq>() else { continue };
                    prop_assert_eq!(seq, next);
                    next += 1;
                    match what.split_once(" of ") {
                        Some((_, actual)) => {
                            let actual: Vec<Seq> =
                                actual.split(' ').map(|seq| seq.parse().unwrap()).collect();
                            let events: Vec<Seq> = undelivered.iter().map(|(seq, _)| *seq).collect();
                            prop_assert_eq!(actual, events);
                            undelivered.clear();
                        }
                        // What was answered before it was delivered is not delivered any more.
                        None if what.starts_with("resolved") => {
                            let (window, _) = what["resolved ".len()..].split_once('#').unwrap();
                            let answered = format!("input {window}#");
                            undelivered.retain(|(_, what): &(Seq, String)| !what.starts_with(&answered));
                        }
                        None => undelivered.push((seq, what.to_owned())),
                    }
                }
            }
        }
        prop_assert_eq!(undelivered, []);
    }
}
