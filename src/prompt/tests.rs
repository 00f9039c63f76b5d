use super::*;

fn screen(text: &str) -> Screen {
    Screen {
        rows: text.split('\n').map(str::to_owned).collect(),
        ..Screen::default()
    }
}

#[track_caller]
fn check(text: &str, expected: Option<&str>) {
    let found = find(&screen(text));
    assert_eq!(
        found.map(|found| found.prompt.text).as_deref(),
        expected,
        "{text:?}"
    );
}

#[test]
fn every_usual_question_is_found() {
    for line in [
        "Proceed? [y/N]",
        "Go on [Y/n]",
        "really [y/n]?",
        "Overwrite (y/n)",
        "Overwrite (Y/n)",
        "Overwrite (y/N) ",
        "Please CONFIRM",
        "Are you sure?",
        "proceed",
        "Continue?",
        "Press Enter to continue",
        "[sudo] password: ",
        "Enter passphrase:",
        "Select an option",
        "Choose a colour:",
        "Your choice:",
    ] {
        check(line, Some(line.trim()));
    }
}

#[test]
fn statements_are_not_questions() {
    for line in [
        "",
        "building...",
        "confirmed",
        "proceeding",
        "password changed",
        "continue",
    ] {
        check(line, None);
    }
}
