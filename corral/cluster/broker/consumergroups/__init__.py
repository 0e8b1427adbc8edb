"""Consumer groups: who is a member, what each was assigned, how far they have read.

:mod:`group` is the state machine of one group, without I/O and with the time given to it;
:mod:`offsets` keeps what was committed; :mod:`coordinator` has the clock and the waiting.
Members are not kept over a restart: they join again, and go on from what they committed.
"""
