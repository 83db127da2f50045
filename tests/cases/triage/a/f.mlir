module @jit_f {
  func.func public @main(%arg0: tensor<3xf32>) -> (tensor<3xf32> {jax.result_info = "result"}) {
    %0 = stablehlo.sine %arg0 : tensor<3xf32> loc(#loc1)
    return %0 : tensor<3xf32>
  }
}
#loc1 = loc("f.py":1:2)
