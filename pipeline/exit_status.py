"""Exit statuses of the command, by which whatever started it knows what to do next."""

DONE = 0
FAILED = 1
MISTAKE = 2  # the user's; starting it again would end the same
RESTART = 75  # it goes on when it is started again (EX_TEMPFAIL of sysexits.h)
