module @main {
  func.func public @main(%arg0: tensor<3xf32>) -> (tensor<3xf32> {jax.result_info = "result"}) {
    %sin = stablehlo.sine %arg0 : tensor<3xf32>
    return %sin : tensor<3xf32>
  }
}
