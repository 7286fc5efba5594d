# right: one statement about graphs: full graphs for decoding, piecewise ones for prompts, or none at all
# outcome: static-only
"""Needs vLLM and a model, so it is not run: the arguments say enough."""


def offline(model: str):
    from vllm import LLM

    graphs = {"cudagraph_mode": "FULL_AND_PIECEWISE", "cudagraph_capture_sizes": [1, 2, 4, 8]}
    return LLM(model, compilation_config=graphs)  # fine: the default mode, with sizes of one's own


def debugging(model: str):
    from vllm import LLM

    return LLM(model=model, enforce_eager=True)  # fine: no graphs, and nothing else says otherwise


def quiet(model: str):
    from vllm import EngineArgs

    return EngineArgs(model=model, enforce_eager=True, compilation_config={"cudagraph_mode": "NONE"})  # fine: both say no


if __name__ == "__main__":
    print("OUTCOME: static-only", offline.__name__, debugging.__name__, quiet.__name__)
