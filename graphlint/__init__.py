"""graphlint: finds what breaks under a CUDA graph in PyTorch code, and proves it by running the code."""

__version__ = "0.1.0"
__distribution__ = "torch-graphlint"
