package words

// Again stands in events before the text of a turn: words for one that a limit cut off and that goes on now, nothing for any other.
var Again = map[bool]string{true: "goes on after a limit, with the turn that it had:\n"}
