"""Commands that train, and those about inits, tracks and studies."""
