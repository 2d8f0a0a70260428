"""The device a model runs on: what does not exist is one error, for every kind of model."""

from __future__ import annotations

import pytest
import torch

from tpips_model.devices import chosen_device
from tpips_model.errors import ModelError
from tpips_model.loading import load_model


def test_a_device_that_is_there_is_taken() -> None:
    assert chosen_device("cpu") == chosen_device(torch.device("cpu")) == torch.device("cpu")
    assert chosen_device("cpu:0") == torch.device("cpu:0")
    assert chosen_device(None).type == ("cuda" if torch.cuda.is_available() else "cpu")


@pytest.mark.parametrize("device", ["toaster", "", "cuda:", "cuda:-1", "cuda:300", " cpu", "meta", "xla", 1.5, b"cpu"])
def test_what_names_no_device_is_refused(device: str) -> None:
    with pytest.raises(ModelError, match=r"is no device of a model; give 'cpu', 'cuda'"):
        chosen_device(device)


@pytest.mark.parametrize(
    ("device", "gpus", "message"),
    [
        ("cuda", 0, "torch sees no such GPU here"),
        ("cuda:1", 0, "torch sees no such GPU here"),
        ("cuda:2", 2, "the last of its kind here is 'cuda:1'"),
        ("cpu:1", 2, "the last of its kind here is 'cpu:0'"),
        ("mps", 2, "torch sees no such GPU here"),
    ],
)
def test_what_is_not_there_is_refused(monkeypatch: pytest.MonkeyPatch, device: str, gpus: int, message: str) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: gpus > 0)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: gpus)
    monkeypatch.setattr(torch.backends.mps, "is_available", lambda: False)
    with pytest.raises(ModelError, match=f"the device '{device}' was asked for, but {message}; give one that is there"):
        chosen_device(device)
    if gpus:
        assert chosen_device("cuda") == torch.device("cuda")
        assert chosen_device("cuda:1") == torch.device("cuda:1")


def test_mini_takes_no_device_that_is_not_there() -> None:
    with pytest.raises(ModelError, match="is no device of a model"):
        load_model("mini", device="toaster")
    with pytest.raises(ModelError, match="'mini' takes no attention, merge_adapters"):
        load_model("mini", attention="flash_attention_2", merge_adapters=True)
    assert load_model("mini", device="cpu").name == "mini"
