"""Judges responses by a reward function that was written for verl or for TRL.

Started with `-c`, this text, the place of the function (a file, or a module), its name, further arguments of it as JSON, and
`response` or `group`: what a question is about. With the word `apart` behind them, each question has a process of its own, of which
nothing is left for the next: it is then the first process of a jail, which has nothing but this in it. Reads a question per line from
standard input and writes an answer per line to standard output, as docs/guides/data-and-rewards.md has them. The question
{"hello": true} is answered with how the function is called, {"hello": "..."}, or with why it cannot be, {"refused": "..."}. A question
at which the function fails is answered with why, {"failed": "..."}.
"""

import copy
import difflib
import functools
import importlib
import inspect
import json
import math
import os
import re
import reprlib
import signal
from collections.abc import Mapping

# Arguments that verl gives every function, and those of its batch reward manager.
VERL = ("data_source", "solution_str", "ground_truth", "extra_info")
VERL_BATCH = ("data_sources", "solution_strs", "ground_truths", "extra_infos")
# Names of the ground truth in data sets: parameters of these names get it where the data has no such column.
ANSWERS = ("ground_truth", "answer", "final_answer", "expected_answer", "Answer", "solution")
# Things of a trainer that a verifier lacks.
ABSENT = ("completion_ids", "trainer_state", "environments", "reward_router_address", "reward_model_tokenizer")
# Names of metrics that every run writes itself.
TAKEN = ("mean", "score", "solved_all", "solved_none")


# Longest answer about a group, in bytes, and longest texts in it together, in characters, which JSON writes in up to six bytes.
LONGEST = 1 << 24
LONGEST_TEXT = 1 << 16


class Unasked(Exception):
    """The data lacks what the function asks for."""


class Unjudged(Exception):
    """The function did not judge a response."""


def main():
    place, name, arguments, batch, apart = *sys.argv[1:3], json.loads(sys.argv[3]), sys.argv[4], sys.argv[5:] == ["apart"]
    questions, answers = take_streams()
    directories, given = given_in("/tmp") if apart else ([], set())
    file = os.path.abspath(place)
    call, says, refused = None, None, None
    try:
        call, says = adapt(Function(load(place, name), name, place), arguments, batch == "group")
    except Refused as reason:
        refused = str(reason)
    for line in questions:
        question = json.loads(line)
        if "hello" in question:
            answer = {"refused": refused} if refused else {"hello": says}
        elif refused:
            sys.exit(refused)
        elif apart:
            answer = judge_apart(call, question, file, (questions, answers))
            for directory in directories:
                empty(directory, given)
        else:
            answer = judge(call, question, file)
        answer = answer if isinstance(answer, bytes) else encoded(answer, question)
        answers.write(answer)
        answers.flush()


def encoded(answer, question):
    """The line of an answer. A response decides what a function says: halves of characters, which UTF-8 lacks, are replaced, and
    long texts are cut."""
    numbered = {"id": question["id"], **answer} if "id" in question else answer
    if "answers" in numbered:
        answers = numbered["answers"]
        numbered["answers"] = [short(each, LONGEST_TEXT // len(answers)) for each in answers]
    return json.dumps(short(numbered, LONGEST_TEXT), ensure_ascii=False).encode("utf-8", "replace") + b"\n"


def short(answer, most):
    return {key: value[:most] if isinstance(value, str) else value for key, value in answer.items()}


def judge_apart(call, question, file, streams):
    """The answer of a process that has what was loaded, and not the streams. All that it has started and written goes with it."""
    read, write = os.pipe()
    process = os.fork()
    if process == 0:
        status = 1
        try:
            os.setpgid(0, 0)  # signals to its group do not reach the first process
            for descriptor in (read, *(stream.fileno() for stream in streams)):
                os.close(descriptor)
            with open(write, "wb") as own:
                own.write(encoded(judge(call, question, file), question))
            sys.stdout.flush()
            sys.stderr.flush()
            status = 0
        finally:
            os._exit(status)
    os.close(write)
    with open(read, "rb") as theirs:
        said = theirs.readline(LONGEST)
    status = clear(process)
    if said.endswith(b"\n"):
        return said
    how = f"signal {os.WTERMSIG(status)}" if os.WIFSIGNALED(status) else f"exit status {os.WEXITSTATUS(status)}"
    return {"failed": f"the function has ended its process ({how})"}


def clear(process):
    """Ends all processes of the jail but this first one; how that process ended."""
    status = 0
    while True:
        try:
            os.kill(-1, signal.SIGKILL)
        except ProcessLookupError:
            pass
        try:
            ended, how = os.waitpid(-1, 0)
        except ChildProcessError:
            return status
        status = how if ended == process else status


def given_in(top):
    """The directories of the file system at `top`, and the paths of all that is in them: the way to what is mounted there."""
    device, directories, paths = os.lstat(top).st_dev, [top], set()
    for directory in directories:
        for entry in os.scandir(directory):
            paths.add(entry.path)
            if entry.is_dir(follow_symlinks=False) and entry.stat(follow_symlinks=False).st_dev == device:
                directories.append(entry.path)
    return directories, paths


def empty(directory, given):
    """Empties a directory but for what was given, however deep and however closed the rest is. Nobody else is left who could
    change it meanwhile."""
    mark, number = os.urandom(16).hex(), 0
    try:
        os.chmod(directory, 0o700)
    except PermissionError:
        return  # it is another user's, and nothing could be written there
    while True:
        entries = [entry for entry in os.scandir(directory) if entry.path not in given]
        if not entries:
            os.utime(directory, ns=(0, 0))
            return
        for entry in entries:
            if not entry.is_dir(follow_symlinks=False):
                os.unlink(entry.path)
                continue
            # Its folders move up beside it, so that no path is ever long.
            os.chmod(entry.path, 0o700)
            for inner in list(os.scandir(entry.path)):
                if inner.is_dir(follow_symlinks=False):
                    os.chmod(inner.path, 0o700)
                    number += 1
                    os.rename(inner.path, os.path.join(directory, f"{mark}.{number}"))
                else:
                    os.unlink(inner.path)
            os.rmdir(entry.path)


def load(place, name):
    """The function of that name in a file, whose directory is searched for modules, or in a module."""
    is_file = place.endswith(".py")
    directories = [os.path.dirname(os.path.abspath(place))] if is_file else []
    sys.path[:0] = directories + [os.getcwd()]
    try:
        module = load_file(place) if is_file else importlib.import_module(place)
    except BaseException as error:  # sys.exit() too
        says = f"{place} cannot be imported:\n{own_traceback(error)}{of_sandbox(error)}"
        raise Refused(f"{says}\n{where_it_runs()}" if isinstance(error, ImportError) else says) from None
    if not hasattr(module, name):
        found = [key for key, value in vars(module).items() if is_function_of(module, key, value)]
        if not name:
            named = " or ".join(f"{place}:{key}" for key in found)
            raise Refused(f"{place} is named without a function; " + (f"name one: {named}" if named else "it has none"))
        near = difflib.get_close_matches(name, found, 1)
        meant = f"; did you mean {near[0]}?" if near else ""
        raise Refused(f"{place} has no function {name}; it has {', '.join(found) or 'none'}{meant}")
    function = getattr(module, name)
    if inspect.isclass(function) or not callable(function):
        raise Refused(f"{name} in {place} must be a function, and is of the type {type(function).__name__}")
    return function


def is_function_of(module, key, value):
    its_own = getattr(value, "__module__", None) == module.__name__
    return its_own and callable(value) and not inspect.isclass(value) and not key.startswith("_")


class Function:
    """A function, what messages call it, and what its signature says."""

    def __init__(self, function, name, place):
        self.function, self.name, self.title = function, name, f"{name} of {place}"
        try:
            parameters = list(inspect.signature(function).parameters.values())
        except (TypeError, ValueError) as error:
            raise Refused(f"the parameters of {self.title} cannot be found out: {error}") from None
        self.parameters = ", ".join(str(p.replace(annotation=p.empty, default=p.empty)) for p in parameters)
        by_name = [p for p in parameters if p.kind in (p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY)]
        self.names = [p.name for p in by_name]
        self.required = [p.name for p in by_name if p.default is p.empty]
        self.takes_any = any(p.kind is p.VAR_KEYWORD for p in parameters)

    def taken(self, given):
        """The keyword arguments that it takes."""
        return {name: value for name, value in given.items() if self.takes_any or name in self.names}

    def __call__(self, given):
        returned = self.function(**self.taken(given))
        return event_loop().run_until_complete(returned) if inspect.isawaitable(returned) else returned


def adapt(function, arguments, is_group):
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
            f"{function.title} has the parameters ({function.parameters}), by which it is neither a function for verl, "
            "which has solution_str, nor one for TRL, which has completions"
        )
    if is_group and call is ask_verl:
        raise Refused(
            f"{function.title} takes one response, solution_str, and batch is \"group\": leave batch out, or take all responses of "
            "a group, as completions (TRL) or solution_strs (verl)"
        )
    given = [name for name in (*names, *arguments) if function.taken({name: None})]
    missing = [name for name in function.required if name not in given]
    if call is ask_trl:
        given.append(f"the data's columns ({', '.join(missing)})" if missing else "the data's columns")
    elif missing:
        raise Refused(f"{function.title} asks for {', '.join(missing)}, which neither {style} nor `arguments` gives")
    whole = " with whole groups" if is_group else " with one response at a time" if call is ask_trl else ""
    says = f"{function.title} is called as by {style}{whole}, with {', '.join(given)}"
    if call is ask_trl and not is_group:
        says += "; a reward that compares responses needs batch = \"group\""
    return functools.partial(call, function, arguments), says


def responses_of(question):
    return question["responses"] if "responses" in question else [question["response"]]


def each(value, responses):
    """The value for each response; none shares anything with another."""
    return [value, *(copy.deepcopy(value) for _ in responses[1:])]


def ask_verl(function, arguments, question):
    (response,) = responses_of(question)
    given = dict(zip(VERL, of_verl(question, response)), **arguments)
    return [answer(function, function(given), {})]


def ask_verl_batch(function, arguments, question):
    responses = responses_of(question)
    data_source, _, ground_truth, extra_info = (each(value, responses) for value in of_verl(question, None))
    given = dict(zip(VERL_BATCH, (data_source, responses, ground_truth, extra_info)), **arguments)
    return [answer(function, value, {}) for value in values_of(function, function(given), responses)]


def of_verl(question, response):
    """The values of verl's four parameters."""
    # The ground truth as the data has it, where it was shortened to what follows its ####.
    row = (question.get("columns") or {}).get("reward_model")
    ground_truth = row.get("ground_truth") if isinstance(row, dict) else None
    extra_info = question["extra_info"] if isinstance(question["extra_info"], dict) else {}
    return (
        question["data_source"],
        response,
        question["ground_truth"] if ground_truth is None else ground_truth,
        {"num_turns": None, "rollout_reward_scores": {}, **extra_info},  # verl sets these two
    )


def ask_trl(function, arguments, question):
    metrics, messages, responses = {}, question.get("messages"), responses_of(question)
    columns = question.get("columns") or {}
    given = {name: question["ground_truth"] for name in ANSWERS if name in ("ground_truth", *function.names)}
    given.update((name, question[name]) for name in ("data_source", "extra_info") if question[name])
    given.update(columns, prompts=messages or question["prompt"])
    given = {name: each(value, responses) for name, value in given.items()}
    given.update(arguments, log_extra=lambda column, values: None, log_metric=metrics.__setitem__)
    given["completions"] = [[{"role": "assistant", "content": text}] if messages else text for text in responses]
    missing = [name for name in function.required if name not in given]
    if missing:
        has = ", ".join(name for name in given if not name.startswith("log_"))
        raise Unasked(f"{function.name} asks for {', '.join(missing)}; what there is for it: {has}")
    none = {"applies": False, "reason": f"{function.name} returned None: it does not apply to this problem"}
    rewards = values_of(function, function(given), responses)
    return [none if reward is None else answer(function, reward, metrics) for reward in rewards]


def values_of(function, returned, responses):
    """The results of a function that judges batches, one for each response."""
    try:
        values = None if isinstance(returned, (str, bytes, Mapping)) else list(returned)
    except TypeError:
        values = None
    if values is None:
        raise Unjudged(f"{function.name} returned {reprlib.repr(returned)}, and no list with a number for each response")
    if len(values) != len(responses):
        count = "one response" if len(responses) == 1 else f"{len(responses)} responses"
        raise Unjudged(f"{function.name} returned {len(values)} values for {count}: {reprlib.repr(values)}")
    return values


def answer(function, returned, metrics):
    """The answer that a returned number makes, or a dict with the number as "score" and others beside it."""
    beside = {}
    if isinstance(returned, Mapping):
        beside = {text(key): value for key, value in returned.items()}
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
        said["extracted"] = text(pred)
    return said


def text(value):
    try:
        return str(value)
    except Exception:  # as of an integer of too many digits
        return f"<{type(value).__name__}>"


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
        answers = call(question)
    except Unasked as reason:
        answers = [{"verdict": "fault", "reason": str(reason)} for _ in responses_of(question)]
    except Unjudged as reason:
        return {"failed": str(reason)}
    except BaseException as error:  # sys.exit() too
        line = last_line(error, file)
        if line != question.get("again"):
            print(own_traceback(error), file=sys.stderr, flush=True)
        return {"failed": line}
    return {"answers": answers} if "responses" in question else answers[0]


main()
