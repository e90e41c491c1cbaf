r"""The same rewards by functions, as verl and TRL take them. Either is a verifier as it stands:

    isentrope train examples/own-reward/recipe.toml \
        --set 'reward.verifier={ python = "examples/own-reward/functions.py:compute_score" }'
"""

from reward import judge


def compute_score(data_source, solution_str, ground_truth, extra_info):
    """For verl: a number, or a dict with the number as "score" and others that are measured."""
    judged = judge({"response": solution_str, "ground_truth": ground_truth, "extra_info": extra_info})
    return {"score": judged["score"], **judged.get("metrics", {})}


def largest(completions, answer, extra_info, **kwargs):
    """For TRL: a number for each completion; what else it takes are columns of the data."""
    questions = zip(completions, answer, extra_info)
    return [judge({"response": r, "ground_truth": a, "extra_info": e})["score"] for r, a, e in questions]
