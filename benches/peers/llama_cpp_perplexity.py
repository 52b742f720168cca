#!/usr/bin/env python3
"""Perplexity of llama.cpp over the text of engine/tests/data, to compare with what
`cargo test --release -p engine --test real_model logits -- --nocapture` prints for our engine.

Needs: pip install llama-cpp-python numpy (a development tool; no test calls this).
Usage: llama_cpp_perplexity.py MODEL.gguf [TEXT_FILE]
"""
import pathlib
import sys

import llama_cpp
import numpy as np

model = sys.argv[1]
default = pathlib.Path(__file__).parents[2] / "engine/tests/data/text.txt"
text = pathlib.Path(sys.argv[2] if len(sys.argv) > 2 else default).read_bytes()
llama = llama_cpp.Llama(model, n_ctx=4096, logits_all=True, verbose=False)
tokens = llama.tokenize(text, add_bos=False, special=False)
llama.eval(tokens)
logits = np.asarray(llama.scores[: len(tokens)], dtype=np.float64)
peak = logits.max(axis=1, keepdims=True)
norm = np.log(np.exp(logits - peak).sum(axis=1)) + peak[:, 0]
surprise = norm[:-1] - logits[np.arange(len(tokens) - 1), tokens[1:]]
print(f"{len(tokens) - 1} positions, perplexity {np.exp(surprise.mean()):.4f}")
