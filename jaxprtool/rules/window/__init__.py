"""Rows of operations on windows: reductions (`reduce_window`), and those of their derivatives
(`select_windows`).
"""

from jaxprtool.rules.window import reduce_window as reduce_window
from jaxprtool.rules.window import select_windows as select_windows
