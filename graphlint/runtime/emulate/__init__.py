"""CUDA on CPU memory: what a captured graph does, without a GPU.

`machine.py` holds the state of the emulated device; `arena.py` its memory, `streams.py` its order of work, `graph.py`
capture and replay, `dispatch.py` sees every aten call, `install.py` puts the parts in place of torch's own.
"""
