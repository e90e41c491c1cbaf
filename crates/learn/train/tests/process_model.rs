//! The first two updates of PRIME's process model against the same by PyTorch in float32
//! (tests/fixtures/process-model).

use crate::parity::{Fixture, LEARNING_RATE, TEMPERATURE, largest, require};
use isentrope_objective::process_loss;
use isentrope_train::learner::Learner;
use isentrope_train::process_model::ProcessBatch;

const BETA: f64 = 0.5;

/// The rollout's responses; right is whose reward is 1.
fn batch(fixture: &Fixture, learner: &Learner) -> (ProcessBatch, Vec<bool>) {
    let tokens = fixture.floats("first.log_ratios").len();
    let groups = fixture.sampled(&vec![0.0; tokens]);
    let responses =
        || groups.iter().flat_map(|group| group.responses.iter().map(|r| (&group.prompt[..], r)));
    let judged = responses().map(|(prompt, response)| (prompt, response, response.reward == 1.0));
    let batch = ProcessBatch::new(judged, &fixture.model(), learner, TEMPERATURE).unwrap();
    (batch, responses().map(|(_, response)| response.reward == 1.0).collect())
}

fn loss(log_ratios: &[Vec<f64>], correct: &[bool]) -> f64 {
    let lengths: Vec<usize> = log_ratios.iter().map(Vec::len).collect();
    process_loss(BETA, &lengths, &log_ratios.concat(), correct).loss
}

#[test]
fn updates_have_the_loss_and_the_gradient_of_pytorch() {
    let fixture = Fixture::read("process-model");
    let mut learner = fixture.learner();
    let (batch, correct) = batch(&fixture, &learner);
    let before = batch.accumulate(&batch.all(), &mut learner, BETA, TEMPERATURE).unwrap();
    assert!(
        before.iter().flatten().all(|&ratio| ratio == 0.0),
        "it begins as the reference, to the bit"
    );
    require("first: loss", (loss(&before, &correct) - fixture.facts["first"].loss).abs());
    fixture.require_gradient("first", &mut learner);

    // As in parity.rs: both second updates begin from the same gradient.
    let mut learner = fixture.learner();
    fixture.update(&mut learner, "first");
    let learnt = batch.accumulate(&batch.all(), &mut learner, BETA, TEMPERATURE).unwrap();
    assert_eq!(
        learnt,
        batch.log_ratios(&learner, TEMPERATURE).unwrap(),
        "scored alone, to the bit"
    );
    let theirs = fixture.floats("second.log_ratios");
    let ours = learnt.concat();
    assert_eq!(ours.len(), theirs.len());
    let off = largest(ours.iter().zip(&theirs).map(|(&a, b)| a as f32 - b));
    require("second: log-ratios", off / largest(theirs.iter().copied()));
    let expected = fixture.facts["second"].loss;
    require("second: loss", (loss(&learnt, &correct) - expected).abs() / expected);
    fixture.require_gradient("second", &mut learner);
}

/// A minibatch is the sum of its responses, however they are chosen and cut.
#[test]
fn a_minibatch_learns_from_its_own_responses_alone() {
    let fixture = Fixture::read("process-model");
    let mut learner = fixture.learner();
    let (batch, _) = batch(&fixture, &learner);
    fixture.update(&mut learner, "first");
    let all = batch.log_ratios(&learner, TEMPERATURE).unwrap();
    let places = [1, 4, 5, 11];
    let some = batch.accumulate(&places, &mut learner, BETA, TEMPERATURE).unwrap();
    assert_eq!(some, places.map(|place| all[place].clone()));
    assert!(learner.step(LEARNING_RATE).unwrap().is_finite());
    assert_ne!(batch.log_ratios(&learner, TEMPERATURE).unwrap(), all);
}
