"""A short name for a model's weights."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor

import torch
from torch import Tensor

from tpips_model.qwen.adapters import canonical_name

__all__ = ["weights_digest"]


def weights_digest(tensors: Iterable[tuple[str, Tensor]]) -> str:
    """Return the SHA-256 of named tensors: names, types, shapes and every value.

    It does not depend on the order, on how files hold the tensors, or on where they are. About half a second for a
    gigabyte and core.

    Args:
        tensors: Of any type and device.

    Returns:
        64 hexadecimal digits.
    """
    pairs = sorted((canonical_name(name), tensor) for name, tensor in tensors)
    with ThreadPoolExecutor() as pool:  # hashing lets go of the interpreter lock
        digests = pool.map(_digest, (tensor for _, tensor in pairs))
        whole = hashlib.sha256()
        for (name, _), digest in zip(pairs, digests, strict=True):
            whole.update(f"{name} {digest}\n".encode())
    return whole.hexdigest()


def _digest(tensor: Tensor) -> str:
    content = hashlib.sha256(f"{tensor.dtype} {tuple(tensor.shape)}".encode())
    flat = tensor.detach().cpu().contiguous().flatten()
    content.update(flat.view(torch.uint8).numpy().data)
    return content.hexdigest()
