"""Serve a model with llama.cpp's own server, as `xllamacpp` has it built: no compiler is needed.

python native.py MODEL PORT WINDOW
"""

import sys
import threading

import xllamacpp

params = xllamacpp.CommonParams()
params.model.path = sys.argv[1]
params.port = int(sys.argv[2])
params.n_ctx = int(sys.argv[3])
params.n_parallel = 1
params.n_gpu_layers = 0
params.cpuparams.n_threads = 1
params.warmup = False
server = xllamacpp.Server(params)
threading.Event().wait()
