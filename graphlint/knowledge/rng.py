"""Random numbers under capture: what seeds, what reads or sets generator state, what draws on the host.

The default CUDA generator is registered with every capture: its seed and offset live on the device and the offset
advances at each replay, so dropout and `torch.rand(device="cuda")` draw fresh numbers (measured on an NVIDIA H200,
torch 2.11, 2026-11-29: two replays gave different masks; reseeding between replays reproduced them).
"""

from __future__ import annotations

from graphlint.knowledge import factories

#: Re-seeding. Inside a capture a new seed raises; the same seed is accepted and does nothing at replay.
SEEDING = frozenset(
    {
        "torch.manual_seed",
        "torch.seed",
        "torch.cuda.manual_seed",
        "torch.cuda.manual_seed_all",
        "torch.cuda.seed",
        "torch.cuda.seed_all",
        "torch.Generator.manual_seed",
        "torch.Generator.seed",
        "transformers.set_seed",
        "transformers.trainer_utils.set_seed",
        "accelerate.utils.set_seed",
        "lightning.seed_everything",
        "lightning.pytorch.seed_everything",
        "pytorch_lightning.seed_everything",
    }
)
#: Draws a new seed from the operating system: raises in every capture.
FRESH_SEED = frozenset({"torch.seed", "torch.cuda.seed", "torch.cuda.seed_all", "torch.Generator.seed"})

#: Generator state as numbers, fixed at capture. (A state tensor that is read does no harm by itself.)
STATE_READS = frozenset(
    {
        "torch.Generator.get_offset",
        "torch.Generator.initial_seed",
        "torch.cuda.initial_seed",
        "torch.initial_seed",
    }
)
#: Setting it: done once, at capture.
STATE_WRITES = frozenset(
    {
        "torch.set_rng_state",
        "torch.cuda.set_rng_state",
        "torch.cuda.set_rng_state_all",
        "torch.Generator.set_state",
        "torch.Generator.set_offset",
    }
)
#: Refused inside a capture in every version.
STATE_REFUSED = frozenset({"torch.Generator.get_offset", "torch.Generator.set_offset"})

#: Made for graphs: the state is shared, not copied through the host.
GRAPH_SAFE = frozenset({"torch.Generator.graphsafe_get_state", "torch.Generator.graphsafe_set_state"})

_NOT_DRAWS = frozenset(
    {"seed", "getstate", "setstate", "get_state", "set_state", "default_rng", "Random", "RandomState", "Generator"}
)
_OTHER_DRAWS = frozenset(
    {
        "os.urandom",
        "uuid.uuid4",
        "uuid.uuid1",
        "secrets.randbelow",
        "secrets.choice",
        "secrets.randbits",
        "secrets.token_bytes",
    }
)


def host_draw(name: str) -> bool:
    """Whether `name` draws a random number with Python or numpy: `random.uniform`, `numpy.random.Generator.normal`."""
    last = name.rpartition(".")[2]
    if last in _NOT_DRAWS or last.startswith("_"):
        return False
    return name in _OTHER_DRAWS or name.startswith(("random.", "numpy.random."))


def tensor_draw(name: str) -> bool:
    """Whether `name` makes or fills a tensor with random numbers."""
    factory = factories.FACTORIES.get(name)
    if factory is not None:
        return factory.random
    return name in ("torch.normal", "torch.bernoulli", "torch.multinomial", "torch.poisson")


def takes_generator(name: str) -> bool:
    """Whether `generator=` of `name` decides where its random numbers come from."""
    last = name.rpartition(".")[2]
    return tensor_draw(name) or last in (
        "random_",
        "uniform_",
        "normal_",
        "exponential_",
        "geometric_",
        "cauchy_",
        "log_normal_",
        "bernoulli_",
        "bernoulli",
        "multinomial",
        "trunc_normal_",
        "kaiming_normal_",
        "kaiming_uniform_",
        "xavier_normal_",
        "xavier_uniform_",
    )
