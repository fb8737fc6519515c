"""No stored value makes an expression fail, end otherwise, or take long: every form over the edges of every type."""
