"""Sample operands of output, callbacks, tokens and checks; the Python functions are known in the process."""

from __future__ import annotations

from typing import Any

import numpy as np

from jaxprtool import ops as lax
from jaxprtool.backends.jax.from_jax import LiveOpaque
from tests.rules.example import Example, arg


def _nothing(*_operands: Any, **_params: Any) -> list[Any]:
    return []


def _callback_in_jax(name: str, function: Any, result: Any, options: dict[str, Any]) -> Any:
    import jax

    module = jax if name == "pure_callback" else jax.experimental
    return lambda *xs, **_: getattr(module, name)(function, result, *xs, **options)


def _called(op: Any, function: Any, types: list[str], result: str, **options: Any) -> Example:
    import jax
    import jax.experimental

    aval = arg(result).aval
    spec = jax.ShapeDtypeStruct(aval.shape, np.dtype(aval.dtype.name))
    name = op.primitive.name
    params = {
        "callback": LiveOpaque(function.__name__, lambda *xs: [function(*xs)]),
        "result_avals": (aval,),
        **options,
    }
    return Example(
        op,
        tuple(map(arg, types)),
        params,
        label=f"{function.__name__}-{options}".replace(" ", ""),
        jax=_callback_in_jax(name, function, spec, options),
        mapped=(op is lax.pure_callback and options["vmap_method"] is not None)
        or (op is lax.io_callback and not options["ordered"]),
    )


def _printed(fmt: str, *types: str, **params: Any) -> Example:
    def in_jax(*xs: Any, fmt: str, static_args: Any = (), **_: Any) -> list[Any]:
        import jax

        jax.debug.print(fmt if "{}" in fmt else fmt + " {}", *[v for _, v in static_args], *xs)
        return []

    return Example(
        lax.debug_print, tuple(map(arg, types)), {"fmt": fmt, **params}, jax=in_jax, label=fmt
    )


def _ignored() -> Example:
    def in_jax(x: Any, **_: Any) -> list[Any]:
        import jax

        jax.debug.callback(_nothing, x)
        return []

    params = {"callback": LiveOpaque("ignore", _nothing)}
    return Example(lax.debug_callback, (arg("f32[2]"),), params, label="ignored", jax=in_jax)


def _inspected() -> Example:
    def in_jax(x: Any, **_: Any) -> list[Any]:
        import jax

        jax.debug.inspect_array_sharding(x, callback=_nothing)
        return []

    params = {"callback": LiveOpaque("ignore", _nothing)}
    return Example(lax.inspect_sharding, (arg("f32[2]"),), params, jax=in_jax)


def _sunk() -> Example:
    def in_jax(x: Any, **_: Any) -> list[Any]:
        from jax._src.lax import lax as lax_of_jax

        lax_of_jax.dce_sink(x)
        return []

    return Example(lax.dce_sink, (arg("f32[2]"),), {}, jax=in_jax)


def _with_token(make: Any) -> Any:
    """A token is no array: what is given comes out, beside a token that was made."""

    def op(x: Any) -> Any:
        make()
        return x

    return op


def _checked(debug: bool) -> Example:
    """In JAX a check runs only where it is for debugging, and does nothing there."""

    def in_jax(failed: Any, code: Any, **_: Any) -> list[Any]:
        from jax.experimental import checkify

        checkify.debug_check(~failed, "failed with {}", code)
        return []

    operands = (arg("bool[]", values=debug), arg("i32[]"))
    return Example(lax.check, operands, {"debug": debug}, jax=in_jax)


def _double(x: Any) -> Any:
    return x * 2


def _plus(x: Any, y: Any) -> Any:
    return x + y


def _token_in_jax(x: Any) -> Any:
    from jax.extend.core import primitives

    primitives.after_all_p.bind(primitives.create_token_p.bind(), primitives.create_token_p.bind())
    return x


EXAMPLES = [
    *[
        _called(lax.pure_callback, _plus, ["f64[3]", "f64[3]"], "f64[3]", vmap_method=m)
        for m in ("sequential", "expand_dims", "broadcast_all")
    ],
    _called(lax.pure_callback, _double, ["i32[]"], "i32[]", vmap_method="sequential"),
    *[
        _called(lax.io_callback, _double, [t], t, ordered=ordered)
        for t in ("f32[2]", "i32[]")
        for ordered in (False, True)
    ],
    *[
        _ignored(),
        _inspected(),
        _sunk(),
        _printed("x = {} and {}", "f32[2]", "i32[]"),
        _printed("x =", "f32[2]", has_placeholders=False),
        _printed("x = {}", "f64[2]", np_printoptions=(("precision", 1),)),
        _printed("{} before {}", "f32[]", static_args=((0, "this"),)),
    ],
    _checked(False),
    _checked(True),
    Example(
        _with_token(lax.create_token), (arg("f32[2]"),), jax=_token_in_jax, of=lax.create_token
    ),
    Example(
        _with_token(lambda: lax.after_all(lax.create_token(), lax.create_token())),
        (arg("f32[2]"),),
        jax=_token_in_jax,
        of=lax.after_all,
    ),
]
