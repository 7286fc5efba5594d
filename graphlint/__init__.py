"""graphlint: finds what breaks under a CUDA graph in PyTorch code, and proves it by running the code."""

__version__ = "0.1.0"
__distribution__ = "torch-graphlint"


def __getattr__(name: str) -> object:
    """`trace` and `allow` come from the runtime witness; torch is imported only when they are used."""
    if name in ("trace", "allow", "Trace"):
        from importlib import import_module

        return getattr(
            import_module("graphlint.runtime.allowing" if name == "allow" else "graphlint.runtime.api"), name
        )
    raise AttributeError(f"module 'graphlint' has no attribute {name!r}")
