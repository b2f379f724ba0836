"""An FX graph of ATen calls becomes a graph of gex."""
