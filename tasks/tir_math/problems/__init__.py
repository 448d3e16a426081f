"""Generated math problems that a small program solves: 25 kinds over five levels.

The generators are the project's own. reasoning-gym, the closest library, requires exact versions
that conflict with this project's pins, has one wording per kind and prescribes the form of the
answer.
"""
