"""Messages for operations that need JAX or jaxlib where they cannot be imported.

Nothing else needs them.
"""

from __future__ import annotations

import importlib

from jaxprtool.ir.diagnostics import UsageError, fail

__all__ = ["need"]


def need(package: str) -> None:
    """Import a package that the caller cannot do without.

    Args:
      package: `jax` or `jaxlib`.

    Raises:
      UsageError: it is not installed, or broken.
    """
    try:
        importlib.import_module(package)
    except ImportError as e:
        name = {"jax": "JAX", "jaxlib": "jaxlib"}[package]
        message = f"this needs {name}, which cannot be imported: {e}"
        fail(UsageError, message, "no-jax", help="pip install jax")
    except Exception as e:  # a broken installation, such as a jaxlib that does not fit
        message = f"this needs {package}, whose import fails: {type(e).__name__}: {e}"
        fail(UsageError, message, "no-jax", help="pip install --upgrade jax jaxlib")
