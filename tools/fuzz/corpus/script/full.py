"""GRPO with two rewards, on eight responses a device."""
import re
from datasets import load_dataset
from transformers import AutoModelForCausalLM, AutoTokenizer
from trl import (
    GRPOConfig,
    GRPOTrainer,
)
from trl.rewards import accuracy_reward

MODEL = "Qwen/Qwen2.5-1.5B"
GROUP = 16
SYSTEM = """Think, then answer
in \\boxed{}."""


def brevity(completions, **kwargs):
    return [1.0 - len(c[0]["content"]) / 4000 for c in completions]


def as_chat(row):
    return {"prompt": [{"role": "system", "content": SYSTEM}, {"role": "user", "content": row["problem"]}]}


def main():
    model = AutoModelForCausalLM.from_pretrained(MODEL, dtype="bfloat16")
    dataset = load_dataset("json", data_files={"train": "data/train.jsonl", "test": "data/test.jsonl"}, split="train")
    dataset = dataset.map(as_chat)
    held_out = load_dataset("json", data_files="data/held-out.jsonl")["train"]
    args = GRPOConfig(
        output_dir="runs/full",
        per_device_train_batch_size=8,
        gradient_accumulation_steps=8,  # 64 responses an update
        steps_per_generation=16,  # 128 responses a rollout
        num_generations=GROUP,
        num_iterations=2,
        max_completion_length=1_024,
        max_steps=1000,
        learning_rate=2e-6,
        lr_scheduler_type="cosine_with_min_lr",
        lr_scheduler_kwargs={"min_lr_rate": 0.1},
        warmup_ratio=0.1,
        adam_beta2=0.99,
        weight_decay=.1,
        beta=0.04,
        epsilon=0.2,
        epsilon_high=0.28,
        loss_type="dr_grpo",
        scale_rewards=False,
        reward_weights=[1.0, 0.5],
        temperature=0.9,
        top_k=-1,
        mask_truncated_completions=True,
        entropy_coef=1e-3,
        eval_strategy="steps",
        eval_steps=100,
        save_steps=200,
        save_total_limit=3,
        bf16=True,
        gradient_checkpointing=True,
        use_vllm=True,
        vllm_mode="colocate",
        vllm_gpu_memory_utilization=0.3,
        report_to="wandb",
        logging_steps=1,
        deepspeed={"zero_optimization": {"stage": 2}},
        run_name=f"full-{GROUP}",
    )
    args.seed = 7
    trainer = GRPOTrainer(
        model=model,
        reward_funcs=[accuracy_reward, brevity],
        args=args,
        train_dataset=dataset,
        eval_dataset=held_out,
        processing_class=AutoTokenizer.from_pretrained(MODEL),
    )
    trainer.train()


if __name__ == "__main__":
    main()
