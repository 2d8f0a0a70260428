"""Which devices a word means; the CPU pays nothing for there being others."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from search.device import choice as device_choice
from search.device.choice import DeviceError, chosen_devices


@pytest.mark.parametrize(
    ("asked", "there", "expected"),
    [
        (None, 2, ()),
        ("cpu", 2, ()),
        ("cuda", 2, ("cuda:0", "cuda:1")),
        ("cuda:1", 2, ("cuda:1",)),
        ("CUDA:1, cuda:0", 2, ("cuda:1", "cuda:0")),
        (["cuda:0", "cuda:1"], 2, ("cuda:0", "cuda:1")),
        ("auto", 1, ("cuda:0",)),
        ("auto", 0, ()),
    ],
)
def test_the_devices_asked_for(
    asked: str | Sequence[str] | None, there: int, expected: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(device_choice, "_has_driver", lambda: True)
    monkeypatch.setattr(device_choice, "cuda_devices", lambda: tuple(f"cuda:{number}" for number in range(there)))
    assert chosen_devices(asked) == expected


@pytest.mark.parametrize("asked", ["cuda:2", "cuda:0,cuda:0", "gpu", "", "cpu,cuda:0", ["auto", "cuda:0"], []])
def test_devices_that_are_not_there(asked: str | Sequence[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(device_choice, "cuda_devices", lambda: ("cuda:0", "cuda:1"))
    with pytest.raises(DeviceError, match=r"is not to be had: torch sees cuda:0, cuda:1\. Say 'cpu'"):
        chosen_devices(asked)


def test_no_gpu_at_all(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(device_choice, "cuda_devices", lambda: ())
    with pytest.raises(DeviceError, match=r"device 'cuda' is not to be had: torch .* was built "):
        chosen_devices("cuda")


def test_the_cpu_pays_nothing() -> None:
    """Neither importing the scan nor the CPU's choice loads torch, nor does "auto" without a driver."""
    program = (
        "import sys; from search.device import choice, scan; choice._has_driver = lambda: False; "
        "print([choice.chosen_devices(each) for each in (None, 'cpu', 'auto')], 'torch' in sys.modules)"
    )
    root = Path(__file__).resolve().parents[2]
    ran = subprocess.run([sys.executable, "-c", program], cwd=root, capture_output=True, text=True, check=True)
    assert ran.stdout.strip() == "[(), (), ()] False"
