//! The self-test, as `isentrope doctor` runs it.

use crate::support::tiers;

#[test]
fn no_attempt_succeeds() {
    for sandbox in tiers() {
        let attempts = sandbox.self_test();
        for attempt in &attempts {
            eprintln!(
                "{} {}: {}",
                if attempt.held { "held" } else { "NOT HELD" },
                attempt.name,
                attempt.how
            );
        }
        assert!(attempts.iter().all(|attempt| attempt.held), "{}", sandbox.describe());
        assert_eq!(attempts.len(), 31);
    }
}
