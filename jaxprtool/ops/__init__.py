"""The vocabulary: one stub for each primitive. `from jaxprtool import ops as lax` is how rules write it.

Every name here is a binding function; its attribute `primitive` is the primitive.
"""

from jaxprtool.ops.asynchronous import *
from jaxprtool.ops.binary import *
from jaxprtool.ops.bits import *
from jaxprtool.ops.bitwise import *
from jaxprtool.ops.calls import *
from jaxprtool.ops.comparison import *
from jaxprtool.ops.composite import *
from jaxprtool.ops.control_flow import *
from jaxprtool.ops.convert import *
from jaxprtool.ops.convolution import *
from jaxprtool.ops.cumulative import *
from jaxprtool.ops.custom_functions import *
from jaxprtool.ops.custom_vmap import *
from jaxprtool.ops.dot_general import *
from jaxprtool.ops.effects import *
from jaxprtool.ops.exponential import *
from jaxprtool.ops.exponents import *
from jaxprtool.ops.fft import *
from jaxprtool.ops.gather import *
from jaxprtool.ops.joining import *
from jaxprtool.ops.linalg.cholesky import *
from jaxprtool.ops.linalg.eigen import *
from jaxprtool.ops.linalg.hessenberg import *
from jaxprtool.ops.linalg.lu import *
from jaxprtool.ops.linalg.qr import *
from jaxprtool.ops.linalg.svd import *
from jaxprtool.ops.linalg.triangular import *
from jaxprtool.ops.linalg.tridiagonal import *
from jaxprtool.ops.linear_solve import *
from jaxprtool.ops.outside import *
from jaxprtool.ops.pallas import *
from jaxprtool.ops.parallel import *
from jaxprtool.ops.placement import *
from jaxprtool.ops.polynomials import *
from jaxprtool.ops.precision import *
from jaxprtool.ops.ragged import *
from jaxprtool.ops.random import *
from jaxprtool.ops.reduction import *
from jaxprtool.ops.remat import *
from jaxprtool.ops.roots import *
from jaxprtool.ops.scaled_dot import *
from jaxprtool.ops.scatter import *
from jaxprtool.ops.searching import *
from jaxprtool.ops.select import *
from jaxprtool.ops.shape import *
from jaxprtool.ops.slicing import *
from jaxprtool.ops.sorting import *
from jaxprtool.ops.special import *
from jaxprtool.ops.state import *
from jaxprtool.ops.trigonometric import *
from jaxprtool.ops.unary import *
from jaxprtool.ops.window import *
from jaxprtool.ops.wrappers import *
