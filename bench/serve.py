"""Compares `isentrope serve` with llama.cpp's llama-server on one model, and prints a Markdown table.

usage: python3 bench/serve.py MODEL LLAMA_SERVER GGUF [GGUF ...]
MODEL is a Hugging Face directory, a GGUF is the same model made by llama.cpp's convert_hf_to_gguf.py.
Builds the release binary, starts all servers, and sends equal requests to each in turn.
"""

import argparse
import http.client
import json
import statistics
import subprocess
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from processes import build, table, warn_if_busy

PORT = 18200
# Clients at once, words of a prompt, tokens of a response.
JOBS = [(1, 10, 64), (8, 10, 64), (32, 10, 64), (8, 400, 64)]
WORDS = "the old man walked slowly along the river and looked at the boats that lay in the sun".split()


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", type=Path)
    parser.add_argument("llama_server", type=Path)
    parser.add_argument("gguf", type=Path, nargs="+")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--threads", type=int, default=2)
    return parser.parse_args()


def request(port, method, path, body=None):
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=600)
    connection.request(method, path, body and json.dumps(body), {"Content-Type": "application/json"})
    response = connection.getresponse()
    text = response.read()
    connection.close()
    return response.status, text


def wait_for(port):
    for _ in range(600):
        try:
            if request(port, "GET", "/health")[0] == 200:
                return
        except OSError:
            pass
        time.sleep(0.1)
    raise SystemExit(f"the server of port {port} has not started within a minute")


def complete(port, number, words, tokens):
    """Sampled tokens of one request. The number comes first, so that no two prompts share a beginning."""
    prompt = f"{number} " + " ".join(WORDS[(number + i) % len(WORDS)] for i in range(words))
    body = {"prompt": prompt, "max_tokens": tokens, "temperature": 1.0, "seed": number, "ignore_eos": True}
    status, text = request(port, "POST", "/v1/completions", body)
    if status != 200:
        raise SystemExit(f"port {port} answers {status}: {text[:300]}")
    return json.loads(text)["usage"]["completion_tokens"]


def tokens_per_second(port, job, begin):
    clients, words, tokens = job
    with ThreadPoolExecutor(clients) as pool:
        begun = time.perf_counter()
        count = sum(pool.map(lambda i: complete(port, begin + i, words, tokens), range(clients)))
        return count / (time.perf_counter() - begun)


def main():
    args = arguments()
    warn_if_busy()
    threads = str(args.threads)
    names = ["isentrope"] + [path.name for path in args.gguf]
    commands = [[build("isentrope", "bin", "isentrope"), "serve", args.model, "--device", "cpu", "--threads", threads]]
    for path in args.gguf:
        commands.append([args.llama_server, "-m", path, "-c", "32768", "-np", "32", "-t", threads, "-tb", threads])
    servers = []
    try:
        for index, command in enumerate(commands):
            command += ["--port", str(PORT + index)]
            servers.append(subprocess.Popen(list(map(str, command)), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL))
            wait_for(PORT + index)
        rows = []
        for job in JOBS:
            rounds = []
            for number in range(args.rounds + 1):
                begin = 1000 * (number + 1)
                rounds.append([tokens_per_second(PORT + index, job, begin) for index in range(len(servers))])
            # The first round warms up.
            medians = [statistics.median(speeds) for speeds in zip(*rounds[1:])]
            ratios = [f"{medians[0] / other:.2f}" for other in medians[1:]]
            rows.append([*map(str, job), *(f"{speed:.0f}" for speed in medians), *ratios])
        headings = ["clients", "prompt words", "response tokens", *(f"{name} tokens/s" for name in names)]
        print(table(headings + [f"ratio to {name}" for name in names[1:]], rows))
    finally:
        for server in servers:
            server.terminate()


if __name__ == "__main__":
    main()
