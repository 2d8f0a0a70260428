"""The bundled starter model; importing the package alone loads no torch, so that its vocabulary can be asked."""
