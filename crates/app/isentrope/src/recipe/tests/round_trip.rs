//! Loading and printing agree.

use super::settings::{
    Aggregation, Auto, Covariance, Evaluation, Judge, Kl, Limit, Panel, Program, Settings, Size,
};
use super::{assert_sound, load_text};
use crate::recipe::{render, render_changes};
use proptest::prelude::*;

#[test]
fn test_settings_are_sound() {
    assert_sound::<Settings>();
}

#[test]
fn empty_recipe_is_the_default() {
    assert_eq!(load_text::<Settings>("", &[]).unwrap(), Settings::default());
}

#[test]
fn overrides_create_tables_and_replace_values() {
    let text = "seed = 1\n[[evaluation]]\ndata = \"a\"\n[objective]\nclip_low = 0.1\n";
    let sets = [
        "seed=0x10",
        "model=/data/models/Qwen2.5-7B",
        "suffix=\"7\"",
        "objective.clip_low=3e-1",
        "objective.aggregation=seq-mean-token-mean",
        "objective.covariance={ kind = \"clip-cov\", fraction = 2e-4 }",
        "objective.covariance.high=5",
        "evaluation.0.samples=4",
        "limits.\"math.dapo\".rows=10",
        "optimizer.betas=[0.5, 1]",
        "kl.coefficient=1",
        "judge={ program = \"a.py\" }",
        "judge.copies=3",
        "seed=17",
    ];
    let settings = load_text::<Settings>(text, &sets).unwrap();
    let mut expected = Settings {
        seed: 17,
        model: "/data/models/Qwen2.5-7B".into(),
        suffix: "7".into(),
        kl: Some(Kl { coefficient: 1.0 }),
        ..Settings::default()
    };
    expected.objective.clip_low = 0.3;
    expected.objective.aggregation = Aggregation::SeqMeanTokenMean;
    expected.objective.covariance =
        Covariance::ClipCov { fraction: 2e-4, low: 1.0, high: Some(5.0) };
    expected.evaluation =
        vec![Evaluation { data: "a".into(), samples: 4, stop: vec![], limit: None }];
    expected.judge = Judge::Program(Program { program: "a.py".into(), copies: 3 });
    expected.limits.insert("math.dapo".into(), Limit { rows: 10 });
    expected.optimizer.betas = [0.5, 1.0];
    assert_eq!(settings, expected);
}

#[test]
fn empty_override_takes_a_key_out() {
    let text = "[kl]\ncoefficient = 1\n[objective]\ndual_clip = 3\nclip_low = 0.1\n";
    let sets = ["kl=", "objective.dual_clip=", "objective.clip_low =", "optimizer.schedule.steps="];
    assert_eq!(load_text::<Settings>(text, &sets).unwrap(), Settings::default());
}

#[test]
fn rendered_recipe_has_every_key_in_order() {
    let mut settings = Settings::default();
    settings.objective.covariance = Covariance::ClipCov { fraction: 2e-4, low: 0.1, high: None };
    settings.evaluation = vec![
        Evaluation {
            data: "a".into(),
            samples: 4,
            stop: vec!["\n".into()],
            limit: Some(Limit { rows: 2 }),
        },
        Evaluation { data: "b".into(), samples: 8, stop: vec![], limit: None },
    ];
    settings.weights = [("math".into(), 64.0), ("a b".into(), 1e9)].into();
    settings.limits = [("x".into(), Limit { rows: 1 })].into();
    let panel = vec![Program { program: "a.py".into(), copies: 2 }];
    settings.judge = Judge::Panel(Panel { panel });
    assert_eq!(
        render(&settings),
        r#"model = "models/tiny"
seed = 7
# output = (unset)
suffix = "\nLet's \"think\" about \\boxed{}.\t\u007F"
micro_batch_tokens = "auto"
k = [1, 8]

[objective]
aggregation = "token-mean"
is_clipped = true
clip_low = 0.2
# dual_clip = (unset)
# also = (unset)

[objective.covariance]
kind = "clip-cov"
fraction = 2e-4
low = 0.1
# high = (unset)

[optimizer]
learning_rate = 1e-6
betas = [0.9, 0.999]
warm_up = 0

[optimizer.schedule]
steps = 0

[[evaluation]]
data = "a"
samples = 4
stop = ["\n"]

[evaluation.limit]
rows = 2

[[evaluation]]
data = "b"
samples = 8
stop = []
# limit = (unset)

[weights]
"a b" = 1e9
math = 64.0

[limits.x]
rows = 1
# [kl] (unset)

[[judge.panel]]
program = "a.py"
copies = 2
"#
    );
}

#[test]
fn changes_are_what_differs_from_the_defaults() {
    let text = "seed = 8\nkl = { coefficient = 1 }\n[objective]\nclip_low = 0.1\nis_clipped = true\n\
                [objective.covariance]\nkind = \"clip-cov\"\nfraction = 1e-3\n\
                [[evaluation]]\ndata = \"a\"\n";
    let settings = load_text::<Settings>(text, &[]).unwrap();
    let changes = render_changes(&settings);
    let expected = "seed = 8\n\n[objective]\nclip_low = 0.1\n\n[objective.covariance]\n\
                    kind = \"clip-cov\"\nfraction = 0.001\nlow = 1.0\n\n[[evaluation]]\n\
                    data = \"a\"\nsamples = 8\nstop = []\n\n[kl]\ncoefficient = 1.0\n";
    assert_eq!(changes, expected);
    assert_eq!(load_text::<Settings>(&changes, &[]).unwrap(), settings);
    assert_eq!(render_changes(&Settings::default()), "");
}

prop_compose! {
    fn evaluation()(data in ".*", samples: i64, stop in prop::collection::vec(".*", 0..3), rows: Option<u32>)
        -> Evaluation {
        Evaluation { data: data.into(), samples, stop, limit: rows.map(|rows| Limit { rows }) }
    }
}

fn covariance() -> impl Strategy<Value = Covariance> {
    prop_oneof![
        Just(Covariance::None),
        (any::<f64>(), any::<f32>(), any::<Option<f32>>())
            .prop_map(|(fraction, low, high)| Covariance::ClipCov { fraction, low, high }),
        any::<f32>().prop_map(|beta| Covariance::KlCov { beta }),
    ]
}

fn judge() -> impl Strategy<Value = Judge> {
    let program = (".*", any::<i64>())
        .prop_map(|(program, copies)| Program { program: program.into(), copies });
    prop_oneof![
        Just(Judge::Chosen(Auto::Auto)),
        program.clone().prop_map(Judge::Program),
        prop::collection::vec(program, 0..3).prop_map(|panel| Judge::Panel(Panel { panel })),
    ]
}

prop_compose! {
    fn settings()(
        seed in 0..=i64::MAX as u64,
        output: Option<String>,
        suffix: String,
        size: Option<u32>,
        k: Vec<u32>,
        aggregations in prop::array::uniform2(0usize..3),
        clip_low in 0.0f32..=1.0,
        covariance in covariance(),
        learning_rate: f32,
        evaluation in prop::collection::vec(evaluation(), 0..3),
        weights in prop::collection::btree_map(".*", any::<f64>(), 0..3),
        limits in prop::collection::btree_map(".*", any::<u32>().prop_map(|rows| Limit { rows }), 0..3),
        (coefficient, judge) in (any::<Option<f64>>(), judge()),
    ) -> Settings {
        let ways = [Aggregation::TokenMean, Aggregation::SeqMeanTokenMean, Aggregation::SeqMeanTokenSum];
        let mut settings = Settings {
            seed,
            output: output.map(Into::into),
            suffix,
            micro_batch_tokens: size.map_or(Size::Chosen(Auto::Auto), Size::Given),
            k,
            evaluation,
            weights,
            limits,
            kl: coefficient.map(|coefficient| Kl { coefficient }),
            judge,
            ..Settings::default()
        };
        settings.objective.aggregation = ways[aggregations[0]];
        settings.objective.also = (seed % 2 == 0).then(|| ways[aggregations[1]]);
        settings.objective.clip_low = clip_low;
        settings.objective.covariance = covariance;
        settings.optimizer.learning_rate = learning_rate;
        settings
    }
}

proptest! {
    #[test]
    fn rendered_recipe_loads_as_the_same_settings(settings in settings()) {
        let text = render(&settings);
        let changes = render_changes(&settings);
        prop_assert_eq!(&load_text::<Settings>(&text, &[]).unwrap(), &settings, "{}", text);
        prop_assert_eq!(load_text::<Settings>(&changes, &[]).unwrap(), settings, "{}", changes);
    }

    #[test]
    fn no_text_makes_loading_panic(text in ".*", set in ".*") {
        let _ = load_text::<Settings>(&text, &[]);
        let _ = load_text::<Settings>("k = [1]\n[objective]\nclip_low = 0.1", &[&set]);
    }
}
