#!/usr/bin/env python3
"""Requests per minute of mneme's engine and of llama.cpp's server: 16 prompts over one stem of 600 tokens, 64 new tokens
each, sent at once. One run, alternating; prints medians and their ratio.

Needs: pip install xllamacpp (a prebuilt llama.cpp server; an AVX2 build)
Usage: llama_cpp_siblings.py THROUGHPUT_BENCH MODEL.gguf MODEL_NAME [RUNS=3] [THREADS=2] [SLOTS=8]
THROUGHPUT_BENCH is what `cargo bench -p engine --bench throughput --no-run` names; MODEL_NAME a name it takes.
Prompts are random token ids, of equal lengths on both sides; every run has a new stem.
"""
import concurrent.futures
import pathlib
import random
import re
import statistics
import subprocess
import sys
import time

import xllamacpp

bench, model, name = sys.argv[1:4]
runs, threads, slots = (int(value) for value in (sys.argv[4:] + ["3", "2", "8"][len(sys.argv) - 4 :]))
PROMPTS, STEM, TAIL, NEW = 16, 600, 20, 64

params = xllamacpp.CommonParams()
params.model.path = model
params.n_parallel = slots
params.n_ctx = slots * 1024
params.cpuparams.n_threads = params.cpuparams_batch.n_threads = threads
server = xllamacpp.Server(params)
random.seed(1)


def tokens(count):
    return [random.randrange(50_000) for _ in range(count)]


def peer():
    stem = tokens(STEM)
    prompts = [stem + tokens(TAIL) for _ in range(PROMPTS)]

    def ask(prompt):
        request = {"prompt": prompt, "max_tokens": NEW, "temperature": 0, "cache_prompt": True, "ignore_eos": True}
        return server.handle_completions(request)

    start = time.perf_counter()
    with concurrent.futures.ThreadPoolExecutor(PROMPTS) as pool:
        replies = list(pool.map(ask, prompts))
    seconds = time.perf_counter() - start
    assert len(replies) == PROMPTS and all("error" not in reply for reply in replies), replies[0]
    return PROMPTS * 60 / seconds


def ours():
    command = [bench, name, "--only", "siblings", "--threads", str(threads)]
    output = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    return float(re.search(r"siblings over \d+: ([\d.]+) requests/min", output).group(1))


pairs = [(ours(), peer()) for _ in range(runs)]
mneme, llama = (statistics.median(pair[side] for pair in pairs) for side in (0, 1))
print(f"{pathlib.Path(model).name}: {PROMPTS} prompts over {STEM} tokens, {NEW} new ones each, {threads} threads")
print(f"mneme {mneme:.1f} requests/min, llama.cpp server with {slots} slots {llama:.1f}, ratio {mneme / llama:.2f}")
