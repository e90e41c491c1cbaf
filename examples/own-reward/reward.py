"""Rewards making a number as large as possible of three given ones, in steps such as 3*5=15,15+7=22!

Reads a question per line and prints an answer per line until its standard input ends.
"""

import json
import re
import sys

STEP = re.compile(r"(\d+)([-+*/])(\d+)=(\d+)")
OPERATIONS = {"+": int.__add__, "-": int.__sub__, "*": int.__mul__, "/": int.__floordiv__}


def outcome(response, numbers):
    """The last result of the last attempt, and how many attempts there were; an error says why there is none."""
    if not re.fullmatch(r"[^!?]*[!?]", response):
        raise ValueError("does not end in ! or ?")
    attempts = response[:-1].split(";")
    left = list(numbers)
    for step in attempts[-1].split(","):
        match = STEP.fullmatch(step)
        if match is None:
            raise ValueError(f"{step!r} is no step")
        a, b, result = int(match[1]), int(match[3]), int(match[4])
        for operand in (a, b):
            if operand not in left:
                raise ValueError(f"{operand} is not there to be used in {step}")
            left.remove(operand)
        if (match[2] == "/" and (b == 0 or a % b)) or OPERATIONS[match[2]](a, b) != result:
            raise ValueError(f"{step} is not true")
        left.append(result)
    if len(left) > 1:
        raise ValueError("not all numbers are used")
    return left[0], len(attempts)


def judge(question):
    best = question["ground_truth"]
    try:
        result, attempts = outcome(question["response"].strip(), question["extra_info"]["numbers"])
    except ValueError as error:
        return {"score": 0, "verdict": "unparseable", "reason": str(error)}
    return {
        "score": result / best,
        "extracted": str(result),
        "reason": f"makes {result} of at most {best}",
        "metrics": {"attempts": attempts},
    }


if __name__ == "__main__":
    for line in sys.stdin:
        question = json.loads(line)
        print(json.dumps({"id": question["id"], **judge(question)}), flush=True)
