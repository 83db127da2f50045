module @jit_loss {}
