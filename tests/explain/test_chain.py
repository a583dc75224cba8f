"""Sequences of layers: shapes and receptive fields against PyTorch, whose gradients say what an output depends on."""

from __future__ import annotations

import random
from typing import Any

import pytest

from poolcli import AvgPool, PoolError, chain
from poolcli.windows import Sliding
from tests.conftest import Cli
from tests.profiles import sized

COUNT = sized(40, 1000)


def drawn(seed: int) -> tuple[int, list[str]]:
    """The length of an axis, and one to five layers that PyTorch has too."""
    chance = random.Random(seed)  # noqa: S311  # no secret
    layers = []
    for _ in range(chance.randint(1, 5)):
        kind = chance.choice(["conv", "conv", "max", "avg", "avg", "adaptive-avg", "global-max"])
        if kind == "global-max":
            layers.append(kind)
        elif kind == "adaptive-avg":
            layers.append(f"{kind}:{chance.randint(1, 9)}")
        else:
            kernel = chance.randint(1, 5)
            settings = [f"k{kernel}", f"s{chance.randint(1, 3)}", f"p{chance.randint(0, kernel // 2)}"]
            settings += [f"d{chance.randint(1, 3)}"] if kind != "avg" else []
            settings += ["ceil"] if kind != "conv" and chance.random() < 0.4 else []
            layers.append(f"{kind}:{','.join(settings)}")
    return chance.randint(1, 40), layers


def in_torch(x: Any, layer: str) -> Any:
    """The layer in PyTorch, with sums in place of maxima: they read the same elements."""
    import torch.nn.functional as f

    name, _, rest = layer.partition(":")
    if name.startswith("global"):
        return f.adaptive_avg_pool1d(x, 1)
    if name.startswith("adaptive"):
        return f.adaptive_avg_pool1d(x, int(rest))
    numbers = {setting[0]: int(setting[1:]) for setting in rest.split(",") if setting != "ceil"}
    k, s, p, d = (numbers.get(letter, 1) for letter in "kspd")
    if (k - 1) * d + 1 > x.shape[-1] + 2 * p and "ceil" not in rest:
        raise RuntimeError
    if name == "conv":
        return f.conv1d(x, x.new_ones((1, 1, k)), stride=s, padding=p, dilation=d)
    if name == "avg":
        return f.avg_pool1d(x, k, s, p, ceil_mode="ceil" in rest)
    length = f.max_pool1d(x, k, s, p, d, ceil_mode="ceil" in rest).shape[-1]
    overhang = max(0, (length - 1) * s + (k - 1) * d + 1 - x.shape[-1] - 2 * p)
    return f.conv1d(f.pad(x, (p, p + overhang)), x.new_ones((1, 1, k)), stride=s, dilation=d)[..., :length]


def read_by(y: Any, x: Any, o: int) -> tuple[tuple[int, int] | None]:
    """The first and last element of x that has a gradient of element o."""
    import torch

    (gradient,) = torch.autograd.grad(y[0, 0, o], x, retain_graph=True, allow_unused=True)
    found = gradient[0, 0].nonzero().ravel().tolist()
    return ((found[0], found[-1]),) if found else (None,)


@pytest.mark.parametrize("seed", range(COUNT))
def test_shapes_and_fields_are_those_of_pytorch(seed: int) -> None:
    torch = pytest.importorskip("torch", reason="PyTorch is compared where it is installed")
    size, layers = drawn(seed)
    x = torch.ones((1, 1, size), dtype=torch.float64, requires_grad=True)
    y, refused = x, 0
    for count, layer in enumerate(layers, 1):
        try:
            y = in_torch(y, layer)
        except RuntimeError:  # a window longer than its padded input
            refused = count
            break
        known = chain((1, 1, size), layers[:count], like="pytorch").layers[-1]
        assert known.output == tuple(y.shape)
        assert (known.span, known.centre) == (read_by(y, x, 0), read_by(y, x, y.shape[-1] // 2))
        reach = known.span[0]
        assert reach is None or known.field[0] >= reach[1] - reach[0] + 1
        middle, stride = known.centre[0], known.stride[0]
        if stride and reach and middle and {b - a + 1 for a, b in (reach, middle)} == {known.field[0]}:
            assert middle[0] == reach[0] + y.shape[-1] // 2 * stride
    if refused:
        with pytest.raises(PoolError, match=f"^layer {refused}, "):
            chain((1, 1, size), layers[:refused], like="pytorch")


def test_what_unequal_bins_read_is_followed_once_and_to_a_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    followed, span = list[int](), Sliding.span

    def following(w: Sliding, o: int) -> range:
        followed.append(o)
        return span(w, o)

    monkeypatch.setattr(Sliding, "span", following)
    found = chain((1, 1, 900), ["adaptive-avg:601", *["max:k3,s1,p1"] * 9]).layers[-1]
    assert (found.field, found.span, len(followed) < 9 * 700) == ((30,), ((0, 14),), True)
    with pytest.raises(PoolError, match=r"^an axis has 200,000 elements after bins of unequal length; at most 100,000"):
        chain((1, 1, 300_001), ["adaptive-avg:200000"])


def test_the_stem_of_resnet_has_the_fields_that_its_authors_give() -> None:
    blocks = ["conv:k3,p1", "conv:k3,p1"] * 2 + ["conv:k3,s2,p1", "conv:k3,p1", "conv:k3,p1", "conv:k3,p1"] * 3
    found = chain((1, 3, 224, 224), ["conv:k7,s2,p3,o64", "max:k3,s2,p1", *blocks])
    assert found.layers[-1].output == (1, 64, 7, 7)
    assert (found.layers[1].field, found.layers[-1].field) == ((11, 11), (435, 435))  # of ResNet-18
    assert found.layers[-1].stride == (32, 32)
    assert [each.start[0] for each in (*found.layers[:2], found.layers[-1])] == [-3, -5, -217]


def test_axes_have_numbers_of_their_own() -> None:
    (layer,) = chain((2, 9, 10, 3), ["avg: k2X3, S1x3"], layout="NHWC").layers
    assert (layer.output, layer.field, layer.stride) == ((2, 8, 3, 3), (2, 3), (1, 3))


def test_convolutions_have_the_names_of_pytorch_too() -> None:
    assert chain((1, 3, 64, 64), ["conv2d:k7,s2", "Conv2d:k3"]).layers[-1].output == (1, 3, 27, 27)


def test_records_are_layers_too() -> None:
    (layer,) = chain((1, 1, 8), [AvgPool(2, strides=2)]).layers
    assert (layer.layer, layer.output) == ("avg", (1, 1, 4))


@pytest.mark.parametrize(
    ("layers", "said"),
    [
        (["max:k3", "avg:k9"], "layer 2, avg:k9: axis W is 6 long, kernel 9 without padding leaves no window"),
        (["mux:k3"], "layers is 'mux'"),
        ([], "layers is empty; give one or more, such as conv:k7"),
        ("conv:k3 max:k2", "layers is a str; give a list of layers, such as ['conv:k3', 'max:k2']"),
        ([3], "layers has 3; give text such as 'max:k3,s2', or records"),
    ],
)
def test_what_is_no_layer_is_refused_with_its_place(layers: Any, said: str) -> None:
    with pytest.raises(PoolError) as refused:
        chain((1, 1, 8), layers)
    assert said in str(refused.value)


@pytest.mark.parametrize(
    ("arguments", "note"),
    [
        (["20,48,64", "max:k1"],
         "note  assuming layout NCW: only W is pooled; otherwise use --layout CHW or --layout DHW"),
        (["1,224,224,3", "max:k2,s2"],
         "note  assuming layout NCHW; axis W is 3 long, as of colours: if so, use --layout NHWC"),
        (["1,224,224,3", "max:k2,s2", "--layout", "NHWC"], None),
        (["1,3,224,224", "conv:k3"], None),
        (["1,3,8,8", "bn", "max:k2,s2", "nn.ReLU()"], "note  left out as they keep the shape: bn, nn.ReLU()"),
        (["1,1,16000", "max:k2", "--like", "pytorch"], None),
        (["1,1,16000", "MaxPool2d:k2"],
         "note  stride 1 in max:k2, where none is given; PyTorch takes the kernel, as in max:k2,s2"),
    ],
)  # fmt: skip
def test_a_layout_that_may_be_wrong_and_the_default_stride_are_stated(
    cli: Cli, arguments: list[str], note: str | None
) -> None:
    legend, *notes = cli("chain", *arguments, columns=120).out.splitlines()[3:]
    assert legend == "output 0, centre: the first and last input element that they depend on"
    assert notes == ([note] if note else [])


def test_one_element_is_no_range(cli: Cli) -> None:
    assert cli("chain", "1,3,9", "max:k1,s2").out.splitlines()[2].split()[-2:] == ["0", "4"]
