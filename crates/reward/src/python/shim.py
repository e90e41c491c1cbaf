"""Judges responses by a reward function that was written for verl or for TRL.

Started with `-c`, this text, the place of the function (a file, or a module), its name, and further arguments of it as JSON.
Reads a question per line from standard input and writes an answer per line to standard output, as docs/rewards.md has them. The
question {"hello": true} is answered with how the function is called, {"hello": "..."}, or with why it cannot be, {"refused": "..."}.
"""

import sys

if sys.path[:1] == [""]:
    del sys.path[0]  # nothing in the current directory may stand for a module of the standard library

import functools
import importlib
import importlib.util
import inspect
import json
import math
import os
import re
import reprlib
import traceback
from collections.abc import Mapping

# What verl gives every function, and what it gives those of its batch reward manager.
VERL = ("data_source", "solution_str", "ground_truth", "extra_info")
VERL_BATCH = ("data_sources", "solution_strs", "ground_truths", "extra_infos")
# What data sets call the ground truth: parameters of these names get it where the data has no such column.
ANSWERS = ("ground_truth", "answer", "final_answer", "expected_answer", "Answer", "solution")
# What trainers have and a verifier has not.
ABSENT = ("completion_ids", "trainer_state", "environments", "reward_router_address", "reward_model_tokenizer")
# Names of metrics that every run writes itself.
TAKEN = ("mean", "score", "solved_all", "solved_none")


class Refused(Exception):
    """The function cannot be used at all."""


class Unjudged(Exception):
    """The function did not judge a response."""


def main():
    place, name, arguments = sys.argv[1], sys.argv[2], json.loads(sys.argv[3])
    questions, answers = take_streams()
    file = os.path.abspath(place)
    call, says, refused = None, None, None
    try:
        call, says = adapt(Function(load(place, name), name, place), arguments)
    except Refused as reason:
        refused = str(reason)
    for line in questions:
        question = json.loads(line)
        if "hello" in question:
            answer = {"refused": refused} if refused else {"hello": says}
        elif refused:
            sys.exit(refused)
        else:
            answer = {"id": question["id"], **judge(call, question, file)}
        answers.write(json.dumps(answer) + "\n")
        answers.flush()


def take_streams():
    """Keeps standard input and output for questions and answers: what is printed elsewhere goes to standard error."""
    questions, answers = os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "w", encoding="ascii")
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)
    os.dup2(2, 1)
    return questions, answers


def load(place, name):
    """The function of that name in a file, whose directory is searched for modules, or in a module."""
    is_file = place.endswith(".py")
    directories = [os.path.dirname(os.path.abspath(place))] if is_file else []
    sys.path[:0] = directories + [os.getcwd()]
    try:
        module = load_file(place) if is_file else importlib.import_module(place)
    except BaseException as error:  # sys.exit() too
        raise Refused(f"{place} cannot be imported:\n{own_traceback(error)}") from None
    if not hasattr(module, name):
        found = [key for key, value in vars(module).items() if is_function_of(module, key, value)]
        raise Refused(f"{place} has no function {name}; it has {', '.join(found) or 'none'}")
    function = getattr(module, name)
    if inspect.isclass(function) or not callable(function):
        raise Refused(f"{name} in {place} must be a function, and is of the type {type(function).__name__}")
    return function


def load_file(place):
    path = os.path.abspath(place)
    stem = os.path.basename(path)[: -len(".py")]
    name = f"reward_{stem}" if stem in sys.modules else stem
    spec = importlib.util.spec_from_file_location(name, path)
    module = sys.modules[name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def is_function_of(module, key, value):
    its_own = getattr(value, "__module__", None) == module.__name__
    return its_own and callable(value) and not inspect.isclass(value) and not key.startswith("_")


def own_traceback(error):
    """The traceback without the steps of this text and of the import."""
    steps = error.__traceback__
    while steps is not None and re.match("<string>|<frozen importlib", steps.tb_frame.f_code.co_filename):
        steps = steps.tb_next
    return "".join(traceback.format_exception(type(error), error, steps)).rstrip()


class Function:
    """A function, what messages call it, and what its signature says."""

    def __init__(self, function, name, place):
        self.function, self.name, self.title = function, name, f"{name} of {place}"
        try:
            parameters = list(inspect.signature(function).parameters.values())
        except (TypeError, ValueError) as error:
            raise Refused(f"the parameters of {self.title} cannot be found out: {error}") from None
        by_name = [p for p in parameters if p.kind in (p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY)]
        self.names = [p.name for p in by_name]
        self.required = [p.name for p in by_name if p.default is p.empty]
        self.takes_any = any(p.kind is p.VAR_KEYWORD for p in parameters)

    def taken(self, given):
        """What it takes of keyword arguments."""
        return {name: value for name, value in given.items() if self.takes_any or name in self.names}

    def __call__(self, given):
        returned = self.function(**self.taken(given))
        return event_loop().run_until_complete(returned) if inspect.isawaitable(returned) else returned


@functools.lru_cache(maxsize=None)
def event_loop():
    """One for all calls, since what an async function keeps from call to call may belong to it."""
    import asyncio

    return asyncio.new_event_loop()


def adapt(function, arguments):
    """How questions are put to the function, and that in words."""
    for name in arguments:
        if not function.taken({name: None}):
            raise Refused(f"{function.title} does not take {name}, which `arguments` has")
    for name in function.required:
        if name in ABSENT:
            raise Refused(f"{function.title} asks for {name}, and a verifier has only the text of responses")
    if "solution_str" in function.names:
        style, names, call = "verl", VERL, ask_verl
    elif "solution_strs" in function.names:
        style, names, call = "verl's batch manager", VERL_BATCH, ask_verl_batch
    elif "completions" in function.names:
        style, names, call = "TRL", ("prompts", "completions"), ask_trl
    else:
        raise Refused(
            f"{function.title} has the parameters ({', '.join(function.names)}), by which it is neither a function for verl, "
            "which has solution_str, nor one for TRL, which has completions"
        )
    given = [name for name in (*names, *arguments) if function.taken({name: None})]
    missing = [name for name in function.required if name not in given]
    if call is ask_trl:
        given.append(f"the data's columns ({', '.join(missing)})" if missing else "the data's columns")
    elif missing:
        raise Refused(f"{function.title} asks for {', '.join(missing)}, which neither {style} nor `arguments` gives")
    says = f"{function.title} is called as by {style}, with {', '.join(given)}"
    return functools.partial(call, function, arguments), says


def ask_verl(function, arguments, question):
    given = dict(zip(VERL, of_verl(question)), **arguments)
    return answer(function, function(given), {})


def ask_verl_batch(function, arguments, question):
    given = dict(zip(VERL_BATCH, ([value] for value in of_verl(question))), **arguments)
    return answer(function, only(function, function(given)), {})


def of_verl(question):
    """The values of verl's four parameters."""
    # The ground truth as the data has it, where it was shortened to what follows its ####.
    row = (question.get("columns") or {}).get("reward_model")
    ground_truth = row.get("ground_truth") if isinstance(row, dict) else None
    extra_info = question["extra_info"] if isinstance(question["extra_info"], dict) else {}
    return (
        question["data_source"],
        question["response"],
        question["ground_truth"] if ground_truth is None else ground_truth,
        {"num_turns": None, "rollout_reward_scores": {}, **extra_info},  # verl sets these two
    )


def ask_trl(function, arguments, question):
    metrics, messages, response = {}, question.get("messages"), question["response"]
    columns = question.get("columns") or {}
    given = {name: [question["ground_truth"]] for name in ANSWERS if name in ("ground_truth", *function.names)}
    given.update((name, [question[name]]) for name in ("data_source", "extra_info") if question[name])
    given.update((name, [value]) for name, value in columns.items())
    given.update(arguments, log_extra=lambda column, values: None, log_metric=metrics.__setitem__)
    given["prompts"] = [messages or question["prompt"]]
    given["completions"] = [[{"role": "assistant", "content": response}] if messages else response]
    missing = [name for name in function.required if name not in given]
    if missing:
        has = ", ".join(columns) or "none"
        raise Unjudged(f"{function.name} asks for {', '.join(missing)}, and the data's columns are: {has}")
    reward = only(function, function(given))
    if reward is None:
        return {"applies": False, "reason": f"{function.name} returned None: it does not apply to this problem"}
    return answer(function, reward, metrics)


def only(function, returned):
    """What a function that judges batches returned for a batch of one."""
    try:
        values = None if isinstance(returned, (str, bytes, Mapping)) else list(returned)
    except TypeError:
        values = None
    if values is None:
        raise Unjudged(f"{function.name} returned {reprlib.repr(returned)}, and no list with a number for each response")
    if len(values) != 1:
        raise Unjudged(f"{function.name} returned {len(values)} values for one response: {reprlib.repr(values)}")
    return values[0]


def answer(function, returned, metrics):
    """The answer that a returned number makes, or a dict with the number as "score" and others beside it."""
    beside = {}
    if isinstance(returned, Mapping):
        beside = {str(key): value for key, value in returned.items()}
        if "score" not in beside:
            raise Unjudged(f'{function.name} returned a dict without "score": its keys are {", ".join(beside) or "none"}')
        returned = beside.pop("score")
    score = number(returned)
    if score is None:
        raise Unjudged(f"{function.name} returned {reprlib.repr(returned)}, and no number")
    if not abs(score) <= 1e6:
        raise Unjudged(f"{function.name} returned {score}: a score is a number from -1e6 to 1e6")
    pred = beside.pop("pred", None)
    numbers = {metric_name(key): number(value) for key, value in {**beside, **metrics}.items()}
    numbers = [(key, value) for key, value in numbers.items() if value is not None and math.isfinite(value)]
    said = {"score": score, "reason": f"{function.name} returned {score:g}", "metrics": dict(numbers[:64])}
    correct = number(beside.get("acc"))  # verl evaluates by it
    if correct is not None:
        said["verdict"] = "correct" if correct >= 1 else "wrong"
    if pred is not None:  # and takes majority votes by this
        said["extracted"] = str(pred)
    return said


def number(value):
    """The value as a float if it is a number, also one of NumPy or PyTorch."""
    if value is None or isinstance(value, (str, bytes, bytearray)):
        return None
    try:
        return float(value)
    except Exception:  # whatever an array or a tensor of several numbers raises
        return None


def metric_name(name):
    """The name in the characters that names of metrics may have, apart from those that are taken."""
    name = re.sub(r"[^A-Za-z0-9_./@-]", "_", name)[:64] or "_"
    return f"function_{name}" if name in TAKEN else name


def judge(call, question, file):
    """The answer to a question, whatever the function does."""
    try:
        return call(question)
    except Unjudged as reason:
        return {"verdict": "fault", "reason": str(reason)}
    except BaseException as error:  # sys.exit() too
        print(own_traceback(error), file=sys.stderr, flush=True)
        return {"verdict": "fault", "reason": last_line(error, file)}


def last_line(error, file):
    """The last line of a traceback, with where in the function's file it was."""
    line = traceback.format_exception_only(type(error), error)[-1].strip()[:500]
    steps = [step for step in traceback.extract_tb(error.__traceback__) if step.filename == file]
    return f"{line} ({os.path.basename(file)}, line {steps[-1].lineno})" if steps else line


main()
