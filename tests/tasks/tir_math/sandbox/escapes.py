"""All programs of the escape suite, by name."""

from tests.tasks.tir_math.sandbox import escapes_outside, escapes_within

ESCAPES = {
    f"{kind}: {escape.name}": escape
    for kind, escapes in {
        "processes": escapes_within.PROCESSES,
        "resources": escapes_within.RESOURCES,
        "reading": escapes_outside.READING,
        "network": escapes_outside.NETWORK,
        "rights": escapes_outside.RIGHTS,
        "writing": escapes_outside.WRITING,
        "ends": escapes_within.ENDS,
    }.items()
    for escape in escapes
}
