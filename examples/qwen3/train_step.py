"""Training steps of Qwen3: eager, captured whole, captured without the optimizer, with a Triton kernel, and compiled.

    whole           forward, backward and a capturable AdamW in one graph
    split           forward and backward in the graph, the optimizer outside; between replays nobody clears `.grad`,
                    since the replayed backward writes the very tensors that the optimizer reads
    triton-whole    the whole graph with RMSNorm by the Triton kernel of rmsnorm.py
    compiled        every decoder block under torch.compile (one compilation serves all blocks), no graph
    compiled-whole  the compiled blocks inside the whole graph

Each mode starts from the same weights and sees the same batches; its losses are compared with the eager ones.
Shapes are BATCHxSEQUENCE. From 8192 tokens on, activations are checkpointed selectively: what attention and the narrow
matrix products gave is kept, the rest computed again in the backward.
"""

from __future__ import annotations

import argparse
import gc
from contextlib import nullcontext
from functools import partial

import torch
from common import build_model, cause, draw_weights, finish, milliseconds, parse, parser, prompt_ids, write_report
from rmsnorm import use_torch_rmsnorm, use_triton_rmsnorm
from torch import nn
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils.checkpoint import CheckpointPolicy, create_selective_checkpoint_contexts
from transformers import Qwen3ForCausalLM

WARM_UP = 2
MODES = ["eager", "whole", "split", "triton-whole", "compiled", "compiled-whole"]
aten = torch.ops.aten
ATTENTION = {
    aten._scaled_dot_product_flash_attention.default,
    aten._scaled_dot_product_efficient_attention.default,
    aten._scaled_dot_product_flash_attention_for_cpu.default,
}


def keep(width: int, ctx: object, op: object, *inputs: torch.Tensor, **options: object) -> CheckpointPolicy:
    """Keep what is dear to compute and cheap to hold: attention, and matrix products of at most `width` columns."""
    narrow = op is aten.mm.default and inputs[1].shape[1] <= width
    return CheckpointPolicy.MUST_SAVE if narrow or op in ATTENTION else CheckpointPolicy.PREFER_RECOMPUTE


def checkpoint_selectively(model: Qwen3ForCausalLM) -> None:
    policy = partial(keep, model.config.hidden_size)
    model.gradient_checkpointing_enable(
        {
            "use_reentrant": False,
            "context_fn": partial(create_selective_checkpoint_contexts, policy),
            # Nothing random is recomputed; saving the generator's state in a capture is an error before torch 2.11.
            "preserve_rng_state": False,
        }
    )


class Block(nn.Module):
    """A decoder block with its checkpointing, as one function that torch.compile can take."""

    def __init__(self, block: nn.Module) -> None:
        super().__init__()
        self.block = block

    def forward(self, hidden_states: torch.Tensor, **options: object) -> torch.Tensor:
        return self.block(hidden_states, **options)


def compile_blocks(model: Qwen3ForCausalLM) -> None:
    layers = model.model.layers
    for index, layer in enumerate(layers):
        layers[index] = Block(layer)
        layers[index].compile(fullgraph=True, dynamic=False)


def plain_blocks(model: Qwen3ForCausalLM) -> None:
    layers = model.model.layers
    for index, layer in enumerate(layers):
        if isinstance(layer, Block):
            layers[index] = layer.block


class Trainer:
    """One training step on a static batch, in one of the modes. `step(batch)` returns the loss, a tensor of its own."""

    def __init__(self, model: Qwen3ForCausalLM, args: argparse.Namespace, batch: torch.Tensor, mode: str) -> None:
        self.model, self.mode = model, mode
        self.flash = args.dtype == torch.bfloat16
        self.ids = torch.zeros_like(batch)
        self.optimizer = torch.optim.AdamW(
            model.parameters(), lr=args.lr, fused=True, capturable=mode.endswith("whole")
        )
        self.graph: torch.cuda.CUDAGraph | None = None

    def forward_backward(self) -> torch.Tensor:
        # The mask is given as "none needed". Left to itself transformers builds one while a stream captures, since it
        # may not look whether sequences are packed, and SDPA then leaves its flash kernels.
        with sdpa_kernel(SDPBackend.FLASH_ATTENTION) if self.flash else nullcontext():
            out = self.model(
                input_ids=self.ids, labels=self.ids, attention_mask={"full_attention": None}, use_cache=False
            )
            out.loss.backward()
        return out.loss.detach()

    def step_eager(self, batch: torch.Tensor) -> torch.Tensor:
        self.ids.copy_(batch)
        self.optimizer.zero_grad(set_to_none=True)
        loss = self.forward_backward()
        self.optimizer.step()
        return loss

    def capture(self, batches: list[torch.Tensor]) -> list[torch.Tensor]:
        """Train eagerly on `batches` on a side stream, which warms up, then record. Returns their losses."""
        stream = torch.cuda.Stream()
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            losses = [self.step_eager(batch) for batch in batches]
        torch.cuda.current_stream().wait_stream(stream)
        # The graph makes its own gradients in its pool, where every replay writes them anew.
        self.optimizer.zero_grad(set_to_none=True)
        torch.cuda.empty_cache()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            self.loss = self.forward_backward()
            if self.mode.endswith("whole"):
                self.optimizer.step()
        self.graph = graph
        return losses

    def step(self, batch: torch.Tensor) -> torch.Tensor:
        if self.graph is None:
            return self.step_eager(batch)
        self.ids.copy_(batch)
        self.graph.replay()
        if self.mode == "split":
            self.optimizer.step()
        return self.loss.clone()


def run(
    model: Qwen3ForCausalLM, args: argparse.Namespace, batches: list[torch.Tensor], mode: str
) -> tuple[list[float], dict[str, object]]:
    """Losses over `batches` from the initial weights, and what a step costs."""
    draw_weights(model, args)
    torch.cuda.reset_peak_memory_stats()
    if mode.startswith("compiled"):
        compile_blocks(model)
    if mode.startswith("triton"):
        use_triton_rmsnorm(model)
    trainer = Trainer(model, args, batches[0], mode)
    captured = mode == "split" or mode.endswith("whole")
    losses = trainer.capture(batches[:WARM_UP]) if captured else [trainer.step(batch) for batch in batches[:WARM_UP]]
    losses += [trainer.step(batch) for batch in batches[WARM_UP:]]
    trained = [float(loss) for loss in losses]
    figures: dict[str, object] = {}
    if args.bench:
        figures["ms"] = round(milliseconds(lambda: trainer.step(batches[0]), args.repeats), 1)
        figures["peak_gib"] = round(torch.cuda.max_memory_allocated() / 2**30, 1)
    if mode.startswith("compiled"):
        plain_blocks(model)
    if mode.startswith("triton"):
        use_torch_rmsnorm(model)
    return trained, figures


def apart(losses: list[float], wanted: list[float]) -> float:
    return max(abs(a - b) / abs(b) for a, b in zip(losses, wanted, strict=True))


def measure(
    model: Qwen3ForCausalLM, args: argparse.Namespace, shape: str, mode: str, wanted: list[float] | None
) -> tuple[list[float], dict[str, object]]:
    """One mode at one shape: its losses, and a row of figures. `wanted` are the eager losses, None for eager itself."""
    rows, length = (int(part) for part in shape.split("x"))
    selective = args.checkpoint == "selective" or (args.checkpoint == "auto" and rows * length >= 8192)
    if selective:
        checkpoint_selectively(model)
    # Two batches in turn, so that the loss falls within a few steps and a step that trains nothing shows.
    pair = [prompt_ids(model, args, rows, length).roll(shift, 1) for shift in (0, 1)]
    losses, figures = run(model, args, [pair[step % 2] for step in range(args.steps)], mode)
    figures |= {"first_loss": losses[0], "last_loss": losses[-1], "off": apart(losses, wanted or losses)}
    if selective:
        figures["checkpointing"] = "selective"
        model.gradient_checkpointing_disable()
    # The graph's pool, the optimizer's state and the gradients go before the next mode needs the room.
    model.zero_grad(set_to_none=True)
    gc.collect()
    torch.cuda.empty_cache()
    return losses, figures


def judge(rows: list[dict[str, float]]) -> tuple[str, str]:
    """ok if every mode changes the weights, which the loss shows, and its losses are the eager ones."""
    worst = max(row["off"] for row in rows)
    moved = min(abs(1 - row["last_loss"] / row["first_loss"]) for row in rows)
    # In bf16 the modes' kernels round differently, and by the last step the loss is a small part of the first one. A
    # step too many or too few, or one that trains nothing, changes it by half and more.
    if worst > 0.05 or moved < 0.01:
        return "wrong-result", f"losses {worst:.2g} off the eager ones, moved by {moved:.1%}"
    return "ok", f"losses within {worst:.2g} of the eager ones, moved by at least {moved:.1%}"


def main() -> None:
    options = parser(__doc__)
    options.add_argument("--shape", nargs="+", default=["1x256"], metavar="BATCHxSEQUENCE")
    options.add_argument("--modes", nargs="+", choices=MODES, default=["eager", "whole", "split"])
    options.add_argument("--checkpoint", choices=["auto", "selective", "none"], default="auto")
    options.add_argument("--steps", type=int, default=5)
    options.add_argument("--lr", type=float, help="default: 1e-4 for 8b, 1e-3 for tiny")
    options.add_argument("--bench", action="store_true", help="time a step in each mode")
    options.add_argument("--repeats", type=int, default=3)
    args = parse(options)
    args.lr = args.lr or (1e-4 if args.size == "8b" else 1e-3)
    modes = ["eager", *(mode for mode in args.modes if mode != "eager")]
    model = build_model(args).train()
    wanted: dict[str, list[float]] = {}
    found: dict[str, dict[str, object]] = {}
    try:
        for mode in modes:
            for shape in args.shape:
                losses, row = measure(model, args, shape, mode, wanted.get(shape))
                wanted.setdefault(shape, losses)
                found[f"{shape} {mode}"] = row
                print(f"{shape} {mode}: {row}", flush=True)
                write_report(args, "crash", "did not come to an end", found)
    except torch.OutOfMemoryError as error:
        finish(args, "memory", cause(error), found)
    except RuntimeError as error:
        if "captur" not in str(error):
            raise
        finish(args, "capture-error", cause(error), found)
    else:
        finish(args, *judge(list(found.values())), found)  # type: ignore[arg-type]


if __name__ == "__main__":
    main()
