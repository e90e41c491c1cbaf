use super::*;
use crate::test_support::{cpu, layout};
use isentrope_model::{ModelConfig, SHARING_TOKENS};

/// A vocabulary of 150000 and little else.
fn wide() -> Layout {
    let json = r#"{"model_type": "qwen2", "architectures": ["Qwen2ForCausalLM"], "hidden_size": 16,
        "intermediate_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2, "num_key_value_heads": 1,
        "vocab_size": 150000, "max_position_embeddings": 4096, "rms_norm_eps": 1e-6, "rope_theta": 10000.0,
        "tie_word_embeddings": true}"#;
    read(json)
}

/// A model whose recurrent states are much larger than the keys and values of short responses.
fn hybrid() -> Layout {
    let json = r#"{"model_type": "qwen3_5_text", "hidden_size": 32, "intermediate_size": 32,
        "num_hidden_layers": 2, "full_attention_interval": 2, "num_attention_heads": 2,
        "num_key_value_heads": 2, "head_dim": 16, "linear_num_key_heads": 4,
        "linear_num_value_heads": 8, "linear_key_head_dim": 64, "linear_value_head_dim": 64,
        "vocab_size": 512, "max_position_embeddings": 1024}"#;
    read(json)
}

fn read(json: &str) -> Layout {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("config.json"), json).unwrap();
    Layout::new(&ModelConfig::read(dir.path()).unwrap())
}

/// The demand of updates alone: sequences of 1000 tokens, 700 of them a response's.
fn updates(trained: usize) -> Demand {
    Demand {
        longest_trained: 1000,
        trained,
        waiting_tokens: trained.saturating_mul(1000),
        loss_tokens: trained.saturating_mul(700),
        ..Demand::default()
    }
}

/// The demand of rollouts of `sampled` responses of 100 tokens each.
fn rollouts(sampled: usize) -> Demand {
    let trained = 100 * sampled;
    Demand { longest_sampled: 100, sampled, longest_trained: 100, trained, ..Demand::default() }
}

fn plan(layout: &Layout, demand: Demand, bytes: usize) -> Result<Plan> {
    let budget_gib = Some(bytes as f64 / (1u64 << 30) as f64);
    let settings = MemorySettings { budget_gib, ..Default::default() };
    Plan::new(&cpu(), layout, demand, &settings, 0)
}

fn refusal(layout: &Layout, demand: Demand, bytes: usize) -> String {
    plan(layout, demand, bytes).unwrap_err().to_string()
}

#[test]
fn the_longest_evaluated_response_has_room_too() {
    let layout = layout();
    let demand = Demand { waiting_tokens: 100, loss_tokens: 100, trained: 1, ..rollouts(1) };
    let long = Demand { longest_sampled: 100_000, ..demand };
    let pages = 100_000usize.div_ceil(cpu().page_positions()) + 1;
    let cache = pages * layout.cache_page_bytes(&cpu());
    let (short, roomy) =
        (plan(&layout, demand, 1 << 30).unwrap(), plan(&layout, long, 1 << 30).unwrap());
    assert_eq!(roomy.kv_cache, cache);
    assert_eq!((roomy.tape, roomy.working), (short.tape, short.working), "training is as it was");
    let refused = refusal(&layout, long, OVERHEAD + cache);
    assert!(refused.contains("work on 100000 tokens"), "{refused}");
    plan(&layout, demand, OVERHEAD + cache).unwrap();
}

/// With a state for each response, or in the least memory for a prompt and one response to it.
#[test]
fn responses_have_room_for_their_recurrent_states() {
    let (layout, cpu) = (hybrid(), cpu());
    let demand = Demand { longest_sampled: 20, ..rollouts(24) };
    let whole = plan(&layout, demand, 1 << 30).unwrap().kv_cache;
    let (state, position) = (layout.state_bytes(&cpu), layout.cache_bytes_per_position(&cpu));
    assert!(state as f64 > 100.0 * position, "{state} {position}");
    assert!(whole as f64 >= 24.0 * (state as f64 + 20.0 * position), "{whole} {state}");
    for demand in [demand, Demand { sampled: 1, ..demand }] {
        let least = plan(&layout, demand, Plan::least(&cpu, &layout, demand)).unwrap();
        assert!(least.kv_cache >= 2 * state, "{} {state}", least.kv_cache);
    }
}

#[test]
fn activations_are_kept_from_sampling_where_all_else_has_its_place() {
    let layout = layout();
    let of = |waiting_tokens, activation_slots, bytes| {
        let demand = Demand { waiting_tokens, activation_slots, ..rollouts(8) };
        plan(&layout, demand, bytes).unwrap()
    };
    let (without, slot) = (of(80_000, 0, 1 << 30), layout.activation_bytes_per_slot(&cpu()));
    assert!(!without.to_string().contains("kept for the update"), "{without}");
    // The phases take turns, and an update needs the most.
    let in_turns = |plan: &Plan| plan.always() + plan.gradient + plan.tape + plan.working;
    let peak = in_turns(&without);
    assert!(without.peak() == peak + without.kv_cache + without.logits && !without.is_tight());
    for (spare, slots) in
        [(0, 0), (slot - 1, 0), (10 * slot, 10), (800 * slot, 800), (900 * slot, 800)]
    {
        let plan = of(80_000, 800, peak + spare);
        assert_eq!((plan.passes().activation_slots, plan.activation_cache), (slots, slots * slot));
        assert_eq!(in_turns(&plan), peak + plan.activation_cache);
        assert!(plan.peak() <= plan.budget, "{plan}");
        let others = |plan: &Plan| (plan.kv_cache, plan.logits, plan.tape, plan.working);
        assert_eq!(others(&plan), others(&without), "nothing else gives way");
    }
    let message = of(80_000, 800, 1 << 30).to_string();
    assert!(message.contains("activations kept for the update up to"), "{message}");

    // If no pass waits for another, this pass has the memory of all tapes.
    let one_pass = |passes: &Plan| {
        passes.micro_batch_tokens * layout.tape_bytes_per_token(&cpu(), TapeKind::Activations)
    };
    assert!(without.tape > one_pass(&without));
    let alone = of(0, 800, peak);
    assert!(alone.tape <= one_pass(&alone) && alone.activation_cache > 0, "{alone}");
}

#[test]
fn a_plan_stays_within_its_budget_whatever_is_asked_for() {
    let layout = wide();
    let (mut refused, mut made) = (0, 0);
    for budget in [0.1, 0.2, 0.23, 0.24, 0.25, 0.3, 0.35, 0.5, 1.0, 4.0] {
        for micro_batch_tokens in
            [None, Some(1), Some(1500), Some(4000), Some(1_000_000), Some(usize::MAX)]
        {
            for trained in [1, 8, 100, 1 << 20, usize::MAX] {
                let settings = MemorySettings {
                    budget_gib: Some(budget),
                    micro_batch_tokens,
                    ..Default::default()
                };
                match Plan::new(&cpu(), &layout, updates(trained), &settings, 0) {
                    Ok(plan) => {
                        made += 1;
                        assert!(plan.peak() <= plan.budget, "{settings:?}, {trained}: {plan}");
                    }
                    Err(Error::Setting { key, .. }) => {
                        refused += 1;
                        assert_eq!(key, "memory.micro_batch_tokens");
                        let is_large = micro_batch_tokens.is_some_and(|tokens| tokens > 1);
                        assert!(is_large, "{settings:?}");
                    }
                    Err(e) => assert!(e.to_string().contains("the run needs at least"), "{e}"),
                }
            }
        }
    }
    assert!(refused > 5 && made > 30, "{refused} and {made}");
    let settings = MemorySettings {
        budget_gib: Some(0.3),
        micro_batch_tokens: Some(1_000_000),
        ..Default::default()
    };
    for (trained, message) in [
        (1 << 20, "the run needs at least"), // for the loss alone
        (100, "memory.micro_batch_tokens is too large: a pass of 100000 tokens"),
    ] {
        let error = Plan::new(&cpu(), &layout, updates(trained), &settings, 0).unwrap_err();
        assert!(error.to_string().starts_with(message), "{error}");
    }
}

#[test]
fn logits_losses_and_tokens_kept_by_top_k_are_planned_for() {
    let layout = wide();
    let of = |demand| plan(&layout, demand, 8 << 30).unwrap();
    let (with, without) = (of(updates(8)), of(Demand { loss_tokens: 0, ..updates(8) }));
    assert!(with.working > 120 << 20, "the head's logits alone take 128 MiB");
    assert_eq!(with.working - without.working, 8 * 700 * LOSS_BYTES);

    let kept =
        |kept_tokens| Demand { longest_sampled: 1000, sampled: 8, kept_tokens, ..updates(8) };
    let (without, with) = (of(kept(0)), of(kept(1 << 30)));
    assert_eq!(with.peak(), without.peak() + (1 << 30));
    assert!(with.to_string().contains("kept by truncated sampling up to 1024 MiB"), "{with}");
    assert!(!without.to_string().contains("kept by"), "{without}");
    let refused = refusal(&layout, kept(8 << 30), 8 << 30);
    assert!(refused.contains("tokens kept by top-k 8192 MiB, and"), "{refused}");
    assert!(refused.contains("a smaller rollout.top_k would make it fit"), "{refused}");
    plan(&layout, kept(usize::MAX), 8 << 30).unwrap_err();
}

#[test]
fn scored_responses_have_room_and_take_turns_with_the_rest() {
    let layout = layout();
    let of = |scored| plan(&layout, Demand { scored, ..updates(8) }, 1 << 30).unwrap();
    let (none, short, roomy) = (of(0), of(100), of(100_000));
    assert_eq!(none.scoring, 0);
    // A pass has as many tokens as a pass of an update, or the longest response.
    let tokens = short.micro_batch_tokens.max(SHARING_TOKENS);
    assert_eq!(short.scoring, layout.working_bytes(&cpu(), tokens));
    assert_eq!((short.tape, short.working), (none.tape, none.working), "updates are as they were");
    let bytes = layout.working_bytes(&cpu(), 100_000);
    assert_eq!(roomy.scoring, bytes);
    assert!(roomy.peak() >= OVERHEAD + bytes && roomy.to_string().contains("initial states"));
    let refused = refusal(&layout, Demand { scored: 100_000, ..updates(8) }, OVERHEAD + bytes);
    for part in ["work on 100000 tokens", "lab.track_states"] {
        assert!(refused.contains(part), "{refused}");
    }
    plan(&layout, updates(8), OVERHEAD + bytes).unwrap();
}

#[test]
fn sampling_has_the_memory_of_the_gradient() {
    let layout = wide();
    let demand = Demand { longest_sampled: 4000, sampled: 100_000, ..updates(8) };
    let roomy = plan(&layout, demand, 4 << 30).unwrap();
    assert!(roomy.gradient > 9 << 20 && roomy.is_tight(), "{roomy}");
    // Sampling may have everything except the memory that stays in all phases.
    let stays = OVERHEAD + roomy.weights + roomy.moments;
    assert_eq!(roomy.kv_cache, roomy.budget - stays - roomy.logits);
    assert_eq!(roomy.peak(), roomy.budget);
    let update = roomy.gradient + roomy.tape + roomy.working;
    assert!(stays + update <= roomy.budget, "{roomy}");
    // If all phases fit at a time, nothing is given back.
    let short = Demand { longest_sampled: 100, sampled: 1, ..updates(8) };
    let plan = plan(&layout, short, 4 << 30).unwrap();
    assert!(!plan.is_tight() && plan.to_string().contains("updates: gradient 9 MiB"), "{plan}");
}

#[test]
fn remedies_that_are_enough_are_named_with_the_memory_that_the_run_would_need() {
    let layout = wide();
    let sets = ParameterSets { reference: true, shards: 8, ..Default::default() };
    let with = Demand { sets, ..updates(8) };
    let least_with = |sets| Plan::least(&cpu(), &layout, Demand { sets, ..with });
    // Without the reference there is a set less, with one shard there are three less.
    let (all, without) = (least_with(sets), least_with(ParameterSets { reference: false, ..sets }));
    let one_shard = least_with(ParameterSets { shards: 1, ..sets });
    assert!(one_shard < without && without < all);
    let message = refusal(&layout, with, all - 1);
    let both = format!(
        "; objective.reference_kl.coefficient = 0 ({}), or fewer shards (update.shards, \
         sft.shards) ({}), or 2 ranks (",
        human(without),
        human(one_shard)
    );
    assert!(message.contains(&both) && !message.contains("less with"), "{message}");
    let message = refusal(&layout, with, one_shard);
    assert!(!message.contains("reference_kl") && message.contains("; fewer shards"), "{message}");
    let with_adapters = Plan::least(&cpu(), &layout.with_default_adapter(), with);
    let message = refusal(&layout, with, with_adapters - 1);
    let less = "; it would need less with objective.reference_kl.coefficient = 0 (";
    assert!(message.contains(less), "{message}");
    let without_reference = "objective.distillation.self_teacher = \"live\"";
    let sets = ParameterSets { without_reference, ..sets };
    let message = refusal(&layout, Demand { sets, ..with }, all - 1);
    let live = format!("; objective.distillation.self_teacher = \"live\" ({})", human(without));
    assert!(message.contains(&live) && !message.contains("reference_kl"), "{message}");
}

#[test]
fn adapters_are_a_remedy_if_the_run_fits_with_them() {
    let (layout, demand) = (wide(), updates(8));
    let adapted = layout.with_default_adapter();
    let (all, least) =
        (Plan::least(&cpu(), &layout, demand), Plan::least(&cpu(), &adapted, demand));
    assert!(least < all);
    let remedy =
        |bytes: usize| format!("adapters in place of all weights ([lora]) ({})", human(bytes));
    for (budget, words) in [(all - 1, ", or "), (least, "; "), (least - 1, "need less with ")] {
        let message = refusal(&layout, demand, budget);
        assert!(message.contains(&format!("{words}{}", remedy(least))), "{message}");
    }
    let never = ParameterSets { may_adapt: false, ..Default::default() };
    assert!(!refusal(&layout, Demand { sets: never, ..demand }, least).contains("[lora]"));
    // Its updates have nothing to save.
    assert!(!refusal(&adapted, demand, least - 1).contains("[lora]"));
    let alone = |budget: f64| {
        let settings = MemorySettings { budget_gib: Some(budget), ..Default::default() };
        let sets = ParameterSets::default();
        Plan::check_model(&cpu(), &layout, sets, &settings, 0).unwrap_err().to_string()
    };
    let frozen = ParameterSets::default().bytes(&cpu(), &adapted).iter().sum::<usize>() + OVERHEAD;
    let gib = |bytes: usize| bytes as f64 / (1u64 << 30) as f64;
    assert!(
        alone(gib(frozen + 1024)).contains(", or adapters in place of all weights ([lora]) if")
    );
    assert!(!alone(gib(frozen - 1024)).contains("[lora]"));
}

/// The base's weights are there once. Beside a new adapter they are the reference.
#[test]
fn a_reference_that_starts_from_an_adapter_has_a_copy_of_it() {
    let whole = wide();
    let adapted = whole.with_default_adapter();
    let weights = |layout: &Layout, reference, reference_is_adapted| {
        let sets = ParameterSets { reference, reference_is_adapted, ..Default::default() };
        plan(layout, Demand { sets, ..updates(8) }, 4 << 30).unwrap().weights
    };
    let copy = adapted.trained().bytes(&cpu(), Role::Frozen);
    let alone = weights(&adapted, false, false);
    assert!(copy > 0);
    assert_eq!(weights(&adapted, true, false), alone);
    assert_eq!(weights(&adapted, true, true), alone + copy);
    assert_eq!(weights(&adapted, false, true), alone, "there is no reference");
    assert_eq!(weights(&whole, true, true), weights(&whole, true, false), "nor an adapter here");
}

#[test]
fn a_process_model_is_counted_with_all_that_it_is_trained_by() {
    let layout = wide();
    let of = |reference, process_model: Option<usize>| {
        let (process_tokens, process_model) =
            (process_model.unwrap_or_default(), process_model.is_some());
        let sets = ParameterSets { reference, process_model, ..Default::default() };
        plan(&layout, Demand { sets, process_tokens, ..updates(8) }, 4 << 30).unwrap()
    };
    let sets = |plan: &Plan| [plan.weights, plan.gradient, plan.moments];
    let (alone, beside) = (of(false, None), of(true, Some(0)));
    let [weights, gradient, moments] = sets(&alone);
    assert_eq!(sets(&of(true, None)), [2 * weights, gradient, moments]);
    assert_eq!(sets(&beside), [3 * weights, 2 * gradient, 2 * moments]);
    assert_eq!(of(true, Some(1000)).working, beside.working + 1000 * PROCESS_BYTES);

    let settings = MemorySettings { budget_gib: Some(0.05), ..Default::default() };
    let sets =
        ParameterSets { reference: true, process_model: true, shards: 5, ..Default::default() };
    let message = Plan::check_model(&cpu(), &layout, sets, &settings, 0).unwrap_err().to_string();
    // Three sums of shards wait beside the gradient under way.
    let listed = format!("gradient {}, moments {}", human(8 * gradient), human(2 * moments));
    let remedies = ", or objective.advantage = \"rloo\" if the rest does, or fewer shards \
                    (update.shards, sft.shards) if the rest does";
    assert!(message.contains(&listed) && message.contains(remedies), "{message}");
    let message = refusal(&layout, Demand { sets, ..updates(8) }, 50 << 20);
    let rloo = "objective.advantage = \"rloo\"";
    assert!(message.contains(rloo) && !message.contains("reference_kl"), "{message}");
}

#[test]
fn a_teacher_of_any_size_is_counted_and_its_passes_fit() {
    let (student, demand) = (layout(), updates(8));
    let alone = plan(&student, demand, 4 << 30).unwrap();
    for teacher in [wide(), layout()] {
        let teacher = TeacherBytes::of(&cpu(), &teacher, demand);
        let demand = Demand { teacher, ..demand };
        let least = Plan::least(&cpu(), &student, demand);
        assert!(least >= Plan::least(&cpu(), &student, updates(8)) + teacher.weights);
        // From the least budget on every plan is one that its own passes fit.
        for budget in [least, least + (1 << 20), 2 * least, 4 << 30] {
            let plan = plan(&student, demand, budget).unwrap();
            assert_eq!(plan.weights, alone.weights + teacher.weights);
            let pass = plan.micro_batch_tokens.max(updates(8).longest_trained);
            assert!(plan.teacher_pass >= teacher.pass(pass) && plan.peak() <= budget);
        }
        let message = refusal(&student, demand, least - 1);
        let its = format!("(of the weights, {} are the teacher's)", human(teacher.weights));
        assert!(message.contains(&its), "{message}");
    }
}

/// Ranks share the gradient where it would not fit otherwise, and then all tapes fit beside it.
#[test]
fn ranks_share_the_gradient_where_it_does_not_fit() {
    let layout = read(
        r#"{"model_type": "qwen2", "architectures": ["Qwen2ForCausalLM"], "hidden_size": 512,
        "intermediate_size": 2048, "num_hidden_layers": 24, "num_attention_heads": 8,
        "num_key_value_heads": 8, "vocab_size": 1000, "max_position_embeddings": 4096,
        "rms_norm_eps": 1e-6, "rope_theta": 10000.0, "tie_word_embeddings": false}"#,
    );
    let demand = |shard| {
        let sets = ParameterSets { ranks: 8, shard, ..ParameterSets::default() };
        Demand { sets, ..updates(8) }
    };
    let least = |shard| Plan::least(&cpu(), &layout, demand(shard));
    let [whole, shared, least_of_all] =
        [Shard::Optimizer, Shard::Gradients, Shard::Weights].map(least);
    // The gradient is 400 MB, its slice and two layers 85 MB; 2000 tokens have 100 MB of block
    // inputs. So are the weights, which an update needs as much of.
    assert!(whole - shared > 200_000_000, "{whole} {shared}");
    assert!(shared - least_of_all > 100_000_000, "{shared} {least_of_all}");
    assert_eq!(least(Shard::Auto), least_of_all);
    for (bytes, by_layer, shares_weights) in [
        (whole, false, false),
        (whole - 1, true, false),
        (shared, true, false),
        (shared - 1, true, true),
        (least_of_all, true, true),
    ] {
        let plan = plan(&layout, demand(Shard::Auto), bytes).unwrap();
        assert_eq!((plan.by_layer, plan.passes().by_layer), (by_layer, by_layer));
        assert_eq!((plan.slice > 0, plan.whole > 0), (shares_weights, shares_weights));
        assert!(plan.peak() <= plan.budget, "{plan}");
        assert_eq!(plan.to_string().contains("the rank's slice"), by_layer);
        assert_eq!(plan.to_string().contains("in slices while an update"), shares_weights);
    }
    assert!(plan(&layout, demand(Shard::Auto), least_of_all - 1).is_err());
    assert!(plan(&layout, demand(Shard::Gradients), shared - 1).is_err());
    assert!(plan(&layout, demand(Shard::Optimizer), whole - 1).is_err());
    assert!(plan(&layout, demand(Shard::Gradients), whole).unwrap().by_layer);
    // Whole weights have the place of an update's: the rest of both is the same.
    let plan = plan(&layout, demand(Shard::Weights), least_of_all).unwrap();
    let all = plan.weights + plan.whole;
    let numbers: usize = layout.trained().numbers(&cpu()).sum();
    assert!(all.abs_diff(4 * numbers) < 1 << 20 && plan.weights.abs_diff(all / 8) < 1 << 20);
    // They need more than an update of a few tokens, also where nothing is sampled.
    let few = Demand { longest_trained: 1, waiting_tokens: 8, ..demand(Shard::Weights) };
    let refused = refusal(&layout, few, 64 << 20);
    assert!(
        !refused.contains("gradient ") && refused.contains("to load and save a parameter; "),
        "{refused}"
    );
    // Adapters and a second model do without.
    let sets = ParameterSets { process_model: true, ..demand(Shard::Weights).sets };
    for (layout, sets) in
        [(&layout, sets), (&layout.with_default_adapter(), demand(Shard::Weights).sets)]
    {
        let refused = refusal(layout, Demand { sets, ..updates(8) }, 4 << 30);
        assert!(refused.contains("ranks.shard is \"weights\""), "{refused}");
        let auto = ParameterSets { shard: Shard::Auto, ..sets };
        let choices = auto.choices(&cpu(), layout);
        assert!(choices.iter().all(|sets| sets.shard != Shard::Weights));
    }
    // The embedding of two shards would have to wait between the head and itself.
    let sets = ParameterSets { shards: 2, ..demand(Shard::Gradients).sets };
    let refused = refusal(&wide(), Demand { sets, ..updates(8) }, 4 << 30);
    assert!(refused.contains("ranks.shard"), "{refused}");
}
