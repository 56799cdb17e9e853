"""The one exception for mistakes that the person at the keyboard can mend.

It sits at the lowest layer, and imports nothing, because every layer raises it and the
command turns it into one line on standard error and exit status 2.
"""


class UserError(Exception):
    """A mistake of the user's, told whole in one message.

    The message names the file, line, field or flag; what came and what was expected;
    and what to do about it.
    """
