#!/usr/bin/env python3
"""Prints the golden token ids of tests/models.rs, from llama.cpp (a tokenizer that shares no code with ours).
Needs: pip install xllamacpp
Usage: golden_ids.py MODEL.gguf TEXTS.json        (a JSON list of strings; one JSON list of ids a line)"""
import json
import sys
import unicodedata
import urllib.request

import xllamacpp

params = xllamacpp.CommonParams()
params.model.path = sys.argv[1]
params.n_ctx = 512
params.n_parallel = 1
params.warmup = False
server = xllamacpp.Server(params)
for text in json.load(open(sys.argv[2])):
    # llama.cpp has no NFC step; Qwen2's tokenizer starts with one.
    body = {"content": unicodedata.normalize("NFC", text), "add_special": False, "parse_special": True}
    request = urllib.request.Request(server.listening_address + "/tokenize", json.dumps(body).encode(), {"Content-Type": "application/json"})
    print(json.loads(urllib.request.urlopen(request).read())["tokens"], flush=True)
