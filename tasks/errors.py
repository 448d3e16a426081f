"""The one exception that stands for a mistake the user can mend."""


class UserError(Exception):
    """A mistake of the user's: what is wrong, where, and what to do.

    The command line prints the message as one line and exits with code 2;
    `--debug` shows the traceback.
    """
