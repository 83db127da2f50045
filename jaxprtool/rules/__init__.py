"""The rows: one `define` for each primitive, by family. Importing this package fills the tables."""

from jaxprtool.rules import binary as binary
from jaxprtool.rules import bits as bits
from jaxprtool.rules import bitwise as bitwise
from jaxprtool.rules import calls as calls
from jaxprtool.rules import comparison as comparison
from jaxprtool.rules import composite as composite
from jaxprtool.rules import control_flow as control_flow
from jaxprtool.rules import convert as convert
from jaxprtool.rules import convolution as convolution
from jaxprtool.rules import cumulative as cumulative
from jaxprtool.rules import custom_functions as custom_functions
from jaxprtool.rules import custom_vmap as custom_vmap
from jaxprtool.rules import dot_general as dot_general
from jaxprtool.rules import effects as effects
from jaxprtool.rules import exponential as exponential
from jaxprtool.rules import fft as fft
from jaxprtool.rules import gather as gather
from jaxprtool.rules import joining as joining
from jaxprtool.rules import linalg as linalg
from jaxprtool.rules import linear_solve as linear_solve
from jaxprtool.rules import parallel as parallel
from jaxprtool.rules import placement as placement
from jaxprtool.rules import precision as precision
from jaxprtool.rules import ragged as ragged
from jaxprtool.rules import random as random
from jaxprtool.rules import reduction as reduction
from jaxprtool.rules import remat as remat
from jaxprtool.rules import scatter as scatter
from jaxprtool.rules import select as select
from jaxprtool.rules import shape as shape
from jaxprtool.rules import slicing as slicing
from jaxprtool.rules import sorting as sorting
from jaxprtool.rules import special as special
from jaxprtool.rules import state as state
from jaxprtool.rules import trigonometric as trigonometric
from jaxprtool.rules import unary as unary
from jaxprtool.rules import window as window
from jaxprtool.rules import wrappers as wrappers
from jaxprtool.rules.define import check_complete

check_complete()
