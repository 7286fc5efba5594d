"""Objects of libraries that keep their state in Python, where a replay does not change it.

Sources: `transformers/cache_utils.py` of transformers 5.17 (`DynamicLayer.update` sets `self.keys` to the `torch.cat`
of what it was and what is new; `OffloadedCache` is of 4.x); `torch.utils.tensorboard.SummaryWriter`, the loggers of
MLflow and Lightning, tqdm.
"""

from __future__ import annotations

#: Caches of keys and values that grow by concatenation at every step.
GROWING_CACHES = ("DynamicCache", "QuantizedCache", "OffloadedCache", "EncoderDecoderCache")
#: Methods that report a number to a person.
LOGGERS = frozenset({
    "add_scalar", "add_scalars", "add_histogram", "add_image", "add_text", "add_figure", "log_metric", "log_metrics",
    "log_dict", "log_scalar", "set_postfix", "set_description",
})  # fmt: skip
#: Functions whose answer is the same at every call of a process, as long as it does not move to another device.
STEADY_NUMBERS = frozenset({
    "torch.cuda.current_device", "torch.cuda.device_count", "torch.distributed.get_rank",
    "torch.distributed.get_world_size", "os.getpid",
})  # fmt: skip
