"""The adapter to XLA: compilation of StableHLO text, and execution.

`client` holds all that talks to jaxlib; the other modules use it and no name of jaxlib's.
"""

from jaxprtool.backends.installed import need

need("jaxlib")
