//! Names of measures, in tables and in table.json.

use super::measure::{Held, LawNumber, Measure, PredictionNumber, Taken};
use crate::collapse::TWELFTHS;
use crate::law::Form;
use serde::{Serialize, Serializer};

impl Taken {
    /// Its name in table.json.
    fn key(self) -> String {
        let form = |form: Form| match form {
            Form::Law => "law",
            Form::Linear => "linear",
            Form::Constant => "constant",
            Form::Saturating => "saturating",
        };
        match self {
            Self::Change => "change".into(),
            Self::Held(Held::Error) => "tracking-error".into(),
            Self::Held(Held::Share) => "share-held".into(),
            Self::Held(Held::Reached) => "reached-at-step".into(),
            Self::Held(Held::Least) => "least-after-reached".into(),
            Self::Held(Held::AtBound) => "share-at-bound".into(),
            Self::AtEntropy(target) => format!("at-entropy-{}", target.value()),
            Self::Law(LawNumber::RSquaredOverLine) => "r-squared-law-over-linear".into(),
            Self::End => "end".into(),
            Self::Best => "best".into(),
            Self::LastTenth => "last-tenth".into(),
            Self::Mean => "mean".into(),
            Self::ByTwelfth(twelfths) => format!("share-by-{twelfths}-of-{TWELFTHS}"),
            Self::Law(LawNumber::A) => "law-a".into(),
            Self::Law(LawNumber::B) => "law-b".into(),
            Self::Law(LawNumber::Ceiling) => "law-ceiling".into(),
            Self::Law(LawNumber::RSquared(of)) => format!("r-squared-{}", form(of)),
            Self::Law(LawNumber::Refused) => "law-refused".into(),
            Self::Predicted(percent, number) => match number {
                PredictionNumber::ErrorAtEnd(of) => {
                    format!("error-at-end-from-{percent}-percent-{}", form(of))
                }
                PredictionNumber::ErrorOver(of) => {
                    format!("error-at-end-from-{percent}-percent-law-over-{}", form(of))
                }
                PredictionNumber::Rmse(of) => format!("rmse-from-{percent}-percent-{}", form(of)),
            },
        }
    }
}

impl Serialize for Taken {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.key())
    }
}

/// So many twelfths as a fraction.
pub(super) fn part(twelfths: u32) -> String {
    match TWELFTHS % twelfths.max(1) {
        0 => format!("1/{}", TWELFTHS / twelfths.max(1)),
        _ => format!("{twelfths}/{TWELFTHS}"),
    }
}

impl Measure {
    /// Its name: `countdown: pass@8 at the end, %`.
    pub fn title(&self) -> String {
        let name = self.metric_title();
        let taken = match self.taken {
            Taken::End => "at the end",
            Taken::Best => "at its best",
            Taken::LastTenth => "over the last tenth of the steps",
            Taken::Mean => "over all steps (area / steps)",
            Taken::Change => "since before the first step",
            Taken::AtEntropy(target) => {
                return format!(
                    "{name} where entropy falls to {} nats{}",
                    target.value(),
                    self.unit()
                );
            }
            Taken::Held(number) => return format!("{name}: {}{}", number.title(), self.unit()),
            Taken::ByTwelfth(_) | Taken::Law(_) | Taken::Predicted(..) => {
                return self.title_of_science();
            }
        };
        format!("{name} {taken}{}", self.unit())
    }

    /// Its metric's name: `countdown: pass@8`.
    pub(super) fn metric_title(&self) -> String {
        match self.metric.strip_prefix("eval/").and_then(|rest| rest.rsplit_once('/')) {
            Some((set, name)) => format!("{set}: {name}"),
            None => self.metric.clone(),
        }
    }

    fn title_of_science(&self) -> String {
        let split = self.metric.strip_prefix("eval/").and_then(|rest| rest.rsplit_once('/'));
        let (set, name) = split.unwrap_or((&self.metric, "entropy"));
        let what = match self.taken {
            Taken::ByTwelfth(twelfths) if split.is_none() => {
                format!("fall over by {} of the run", part(twelfths))
            }
            Taken::ByTwelfth(twelfths) => {
                format!("gain in {name} made by {} of the run", part(twelfths))
            }
            Taken::Law(LawNumber::A) => "a".into(),
            Taken::Law(LawNumber::B) => "b".into(),
            Taken::Law(LawNumber::Ceiling) => "ceiling b - a".into(),
            Taken::Law(LawNumber::RSquared(form)) => format!("R^2 of {}", form.name()),
            Taken::Law(LawNumber::Refused) => "runs whose law is refused".into(),
            Taken::Law(LawNumber::RSquaredOverLine) => {
                "R^2 of the law less that of the line".into()
            }
            Taken::Predicted(percent, PredictionNumber::ErrorAtEnd(form)) => {
                format!("error at the end from the first {percent} %, {}", form.name())
            }
            Taken::Predicted(percent, PredictionNumber::ErrorOver(form)) => {
                format!("error at the end from the first {percent} %, the law less {}", form.name())
            }
            Taken::Predicted(percent, PredictionNumber::Rmse(form)) => {
                format!("RMSE after the first {percent} %, {}", form.name())
            }
            _ => name.into(),
        };
        format!("{set}: {what}{}", self.unit())
    }

    fn unit(&self) -> &'static str {
        match self.scale() {
            (s, _) if s > 1.0 && matches!(self.taken, Taken::Predicted(..) | Taken::Change) => {
                ", points"
            }
            (s, _) if s > 1.0 => ", %",
            _ if matches!(self.taken, Taken::Law(_) | Taken::Predicted(..) | Taken::Held(_)) => "",
            _ if self.metric.contains("entropy") || self.metric.ends_with("loss") => ", nats",
            _ if self.metric.contains("length") => ", tokens",
            _ => "",
        }
    }
}

impl Held {
    fn title(self) -> &'static str {
        match self {
            Self::Error => "tracking error, mean |ln(H / H*)| over the last half",
            Self::Share => "steps of the last half with |ln(H / H*)| < 0.1",
            Self::Reached => "first step within 10 % of H*",
            Self::Least => "least H / H* after that",
            Self::AtBound => "steps of the last half at its least or most",
        }
    }
}
