package words

// GoOn is what an agent hears that has its turn already and was cut off in it by a limit.
const GoOn = "continue: a limit of your account cut your last turn off. Go on where you stopped."
