//! The self-test, as `isentrope doctor` runs it.
#![cfg(target_os = "linux")]

use isentrope_sandbox::{Sandbox, Tier};

#[test]
fn no_attempt_succeeds() {
    for tier in [Tier::Bubblewrap, Tier::Namespaces] {
        let sandbox = match Sandbox::of_tier(tier) {
            Ok(sandbox) => sandbox,
            Err(why) if tier == Tier::Bubblewrap => {
                eprintln!("SKIPPED for bubblewrap: {why}");
                continue;
            }
            Err(why) => panic!("{why}"),
        };
        eprintln!("{tier}: {}", sandbox.describe());
        let attempts = sandbox.self_test();
        for attempt in &attempts {
            eprintln!("{} {}: {}", if attempt.held { "held" } else { "NOT HELD" }, attempt.name, attempt.how);
        }
        assert!(attempts.iter().all(|attempt| attempt.held));
        assert_eq!(attempts.len(), 31);
    }
}
