"""The storage of a tensor: a weak reference to it dies with the last tensor over it."""

from __future__ import annotations

from typing import Any

import torch

#: What lies behind a tensor: `data_ptr()`, `nbytes()`, `_cdata`.
storage_of: Any = torch._C.TensorBase.untyped_storage
