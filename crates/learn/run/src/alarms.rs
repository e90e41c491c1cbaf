//! Alarms of collapse, raised from each step's numbers: each is shown once, with the setting to
//! change.

use crate::number::{fixed, whole_percent};
use crate::{ENTROPIES, Origin};
use serde::{Deserialize, Serialize};
use std::collections::VecDeque;
use std::fmt;

/// The policy has collapsed below this share of the first entropy.
const COLLAPSED: f64 = 0.1;
/// The policy has recovered above this share of the first entropy.
const RECOVERED: f64 = 0.2;
/// The entropy has exploded above this multiple of the first entropy, or of a target above that,
/// and above this number of nats, since a policy may begin next to certain and learn to explore.
const EXPLODED: f64 = 3.0;
const UNCERTAIN: f64 = 1.0;
/// The explosion is over below this multiple.
const CALM: f64 = 2.0;
/// The entropy is not held at a target if it is below this share of the target.
const HELD: f64 = 0.9;
/// The alarm is raised above this share of truncated responses, and is over below the next.
const TRUNCATED: f64 = 0.9;
const ENDING: f64 = 0.8;
/// The policy has fallen apart if it solves nothing and the truncated share has risen by more than
/// this since it last solved a problem.
const JUMP: f64 = 0.5;
/// The policy is worse than it was if it solves at most this share of the problems.
const WORSE: f64 = 0.5;
/// The share of groups without signal that counts as most, and the number of measured steps in a
/// row that raises the alarm.
const MOST: f64 = 0.5;
const PATIENCE: u32 = 5;
/// Lengths of this many measured steps are compared with the lengths of as many before them.
const WINDOW: usize = 5;
/// Responses grow if they are longer by this factor, by this number of standard errors, and with
/// this share truncated.
const LONGER: f64 = 1.03;
const ERRORS: f64 = 4.0;
const MANY: f64 = 0.25;
/// Measured steps in a row that must be well before an alarm may be raised again.
const WELL: u32 = 10;

/// The subject of an alarm.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// The entropy is below a tenth of the first measured one, and no target asks for that.
    Entropy,
    /// The entropy is three times the first measured one, and no target asks for that.
    Explosion,
    /// Nearly all responses are cut off.
    Truncation,
    /// Most groups have advantages of 0, in several measured steps in a row.
    NoSignal,
    /// Responses grow, and many of them are truncated.
    Length,
    /// The entropy of a mixture's routers is below a tenth of the first measured one.
    Router,
}

/// An alarm.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Alarm {
    /// Its subject.
    pub kind: Kind,
    /// Sentences with the measurement and the remedy.
    pub text: String,
}

/// Watches a run. Part of a run's saved state, so that a resumed run gives the same alarms.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Alarms {
    /// The first step that had an entropy above 0, and that entropy.
    first_entropy: Option<(u64, f64)>,
    /// The first step in which a problem was solved, and the share of problems that were.
    first_solved: Option<(u64, f64)>,
    /// The last step in which a problem was solved, and the share of truncated responses in it.
    last_solved: Option<(u64, f64)>,
    /// The first step that had an entropy of routers, and that entropy.
    first_router_entropy: Option<(u64, f64)>,
    /// Measured steps in a row in which most groups had no signal, and the first of them.
    without_signal: u32,
    without_signal_since: u64,
    /// The last measured steps.
    lengths: VecDeque<Lengths>,
    entropy: Watch,
    explosion: Watch,
    truncation: Watch,
    signal: Watch,
    length: Watch,
    router: Watch,
}

/// Responses of a step.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
struct Lengths {
    step: u64,
    /// Mean length, in tokens.
    mean: f64,
    /// Share cut off.
    truncated: f64,
}

/// Raises an alarm once, until the watched quantity has been well for a while.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
struct Watch {
    is_said: bool,
    well: u32,
}

impl Watch {
    /// Whether the alarm is to be raised now.
    fn rings(&mut self, is_ill: bool, is_well: bool) -> bool {
        if is_ill {
            self.well = 0;
            return !std::mem::replace(&mut self.is_said, true);
        }
        self.well = if is_well && self.is_said { self.well + 1 } else { 0 };
        if self.well == WELL {
            *self = Self::default();
        }
        false
    }
}

impl Alarms {
    /// Takes a step's metrics, by our names, and returns the messages after it. Alarms of this
    /// program's runs (`origin`) name settings to change. A log may have only every tenth step, so
    /// a message about several steps names them.
    pub fn after_step(
        &mut self,
        origin: Origin,
        step: u64,
        measured: &dyn Fn(&str) -> Option<f64>,
    ) -> Vec<Alarm> {
        let measured = |name: &str| measured(name).filter(|value| value.is_finite());
        let remedies = Remedies::of(origin);
        let remedy = |of: Remedy| remedies.as_ref().map(|all| of(all).to_owned());
        let mut alarms = Vec::new();
        let mut say = |kind, what: String, remedy: Option<String>| {
            let text = [Some(what), remedy].into_iter().flatten().collect::<Vec<_>>().join(" ");
            alarms.push(Alarm { kind, text });
        };
        if let Some((name, entropy)) =
            ENTROPIES.iter().find_map(|name| Some((name, measured(name)?)))
            && let Some((first_step, first)) = self.first(step, entropy)
        {
            let target = measured("entropy/target");
            let is_held = target.is_some_and(|target| entropy >= HELD * target);
            let is_ill = entropy < COLLAPSED * first && !is_held;
            if self.entropy.rings(is_ill, entropy >= RECOVERED * first || is_held) {
                let what = format!(
                    "the entropy has collapsed: {name} is {} nats, {} of the {} it was in step \
                     {first_step}. There is next to nothing left for exploration.",
                    fixed(entropy, 3),
                    whole_percent(entropy / first),
                    fixed(first, 3)
                );
                let remedy = remedies.as_ref().map(|remedies| match target {
                    Some(target) => Remedies::entropy_below(target),
                    None => remedies.entropy.to_owned(),
                });
                say(Kind::Entropy, what, remedy);
            }
            let base = target.map_or(first, |target| target.max(first));
            let is_ill = entropy > EXPLODED * base && entropy > UNCERTAIN;
            if self.explosion.rings(is_ill, entropy < CALM * base) {
                let what = format!(
                    "the entropy has exploded: {name} is {} nats, {} times the {} it was in step \
                     {first_step}. Responses become noise.",
                    fixed(entropy, 3),
                    fixed(entropy / first, 1),
                    fixed(first, 3)
                );
                say(Kind::Explosion, what, remedy(|of| of.explosion));
            }
        }
        let truncated = measured("response/truncated");
        let out_of_turns = measured("response/out_of_turns");
        let limit = Limit::of_most(truncated, out_of_turns);
        let solved = measured(SOLVED_NONE).map(|none| 1.0 - none);
        if let Some(solved) = solved.filter(|solved| *solved > 0.0) {
            self.first_solved.get_or_insert((step, solved));
            self.last_solved = Some((step, truncated.unwrap_or(1.0)));
        }
        if let Some(share) = truncated
            && self.truncation.rings(share > TRUNCATED, share <= ENDING)
        {
            let what = format!("{} of the responses are {limit}", whole_percent(share));
            let before = self.last_solved.filter(|(_, before)| share - before > JUMP);
            match before.filter(|_| solved == Some(0.0)) {
                Some((last, before)) => {
                    let what = format!(
                        "the policy has fallen apart: {what}, and none solves its problem. In \
                         step {last}, the last that solved one, {} were.",
                        whole_percent(before)
                    );
                    say(Kind::Truncation, what, remedy(|of| of.ruin));
                }
                None => say(Kind::Truncation, what + ".", limit.remedy(remedy(|of| of.truncation))),
            }
        }
        if let Some(share) = without_signal(&measured) {
            let is_most = share > MOST;
            self.without_signal = if is_most { self.without_signal.saturating_add(1) } else { 0 };
            if self.without_signal == 1 {
                self.without_signal_since = step;
            }
            if self.signal.rings(self.without_signal >= PATIENCE, !is_most) {
                let (cause, cure) = self.cause(&measured);
                let what = format!(
                    "most groups have had no signal from step {} to step {step}, {} measurements \
                     in a row, now {} of them: what their responses are worth is the same.{cause}",
                    self.without_signal_since,
                    self.without_signal,
                    whole_percent(share)
                );
                say(Kind::NoSignal, what, remedy(cure));
            }
        }
        if let (Some(length), Some(truncated)) = (measured("response/length_mean"), truncated)
            && let Some([before, now]) = self.windows(Lengths { step, mean: length, truncated })
        {
            let error = ((before.variance + now.variance) / WINDOW as f64).sqrt();
            let grows =
                now.length > LONGER * before.length && now.length - before.length > ERRORS * error;
            // If nearly all are truncated or entropy explodes, another alarm is raised, and this
            // one is not.
            let is_ill = grows && now.truncated >= MANY;
            let is_explained = self.truncation.is_said || self.explosion.is_said;
            if self.length.rings(is_ill && !is_explained, !is_ill) {
                let what = format!(
                    "responses grow, to {} tokens in steps {} to {} from {} in steps {} to {}, and \
                     {} of them are {limit}.",
                    fixed(now.length, 1),
                    now.steps.0,
                    now.steps.1,
                    fixed(before.length, 1),
                    before.steps.0,
                    before.steps.1,
                    whole_percent(now.truncated)
                );
                say(Kind::Length, what, limit.remedy(remedy(|of| of.length)));
            }
        }
        if let Some(entropy) = measured(ROUTER_ENTROPY) {
            let (first_step, first) = *self.first_router_entropy.get_or_insert((step, entropy));
            let is_ill = entropy < COLLAPSED * first;
            if self.router.rings(is_ill, entropy >= RECOVERED * first) {
                let what = format!(
                    "the routers have collapsed: {ROUTER_ENTROPY} is {} nats, {} of the {} it was \
                     in step {first_step}. Nearly every token's experts are settled, and the \
                     others learn nothing.",
                    fixed(entropy, 3),
                    whole_percent(entropy / first),
                    fixed(first, 3)
                );
                say(Kind::Router, what, remedy(|of| of.router));
            }
        }
        alarms
    }

    /// The first entropy above 0, the base of all shares, and its step.
    fn first(&mut self, step: u64, entropy: f64) -> Option<(u64, f64)> {
        if entropy > 0.0 {
            self.first_entropy.get_or_insert((step, entropy));
        }
        self.first_entropy
    }

    /// The reason why groups have no signal, if it is clear, and the settings to change.
    fn cause(&self, measured: &impl Fn(&str) -> Option<f64>) -> (String, Remedy) {
        let none = match (measured(SOLVED_ALL), measured(SOLVED_NONE)) {
            (Some(all), Some(none)) if all > none => {
                let text = format!(
                    " The problems are too easy: {} of them are solved by all responses.",
                    whole_percent(all)
                );
                return (text, |of| of.signal);
            }
            (Some(all), Some(none)) if none > all => none,
            _ => return (String::new(), |of| of.signal),
        };
        match self.first_solved {
            None => {
                let text = " No response has solved a problem yet: the problems are too hard, or \
                            the verifier misses right answers.";
                (text.to_owned(), |of| of.unsolved)
            }
            Some((step, first)) if 1.0 - none <= WORSE * first => {
                let text = format!(
                    " The policy is worse than it was: {} of the problems are solved by no \
                     response, {} were in step {step}.",
                    whole_percent(none),
                    whole_percent(1.0 - first)
                );
                (text, |of| of.ruin)
            }
            Some(_) => {
                let text = format!(
                    " The problems are too hard: {} of them are solved by no response.",
                    whole_percent(none)
                );
                (text, |of| of.signal)
            }
        }
    }

    /// The last window of steps and the window before it; none until there are enough steps.
    fn windows(&mut self, lengths: Lengths) -> Option<[Window; 2]> {
        self.lengths.push_back(lengths);
        if self.lengths.len() > 2 * WINDOW {
            self.lengths.pop_front();
        }
        let steps = self.lengths.make_contiguous();
        (steps.len() == 2 * WINDOW)
            .then(|| [Window::of(&steps[..WINDOW]), Window::of(&steps[WINDOW..])])
    }
}

/// Lengths of responses over consecutive steps.
struct Window {
    /// The first and the last.
    steps: (u64, u64),
    /// Mean over steps of the mean length, in tokens, and its variance from step to step.
    length: f64,
    variance: f64,
    /// Share cut off.
    truncated: f64,
}

impl Window {
    fn of(steps: &[Lengths]) -> Self {
        let count = steps.len() as f64;
        let length = steps.iter().map(|step| step.mean).sum::<f64>() / count;
        let squares: f64 =
            steps.iter().map(|step| (step.mean - length) * (step.mean - length)).sum();
        let truncated = steps.iter().map(|step| step.truncated).sum::<f64>() / count;
        let ends = steps.first().zip(steps.last());
        let steps = ends.map_or((0, 0), |(first, last)| (first.step, last.step));
        Self { steps, length, variance: squares / (count - 1.0), truncated }
    }
}

/// The limit that cuts most of the cut off responses. `Display` follows "responses are".
#[derive(Clone, Copy)]
enum Limit {
    /// The longest length. Responses have one turn.
    Length,
    /// The longest length of an episode.
    EpisodeLength,
    /// The number of turns.
    Turns,
}

impl Limit {
    /// From the shares of responses that are cut off, and that are because no turns are left.
    fn of_most(truncated: Option<f64>, out_of_turns: Option<f64>) -> Self {
        match (truncated, out_of_turns) {
            (Some(truncated), Some(turns)) if 2.0 * turns > truncated => Self::Turns,
            (_, Some(_)) => Self::EpisodeLength,
            (_, None) => Self::Length,
        }
    }

    /// The settings to change, instead of those for the longest length.
    fn remedy(self, of_length: Option<String>) -> Option<String> {
        of_length.map(|text| match self {
            Self::Length | Self::EpisodeLength => text,
            Self::Turns => "Raise environment.max_turns, or let the environment end episodes \
                            sooner or reward short ones."
                .to_owned(),
        })
    }
}

impl fmt::Display for Limit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Length => "cut off at the longest length",
            Self::EpisodeLength => "cut off, most at the longest length",
            Self::Turns => "cut off, most at the last turn",
        })
    }
}

/// Whether alarms may follow from a metric.
pub fn is_watched(name: &str) -> bool {
    let groups = ["policy/", "response/", "router/"];
    groups.iter().any(|group| name.starts_with(group)) || is_of_signal(name)
}

const WITHOUT_SIGNAL: &str = "update/groups_without_signal";
const ROUTER_ENTROPY: &str = "router/entropy";
const SOLVED_ALL: &str = "reward/solved_all";
const SOLVED_NONE: &str = "reward/solved_none";

fn is_of_signal(name: &str) -> bool {
    [WITHOUT_SIGNAL, SOLVED_ALL, SOLVED_NONE].contains(&name)
}

/// The share of groups without signal. If it is not measured, groups with equal verdicts count as
/// such, unless a group is a single response, which is compared with other groups.
fn without_signal(measured: &impl Fn(&str) -> Option<f64>) -> Option<f64> {
    measured(WITHOUT_SIGNAL).or_else(|| {
        let is_single = measured("rollout/responses")
            .is_some_and(|responses| measured("rollout/groups") == Some(responses));
        let share = measured(SOLVED_ALL)? + measured(SOLVED_NONE)?;
        (!is_single).then_some(share)
    })
}

/// Picks the settings to change.
type Remedy = fn(&Remedies) -> &'static str;

/// The settings to change.
struct Remedies {
    entropy: &'static str,
    explosion: &'static str,
    ruin: &'static str,
    truncation: &'static str,
    signal: &'static str,
    unsolved: &'static str,
    length: &'static str,
    router: &'static str,
}

impl Remedies {
    /// The alarm that a run's target, in nats, is not held.
    fn entropy_below(target: f64) -> String {
        format!(
            "Its target of {} nats (objective.covariance.target_entropy, \
             objective.entropy_bonus.target, objective.methods.repo_r.target_entropy or \
             objective.methods.entropic.target) is not held: raise \
             objective.covariance.controller.max or gain (docs/concepts/entropy.md), \
             objective.entropy_bonus.max, objective.methods.repo_r.zeta_max or \
             objective.methods.entropic.k_p, or lower \
             optimizer.learning_rate. What is spent does not come back: start again, or from a \
             checkpoint before it.",
            fixed(target, 3)
        )
    }

    /// The alarm's settings in this program; none for another trainer's run, whose settings are not
    /// known.
    fn of(origin: Origin) -> Option<Self> {
        matches!(origin, Origin::Isentrope | Origin::Unknown).then_some(Self {
            entropy: "Hold an entropy with objective.covariance.target_entropy, which \
                      objective.covariance.method = \"clip-cov\" or \"kl-cov\" restrains \
                      tokens for (docs/concepts/entropy.md), or raise objective.clip_high or \
                      objective.entropy_bonus.coefficient; a lower optimizer.learning_rate \
                      spends it more slowly. What is spent does not come back: start again, or \
                      from a checkpoint before it.",
            explosion: "Weaken what raises it (objective.entropy_bonus.coefficient, \
                        objective.covariance, objective.methods) or lower \
                        optimizer.learning_rate, and start again, or from an earlier checkpoint.",
            ruin: "Its updates may have done that: lower optimizer.learning_rate, and \
                   objective.entropy_bonus.coefficient if it is set, and start again, or from an \
                   earlier checkpoint.",
            truncation: "Raise rollout.max_tokens, or let length cost something with \
                         reward.overlong.buffer; an environment's texts count, too. If the model \
                         never ends a response, look at data.template and rollout.stop.",
            signal: "Choose data that the model solves now and then, or raise rollout.responses; \
                     rollout.filter = true samples other problems in place of these.",
            unsolved: "Read responses in rollouts/: if right answers are judged wrong, `isentrope \
                       grade --explain ANSWER RESPONSE` says why; if none is right, choose data \
                       that the model solves now and then, or raise rollout.responses.",
            length: "Let length cost something with reward.overlong.buffer, leave cut off \
                     responses out with reward.mask_truncated = true, or raise rollout.max_tokens.",
            router: "Balance the experts with router_aux_coefficient (objective, sft), or lower \
                     optimizer.learning_rate.",
        })
    }
}
