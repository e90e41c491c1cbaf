//! The self-test, as `isentrope doctor` runs it.
#![cfg(target_os = "linux")]

use isentrope_sandbox::Sandbox;

#[test]
fn no_attempt_succeeds() {
    let sandbox = Sandbox::find().unwrap();
    eprintln!("{}: {}", sandbox.tier(), sandbox.describe());
    let attempts = sandbox.self_test();
    for attempt in &attempts {
        eprintln!("{} {}: {}", if attempt.held { "held" } else { "NOT HELD" }, attempt.name, attempt.how);
    }
    assert!(attempts.iter().all(|attempt| attempt.held));
    assert!(attempts.len() > 25, "{}", attempts.len());
}
