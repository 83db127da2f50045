"""The primitives that the built-in plug-ins speak of, as live objects: the libraries' own where they are installed, else ours.

Ours have the same names, params and rules, and are globals of a module of the library's name, which is all that tells them.
"""

from __future__ import annotations

import importlib
import importlib.util
import sys
import warnings
from collections.abc import Callable
from types import ModuleType, SimpleNamespace
from typing import Any

import jax
import jax.numpy as jnp
from jax.extend.core import Primitive
from jax.interpreters import ad, batching, mlir

from jaxprtool.driver.user_code.entry_points import BUILT_IN

__all__ = ["META", "declared", "primitives"]

EQUINOX = (*BUILT_IN["jaxprtool.plugins.equinox"], *BUILT_IN["jaxprtool.plugins.equinox_vprim"])
KFAC = BUILT_IN["jaxprtool.plugins.kfac"]


def declared(name: str, f: Any, types: Any, *, several: bool = False, **rules: Any) -> Any:
    """A primitive of JAX's: what it computes, its types, and its rules `jvp`, `batch` and `transpose`, where it has them."""
    p = Primitive(name)
    p.multiple_results = several
    p.def_impl(f)
    p.def_abstract_eval(types)
    mlir.register_lowering(p, mlir.lower_fun(f, multiple_results=several))
    tables = {"jvp": ad.primitive_jvps, "transpose": ad.primitive_transposes}
    for key, rule in rules.items():
        tables.get(key, batching.primitive_batchers)[p] = rule
    return p


def primitives() -> SimpleNamespace:
    """Each primitive of the plug-ins by its name."""
    found: dict[str, Any] = {}
    for library, names, make in (("equinox", EQUINOX, _equinox), ("kfac_jax", KFAC, _kfac)):
        if importlib.util.find_spec(library) is None:
            module = sys.modules.setdefault(f"{library}.of_tests", ModuleType(library))
            for p in () if vars(module).get("made") else make():
                setattr(module, p.name, p)
            vars(module)["made"] = True
        else:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # a library's own warnings say nothing of ours
                importlib.import_module("equinox.internal" if library == "equinox" else library)
        inside = [m for n, m in list(sys.modules.items()) if n.split(".")[0] == library]
        values = [v for m in inside for v in list(vars(m).values()) if isinstance(v, Primitive)]
        found.update({v.name: v for v in values if v.name in names})
    return SimpleNamespace(**found)


class _Layer:
    """A record of kfac_jax, where there is none."""

    def __init__(self, **fields: Any):
        self.__dict__.update(fields)

    def __repr__(self) -> str:
        shown = ", ".join(f"{k}={v!r}" for k, v in vars(self).items())
        return f"{self.name_of_class}({shown})"

    name_of_class = "LayerMetaData"


class _Loss(_Layer):
    name_of_class = "LossMetaData"


_LAYER = {
    "variant": "scale",
    "outputs_index": (0,),
    "inputs_index": (1,),
    "params_index": (2,),
    "name": "x",
}
_LOSS = {
    "loss_class": dict,
    "parameter_dependants": ("mean",),
    "parameter_independants": ("targets",),
    "argument_names": ("targets", "mean"),
}


def META() -> tuple[Any, Any]:
    """A record of a layer and one of a loss."""
    if importlib.util.find_spec("kfac_jax") is None:
        return _Layer(**_LAYER), _Loss(**_LOSS)
    tags = importlib.import_module("kfac_jax._src.layers_and_loss_tags")
    return tags.LayerMetaData(**_LAYER), tags.LossMetaData(**_LOSS)


# -- equinox -----------------------------------------------------------------------------------


def _front(x: Any, dim: int | None, size: int) -> Any:
    return jnp.broadcast_to(x, (size, *x.shape)) if dim is None else jnp.moveaxis(x, dim, 0)


def _size(xs: Any, dims: Any) -> int:
    return next(x.shape[d] for x, d in zip(xs, dims, strict=True) if d is not None)


def _full(t: Any) -> Any:
    return ad.instantiate_zeros(t)


def _reduction(name: str, reduce: Callable[[Any], Any]) -> Any:
    types = lambda x: jax.core.ShapedArray((), x.dtype)
    p = declared(name, reduce, types, batch=lambda xs, ds: (p.bind(*xs), None))
    return p


def _select() -> Any:
    def batch(xs: Any, ds: Any) -> Any:
        pred, *rest = [
            x if d is None and i == 0 else _front(x, d, _size(xs, ds))
            for i, (x, d) in enumerate(zip(xs, ds, strict=True))
        ]
        chosen = p.bind if ds[0] is None else jax.vmap(jax.lax.select)
        return chosen(pred, *rest), 0

    def transpose(ct: Any, pred: Any, x: Any, y: Any) -> Any:
        zero = jnp.zeros_like(_full(ct))
        to_x = p.bind(pred, ct, zero) if ad.is_undefined_primal(x) else None
        return [None, to_x, p.bind(pred, zero, ct) if ad.is_undefined_primal(y) else None]

    jvp = lambda xs, ts: (p.bind(*xs), p.bind(xs[0], _full(ts[1]), _full(ts[2])))
    same = lambda pred, x, y: x
    p = declared("select_if_vmap", same, same, jvp=jvp, batch=batch, transpose=transpose)
    return p


def _set(select: Any) -> Any:
    """An update of places that are written once, so that what was there before is read by nobody."""

    def chosen(params: Any) -> Any:
        return jax.lax.select if params["makes_false_steps"] else select.bind

    def place(pred: Any, xs: Any, x: Any, *i: Any, **params: Any) -> Any:
        return [xs.at[i].set(chosen(params)(pred, x, xs.at[i].get()))]

    def back(ct: Any, pred: Any, *i: Any, **params: Any) -> Any:
        row = ct.at[i].get()
        return ct, chosen(params)(pred, row, jnp.zeros_like(row))

    return _linear("maybe_set", place, back)


def _linear(name: str, f: Any, back: Any) -> Any:
    """A primitive [f(pred, xs, x, *i)] that is linear in xs and x, whose cotangents are back(ct, pred, *i), batched or not."""

    def transpose(cts: Any, pred: Any, xs: Any, x: Any, *i: Any, **params: Any) -> Any:
        pairs = zip((xs, x), back(cts[0], pred, *i, **params), strict=True)
        found = [t if ad.is_undefined_primal(y) else None for y, t in pairs]
        return [None, *found, *[None] * len(i)]

    def jvp(ps: Any, ts: Any, **params: Any) -> Any:
        moved = [ps[0], _full(ts[1]), _full(ts[2]), *ps[3:]]
        return p.bind(*ps, **params), p.bind(*moved, **params)

    def batch(values: Any, dims: Any, **params: Any) -> Any:
        def over(*xs: Any, **_: Any) -> Any:
            return jax.vmap(lambda *x: f(*x, **params), tuple(dims))(*xs)

        def over_back(ct: Any, *fixed: Any, **_: Any) -> Any:
            each = jax.vmap(lambda *x: back(*x, **params), (0, dims[0], *dims[3:]))(ct, *fixed)
            pairs = zip(each, dims[1:3], strict=True)
            return [t.sum(0) if d is None else jnp.moveaxis(t, 0, d) for t, d in pairs]

        return _linear(f"{name} of a batch", over, over_back).bind(*values), [0]

    def types(*avals: Any, **params: Any) -> Any:
        structs = [jax.ShapeDtypeStruct(a.shape, a.dtype) for a in avals]
        outs = jax.eval_shape(lambda *xs: f(*xs, **params), *structs)
        return [jax.core.ShapedArray(x.shape, x.dtype) for x in outs]

    p = declared(name, f, types, several=True, jvp=jvp, batch=batch, transpose=transpose)
    return p


def _refused(*_: Any, **params: Any) -> Any:
    raise RuntimeError(params.get("msg", "not to be transformed"))


def _announced() -> Any:
    def again(after: str, xs: Any, params: Any) -> Any:
        return p.bind(*xs, **{**params, "stack": (*params["stack"], after)})

    rules = {
        "jvp": lambda ps, ts, **params: (again("jvp_p", ps, params), again("jvp_t", ts, params)),
        "batch": lambda xs, ds, **params: (again("vmap", xs, params), ds),
        "transpose": lambda cts, *_, **params: again("transpose", cts, params),
    }
    same = lambda *xs, **_: [*xs]
    p = declared("announce_jaxpr", same, same, several=True, **rules)
    return p


def _equinox() -> list[Any]:
    same = lambda x, **_: x
    constant = declared(
        "nonbatchable",
        same,
        same,
        batch=lambda xs, ds, **params: (
            (jnp.take(xs[0], 0, axis=ds[0]), None)
            if params["allow_constant_across_batch"]
            else _refused(**params)
        ),
    )
    guarded = declared(
        "nondifferentiable_backward",
        same,
        same,
        jvp=lambda ps, ts, **params: (guarded.bind(*ps, **params), guarded.bind(*ts, **params)),
        batch=lambda xs, ds, **params: (guarded.bind(*xs, **params), ds[0]),
        transpose=lambda ct, _, *, msg, symbolic: _refused(msg=msg) if symbolic else [ct],
    )
    refusals = dict.fromkeys(("jvp", "batch", "transpose"), _refused)
    select = _select()
    return [
        _reduction("unvmap_any", jnp.any),
        _reduction("unvmap_all", jnp.all),
        _reduction("unvmap_max", jnp.max),
        constant,
        guarded,
        declared("nontraceable", same, same, **refusals),
        _announced(),
        select,
        _set(select),
    ]


# -- kfac_jax ----------------------------------------------------------------------------------


def _kfac() -> list[Any]:
    of_layer = lambda xs, *, meta: xs[meta.outputs_index[0]]
    of_loss = lambda xs, *, meta: [
        xs[meta.argument_names.index(name)] for name in meta.parameter_dependants
    ]

    def tag(name: str, chosen: Any, several: bool) -> Any:
        f = lambda *xs, meta: chosen(xs, meta=meta)
        jvp = lambda ps, ts, *, meta: (p.bind(*ps, meta=meta), chosen(ts, meta=meta))
        batch = lambda xs, ds, *, meta: (p.bind(*xs, meta=meta), chosen(ds, meta=meta))
        p = declared(name, f, f, several=several, jvp=jvp, batch=batch)
        return p

    return [tag("layer_tag", of_layer, False), tag("loss_tag", of_loss, True)]
