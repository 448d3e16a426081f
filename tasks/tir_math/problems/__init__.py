"""Generated math problems that a small program solves: 25 kinds over five levels.

The generators are the project's own. reasoning-gym, the library that comes nearest, demands exact
versions that contradict this project's pins, has one wording per kind and dictates the form of the
answer in it.
"""
