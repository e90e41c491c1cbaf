"""An environment of prime-rl's package verifiers (0.1.14), as an environment of isentrope.

This class stands in place of the client that such an environment asks for each turn. It runs
MultiTurnEnv and ToolEnv with their data, tools, stop conditions and rubric as they are. Name your
environment's module below, in the import of load_environment; it may stand beside this file, in the
current directory, or be installed. The model's chat template must begin with a special token. The
recipe has

    [environment]
    kind = "python"
    python = "examples/verifiers/environment.py:Environment"
    interpreter = ".venv/bin/python"        # which has verifiers
    opens = true

    [reward]
    verifier = "none"

and a data file of row numbers: {"prompt": [], "extra_info": {"row": 0}}. docs/guides/turns.md says
which environments it covers.
"""

import asyncio
import contextvars
import json
import re

from verifiers.types import ClientConfig, Response, ResponseMessage, ToolCall

from number_guess import load_environment  # your environment's module

ENVIRONMENT, EPISODE = load_environment(), contextvars.ContextVar("episode")
TOOLS = [tool.model_dump_json(exclude_none=True) for tool in ENVIRONMENT.tool_defs or []]
USE = '\n\nCall a function by <tool_call>{"name": ..., "arguments": {...}}</tool_call>.'


def calls(text):
    """The calls of a turn, which a server would have read.

    None if there is none, or one cannot be read.
    """
    found = []
    for call in re.findall("<tool_call>(.*?)</tool_call>", text, re.DOTALL):
        try:
            name, arguments = (json.loads(call)[key] for key in ("name", "arguments"))
            call = ToolCall(id=str(len(found)), name=name, arguments=json.dumps(arguments))
        except (ValueError, TypeError, KeyError):
            return None
        found.append(call)
    return found or None


async def sampled(state, prompt, **_):
    """The model's next turn, in place of a client's."""
    episode = EPISODE.get()
    await episode.prompts.put(prompt)
    text = await episode.turns.get()
    message = ResponseMessage(
        content=text, tool_calls=calls(text), finish_reason="stop", is_truncated=False
    )
    return Response(id="", created=0, model="", message=message)


ENVIRONMENT.get_model_response = sampled


class Environment:
    async def reset(self, problem, seed):
        self.prompts, self.turns, self.seen = asyncio.Queue(), asyncio.Queue(), 0
        EPISODE.set(self)
        row = ENVIRONMENT.get_dataset()[problem["extra_info"]["row"]]
        run = ENVIRONMENT.rollout(row, ClientConfig(api_key_var="HOME"), "policy")
        self.rollout = asyncio.create_task(run)
        messages = await self.messages()
        if TOOLS and messages:
            if messages[0]["role"] != "system":
                messages.insert(0, {"role": "system", "content": ""})
            messages[0]["content"] += "\n".join(["\n\nFunctions:", *TOOLS]) + USE
        return messages

    async def step(self, message):
        await self.turns.put(message)
        messages = await self.messages()
        if not self.rollout.done():
            return {"messages": messages}
        state = self.rollout.result()
        if state["error"]:
            raise state["error"]
        await ENVIRONMENT.rubric.score_rollout(state)
        return {"done": True, "reward": state["reward"], "metrics": state["metrics"]}

    async def messages(self):
        """The messages since the model's last turn."""
        prompt = asyncio.create_task(self.prompts.get())
        await asyncio.wait({prompt, self.rollout}, return_when=asyncio.FIRST_COMPLETED)
        if self.rollout.done():
            prompt.cancel()
            return []
        new, self.seen = prompt.result()[self.seen :], len(prompt.result()) + 1
        return [{"role": m.role, "content": m.content} for m in new]
