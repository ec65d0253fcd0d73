package words

// GoesOn stands in the events before the text of a turn that a limit cut off and that goes on now.
const GoesOn = "goes on after a limit, with the turn that it had:\n"
