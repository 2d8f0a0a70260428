"""Inner products of halves on a device: the one operation that CUDA and the CPU spell differently."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from search.device.choice import DeviceError, cuda_devices
from search.device.queries import summing_error

if TYPE_CHECKING:
    import torch

__all__ = ["default_memory", "opened_device", "products"]

PROBE_ROWS = 1024
PROBE_DIM = 256


def products(queries: torch.Tensor, rows: torch.Tensor) -> torch.Tensor:
    """Return the inner products, float32 (B, K), of float16 (B, D) and float16 (K, D), summed in float32."""
    import torch

    if queries.device.type == "cpu":  # which torch gives no floats for halves
        return queries.float() @ rows.float().T
    return torch.mm(queries, rows.T, out_dtype=torch.float32)


def opened_device(name: str) -> torch.device:
    """Return a device that multiplies as precisely as ``HalfQueries`` says.

    Raises:
        DeviceError: There is no such device, or it sums less precisely.
    """
    import torch

    there = ("cpu", *cuda_devices())
    if name not in there:
        raise DeviceError(f"there is no device {name!r} to scan with; there is {', '.join(there)}")
    device = torch.device(name)
    # torch can be told to sum in half precision or to round floats before it multiplies. All products are positive and
    # their sums near 1, where any rounding coarser than float32's shows.
    values = np.random.default_rng(0).uniform(0.5, 1.5, (PROBE_ROWS + 1, PROBE_DIM))
    halves = (values / np.linalg.norm(values, axis=1, keepdims=True)).astype(np.float16)
    query, rows = halves[:1], halves[1:]
    got = products(torch.from_numpy(query).to(device), torch.from_numpy(rows).to(device)).cpu().numpy()
    error = np.abs(got[0] - rows.astype(np.float64) @ query[0].astype(np.float64)).max()
    bound = summing_error(PROBE_DIM) * 1.01
    if not error <= bound:
        raise DeviceError(
            f"{name} sums products of halves with an error of {error:.1e}, where {bound:.1e} is the most that exact "
            "results allow. Leave torch.backends.cuda.matmul.allow_fp16_accumulation off and "
            "torch.set_float32_matmul_precision at 'highest', or scan on the CPU (device='cpu')"
        )
    return device


def default_memory(device: torch.device) -> int:
    """Return how many bytes of vectors a device keeps unless told otherwise."""
    import torch

    # The other half is for the model that embeds pictures, for scores and for buffers.
    return torch.cuda.mem_get_info(device)[0] // 2 if device.type == "cuda" else 0
