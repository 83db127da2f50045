"""The tags of kfac_jax up to 0.0.6: one primitive for each kind of layer and each class of
losses.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import jaxprtool as jt

# The primitives; for losses, the names of the arguments that depend on parameters.
LAYERS = ("conv2d_tag", "dense_tag", "generic_tag", "scale_and_shift_tag")
LOSSES = {
    "CategoricalLogitsNegativeLogProbLoss_tag": ("logits",),
    "MultiBernoulliNegativeLogProbLoss_tag": ("logits",),
    "NormalMeanNegativeLogProbLoss_tag": ("mean",),
    "NormalMeanVarianceNegativeLogProbLoss_tag": ("mean", "variance"),
    "OneHotCategoricalLogitsNegativeLogProbLoss_tag": ("logits",),
}


def _layer(*operands: Any, **options: Any) -> None:
    """The first operand: the output of a layer (of a generic layer, its first parameter).

    options: options of the layer for the curvature estimator.
    """


def _loss(*operands: Any, **options: Any) -> None:
    """The operands of a loss that depend on parameters.

    options: `args_names` (since kfac_jax 0.0.3) names the operands; without it all operands are
    returned.
    """


def _first(name: str, operands: Sequence[Any], options: dict[str, Any]) -> list[int]:
    if not operands:
        jt.ill_typed(f"{name} takes one operand or more", "operand-count")
    return [0]


def _dependants(name: str, operands: Sequence[Any], options: dict[str, Any]) -> list[int]:
    names = options.get("args_names")
    if names is None:
        return [*range(len(operands))]
    if not isinstance(names, tuple) or len(names) != len(operands):
        jt.ill_typed(
            f"{name}: args_names={names} does not name {len(operands)} operands", "param-value"
        )
    return [i for i, x in enumerate(names) if x in LOSSES[name]]


def _declare(name: str, stub: Any, places: Callable[..., list[int]], several: bool) -> Any:
    """Declare a tag: transformations bind it again for the primals; tangents do not pass through
    it.
    """
    op = jt.primitive(name=name, multiple_results=several, library="kfac_jax")(stub)

    def chosen(values: Sequence[Any], options: dict[str, Any]) -> Any:
        found = [values[i] for i in places(name, values, options)]
        return found if several else found[0]

    def transpose(ct: Any, *operands: Any, **options: Any) -> list[Any]:
        found: list[Any] = [None] * len(operands)
        cts = ct if several else [ct]
        for i, c in zip(places(name, operands, options), cts, strict=True):
            found[i] = c
        return found

    jt.define(
        op,
        abstract_eval=lambda *avals, **options: chosen(avals, options),
        impl=lambda xp, *values, **options: chosen(values, options),
        jvp=lambda primals, tangents, **options: (
            op(*primals, **options),
            chosen(tangents, options),
        ),
        transpose=transpose,
        batch=lambda axis_size, values, dims, **options: (
            op(*values, **options),
            chosen(dims, options),
        ),
        lower=lambda ctx, *operands, **options: chosen(operands, options),
        cost=lambda in_avals, out_avals, **_: 0,
    )
    return op


for _name in LAYERS:
    _declare(_name, _layer, _first, several=False)
for _name in LOSSES:
    _declare(_name, _loss, _dependants, several=True)
