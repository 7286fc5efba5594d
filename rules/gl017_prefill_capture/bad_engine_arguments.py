# fault: engine arguments about graphs that contradict each other, and one that newer versions do not have
# outcome: static-only
"""Needs vLLM and a model, so it is not run: the arguments say enough."""


def offline(model: str):
    from vllm import LLM

    sizes = [1, 2, 4, 8]
    return LLM(model, enforce_eager=True, compilation_config={"cudagraph_capture_sizes": sizes})  # expect: prefill-capture


def long_prompts(model: str):
    from vllm import LLM

    return LLM(model=model, max_seq_len_to_capture=32768)  # expect: prefill-capture


def whole_graphs(model: str):
    from vllm import EngineArgs

    return EngineArgs(model=model, compilation_config={"full_cuda_graph": True})  # expect: prefill-capture


if __name__ == "__main__":
    print("OUTCOME: static-only", offline.__name__, long_prompts.__name__, whole_graphs.__name__)
