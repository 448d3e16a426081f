"""Running Python that a model wrote: one interface, one back end that contains it, two others."""
