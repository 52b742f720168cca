#!/usr/bin/env python3
"""Prefill and decode of mneme and of llama.cpp on the same GGUF file and text, in one run; prints medians and ratios.

Needs: CMAKE_ARGS=-DGGML_NATIVE=ON pip install --no-binary llama-cpp-python llama-cpp-python
Usage: llama_cpp_speed.py MNEME_BINARY MODEL.gguf [TEXT_FILE] [RUNS=5] [THREADS=2]
mneme's decode is measured twice: token by token, as llama.cpp's, and with prompt-lookup drafts, which pay where the
reply copies from the prompt.
"""
import json
import pathlib
import statistics
import subprocess
import sys
import time

import llama_cpp

NEW = 64
binary, model = sys.argv[1:3]
default = pathlib.Path(__file__).parents[2] / "engine/tests/data/text.txt"
text = pathlib.Path(sys.argv[3] if len(sys.argv) > 3 else default).read_text()
runs = int(sys.argv[4]) if len(sys.argv) > 4 else 5
threads = int(sys.argv[5]) if len(sys.argv) > 5 else 2


def seconds(duration):
    return duration["secs"] + duration["nanos"] / 1e9


def mneme(drafts):
    command = [binary, "generate", "--raw", text, "--max-tokens", str(NEW + 1), "--json", "--model", model]
    command += ["--threads", str(threads), "--draft-tokens", str(drafts)]
    usage = json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout)["usage"]
    decoded = usage["generated_tokens"] - 1
    return usage["prompt_tokens"] / seconds(usage["prefill"]), decoded / seconds(usage["decode"])


llama = llama_cpp.Llama(model, n_ctx=4096, n_batch=2048, n_threads=threads, n_threads_batch=threads, verbose=False)
tokens = llama.tokenize(text.encode(), add_bos=False)


def peer():
    llama.reset()
    start = time.perf_counter()
    llama.eval(tokens)
    first = time.perf_counter()
    for _ in range(NEW):
        llama.eval([llama.sample(temp=0)])
    return len(tokens) / (first - start), NEW / (time.perf_counter() - first)


measured = [(mneme(0), mneme(3), peer()) for _ in range(runs)]
print(f"{model}: {len(tokens)} prompt tokens, {NEW} new ones, {threads} threads, medians of {runs} alternating runs")


def median(side, index):
    return statistics.median(run[side][index] for run in measured)


for name, side, index in [("prefill", 0, 0), ("decode", 0, 1), ("decode with drafts", 1, 1)]:
    ours, theirs = median(side, index), median(2, index)
    print(f"{name}: mneme {ours:.1f} tok/s, llama.cpp {theirs:.1f} tok/s, ratio {ours / theirs:.2f}")
