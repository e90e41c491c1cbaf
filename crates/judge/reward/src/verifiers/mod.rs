//! The verifiers that are not made of others, a file each, and their registry.
//!
//! A verifier is a file here that implements [`Spec`] for its settings and [`Verifier`] for itself,
//! and a line in the registry below.

mod auto;
mod code;
pub mod command;
pub mod countdown;
pub mod math;
mod none;
mod python;

use isentrope_settings::Error;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

pub use code::CodeVerifierSettings;
pub use command::{CommandSettings, QuestionBatch, WorkerSettings};
pub use math::MathSettings;
pub use python::{Argument, PYTHON_COMMON, PythonSettings, launch_shim, place_and_name};

use crate::{Item, Judgement, Verdict, Verifier, VerifierError, in_threads};

/// A verifier as a recipe sets it.
pub(crate) trait Spec {
    /// Makes the verifier. `key` is the recipe's key and `value` what it has there, for messages.
    fn build(&self, key: &str, value: &str) -> Result<Box<dyn Verifier>, VerifierError>;

    /// Checks what ranges do not say; `key` is the recipe's key, for messages.
    fn check(&self, _key: &str) -> Result<(), Error> {
        Ok(())
    }

    /// Whether a ground truth is of the form that only this verifier judges; `auto` goes by it.
    fn claims(&self, _ground_truth: &Value) -> bool {
        false
    }

    /// Whether it can use a ground truth; what is wrong with it, as part of a sentence.
    fn check_ground_truth(&self, _ground_truth: &Value) -> Result<(), String> {
        Ok(())
    }

    /// A reason why right responses to a problem may be judged wrong although its ground truth can
    /// be used.
    fn concern(&self, _item: &Item<'_>) -> Option<String> {
        None
    }

    /// Whether it may judge by the tests of a program.
    fn judges_programs(&self) -> bool {
        false
    }

    /// Processes that it starts; none if it judges in this process.
    fn workers(&self) -> Option<usize> {
        None
    }

    /// Names in the settings that may be files on which verdicts depend.
    fn files(&self) -> Vec<String> {
        Vec::new()
    }

    /// Whether it is given all columns of a problem's row.
    fn takes_columns(&self) -> bool {
        false
    }

    /// Whether it judges all responses to a problem together.
    fn judges_groups(&self) -> bool {
        false
    }

    /// Whether it scores every response 0 without looking at it.
    fn judges_nothing(&self) -> bool {
        false
    }

    /// Judges a response in this process, if it can.
    fn verify(&self, _item: &Item<'_>, _response: &str) -> Judgement {
        Judgement::new(Verdict::Fault, None, "it is judged in other processes alone")
    }

    /// Whether two answers found in responses to a problem are one, whatever their spelling.
    fn same_answer(&self, _item: &Item<'_>, a: &str, b: &str) -> bool {
        a == b
    }
}

macro_rules! registry {
    (
        names { $($(#[$about:meta])* $file:ident: $name:ident => $spec:expr;)* }
        tables { $($(#[$table_about:meta])* $table_file:ident: $table:ident => $settings:ty;)* }
    ) => {
        /// A built-in verifier.
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
        #[serde(rename_all = "kebab-case")]
        pub enum VerifierName { $($(#[$about])* $name,)* }

        impl VerifierName {
            /// All built-in verifiers.
            pub const ALL: &[Self] = &[$(Self::$name),*];

            /// Its settings with their defaults.
            pub(crate) fn spec(self) -> Box<dyn Spec> {
                match self { $(Self::$name => Box::new($spec),)* }
            }
        }

        /// A verifier that is not made of others.
        #[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
        #[serde(untagged)]
        pub enum Single {
            /// A built-in one.
            BuiltIn(VerifierName),
            $($(#[$table_about])* $table($settings),)*
        }

        impl Single {
            /// Its settings.
            pub(crate) fn spec(&self) -> Box<dyn Spec> {
                match self {
                    Self::BuiltIn(name) => name.spec(),
                    $(Self::$table(settings) => Box::new(settings.clone()),)*
                }
            }

            /// The recipe's value, for messages.
            pub(crate) fn recipe_value(&self) -> String {
                match self {
                    Self::BuiltIn(name) => format!("{:?}", name.name()),
                    $(Self::$table(_) => {
                        concat!("{ ", stringify!($table_file), " = { ... } }").into()
                    })*
                }
            }
        }

        /// The files of the verifiers.
        #[cfg(test)]
        const FILES: &[&str] = &[$(stringify!($file),)* $(stringify!($table_file),)*];
    };
}

registry! {
    names {
        /// By each problem's ground truth: `countdown` where it has numbers and a target, `code`
        /// where it is the tests of a program, else `math`.
        #[default]
        auto: Auto => auto::AutoSpec;
        /// Exact arithmetic on the steps of the built-in task.
        countdown: Countdown => countdown::Countdown;
        /// Mathematical answers: the content of the last `\boxed{}`, else what is stated as the
        /// answer, the last formula or the last number, compared by value with the ground truth.
        /// docs/guides/data-and-rewards.md has the rules.
        math: Math => MathSettings::default();
        /// Python programs: the last code block is run in a sandbox and held against the tests
        /// that are the ground truth. docs/guides/data-and-rewards.md has their forms.
        code: Code => CodeVerifierSettings::default();
        /// No response is judged and all score 0, so the data need no answers: for
        /// `objective.advantage = "distill"`.
        none: None => none::Nothing;
    }
    tables {
        /// The built-in verifier `math` with other options than the usual ones.
        math: Math => MathSettings;
        /// The built-in verifier `code` with other options than the usual ones.
        code: Code => CodeVerifierSettings;
        /// A program of your own; docs/guides/data-and-rewards.md says what it is asked and what it
        /// answers.
        command: Command => CommandSettings;
        /// A Python function of your own, as verl and TRL call them;
        /// docs/guides/data-and-rewards.md has both forms.
        python: Python => PythonSettings;
    }
}

impl VerifierName {
    /// Its name in recipes.
    fn name(self) -> String {
        serde_json::to_value(self)
            .ok()
            .and_then(|name| name.as_str().map(str::to_owned))
            .unwrap_or_default()
    }

    /// The verifier that judges a problem with this ground truth: never `auto`.
    pub(crate) fn of(self, ground_truth: &Value) -> Self {
        if self != Self::Auto {
            return self;
        }
        let claims = |name: &&Self| **name != Self::Auto && name.spec().claims(ground_truth);
        Self::ALL.iter().find(claims).copied().unwrap_or(Self::Math)
    }

    /// Judges a response in this process. Programs are a fault here: they need the sandboxes of
    /// [`VerifierSettings::build`](crate::VerifierSettings::build).
    pub fn verify(self, item: &Item<'_>, response: &str) -> Judgement {
        self.of(item.ground_truth).spec().verify(item, response)
    }
}

impl Verifier for VerifierName {
    fn verify_batch(&self, batch: &[(Item<'_>, &str)]) -> Result<Vec<Judgement>, VerifierError> {
        Ok(in_threads(batch, |item, response| self.verify(item, response)))
    }

    fn same_answer(&self, item: &Item<'_>, a: &str, b: &str) -> bool {
        self.of(item.ground_truth).spec().same_answer(item, a, b)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn every_file_is_in_the_registry() {
        let directory = concat!(env!("CARGO_MANIFEST_DIR"), "/src/verifiers");
        for entry in std::fs::read_dir(directory).unwrap() {
            let path = entry.unwrap().path();
            let name = path.file_stem().and_then(|name| name.to_str()).unwrap().to_owned();
            assert!(
                name == "mod" || FILES.contains(&name.as_str()),
                "{name} is not in the registry"
            );
        }
    }

    #[test]
    fn auto_goes_by_the_ground_truth() {
        let verify = |ground_truth: &Value, response: &str| {
            let item = Item { ground_truth, ..Item::default() };
            VerifierName::Auto.verify(&item, response).verdict
        };
        let challenge = json!({"numbers": [1, 2], "target": 3});
        assert_eq!(verify(&challenge, "1+2=3!"), Verdict::Correct);
        assert_eq!(verify(&challenge, "It is 3"), Verdict::Unparseable);
        assert_eq!(verify(&json!("3"), "It is 3"), Verdict::Correct);
        assert_eq!(verify(&json!(null), "It is 3"), Verdict::Fault);
        let tests = json!({"inputs": ["1"], "outputs": ["2"]});
        assert_eq!(
            verify(&tests, "print(2)"),
            Verdict::Fault,
            "programs are not run without a sandbox"
        );
        let check =
            |name: VerifierName, ground_truth: &Value| name.spec().check_ground_truth(ground_truth);
        for tests in [tests.clone(), json!(tests.to_string()), json!(["assert f(1) == 2"])] {
            assert!(check(VerifierName::Auto, &tests).is_ok(), "{tests}");
            assert!(check(VerifierName::Code, &tests).is_ok(), "{tests}");
            let problem = check(VerifierName::Math, &tests).unwrap_err();
            assert!(problem.contains("the tests of a program"), "{tests}: {problem}");
        }
        assert!(check(VerifierName::Auto, &json!({"inputs": ["1"], "outputs": []})).is_err());
        assert!(check(VerifierName::Code, &json!("3")).is_err());
        assert!(check(VerifierName::Auto, &json!({"numbers": [], "target": 3})).is_err());
        assert!(check(VerifierName::Auto, &json!("")).is_err());
        assert!(check(VerifierName::Auto, &challenge).is_ok());
    }
}
