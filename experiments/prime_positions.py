"""How early a process model of PRIME tells right responses from wrong ones: areas under the ROC curve by position.

    isentrope train recipes/countdown-prime.toml
    isentrope score runs/countdown-prime/checkpoints/step-000100/trainer/process_model \\
        --in runs/countdown-prime/initial-states.jsonl --out phi.jsonl
    python3 experiments/prime_positions.py runs/countdown-prime countdown phi.jsonl

The responses are those of the evaluation before the first step, to problems that are never trained on, by the policy that is the
reference (lab.track_states keeps its log-probs). The score of how a response begins is the sum of log pi_phi - log pi_ref over its
first tokens. An area is how often a right response has a higher score than a wrong one, equal ones counting half: of all pairs, and
of the pairs of one prompt.
"""

import json
import sys
from collections import defaultdict
from pathlib import Path

SHARES = [0.1, 0.25, 0.5, 0.75, 0.9, 1.0]


def lines(path):
    with open(path) as file:
        return [json.loads(line) for line in file]


def pairs(scored):
    """Pairs of a right and a wrong response, and in how many the right one has the higher score."""
    told = right = wrong = 0.0
    by_score = defaultdict(lambda: [0, 0])
    for score, correct in scored:
        by_score[score][correct] += 1
    for score in sorted(by_score):
        wrongs, rights = by_score[score]
        told += rights * (wrong + wrongs / 2)
        right, wrong = right + rights, wrong + wrongs
    return right * wrong, told


def area(groups):
    counted = [pairs(group) for group in groups]
    return sum(told for _, told in counted) / max(sum(count for count, _ in counted), 1)


def main():
    run, name = Path(sys.argv[1]), sys.argv[2]
    responses = lines(run / f"evaluations/step-000000-{name}.jsonl")
    states, phi = lines(run / "initial-states.jsonl"), lines(sys.argv[3])
    assert len(states) == len(phi), "phi has scored initial-states.jsonl"
    of_set = [(state, scored) for state, scored in zip(states, phi) if state["set"] == name]
    assert [line["sample"] for line in responses] == [state["sample"] for state, _ in of_set], "the same responses"
    correct = [line["verdict"] == "correct" for line in responses]
    ratios = [[p - r for p, r in zip(scored["logprobs"], state["logprobs"])] for state, scored in of_set]
    print(f"{len(correct)} responses, {sum(correct)} of them right")
    print("tokens  all pairs  pairs of one prompt")
    for share in SHARES:
        prompts = defaultdict(list)
        for line, right, ratio in zip(responses, correct, ratios):
            first = -int(-len(ratio) * share // 1)  # rounded up
            prompts[line["origin"]].append((sum(ratio[:first]), right))
        everything = [scored for group in prompts.values() for scored in group]
        print(f"{share:5.0%}   {area([everything]):9.3f}  {area(prompts.values()):19.3f}")


if __name__ == "__main__":
    main()
